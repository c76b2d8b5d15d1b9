//! Dates as documents carry them.
//!
//! A document may give a moment (`2026-06-03T09:00:00+02:00`), a calendar day or only a month. They are kept apart,
//! because a day without a time belongs to its month in every time zone, while a moment does not.

use chrono::{DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, TimeZone, Utc};
use serde::{Deserialize, Serialize};

use contract::Month;
use domain::period::Period;

/// When a document is from, as exactly as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// A moment.
    Instant(DateTime<Utc>),
    /// A calendar day, wherever the reader lives.
    Day(NaiveDate),
    /// A calendar month.
    Month(Month),
}

impl When {
    /// Whether it lies in the period: a moment by the interval, a day or month by the calendar alone.
    pub fn is_in(self, period: &Period) -> bool {
        match self {
            Self::Instant(instant) => period.contains(instant),
            Self::Day(day) => period.contains_date(day),
            Self::Month(month) => period.month() == month,
        }
    }

    /// The date as people in `zone` write it: `2026-06-03`, or `2026-06` where only the month is known.
    pub fn local(self, zone: chrono_tz::Tz) -> String {
        match self {
            Self::Instant(instant) => instant.with_timezone(&zone).format("%Y-%m-%d").to_string(),
            Self::Day(day) => day.format("%Y-%m-%d").to_string(),
            Self::Month(month) => month.to_string(),
        }
    }

    /// The date itself, unless it is one that programs write when they know none.
    fn plausible(self) -> Option<Self> {
        let date = match self {
            Self::Instant(instant) => instant.date_naive(),
            Self::Day(day) => day,
            Self::Month(month) => NaiveDate::from_ymd_opt(month.year(), u32::from(month.number()), 2)?,
        };
        // The zero of Windows is 1601, of Excel 1899-12-30 or 1904-01-01, of Unix 1970-01-01, of .NET 0001-01-01.
        let zero = [(1904, 1, 1), (1970, 1, 1)].contains(&(date.year(), date.month(), date.day()));
        ((1901..2200).contains(&date.year()) && !zero).then_some(self)
    }
}

/// Which rule dated a document, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DateRule {
    /// A person gave the date with the upload.
    ByHand,
    /// The `date` of the front matter.
    FrontMatter,
    /// The Date header of a mail (RFC 5322).
    MailDate,
    /// The name of the file, or of a folder that it is in.
    FileName,
    /// The properties that the program which made the file wrote into it.
    Metadata,
    /// When the file was last changed.
    FileTime,
}

impl DateRule {
    /// Where the date comes from, for "dated by …".
    pub fn describe(self) -> &'static str {
        match self {
            Self::ByHand => "hand",
            Self::FrontMatter => "the date in its front matter",
            Self::MailDate => "the mail's Date header",
            Self::FileName => "its file name",
            Self::Metadata => "the date in its properties",
            Self::FileTime => "the time the file was last changed",
        }
    }
}

/// A moment as a date, unless programs write it when they know none.
pub fn instant(at: DateTime<Utc>) -> Option<When> {
    When::Instant(at).plausible()
}

/// A calendar day as a date; `None` if there is no such day.
pub fn day(year: i32, month: u32, day: u32) -> Option<When> {
    When::Day(NaiveDate::from_ymd_opt(year, month, day)?).plausible()
}

/// A month as a date; `None` if there is no such month.
pub fn month(year: i32, month: u32) -> Option<When> {
    When::Month(Month::new(year, u8::try_from(month).ok()?).ok()?).plausible()
}

/// A date in one of the usual notations: RFC 3339, RFC 5322, `2026-06-03` with or without a time, `2026-06`,
/// `3 June 2026`, `June 3, 2026`. A time without a zone counts as its day.
pub fn parse(text: &str) -> Option<When> {
    const DAYS: [&str; 8] = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d %B %Y", "%B %d, %Y", "%B %d %Y", "%Y%m%d"];
    const TIMES: [&str; 4] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
    const MOMENTS: [&str; 4] =
        ["%Y-%m-%d %H:%M:%S%.f %z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M %z"];
    let text = text.trim();
    let moment = DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_rfc2822(text))
        .ok()
        .or_else(|| MOMENTS.iter().find_map(|form| DateTime::parse_from_str(text, form).ok()));
    if let Some(moment) = moment {
        return instant(moment.to_utc());
    }
    let day = DAYS
        .iter()
        .find_map(|form| NaiveDate::parse_from_str(text, form).ok())
        .or_else(|| TIMES.iter().find_map(|form| Some(NaiveDateTime::parse_from_str(text, form).ok()?.date())));
    day.map(When::Day).or_else(|| text.parse().ok().map(When::Month)).and_then(When::plausible)
}

/// A PDF date, `D:YYYYMMDDHHmmSSOHH'mm'` (ISO 32000-1, 7.9.4); everything after the year may be missing.
pub fn parse_pdf(text: &str) -> Option<When> {
    let text = text.trim();
    let text = text.strip_prefix("D:").unwrap_or(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, zone) = text.split_at(digits);
    let number = |from: usize, to: usize| digits.get(from..to).and_then(|part| part.parse::<u32>().ok());
    let year = i32::try_from(number(0, 4)?).ok()?;
    let month_number = number(4, 6)?;
    let Some(day_number) = number(6, 8) else {
        return month(year, month_number);
    };
    let date = NaiveDate::from_ymd_opt(year, month_number, day_number)?;
    let time = date.and_hms_opt(number(8, 10).unwrap_or(0), number(10, 12).unwrap_or(0), number(12, 14).unwrap_or(0));
    match (time, pdf_offset(zone)) {
        (Some(time), Some(offset)) if digits.len() >= 10 => instant(offset.from_local_datetime(&time).single()?.to_utc()),
        _ => When::Day(date).plausible(),
    }
}

/// The `OHH'mm'` of a PDF date.
fn pdf_offset(zone: &str) -> Option<FixedOffset> {
    let sign = match zone.chars().next()? {
        'Z' => return FixedOffset::east_opt(0),
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let mut parts = zone[1..].split('\'').map(str::parse::<i32>);
    let hours = parts.next()?.ok()?;
    let minutes = parts.next().and_then(Result::ok).unwrap_or(0);
    if hours > 23 || minutes > 59 {
        return None;
    }
    FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::period::parse_zone;

    fn at(text: &str) -> Option<When> {
        text.parse().ok().map(When::Instant)
    }

    #[test]
    fn the_usual_notations_are_understood() {
        assert_eq!(parse("2026-06-03"), day(2026, 6, 3));
        assert_eq!(parse(" 2026/06/03 "), day(2026, 6, 3));
        assert_eq!(parse("3 June 2026"), day(2026, 6, 3));
        assert_eq!(parse("June 3, 2026"), day(2026, 6, 3));
        assert_eq!(parse("2026-06-03 10:15"), day(2026, 6, 3));
        assert_eq!(parse("2026-06-03T10:15:00"), day(2026, 6, 3));
        assert_eq!(parse("2026-06"), month(2026, 6));
        assert_eq!(parse("2026-06-01T01:00:00+02:00"), at("2026-05-31T23:00:00Z"));
        assert_eq!(parse("2026-06-01 01:00:00 +0200"), at("2026-05-31T23:00:00Z"));
        assert_eq!(parse("Mon, 01 Jun 2026 01:00:00 +0200"), at("2026-05-31T23:00:00Z"));
    }

    #[test]
    fn dates_that_do_not_exist_or_mean_nothing_are_ignored() {
        for text in [
            "",
            "tomorrow",
            "2026-02-31",
            "2026-13-01",
            "1601-01-01T00:00:00Z",
            "0001-01-01",
            "1970-01-01T00:00:00Z",
            "1899-12-30",
            "9999-12-31",
            "2026",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn pdf_dates_are_read_with_and_without_their_tails() {
        assert_eq!(parse_pdf("D:20260601010000+02'00'"), at("2026-05-31T23:00:00Z"));
        assert_eq!(parse_pdf("D:20260601010000-0530"), day(2026, 6, 1));
        assert_eq!(parse_pdf("D:20260601010000Z"), at("2026-06-01T01:00:00Z"));
        assert_eq!(parse_pdf("20260601"), day(2026, 6, 1));
        assert_eq!(parse_pdf("D:202606"), month(2026, 6));
        for text in ["", "D:", "D:2026", "D:20261301", "D:2026é", "D:20260601010000+é"] {
            assert!(!matches!(parse_pdf(text), Some(When::Instant(_))), "{text}");
        }
    }

    #[test]
    fn a_moment_is_judged_by_the_interval_and_a_day_by_the_calendar() {
        let june = Period::new("2026-06".parse().unwrap(), parse_zone("Europe/Berlin").unwrap()).unwrap();
        assert!(parse("2026-05-31T23:00:00Z").unwrap().is_in(&june));
        assert!(!parse("2026-05-31").unwrap().is_in(&june));
        assert!(parse("2026-06-30").unwrap().is_in(&june));
        assert!(parse("2026-06").unwrap().is_in(&june));
        assert_eq!(parse("2026-05-31T23:00:00Z").unwrap().local(june.zone()), "2026-06-01");
    }
}
