//! View models: what a page shows, as plain data that the server has already put into words.
//!
//! Dates, numbers and sentences are formatted on the server, so that the first render and the hydrated page are identical
//! and the browser needs no calendar. Everything in here is visible to the person it is sent to.

mod afterwards;
mod effects;
mod job;
mod new_report;
mod pages;

pub use afterwards::{
    AboutView, AccountNowOffer, AfterwardsView, CorrectionOffer, MAX_CORRECTION, MAX_REASON, MailingLine, Said, SecondCopyOffer,
    WithdrawnView,
};
pub use effects::{
    AttemptLine, DecisionLine, EffectQuery, EffectRow, EffectView, EffectsView, ProbeLine, ProbePlan, effect_path,
};
pub use job::{
    CancelAnswerView, CancelRecord, CoverageLine, EffectLine, Fact, HistoryLine, HoldView, JobView, StepView, UnderWay,
};
pub use new_report::{DocumentChoice, FieldError, NewReportQuery, NewReportView, RecipientCheck, SourceChoice, UploadLine};
pub use pages::{AccountView, DocumentView, JobRow, JobsView, ReportView, SessionLine, SignInView, TokenLine, Viewer};

use serde::{Deserialize, Serialize};

/// An instant, for the machine and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// RFC 3339, UTC; goes into `<time datetime>`.
    pub iso: String,
    /// In the viewer's time zone: "29 Nov 2026, 10:43:07".
    pub text: String,
}

impl Moment {
    /// For people: without its day, where that is also the day of `now`.
    pub fn beside(&self, now: &Self) -> &str {
        match (self.text.split_once(", "), now.text.split_once(", ")) {
            (Some((day, time)), Some((today, _))) if day == today => time,
            _ => &self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn a_moment_of_today_is_only_a_time() {
        let moment = |text: &str| Moment { iso: String::new(), text: text.into() };
        let now = moment("29 Nov 2026, 10:43:07");
        assert_eq!(moment("29 Nov 2026, 10:42:55").beside(&now), "10:42:55");
        assert_eq!(moment("28 Nov 2026, 23:59:59").beside(&now), "28 Nov 2026, 23:59:59");
    }
}
