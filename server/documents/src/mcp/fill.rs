//! The placeholders of a source's settings, such as `{month}`: what is asked of a server follows the report's month.

use chrono::{Days, NaiveDate};
use contract::Month;
use domain::period::Period;
use serde_json::Value;

/// A name in braces that is no placeholder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no placeholder {{{0}}}. Use {{month}}, {{year}}, {{mm}}, {{start}}, {{end}} or {{next}}, \
     or put a space inside the braces if they are meant as they are"
)]
pub struct UnknownPlaceholder(String);

/// What stands in the place of the placeholders for one report.
#[derive(Debug, Clone, Copy)]
pub struct Fill {
    month: Month,
    first: NaiveDate,
    last: NaiveDate,
    next: NaiveDate,
}

impl Fill {
    /// For a report about `period`. `None` at the very end of the calendar.
    pub fn new(period: &Period) -> Option<Self> {
        let month = period.month();
        let first = NaiveDate::from_ymd_opt(month.year(), u32::from(month.number()), 1)?;
        let next = first.checked_add_days(Days::new(u64::from(month.days())))?;
        Some(Self { month, first, last: next.pred_opt()?, next })
    }

    fn value(&self, name: &str) -> Option<String> {
        Some(match name {
            "month" => self.month.to_string(),
            "year" => format!("{:04}", self.month.year()),
            "mm" => format!("{:02}", self.month.number()),
            "start" => self.first.to_string(),
            "end" => self.last.to_string(),
            "next" => self.next.to_string(),
            _ => return None,
        })
    }

    /// The text with every placeholder replaced.
    pub fn text(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, name, after)) = placeholder(rest) {
            filled.push_str(before);
            // The settings were refused if a name were unknown.
            filled.push_str(&self.value(name).unwrap_or_default());
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    /// The value with the placeholders in all its strings replaced; the names of its members stay.
    pub fn json(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), self.json(value))).collect(),
            other => other.clone(),
        }
    }
}

/// The first placeholder, with what stands before and after it.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, opened) = text.split_at_checked(at)?;
        let (name, after) = opened.strip_prefix('{')?.split_once('}')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        is_name.then_some((before, name, after))
    })
}

/// The names of all placeholders in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, after) = placeholder(rest)?;
        rest = after;
        Some(name)
    })
}

/// Whether the text names the whole month that is asked for. A name that is no placeholder is an error.
pub fn names_month(text: &str) -> Result<bool, UnknownPlaceholder> {
    let (mut year, mut number, mut whole) = (false, false, false);
    for name in names(text) {
        match name {
            "month" | "start" => whole = true,
            "year" => year = true,
            "mm" => number = true,
            "end" | "next" => {}
            other => return Err(UnknownPlaceholder(other.to_owned())),
        }
    }
    Ok(whole || (year && number))
}

/// Like [`names_month`], of all strings in a value together.
pub fn value_names_month(value: &Value) -> Result<bool, UnknownPlaceholder> {
    let mut all = String::new();
    collect(value, &mut all);
    names_month(&all)
}

fn collect(value: &Value, all: &mut String) {
    match value {
        Value::String(text) => {
            all.push_str(text);
            all.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, all)),
        Value::Object(members) => members.values().for_each(|member| collect(member, all)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Whether a URI is one of those that a filled pattern means: `*` stands for anything, and a pattern without one is the
/// beginning of the URI.
pub fn matches(pattern: &str, uri: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| uri.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return true };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::period::parse_zone;
    use serde_json::json;

    fn june() -> Fill {
        let zone = parse_zone("Europe/Berlin").unwrap();
        Fill::new(&Period::new("2026-06".parse().unwrap(), zone).unwrap()).unwrap()
    }

    #[test]
    fn a_month_takes_the_place_of_its_names() {
        let all = "{month} {year} {mm} {start} {end} {next}";
        assert_eq!(june().text(all), "2026-06 2026 06 2026-06-01 2026-06-30 2026-07-01");
        assert_eq!(june().text("{ month } {Month} {} {month"), "{ month } {Month} {} {month");
        assert_eq!(june().text("{{month}"), "{2026-06");
        let value = json!({ "since": "{start}", "deep": [{ "until": "{next}" }, 7, null] });
        assert_eq!(june().json(&value), json!({ "since": "2026-06-01", "deep": [{ "until": "2026-07-01" }, 7, null] }));
    }

    #[test]
    fn what_names_the_whole_month_is_known_before_it_is_asked() {
        for (text, names) in [("{month}", true), ("{year}/{mm}", true), ("{year}", false), ("{start}", true), ("a", false)] {
            assert_eq!(names_month(text), Ok(names), "{text}");
        }
        assert_eq!(value_names_month(&json!({ "y": "{year}", "m": ["{mm}"] })), Ok(true));
        let wrong = names_month("wiki://{mnoth}").unwrap_err();
        assert!(wrong.to_string().starts_with("there is no placeholder {mnoth}. Use {month}"), "{wrong}");
    }

    #[test]
    fn a_pattern_is_a_beginning_or_has_stars() {
        for (pattern, uri, is_meant) in [
            ("", "file:///a", true),
            ("file:///minutes/", "file:///minutes/a.md", true),
            ("file:///minutes/", "file:///other/a.md", false),
            ("file:///*.md", "file:///a/b.md", true),
            ("file:///*.md", "file:///a/b.txt", false),
            ("*2026-06*", "wiki://x/2026-06-03", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, uri), is_meant, "{pattern} {uri}");
        }
    }
}
