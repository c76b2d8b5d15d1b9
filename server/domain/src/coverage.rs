//! What became of every document, for the coverage list of a job.

use serde::{Deserialize, Serialize};

/// How a document ended. Each document of a job ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DocumentOutcome {
    /// It belongs to the month and was read.
    Read,
    /// It belongs to the month and was read, but not all of it.
    ReadInPart,
    /// It holds no text.
    NoText,
    /// It needs a password or a key.
    Locked,
    /// It is broken, out of reach or in a format that Recount does not read.
    Unreadable,
    /// No rule gives it a date.
    Undated,
    /// It belongs to another month.
    OtherMonth,
    /// It is over a limit.
    TooLarge,
}

impl DocumentOutcome {
    /// All outcomes, in the order of the list.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::ReadInPart,
        Self::NoText,
        Self::Locked,
        Self::Unreadable,
        Self::TooLarge,
        Self::Undated,
        Self::OtherMonth,
    ];

    /// The word for the database and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadInPart => "read_in_part",
            Self::NoText => "no_text",
            Self::Locked => "locked",
            Self::Unreadable => "unreadable",
            Self::Undated => "undated",
            Self::OtherMonth => "other_month",
            Self::TooLarge => "too_large",
        }
    }

    /// The word back.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }

    /// The words for the screen.
    pub fn label(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::ReadInPart => "Read in part",
            Self::NoText => "No text",
            Self::Locked => "Locked",
            Self::Unreadable => "Unreadable",
            Self::Undated => "Undated",
            Self::OtherMonth => "Other month",
            Self::TooLarge => "Too large",
        }
    }
}

/// A line of the coverage list: how a document ended, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// How it ended.
    pub outcome: DocumentOutcome,
    /// Why, as a phrase without a full stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Coverage {
    /// A line with a reason.
    pub fn because(outcome: DocumentOutcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: Some(reason.into()) }
    }

    /// Whether the report can use the document.
    pub fn is_usable(&self) -> bool {
        matches!(self.outcome, DocumentOutcome::Read | DocumentOutcome::ReadInPart)
    }

    /// The words for the screen: `Locked: it is protected with a password`.
    pub fn label(&self) -> String {
        match &self.reason {
            Some(reason) => format!("{}: {reason}", self.outcome.label()),
            None => self.outcome.label().to_owned(),
        }
    }
}

impl From<DocumentOutcome> for Coverage {
    fn from(outcome: DocumentOutcome) -> Self {
        Self { outcome, reason: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_one_word_in_json_and_in_the_database() {
        for outcome in DocumentOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
            assert_eq!(DocumentOutcome::from_word(outcome.as_str()), Some(outcome));
        }
        assert_eq!(DocumentOutcome::from_word("lost"), None);
    }

    #[test]
    fn a_line_reads_with_its_reason_and_stays_short_without_one() {
        let locked = Coverage::because(DocumentOutcome::Locked, "it is protected with a password");
        assert_eq!(locked.label(), "Locked: it is protected with a password");
        assert!(!locked.is_usable());
        let read = Coverage::from(DocumentOutcome::Read);
        assert_eq!(read.label(), "Read");
        assert!(read.is_usable());
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"outcome":"read"}"#);
    }
}
