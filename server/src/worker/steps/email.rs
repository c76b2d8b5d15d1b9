//! E-mail: one message for each recipient, rendered once, handed to the channel one after the other.
//!
//! A recipient whose server cannot be reached is tried again after the others had their turn, so that one bad address
//! holds nobody up. Every act has its intent committed before (`in_flight`), the point of no return (`in_doubt`), and its
//! outcome after; a cancel between any two of these meets the guard of the next.

use crate::worker::{
    mailing::{notices, outgoing},
    reconcile,
    run::{StepError, Work},
};
use async_trait::async_trait;
use contract::{Effect, JobKind, NotDone, Outcome, Refusal, StepKind, Verdict};
use mail::{
    channel::{Channel, Delivery, DeliveryPhase, Journal, Outgoing, Refused, Retry, Stop},
    compose::compose,
};
use std::time::Duration;
use store::{Message, Record, StoreError};

/// Runs the step.
pub async fn run(work: &Work) -> Result<(), StepError> {
    let mut now = record(work).await?;
    render_messages(work, &now).await?;
    if now.job.emails().any(|email| email.outcome == Outcome::Unconfirmed) {
        work.pulse.allow(work.dependencies.channel.longest() * u32::try_from(now.job.emails().count()).unwrap_or(u32::MAX));
        // Asking starts nothing, but a service may be slow to answer, and a Cancel must not wait for that.
        work.unless_stopped(Box::pin(reconcile::unconfirmed_emails(&work.dependencies, work.claim.id))).await??;
        now = record(work).await?;
    }
    for pause in std::iter::once(Duration::ZERO).chain(work.dependencies.mail_pauses.iter().copied()) {
        let waiting: Vec<u32> = now.job.emails().filter(|email| email.may_begin()).map(|email| email.number).collect();
        if waiting.is_empty() {
            break;
        }
        work.pause(pause).await?;
        for number in waiting {
            send(work, number).await?;
        }
        now = record(work).await?;
    }
    let mut change = work.change().await?;
    change.job.complete_step(work.claim.epoch, StepKind::Email)?;
    change.commit().await?;
    Ok(())
}

async fn record(work: &Work) -> Result<Record, StepError> {
    work.dependencies.store.job(work.claim.id).await?.ok_or(StepError::Stopped)
}

/// Renders every message before the first attempt at any. What is stored already stays; a second copy's was stored with it.
async fn render_messages(work: &Work, record: &Record) -> Result<(), StepError> {
    let dependencies = &work.dependencies;
    work.progress(StepKind::Email, 0, record.job.emails().count()).await?;
    if record.job.kind == JobKind::SecondCopy {
        return Ok(());
    }
    let notices = notices(dependencies, record).await?.ok_or_else(|| {
        StepError::Failed("The report, or a recipient's address, cannot be read any more. Start the report again.".into())
    })?;
    let mut messages = Vec::new();
    for (number, notice) in notices {
        let composed = compose(&notice).map_err(|error| StepError::Failed(error.to_string()))?;
        let message = Message {
            sender: dependencies.sender.email.to_string(),
            recipient: notice.to.to_string(),
            message_id: composed.message_id,
            sha256: composed.sha256.to_vec(),
            bytes: composed.bytes,
        };
        messages.push((number, message));
    }
    let mut change = work.change().await?;
    change.job.may_go_on(work.claim.epoch)?;
    for (number, message) in &messages {
        change.insert_message(*number, message).await?;
    }
    change.commit().await?;
    Ok(())
}

/// One attempt for one recipient.
async fn send(work: &Work, number: u32) -> Result<(), StepError> {
    work.check()?;
    work.ready().await?;
    let mut change = work.change().await?;
    // With the attempt's intent: rounds of attempts take minutes, and the report may be withdrawn between two.
    if change.job.kind == JobKind::SecondCopy && change.is_withdrawn().await? {
        return Err(StepError::Failed("The report was withdrawn before its link went out again.".into()));
    }
    change.job.begin_email(work.claim.epoch, number, work.dependencies.channel.via())?;
    let effect = change.job.effect(number).cloned().ok_or(Refusal::OutOfOrder("no such effect"))?;
    change.commit().await?;

    let verdict = match outgoing(&work.dependencies.store, work.claim.id, &effect).await? {
        Some(outgoing) => deliver(work, &effect, &outgoing).await,
        None => Verdict::NotDone(NotDone::GaveUp, "the stored message cannot be read".into()),
    };
    work.settle(number, verdict).await
}

async fn deliver(work: &Work, effect: &Effect, outgoing: &Outgoing) -> Verdict {
    let stop = Stop { cancel: work.halt.stop.clone(), give_up: work.halt.give_up.clone() };
    let journal = Doubt { work, number: effect.number };
    let channel: &dyn Channel = work.dependencies.channel.as_ref();
    let exhausted = usize::try_from(effect.attempts).is_ok_and(|attempts| attempts > work.dependencies.mail_pauses.len());
    work.pulse.allow(channel.longest());
    match channel.deliver(outgoing, &journal, &stop).await {
        Delivery::Accepted { evidence, peer } => Verdict::Done(format!("{evidence} ({peer})")),
        Delivery::NotAccepted { phase, evidence, retry } => {
            let why = match retry {
                Retry::NeedsPerson
                    if matches!(
                        phase,
                        DeliveryPhase::MailFrom
                            | DeliveryPhase::RcptTo
                            | DeliveryPhase::Data
                            | DeliveryPhase::Body
                            | DeliveryPhase::FinalDot
                            | DeliveryPhase::Answer
                    ) =>
                {
                    NotDone::Refused
                }
                Retry::NeedsPerson => NotDone::GaveUp,
                Retry::Later if exhausted => NotDone::GaveUp,
                Retry::Later => NotDone::Unreached,
            };
            Verdict::NotDone(why, format!("{evidence} ({phase})"))
        }
        Delivery::BrokenOff { phase, .. } => {
            let whose = if work.halt.shutdown.is_cancelled() { "; the program was shutting down" } else { "" };
            let why = if exhausted && !work.halt.stop.is_cancelled() { NotDone::GaveUp } else { NotDone::BrokenOff };
            Verdict::NotDone(why, format!("broken off before the message was handed over, {phase}{whose}"))
        }
        Delivery::Unconfirmed { evidence } => Verdict::Unconfirmed(evidence),
    }
}

/// Commits `in_doubt` under the job's guard.
struct Doubt<'a> {
    work: &'a Work,
    number: u32,
}

#[async_trait]
impl Journal for Doubt<'_> {
    async fn in_doubt(&self) -> Result<(), Refused> {
        let store = &self.work.dependencies.store;
        let storage = |error: StoreError| match error {
            StoreError::Refused(Refusal::CancelRequested) => Refused::Cancelled,
            StoreError::Refused(Refusal::LeaseLost) => Refused::LeaseLost,
            other => Refused::Storage(other.to_string()),
        };
        let mut change = store.change_job(self.work.claim.id).await.map_err(storage)?.ok_or(Refused::LeaseLost)?;
        change.job.doubt(self.work.claim.epoch, self.number).map_err(|refusal| storage(refusal.into()))?;
        debug_assert!(change.job.effect(self.number).is_some_and(|effect| effect.outcome == Outcome::InDoubt));
        change.commit().await.map_err(storage)?;
        Ok(())
    }
}
