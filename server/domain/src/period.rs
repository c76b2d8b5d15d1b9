//! The stretch of time that a report is about: a calendar month as people in one time zone live it.
//!
//! It is kept as a half-open interval `[start, end)` of instants, so that every instant belongs to exactly one month
//! and neighbouring months leave no gap, whatever daylight saving does at their edges.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;

use contract::Month;

/// Why a period cannot be made. Its `Display` is a sentence for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// No zone of the IANA database has this name.
    #[error("\"{0}\" is not a time zone that Recount knows. Use an IANA name, for example Europe/Berlin.")]
    UnknownZone(String),
    /// The month ends with the calendar, so it has no first instant after it.
    #[error("{0} is too far away for a report. Choose a month before 9999-12.")]
    OutOfRange(Month),
}

/// The zone with the IANA name `name`, for example `Europe/Berlin`.
pub fn parse_zone(name: &str) -> Result<Tz, PeriodError> {
    name.trim().parse().map_err(|_| PeriodError::UnknownZone(name.to_owned()))
}

/// A month in a zone, with its first instant and the first instant after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    month: Month,
    zone: Tz,
    start: DateTime<Utc>,
    end: DateTime<Utc>,
}

impl Period {
    /// The interval of `month` in `zone`.
    pub fn new(month: Month, zone: Tz) -> Result<Self, PeriodError> {
        let edge = |month: Option<Month>| {
            let month = month?;
            let day = NaiveDate::from_ymd_opt(month.year(), u32::from(month.number()), 1)?;
            first_instant(day, zone)
        };
        match (edge(Some(month)), edge(month.next())) {
            (Some(start), Some(end)) => Ok(Self { month, zone, start, end }),
            _ => Err(PeriodError::OutOfRange(month)),
        }
    }

    /// The calendar month.
    pub fn month(&self) -> Month {
        self.month
    }

    /// The zone in which the month is meant.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The first instant of the month.
    pub fn start(&self) -> DateTime<Utc> {
        self.start
    }

    /// The first instant that no longer belongs to the month.
    pub fn end(&self) -> DateTime<Utc> {
        self.end
    }

    /// Whether the instant lies in `[start, end)`.
    pub fn contains(&self, instant: DateTime<Utc>) -> bool {
        self.start <= instant && instant < self.end
    }

    /// Whether a local calendar date lies in the month. A date without a time has no instant, so the zone plays no part.
    pub fn contains_date(&self, date: NaiveDate) -> bool {
        month_of(date) == Some(self.month)
    }

    /// Whether nothing of the month has begun yet at `now`.
    pub fn is_future(&self, now: DateTime<Utc>) -> bool {
        now < self.start
    }

    /// The month in words, for example `1 to 30 June 2026, Europe/Berlin`.
    pub fn describe(&self) -> String {
        format!("1 to {} {}, {}", self.month.days(), self.month.title(), self.zone)
    }
}

/// The month in which a date lies; `None` outside the years 1 to 9999.
pub fn month_of(date: NaiveDate) -> Option<Month> {
    Month::new(date.year(), u8::try_from(date.month()).ok()?).ok()
}

/// The first instant whose local date in `zone` is `day`.
///
/// Zones may skip midnight (clocks went from 00:00 to 01:00) or live it twice, and some have skipped a whole day; then
/// the day begins with the first instant that is not before its midnight.
pub fn first_instant(day: NaiveDate, zone: Tz) -> Option<DateTime<Utc>> {
    let midnight = day.and_time(NaiveTime::MIN);
    if let Some(first) = zone.from_local_datetime(&midnight).earliest() {
        return Some(first.to_utc());
    }
    // Midnight falls into a gap. The gap ends where the local clock, which only jumps forward here, first shows midnight
    // or later: a binary search between two instants that lie safely before and after it.
    let shows = |utc: NaiveDateTime| {
        utc.checked_add_signed(TimeDelta::seconds(i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())))
    };
    let mut before = midnight.checked_sub_signed(TimeDelta::hours(36))?;
    let mut after = midnight.checked_add_signed(TimeDelta::hours(36))?;
    while after - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
        if shows(middle)? >= midnight {
            after = middle;
        } else {
            before = middle;
        }
    }
    Some(after.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(month: &str, zone: &str) -> Period {
        Period::new(month.parse().unwrap(), parse_zone(zone).unwrap()).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_month_is_half_open_in_its_own_zone() {
        let june = period("2026-06", "Europe/Berlin");
        assert_eq!(june.start(), at("2026-05-31T22:00:00Z"));
        assert_eq!(june.end(), at("2026-06-30T22:00:00Z"));
        assert!(june.contains(june.start()));
        assert!(june.contains(at("2026-06-30T21:59:59Z")));
        assert!(!june.contains(june.end()));
        assert_eq!(june.describe(), "1 to 30 June 2026, Europe/Berlin");
    }

    #[test]
    fn the_months_with_a_clock_change_are_an_hour_shorter_or_longer() {
        let hours = |month, zone| {
            let period = period(month, zone);
            (period.end() - period.start()).num_hours()
        };
        assert_eq!(hours("2026-03", "Europe/Berlin"), 31 * 24 - 1);
        assert_eq!(hours("2026-10", "Europe/Berlin"), 31 * 24 + 1);
        assert_eq!(hours("2026-03", "America/New_York"), 31 * 24 - 1);
        assert_eq!(hours("2026-03", "UTC"), 31 * 24);
        assert_eq!(hours("2026-04", "Australia/Lord_Howe"), 30 * 24);
    }

    #[test]
    fn neighbouring_months_leave_no_gap_in_any_zone() {
        for zone in chrono_tz::TZ_VARIANTS {
            for (this, next) in [("2025-12", "2026-01"), ("1995-01", "1995-02"), ("2011-12", "2012-01")] {
                let this = Period::new(this.parse().unwrap(), zone).unwrap();
                let next = Period::new(next.parse().unwrap(), zone).unwrap();
                assert_eq!(this.end(), next.start(), "{zone}");
                assert!(this.start() < this.end(), "{zone}");
            }
        }
    }

    #[test]
    fn a_day_without_midnight_begins_when_its_first_instant_exists() {
        // Sao Paulo: on 2017-10-15 the clocks went from 00:00 to 01:00.
        let day = NaiveDate::from_ymd_opt(2017, 10, 15).unwrap();
        let zone = parse_zone("America/Sao_Paulo").unwrap();
        assert_eq!(first_instant(day, zone), Some(at("2017-10-15T03:00:00Z")));
        // Cairo: on 2010-09-10 the clocks went from 00:00 to 01:00 after Ramadan.
        let day = NaiveDate::from_ymd_opt(2010, 9, 10).unwrap();
        let zone = parse_zone("Africa/Cairo").unwrap();
        let first = first_instant(day, zone).unwrap();
        assert_eq!(first.with_timezone(&zone).date_naive(), day);
        let before = (first - TimeDelta::seconds(1)).with_timezone(&zone);
        assert!(before.date_naive() < day);
        // Sao Paulo in 1965: the clocks skipped the first hour of a month.
        let december = period("1965-12", "America/Sao_Paulo");
        assert_eq!(december.start(), at("1965-12-01T03:00:00Z"));
    }

    #[test]
    fn a_midnight_lived_twice_counts_from_the_first_time() {
        // Havana: on 2026-11-01 the clocks go from 01:00 back to 00:00, so midnight comes twice.
        let november = period("2026-11", "America/Havana");
        assert_eq!(november.start(), at("2026-11-01T04:00:00Z"));
        assert_eq!((november.end() - november.start()).num_hours(), 30 * 24 + 1);
    }

    #[test]
    fn a_day_that_a_zone_skipped_gives_no_hole_at_the_year_end() {
        // Apia went from 2011-12-29 straight to 2011-12-31.
        let december = period("2011-12", "Pacific/Apia");
        assert_eq!((december.end() - december.start()).num_days(), 30);
        let skipped = NaiveDate::from_ymd_opt(2011, 12, 30).unwrap();
        let zone = parse_zone("Pacific/Apia").unwrap();
        assert_eq!(first_instant(skipped, zone), Some(at("2011-12-30T10:00:00Z")));
    }

    #[test]
    fn an_unknown_zone_is_refused_with_an_example() {
        let error = parse_zone("Mars/Olympus").unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"Mars/Olympus\" is not a time zone that Recount knows. Use an IANA name, for example Europe/Berlin."
        );
        assert!(parse_zone("").is_err());
    }

    #[test]
    fn a_month_is_future_until_its_first_instant() {
        let june = period("2026-06", "Europe/Berlin");
        assert!(june.is_future(at("2026-05-31T21:59:59Z")));
        assert!(!june.is_future(at("2026-05-31T22:00:00Z")));
    }

    #[test]
    fn the_last_month_of_the_calendar_is_refused() {
        let last = "9999-12".parse().unwrap();
        assert_eq!(Period::new(last, Tz::UTC), Err(PeriodError::OutOfRange(last)));
        assert!(Period::new("0001-01".parse().unwrap(), Tz::UTC).is_ok());
    }

    #[test]
    fn a_date_without_a_time_belongs_to_its_month_by_the_calendar_alone() {
        let june = period("2026-06", "Pacific/Kiritimati");
        assert!(june.contains_date(NaiveDate::from_ymd_opt(2026, 6, 1).unwrap()));
        assert!(!june.contains_date(NaiveDate::from_ymd_opt(2026, 5, 31).unwrap()));
    }
}
