//! Which date a document has, and by which rule.
//!
//! The rules go from what a person has said on purpose to what a machine noted in passing: by hand, front matter, the
//! mail's Date, the file's name, its properties, the time of its last change. A date that does not exist or that
//! programs write when they know none is passed over.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

pub use crate::read::date::{DateRule, When};

use crate::read::date;

/// A date with the rule that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dated {
    /// When the document is from.
    pub when: When,
    /// How that is known.
    pub rule: DateRule,
}

impl Dated {
    /// For the page: `2026-06-03, by its file name`.
    pub fn describe(&self, zone: Tz) -> String {
        format!("{}, by {}", self.when.local(zone), self.rule.describe())
    }
}

/// Dates a document. `by_hand` is what a person said with the upload, `embedded` what [`crate::read::extract`] found,
/// `name` the path inside the source, `modified` the file's time. `None`: the document is undated.
pub fn date_document(
    name: &str,
    by_hand: Option<When>,
    embedded: Option<(When, DateRule)>,
    modified: Option<DateTime<Utc>>,
) -> Option<Dated> {
    let embedded = embedded.map(|(when, rule)| Dated { when, rule });
    let by_name = || date_in_name(name).map(|when| Dated { when, rule: DateRule::FileName });
    let by_time = || {
        let when = date::instant(modified?)?;
        Some(Dated { when, rule: DateRule::FileTime })
    };
    by_hand
        .map(|when| Dated { when, rule: DateRule::ByHand })
        .or(embedded.filter(|dated| dated.rule < DateRule::FileName))
        .or_else(by_name)
        .or(embedded)
        .or_else(by_time)
}

/// What dating a document takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// Nothing more: no rule that reads the file comes before this answer.
    Decided(Option<Dated>),
    /// Its first bytes: it may have front matter or be a mail.
    Head,
    /// All of it: its properties may have a date.
    Whole,
}

/// Dates a document without opening it, as far as that goes.
pub fn quick_date(name: &str, modified: Option<DateTime<Utc>>) -> Quick {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let without_reading = || date_document(name, None, None, modified);
    match extension.as_deref() {
        Some("csv" | "tsv") => Quick::Decided(without_reading()),
        Some("pdf" | "docx" | "docm" | "dotx" | "xlsx" | "xlsm" | "xltx" | "html" | "htm" | "xhtml") => match without_reading() {
            Some(dated) if dated.rule == DateRule::FileName => Quick::Decided(Some(dated)),
            _ => Quick::Whole,
        },
        _ => Quick::Head,
    }
}

/// The date in a path: in the file's name, else in the name of the innermost folder that has one.
///
/// `2026-05-06`, `2026_05_06`, `2026.05.06`, `20260506` anywhere in a name, else `2026-05` for the month alone, else the
/// folders `2026/05`.
pub fn date_in_name(name: &str) -> Option<When> {
    let parts: Vec<&str> = name.split('/').collect();
    parts.iter().rev().find_map(|part| date_in_part(part)).or_else(|| {
        parts.windows(2).rev().find_map(|pair| match pair {
            [year, month] if year.len() == 4 && month.len() == 2 => date::month(number(year)?.try_into().ok()?, number(month)?),
            _ => None,
        })
    })
}

fn date_in_part(part: &str) -> Option<When> {
    let runs = digit_runs(part);
    let day = runs.iter().enumerate().find_map(|(index, run)| match run.text.len() {
        // With a time behind it (`20260506T1230`, `20260506123000`) it is still that day.
        8 | 12 | 14 => full_date(run.text.get(..4)?, run.text.get(4..6)?, run.text.get(6..8)?),
        4 => {
            let (month, day) = (runs.get(index + 1)?, runs.get(index + 2)?);
            let joined = run.joins(month, part)? == month.joins(day, part)?;
            joined.then(|| full_date(run.text, month.text, day.text)).flatten()
        }
        _ => None,
    });
    day.or_else(|| {
        runs.iter().enumerate().find_map(|(index, run)| {
            let month = runs.get(index + 1).filter(|_| run.text.len() == 4)?;
            // `2026-02-31` is a wrong date, not a right month.
            let goes_on = runs.get(index + 2).is_some_and(|next| month.joins(next, part).is_some());
            let is_month = month.text.len() == 2 && !goes_on && run.joins(month, part)? != '.';
            is_month.then(|| date::month(number(run.text)?.try_into().ok()?, number(month.text)?)).flatten()
        })
    })
}

fn full_date(year: &str, month: &str, day: &str) -> Option<When> {
    if month.len() != 2 || day.len() != 2 {
        return None;
    }
    date::day(number(year)?.try_into().ok()?, number(month)?, number(day)?)
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Digits that stand together, with where they end and begin.
struct Run<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

impl Run<'_> {
    /// The one separator between this run and the next, if there is just one.
    fn joins(&self, next: &Run<'_>, part: &str) -> Option<char> {
        let mut between = part.get(self.end..next.start)?.chars();
        match (between.next(), between.next()) {
            (Some(separator @ ('-' | '_' | '.')), None) => Some(separator),
            _ => None,
        }
    }
}

fn digit_runs(part: &str) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for (at, _) in part.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(Run { text: "", start: at, end: at + 1 }),
        }
    }
    for run in &mut runs {
        run.text = part.get(run.start..run.end).unwrap_or_default();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::date::{day, month, parse};

    #[test]
    fn the_date_in_a_name_is_found_in_its_usual_forms() {
        for name in [
            "2026-05-06-this-week.md",
            "minutes_2026-05-06.pdf",
            "2026_05_06.txt",
            "2026.05.06 notes.txt",
            "20260506.csv",
            "IMG_20260506_123000.txt",
            "20260506123000.txt",
            "scan 2026-05-06T10.pdf",
            "2024/2026-05-06.md",
            "2026-05-06/minutes.md",
            "2026-05/2026-05-06/a.md",
            "v2 2026-05-06.md",
            "Zwölf 2026-05-06 für.md",
        ] {
            assert_eq!(date_in_name(name), day(2026, 5, 6), "{name}");
        }
        for name in ["2026-05/minutes.md", "2026-05 minutes.md", "minutes 2026_05.md", "2026-05.md", "board/2026/05/a.md"] {
            assert_eq!(date_in_name(name), month(2026, 5), "{name}");
        }
    }

    #[test]
    fn numbers_that_are_no_date_are_passed_over() {
        for name in [
            "",
            "november-18.md",
            "2026-02-31.md",
            "2026-13-01.md",
            "2026-13.md",
            "2025-2026 budget.xlsx",
            "1601-01-01.txt",
            "report 2026.md",
            "call 0049-30-1234.md",
            "1234567.md",
            "2026-05-123.md",
            "2026--05.md",
            "123456789012345.md",
            "2023-half-year.xlsx",
            "release 2026.05.md",
        ] {
            assert_eq!(date_in_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_rules_are_tried_in_their_order() {
        let modified = "2026-07-01T00:00:00Z".parse().ok();
        let dated = |name, by_hand, embedded| date_document(name, by_hand, embedded, modified).map(|dated| dated.rule);
        let front = parse("2026-06-03").map(|when| (when, DateRule::FrontMatter));
        let properties = parse("2026-06-03").map(|when| (when, DateRule::Metadata));
        assert_eq!(dated("2026-05-06.md", day(2026, 1, 1), front), Some(DateRule::ByHand));
        assert_eq!(dated("2026-05-06.md", None, front), Some(DateRule::FrontMatter));
        assert_eq!(dated("2026-05-06.docx", None, properties), Some(DateRule::FileName));
        assert_eq!(dated("2026-02-31.docx", None, properties), Some(DateRule::Metadata));
        assert_eq!(dated("minutes.md", None, None), Some(DateRule::FileTime));
        assert_eq!(date_document("minutes.md", None, None, None), None);
        let epoch = DateTime::from_timestamp(0, 0);
        assert_eq!(date_document("minutes.md", None, None, epoch), None);
    }

    #[test]
    fn a_name_decides_alone_only_where_no_stronger_rule_can_come_from_the_content() {
        let by_name = day(2026, 5, 6).map(|when| Dated { when, rule: DateRule::FileName });
        assert_eq!(quick_date("2026-05-06.pdf", None), Quick::Decided(by_name));
        assert_eq!(quick_date("2026-05-06.csv", None), Quick::Decided(by_name));
        assert_eq!(quick_date("2026-05-06.md", None), Quick::Head);
        assert_eq!(quick_date("minutes", None), Quick::Head);
        assert_eq!(quick_date("minutes.docx", None), Quick::Whole);
        assert_eq!(quick_date("figures.csv", None), Quick::Decided(None));
    }

    #[test]
    fn the_page_can_say_which_rule_dated_a_document() {
        let dated = date_document("2026-05-06.md", None, None, None).unwrap();
        assert_eq!(dated.describe(Tz::UTC), "2026-05-06, by its file name");
    }
}
