//! Finds out what became of unconfirmed e-mails.
//!
//! A channel that can prove it at no cost (the outbox) is asked again and again. Where the answer of a mail server was lost,
//! the places that may know are looked at on a schedule, and every look is kept as evidence; not having seen a message proves
//! nothing, so only a find or a person settles. A service that recognises a message by its key is given the same message once
//! more: it answers as it did the first time. No memory is needed: a crash in the middle, or a place that is out of order for
//! a while, costs nothing.

use super::{Dependencies, mailing::outgoing};
use contract::{EffectKind, NotDone, Outcome, Unconfirmed, Verdict};
use domain::id::JobId;
use mail::{
    channel::{Asking, Channel, Outgoing, Reconciled},
    key::recognised,
    probe::{Finding, Probe, Wanted},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use store::{DueProbe, EffectFilter, EffectPart, EffectRecord, ProbeResult, StoreError, complain};
use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How many unconfirmed e-mails the channel is asked about in one round, the newest first.
const AT_ONCE: u32 = 200;
/// The longest pause between two rounds.
const ROUND: Duration = Duration::from_secs(30);

/// Goes on until `stop`. A task of its own: a slow archive must not keep jobs waiting.
pub async fn run(dependencies: Arc<Dependencies>, stop: CancellationToken) {
    loop {
        // A task for each round: a bug in one place must not end the looks for good.
        let round = AbortOnDropHandle::new(tokio::spawn({
            let dependencies = dependencies.clone();
            async move {
                all(&dependencies).await;
                due_probes(&dependencies).await;
            }
        }));
        match stop.run_until_cancelled(round).await {
            None => return,
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "a round of the reconciliation ended abnormally"),
        }
        if stop.run_until_cancelled(async { sleep(pause(&dependencies).await).await }).await.is_none() {
            return;
        }
    }
}

/// Until the next look, or the next round.
async fn pause(dependencies: &Dependencies) -> Duration {
    let Ok(Some(next)) = dependencies.store.next_look().await else { return ROUND };
    // A look that is due and cannot be made must not be asked for all the time.
    let left = (next - dependencies.store.clock().now()).to_std().unwrap_or(ROUND);
    left.clamp(Duration::from_secs(1), ROUND)
}

/// Settles what the channel can prove about unconfirmed e-mails of all jobs.
async fn all(dependencies: &Dependencies) {
    if dependencies.channel.asking() != Asking::Freely {
        return;
    }
    let filter = EffectFilter { outcome: Some(Outcome::Unconfirmed), kind: Some(EffectKind::Email), ..EffectFilter::default() };
    let jobs: BTreeSet<JobId> = match dependencies.store.effects(EffectPart::Open, &filter, None, AT_ONCE).await {
        Ok(entries) => entries.into_iter().map(|entry| entry.job_id).collect(),
        Err(error) => return complain("unconfirmed e-mails could not be listed", &error),
    };
    for id in jobs {
        if let Err(error) = unconfirmed_emails(dependencies, id).await {
            complain(format_args!("the unconfirmed e-mails of job {id} could not be reconciled"), &error);
        }
    }
}

/// Settles what the channel can prove about the unconfirmed e-mails of a job.
pub(super) async fn unconfirmed_emails(dependencies: &Dependencies, id: JobId) -> Result<(), StoreError> {
    let Some(record) = dependencies.store.job(id).await? else { return Ok(()) };
    let unconfirmed: Vec<_> = record.job.emails().filter(|email| email.outcome == Outcome::Unconfirmed).cloned().collect();
    for effect in unconfirmed {
        let Some(outgoing) = outgoing(&dependencies.store, id, &effect).await? else { continue };
        let verdict = match dependencies.channel.reconcile(&outgoing).await {
            Reconciled::Accepted { evidence } => Verdict::Done(evidence),
            // The original may have handed it over from another place, or after the folder was copied.
            Reconciled::NotAccepted { .. }
                if effect.is_copied() || dependencies.store.begun_by_original(&outgoing.message_id).await? =>
            {
                continue;
            }
            Reconciled::NotAccepted { evidence } => Verdict::NotDone(NotDone::BrokenOff, evidence),
            Reconciled::NotKnown { .. } | Reconciled::NotAsked { .. } => continue,
        };
        dependencies.store.settle_by_channel(id, effect.number, verdict).await?;
    }
    Ok(())
}

/// Where an unconfirmed e-mail is looked for, as screens call it.
pub fn places(dependencies: &Dependencies) -> Vec<String> {
    let channel: &dyn Channel = dependencies.channel.as_ref();
    let mut places: Vec<String> = dependencies.probes.iter().map(|look| look.name().to_owned()).collect();
    if channel.asking() == Asking::Sparingly {
        places.push(channel.name().to_owned());
    }
    if channel.key_header("").is_some() {
        places.push(by_key(channel));
    }
    places
}

fn by_key(channel: &dyn Channel) -> String {
    format!("{}, by the message's key", channel.name())
}

/// Makes the looks that are due.
pub async fn due_probes(dependencies: &Dependencies) {
    // Without a place no look is ever made, and every e-mail would be due for ever.
    if places(dependencies).is_empty() {
        return;
    }
    let due = match dependencies.store.due_probes().await {
        Ok(due) => due,
        Err(error) => return complain("the probes that are due could not be listed", &error),
    };
    for look in due {
        if let Err(error) = look_everywhere(dependencies, &look).await {
            complain(format_args!("a look for an unconfirmed e-mail of job {} could not be recorded", look.job), &error);
        }
    }
}

/// Probes at every place in turn, until one has proof. Where none has, the service is asked by the message's key.
async fn look_everywhere(dependencies: &Dependencies, due: &DueProbe) -> Result<(), StoreError> {
    let Some(wanted) = wanted(dependencies, due).await? else { return Ok(()) };
    for place in dependencies.probes.iter() {
        let place: &dyn Probe = place.as_ref();
        let look = async {
            match place.look(&wanted).await {
                Finding::Accepted { evidence } => (ProbeResult::Found, evidence),
                Finding::Hint { seen } => (ProbeResult::Hint, seen),
                Finding::Nothing { asked } => (ProbeResult::Nothing, asked),
                Finding::Failed { reason } => (ProbeResult::Failed, reason),
            }
        };
        if recorded(dependencies, due, place.name(), look).await? == ProbeResult::Found {
            return Ok(());
        }
    }
    let channel: &dyn Channel = dependencies.channel.as_ref();
    let Some(message) = attempt(dependencies, due).await? else {
        // A copy may have been made before the message was.
        if places(dependencies).len() > dependencies.probes.len() {
            recorded(dependencies, due, channel.name(), async { (ProbeResult::Failed, "the message is not stored here".into()) })
                .await?;
        }
        return Ok(());
    };
    if channel.asking() == Asking::Sparingly
        && recorded(dependencies, due, channel.name(), async { found(channel.reconcile(&message).await) }).await?
            == ProbeResult::Found
    {
        return Ok(());
    }
    if may_hand_over_again(dependencies, due, &message).await? {
        recorded(dependencies, due, &by_key(channel), async { found(channel.ask_again(&message).await) }).await?;
    }
    Ok(())
}

/// What a channel's answer is as a look. Only an acceptance is a find: a refusal of a repetition says nothing about the first
/// message.
fn found(answer: Reconciled) -> (ProbeResult, String) {
    match answer {
        Reconciled::Accepted { evidence } => (ProbeResult::Found, evidence),
        Reconciled::NotAccepted { evidence } | Reconciled::NotKnown { evidence } => (ProbeResult::Nothing, evidence),
        Reconciled::NotAsked { reason } => (ProbeResult::Failed, reason),
    }
}

/// Makes a look between its two entries in the record. Another worker's look counts as nothing found.
async fn recorded(
    dependencies: &Dependencies,
    due: &DueProbe,
    place: &str,
    look: impl Future<Output = (ProbeResult, String)>,
) -> Result<ProbeResult, StoreError> {
    if !dependencies.store.begin_look(due, place).await? {
        return Ok(ProbeResult::Nothing);
    }
    let (result, evidence) = look.await;
    dependencies.store.end_look(due, place, result, &evidence).await
}

/// The latest attempt at an e-mail.
async fn attempt(dependencies: &Dependencies, due: &DueProbe) -> Result<Option<Outgoing>, StoreError> {
    let store = &dependencies.store;
    let Some(record) = store.job(due.job).await? else { return Ok(None) };
    match record.job.effect(due.number) {
        Some(effect) => outgoing(store, due.job, effect).await,
        None => Ok(None),
    }
}

/// Whether handing a message over again cannot make a second one. If the first attempt never arrived, this one does, so it is
/// never done for a job that somebody has cancelled, nor while one can still be cancelled. Nor for an e-mail of the original in a
/// restored copy: nobody here knows what the original has made of it.
async fn may_hand_over_again(dependencies: &Dependencies, due: &DueProbe, message: &Outgoing) -> Result<bool, StoreError> {
    let store = &dependencies.store;
    let (Some(life), Some(record)) = (dependencies.channel.key_life(message), store.job(due.job).await?) else {
        return Ok(false);
    };
    if record.job.copied.is_some()
        || record.job.cancel_requested
        || !record.job.phase.is_final()
        || store.is_withdrawn(due.job).await?
    {
        return Ok(false);
    }
    if store.begun_by_original(&message.message_id).await? {
        return Ok(false);
    }
    let first = store.first_attempt_at(&message.message_id).await?;
    // By either clock: one that was set since would make the key younger than it is.
    let (now, lease_now) = (store.clock().now(), store.lease_time().await?);
    Ok(first.is_some_and(|first| recognised(life, first, now) && recognised(life, first, lease_now)))
}

async fn wanted(dependencies: &Dependencies, due: &DueProbe) -> Result<Option<Wanted>, StoreError> {
    let Some(record) = dependencies.store.effect(due.job, due.number).await? else { return Ok(None) };
    let EffectRecord { entry, .. } = &record;
    let Some(message_id) = entry.message_id.clone() else { return Ok(None) };
    let may_be_accepted = record.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Unconfirmed);
    let handed_over = may_be_accepted.clone().filter_map(|attempt| attempt.in_doubt_at).min();
    let Ok(recipient) = entry.target.parse() else { return Ok(None) };
    let ids = dependencies.store.envelope_ids(due.job, due.number).await?;
    let envelope_ids = may_be_accepted.filter_map(|attempt| ids.get(&attempt.number).copied()).collect();
    // In a copy nobody knows when the original handed it over.
    let unknown = if entry.unconfirmed == Some(Unconfirmed::Copied) { entry.created_at } else { due.since };
    Ok(Some(Wanted { envelope_ids, message_id, recipient, since: handed_over.unwrap_or(unknown) }))
}
