//! What people may still do about a job: mailings about its report, a withdrawal, a deletion, accounting for it without its
//! worker.

use super::Moment;
use contract::{CancelAnswer, Mark, Phase, wording::cancel_answer};
use serde::{Deserialize, Serialize};

/// The longest reason that anybody gives for what they do, in characters.
pub const MAX_REASON: u32 = 1_000;
/// The longest correction, in characters.
pub const MAX_CORRECTION: u32 = 4_000;

/// The choices that a job's page offers to the person who looks at it. Empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterwardsView {
    /// The report may be withdrawn.
    pub may_withdraw: bool,
    /// A correction may be sent.
    pub correction: Option<CorrectionOffer>,
    /// Messages that may be sent a second time.
    pub second_copies: Vec<SecondCopyOffer>,
    /// The job may be deleted.
    pub may_delete: bool,
}

impl AfterwardsView {
    /// Whether there is nothing to choose.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A correction that may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionOffer {
    /// Sending the form twice makes one correction.
    pub request_key: String,
    /// Everybody who was, or may have been, sent the link.
    pub recipients: Vec<String>,
}

/// A message that may be sent a second time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondCopyOffer {
    /// The effect of the first one.
    pub number: u32,
    /// Sending the form twice makes one second copy.
    pub request_key: String,
    pub to: String,
    /// The first one may have been accepted, so the recipient may get it twice.
    pub may_duplicate: bool,
}

impl SecondCopyOffer {
    /// Where its form goes; `job` is the id of the job.
    pub fn action(&self, job: &str) -> String {
        format!("/jobs/{job}/emails/{}/second-copies", self.number)
    }
}

/// A mailing about a job: a correction, a second copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailingLine {
    /// "Correction", "Second copy to anna@example.org".
    pub what: String,
    /// The page of its own job.
    pub path: String,
    pub mark: Mark,
    pub headline: String,
    pub created: Moment,
}

/// The job that a mailing is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AboutView {
    pub title: String,
    pub path: String,
    /// What a correction says.
    pub text: Option<String>,
}

/// A report that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithdrawnView {
    pub at: Moment,
    /// "you" or an e-mail address.
    pub by: String,
    pub why: String,
}

/// Accounting for a stopping job without its worker; only offered to administrators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountNowOffer {
    /// What nobody could tell any more.
    pub consequence: String,
}

/// What became of a form on one of these pages, said once on the page that it leads to. Only these names are taken from an
/// address, so nobody can put words of their own on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    ReasonMissing,
    ReasonTooLong,
    MovedOn,
    NotSure,
    OnItsWay,
    Accepted,
    Withdrawn,
    Nobody,
    Deleted,
    CancelledBefore,
    TooLateFinished,
    TooLateFailed,
}

impl Said {
    const ALL: [(Self, &'static str); 12] = [
        (Self::ReasonMissing, "reason_missing"),
        (Self::ReasonTooLong, "reason_too_long"),
        (Self::MovedOn, "moved_on"),
        (Self::NotSure, "not_sure"),
        (Self::OnItsWay, "on_its_way"),
        (Self::Accepted, "accepted"),
        (Self::Withdrawn, "withdrawn"),
        (Self::Nobody, "nobody"),
        (Self::Deleted, "deleted"),
        (Self::CancelledBefore, "cancelled_before"),
        (Self::TooLateFinished, "too_late_finished"),
        (Self::TooLateFailed, "too_late_failed"),
    ];

    /// The name in an address.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(said, _)| *said == self).map_or("", |(_, name)| name)
    }

    /// What a name in an address means, if it is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(said, _)| *said)
    }

    /// The sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::ReasonMissing => "Nothing was changed: the text is missing. Write it and send the form again.",
            Self::ReasonTooLong => "Nothing was changed: the text is too long. Shorten it and send the form again.",
            Self::MovedOn => "This form changed nothing: the record had moved on before it arrived. This is how it stands now.",
            Self::NotSure => "Nothing was sent: tick the box to say that the recipient may get the message twice.",
            Self::OnItsWay => "Nothing was sent: a second copy of this message is on its way already.",
            Self::Accepted => "Nothing was sent: the mail service has accepted the message meanwhile.",
            Self::Withdrawn => "Nothing was sent: the report is withdrawn, and its link must not go out again.",
            Self::Nobody => "Nothing was sent: the link went to nobody, so there is nobody to correct it to.",
            Self::Deleted => "The job is deleted. Its effects stay in the history.",
            Self::CancelledBefore => cancel_answer(CancelAnswer::AlreadyRequested, Phase::Stopping),
            Self::TooLateFinished => cancel_answer(CancelAnswer::TooLate, Phase::Finished),
            Self::TooLateFailed => cancel_answer(CancelAnswer::TooLate, Phase::Failed),
        }
    }

    /// Whether it tells that something was not done for want of something.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Self::Deleted) && !self.is_about_a_cancel()
    }

    /// Whether it tells of a Cancel that changed nothing.
    pub fn is_about_a_cancel(self) -> bool {
        matches!(self, Self::CancelledBefore | Self::TooLateFinished | Self::TooLateFailed)
    }
}

#[cfg(test)]
mod tests {
    use super::Said;

    #[test]
    fn every_sentence_has_a_name_that_leads_back_to_it() {
        for (said, name) in Said::ALL {
            assert_eq!((Said::from_name(name), said.name()), (Some(said), name));
        }
        assert_eq!(Said::from_name("<b>"), None);
    }
}
