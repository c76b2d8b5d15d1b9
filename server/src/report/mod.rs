//! A saved report as people read it: Markdown to keep, HTML to show.
//!
//! Both are made from the same [`ReportContent`], once, when the report is saved, and never changed afterwards. Names and
//! statements come from outside (files, mails, models), so both forms escape them, and the HTML passes a sanitizer that
//! knows only the elements used here: a mistake in the one is caught by the other.

mod html;
mod markdown;

use serde::{Deserialize, Serialize};
use summarize::{Citation, Draft};

pub use html::render_html;
pub use markdown::render_markdown;

/// Everything that a report says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportContent {
    /// For example `Report for June 2026`.
    pub title: String,
    /// For example `June 2026`.
    pub month: String,
    /// IANA name of the zone that the month is reckoned in.
    pub zone: String,
    /// The half-open interval in words, for example `from 2026-06-01 00:00 up to, not including, 2026-07-01 00:00`.
    pub interval: String,
    /// What the person asked for besides, if anything.
    pub instructions: Option<String>,
    /// The statements.
    pub draft: Draft,
    /// Every file that was looked at, used or not.
    pub documents: Vec<DocumentLine>,
    /// When what happened, for people, in order.
    pub times: Vec<TimeLine>,
    /// The job that made the report.
    pub job_id: String,
}

/// One file of the sources, used or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLine {
    /// Its number in the report, if it was used.
    pub number: Option<u32>,
    /// The name that people know it by.
    pub name: String,
    /// Its date for people; `None` when undated.
    pub date: Option<String>,
    /// The rule that dated it, for example `file name`.
    pub rule: Option<String>,
    /// SHA-256 of its bytes in hexadecimal, if they were read.
    pub sha256: Option<String>,
    /// How much of it was read, for example `read` or `no text`.
    pub coverage: String,
    /// Why it was not read, or not whole.
    pub reason: Option<String>,
}

/// A moment in the making of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLine {
    /// For example `Documents collected`.
    pub what: String,
    /// The time for people, with its zone.
    pub when: String,
}

/// The address of the page that shows a passage, below the report's own address `base`.
fn passage_address(base: &str, citation: &Citation) -> String {
    let base = base.trim_end_matches('/');
    format!("{base}/documents/{}?from={}&to={}#passage", citation.document, citation.start, citation.end)
}

impl ReportContent {
    /// The name of a cited document.
    fn document_name(&self, number: u32) -> &str {
        self.documents.iter().find(|line| line.number == Some(number)).map_or("", |line| &line.name)
    }

    /// Names and values of how the report was made, in order.
    fn provenance(&self) -> Vec<(String, String)> {
        let mut lines = vec![
            ("Month".to_owned(), self.month.clone()),
            ("Interval".to_owned(), self.interval.clone()),
            ("Time zone".to_owned(), self.zone.clone()),
            ("Summarizer".to_owned(), self.draft.summarizer.name.clone()),
        ];
        if let Some(parameters) = self.draft.parameters.as_object() {
            let shown = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let text: Vec<String> =
                parameters.iter().map(|(name, value)| format!("{}: {}", name.replace('_', " "), shown(value))).collect();
            lines.push(("Parameters".to_owned(), text.join("; ")));
        }
        lines.extend(self.instructions.iter().map(|text| ("Instructions".to_owned(), text.clone())));
        lines.extend(self.times.iter().map(|time| (time.what.clone(), time.when.clone())));
        lines.push(("Job".to_owned(), self.job_id.clone()));
        lines
    }
}

impl DocumentLine {
    /// The cells of the document's row, in the order of [`DOCUMENT_COLUMNS`].
    fn cells(&self) -> [String; 6] {
        let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "–".to_owned());
        let coverage =
            self.reason.as_ref().map_or_else(|| self.coverage.clone(), |reason| format!("{}: {reason}", self.coverage));
        [
            self.number.map_or_else(|| "–".to_owned(), |number| number.to_string()),
            self.name.clone(),
            or_dash(self.date.as_ref()),
            or_dash(self.rule.as_ref()),
            coverage,
            or_dash(self.sha256.as_ref()),
        ]
    }
}

const DOCUMENT_COLUMNS: [&str; 6] = ["No.", "Document", "Date", "Dated by", "Coverage", "SHA-256"];
const NO_SOURCE: &str = "no source given";
const NOT_FOUND: &str = "not found in the sources";
const PROVENANCE: &str = "How this report was made";

#[cfg(test)]
mod tests;
