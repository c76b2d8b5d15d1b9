//! The effect history: its filters, its list, and one effect with all that is known about it.

use super::{Fact, FieldError, HistoryLine, Moment, SecondCopyOffer};
use crate::address::with_query;
use contract::Mark;
use contract::{EffectKind, Outcome};
use serde::{Deserialize, Serialize};

/// Where the list is; the pages of single effects are below it.
const LIST: &str = "/admin/effects";

/// The filters of the effect history as they stand in an address. The page, the API and the exports all take this, so that
/// one address with another beginning shows the same effects.
///
/// Every value is as it was typed; an empty one filters nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectQuery {
    /// A name of the contract. Intents that were never begun are listed only when they are asked for.
    pub outcome: String,
    /// A name of the contract.
    pub kind: String,
    /// The id of a job.
    pub job: String,
    /// The e-mail address of the person whose job it is.
    pub person: String,
    /// The address that an e-mail goes to.
    pub recipient: String,
    /// The month that the report is about, `YYYY-MM`.
    pub month: String,
    /// The day on which the latest change came or after which it came, `YYYY-MM-DD` in the reader's zone.
    pub from: String,
    /// The day before which the latest change came, `YYYY-MM-DD` in the reader's zone.
    pub to: String,
    /// A whole Message-ID, with or without its angle brackets.
    pub message_id: String,
    /// Where the page before this one ended, from its `older_path`.
    pub before: String,
}

impl EffectQuery {
    /// Reads each value by its name.
    pub fn read(value: impl Fn(&str) -> String) -> Self {
        Self {
            outcome: value("outcome"),
            kind: value("kind"),
            job: value("job"),
            person: value("person"),
            recipient: value("recipient"),
            month: value("month"),
            from: value("from"),
            to: value("to"),
            message_id: value("message_id"),
            before: value("before"),
        }
    }

    fn filters(&self) -> [(&'static str, &str); 9] {
        [
            ("outcome", &self.outcome),
            ("kind", &self.kind),
            ("job", &self.job),
            ("person", &self.person),
            ("recipient", &self.recipient),
            ("month", &self.month),
            ("from", &self.from),
            ("to", &self.to),
            ("message_id", &self.message_id),
        ]
    }

    /// Whether anything is asked for but the whole history.
    pub fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| !value.is_empty())
    }

    /// The address of this page of the list.
    pub fn path(&self) -> String {
        with_query(LIST, self.filters().into_iter().chain([("before", self.before.as_str())]))
    }

    /// The address of everything that passes the filters, as a file of this format (`csv` or `json`).
    pub fn export_path(&self, format: &str) -> String {
        with_query(&format!("{LIST}.{format}"), self.filters())
    }
}

/// The page of one effect.
pub fn effect_path(job: &str, number: u32) -> String {
    format!("{LIST}/{job}/{number}")
}

/// One page of the effect history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectsView {
    /// Unconfirmed and in flight; they come first.
    pub open: Vec<EffectRow>,
    /// All others.
    pub rows: Vec<EffectRow>,
    pub older_path: Option<String>,
    /// The filters as they were asked for.
    pub query: EffectQuery,
    /// Filters that cannot be read; nothing is listed then.
    pub mistakes: Vec<FieldError>,
    /// When the list was read; the page says it while it does not follow the record.
    pub as_of: Moment,
}

/// One effect in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRow {
    /// The id of its job, and its number there.
    pub job: String,
    pub number: u32,
    /// When its latest state was committed.
    pub at: Moment,
    pub what: String,
    pub kind: EffectKind,
    pub outcome: Outcome,
    pub mark: Mark,
    pub outcome_text: String,
    pub evidence: Option<String>,
    pub message_id: Option<String>,
    /// Its own page.
    pub path: String,
    /// The page of its job, unless that is deleted.
    pub job_path: Option<String>,
    pub job_title: String,
    /// Whose job it is, or was.
    pub owner: String,
}

/// One effect: what was intended, what was tried, what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectView {
    #[serde(flatten)]
    pub row: EffectRow,
    /// What it means that it is unconfirmed.
    pub meaning: Option<String>,
    /// What to know before saying what became of it: an answer may still come.
    pub warning: Option<String>,
    /// The intent and whose it is.
    pub facts: Vec<Fact>,
    /// Oldest first.
    pub attempts: Vec<AttemptLine>,
    /// Everything that was recorded about it, by the program and by people, oldest first.
    pub history: Vec<HistoryLine>,
    /// The list with the effects of the same job.
    pub siblings_path: String,
    /// Probes for an unconfirmed e-mail, oldest first.
    pub probes: Vec<ProbeLine>,
    /// How the looks go on; `None` where nothing is unconfirmed.
    pub plan: Option<ProbePlan>,
    /// What people decided, oldest first.
    pub decisions: Vec<DecisionLine>,
    /// The message may be sent a second time.
    pub second_copy: Option<SecondCopyOffer>,
}

/// One look at a place where an accepted message would have left a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeLine {
    pub at: Moment,
    pub place: String,
    pub mark: Mark,
    /// "found", "a hint, no proof", "nothing found", "could not look", "broken off".
    pub result: String,
    pub evidence: Option<String>,
}

/// How the looks for an unconfirmed e-mail go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbePlan {
    /// When the next one is made; `None` when all are made, or no place is set up.
    pub next: Option<Moment>,
    /// The places that are looked at.
    pub places: Vec<String>,
}

/// What a person decided about an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionLine {
    pub at: Moment,
    /// "you" or an e-mail address.
    pub by: String,
    /// "It was accepted", "Send again".
    pub decision: String,
    /// What they saw, or why.
    pub reason: String,
}

/// One attempt to bring an effect about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptLine {
    pub number: u32,
    pub outcome: Outcome,
    pub mark: Mark,
    pub outcome_text: String,
    pub began: Moment,
    /// When the next bytes could have committed it.
    pub in_doubt: Option<Moment>,
    pub ended: Option<Moment>,
    /// The answer word for word, or what is known instead of one.
    pub reply: Option<String>,
    /// When it was found out later what had become of it.
    pub settled: Option<Moment>,
    /// By what: a look's find, a person's words.
    pub settled_by: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> EffectQuery {
        EffectQuery::read(|name| format!("<{name}>&"))
    }

    #[test]
    fn an_address_holds_every_filter_and_the_place() {
        let path = full().path();
        for (name, _) in full().filters().into_iter().chain([("before", "")]) {
            assert!(path.contains(&format!("{name}=%3C{name}%3E%26")), "{name} is missing in {path}");
        }
        assert_eq!(path.matches('&').count(), 9);
    }

    #[test]
    fn an_export_holds_every_filter_and_no_place() {
        let query = EffectQuery { before: "open_x".into(), ..full() };
        let path = query.export_path("csv");
        assert!(path.starts_with("/admin/effects.csv?outcome=%3Coutcome%3E%26&kind="), "{path}");
        assert_eq!(path.matches('&').count(), 8);
        assert!(!path.contains("before"), "{path}");
    }

    #[test]
    fn the_whole_history_has_a_plain_address() {
        assert_eq!(EffectQuery::default().path(), "/admin/effects");
        assert!(!EffectQuery { before: "x".into(), ..EffectQuery::default() }.is_filtered());
        assert!(EffectQuery { to: "2026-07-01".into(), ..EffectQuery::default() }.is_filtered());
    }

    #[test]
    fn what_a_browser_sends_reads_back() {
        let query = EffectQuery { message_id: "<a+b@example.org>".into(), ..EffectQuery::default() };
        assert_eq!(query.path(), "/admin/effects?message_id=%3Ca%2Bb%40example.org%3E");
        let json = serde_json::from_str::<EffectQuery>(r#"{"message_id": "<a+b@example.org>"}"#);
        assert_eq!(json.ok(), Some(query));
    }
}
