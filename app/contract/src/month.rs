//! A calendar month, the unit in which people ask for reports.
//!
//! It knows nothing of time zones or clocks and needs only `std` and `serde`, because the browser uses it too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const NAMES: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/// A month of the proleptic Gregorian calendar, from 0001-01 to 9999-12.
///
/// It is written `YYYY-MM` (ISO 8601) everywhere: in addresses, forms, the database and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Month {
    year: i32,
    month: u8,
}

/// Why a text or a pair of numbers is not a month. Its `Display` is a sentence for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonthError {
    /// The text is not four digits, a hyphen and two digits.
    Form,
    /// The form is right, but there is no such month of the year.
    Month(String),
    /// The form is right, but the year is outside 0001 to 9999.
    Year(String),
}

impl fmt::Display for MonthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("Write the month as YYYY-MM, for example 2026-02."),
            Self::Month(text) => {
                write!(f, "\"{text}\" is not a month: months go from 01 to 12.")
            }
            Self::Year(text) => {
                write!(f, "\"{text}\" is not a month: years go from 0001 to 9999.")
            }
        }
    }
}

impl std::error::Error for MonthError {}

impl Month {
    /// The month of `year` (1 to 9999) with the number `month` (1 to 12).
    pub fn new(year: i32, month: u8) -> Result<Self, MonthError> {
        let text = || format!("{year:04}-{month:02}");
        if !(1..=9999).contains(&year) {
            Err(MonthError::Year(text()))
        } else if !(1..=12).contains(&month) {
            Err(MonthError::Month(text()))
        } else {
            Ok(Self { year, month })
        }
    }

    /// The year, 1 to 9999.
    pub fn year(self) -> i32 {
        self.year
    }

    /// The number of the month in its year, 1 to 12.
    pub fn number(self) -> u8 {
        self.month
    }

    /// The English name, for example `June`.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.month - 1)]
    }

    /// The name with the year, for example `June 2026`.
    pub fn title(self) -> String {
        format!("{} {}", self.name(), self.year)
    }

    /// The month before this one, or `None` before 0001-01.
    pub fn previous(self) -> Option<Self> {
        match self.month {
            1 => Self::new(self.year - 1, 12).ok(),
            month => Self::new(self.year, month - 1).ok(),
        }
    }

    /// The month after this one, or `None` after 9999-12.
    pub fn next(self) -> Option<Self> {
        match self.month {
            12 => Self::new(self.year + 1, 1).ok(),
            month => Self::new(self.year, month + 1).ok(),
        }
    }

    /// How many days the month has, 28 to 31.
    pub fn days(self) -> u8 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Whether a date, given as year, month and day, exists and lies in this month.
    pub fn contains(self, year: i32, month: u8, day: u8) -> bool {
        year == self.year && month == self.month && (1..=self.days()).contains(&day)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

impl FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        let (year, month) = text.split_once('-').ok_or(MonthError::Form)?;
        let digits = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(year, 4) || !digits(month, 2) {
            return Err(MonthError::Form);
        }
        let year = year.parse().map_err(|_| MonthError::Form)?;
        let month = month.parse().map_err(|_| MonthError::Form)?;
        Self::new(year, month)
    }
}

impl TryFrom<String> for Month {
    type Error = MonthError;

    fn try_from(text: String) -> Result<Self, MonthError> {
        text.parse()
    }
}

impl From<Month> for String {
    fn from(month: Month) -> Self {
        month.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(text: &str) -> Month {
        text.parse().unwrap()
    }

    #[test]
    fn a_month_reads_back_as_it_was_written() {
        for text in ["0001-01", "2026-06", "9999-12"] {
            assert_eq!(month(text).to_string(), text);
        }
        assert_eq!(month("2026-06").title(), "June 2026");
    }

    #[test]
    fn a_text_that_is_no_month_is_refused_in_plain_words() {
        let refused = |text: &str| text.parse::<Month>().unwrap_err().to_string();
        let form = "Write the month as YYYY-MM, for example 2026-02.";
        for text in [
            "",
            "abc",
            "2026-2",
            "2026-002",
            "26-02",
            "2026/02",
            "2026-0a",
            "+026-02",
            "2026-+2",
            " 2026-02",
            "2026-02 ",
            "２０２６-02",
            "2026-02-01",
        ] {
            assert_eq!(refused(text), form, "{text:?}");
        }
        assert_eq!(refused("2026-13"), "\"2026-13\" is not a month: months go from 01 to 12.");
        assert_eq!(refused("2026-00"), "\"2026-00\" is not a month: months go from 01 to 12.");
        assert_eq!(refused("0000-05"), "\"0000-05\" is not a month: years go from 0001 to 9999.");
    }

    #[test]
    fn neighbours_cross_the_year_and_end_with_the_calendar() {
        assert_eq!(month("2026-01").previous(), Some(month("2025-12")));
        assert_eq!(month("2025-12").next(), Some(month("2026-01")));
        assert_eq!(month("0001-01").previous(), None);
        assert_eq!(month("9999-12").next(), None);
        assert!(month("2025-12") < month("2026-01"));
    }

    #[test]
    fn february_follows_the_gregorian_leap_years() {
        let days = |text| month(text).days();
        assert_eq!(days("2024-02"), 29);
        assert_eq!(days("2026-02"), 28);
        assert_eq!(days("1900-02"), 28);
        assert_eq!(days("2000-02"), 29);
        assert!(month("2024-02").contains(2024, 2, 29));
        assert!(!month("2026-02").contains(2026, 2, 29));
        assert!(!month("2026-02").contains(2025, 2, 1));
    }

    #[test]
    fn json_carries_the_month_as_text_and_refuses_a_wrong_one() {
        let json = serde_json::to_string(&month("2026-06")).unwrap();
        assert_eq!(json, "\"2026-06\"");
        assert_eq!(serde_json::from_str::<Month>(&json).unwrap(), month("2026-06"));
        let error = serde_json::from_str::<Month>("\"2026-13\"").unwrap_err();
        assert!(error.to_string().contains("months go from 01 to 12"));
    }
}
