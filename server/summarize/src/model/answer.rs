//! Reads a model's answer.
//!
//! Models keep to a format about as well as people do, so reading is tolerant of bullets, brackets and spelling, and
//! strict about what counts: a mark is valid only if that passage exists. Text becomes plain text. A statement without
//! a valid mark is kept, because leaving it out would hide what the model said; the report marks it.

use super::passages::Passages;
use crate::{Citation, Statement, inline};

/// A line of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Heading(String),
    Statement(Statement),
}

/// Reads the lines of `answer`. Marks of passages that do not exist are dropped and named in `notes`.
pub(super) fn lines(answer: &str, passages: &Passages<'_>, notes: &mut Vec<String>) -> Vec<Line> {
    answer.lines().filter_map(|line| read(line, passages, notes)).collect()
}

/// Statements as lines for the next round: what the model wrote, as plain text, with its valid marks.
pub(super) fn tidy_notes(answer: &str, passages: &Passages<'_>, notes: &mut Vec<String>) -> String {
    let mut tidy = String::new();
    for (text, marks) in
        answer.lines().filter(|line| heading(line.trim()).is_none()).filter_map(|line| statement(line, passages, notes))
    {
        let marks: Vec<String> = marks.iter().map(|(mark, _)| format!("[{}:{}]", mark.document, mark.passage)).collect();
        tidy.extend(["- ", &text, if marks.is_empty() { "" } else { " " }, &marks.concat(), "\n"]);
    }
    tidy
}

fn read(line: &str, passages: &Passages<'_>, notes: &mut Vec<String>) -> Option<Line> {
    if let Some(heading) = heading(line.trim()) {
        let (heading, _) = split_marks(heading);
        let heading = inline::plain(&heading);
        return (!heading.is_empty()).then_some(Line::Heading(heading));
    }
    let (text, marks) = statement(line, passages, notes)?;
    let citations = marks.into_iter().map(|(_, citation)| citation).collect();
    Some(Line::Statement(Statement { text, citations, unsupported: Vec::new() }))
}

/// The plain text of a statement and its valid marks, each once. `None` when the line says nothing.
fn statement(line: &str, passages: &Passages<'_>, notes: &mut Vec<String>) -> Option<(String, Vec<(Mark, Citation)>)> {
    let (text, marks) = split_marks(line);
    let text = inline::plain(without_bullet(&text));
    if !text.chars().any(char::is_alphanumeric) {
        return None;
    }
    let mut valid: Vec<(Mark, Citation)> = Vec::new();
    for mark in marks {
        match passages.citation(mark.document, mark.passage) {
            Some(citation) if valid.iter().all(|(known, _)| *known != mark) => {
                valid.push((mark, citation));
            }
            Some(_) => {}
            None => notes
                .push(format!("The model named passage {}:{}, which does not exist, for: “{text}”", mark.document, mark.passage)),
        }
    }
    Some((text, valid))
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let is_heading = text.len() < line.len() && text.starts_with(' ');
    let bold = || line.strip_prefix("**")?.strip_suffix("**").or_else(|| line.strip_prefix("**")?.strip_suffix("**:"));
    if is_heading { Some(text.trim()) } else { bold().filter(|text| !text.contains("**") && !text.ends_with('.')) }
}

fn without_bullet(line: &str) -> &str {
    let line = line.trim();
    let bullet = ["- ", "* ", "• ", "– ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = line.len() - rest.len();
        (1..=2).contains(&digits).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))).flatten()
    };
    bullet.or_else(numbered).unwrap_or(line).trim()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    document: u32,
    passage: usize,
}

/// Takes the marks out of a line: `[3:12]`, `[3:12, 3:14]`, `[3:12-14]`, `【3:12】`, `[Document 3, passage 12]`.
fn split_marks(line: &str) -> (String, Vec<Mark>) {
    let mut text = String::new();
    let mut marks = Vec::new();
    let mut rest = line;
    while let Some(open) = rest.find(['[', '【']) {
        let (before, bracket) = rest.split_at(open);
        text.push_str(before);
        let inner_start = bracket.chars().next().map_or(0, char::len_utf8);
        let close = bracket.find([']', '】']);
        let found = close.and_then(|close| Some((close, read_marks(bracket.get(inner_start..close)?)?)));
        if let Some((close, found)) = found {
            marks.extend(found);
            let after = close + bracket.get(close..).and_then(|end| end.chars().next()).map_or(0, char::len_utf8);
            rest = bracket.get(after..).unwrap_or_default();
            // The space before a mark belongs to the mark: `text [1:2].` is `text.`
            text.truncate(text.trim_end().len());
        } else {
            text.push_str(bracket.get(..inner_start).unwrap_or_default());
            rest = bracket.get(inner_start..).unwrap_or_default();
        }
    }
    text.push_str(rest);
    (text, marks)
}

/// The marks in a bracket, or `None` when it holds anything else. Round brackets never hold marks: `(10:30)` is a time.
fn read_marks(inner: &str) -> Option<Vec<Mark>> {
    let words =
        inner.to_lowercase().replace("document", " ").replace("doc", " ").replace("passages", ":").replace("passage", ":");
    let is_mark = !words.trim().is_empty()
        && words.chars().all(|c| c.is_ascii_digit() || c.is_whitespace() || matches!(c, ':' | ',' | ';' | '-' | '–' | '.'));
    if !is_mark || !words.contains(':') {
        return None;
    }
    let compact: String = words.chars().filter(|c| !c.is_whitespace() && *c != '.').collect();
    let compact = compact.replace(",:", ":").replace(";:", ":").replace('–', "-");
    let mut marks = Vec::new();
    let mut document = None;
    for part in compact.split([',', ';']).filter(|part| !part.is_empty()) {
        let passage = match part.split_once(':') {
            Some((number, passage)) => {
                document = Some(number.parse().ok()?);
                passage.rsplit(':').next()?
            }
            None => part,
        };
        let (first, last) = passage.split_once('-').unwrap_or((passage, passage));
        let first: usize = first.parse().ok()?;
        let last: usize = last.parse().ok()?;
        // A range of more than a few passages names nothing; its ends do.
        let named = if last.checked_sub(first)? <= 4 { (first..=last).collect() } else { vec![first, last] };
        let document = document?;
        marks.extend(named.into_iter().map(|passage| Mark { document, passage }));
    }
    (!marks.is_empty()).then_some(marks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceText;

    fn marks(line: &str) -> (String, Vec<(u32, usize)>) {
        let (text, marks) = split_marks(line);
        (text, marks.into_iter().map(|mark| (mark.document, mark.passage)).collect())
    }

    #[test]
    fn marks_are_read_in_many_spellings() {
        for line in [
            "It grew [3:12].",
            "It grew [3:12] .",
            "It grew 【3:12】.",
            "It grew [ 3 : 12 ].",
            "It grew [Document 3, passage 12].",
            "It grew [doc 3: 12].",
        ] {
            let (text, found) = marks(line);
            assert_eq!((text.replace(" .", "."), found), ("It grew.".to_owned(), vec![(3, 12)]), "{line}");
        }
        assert_eq!(marks("A [3:12, 3:14][4:2]").1, [(3, 12), (3, 14), (4, 2)]);
        assert_eq!(marks("A [3:12-14] [3:1; 2]").1, [(3, 12), (3, 13), (3, 14), (3, 1), (3, 2)]);
        assert_eq!(marks("At (10:30) [sic] they [1:1"), ("At (10:30) [sic] they [1:1".to_owned(), vec![]));
    }

    #[test]
    fn statements_become_plain_and_false_marks_are_reported() {
        let documents = [SourceText { number: 1, name: "a".to_owned(), date: String::new(), text: "The text.".to_owned() }];
        let passages = Passages::of(&documents, 1_000);
        let mut notes = Vec::new();
        let answer = "## In **short**\n- The [text](https://evil.test) <b>says</b> so [1:1][9:9]\n\n1. No source here\n---\n";
        let read = lines(answer, &passages, &mut notes);
        let citation = passages.citation(1, 1).expect("it exists");
        assert_eq!(
            read,
            [
                Line::Heading("In short".to_owned()),
                Line::Statement(Statement {
                    text: "The text says so".to_owned(),
                    citations: vec![citation],
                    unsupported: vec![]
                }),
                Line::Statement(Statement { text: "No source here".to_owned(), ..Statement::default() }),
            ]
        );
        assert_eq!(notes, ["The model named passage 9:9, which does not exist, for: “The text says so”"]);
        assert_eq!(tidy_notes(answer, &passages, &mut notes), "- The text says so [1:1]\n- No source here\n");
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn odd_input_never_panics() {
        for line in [
            "",
            "[",
            "]",
            "[:]",
            "[1:]",
            "[:1]",
            "[1:2-",
            "[1:5-2]",
            "[99999999999:1]",
            "【",
            "【1:1",
            "[1:1】é",
            "#",
            "**",
            "- ",
        ] {
            let _ = split_marks(line);
            let _ = heading(line);
        }
    }
}
