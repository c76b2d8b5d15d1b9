//! Finds figures and dates of a statement that stand in no source.
//!
//! A model that sums up may also make up, and a wrong number looks as sure as a right one. So code checks each figure
//! and date against the texts of the sources. It compares values, not spellings: `1,234.5`, `1.234,5` and `1 234,5` are
//! one number, `10 June 2026` and `2026-06-10` one day. Where a spelling has two readings (`1.234`), either may match:
//! a mark in the report says "not found", and must not cry wolf. Numbers written as words are not checked.

use super::SourceText;
use std::collections::BTreeSet;

/// A figure or date found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// As written.
    written: String,
    /// What it may mean; more than one where the spelling is ambiguous.
    readings: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    /// A number with decimal point and without needless zeros.
    Number(String),
    /// A percentage, likewise.
    Percent(String),
    Date(Date),
}

/// A date, perhaps in part: `June 2026`, `10 June`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Date {
    year: Option<u32>,
    month: u32,
    day: Option<u32>,
}

impl Date {
    /// Whether `source` says at least what this says.
    fn is_part_of(&self, source: &Self) -> bool {
        self.month == source.month
            && (self.year.is_none() || self.year == source.year)
            && (self.day.is_none() || self.day == source.day)
    }
}

/// All figures and dates of the sources.
#[derive(Debug, Default)]
pub struct KnownFigures {
    values: BTreeSet<Value>,
    dates: BTreeSet<Date>,
}

impl KnownFigures {
    /// Reads the texts of the documents, and their dates and names, which the report shows as well.
    pub fn of(documents: &[SourceText]) -> Self {
        let mut known = Self::default();
        for document in documents {
            for text in [&document.text, &document.date, &document.name] {
                for value in find(text).into_iter().flat_map(|found| found.readings) {
                    if let Value::Date(date) = &value {
                        known.dates.insert(*date);
                    }
                    known.values.insert(value);
                }
            }
        }
        known
    }

    /// The figures and dates of `statement` that stand in no source, as written, each once.
    pub fn unsupported(&self, statement: &str) -> Vec<String> {
        let mut missing = Vec::new();
        for found in find(statement) {
            if !found.readings.iter().any(|value| self.knows(value)) && !missing.contains(&found.written) {
                missing.push(found.written);
            }
        }
        missing
    }

    fn knows(&self, value: &Value) -> bool {
        match value {
            Value::Date(date) => self.dates.iter().any(|known| date.is_part_of(known)),
            Value::Number(number) => {
                self.values.contains(value)
                    || self.values.contains(&Value::Percent(number.clone()))
                    || self.is_year_of_a_date(number)
            }
            Value::Percent(_) => self.values.contains(value),
        }
    }

    fn is_year_of_a_date(&self, number: &str) -> bool {
        number.parse().is_ok_and(|year| self.dates.iter().any(|date| date.year == Some(year)))
    }
}

/// Month names and their usual short forms, without a final point, in English, German, French and Spanish.
const MONTHS: &[(&str, u32)] = &[
    ("january", 1),
    ("jan", 1),
    ("januar", 1),
    ("jänner", 1),
    ("janvier", 1),
    ("enero", 1),
    ("february", 2),
    ("feb", 2),
    ("februar", 2),
    ("février", 2),
    ("febrero", 2),
    ("march", 3),
    ("mar", 3),
    ("märz", 3),
    ("mars", 3),
    ("marzo", 3),
    ("april", 4),
    ("apr", 4),
    ("avril", 4),
    ("abril", 4),
    ("may", 5),
    ("mai", 5),
    ("mayo", 5),
    ("june", 6),
    ("jun", 6),
    ("juni", 6),
    ("juin", 6),
    ("junio", 6),
    ("july", 7),
    ("jul", 7),
    ("juli", 7),
    ("juillet", 7),
    ("julio", 7),
    ("august", 8),
    ("aug", 8),
    ("août", 8),
    ("agosto", 8),
    ("september", 9),
    ("sep", 9),
    ("sept", 9),
    ("septembre", 9),
    ("septiembre", 9),
    ("october", 10),
    ("oct", 10),
    ("oktober", 10),
    ("okt", 10),
    ("octobre", 10),
    ("octubre", 10),
    ("november", 11),
    ("nov", 11),
    ("novembre", 11),
    ("noviembre", 11),
    ("december", 12),
    ("dec", 12),
    ("dezember", 12),
    ("dez", 12),
    ("décembre", 12),
    ("diciembre", 12),
];

/// A word or a figure, with its bytes.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    start: usize,
    end: usize,
    text: &'a str,
}

impl Token<'_> {
    fn is_figure(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_digit())
    }

    fn month(&self) -> Option<u32> {
        let name = self.text.to_lowercase();
        MONTHS.iter().find(|(known, _)| *known == name).map(|&(_, month)| month)
    }

    /// A bare day of a month: `3`, `3rd`, `03`.
    fn day(&self) -> Option<u32> {
        let digits = self.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        (digits.len() <= 2).then(|| digits.parse().ok()).flatten().filter(|day| (1..=31).contains(day))
    }

    fn year(&self) -> Option<u32> {
        (self.text.len() == 4).then(|| self.text.parse().ok()).flatten().filter(|year| (1000..3000).contains(year))
    }
}

fn find(text: &str) -> Vec<Found> {
    let tokens = tokens(text);
    let mut found = Vec::new();
    let mut i = 0;
    while let Some(token) = tokens.get(i) {
        let spelled = spelled_date(text, &tokens, i);
        let (taken, readings) = match spelled {
            Some((taken, date)) => (taken, vec![Value::Date(date)]),
            None if token.is_figure() => (1, figure_readings(text, token)),
            None => (1, Vec::new()),
        };
        if let (false, Some(last)) = (readings.is_empty(), tokens.get(i + taken - 1)) {
            let percent = if matches!(readings.first(), Some(Value::Percent(_))) { percent_length(text, last.end) } else { 0 };
            let written = text.get(token.start..last.end + percent).unwrap_or_default();
            found.push(Found { written: written.to_owned(), readings });
        }
        i += taken;
    }
    found
}

/// Words, and figures with the marks inside them: `1,234.5`, `2026-06-10`, `14:30`, `v0.30.1`.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let at = |i: usize| chars.get(i).map(|&(_, c)| c);
    let byte = |i: usize| chars.get(i).map_or(text.len(), |&(byte, _)| byte);
    let is_digit = |i: usize| at(i).is_some_and(|c| c.is_ascii_digit());
    // A space groups digits only as 1 234 567: one to three digits, then groups of exactly three.
    let group_follows = |i: usize| (1..=3).all(|step| is_digit(i + step)) && !is_digit(i + 4);
    let mut tokens = Vec::new();
    let mut i = 0;
    while let Some(c) = at(i) {
        let first = i;
        if c.is_ascii_digit() {
            let mut run = 0;
            let mut grouped = false;
            while let Some(c) = at(i) {
                let marks = matches!(c, '.' | ',' | ':' | '/' | '-' | '\'' | '’') && is_digit(i + 1);
                let groups = matches!(c, ' ' | '\u{A0}' | '\u{202F}')
                    && (1..=3).contains(&run)
                    && (grouped || i - first == run)
                    && group_follows(i);
                if c.is_ascii_digit() {
                    run += 1;
                } else if marks || groups {
                    grouped |= groups;
                    run = 0;
                } else if !(c.is_ascii_alphabetic() && i > first && is_ordinal_end(&chars, i)) {
                    break;
                }
                i += 1;
            }
        } else if c.is_alphabetic() {
            while at(i).is_some_and(char::is_alphabetic) {
                i += 1;
            }
        } else {
            i += 1;
            continue;
        }
        let (start, end) = (byte(first), byte(i));
        tokens.push(Token { start, end, text: text.get(start..end).unwrap_or_default() });
    }
    tokens
}

/// Whether `i` lies in the `st`, `nd`, `rd`, `th` that ends an ordinal.
fn is_ordinal_end(chars: &[(usize, char)], i: usize) -> bool {
    let letter = |i: usize| chars.get(i).map(|&(_, c)| c.to_ascii_lowercase());
    let pair = |i: usize| {
        matches!((letter(i), letter(i + 1)), (Some('s'), Some('t')) | (Some('n' | 'r'), Some('d')) | (Some('t'), Some('h')))
    };
    let ends = |i: usize| !chars.get(i).is_some_and(|(_, c)| c.is_alphanumeric());
    let after_digit = |i: usize| i.checked_sub(1).and_then(letter).is_some_and(|c| c.is_ascii_digit());
    (pair(i) && ends(i + 2) && after_digit(i))
        || i.checked_sub(1).is_some_and(|before| pair(before) && ends(before + 2) && after_digit(before))
}

/// A date with a spelled month beginning at token `i`, and how many tokens it takes.
fn spelled_date(text: &str, tokens: &[Token<'_>], i: usize) -> Option<(usize, Date)> {
    let token = |step: usize| tokens.get(i + step);
    // Only spaces, points, commas and `de` or `of` may stand within a date.
    let near = |a: usize, b: usize| {
        let between = token(a).zip(token(b)).and_then(|(a, b)| text.get(a.end..b.start));
        between.is_some_and(|between| between.len() <= 3 && between.chars().all(|c| c.is_whitespace() || matches!(c, '.' | ',')))
    };
    let linking = |step: usize| {
        usize::from(token(step).is_some_and(|word| matches!(word.text.to_lowercase().as_str(), "de" | "of" | "del")))
    };
    if let Some(day) = token(0).and_then(Token::day) {
        let month_at = 1 + linking(1);
        let month = token(month_at).and_then(Token::month).filter(|_| (0..month_at).all(|step| near(step, step + 1)))?;
        let year_at = month_at + 1 + linking(month_at + 1);
        let year = token(year_at).and_then(Token::year).filter(|_| (month_at..year_at).all(|step| near(step, step + 1)));
        return Some((if year.is_some() { year_at + 1 } else { month_at + 1 }, Date { year, month, day: Some(day) }));
    }
    let month = token(0).and_then(Token::month)?;
    let is_name = token(0).is_some_and(|word| word.text.starts_with(char::is_uppercase));
    let day = token(1).and_then(Token::day).filter(|_| near(0, 1) && is_name);
    let year_at = if day.is_some() { 2 } else { 1 + linking(1) };
    let year = token(year_at).and_then(Token::year).filter(|_| (0..year_at).all(|step| near(step, step + 1)));
    match (day, year) {
        (None, None) => None,
        (Some(_), None) => Some((2, Date { year, month, day })),
        (_, Some(_)) => Some((year_at + 1, Date { year, month, day })),
    }
}

fn figure_readings(text: &str, token: &Token<'_>) -> Vec<Value> {
    let figure = token.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let dates = numeric_dates(figure);
    if !dates.is_empty() {
        return dates.into_iter().map(Value::Date).collect();
    }
    let numbers = number_readings(figure);
    if percent_length(text, token.end) > 0 {
        numbers.into_iter().map(Value::Percent).collect()
    } else {
        numbers.into_iter().map(Value::Number).collect()
    }
}

/// `2026-06-10`, `2026-06`, `10.06.2026`, `10/06/2026` and `06/10/2026` (both readings).
fn numeric_dates(figure: &str) -> Vec<Date> {
    let parts: Vec<&str> = figure.split(['-', '.', '/']).collect();
    let number = |part: &str| part.parse::<u32>().ok();
    let date = |year: &str, month: &str, day: Option<&str>| {
        let is_year = year.len() == 4;
        let (year, month) = (number(year)?, number(month)?);
        let day = day.map_or(Some(None), |day| number(day).map(Some))?;
        (is_year && (1..=12).contains(&month) && day.is_none_or(|day| (1..=31).contains(&day))).then_some(Date {
            year: Some(year),
            month,
            day,
        })
    };
    match parts.as_slice() {
        [year, month] if figure.contains('-') && month.len() == 2 => date(year, month, None).into_iter().collect(),
        [year, month, day] if year.len() == 4 => date(year, month, Some(day)).into_iter().collect(),
        [a, b, year] if year.len() == 4 => [date(year, b, Some(a)), date(year, a, Some(b))].into_iter().flatten().collect(),
        _ => Vec::new(),
    }
}

/// What a figure may mean as a number. Versions, times and ranges keep their spelling.
fn number_readings(figure: &str) -> Vec<String> {
    let compact: String = figure.chars().filter(|c| !c.is_whitespace() && !matches!(c, '\'' | '’')).collect();
    if compact.chars().any(|c| !c.is_ascii_digit() && c != '.' && c != ',') {
        return vec![compact];
    }
    let (points, commas) = (compact.matches('.').count(), compact.matches(',').count());
    let grouped = |mark: char| {
        compact.split(mark).skip(1).all(|group| group.len() == 3)
            && compact.split(mark).next().is_some_and(|first| first.len() <= 3)
    };
    let mut readings = Vec::new();
    if points + commas == 0 {
        readings.push(canonical(&compact));
    } else if points > 0 && commas > 0 {
        let decimal = if compact.rfind('.') > compact.rfind(',') { '.' } else { ',' };
        let thousands = if decimal == '.' { ',' } else { '.' };
        readings.push(canonical(&compact.replace(thousands, "").replace(decimal, ".")));
    } else {
        let mark = if points > 0 { '.' } else { ',' };
        if points + commas == 1 {
            readings.push(canonical(&compact.replace(mark, ".")));
        }
        if grouped(mark) {
            readings.push(canonical(&compact.replace(mark, "")));
        }
        if readings.is_empty() {
            readings.push(compact.clone());
        }
    }
    readings
}

fn canonical(number: &str) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

/// How many bytes after `end` say that the figure before is a percentage.
fn percent_length(text: &str, end: usize) -> usize {
    let rest = text.get(end..).unwrap_or_default();
    let word = rest.trim_start_matches([' ', '\u{A0}', '\u{202F}']);
    let space = rest.len() - word.len();
    let names = ["%", "percent", "per cent", "prozent", "pour cent", "por ciento"];
    let starts = |name: &&&str| word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    names.iter().find(starts).map_or(0, |name| space + name.len())
}

#[cfg(test)]
mod tests;
