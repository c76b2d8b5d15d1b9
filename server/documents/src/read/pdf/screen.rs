//! Makes a PDF harmless before a reader that trusts it sees it.
//!
//! Two things cannot be caught once they happen: memory filled by a stream that inflates without end, and a stack filled
//! by objects that contain themselves. Both are looked for here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use flate2::read::ZlibDecoder;
use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

use super::super::draft::Refusal;
use super::super::size;

/// Streams that inflate by more than this are suspect: no honest page or font does.
const SUSPECT_RATIO: u64 = 100;
/// A stream that cannot be measured without unpacking it whole inflates at most 1 : 2,700 or so (LZW); a larger one is emptied.
const MAX_UNMEASURED_BYTES: usize = 64 << 10;
/// All streams together may inflate to this many times the limit, counting those twice that lie in one another.
const ALL_TO_SUSPECT: u64 = 8;
/// More streams than this are no document.
const MAX_STREAMS: usize = 100_000;
/// How deep the tree of pages may be, and how deep forms may be drawn inside forms.
const MAX_DEPTH: usize = 24;
/// How many forms one form may draw, directly and through others.
const MAX_DRAWS: u64 = 10_000;

/// Probes at every compressed stream of the file as it lies there, before object streams are unpacked by the parser.
pub(super) fn raw_streams(bytes: &[u8], max_inflated: u64) -> Result<(), Refusal> {
    const KEYWORD: &[u8] = b"stream";
    let mut budget = Budget::new(max_inflated);
    let mut streams = 0;
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(KEYWORD.len()).position(|window| window == KEYWORD) {
        let start = at + found + KEYWORD.len();
        let is_end = bytes[..at + found].ends_with(b"end");
        at = start;
        let data = bytes[start..].trim_ascii_start();
        // Pictures are never unpacked here, and white ones inflate a lot.
        let dictionary = &bytes[(start - KEYWORD.len()).saturating_sub(512)..start];
        let has = |name: &[u8]| dictionary.windows(name.len()).any(|window| window == name);
        let is_picture = has(b"/Image") && !has(b"/ObjStm") && !has(b"/XRef") && !has(b"#");
        if !is_end && !is_picture && data.first().is_some_and(|byte| byte & 0x0f == 8) {
            streams += 1;
            if streams > MAX_STREAMS {
                let why = format!("it has more than {MAX_STREAMS} parts inside");
                return Err(Refusal::TooLarge(why));
            }
            budget.charge(data)?;
        }
    }
    Ok(())
}

/// Empties pictures, whatever could unpack without bound and forms that draw themselves; refuses page trees without an
/// end. Answers whether anything but pictures was emptied.
pub(super) fn document(document: &mut Document, max_inflated: u64) -> Result<bool, Refusal> {
    let mut budget = Budget::new(max_inflated);
    let mut emptied = false;
    for object in document.objects.values_mut() {
        if let Object::Stream(stream) = object {
            if is_picture(stream) {
                empty(stream);
            } else if !is_bounded(stream, &mut budget)? {
                empty(stream);
                emptied = true;
            }
        }
    }
    check_ancestors(document)?;
    let endless = endless_forms(document);
    for id in endless {
        if let Some(Object::Stream(stream)) = document.objects.get_mut(&id) {
            empty(stream);
            emptied = true;
        }
    }
    Ok(emptied)
}

fn empty(stream: &mut Stream) {
    stream.dict.remove(b"Filter");
    stream.dict.remove(b"DecodeParms");
    stream.set_content(Vec::new());
}

fn is_picture(stream: &Stream) -> bool {
    stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image")
}

/// Whether it is known that a stream, unpacked, keeps within bounds. Streams that are larger for certain are refused.
fn is_bounded(stream: &Stream, budget: &mut Budget) -> Result<bool, Refusal> {
    let Ok(filters) = stream.filters() else {
        return Ok(true);
    };
    let packers = filters.iter().filter(|filter| [&b"FlateDecode"[..], b"LZWDecode"].contains(filter)).count();
    match filters.as_slice() {
        [b"FlateDecode", ..] if packers == 1 => budget.charge(&stream.content).map(|()| true),
        // LZW, or behind another filter: what could come of it at worst must fit.
        _ if packers == 1 => Ok(stream.content.len() <= MAX_UNMEASURED_BYTES),
        _ => Ok(packers == 0),
    }
}

/// pdf-extract looks for what a page inherits (ISO 32000-1, 7.7.3.4) in its ancestors, without looking back.
fn check_ancestors(document: &Document) -> Result<(), Refusal> {
    for page in document.get_pages().into_values() {
        let mut node = page;
        let mut depth = 0;
        while let Ok(parent) =
            document.get_dictionary(node).and_then(|dictionary| dictionary.get(b"Parent")).and_then(Object::as_reference)
        {
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(Refusal::Unreadable("its pages contain themselves".to_owned()));
            }
            node = parent;
        }
    }
    Ok(())
}

/// The forms (ISO 32000-1, 8.10) that draw themselves, directly or through others, or that take too many draws.
fn endless_forms(document: &Document) -> Vec<ObjectId> {
    let mut forms: BTreeMap<ObjectId, Form> = BTreeMap::new();
    let mut endless = Vec::new();
    for id in drawable(document) {
        let Some(Object::Stream(stream)) = document.objects.get(&id) else {
            continue;
        };
        let draws = count_draws(stream);
        match resolve(document, &stream.dict, b"Resources") {
            Some(resources) => {
                forms.insert(id, Form { draws, drawn: drawn(document, resources) });
            }
            // Without resources of its own a form uses those of whoever draws it, in which it stands itself.
            None if draws > 0 => endless.push(id),
            None => {}
        }
    }
    // How many draws a form takes is known when those of all that it draws are. One that does not get there within the depth
    // that is allowed nests too deep or draws itself.
    let mut costs: BTreeMap<ObjectId, u64> = BTreeMap::new();
    for _ in 0..MAX_DEPTH {
        let cost = |id: &ObjectId| {
            if forms.contains_key(id) { costs.get(id).copied() } else { Some(0) }
        };
        let known: Vec<(ObjectId, u64)> = forms
            .iter()
            .filter(|(id, _)| !costs.contains_key(id))
            .filter_map(|(id, form)| {
                let inner = form.drawn.iter().map(cost);
                let most = inner.collect::<Option<Vec<_>>>()?.into_iter().max();
                let each = most.unwrap_or(0).saturating_add(1);
                Some((*id, form.draws.saturating_mul(each)))
            })
            .collect();
        costs.extend(known);
    }
    let too_much = |cost: &u64| *cost > MAX_DRAWS;
    endless.extend(forms.keys().filter(|id| costs.get(id).is_none_or(too_much)));
    endless
}

/// A content stream and what it may draw.
struct Form {
    draws: u64,
    drawn: Vec<ObjectId>,
}

/// Everything that some content stream can draw. The reader draws whatever is named, form or not.
fn drawable(document: &Document) -> BTreeSet<ObjectId> {
    let mut ids = BTreeSet::new();
    for object in document.objects.values() {
        let dictionary = match object {
            Object::Dictionary(dictionary) => dictionary,
            Object::Stream(stream) => &stream.dict,
            _ => continue,
        };
        // Resources stand in the dictionary of a page or form, or are an object of their own.
        ids.extend(drawn(document, dictionary));
        if let Some(resources) = resolve(document, dictionary, b"Resources") {
            ids.extend(drawn(document, resources));
        }
    }
    ids
}

/// What the resources let a content stream draw.
fn drawn(document: &Document, resources: &Dictionary) -> Vec<ObjectId> {
    let Some(named) = resolve(document, resources, b"XObject") else {
        return Vec::new();
    };
    named.iter().filter_map(|(_, object)| object.as_reference().ok()).collect()
}

fn resolve<'a>(document: &'a Document, dictionary: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    let object = dictionary.get(key).ok()?;
    document.dereference(object).ok()?.1.as_dict().ok()
}

/// At most how often a content stream uses the operator `Do`. Whatever could unpack without bound is empty by now.
fn count_draws(stream: &Stream) -> u64 {
    let content = stream.decompressed_content().unwrap_or_else(|_| stream.content.clone());
    u64::try_from(content.windows(2).filter(|window| window == b"Do").count()).unwrap_or(u64::MAX)
}

/// What streams may still inflate to, together: suspect ones strictly, all of them generously, since a file can be made so
/// that each of its streams contains the next.
struct Budget {
    max: u64,
    suspect_left: u64,
    left: u64,
}

impl Budget {
    fn new(max: u64) -> Self {
        Self { max, suspect_left: max, left: max.saturating_mul(ALL_TO_SUSPECT) }
    }

    /// Inflates zlib data and throws it away, counting. Broken data ends where it breaks.
    fn charge(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let mut decoder = ZlibDecoder::new(data);
        let _ = io::copy(&mut (&mut decoder).take(self.left.saturating_add(1)), &mut io::sink());
        let inflated = decoder.total_out();
        let is_suspect = inflated / decoder.total_in().max(1) > SUSPECT_RATIO;
        if inflated > self.left || (is_suspect && inflated > self.suspect_left) {
            return Err(Refusal::TooLarge(format!("it unpacks to more than {}, as a zip bomb does", size(self.max))));
        }
        self.left -= inflated;
        if is_suspect {
            self.suspect_left -= inflated;
        }
        Ok(())
    }
}
