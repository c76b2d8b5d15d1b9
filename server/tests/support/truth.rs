//! Whether a sentence for people is true to what the outside has seen.

use app::contract::{Job, Outcome};

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
    if sentence.contains("email accepted by the mail service") {
        assert_eq!(accepted, total, "{context}");
    } else if let Some((_, count)) = sentence.split_once("email accepted for ") {
        assert_eq!(count, format!("{accepted} of {total}"), "{context}");
    } else if let Some((_, count)) = sentence.split_once("email refused for ") {
        assert_eq!(count, format!("{} of {total}", total - accepted), "{context}");
    } else {
        assert_eq!(accepted, 0, "{context}");
    }
}
