//! Word documents (Office Open XML, ECMA-376): headings as `#`, lists as `-`, table rows as `a | b`, then footnotes and
//! the headers and footers. Text that a reviewer has deleted, and hidden text, is left out: it is not what the
//! document says.

use std::collections::{BTreeSet, HashMap};

use quick_xml::events::BytesStart;

use super::archive::{Archive, Flow, Xml, attribute};
use super::delimited::row;
use super::draft::{Draft, Refusal};
use super::{Limits, properties};

const MAIN_PART: &str = "word/document.xml";

pub(super) fn read(bytes: &[u8], limits: &Limits, draft: &mut Draft) -> Result<(), Refusal> {
    let mut archive = Archive::open(bytes, limits)?;
    let main = main_part(&mut archive)?;
    properties::read(&mut archive, draft);
    let headings = headings(&mut archive).unwrap_or_default();
    read_part(&mut archive, &main, &headings, draft)?;
    let has_body = draft.has_text();
    // Sections repeat their headers and footers, each in a part of its own.
    let mut seen = BTreeSet::new();
    for name in archive.names() {
        let Some(stem) = name.strip_prefix("word/").and_then(|name| name.strip_suffix(".xml")) else {
            continue;
        };
        let kind = stem.trim_end_matches(|c: char| c.is_ascii_digit());
        if !["footnotes", "endnotes", "header", "footer"].contains(&kind) {
            continue;
        }
        let mut part = draft.inner();
        let outcome = read_part(&mut archive, &name, &headings, &mut part);
        if let Err(Refusal::TooLarge(why)) = outcome {
            return Err(Refusal::TooLarge(why));
        }
        if outcome.is_err() {
            draft.note(format!("its {kind} could not be read"));
        }
        if part.has_text() && seen.insert(part.fingerprint()) {
            draft.absorb(part, kind);
        }
    }
    if !has_body && archive.names().iter().any(|name| name.starts_with("word/media/")) {
        draft.note("it holds pictures, which are not read");
    }
    Ok(())
}

/// The part that holds the body: the package names it, since some programs call it `document2.xml`.
fn main_part(archive: &mut Archive<'_>) -> Result<String, Refusal> {
    if archive.has(MAIN_PART) {
        return Ok(MAIN_PART.to_owned());
    }
    let mut target = None;
    archive.read_xml("_rels/.rels", |event| {
        if let Xml::Start(element) = event
            && attribute(element, "Type").is_some_and(|kind| kind.ends_with("/officeDocument"))
        {
            target = attribute(element, "Target");
        }
        Flow::Continue
    })?;
    target
        .map(|target| target.trim_start_matches('/').to_owned())
        .filter(|target| archive.has(target))
        .ok_or_else(|| Refusal::Unreadable("its main part is missing".to_owned()))
}

/// The heading level of each paragraph style that is one. Style ids are translated, their names are not.
fn headings(archive: &mut Archive<'_>) -> Result<HashMap<String, usize>, Refusal> {
    let mut levels = HashMap::new();
    let mut style = String::new();
    archive.read_xml("word/styles.xml", |event| {
        if let Xml::Start(element) = event {
            match element.local_name().as_ref() {
                "style" => style = attribute(element, "styleId").unwrap_or_default(),
                "name" => {
                    let name = attribute(element, "val").unwrap_or_default().to_ascii_lowercase();
                    let level = match name.strip_prefix("heading ") {
                        Some(level) => level.parse().ok(),
                        None => (name == "title").then_some(1),
                    };
                    if let Some(level @ 1..=9) = level {
                        levels.insert(style.clone(), level);
                    }
                }
                _ => {}
            }
        }
        Flow::Continue
    })?;
    Ok(levels)
}

fn read_part(archive: &mut Archive<'_>, name: &str, headings: &HashMap<String, usize>, draft: &mut Draft) -> Result<(), Refusal> {
    let mut body = Body { headings, draft, paragraphs: Vec::new(), tables: Vec::new(), skipping: 0, in_text: false };
    archive.read_xml(name, |event| {
        match event {
            Xml::Start(element) => body.start(element),
            Xml::End(name) => body.end(name),
            Xml::Text(text) => body.text(text),
        }
        Flow::Continue
    })
}

/// A paragraph that is being read.
#[derive(Default)]
struct Paragraph {
    text: String,
    heading: Option<usize>,
    in_list: bool,
    run_is_hidden: bool,
    /// Where the current run began, so that hidden text can be taken back: its property follows the run's start.
    run_start: usize,
}

/// The state of reading one part. Paragraphs nest through text boxes, tables through their cells.
struct Body<'a> {
    headings: &'a HashMap<String, usize>,
    draft: &'a mut Draft,
    paragraphs: Vec<Paragraph>,
    tables: Vec<Vec<String>>,
    /// How many elements deep we are in one that is left out; 0 outside.
    skipping: usize,
    in_text: bool,
}

impl Body<'_> {
    fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let name = name.as_ref();
        // Fallback repeats in an older form what Choice says.
        if self.skipping > 0 || matches!(name, "del" | "moveFrom" | "Fallback" | "pPrChange" | "rPrChange") {
            self.skipping += 1;
            return;
        }
        match name {
            "p" => self.paragraphs.push(Paragraph::default()),
            "tbl" => {
                if self.tables.is_empty() {
                    self.draft.push("\n");
                }
                self.tables.push(Vec::new());
            }
            "tc" => {
                if let Some(cells) = self.tables.last_mut() {
                    cells.push(String::new());
                }
            }
            "t" => self.in_text = true,
            _ => self.start_in_paragraph(name, element),
        }
    }

    fn start_in_paragraph(&mut self, name: &str, element: &BytesStart<'_>) {
        let Some(paragraph) = self.paragraphs.last_mut() else {
            return;
        };
        match name {
            "pStyle" => {
                let style = attribute(element, "val").unwrap_or_default();
                paragraph.heading = self.headings.get(&style).copied();
                paragraph.in_list |= style.starts_with("List");
            }
            "numPr" => paragraph.in_list = true,
            "r" => {
                paragraph.run_start = paragraph.text.len();
                paragraph.run_is_hidden = false;
            }
            "vanish" => {
                let value = attribute(element, "val");
                paragraph.run_is_hidden = !matches!(value.as_deref(), Some("0" | "false" | "off"));
            }
            "tab" => paragraph.text.push('\t'),
            "br" | "cr" => paragraph.text.push('\n'),
            "noBreakHyphen" => paragraph.text.push('-'),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        if self.skipping > 0 {
            self.skipping -= 1;
            return;
        }
        match name {
            "t" => self.in_text = false,
            "r" => {
                if let Some(paragraph) = self.paragraphs.last_mut()
                    && paragraph.run_is_hidden
                {
                    paragraph.text.truncate(paragraph.run_start);
                }
            }
            "p" => self.end_paragraph(),
            "tr" => self.end_row(),
            "tbl" => self.end_table(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.in_text
            && self.skipping == 0
            && let Some(paragraph) = self.paragraphs.last_mut()
        {
            paragraph.text.push_str(text);
        }
    }

    fn end_paragraph(&mut self) {
        let Some(paragraph) = self.paragraphs.pop() else {
            return;
        };
        let text = paragraph.text.trim();
        if text.is_empty() {
            return;
        }
        if let Some(cell) = self.tables.last_mut().and_then(|cells| cells.last_mut()) {
            if !cell.is_empty() {
                cell.push(' ');
            }
            cell.push_str(text);
            return;
        }
        match (paragraph.heading, paragraph.in_list) {
            (Some(level), _) => {
                self.draft.set_title(text);
                self.draft.push_block(&format!("{} {text}", "#".repeat(level)));
            }
            (None, true) => {
                if self.draft.has_text() {
                    self.draft.push("\n");
                }
                self.draft.push(&format!("- {text}"));
            }
            (None, false) => self.draft.push_block(text),
        }
    }

    fn end_row(&mut self) {
        let Some(cells) = self.tables.last_mut() else {
            return;
        };
        let cells = std::mem::take(cells);
        let Some(line) = row(cells.iter().map(String::as_str)) else {
            return;
        };
        // A table inside a cell becomes part of that cell.
        let outer = self.tables.iter_mut().rev().nth(1);
        if let Some(cell) = outer.and_then(|cells| cells.last_mut()) {
            if !cell.is_empty() {
                cell.push_str("; ");
            }
            cell.push_str(&line);
        } else {
            self.draft.push("\n");
            self.draft.push(&line);
        }
    }

    fn end_table(&mut self) {
        self.tables.pop();
        if self.tables.is_empty() {
            self.draft.push("\n");
        }
    }
}
