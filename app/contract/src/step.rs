//! The steps of a job. Their order is fixed, and each is entered at most once per claim.

use super::named;
use serde::{Deserialize, Serialize};

/// What a job does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Reads the documents of the month.
    Collect,
    /// Turns the documents into a draft.
    Summarize,
    /// Saves the report; decided by one transaction.
    Save,
    /// Waits before the e-mail goes out, for a while or for an approval. No worker holds the job meanwhile, so a cancel in it is
    /// always clean. Only jobs that were asked to wait have this step.
    Hold,
    /// Hands one message per recipient to the mail service.
    Email,
}

named!(StepKind { Collect => "collect", Summarize => "summarize", Save => "save", Hold => "hold", Email => "email" });

impl StepKind {
    /// The word for the step in the middle of a sentence: "Failed while …".
    pub fn gerund(self) -> &'static str {
        match self {
            Self::Collect => "collecting documents",
            Self::Summarize => "summarizing",
            Self::Save => "saving the report",
            Self::Hold => "holding the e-mail",
            Self::Email => "e-mailing the link",
        }
    }

    /// The step's heading on a screen.
    pub fn title(self) -> &'static str {
        match self {
            Self::Collect => "Collect",
            Self::Summarize => "Summarize",
            Self::Save => "Save",
            Self::Hold => "Hold",
            Self::Email => "E-mail",
        }
    }
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not reached yet; recovery also puts an unfinished step back here.
    Pending,
    /// A worker that holds the lease is at it; a hold runs by itself.
    Running,
    /// Its result is committed.
    Done,
    /// Gave up for good; the job failed with it.
    Failed,
    /// Broken off by a cancel.
    Stopped,
    /// Never reached, because the job ended before.
    Skipped,
}

named!(StepState {
    Pending => "pending", Running => "running", Done => "done", Failed => "failed", Stopped => "stopped", Skipped => "skipped",
});

/// One step with its progress. The numbers only grow, also over a crash and the work that is repeated after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Step {
    pub kind: StepKind,
    pub state: StepState,
    /// Units finished: documents, model calls or recipients.
    pub done: u32,
    /// Units known so far; 0 while unknown.
    pub total: u32,
}

impl Step {
    pub(super) fn pending(kind: StepKind) -> Self {
        Self { kind, state: StepState::Pending, done: 0, total: 0 }
    }
}
