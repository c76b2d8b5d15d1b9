//! Asks the channel about e-mails that are unconfirmed. Only a channel that can prove the answer settles anything (the outbox
//! can, SMTP cannot); not having seen a message proves nothing.
//!
//! It takes no input and runs again and again, so a crash in the middle, or a channel that is out of order for a while, costs
//! nothing.

use super::{Services, mailing::outgoing};
use crate::{
    id::JobId,
    mail::channel::Reconciled,
    store::{EffectFilter, EffectPart, StoreError},
};
use app::contract::{EffectKind, NotDone, Outcome, Refusal, Verdict};
use std::collections::BTreeSet;

/// How many unconfirmed e-mails one round looks at, the newest first.
const AT_ONCE: u32 = 200;

/// Settles what can be proved about unconfirmed e-mails of all jobs.
pub async fn all(services: &Services) {
    let filter = EffectFilter { outcome: Some(Outcome::Unconfirmed), kind: Some(EffectKind::Email), ..EffectFilter::default() };
    let jobs: BTreeSet<JobId> = match services.store.effects(EffectPart::Open, &filter, None, AT_ONCE).await {
        Ok(entries) => entries.into_iter().map(|entry| entry.job_id).collect(),
        Err(error) => return tracing::warn!(%error, "unconfirmed e-mails could not be listed"),
    };
    for id in jobs {
        if let Err(error) = unconfirmed_emails(services, id).await {
            tracing::warn!(job = %id, %error, "the unconfirmed e-mails of job {id} could not be reconciled");
        }
    }
}

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
        match change.job.reconcile(effect.number, verdict) {
            Ok(()) => {
                change.commit().await?;
            }
            // Its own worker has brought the evidence meanwhile.
            Err(Refusal::OutOfOrder(_)) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Ok(())
}
