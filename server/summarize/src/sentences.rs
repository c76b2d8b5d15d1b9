//! Cuts a document into sentences that know their bytes.
//!
//! Markdown, mail and extracted office text all come as lines. Lines are grouped into blocks first (a paragraph, a list
//! item, a quotation), because a sentence never crosses a block, and what is no prose (tables, code, front matter,
//! comments) is left out. Sentence bounds are those of Unicode UAX #29, repaired where an abbreviation, an initial or a
//! German ordinal only looks like an end.

use super::inline::PlainText;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// What a sentence stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Paragraph,
    Item,
    Quotation,
}

/// A sentence of a document.
#[derive(Debug, Clone)]
pub(super) struct Sentence {
    /// Plain text, whitespace normalised.
    pub(super) text: String,
    /// Its bytes in the document's text.
    pub(super) origin: Range<usize>,
    pub(super) kind: BlockKind,
    /// Index of the part of the document it stands in; headings begin parts.
    pub(super) part: usize,
    /// Whether it opens its block, so that nothing before it is needed to understand it.
    pub(super) opens_block: bool,
    /// Whether it opens its part.
    pub(super) opens_part: bool,
    /// How much of it is link text, from 0 to 1.
    pub(super) link_share: f64,
}

/// The heading of a part of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Heading {
    /// As written.
    pub(super) text: String,
    /// The headings above it, outermost first.
    pub(super) above: Vec<String>,
    level: usize,
}

/// A document cut into sentences.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// From the front matter or the first heading.
    pub(super) title: Option<String>,
    /// The headings of each part; the first part may have none.
    pub(super) headings: Vec<Heading>,
    pub(super) sentences: Vec<Sentence>,
}

struct Block {
    kind: BlockKind,
    lines: Vec<Range<usize>>,
}

/// Cuts `text` into sentences. Asks `stop` at every line and gives what it has once that says yes.
pub(super) fn outline(text: &str, stop: &dyn Fn() -> bool) -> Outline {
    let outline = Outline { headings: vec![Heading::default()], ..Outline::default() };
    let mut reader = Reader { text, outline, block: None, opens_part: true };
    reader.read(stop);
    reader.outline
}

struct Reader<'a> {
    text: &'a str,
    outline: Outline,
    block: Option<Block>,
    opens_part: bool,
}

/// What swallows lines until its own end.
enum Skipping {
    No,
    Code(String),
    Comment,
}

impl Reader<'_> {
    fn read(&mut self, stop: &dyn Fn() -> bool) {
        let lines = lines(self.text);
        let mut skipping = Skipping::No;
        let body = self.front_matter(&lines);
        for range in lines.into_iter().skip(body) {
            if stop() {
                return;
            }
            let line = self.text.get(range.clone()).unwrap_or_default();
            let trimmed = line.trim();
            match &skipping {
                Skipping::Code(fence) if trimmed.starts_with(fence.as_str()) => {
                    skipping = Skipping::No;
                }
                Skipping::Comment if trimmed.contains("-->") => skipping = Skipping::No,
                Skipping::Code(_) | Skipping::Comment => {}
                Skipping::No => {
                    if let Some(fence) = fence(trimmed) {
                        self.close();
                        skipping = Skipping::Code(fence.to_owned());
                    } else if trimmed.starts_with("<!--") {
                        self.close();
                        if !trimmed.contains("-->") {
                            skipping = Skipping::Comment;
                        }
                    } else {
                        self.line(line, trimmed, range);
                    }
                }
            }
        }
        self.close();
    }

    /// Reads `---` front matter or `Key: value` lines at the top, and gives the number of lines they take.
    fn front_matter(&mut self, lines: &[Range<usize>]) -> usize {
        let line = |i: usize| lines.get(i).and_then(|range| self.text.get(range.clone())).map(str::trim);
        let fenced = line(0) == Some("---");
        let start = usize::from(fenced);
        let is_end = |text: &str| {
            if fenced { text == "---" } else { text.is_empty() }
        };
        let Some(count) = (start..lines.len().min(start + 40)).position(|i| line(i).is_some_and(is_end)) else {
            return 0;
        };
        let fields: Vec<(&str, &str)> =
            (start..start + count).filter_map(|i| line(i)?.split_once(':')).map(|(key, value)| (key, value.trim())).collect();
        let keys = |(key, value): &(&str, &str)| {
            !key.contains(' ') && key.len() <= 30 && value.len() <= 200 && key.starts_with(|c: char| c.is_ascii_alphabetic())
        };
        // One `Note: …` line is a paragraph, not metadata, and so is a block with prose in it.
        if !fenced && (count < 2 || fields.len() != count || !fields.iter().all(keys)) {
            return 0;
        }
        let title = fields.iter().find(|(key, _)| matches!(key.to_ascii_lowercase().as_str(), "title" | "subject"));
        self.outline.title =
            title.map(|(_, value)| super::inline::plain(value.trim_matches(['"', '\'']))).filter(|title| !title.is_empty());
        start + count + usize::from(fenced)
    }

    fn line(&mut self, line: &str, trimmed: &str, range: Range<usize>) {
        let content = content_range(line, trimmed, &range);
        if trimmed.is_empty() || is_rule(trimmed) {
            let level = if trimmed.starts_with('=') { 1 } else { 2 };
            if is_underline(trimmed) && self.underlined_heading(level) {
                return;
            }
            self.close();
        } else if let Some(heading) = heading(trimmed) {
            self.close();
            let level = trimmed.len() - trimmed.trim_start_matches('#').len();
            self.open_part(&super::inline::plain(heading), level);
        } else if is_table(trimmed) || is_reference(trimmed) {
            self.close();
        } else if let Some(quoted) = trimmed.strip_prefix('>') {
            self.add(BlockKind::Quotation, content.end - quoted.trim_start().len()..content.end, false);
        } else if let Some(item) = item(trimmed) {
            self.add(BlockKind::Item, content.end - item.len()..content.end, true);
        } else {
            self.add(BlockKind::Paragraph, content, false);
        }
    }

    /// A single line above `===` or `---` was a heading.
    fn underlined_heading(&mut self, level: usize) -> bool {
        match self.block.take() {
            Some(Block { kind: BlockKind::Paragraph, lines }) if lines.len() == 1 => {
                let heading = PlainText::of_lines(self.text, &lines).as_str().to_owned();
                self.open_part(&heading, level);
                true
            }
            other => {
                self.block = other;
                false
            }
        }
    }

    fn open_part(&mut self, heading: &str, level: usize) {
        if self.outline.title.is_none() && !heading.is_empty() {
            self.outline.title = Some(heading.to_owned());
        }
        let mut above = Vec::new();
        let mut below = level;
        for outer in self.outline.headings.iter().rev() {
            if (1..below).contains(&outer.level) {
                above.insert(0, outer.text.clone());
                below = outer.level;
            }
        }
        self.outline.headings.push(Heading { text: heading.to_owned(), above, level });
        self.opens_part = true;
    }

    /// Adds a line to the open block, or opens one. Plain lines go on with whatever is open.
    fn add(&mut self, kind: BlockKind, content: Range<usize>, always_new: bool) {
        match &mut self.block {
            Some(block) if !always_new && (kind == BlockKind::Paragraph || kind == block.kind) => {
                block.lines.push(content);
            }
            _ => {
                self.close();
                self.block = Some(Block { kind, lines: vec![content] });
            }
        }
    }

    fn close(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        let plain = PlainText::of_lines(self.text, &block.lines);
        for (index, range) in sentence_ranges(plain.as_str()).into_iter().enumerate() {
            let (Some(text), Some(origin)) = (plain.as_str().get(range.clone()), plain.origin(&range)) else {
                continue;
            };
            self.outline.sentences.push(Sentence {
                text: text.to_owned(),
                origin,
                kind: block.kind,
                part: self.outline.headings.len() - 1,
                opens_block: index == 0,
                opens_part: std::mem::take(&mut self.opens_part),
                link_share: plain.link_share(&range),
            });
        }
    }
}

fn lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split_inclusive('\n')
        .map(|line| {
            let range = start..start + line.trim_end_matches(['\n', '\r']).len();
            start += line.len();
            range
        })
        .collect()
}

fn content_range(line: &str, trimmed: &str, range: &Range<usize>) -> Range<usize> {
    let lead = line.len() - line.trim_start().len();
    let start = range.start + lead;
    start..start + trimmed.len()
}

fn fence(line: &str) -> Option<&'static str> {
    ["```", "~~~"].into_iter().find(|fence| line.starts_with(fence))
}

fn heading(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim().trim_end_matches('#').trim_end())
}

fn is_rule(line: &str) -> bool {
    let solid: String = line.split_whitespace().collect();
    solid.len() >= 3 && ['-', '*', '_', '='].iter().any(|&mark| solid.chars().all(|c| c == mark))
}

fn is_underline(line: &str) -> bool {
    line.len() >= 3 && (line.chars().all(|c| c == '=') || line.chars().all(|c| c == '-'))
}

/// Rows of Markdown tables, of `a | b | c` lists, and of tab-separated text.
fn is_table(line: &str) -> bool {
    line.starts_with('|') || line.matches(" | ").count() >= 2 || line.matches('\t').count() >= 2
}

fn is_reference(line: &str) -> bool {
    line.starts_with('[') && line.find("]:").is_some_and(|at| !line[..at].contains(' ') || line[at..].contains("://"))
}

/// The text of a list item: after `-`, `*`, `+`, `•`, `1.`, `1)` and a task box.
fn item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ ", "• ", "– ", "· "].iter().find_map(|mark| line.strip_prefix(mark));
    let numbered = || {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let rest = line.get(digits..)?;
        (1..=3).contains(&digits).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))).flatten()
    };
    let text = bullet.or_else(numbered)?.trim_start();
    Some(["[ ] ", "[x] ", "[X] "].iter().find_map(|task| text.strip_prefix(task)).unwrap_or(text))
}

/// Ends of words that are no ends of sentences, in lower case and without the final point.
const ABBREVIATIONS: &[&str] = &[
    "e.g", "i.e", "etc", "vs", "cf", "approx", "no", "nos", "fig", "al", "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr",
    "inc", "ltd", "co", "corp", "dept", "est", "vol", "ed", "pp", "sec", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep",
    "sept", "oct", "nov", "dec", "a.m", "p.m", "u.s", "u.k", "z.b", "z. b", "d.h", "d. h", "u.a", "u. a", "bzw", "ca", "nr",
    "abs", "art", "bspw", "evtl", "ggf", "inkl", "usw", "vgl", "str", "mio", "mrd", "tel", "hr", "fr", "m", "mme", "mlle",
    "p.ex", "env", "sra", "srta", "dra", "núm", "pág", "ej",
];

const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "januar",
    "februar",
    "märz",
    "mai",
    "juni",
    "juli",
    "oktober",
    "dezember",
];

/// The trimmed ranges of the sentences of a block.
fn sentence_ranges(text: &str) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (start, piece) in text.split_sentence_bound_indices() {
        match ranges.last_mut() {
            Some(last) if goes_on(text.get(last.clone()).unwrap_or_default(), piece) => {
                last.end = start + piece.len();
            }
            _ => ranges.push(start..start + piece.len()),
        }
    }
    ranges
        .into_iter()
        .filter_map(|range| {
            let piece = text.get(range.clone())?;
            let start = range.start + piece.len() - piece.trim_start().len();
            Some(start..start + piece.trim().len())
        })
        .filter(|range| !range.is_empty())
        .collect()
}

/// Whether `next` belongs to the sentence that seems to end with `before`.
fn goes_on(before: &str, next: &str) -> bool {
    let ended = before.trim_end();
    let next_word = next.trim_start();
    if next_word.starts_with(|c: char| c.is_lowercase()) || !before.ends_with(char::is_whitespace) {
        return true;
    }
    let Some(stem) = ended.strip_suffix('.') else {
        return false;
    };
    let word = stem.rsplit([' ', '(']).next().unwrap_or_default().to_lowercase();
    let lowered = stem.to_lowercase();
    let first = next_word.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default().to_lowercase();
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word != "i";
    let is_ordinal =
        !word.is_empty() && word.len() <= 2 && word.chars().all(|c| c.is_ascii_digit()) && MONTHS.contains(&first.as_str());
    let ends_often = matches!(word.as_str(), "etc" | "no" | "usw" | "co" | "inc" | "ltd" | "a.m" | "p.m" | "u.s" | "u.k");
    let is_abbreviation = ABBREVIATIONS.iter().any(|known| word == *known || (known.contains(' ') && lowered.ends_with(known)));
    // `etc.` and its like end a sentence as often as not: a capital letter after them decides, a digit goes on.
    is_initial || is_ordinal || (is_abbreviation && (!ends_often || next_word.starts_with(|c: char| c.is_ascii_digit())))
}

#[cfg(test)]
mod tests;
