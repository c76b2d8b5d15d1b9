//! Front matter: the block of `key: value` (YAML, between `---`) or `key = value` (TOML, between `+++`) lines with which
//! Markdown files begin. Only its top-level `date` and `title` matter here, so no YAML or TOML parser is needed.

use super::date::{self, DateRule, When};

/// A front matter longer than this many lines is ordinary text between two rules.
const MAX_LINES: usize = 500;

/// What the front matter says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) title: Option<String>,
    pub(super) date: Option<(When, DateRule)>,
}

/// Reads the front matter at the very beginning of `text`, if there is one.
pub(super) fn read(text: &str) -> FrontMatter {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().map(str::trim_end);
    let (fence, separator) = match lines.next() {
        Some("---") => ("---", ':'),
        Some("+++") => ("+++", '='),
        _ => return FrontMatter::default(),
    };
    let mut found = FrontMatter::default();
    for line in lines.take(MAX_LINES) {
        if line == fence || (fence == "---" && line == "...") {
            return found;
        }
        // An indented line belongs to another key.
        if line.starts_with([' ', '\t', '#']) {
            continue;
        }
        let Some((key, value)) = line.split_once(separator) else {
            continue;
        };
        let value = unquoted(value);
        match key.trim().trim_matches('"').to_ascii_lowercase().as_str() {
            "date" if found.date.is_none() => {
                found.date = date::parse(value).map(|when| (when, DateRule::FrontMatter));
            }
            "title" if !value.is_empty() => found.title = Some(value.to_owned()),
            _ => {}
        }
    }
    // Without its closing fence it was a rule, not front matter.
    FrontMatter::default()
}

/// A value without its quotes, or without the comment after it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((inner, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return inner;
        }
    }
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_of(text: &str) -> Option<When> {
        read(text).date.map(|(when, _)| when)
    }

    #[test]
    fn yaml_and_toml_front_matter_give_date_and_title() {
        let yaml = "---\ntitle: \"Minutes: May\"\ntags:\n  date: 2020-01-01\ndate: 2026-05-06 # fixed\n---\nText";
        assert_eq!(date_of(yaml), date::day(2026, 5, 6));
        assert_eq!(read(yaml).title.as_deref(), Some("Minutes: May"));
        let toml = "+++\r\ntitle = 'Minutes'\r\ndate = 2026-05-06T10:00:00Z\r\n+++\r\nText";
        assert_eq!(date_of(toml), date::parse("2026-05-06T10:00:00Z"));
        assert_eq!(read(toml).title.as_deref(), Some("Minutes"));
    }

    #[test]
    fn a_rule_without_a_second_one_is_no_front_matter() {
        assert_eq!(date_of("---\ndate: 2026-05-06\nText goes on"), None);
        assert_eq!(date_of("Text\n---\ndate: 2026-05-06\n---\n"), None);
        assert_eq!(date_of("date: 2026-05-06"), None);
    }

    #[test]
    fn a_date_that_does_not_exist_is_passed_over() {
        assert_eq!(date_of("---\ndate: 2026-02-31\n---\n"), None);
    }
}
