//! What a person asked for. Written once, when the job is created.

use crate::hold::Hold;
use crate::{id::JobId, place::Place};
use chrono::{DateTime, Utc};
use contract::{JobKind, Month};
use serde::{Deserialize, Serialize};

/// What the job is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Task {
    /// Make a report and e-mail its link.
    #[default]
    Report,
    /// Write to those who may have got the link of another job's report, in the words of the person with this address.
    Correction { about: JobId, text: String, by: String },
    /// Send the message of another job's e-mail again, byte for byte.
    SecondCopy { about: JobId, number: u32 },
}

impl Task {
    /// The kind of job that does it.
    pub fn kind(&self) -> JobKind {
        match self {
            Self::Report => JobKind::Report,
            Self::Correction { .. } => JobKind::Correction,
            Self::SecondCopy { .. } => JobKind::SecondCopy,
        }
    }

    /// The job that it comes after.
    pub fn about(&self) -> Option<JobId> {
        match self {
            Self::Report => None,
            Self::Correction { about, .. } | Self::SecondCopy { about, .. } => Some(*about),
        }
    }
}

/// The order for a report, or for a mailing about one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The report's name; may be empty.
    pub title: String,
    pub month: Month,
    /// The month in that zone as a half-open interval: the first instant in it, and the first one after it.
    pub start: DateTime<Utc>,
    pub end: DateTime<Utc>,
    /// IANA name.
    pub zone: String,
    pub sources: Vec<SourceSpec>,
    /// Checked addresses, each once.
    pub recipients: Vec<String>,
    pub instructions: Option<String>,
    pub hold: Hold,
    pub task: Task,
}

/// A source to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// What the order called it: a folder's id, or a path.
    pub id: String,
    /// The name that people see.
    pub name: String,
    pub place: SourcePlace,
}

/// Where a source's documents are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SourcePlace {
    /// A folder or a file, as it was allowed when the job was created. It is opened through the allowed folder, so that what is
    /// exchanged for a link meanwhile leads nowhere.
    Files(Place),
    /// An MCP server, by the id of its source. The settings say how it is reached when it is asked, so that no order holds a
    /// secret.
    Server { server: String },
}

impl From<Place> for SourcePlace {
    fn from(place: Place) -> Self {
        Self::Files(place)
    }
}

impl Spec {
    /// "Team month, June 2026", or "June 2026" for a report without a name; a mailing says what it is before that.
    pub fn full_title(&self) -> String {
        job_title(self.task.kind(), &self.title, self.month)
    }

    /// The order for a mailing about the report that this order asked for.
    #[must_use]
    pub fn mailing(&self, task: Task, recipients: Vec<String>) -> Self {
        Self { task, recipients, sources: Vec::new(), instructions: None, hold: Hold::None, ..self.clone() }
    }
}

/// What a job is called in lists: "Team month, June 2026", "Correction: Team month, June 2026".
pub fn job_title(kind: JobKind, title: &str, month: Month) -> String {
    let title = full_title(title, month);
    match kind {
        JobKind::Report => title,
        JobKind::Correction => format!("Correction: {title}"),
        JobKind::SecondCopy => format!("Second copy: {title}"),
    }
}

/// What a report is called: its own title and the month, or the month alone.
pub fn full_title(title: &str, month: Month) -> String {
    if title.is_empty() { month.title() } else { format!("{title}, {}", month.title()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_str, to_string};

    #[test]
    fn an_order_names_a_server_and_nothing_else_of_it() {
        let source = SourceSpec { id: "wiki".into(), name: "Wiki".into(), place: SourcePlace::Server { server: "wiki".into() } };
        let text = to_string(&source).unwrap();
        assert_eq!(text, r#"{"id":"wiki","name":"Wiki","place":{"server":"wiki"}}"#);
        assert_eq!(from_str::<SourceSpec>(&text).unwrap(), source);
    }
}
