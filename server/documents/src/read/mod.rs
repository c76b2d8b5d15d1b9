//! Bytes → text: the one place that knows file formats.
//!
//! [`extract`] is pure and synchronous and never panics on a user's file, so the caller decides on which thread it runs
//! (`spawn_blocking`) and what a failure means. Every file ends in exactly one [`Readability`], with the reason in words
//! for the coverage list: what could not be read is said, never dropped.
//!
//! Files are hostile input. Compressed formats are read as streams against a budget of inflated bytes, nothing is
//! allocated by a size that a header claims, XML entities are not expanded, and nesting is bounded. Libraries that may
//! panic on broken files run behind `catch_unwind`; the program must therefore not be built with `panic = "abort"`.

mod archive;
pub mod date;
mod delimited;
mod detect;
mod docx;
mod draft;
mod front_matter;
mod html;
mod mail;

mod pdf;
mod properties;
mod text;
mod xlsx;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::date::{DateRule, When};
use self::detect::Content;
use self::draft::{Draft, Refusal};

/// How much of a file is taken in. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest file that is opened at all.
    pub max_bytes: u64,
    /// The most text (UTF-8) that is kept of one file; the rest is left out and counted.
    pub max_text: usize,
    /// The most bytes that the compressed parts of one file may inflate to.
    pub max_inflated: u64,
    /// The most pages of a PDF that are read.
    pub max_pages: usize,
    /// How deep the elements of an XML part may nest.
    pub max_nesting: usize,
    /// The longest that reading a file may take, which the caller sees to. Nobody can interrupt a reader, so this is also the
    /// longest that a cancel may wait for one. The largest files of each format take seconds; a file system that has fallen
    /// silent takes forever.
    pub max_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 25 << 20,
            max_text: 8 << 20,
            max_inflated: 200 << 20,
            max_pages: 5_000,
            max_nesting: 256,
            max_time: Duration::from_mins(2),
        }
    }
}

/// What a file turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Markdown.
    Markdown,
    /// Plain text, or any text format that is read as it stands.
    Text,
    /// HTML.
    Html,
    /// An Internet message (RFC 5322).
    Mail,
    /// PDF.
    Pdf,
    /// A Word document (Office Open XML).
    Docx,
    /// An Excel workbook (Office Open XML).
    Xlsx,
    /// Comma-, semicolon- or tab-separated values.
    Csv,
    /// None of the formats that Recount reads.
    Other,
}

impl Format {
    /// The format in words, for example `Word document`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Markdown => "Markdown",
            Self::Text => "text",
            Self::Html => "web page",
            Self::Mail => "mail",
            Self::Pdf => "PDF",
            Self::Docx => "Word document",
            Self::Xlsx => "Excel workbook",
            Self::Csv => "table of values",
            Self::Other => "unknown format",
        }
    }
}

/// How far a file could be read. `why` is a phrase for the coverage list, without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readability {
    /// All of its text was read.
    Read,
    /// Some of its text was read; `why` says what is missing.
    ReadInPart {
        /// What is missing.
        why: String,
    },
    /// It could be opened but holds no text.
    NoText {
        /// What it may be instead.
        why: String,
    },
    /// It needs a password or a key.
    Locked {
        /// What locks it.
        why: String,
    },
    /// It is broken or in a format that Recount does not read.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// It is over one of the [`Limits`].
    TooLarge {
        /// Which limit.
        why: String,
    },
}

impl Readability {
    /// The reason, if there is one.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Read => None,
            Self::ReadInPart { why }
            | Self::NoText { why }
            | Self::Locked { why }
            | Self::Unreadable { why }
            | Self::TooLarge { why } => Some(why),
        }
    }
}

/// The text of a file, and what the file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extraction {
    /// The text: `\n` line ends, no control characters but `\n` and `\t`, no trailing spaces, no runs of blank lines.
    /// Empty unless `coverage` is `Read` or `ReadInPart`.
    pub text: String,
    /// What the file turned out to be.
    pub kind: Format,
    /// The title that the document gives itself, in one line.
    pub title: Option<String>,
    /// The date that the document gives itself, and where it stands.
    pub date: Option<(When, DateRule)>,
    /// How far it could be read.
    pub coverage: Readability,
}

/// Reads a file. `name` is its file name or relative path and only helps where the content does not say what it is.
pub fn extract(name: &str, bytes: &[u8], limits: &Limits) -> Extraction {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut draft = Draft::new(limits.max_text);
    if length > limits.max_bytes {
        let refusal = Refusal::TooLarge(too_large(length, limits.max_bytes));
        return draft.finish(detect::by_name(name).unwrap_or(Format::Other), Err(refusal));
    }
    let mut kind = detect::by_name(name).unwrap_or(Format::Other);
    let outcome = guarded(|| {
        let content = detect::content(name, bytes);
        kind = content.format().unwrap_or(kind);
        read(bytes, content, limits, &mut draft, Attachments::Read)
    });
    draft.finish(kind, outcome)
}

/// What the first bytes of a file say about its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// All there is to know: the date that a text or mail gives itself, if it does.
    Date(Option<(When, DateRule)>),
    /// Its format keeps the date where only [`embedded_date`] finds it.
    NeedsWhole,
    /// It is not in a format that Recount reads.
    Refused,
}

/// Probes for the date in the first bytes of a file.
pub fn date_in_head(name: &str, head: &[u8]) -> Head {
    if detect::is_container(head) {
        return Head::NeedsWhole;
    }
    let found = catch_unwind(|| match detect::content(name, head) {
        Content::Text(Format::Markdown | Format::Text) => Head::Date(front_matter::read(&text::decode(head, None)).date),
        Content::Text(Format::Mail) => Head::Date(mail::date(head)),
        Content::Text(Format::Html) => Head::NeedsWhole,
        Content::Text(_) => Head::Date(None),
        _ => Head::Refused,
    });
    found.unwrap_or(Head::Refused)
}

/// The date that [`extract`] would find, without reading the text where the format allows it.
pub fn embedded_date(name: &str, bytes: &[u8], limits: &Limits) -> Option<(When, DateRule)> {
    let mut draft = Draft::new(0);
    // A file that is broken behind its date is still dated by it.
    let _ = guarded(|| match detect::content(name, bytes) {
        Content::Docx | Content::Xlsx => {
            properties::read(&mut archive::Archive::open(bytes, limits)?, &mut draft);
            Ok(())
        }
        content @ Content::Pdf => {
            let dated_only = Limits { max_pages: 0, ..*limits };
            read(bytes, content, &dated_only, &mut draft, Attachments::Name)
        }
        content => read(bytes, content, limits, &mut draft, Attachments::Name),
    });
    draft.date
}

/// Why a file of `length` bytes is over `max_bytes`, in words.
pub fn too_large(length: u64, max_bytes: u64) -> String {
    format!("{} is over the limit of {}", size(length), size(max_bytes))
}

/// A number of bytes in words, for example `8 MiB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") };
    }
    let mut unit = 0;
    let mut tenths = bytes.saturating_mul(10) / 1024;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {}", UNITS[unit]),
        (whole, tenth) => format!("{whole}.{tenth} {}", UNITS[unit]),
    }
}

/// Whether the attachments of a mail are read too. They are not inside an attached mail, so that nesting ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attachments {
    Read,
    Name,
}

/// Reads `bytes`, known to be `content`, into `draft`.
fn read(bytes: &[u8], content: Content, limits: &Limits, draft: &mut Draft, attachments: Attachments) -> Result<(), Refusal> {
    match content {
        Content::Refused(refusal) => Err(refusal),
        Content::Docx => docx::read(bytes, limits, draft),
        Content::Xlsx => xlsx::read(bytes, limits, draft),
        Content::Pdf => pdf::read(bytes, limits, draft),
        Content::Text(Format::Mail) => mail::read(bytes, limits, draft, attachments),
        Content::Text(Format::Html) => {
            html::read(&text::decode(bytes, html::declared_encoding(bytes)), draft);
            Ok(())
        }
        Content::Text(Format::Csv) => {
            delimited::read(&text::decode(bytes, None), draft);
            Ok(())
        }
        Content::Text(format) => {
            text::read(&text::decode(bytes, None), format, draft);
            Ok(())
        }
    }
}
/// Runs a reader so that a panic inside it becomes a reason for the coverage list.
fn guarded(read: impl FnOnce() -> Result<(), Refusal>) -> Result<(), Refusal> {
    // A draft interrupted by a panic is still a valid draft: it only ever grows.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Refusal::Unreadable("its content is broken".to_owned())))
}
