//! Documents as numbered passages.
//!
//! A passage is a paragraph, or part of a long one. The passages of a document cover it from the first byte to the last,
//! so that summarizing every passage is summarizing every byte.

use crate::{Citation, SourceText};
use std::fmt::Write as _;
use std::ops::Range;

/// Longer paragraphs are cut, so that a citation leads to a place and not to a page.
const PASSAGE_BYTES: usize = 1_200;
/// Shorter paragraphs are joined with the next: each mark costs tokens.
const SHORT_BYTES: usize = 160;

/// All passages of a task's documents.
#[derive(Debug)]
pub(super) struct Passages<'a> {
    documents: Vec<(&'a SourceText, Vec<Range<usize>>)>,
}

impl<'a> Passages<'a> {
    /// Cuts the documents; no passage is longer than `limit` bytes, if that is less than usual.
    pub(super) fn of(documents: &'a [SourceText], limit: usize) -> Self {
        let limit = PASSAGE_BYTES.min(limit).max(64);
        Self { documents: documents.iter().map(|document| (document, cut(&document.text, limit))).collect() }
    }

    /// The citation for passage `passage` (from 1) of document `document`, without the space around it.
    pub(super) fn citation(&self, document: u32, passage: usize) -> Option<Citation> {
        let (source, ranges) = self.documents.iter().find(|(source, _)| source.number == document)?;
        let range = ranges.get(passage.checked_sub(1)?)?;
        let text = source.text.get(range.clone())?;
        let start = range.start + text.len() - text.trim_start().len();
        let quote = text.trim();
        Some(Citation { document, start, end: start + quote.len(), quote: quote.to_owned() })
    }

    /// The documents as text with marks, in pieces of at most `limit` bytes. A document begins with its name and date,
    /// and so does what is left of it in a next piece.
    pub(super) fn pieces(&self, limit: usize) -> Vec<String> {
        let mut pieces = vec![String::new()];
        for (source, ranges) in &self.documents {
            let head = format!("\nDocument {}: {} ({})\n", source.number, one_line(&source.name), one_line(&source.date));
            let mut needs_head = true;
            for (range, number) in ranges.iter().zip(1..) {
                let text = source.text.get(range.clone()).unwrap_or_default();
                let mut passage = String::new();
                // Writing to a String cannot fail.
                let _ = writeln!(passage, "[{}:{number}] {}", source.number, text.trim_end());
                let head_len = if needs_head { head.len() } else { 0 };
                if let Some(piece) = pieces.last()
                    && !piece.is_empty()
                    && piece.len() + head_len + passage.len() > limit
                {
                    pieces.push(String::new());
                    needs_head = true;
                }
                if let Some(piece) = pieces.last_mut() {
                    if std::mem::take(&mut needs_head) {
                        piece.push_str(&head);
                    }
                    piece.push_str(&passage);
                }
            }
        }
        pieces
    }
}

/// Notes put together in pieces of at most `limit` bytes. Notes that are longer by themselves are cut between lines.
pub(super) fn pack(notes: &[String], limit: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for line in notes.iter().flat_map(|note| note.lines()) {
        if let Some(piece) = pieces.last()
            && !piece.is_empty()
            && piece.len() + line.len() + 1 > limit
        {
            pieces.push(String::new());
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push_str(line);
            piece.push('\n');
        }
    }
    pieces
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}

/// Ranges that cover `text` without gaps: paragraphs, short ones joined and long ones cut at a sentence or a space.
fn cut(text: &str, limit: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for paragraph in paragraphs(text) {
        let joins = ranges.last().is_some_and(|last| last.len() < SHORT_BYTES && last.len() + paragraph.len() <= limit);
        match ranges.last_mut() {
            Some(last) if joins => last.end = paragraph.end,
            _ => ranges.extend(split_long(text, paragraph, limit)),
        }
    }
    ranges
}

/// Paragraphs with the blank lines after them.
fn paragraphs(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut at, mut blank) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if blank && !is_blank && at > start {
            ranges.push(start..at);
            start = at;
        }
        blank = is_blank;
        at += line.len();
    }
    if at > start {
        ranges.push(start..at);
    }
    ranges
}

fn split_long(text: &str, range: Range<usize>, limit: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = range.start;
    while range.end - start > limit {
        let most = (start + 1..=start + limit).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(range.end);
        let window = text.get(start..most).unwrap_or_default();
        let half = window.len() / 2;
        let after =
            |marks: &[&str]| marks.iter().filter_map(|mark| Some(window.rfind(mark)? + mark.len())).filter(|&at| at > half).max();
        let cut = after(&["\n"]).or_else(|| after(&[". ", "! ", "? ", "。"])).or_else(|| after(&[" "])).unwrap_or(window.len());
        // A character longer than the limit would stand still; it is at most 4 bytes and the limit at least 64.
        let end = (start + cut).min(range.end);
        ranges.push(start..end);
        start = end;
    }
    ranges.push(start..range.end);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceText {
        SourceText { number: 3, name: "a\nb.md".to_owned(), date: "2026-06-10".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn passages_cover_every_byte() {
        let long = "Wörter ohne Ende und noch mehr. ".repeat(200);
        for text in ["", "\n\n", "One.\n\nTwo.\n", &long, &"x".repeat(5_000), &"é".repeat(3_000), "a\r\n\r\nb"] {
            let ranges = cut(text, 1_200);
            assert_eq!(ranges.iter().filter_map(|range| text.get(range.clone())).collect::<String>(), text);
            assert!(ranges.iter().all(|range| range.len() <= 1_200));
        }
    }

    #[test]
    fn pieces_keep_to_the_limit_and_name_their_document() {
        let documents = [source(&"A paragraph of some length that is not short at all, so that it stands alone in its passage. It has two sentences, and even a third. There.\n\n".repeat(60))];
        let passages = Passages::of(&documents, 2_000);
        let pieces = passages.pieces(2_000);
        assert!(pieces.len() > 3);
        assert!(pieces.iter().all(|piece| piece.len() <= 2_000 && piece.starts_with("\nDocument 3: a b.md (2026-06-10)\n[3:")));
        let citation = passages.citation(3, 2).expect("there is a second passage");
        assert_eq!(documents[0].text.get(citation.start..citation.end), Some(citation.quote.as_str()));
        assert_eq!(passages.citation(3, 0), None);
        assert_eq!(passages.citation(3, 9_999), None);
        assert_eq!(passages.citation(1, 1), None);
    }

    #[test]
    fn notes_are_packed_whole() {
        let notes = ["- a [1:1]\n- b [1:2]".to_owned(), "- c [1:3]".to_owned()];
        assert_eq!(pack(&notes, 21), ["- a [1:1]\n- b [1:2]\n", "- c [1:3]\n"]);
        assert_eq!(pack(&notes, 100).len(), 1);
    }
}
