//! The form for a new report. It is kept on the server as a draft, so that a mistake never costs what was typed or uploaded.

use serde::{Deserialize, Serialize};

/// What the address of the form says: which draft or which job fills it in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NewReportQuery {
    /// A draft that was checked or refused before.
    pub draft: Option<String>,
    /// A job to start again from.
    pub from: Option<String>,
    /// `YYYY-MM`.
    pub month: Option<String>,
}

/// Which documents the form is about, as it stands in the browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentChoice {
    pub month: String,
    pub zone: String,
    /// Ids of the chosen folders. The encoding of forms leaves out an empty list, hence the default.
    pub sources: Vec<String>,
}

/// The form with its values and what is known about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewReportView {
    /// Names the request: sending it twice gives one job.
    pub request_key: String,
    /// The job that the form is filled in from, or empty.
    pub from: String,
    pub title: String,
    /// As typed.
    pub month: String,
    /// "June 2026"; empty while the month is not valid.
    pub month_title: String,
    /// "1 to 30 June 2026, Europe/Berlin".
    pub interval: String,
    pub zone: String,
    pub sources: Vec<SourceChoice>,
    pub uploads: Vec<UploadLine>,
    /// "14 documents found."
    pub count_text: String,
    /// As typed.
    pub recipients: String,
    pub check: RecipientCheck,
    pub instructions: String,
    /// `none`, `approval`, or a number of seconds.
    pub hold: String,
    /// Things to know that do not stand in the way: a future month, no documents found.
    pub warnings: Vec<String>,
    pub errors: Vec<FieldError>,
    /// "Built-in summarizer", or a model's name and place.
    pub summarizer: String,
    /// "Sent through: …", or that the outbox folder sends nothing.
    pub channel: String,
    /// "25 MB per file, 100 MB together".
    pub upload_limit: String,
    /// Whether this page shows a draft that the server has checked.
    pub checked: bool,
}

/// One configured folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceChoice {
    /// The name that the form sends.
    pub id: String,
    pub name: String,
    pub checked: bool,
    /// "9 in June", "none in June", or why it cannot be read.
    pub count_text: String,
    pub unreadable: bool,
}

/// One uploaded file of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadLine {
    pub id: String,
    pub name: String,
    /// "277 kB".
    pub size: String,
    /// "12 May 2026, by its file name"; empty where nothing dates it.
    pub dated: String,
    /// Why it cannot be read at the moment; empty if it can.
    pub trouble: String,
    /// The month that a person gave it, `YYYY-MM`, or empty.
    pub by_hand: String,
    /// Whether it counts for the chosen month.
    pub in_month: bool,
}

/// What became of the recipients as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipientCheck {
    /// The addresses, cleaned and without repetitions.
    pub addresses: Vec<String>,
    /// One sentence for each that is wrong.
    pub problems: Vec<String>,
}

/// A mistake in a field of the form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// `month`, `zone`, `title`, `sources`, `files`, `recipients`, `instructions`, `hold`.
    pub field: String,
    pub text: String,
}
