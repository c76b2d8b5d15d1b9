//! Effects as rows of a file, for spreadsheets (CSV, RFC 4180) and for programs (JSON). Both have the same columns.
//!
//! Spreadsheets take a cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return for a formula, and what a mail
//! server answers or a person types can begin with any of these. In CSV such a cell gets an apostrophe in front, which
//! makes it text. In JSON nothing is changed: programs that need the exact text read that.

use app::model::effect_path;
use chrono::{DateTime, SecondsFormat, Utc};
use contract::NotDone;
use csv::{Terminator, WriterBuilder};
use serde::Serialize;
use std::{borrow::Cow, io};
use store::EffectEntry;

/// How the file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
}

/// The columns of the CSV file and the names in the JSON file.
const COLUMNS: [&str; 17] = [
    "job",
    "number",
    "kind",
    "target",
    "message_id",
    "outcome",
    "not_done",
    "attempts",
    "evidence",
    "intended_at",
    "changed_at",
    "title",
    "month",
    "person",
    "path",
    "via",
    "contradiction",
];

/// One effect. The names and their order are those of [`COLUMNS`].
#[derive(Debug, Serialize)]
struct Row<'a> {
    job: String,
    number: u32,
    kind: &'static str,
    target: Cow<'a, str>,
    message_id: Option<Cow<'a, str>>,
    outcome: &'static str,
    not_done: Option<&'static str>,
    attempts: u32,
    evidence: Option<Cow<'a, str>>,
    intended_at: String,
    changed_at: String,
    title: Cow<'a, str>,
    month: String,
    person: Cow<'a, str>,
    path: String,
    via: &'static str,
    contradiction: Option<Cow<'a, str>>,
}

impl<'a> Row<'a> {
    /// The row, with every text that somebody else wrote passed through `text`.
    fn new(entry: &'a EffectEntry, text: fn(&str) -> Cow<'_, str>) -> Self {
        Self {
            job: entry.job_id.to_string(),
            number: entry.number,
            kind: entry.kind.name(),
            target: text(&entry.target),
            message_id: entry.message_id.as_deref().map(text),
            outcome: entry.outcome.name(),
            not_done: entry.not_done.map(NotDone::name),
            attempts: entry.attempts,
            evidence: entry.evidence.as_deref().map(text),
            intended_at: instant(entry.created_at),
            changed_at: instant(entry.changed_at),
            title: text(&entry.job_title),
            month: entry.month.to_string(),
            person: text(&entry.owner_email),
            path: effect_path(&entry.job_id.to_string(), entry.number),
            via: entry.via.name(),
            contradiction: entry.contradiction.as_deref().map(text),
        }
    }
}

fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// A cell that no spreadsheet takes for a formula.
fn guarded(cell: &str) -> Cow<'_, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) }
}

fn exact(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

impl Format {
    /// The end of the file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    /// What the file is to a browser.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Json => "application/json",
        }
    }

    /// What stands before the rows.
    pub fn beginning(self) -> String {
        match self {
            Self::Csv => format!("{}\r\n", COLUMNS.join(",")),
            Self::Json => "[".into(),
        }
    }

    /// Some rows; `first` if there are none before them.
    pub fn rows(self, entries: &[EffectEntry], first: bool) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv => {
                let mut writer = WriterBuilder::new().has_headers(false).terminator(Terminator::CRLF).from_writer(Vec::new());
                for entry in entries {
                    writer.serialize(Row::new(entry, guarded))?;
                }
                writer.into_inner().map_err(csv::IntoInnerError::into_error)
            }
            Self::Json => {
                let mut bytes = Vec::new();
                for (index, entry) in entries.iter().enumerate() {
                    bytes.extend_from_slice(if first && index == 0 { "\n" } else { ",\n" }.as_bytes());
                    serde_json::to_writer(&mut bytes, &Row::new(entry, exact))?;
                }
                Ok(bytes)
            }
        }
    }

    /// What stands after the rows.
    pub fn end(self) -> &'static str {
        match self {
            Self::Csv => "",
            Self::Json => "\n]\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{EffectKind, JobKind, Outcome, Phase, Via};
    use domain::id::JobId;

    fn entry(evidence: &str) -> EffectEntry {
        EffectEntry {
            job_id: JobId(uuid::Uuid::nil()),
            number: 2,
            kind: EffectKind::Email,
            outcome: Outcome::NotDone,
            not_done: Some(NotDone::Refused),
            unconfirmed: None,
            attempts: 1,
            via: Via::MailService,
            evidence: Some(evidence.into()),
            contradiction: None,
            target: "+anna@example.org".into(),
            message_id: Some("<ab@example.org>".into()),
            created_at: "2026-07-01T08:00:00Z".parse().unwrap(),
            changed_at: "2026-07-01T08:00:01.5Z".parse().unwrap(),
            job_kind: JobKind::Report,
            job_title: "=HYPERLINK(\"x\"), June 2026".into(),
            month: "2026-06".parse().unwrap(),
            owner_email: "ada@example.org".into(),
            job_phase: Some(Phase::Failed),
        }
    }

    fn whole(format: Format, pages: &[&[EffectEntry]]) -> String {
        let mut bytes = format.beginning().into_bytes();
        for (index, page) in pages.iter().enumerate() {
            bytes.extend(format.rows(page, index == 0).unwrap());
        }
        bytes.extend(format.end().bytes());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn no_cell_is_a_formula() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert_eq!(guarded(formula), format!("'{formula}"));
        }
        for text in ["", "250 2.0.0 Ok", "a=b", "'=1", " =1", "<ab@example.org>", "\u{e4}"] {
            assert_eq!(guarded(text), text);
        }
    }

    #[test]
    fn a_row_of_csv_reads_back_guarded() {
        let file = whole(Format::Csv, &[&[entry("=cmd|' /C calc'!A0\r\n\"quoted\", \u{fc}")]]);
        let mut reader = csv::Reader::from_reader(file.as_bytes());
        assert_eq!(reader.headers().unwrap(), COLUMNS.as_slice());
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        let cells: Vec<_> = rows[0].iter().collect();
        assert_eq!(
            cells,
            [
                "00000000-0000-0000-0000-000000000000",
                "2",
                "email",
                "'+anna@example.org",
                "<ab@example.org>",
                "not_done",
                "refused",
                "1",
                "'=cmd|' /C calc'!A0\r\n\"quoted\", \u{fc}",
                "2026-07-01T08:00:00.000000Z",
                "2026-07-01T08:00:01.500000Z",
                "'=HYPERLINK(\"x\"), June 2026",
                "2026-06",
                "ada@example.org",
                "/admin/effects/00000000-0000-0000-0000-000000000000/2",
                "mail_service",
                "",
            ]
        );
    }

    #[test]
    fn json_has_the_same_columns_and_the_exact_text() {
        let file = whole(Format::Json, &[&[entry("=1"), entry("b")], &[entry("c")], &[]]);
        let rows: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&file).unwrap();
        let evidence: Vec<_> = rows.iter().map(|row| row["evidence"].as_str().unwrap()).collect();
        assert_eq!(evidence, ["=1", "b", "c"]);
        let mut names: Vec<_> = rows[0].keys().map(String::as_str).collect();
        let mut columns = COLUMNS;
        names.sort_unstable();
        columns.sort_unstable();
        assert_eq!(names, columns);
    }

    #[test]
    fn a_file_without_rows_is_whole() {
        assert_eq!(whole(Format::Csv, &[&[]]), format!("{}\r\n", COLUMNS.join(",")));
        assert_eq!(serde_json::from_str::<Vec<String>>(&whole(Format::Json, &[&[]])).unwrap(), [""; 0]);
    }
}
