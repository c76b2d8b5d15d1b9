//! What a person asked for. Written once, when the job is created.

use super::Hold;
use crate::source::Place;
use app::model::Month;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The order for a report.
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
    #[serde(default)]
    pub hold: Hold,
}

/// A folder or a file to read, as it was allowed when the job was created. It is opened through the allowed folder, so that
/// what is exchanged for a link meanwhile leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// What the order called it: a folder's id, or a path.
    pub id: String,
    /// The name that people see.
    pub name: String,
    pub place: Place,
}

impl Spec {
    /// "Team month, June 2026", or "June 2026" for a report without a name.
    pub fn full_title(&self) -> String {
        full_title(&self.title, self.month)
    }
}

/// What a report is called: its own title and the month, or the month alone.
pub fn full_title(title: &str, month: Month) -> String {
    if title.is_empty() { month.title() } else { format!("{title}, {}", month.title()) }
}
