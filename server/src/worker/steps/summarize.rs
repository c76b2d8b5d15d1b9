//! Summarize: the collected documents become a draft. Each model call is an effect with its intent committed before it.

use crate::worker::run::{StepError, Work, drop_unbegun};
use async_trait::async_trait;
use contract::{NotDone, StepKind, Verdict};
use std::{sync::Mutex, time::Duration};
use store::StoreError;
use summarize::{CallHandle, CallIntent, CallOutcome, Ledger, Received, SourceText, Stopped, SummarizeError, Task};

/// Runs the step.
pub async fn run(work: &Work) -> Result<(), StepError> {
    let store = &work.dependencies.store;
    let documents = store
        .documents(work.claim.id)
        .await?
        .into_iter()
        .filter_map(|document| {
            Some(SourceText {
                number: document.number?,
                name: document.title.unwrap_or(document.name),
                date: document.date.unwrap_or_default(),
                text: document.text?,
            })
        })
        .collect();
    let spec = &work.claim.spec;
    let task = Task { title: spec.month.title(), instructions: spec.instructions.clone(), documents };
    let summarizer = work.dependencies.summarizer.open(store.clock()).map_err(in_words)?;
    let ledger = JobLedger { work, longest: summarizer.longest(), trouble: Mutex::new(None) };
    work.pulse.allow(ledger.longest);
    let draft = summarizer.summarize(&task, &ledger, &work.halt.stop).await;
    if let Some(error) = ledger.trouble.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(StepError::Store(error));
    }
    let draft = serde_json::to_string(&draft.map_err(in_words)?).map_err(StoreError::from)?;
    // The model's answers cost money and time: they are not asked for again because the database is in trouble.
    work.patiently(|| async {
        let Some(mut change) = work.change_in(StepKind::Summarize).await? else { return Ok(()) };
        change.job.complete_step(work.claim.epoch, StepKind::Summarize)?;
        change.insert_summary(&draft).await?;
        change.commit().await?;
        Ok(())
    })
    .await
}

fn in_words(error: SummarizeError) -> StepError {
    match error {
        SummarizeError::Stopped => StepError::Stopped,
        SummarizeError::Failed { reason } => StepError::Failed(reason),
    }
}

/// The record of model calls, in the job's record.
struct JobLedger<'a> {
    work: &'a Work,
    /// [`Summarizer::longest`].
    longest: Duration,
    /// What went wrong with the database; the summarizer only learns that it must stop.
    trouble: Mutex<Option<StoreError>>,
}

impl JobLedger<'_> {
    fn stop(&self, error: StepError) -> Stopped {
        if let StepError::Store(error) = error {
            *self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
        }
        Stopped
    }

    async fn begin(&self, call: &CallIntent) -> Result<u32, StepError> {
        self.work.ready().await?;
        let mut change = self.work.change().await?;
        drop_unbegun(&mut change.job, self.work.claim.epoch)?;
        let number = change.job.begin_model_call(self.work.claim.epoch)?;
        let again = if call.attempt > 1 { format!(", attempt {}", call.attempt) } else { String::new() };
        change
            .name_target(number, format!("Model call {} of {} to {} at {}{again}", call.number, call.of, call.model, call.host));
        change.commit().await?;
        self.work.pulse.allow(self.longest);
        Ok(number)
    }

    async fn end(&self, number: u32, verdict: Verdict) -> Result<(), StepError> {
        self.work.settle(number, verdict).await?;
        self.work.check()
    }
}

#[async_trait]
impl Ledger for JobLedger<'_> {
    async fn call_intended(&self, call: &CallIntent) -> Result<CallHandle, Stopped> {
        let number = self.work.patiently(|| self.begin(call)).await.map_err(|error| self.stop(error))?;
        Ok(CallHandle(number.to_string()))
    }

    async fn call_ended(&self, handle: &CallHandle, outcome: CallOutcome) -> Result<(), Stopped> {
        let Ok(number) = handle.0.parse() else { return Err(Stopped) };
        self.end(number, verdict(outcome)).await.map_err(|error| self.stop(error))
    }

    async fn progress(&self, done: u32, total: u32) -> Result<(), Stopped> {
        let count = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        self.work.progress(StepKind::Summarize, count(done), count(total)).await.map_err(|error| self.stop(error))?;
        self.work.check().map_err(|error| self.stop(error))?;
        self.work.pulse.allow(self.longest);
        Ok(())
    }
}

fn verdict(outcome: CallOutcome) -> Verdict {
    match outcome {
        CallOutcome::Answered { evidence } => {
            let mut parts = vec![format!("{} characters", evidence.characters)];
            parts.extend(evidence.tokens_in.map(|n| format!("{n} tokens in")));
            parts.extend(evidence.tokens_out.map(|n| format!("{n} tokens out")));
            parts.extend(evidence.finish_reason.map(|reason| format!("ended by {reason}")));
            parts.extend(evidence.provider_id.map(|id| format!("id {id}")));
            Verdict::Done(parts.join(", "))
        }
        CallOutcome::NotStarted => Verdict::NotDone(NotDone::BrokenOff, "stopped before anything was sent".into()),
        CallOutcome::Failed { reason } => Verdict::NotDone(NotDone::Unreached, reason),
        CallOutcome::BrokenOff { received, reason } => {
            Verdict::NotDone(NotDone::BrokenOff, format!("{reason} {}; the provider may have gone on.", in_all(received)))
        }
    }
}

/// What had come of an answer. Bytes without text are said too: a flood is not silence.
fn in_all(Received { characters, bytes }: Received) -> String {
    if characters == 0 && bytes > 0 {
        format!("{bytes} bytes had been received, but no text of an answer")
    } else {
        format!("{characters} characters had been received")
    }
}
