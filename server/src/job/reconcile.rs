//! Finds out what became of unconfirmed e-mails.
//!
//! A channel that can prove it (the outbox) is asked again and again. Where the answer of a mail server was lost, the places
//! that may know are looked at on a schedule, and every look is kept as evidence; not having seen a message proves nothing, so
//! only a find or a person settles. No memory is needed: a crash in the middle, or a place that is out of order for a while,
//! costs nothing.

use super::{
    Services,
    mailing::{attempt_id, outgoing},
};
use crate::{
    id::JobId,
    mail::{
        channel::Reconciled,
        look::{Finding, Look, Wanted},
    },
    store::{DueLook, EffectFilter, EffectPart, LookResult, StoreError},
};
use app::contract::{EffectKind, NotDone, Outcome, Verdict};
use chrono::TimeDelta;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How many unconfirmed e-mails the channel is asked about in one round, the newest first.
const AT_ONCE: u32 = 200;
/// The longest pause between two rounds.
const ROUND: Duration = Duration::from_secs(30);

/// Goes on until `stop`. A task of its own: a slow archive must not keep jobs waiting.
pub async fn run(services: Arc<Services>, stop: CancellationToken) {
    loop {
        // A task for each round: a bug in one place must not end the looks for good.
        let round = AbortOnDropHandle::new(tokio::spawn({
            let services = services.clone();
            async move {
                all(&services).await;
                due_looks(&services).await;
            }
        }));
        match stop.run_until_cancelled(round).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "a round of the reconciliation ended abnormally"),
        }
        if stop.run_until_cancelled(async { sleep(pause(&services).await).await }).await.is_none() {
            return;
        }
    }
}

/// Until the next look, or the next round.
async fn pause(services: &Services) -> Duration {
    let next = match services.store.next_look().await {
        Ok(Some(next)) if !services.looks.is_empty() => next,
        _ => return ROUND,
    };
    (next - services.store.clock().now()).max(TimeDelta::milliseconds(100)).to_std().map_or(ROUND, |left| left.min(ROUND))
}

/// Settles what the channel can prove about unconfirmed e-mails of all jobs.
async fn all(services: &Services) {
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

/// Settles what the channel can prove about the unconfirmed e-mails of a job.
pub(super) async fn unconfirmed_emails(services: &Services, id: JobId) -> Result<(), StoreError> {
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
        services.store.settle_by_channel(id, effect.number, verdict).await?;
    }
    Ok(())
}

/// Makes the looks that are due.
pub async fn due_looks(services: &Services) {
    if services.looks.is_empty() {
        return;
    }
    let due = match services.store.due_looks().await {
        Ok(due) => due,
        Err(error) => return tracing::warn!(%error, "the looks that are due could not be listed"),
    };
    for look in due {
        if let Err(error) = look_everywhere(services, &look).await {
            tracing::warn!(job = %look.job, %error, "a look for an unconfirmed e-mail of job {} could not be recorded", look.job);
        }
    }
}

/// Looks at every place in turn, until one has proof.
async fn look_everywhere(services: &Services, due: &DueLook) -> Result<(), StoreError> {
    let Some(wanted) = wanted(services, due).await? else { return Ok(()) };
    for place in services.looks.iter() {
        if look_at(services, due, place.as_ref(), &wanted).await? == LookResult::Found {
            break;
        }
    }
    Ok(())
}

async fn look_at(services: &Services, due: &DueLook, place: &dyn Look, wanted: &Wanted) -> Result<LookResult, StoreError> {
    let store = &services.store;
    if !store.begin_look(due, place.name()).await? {
        return Ok(LookResult::Nothing);
    }
    let (result, evidence) = match place.look(wanted).await {
        Finding::Accepted { evidence } => (LookResult::Found, evidence),
        Finding::Nothing { asked } => (LookResult::Nothing, asked),
        Finding::Failed { reason } => (LookResult::Failed, reason),
    };
    store.end_look(due, place.name(), result, &evidence).await
}

async fn wanted(services: &Services, due: &DueLook) -> Result<Option<Wanted>, StoreError> {
    let Some(message) = services.store.message(due.job, due.number).await? else { return Ok(None) };
    let Some(record) = services.store.effect(due.job, due.number).await? else { return Ok(None) };
    let may_be_accepted = record.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Unconfirmed);
    let handed_over = may_be_accepted.clone().filter_map(|attempt| attempt.in_doubt_at).min();
    let Ok(recipient) = message.recipient.parse() else { return Ok(None) };
    Ok(Some(Wanted {
        message_id: message.message_id,
        envelope_ids: may_be_accepted.map(|attempt| attempt_id(due.job, due.number, attempt.number)).collect(),
        recipient,
        since: handed_over.unwrap_or(due.since),
    }))
}
