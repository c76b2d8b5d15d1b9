//! The record of outside calls, as the summarizers see it.
//!
//! A model call is an effect: its intent is committed before the first byte goes out and its outcome afterwards. The
//! server implements [`Ledger`] on its database, where a commit also fails when the job was cancelled or its lease
//! lost, so a [`Stopped`] from here is as binding as the cancellation token. [`MemoryLedger`] keeps the same record in
//! memory, for tests and for trying a model from the command line.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

/// Nothing may start any more: the job was cancelled, or this worker no longer holds its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the job accepts no further work")]
pub struct Stopped;

/// A call about to be made. Each retry is an attempt with an intent of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallIntent {
    /// Which call this is, counted from 1 …
    pub number: u32,
    /// … of how many known so far. May grow when notes must be combined in several rounds.
    pub of: u32,
    /// Which attempt at this call, counted from 1.
    pub attempt: u32,
    /// Host (and port) of the model server.
    pub host: String,
    /// The model's name.
    pub model: String,
    /// What the call is for, for example `Summarize piece 2 of 3`.
    pub purpose: String,
    /// Size of the prompt in bytes.
    pub prompt_bytes: usize,
}

/// Names a committed intent to [`Ledger::call_ended`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CallHandle(pub String);

/// What proves that a call was answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEvidence {
    /// Tokens of the prompt, as counted by the provider.
    pub tokens_in: Option<u64>,
    /// Tokens of the answer, as counted by the provider.
    pub tokens_out: Option<u64>,
    /// The provider's id of the answer.
    pub provider_id: Option<String>,
    /// The provider's own word for why the answer ended.
    pub finish_reason: Option<String>,
    /// Size of the answer in characters.
    pub characters: u64,
}

/// How much of an answer had come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Characters of the answer's text.
    pub characters: u64,
    /// Bytes in all, also of what was no part of an answer.
    pub bytes: u64,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallOutcome {
    /// The intent was committed, then a cancel came before anything was sent.
    NotStarted,
    /// The provider ended its answer, whether or not it is of use.
    Answered {
        /// What it sent along.
        evidence: CallEvidence,
    },
    /// The provider refused, or could not be reached.
    Failed {
        /// One sentence for people.
        reason: String,
    },
    /// The stream was closed before its end, by us or by a fault. The provider may have gone on.
    BrokenOff {
        /// What had been received until then.
        received: Received,
        /// One sentence for people.
        reason: String,
    },
}

/// Where intents, outcomes and progress are committed.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Commits the intent before the act.
    ///
    /// # Errors
    /// [`Stopped`]: nothing may start any more, so the call must not be made.
    async fn call_intended(&self, call: &CallIntent) -> Result<CallHandle, Stopped>;

    /// Commits the outcome. Evidence is recorded even when the job is stopping; then the answer is still [`Stopped`].
    ///
    /// # Errors
    /// [`Stopped`]: nothing may start any more.
    async fn call_ended(&self, handle: &CallHandle, outcome: CallOutcome) -> Result<(), Stopped>;

    /// Reports that `done` of `total` parts are done. Neither number ever shrinks within one summary.
    ///
    /// # Errors
    /// [`Stopped`]: nothing may start any more.
    async fn progress(&self, done: u32, total: u32) -> Result<(), Stopped>;
}

/// One line of a [`MemoryLedger`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerEntry {
    /// An intent was committed.
    Intended(CallIntent),
    /// The call with this handle ended.
    Ended(CallHandle, CallOutcome),
    /// Progress was reported.
    Progress(u32, u32),
}

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    entries: Mutex<Vec<LedgerEntry>>,
}

impl MemoryLedger {
    /// Everything recorded so far, in order.
    pub fn entries(&self) -> Vec<LedgerEntry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The intents, in order.
    pub fn intents(&self) -> Vec<CallIntent> {
        self.entries()
            .into_iter()
            .filter_map(|entry| match entry {
                LedgerEntry::Intended(intent) => Some(intent),
                _ => None,
            })
            .collect()
    }

    /// The outcomes, in order.
    pub fn outcomes(&self) -> Vec<CallOutcome> {
        self.entries()
            .into_iter()
            .filter_map(|entry| match entry {
                LedgerEntry::Ended(_, outcome) => Some(outcome),
                _ => None,
            })
            .collect()
    }

    /// The progress reports, in order.
    pub fn reported_progress(&self) -> Vec<(u32, u32)> {
        self.entries()
            .into_iter()
            .filter_map(|entry| match entry {
                LedgerEntry::Progress(done, total) => Some((done, total)),
                _ => None,
            })
            .collect()
    }

    fn push(&self, entry: LedgerEntry) -> usize {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(entry);
        entries.len()
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn call_intended(&self, call: &CallIntent) -> Result<CallHandle, Stopped> {
        let line = self.push(LedgerEntry::Intended(call.clone()));
        Ok(CallHandle(line.to_string()))
    }

    async fn call_ended(&self, handle: &CallHandle, outcome: CallOutcome) -> Result<(), Stopped> {
        self.push(LedgerEntry::Ended(handle.clone(), outcome));
        Ok(())
    }

    async fn progress(&self, done: u32, total: u32) -> Result<(), Stopped> {
        self.push(LedgerEntry::Progress(done, total));
        Ok(())
    }
}
