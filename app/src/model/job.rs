//! One job, as its page, the API and the command line show it.

use super::{AboutView, AccountNowOffer, AfterwardsView, MailingLine, Moment, Said, WithdrawnView};
use contract::Mark;
use contract::{EffectKind, Outcome, Phase, StepKind, StepState};
use serde::{Deserialize, Serialize};

/// Everything that is known about a job, put into words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    pub id: String,
    /// Grows with every change of the record; an older version never replaces a newer one on a screen.
    pub version: i64,
    /// When the record was read; the page says it when it loses the connection.
    pub as_of: Moment,
    /// "Team month, June 2026".
    pub title: String,
    /// `YYYY-MM`.
    pub month: String,
    pub phase: Phase,
    pub mark: Mark,
    /// The contract's sentence (CONTRACT.md, section 8).
    pub headline: String,
    /// Why it failed, or what else belongs under the headline.
    pub reason: Option<String>,
    /// What a stopping job waits for.
    pub waiting_for: Option<String>,
    /// Since when a stopping job waits.
    pub waiting_since: Option<Moment>,
    /// Whole seconds from then to `as_of`.
    pub waiting_seconds: Option<u32>,
    /// A stopping job may be accounted for without waiting any longer.
    pub account_now: Option<AccountNowOffer>,
    /// What Cancel can still do; `None` where it can do nothing.
    pub if_cancelled_now: Option<String>,
    /// The cancel that was accepted.
    pub cancel: Option<CancelRecord>,
    /// What the e-mail waits for, while it is held.
    pub hold: Option<HoldView>,
    /// Since when it waits for a person: it had not ended in a backup, and this is the restored copy. `None` for all others.
    pub set_aside: Option<Moment>,
    pub steps: Vec<StepView>,
    /// What a running job is in the middle of, so that a long call can be seen to go on.
    pub under_way: Option<UnderWay>,
    pub effects: Vec<EffectLine>,
    /// In JSON they are the job's documents.
    #[serde(rename = "documents")]
    pub coverage: Vec<CoverageLine>,
    /// "4 read, 1 without text, 9 of other months".
    pub coverage_summary: Option<String>,
    pub facts: Vec<Fact>,
    pub history: Vec<HistoryLine>,
    /// The saved report's page, once it exists.
    pub report_path: Option<String>,
    /// The form, filled in like this job.
    pub again_path: String,
    /// The report was taken back.
    pub withdrawn: Option<WithdrawnView>,
    /// For a mailing: the job that it is about.
    pub about: Option<AboutView>,
    /// Mailings about this job, oldest first.
    pub mailings: Vec<MailingLine>,
    /// What may still be done about it.
    pub afterwards: AfterwardsView,
}

/// A held e-mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    /// When it goes out by itself; `None` while it waits for an approval.
    pub until: Option<Moment>,
    /// Whole seconds from `as_of` until then.
    pub seconds_left: Option<u32>,
    /// The subject of the message.
    pub subject: String,
    /// The message as its recipients will read it.
    pub message: String,
}

/// Who asked for the cancel, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRecord {
    pub at: Moment,
    /// "you" or an e-mail address.
    pub by: String,
}

/// One of the steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    pub kind: StepKind,
    pub state: StepState,
    pub mark: Mark,
    pub title: String,
    /// "7 of 12 documents", "part 2 of 3", "stopped", "not started", "will not happen".
    pub detail: String,
    /// "1.2 s", once it has ended.
    pub took: Option<String>,
    pub done: u32,
    pub total: u32,
}

/// An effect that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// "Model call 1 of 3 to gpt-5 at api.example.org".
    pub what: String,
    /// "in flight", "handed over, no answer yet".
    pub outcome_text: String,
    pub since: Moment,
    /// Whole seconds from then to `as_of`.
    pub seconds: u32,
}

/// One effect: what the outside could see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectLine {
    pub number: u32,
    pub kind: EffectKind,
    /// "E-mail to anna@example.org", "Model call 2", "Report saved".
    pub what: String,
    pub outcome: Outcome,
    pub mark: Mark,
    /// "accepted by the mail service", "unconfirmed", "planned", "will not be sent".
    pub outcome_text: String,
    pub evidence: Option<String>,
    pub attempts: u32,
    /// The Message-ID, for e-mails. For administrators only until the e-mail is accepted.
    pub message_id: Option<String>,
    /// When its latest state was committed.
    pub at: Option<Moment>,
    /// Its own page, for administrators.
    pub path: Option<String>,
}

/// What became of one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageLine {
    /// Its number in the report; only read documents have one.
    pub number: Option<u32>,
    pub name: String,
    pub source: String,
    /// "read", "no text", "other month", …
    pub state: String,
    pub mark: Mark,
    /// Why, where the state alone does not say it.
    pub reason: Option<String>,
    /// Its date, as a calendar date.
    pub date: Option<String>,
    /// "its file name", "the mail's Date header", …
    pub dated_by: Option<String>,
}

/// One line of "This job".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub term: String,
    pub text: String,
}

/// One line of the job's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    pub at: Moment,
    pub text: String,
}

/// The answer to a Cancel. Always the same for a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelAnswerView {
    /// `accepted`, `already_requested` or `too_late`.
    pub outcome: String,
    /// What it met, as a sentence.
    pub message: String,
    /// The name of that sentence, for the page that the answer leads to; `None` where the Cancel was accepted, which the record
    /// says better.
    #[serde(skip)]
    pub said: Option<Said>,
    pub requested_at: Option<Moment>,
    pub requested_by: Option<String>,
    /// What had won, where it came too late: `finished` or `failed`.
    pub won_by: Option<String>,
    pub job: JobView,
}
