//! The filters of the effect history, read from what somebody typed or an address holds. What cannot be read is said in a
//! sentence for its field; a filter that is silently ignored would show effects that were not asked for.

use super::check_recipients;
use app::model::{EffectQuery, FieldError};
use chrono::{DateTime, NaiveDate, SecondsFormat, Utc};
use chrono_tz::Tz;
use contract::{EffectKind, Month, Outcome};
use domain::{people::EmailAddress, period::first_instant};
use store::{EffectFilter, EffectPart, EffectPlace};

/// Where a page of the list begins: its part, and the effect before it.
pub type Start = (EffectPart, Option<EffectPlace>);

/// Collects the mistakes while it reads.
#[derive(Default)]
struct Reading {
    mistakes: Vec<FieldError>,
}

impl Reading {
    fn take<T>(&mut self, field: &str, typed: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        let typed = typed.trim();
        if typed.is_empty() {
            return None;
        }
        parse(typed).map_err(|text| self.mistakes.push(FieldError { field: field.to_owned(), text })).ok()
    }
}

/// Reads the filters; days are meant in `zone`.
pub fn read_filter(query: &EffectQuery, zone: Tz) -> Result<EffectFilter, Vec<FieldError>> {
    let mut reading = Reading::default();
    let filter = EffectFilter {
        outcome: reading.take("outcome", &query.outcome, |typed| {
            Outcome::from_name(typed).ok_or_else(|| unknown(typed, "outcome", Outcome::ALL.iter().map(|one| one.name())))
        }),
        kind: reading.take("kind", &query.kind, |typed| {
            EffectKind::from_name(typed).ok_or_else(|| unknown(typed, "kind", EffectKind::ALL.iter().map(|one| one.name())))
        }),
        job: reading.take("job", &query.job, |typed| {
            typed.parse().map_err(|_| format!("\"{typed}\" is not the id of a job. Copy the whole id from the job's page."))
        }),
        person: reading.take("person", &query.person, |typed| {
            EmailAddress::parse(typed).map(|address| address.as_str().to_owned()).map_err(|error| error.to_string())
        }),
        recipient: reading.take("recipient", &query.recipient, recipient),
        month: reading.take("month", &query.month, |typed| typed.parse::<Month>().map_err(|error| error.to_string())),
        from: reading.take("from", &query.from, |typed| day(typed, zone)),
        to: reading.take("to", &query.to, |typed| day(typed, zone)),
        message_id: reading.take("message_id", &query.message_id, message_id),
    };
    if let (Some(from), Some(to)) = (filter.from, filter.to)
        && from >= to
    {
        let text = "No time lies between the two days. The second one is left out, so choose one after the first.";
        reading.mistakes.push(FieldError { field: "to".into(), text: text.into() });
    }
    if reading.mistakes.is_empty() { Ok(filter) } else { Err(reading.mistakes) }
}

fn unknown(typed: &str, what: &str, known: impl Iterator<Item = &'static str>) -> String {
    format!("\"{typed}\" is not a known {what}. Use one of: {}.", known.collect::<Vec<_>>().join(", "))
}

/// Reads an address as orders do, so that it is found as it was stored.
fn recipient(typed: &str) -> Result<String, String> {
    let check = check_recipients(typed);
    match check.addresses.as_slice() {
        // The database folds the case of ASCII letters only.
        [one] => Ok(one.to_ascii_lowercase()),
        [] => Err(check.problems.join(" ")),
        _ => Err("Write one recipient only.".into()),
    }
}

/// The first instant of a day.
fn day(typed: &str, zone: Tz) -> Result<DateTime<Utc>, String> {
    let is_plain = typed.len() == 10 && typed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let day = typed.parse::<NaiveDate>().ok().filter(|_| is_plain);
    day.and_then(|day| first_instant(day, zone))
        .ok_or_else(|| format!("\"{typed}\" is not a day. Write it as YYYY-MM-DD, for example 2026-06-30."))
}

/// A Message-ID as it is stored, in its angle brackets.
fn message_id(typed: &str) -> Result<String, String> {
    let inside = typed.strip_prefix('<').unwrap_or(typed);
    let inside = inside.strip_suffix('>').unwrap_or(inside);
    let whole = inside.split_once('@').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty());
    if whole && !inside.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>')) {
        Ok(format!("<{inside}>"))
    } else {
        Err("That is not a whole Message-ID. It has an @ in it and no spaces; its angle brackets may be left out.".into())
    }
}

/// A place in the list as text for an address.
pub fn write_start(part: EffectPart, place: EffectPlace) -> String {
    let part = match part {
        EffectPart::Open => "open",
        EffectPart::Settled => "settled",
    };
    format!("{part}_{}_{}_{}", place.at.to_rfc3339_opts(SecondsFormat::Micros, true), place.job, place.number)
}

/// Reads what [`write_start`] wrote; nothing means the beginning.
pub fn read_start(before: &str) -> Result<Start, FieldError> {
    if before.is_empty() {
        return Ok((EffectPart::Open, None));
    }
    parse_start(before).ok_or_else(|| FieldError {
        field: "before".into(),
        text: "This page of the list cannot be found: its address is not whole. Start again at the first page.".into(),
    })
}

fn parse_start(text: &str) -> Option<Start> {
    let mut parts = text.split('_');
    let part = match parts.next()? {
        "open" => EffectPart::Open,
        "settled" => EffectPart::Settled,
        _ => return None,
    };
    let (at, job, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next().is_none().then_some((part, Some(EffectPlace { at, job, number })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::JobId;

    fn read(name: &str, value: &str) -> Result<EffectFilter, Vec<FieldError>> {
        let query = EffectQuery::read(|asked| if asked == name { value.to_owned() } else { String::new() });
        read_filter(&query, Tz::Europe__Berlin)
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn nothing_filters_nothing() {
        assert_eq!(read_filter(&EffectQuery::default(), Tz::UTC), Ok(EffectFilter::default()));
        assert_eq!(read("person", "  "), Ok(EffectFilter::default()));
    }

    #[test]
    fn each_filter_is_read() {
        let id = JobId::new();
        assert_eq!(read("outcome", "unconfirmed").unwrap().outcome, Some(Outcome::Unconfirmed));
        assert_eq!(read("kind", "email").unwrap().kind, Some(EffectKind::Email));
        assert_eq!(read("job", &format!(" {id} ")).unwrap().job, Some(id));
        assert_eq!(read("person", "Ada@Example.org").unwrap().person.as_deref(), Some("ada@example.org"));
        assert_eq!(read("recipient", "Anna@Example.org").unwrap().recipient.as_deref(), Some("anna@example.org"));
        assert_eq!(read("month", "2026-06").unwrap().month, "2026-06".parse().ok());
    }

    #[test]
    fn days_begin_in_the_readers_zone() {
        assert_eq!(read("from", "2026-07-01").unwrap().from, Some(at("2026-06-30T22:00:00Z")));
        // The night in which the clocks go back.
        assert_eq!(read("to", "2026-10-26").unwrap().to, Some(at("2026-10-25T23:00:00Z")));
        let query = EffectQuery { from: "2026-07-01".into(), to: "2026-07-01".into(), ..EffectQuery::default() };
        assert_eq!(read_filter(&query, Tz::UTC).unwrap_err()[0].field, "to");
        let query = EffectQuery { to: "2026-07-02".into(), ..query };
        assert!(read_filter(&query, Tz::UTC).is_ok());
    }

    #[test]
    fn a_message_id_needs_no_angle_brackets() {
        for typed in ["<ab.1@example.org>", "ab.1@example.org", " <ab.1@example.org> "] {
            assert_eq!(read("message_id", typed).unwrap().message_id.as_deref(), Some("<ab.1@example.org>"), "{typed}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_at_its_field() {
        let cases = [
            (
                "outcome",
                "sent",
                "\"sent\" is not a known outcome. Use one of: not_started, in_flight, in_doubt, done, not_done, unconfirmed.",
            ),
            ("kind", "fax", "\"fax\" is not a known kind. Use one of: model_call, report, email, withdrawal, deletion."),
            ("job", "7", "\"7\" is not the id of a job. Copy the whole id from the job's page."),
            ("person", "ada", "That is not an e-mail address. Write it like name@example.org."),
            ("recipient", "a@example.org, b@example.org", "Write one recipient only."),
            ("month", "June", "Write the month as YYYY-MM, for example 2026-02."),
            ("from", "2026-02-30", "\"2026-02-30\" is not a day. Write it as YYYY-MM-DD, for example 2026-06-30."),
            ("to", "+2026-2-3", "\"+2026-2-3\" is not a day. Write it as YYYY-MM-DD, for example 2026-06-30."),
            (
                "message_id",
                "ab 1@x",
                "That is not a whole Message-ID. It has an @ in it and no spaces; its angle brackets may be left out.",
            ),
        ];
        for (field, value, text) in cases {
            assert_eq!(read(field, value), Err(vec![FieldError { field: field.into(), text: text.into() }]));
        }
        let wrong = read("recipient", "nobody").unwrap_err();
        assert!(wrong[0].text.contains("nobody"), "{wrong:?}");
    }

    #[test]
    fn every_mistake_is_said_at_once() {
        let query = EffectQuery { month: "x".into(), from: "y".into(), outcome: "z".into(), ..EffectQuery::default() };
        let fields: Vec<_> = read_filter(&query, Tz::UTC).unwrap_err().into_iter().map(|wrong| wrong.field).collect();
        assert_eq!(fields, ["outcome", "month", "from"]);
    }

    #[test]
    fn a_place_reads_back_as_it_was_written() {
        let place = EffectPlace { at: at("2026-07-01T08:00:00.123456Z"), job: JobId::new(), number: 3 };
        for part in [EffectPart::Open, EffectPart::Settled] {
            assert_eq!(read_start(&write_start(part, place)), Ok((part, Some(place))));
        }
        assert_eq!(read_start(""), Ok((EffectPart::Open, None)));
        for broken in ["x", "open", "open_2026-07-01T08:00:00Z", "shut_2026-07-01T08:00:00Z_x_1"] {
            assert_eq!(read_start(broken).unwrap_err().field, "before", "{broken}");
        }
        assert!(read_start(&format!("{}_1", write_start(EffectPart::Open, place))).is_err());
    }
}
