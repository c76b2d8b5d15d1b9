//! Asks the channel about e-mails that a dead worker left unconfirmed. Only a channel that can prove the answer settles
//! anything (the outbox can, SMTP cannot); not having seen a message proves nothing.

use super::{Services, mailing::outgoing};
use crate::{id::JobId, mail::channel::Reconciled, store::StoreError};
use app::contract::{NotDone, Outcome, Verdict};

/// Settles what can be proved about the unconfirmed e-mails of a job.
pub async fn unconfirmed_emails(services: &Services, id: JobId) -> Result<(), StoreError> {
    let Some(record) = services.store.job(id).await? else { return Ok(()) };
    let unconfirmed: Vec<_> = record.job.emails().filter(|email| email.outcome == Outcome::Unconfirmed).cloned().collect();
    for effect in unconfirmed {
        let Some(message) = services.store.message(id, effect.number).await? else { continue };
        let Some(outgoing) = outgoing(id, &effect, &message) else { continue };
        let verdict = match services.channel.reconcile(&outgoing).await {
            Reconciled::Accepted { evidence } => Verdict::Done(evidence),
            Reconciled::NotAccepted { evidence } => Verdict::NotDone(NotDone::BrokenOff, evidence),
            Reconciled::NotKnown { .. } => continue,
        };
        let Some(mut change) = services.store.change_job(id).await? else { return Ok(()) };
        change.job.reconcile(effect.number, verdict)?;
        change.commit().await?;
    }
    Ok(())
}
