//! The zip container of the Office formats, read as streams against a budget.
//!
//! Sizes in zip headers are claims. What counts is what really comes out of the decompressor, and it is counted while it
//! comes, over all parts of the file together.

use std::cell::Cell;
use std::io::{self, BufReader, Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;
use zip::result::ZipError;

use super::draft::Refusal;
use super::{Limits, size};

/// Office parts rarely inflate by more than 1 : 50; from this ratio on …
const MAX_RATIO: u64 = 250;
/// … a part is taken for a bomb once it has inflated to this many bytes. Small parts may well be very repetitive.
const RATIO_COUNTS_FROM: u64 = 16 << 20;
/// More parts than this are no document.
const MAX_PARTS: usize = 20_000;

/// A zip file with what may still be inflated of it.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    budget: Budget,
    max_nesting: usize,
}

/// How much the parts of one file have inflated to, and how much they may.
struct Budget {
    file_length: u64,
    max_inflated: u64,
    inflated: Cell<u64>,
    exhausted: Cell<bool>,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, Refusal> {
        let zip = ZipArchive::new(Cursor::new(bytes))
            .map_err(|_| Refusal::Unreadable("its zip container is broken or cut off".to_owned()))?;
        if zip.len() > MAX_PARTS {
            return Err(Refusal::TooLarge(format!("it has {} parts inside, the limit is {MAX_PARTS}", zip.len())));
        }
        let budget = Budget {
            file_length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            max_inflated: limits.max_inflated,
            inflated: Cell::new(0),
            exhausted: Cell::new(false),
        };
        Ok(Self { zip, budget, max_nesting: limits.max_nesting })
    }

    /// The names of all parts whose names are text, sorted.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.zip.file_names().filter_map(Result::ok).map(std::borrow::Cow::into_owned).collect();
        names.sort();
        names
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// Inflates every part once and throws it away, so that a library which reads the zip itself cannot meet a bomb.
    pub(super) fn check_all(&mut self) -> Result<(), Refusal> {
        for index in 0..self.zip.len() {
            let part = self.zip.by_index(index).map_err(|error| refusal(&error))?;
            let mut part = Metered::new(part.compressed_size(), part, &self.budget);
            // A damaged picture is no reason to refuse the text; the reader meets its own parts again.
            let _ = io::copy(&mut part, &mut io::sink());
            if self.budget.exhausted.get() {
                return Err(self.budget.refusal());
            }
        }
        Ok(())
    }

    /// Reads an XML part and gives its events to `handle` until it answers `false`. A missing part has no events.
    ///
    /// References to entities other than the five of XML and characters by number are left out, never expanded.
    pub(super) fn read_xml(&mut self, name: &str, mut handle: impl FnMut(Xml<'_>) -> Flow) -> Result<(), Refusal> {
        let Some(index) = self.zip.index_for_name(name) else {
            return Ok(());
        };
        let part = self.zip.by_index(index).map_err(|error| refusal(&error))?;
        let part = Metered::new(part.compressed_size(), part, &self.budget);
        let mut xml = Reader::from_reader(BufReader::new(part));
        let mut buffer = Vec::new();
        let mut depth = 0_usize;
        loop {
            buffer.clear();
            let event = match xml.read_event_into(&mut buffer) {
                Ok(event) => event,
                Err(_) if self.budget.exhausted.get() => return Err(self.budget.refusal()),
                Err(_) => return Err(Refusal::Unreadable(format!("its part {name} is broken"))),
            };
            let flow = match &event {
                Event::Start(element) => {
                    depth += 1;
                    if depth > self.max_nesting {
                        return Err(Refusal::Unreadable("its elements are nested too deep".to_owned()));
                    }
                    handle(Xml::Start(element))
                }
                Event::Empty(element) => match handle(Xml::Start(element)) {
                    Flow::Continue => handle(Xml::End(element.local_name().as_ref())),
                    Flow::Stop => Flow::Stop,
                },
                Event::End(element) => {
                    depth = depth.saturating_sub(1);
                    handle(Xml::End(element.local_name().as_ref()))
                }
                Event::Text(text) => handle(Xml::Text(&text.xml10_content())),
                Event::CData(text) => handle(Xml::Text(&text.xml10_content())),
                Event::GeneralRef(reference) => match resolve(reference) {
                    Some(c) => handle(Xml::Text(c.encode_utf8(&mut [0; 4]))),
                    None => Flow::Continue,
                },
                Event::Eof => Flow::Stop,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => Flow::Continue,
            };
            if flow == Flow::Stop {
                return Ok(());
            }
        }
    }
}

impl Budget {
    fn refusal(&self) -> Refusal {
        Refusal::TooLarge(format!(
            "it unpacks to far more than its {} (the limit is {}), as a zip bomb does",
            size(self.file_length),
            size(self.max_inflated)
        ))
    }
}

/// What [`Archive::read_xml`] hands out. Names are local names: prefixes differ between programs.
pub(super) enum Xml<'a> {
    Start(&'a BytesStart<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Whether to go on reading a part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// The value of the attribute with the local name `name`.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let attribute = element.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    attribute.normalized_value(quick_xml::XmlVersion::default()).ok().map(std::borrow::Cow::into_owned)
}

fn resolve(reference: &quick_xml::events::BytesRef<'_>) -> Option<char> {
    if reference.is_char_ref() {
        return reference.resolve_char_ref().ok().flatten();
    }
    match reference.xml10_content().as_ref() {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "apos" => Some('\''),
        "quot" => Some('"'),
        _ => None,
    }
}

fn refusal(error: &ZipError) -> Refusal {
    match error {
        ZipError::UnsupportedArchive(what) if *what == ZipError::PASSWORD_REQUIRED => {
            Refusal::Locked("it is protected with a password".to_owned())
        }
        ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_) => {
            Refusal::Unreadable("it is packed in a way that Recount does not know".to_owned())
        }
        _ => Refusal::Unreadable("its zip container is broken or cut off".to_owned()),
    }
}

/// A part whose inflated bytes are charged to the budget of the whole file.
struct Metered<'a, R> {
    part: R,
    compressed: u64,
    inflated: u64,
    budget: &'a Budget,
}

impl<'a, R: Read> Metered<'a, R> {
    fn new(compressed: u64, part: R, budget: &'a Budget) -> Self {
        // A header that claims more compressed bytes than the file has would weaken the ratio.
        let compressed = compressed.clamp(1, budget.file_length.max(1));
        Self { part, compressed, inflated: 0, budget }
    }
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.part.read(buffer)?;
        let more = u64::try_from(count).unwrap_or(u64::MAX);
        self.inflated += more;
        let total = self.budget.inflated.get() + more;
        self.budget.inflated.set(total);
        let ratio_is_absurd = self.inflated > RATIO_COUNTS_FROM && self.inflated / self.compressed > MAX_RATIO;
        if ratio_is_absurd || total > self.budget.max_inflated {
            self.budget.exhausted.set(true);
            return Err(io::Error::other("the budget of inflated bytes is used up"));
        }
        Ok(count)
    }
}
