//! Turns a month's documents into statements that name their sources.
//!
//! Two kinds of summarizer stand behind one trait: the built-in one, which picks sentences and needs neither network
//! nor key, and language models. Both give a [`Draft`]: sections of statements, each with citations that lead to bytes
//! of a source, so that a reader can check every line. Figures and dates that stand in no source are found by code
//! ([`figures`]), never by the model that may have made them up.

mod choice;
pub mod extractive;
pub mod figures;
mod inline;
pub mod ledger;
pub mod model;
mod sentences;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use choice::SummarizerChoice;
pub use extractive::ExtractiveSummarizer;
pub use ledger::{CallEvidence, CallHandle, CallIntent, CallOutcome, Ledger, MemoryLedger, Received, Stopped};
pub use model::{ModelSettings, ModelSummarizer, Provider};

/// How soon a computation must notice a cancel. Between two of its checks it works on one sentence or one round of ranking.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// How long one computation may take.
const LONGEST_COMPUTATION: Duration = Duration::from_mins(15);

/// One document as text, ready to be summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceText {
    /// The document's number in the report, counted from 1.
    pub number: u32,
    /// The name that people know it by, usually its file name.
    pub name: String,
    /// Its date as shown to people, for example `2026-06-10`.
    pub date: String,
    /// All of its text; citations count bytes of this string.
    pub text: String,
}

/// Where a statement stands in a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Citation {
    /// [`SourceText::number`] of the document.
    pub document: u32,
    /// First byte of the passage in the document's text, on a character boundary.
    pub start: usize,
    /// The byte after the passage, on a character boundary.
    pub end: usize,
    /// The passage itself, `text[start..end]`, kept so that a report stays readable when its source is gone.
    pub quote: String,
}

/// One claim of the report with its sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Plain text: never Markdown, HTML or a link.
    pub text: String,
    /// The passages it rests on. Empty means that the model gave no valid source, which the report says.
    pub citations: Vec<Citation>,
    /// Figures and dates of the statement that stand in no source, as written in the statement.
    pub unsupported: Vec<String>,
}

/// Statements under one heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Plain text.
    pub heading: String,
    /// In reading order.
    pub statements: Vec<Statement>,
}

/// Who summarized, in the words shown on the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// For example `Built-in summarizer (picks sentences, writes nothing itself)`.
    pub name: String,
}

/// A summarizer's result, before it becomes a saved report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// In reading order.
    pub sections: Vec<Section>,
    /// Who made it.
    pub summarizer: Identity,
    /// What it was told, for the report's provenance. Never holds a key.
    pub parameters: serde_json::Value,
    /// What a reader must know about how it went, one plain sentence each.
    pub notes: Vec<String>,
}

/// What is to be summarized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// For example `June 2026`.
    pub title: String,
    /// What the person asked for besides; the built-in summarizer cannot follow it and says so.
    pub instructions: Option<String>,
    /// In the report's order.
    pub documents: Vec<SourceText>,
}

/// Why there is no draft.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SummarizeError {
    /// The job was cancelled or lost its lease; nothing more may start.
    #[error("Stopped.")]
    Stopped,
    /// It failed for good.
    #[error("{reason}")]
    Failed {
        /// One sentence for people that says what to do.
        reason: String,
    },
}

impl SummarizeError {
    /// A failure with its sentence.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into() }
    }
}

impl From<Stopped> for SummarizeError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Makes a [`Draft`] of documents.
#[async_trait]
pub trait Summarizer: Send + Sync {
    /// Who this is, as shown on the report.
    fn identity(&self) -> Identity;

    /// The longest time between two entries in the ledger, and before the first and after the last.
    fn longest(&self) -> Duration;

    /// Summarizes `task`, recording every outside call in `ledger` before it is made, and stopping soon after `cancel`
    /// fires: an open stream is dropped at once, a computation at its next check.
    ///
    /// # Errors
    /// [`SummarizeError::Stopped`] after a cancel or when the ledger refuses; [`SummarizeError::Failed`] otherwise.
    async fn summarize(&self, task: &Task, ledger: &dyn Ledger, cancel: &CancellationToken) -> Result<Draft, SummarizeError>;
}

/// Runs a computation beside the async threads. It is given a closure that says whether to stop, and gives `None` if it
/// did. A cancel waits until it has noticed, so that nobody is told of an end while it goes on; its result does not count then.
/// One that takes longer than [`LONGEST_COMPUTATION`] is told to stop, and left alone.
async fn off_thread<T, F>(cancel: &CancellationToken, work: F) -> Result<T, SummarizeError>
where
    T: Send + 'static,
    F: FnOnce(&dyn Fn() -> bool) -> Option<T> + Send + 'static,
{
    let stop = cancel.child_token();
    let _stops = stop.clone().drop_guard();
    let mut work = tokio::task::spawn_blocking(move || work(&|| stop.is_cancelled()));
    let Some(ended) = cancel.run_until_cancelled(timeout(LONGEST_COMPUTATION, &mut work)).await else {
        if timeout(NOTICED_WITHIN, work).await.is_err() {
            tracing::warn!("a summarizer's computation has not noticed a cancel for {NOTICED_WITHIN:?}; it was abandoned");
        }
        return Err(SummarizeError::Stopped);
    };
    match ended {
        // The end and the cancel may come together; the cancel counts.
        _ if cancel.is_cancelled() => Err(SummarizeError::Stopped),
        Ok(Ok(result)) => result.ok_or(SummarizeError::Stopped),
        Err(_) => {
            let minutes = LONGEST_COMPUTATION.as_secs() / 60;
            Err(SummarizeError::failed(format!(
                "The summarizer worked on these documents for {minutes} minutes without an end. Choose fewer documents."
            )))
        }
        Ok(Err(fault)) => {
            tracing::error!(error = %fault, "a summarizer's computation broke down");
            Err(SummarizeError::failed("The summarizer broke down on these documents. Please report this as a bug."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};

    #[tokio::test]
    async fn a_cancel_waits_until_the_computation_has_noticed() {
        let (cancel, over) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let (begun, begins) = mpsc::channel();
        let ended = over.clone();
        let computing = off_thread(&cancel, move |stop| {
            begun.send(()).ok()?;
            while !stop() {
                std::thread::yield_now();
            }
            ended.store(true, SeqCst);
            Some(7)
        });
        let cancelling = async {
            tokio::task::spawn_blocking(move || begins.recv()).await.expect("no panic").expect("it begins");
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(computing, cancelling);
        assert!(over.load(SeqCst), "it still goes on");
        assert_eq!(result, Err(SummarizeError::Stopped), "what it found does not count");
    }

    #[tokio::test(start_paused = true)]
    async fn a_computation_that_does_not_notice_is_left_alone_after_a_while() {
        let (cancel, (release, waits)) = (CancellationToken::new(), mpsc::channel::<()>());
        cancel.cancel();
        // By hand, since the clock does not run by itself while a thread is at work.
        let (result, ()) =
            tokio::join!(off_thread(&cancel, move |_| waits.recv().ok()), tokio::time::advance(NOTICED_WITHIN + NOTICED_WITHIN));
        assert_eq!(result, Err(SummarizeError::Stopped));
        drop(release);
    }

    #[tokio::test(start_paused = true)]
    async fn a_computation_without_an_end_fails_and_is_told_to_stop() {
        let (ended, ends) = mpsc::channel();
        let cancel = CancellationToken::new();
        let computing = off_thread(&cancel, move |stop| {
            while !stop() {
                std::thread::yield_now();
            }
            ended.send(()).ok()
        });
        let (result, ()) = tokio::join!(computing, tokio::time::advance(LONGEST_COMPUTATION + NOTICED_WITHIN));
        assert!(result.is_err_and(|error| error.to_string().contains("15 minutes without an end")));
        tokio::task::spawn_blocking(move || ends.recv()).await.expect("no panic").expect("it ends");
    }
}
