//! What the format readers fill in: text against a limit, and notes on what is missing.

use super::date::{DateRule, When};
use super::{Extraction, Format, Readability, size, text};

/// At most this many notes are spelled out in a reason.
const NAMED_NOTES: usize = 5;
/// At most this many are kept; of the others only the number is.
const KEPT_NOTES: usize = 100;

/// Why a reader gave up. The text is the `why` of the [`Readability`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoText(String),
    Locked(String),
    Unreadable(String),
    TooLarge(String),
}

/// An extraction in the making.
#[derive(Debug)]
pub(super) struct Draft {
    text: String,
    max_text: usize,
    left_out: u64,
    notes: Vec<String>,
    more_notes: usize,
    pub(super) title: Option<String>,
    pub(super) date: Option<(When, DateRule)>,
}

impl Draft {
    pub(super) fn new(max_text: usize) -> Self {
        Self { text: String::new(), max_text, left_out: 0, notes: Vec::new(), more_notes: 0, title: None, date: None }
    }

    /// Appends text. What is over the limit is counted, not kept.
    pub(super) fn push(&mut self, more: &str) {
        let room = self.max_text.saturating_sub(self.text.len());
        let kept = if self.left_out > 0 { 0 } else { more.floor_char_boundary(room) };
        self.text.push_str(&more[..kept]);
        self.left_out += u64::try_from(more.len() - kept).unwrap_or(u64::MAX);
    }

    /// Appends a block of text, set off by blank lines. A blank one leaves no trace.
    pub(super) fn push_block(&mut self, block: &str) {
        if block.trim().is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.push("\n\n");
        }
        self.push(block);
    }

    /// Appends a line.
    pub(super) fn push_line(&mut self, line: &str) {
        self.push(line);
        self.push("\n");
    }

    /// Whether any text but white space has been kept.
    pub(super) fn has_text(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// The text so far, to recognise what is repeated.
    pub(super) fn fingerprint(&self) -> String {
        text::normalise(&self.text)
    }

    /// Says what is missing, as a phrase for the coverage list.
    pub(super) fn note(&mut self, missing: impl Into<String>) {
        let missing = missing.into();
        if self.notes.len() >= KEPT_NOTES {
            self.more_notes += 1;
        } else if !self.notes.contains(&missing) {
            self.notes.push(missing);
        }
    }

    /// Gives the document its title, unless it has one or this one is blank.
    pub(super) fn set_title(&mut self, title: &str) {
        if self.title.is_none() {
            self.title = text::one_line(title);
        }
    }

    /// Gives the document its date, unless it has one.
    pub(super) fn set_date(&mut self, date: Option<When>, rule: DateRule) {
        if self.date.is_none() {
            self.date = date.map(|when| (when, rule));
        }
    }

    /// Turns the draft and the reader's last word into the result.
    pub(super) fn finish(mut self, kind: Format, outcome: Result<(), Refusal>) -> Extraction {
        let text = text::normalise(&self.text);
        let coverage = match outcome {
            Ok(()) if text.is_empty() => Readability::NoText { why: self.why_no_text() },
            Ok(()) => self.coverage(),
            // What was read before the file broke is still worth having, as long as the list says so.
            Err(Refusal::Unreadable(why)) if !text.is_empty() => {
                self.notes.insert(0, why);
                self.coverage()
            }
            Err(Refusal::NoText(why)) => Readability::NoText { why },
            Err(Refusal::Locked(why)) => Readability::Locked { why },
            Err(Refusal::Unreadable(why)) => Readability::Unreadable { why },
            Err(Refusal::TooLarge(why)) => Readability::TooLarge { why },
        };
        let readable = matches!(coverage, Readability::Read | Readability::ReadInPart { .. });
        Extraction { text: if readable { text } else { String::new() }, kind, title: self.title, date: self.date, coverage }
    }

    fn coverage(&mut self) -> Readability {
        if self.left_out > 0 {
            let kept = size(u64::try_from(self.text.len()).unwrap_or(u64::MAX));
            let cut = format!("only the first {kept} of its text were read, {} are left out", size(self.left_out));
            self.notes.insert(0, cut);
        }
        if self.notes.is_empty() { Readability::Read } else { Readability::ReadInPart { why: self.why() } }
    }

    fn why_no_text(&self) -> String {
        if self.notes.is_empty() { "no text in it".to_owned() } else { format!("no text in it; {}", self.why()) }
    }

    fn why(&self) -> String {
        let named = self.notes.iter().take(NAMED_NOTES).map(String::as_str).collect::<Vec<_>>().join("; ");
        match self.notes.len().saturating_sub(NAMED_NOTES) + self.more_notes {
            0 => named,
            more => format!("{named}; and {more} more"),
        }
    }

    /// Moves what another draft gathered into this one; `label`, unless empty, says in the notes which document it was.
    pub(super) fn absorb(&mut self, other: Draft, label: &str) {
        self.push_block(&other.text);
        self.left_out += other.left_out;
        self.more_notes += other.more_notes;
        for note in other.notes {
            self.note(if label.is_empty() { note } else { format!("{label}: {note}") });
        }
    }

    /// A draft for a document inside this one, with the room that is left.
    pub(super) fn inner(&self) -> Self {
        Self::new(self.max_text.saturating_sub(self.text.len()))
    }
}
