//! Whether a sentence for people is true to what the outside has seen.

use contract::{EffectKind, Job, Outcome, Phase};
use serde_json::Value;

/// Checks the headline of a job that has ended against the rows in the table of reports and the messages that were accepted.
pub fn check_sentence(sentence: &str, job: &Job, reports: usize, accepted: usize, context: &str) {
    let total = job.emails().count();
    let unconfirmed = job.emails().any(|effect| effect.outcome == Outcome::Unconfirmed);
    let context = format!("{context}: \"{sentence}\" with {reports} reports and {accepted} messages");
    assert_eq!(sentence.contains("Nothing was saved or sent"), reports == 0, "{context}");
    assert!(reports == 1 || accepted == 0, "{context}");
    assert_eq!(sentence.contains("unconfirmed"), unconfirmed, "{context}");
    if unconfirmed {
        return;
    }
    if sentence.contains("email accepted by the mail service")
        || sentence.contains("written to the outbox folder, no e-mail was sent")
    {
        assert_eq!(accepted, total, "{context}");
    } else if let Some((_, count)) = sentence.split_once("email accepted for ") {
        assert_eq!(count, format!("{accepted} of {total}"), "{context}");
    } else if let Some((_, count)) = sentence.split_once("written to the outbox folder for ") {
        assert_eq!(count, format!("{accepted} of {total}, no e-mail was sent"), "{context}");
    } else if let Some((_, count)) = sentence.split_once("email refused for ") {
        assert_eq!(count, format!("{} of {total}", total - accepted), "{context}");
    } else {
        assert_eq!(accepted, 0, "{context}");
    }
}

/// Checks a job that has ended against what the API answered when Cancel was pressed: after the answer nothing has started that
/// had not started. `named` tells how often the mail server heard the recipient of an effect.
pub fn check_cancel(job: &Job, answer: &Value, reports: usize, named: impl Fn(u32) -> usize, context: &str) {
    if answer["outcome"] == "too_late" {
        assert_eq!(answer["job"]["phase"], job.phase.name(), "{context}");
        assert!(!job.cancel_requested, "{context}");
        return;
    }
    assert!(job.cancel_requested && matches!(job.phase, Phase::Cancelled | Phase::Finished), "{context}: {job:?}");
    let then = answer["job"]["effects"].as_array().expect("effects");
    // An answer leaves out what has not begun.
    for effect in &job.effects {
        let before = then.iter().find(|line| line["number"] == effect.number);
        let attempts = before.map_or(0, |line| line["attempts"].as_u64().expect("a count"));
        assert_eq!(u64::from(effect.attempts), attempts, "{context}: begun after the cancel: {effect:?}, then {before:?}");
        if effect.outcome == Outcome::NotStarted && effect.kind == EffectKind::Email {
            assert_eq!(named(effect.number), 0, "{context}: {effect:?}");
        }
    }
    let is_report = |line: &&Value| line["what"].as_str().is_some_and(|what| what.starts_with("Report"));
    let saved = then.iter().filter(is_report).any(|line| line["outcome"] == "done");
    assert_eq!(reports == 1, saved, "{context}: the report after the cancel");
}
