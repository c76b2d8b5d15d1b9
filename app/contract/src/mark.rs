//! The shape and colour that stand beside a state's word.

use serde::{Deserialize, Serialize};

/// The shape and colour that stand beside a state's word (class names of `style/components/mark.css`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Waiting,
    Running,
    Stopping,
    Done,
    /// It happened, and somebody had asked that it should not.
    Late,
    Doubt,
    Failed,
    Stopped,
    /// It has not begun and never will.
    Skipped,
}

impl Mark {
    /// The class name.
    pub fn class(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Done => "done",
            Self::Late => "late",
            Self::Doubt => "doubt",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Skipped => "skipped",
        }
    }
}
