//! PDF, page by page, so that pages without text (scans, mostly) can be named.
//!
//! The text comes from pdf-extract, which knows fonts, encodings and spacing well but trusts the file: it panics on
//! surprises and follows references without an end. So each page runs behind `catch_unwind`, and [`screen`] makes the document
//! harmless first, because a stack overflow or a memory bomb cannot be caught.

mod screen;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Object, PlainTextOutput, decode_text_string, output_doc_page};

use super::date::{self, DateRule};
use super::draft::{Draft, Refusal};
use super::{Limits, text};

/// At most this many pages are listed by number in a reason.
const NAMED_PAGES: usize = 20;

pub(super) fn read(bytes: &[u8], limits: &Limits, draft: &mut Draft) -> Result<(), Refusal> {
    screen::raw_streams(bytes, limits.max_inflated)?;
    let mut document = load(bytes)?;
    if screen::document(&mut document, limits.max_inflated)? {
        draft.note("parts of it are built so that they cannot be read safely");
    }
    read_information(&document, draft);
    let pages: Vec<u32> = document.get_pages().into_keys().collect();
    if pages.is_empty() {
        return Err(Refusal::Unreadable("it has no pages, so it is broken or cut off".to_owned()));
    }
    let mut without_text = Vec::new();
    let mut broken = Vec::new();
    for &page in pages.iter().take(limits.max_pages) {
        match page_text(&document, page) {
            Some(words) if words.trim().is_empty() => without_text.push(page),
            // Some producers write tabs where others write spaces.
            Some(words) => draft.push_block(&text::normalise(&words.replace('\t', " "))),
            None => broken.push(page),
        }
    }
    if pages.len() > limits.max_pages {
        draft.note(format!("only the first {} of {} pages were read", limits.max_pages, pages.len()));
    }
    if !broken.is_empty() {
        draft.note(format!("{} could not be read", name_pages(&broken)));
    }
    if without_text.len() == pages.len() {
        return Err(Refusal::NoText("no text in it; it may be a scan".to_owned()));
    }
    if broken.len() == pages.len() {
        return Err(Refusal::Unreadable("none of its pages could be read".to_owned()));
    }
    if !without_text.is_empty() {
        let verb = if without_text.len() == 1 { "has" } else { "have" };
        draft.note(format!("{} {verb} no text", name_pages(&without_text)));
    }
    Ok(())
}

fn load(bytes: &[u8]) -> Result<Document, Refusal> {
    let locked = || Refusal::Locked("it is protected with a password".to_owned());
    match Document::load_mem(bytes) {
        // A document may be encrypted with the empty password, only to ask programs not to print or copy it.
        Ok(mut document) if document.is_encrypted() => {
            document.decrypt("").map_err(|_| locked())?;
            Ok(document)
        }
        Ok(document) => Ok(document),
        Err(pdf_extract::Error::Decryption(_) | pdf_extract::Error::InvalidPassword) => Err(locked()),
        Err(_) => Err(Refusal::Unreadable("its structure is broken or cut off".to_owned())),
    }
}

/// The text of a page; `None` if the page is broken.
fn page_text(document: &Document, page: u32) -> Option<String> {
    let full = catch_unwind(AssertUnwindSafe(|| {
        let mut words = String::new();
        let mut output = PlainTextOutput::new(&mut words);
        output_doc_page(document, &mut output, page).ok().map(|()| words)
    }));
    // The simpler reader misses some fonts and the spacing, but survives more.
    full.ok().flatten().or_else(|| {
        let simple = catch_unwind(AssertUnwindSafe(|| document.extract_text(&[page]).ok()));
        simple.ok().flatten().filter(|words| !words.trim().is_empty())
    })
}

/// Title and date from the document information dictionary (ISO 32000-1, 14.3.3).
fn read_information(document: &Document, draft: &mut Draft) {
    let information = document.trailer.get(b"Info").and_then(|object| document.dereference(object));
    let Ok(information) = information.and_then(|(_, object)| object.as_dict()) else {
        return;
    };
    let entry = |key: &[u8]| {
        let object = information.get(key).and_then(|object| document.dereference(object)).ok()?.1;
        matches!(object, Object::String(..)).then(|| decode_text_string(object).ok()).flatten()
    };
    draft.set_title(&entry(b"Title").unwrap_or_default());
    let date = [&b"CreationDate"[..], b"ModDate"].into_iter().find_map(|key| date::parse_pdf(&entry(key)?));
    draft.set_date(date, DateRule::Metadata);
}

/// `page 3`, `pages 3, 4 and 7`; runs are joined: `pages 3 to 9`.
fn name_pages(pages: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == page => *last = page,
            _ => runs.push((page, page)),
        }
    }
    let mut names: Vec<String> = runs
        .iter()
        .flat_map(|(first, last)| match last - first {
            0 => vec![first.to_string()],
            1 => vec![first.to_string(), last.to_string()],
            _ => vec![format!("{first} to {last}")],
        })
        .collect();
    if names.len() > NAMED_PAGES {
        names.truncate(NAMED_PAGES);
        return format!("{} pages (among them {})", pages.len(), names.join(", "));
    }
    let noun = if pages.len() == 1 { "page" } else { "pages" };
    match names.pop() {
        Some(last) if names.is_empty() => format!("{noun} {last}"),
        Some(last) => format!("{noun} {} and {last}", names.join(", ")),
        None => "no page".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_as_people_name_them() {
        assert_eq!(name_pages(&[3]), "page 3");
        assert_eq!(name_pages(&[3, 4, 7]), "pages 3, 4 and 7");
        assert_eq!(name_pages(&[1, 2, 3, 9]), "pages 1 to 3 and 9");
        let odd: Vec<u32> = (0..50).map(|page| page * 2 + 1).collect();
        assert!(name_pages(&odd).starts_with("50 pages (among them 1, 3, 5,"));
    }
}
