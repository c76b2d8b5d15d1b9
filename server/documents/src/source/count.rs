//! How many documents a month has in a source, quickly enough for a form.
//!
//! Names answer most of it. Where a stronger rule may stand inside a file only as much of it is read as that rule needs,
//! and all reading together is bounded; what is left unread is counted apart instead of guessed.

use super::dating::{Dated, Quick, date_document, quick_date};
use super::{Entry, Source};
use crate::read::{self, Head, Limits};
use domain::period::Period;

/// Whole files are read only up to this many bytes together.
const MAX_WHOLE_BYTES: u64 = 64 << 20;

/// What a source has for a month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Documents of the month.
    pub in_month: usize,
    /// Documents of other months.
    pub other_months: usize,
    /// Documents that no rule dates.
    pub undated: usize,
    /// Files that could not be opened, or whose kind Recount does not read.
    pub unreadable: usize,
    /// Documents that were not opened, to keep the answer quick. They may belong to the month.
    pub not_looked_at: usize,
    /// Why the count is not complete, as a sentence, if it is not.
    pub incomplete: Option<String>,
}

/// Counts the documents of a month. Once `stop` answers `true`, the rest is not looked at.
pub fn count(source: &Source, period: &Period, limits: &Limits, stop: &dyn Fn() -> bool) -> Count {
    let listing = source.list(stop);
    let mut count = Count { incomplete: listing.incomplete, ..Count::default() };
    let mut budget = MAX_WHOLE_BYTES;
    for entry in &listing.entries {
        if stop() {
            count.not_looked_at += 1;
            continue;
        }
        match date_entry(source, entry, limits, &mut budget) {
            Glance::Dated(Some(dated)) if dated.when.is_in(period) => count.in_month += 1,
            Glance::Dated(Some(_)) => count.other_months += 1,
            Glance::Dated(None) => count.undated += 1,
            Glance::Unreadable => count.unreadable += 1,
            Glance::Spared => count.not_looked_at += 1,
        }
    }
    count
}

/// What a quick look at a document gives.
enum Glance {
    Dated(Option<Dated>),
    Unreadable,
    Spared,
}

fn date_entry(source: &Source, entry: &Entry, limits: &Limits, budget: &mut u64) -> Glance {
    if entry.trouble.is_some() || entry.size > limits.max_bytes {
        return Glance::Unreadable;
    }
    let embedded = match quick_date(&entry.name, entry.modified) {
        Quick::Decided(dated) => return Glance::Dated(dated),
        Quick::Whole => None,
        Quick::Head => match source.date_by_head(entry) {
            Ok(head) => Some(head),
            Err(_) => return Glance::Unreadable,
        },
    };
    let embedded = match embedded {
        Some(Head::Refused) => return Glance::Unreadable,
        Some(Head::Date(date)) => date,
        None | Some(Head::NeedsWhole) if entry.size > *budget => return Glance::Spared,
        None | Some(Head::NeedsWhole) => {
            *budget -= entry.size;
            match source.read(entry, limits.max_bytes) {
                Ok(bytes) => read::embedded_date(&entry.name, &bytes, limits),
                Err(_) => return Glance::Unreadable,
            }
        }
    };
    Glance::Dated(date_document(&entry.name, None, embedded, entry.modified))
}
