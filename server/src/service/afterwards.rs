//! What people do about a job after its end, or instead of waiting for it: who may, what has to be said for it, and what the
//! page offers.
//!
//! Owners and administrators withdraw, correct, send again and delete. To say what became of an unconfirmed e-mail, and to
//! account for a job without its worker, takes an administrator (CONTRACT.md, section 7).

use super::{
    Service, ServiceError,
    view::{Reader, moment},
};
use app::{
    error::AppError,
    model::{
        AboutView, AccountNowOffer, AfterwardsView, CorrectionOffer, JobView, MAX_CORRECTION, MAX_REASON, MailingLine, Said,
        SecondCopyOffer, Viewer, WithdrawnView,
    },
};
use contract::wording;
use contract::{Effect, EffectKind, JobKind, Outcome, Phase, headline};
use domain::{
    id::{JobId, RequestKey},
    spec::Task,
};
use store::{EffectFilter, Mailing, Record, Report, StoreError};
use uuid::Uuid;

/// What was done, or why nothing was.
pub type Done<T> = Result<Result<T, Said>, ServiceError>;

/// A text that somebody must write, without the blanks around it. Browsers send CRLF for what they counted as one character.
/// Other control characters say nothing, and not every database can store them.
pub(super) fn text(typed: &str, longest: u32) -> Result<String, Said> {
    let text = typed.replace("\r\n", "\n").replace(|c: char| c.is_control() && !matches!(c, '\n' | '\t'), " ");
    let text = text.trim().to_owned();
    if text.is_empty() {
        Err(Said::ReasonMissing)
    } else if text.chars().nth(longest as usize).is_some() {
        Err(Said::ReasonTooLong)
    } else {
        Ok(text)
    }
}

fn admins_only(who: &Viewer) -> Result<(), AppError> {
    if who.is_admin { Ok(()) } else { Err(AppError::Forbidden) }
}

/// A transition that the record does not allow any more is no error: somebody else was quicker.
pub(super) fn moved_on(result: Result<Option<()>, StoreError>) -> Done<()> {
    match result {
        Ok(Some(())) => Ok(Ok(())),
        Ok(None) => Err(AppError::NotFound.into()),
        Err(StoreError::Refused(_)) => Ok(Err(Said::MovedOn)),
        Err(error) => Err(error.into()),
    }
}

/// A report that was taken back.
pub(super) fn withdrawn(report: &Report, reader: &Reader) -> Option<WithdrawnView> {
    let at = report.withdrawn_at?;
    Some(WithdrawnView {
        at: moment(at, reader.zone),
        by: report.withdrawn_by.as_deref().map(|by| reader.name(by).to_owned()).unwrap_or_default(),
        why: report.withdrawn_why.clone().unwrap_or_default(),
    })
}

/// The key of the next mailing about a job: the same until one is made, so that a form that is sent twice makes one.
fn mailing_key(job: JobId, what: &str, made: usize) -> String {
    Uuid::new_v5(&job.0, format!("{what} {made}").as_bytes()).to_string()
}

/// The offer to send a message a second time, where that makes sense: a mailing's own messages are not copied further.
pub(super) fn second_copy(record: &Record, effect: &Effect, mailings: &[Record]) -> Option<SecondCopyOffer> {
    let number = effect.number;
    let wanted = record.row.spec.task.about().is_none()
        && record.job.phase.is_final()
        && !record.job.is_withdrawn()
        && effect.attempts > 0
        && matches!(effect.outcome, Outcome::Unconfirmed | Outcome::NotDone);
    // By its Message-ID, which a copy of a copy has as well.
    let message_id = record.message_ids.get(&number);
    let same = |mailing: &&Record| mailing.message_ids.values().any(|id| Some(id) == message_id);
    let made = mailings.iter().filter(same).count();
    let under_way = mailings.iter().filter(same).any(|mailing| !mailing.job.phase.is_final());
    let accepted =
        |email: &Effect| matches!(email.outcome, Outcome::Done | Outcome::Unconfirmed) || email.contradiction.is_some();
    let copied = mailings.iter().filter(same).any(|mailing| mailing.job.emails().any(accepted));
    (wanted && !under_way).then(|| SecondCopyOffer {
        number,
        request_key: mailing_key(record.row.id, &format!("second copy of {number}"), made),
        to: record.targets.get(&number).cloned().unwrap_or_default(),
        may_duplicate: effect.may_have_happened() || copied,
    })
}

impl Service {
    /// Adds to a job's view what came after it and what may still be done.
    pub(super) async fn add_afterwards(
        &self,
        who: &Viewer,
        record: &Record,
        reader: &Reader,
        view: &mut JobView,
    ) -> Result<(), ServiceError> {
        let (id, job) = (record.row.id, &record.job);
        if job.phase == Phase::Stopping {
            let since = record.row.cancel_requested_at;
            let waited = since.map(|at| (self.store().clock().now() - at).num_seconds().max(0));
            view.waiting_since = since.map(|at| moment(at, reader.zone));
            view.waiting_seconds = waited.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX));
            view.account_now = who.is_admin.then(|| AccountNowOffer { consequence: consequence(record) });
        }
        if let Some(about) = record.row.spec.task.about() {
            let title = self.store().job(about).await?.map(|about| about.row.spec.full_title()).unwrap_or_default();
            let text = match &record.row.spec.task {
                Task::Correction { text, .. } => Some(text.clone()),
                Task::Report | Task::SecondCopy { .. } => None,
            };
            view.about = Some(AboutView { title, path: format!("/jobs/{about}"), text });
            return Ok(());
        }
        // Until then there is nothing to look up, and a running job's page reads it all the time.
        if !job.phase.is_final() {
            return Ok(());
        }
        let mailings = self.store().mailings_about(id).await?;
        view.mailings = mailings.iter().map(|mailing| mailing_line(mailing, reader)).collect();
        if job.is_withdrawn() {
            view.withdrawn = self.store().report_of_job(id).await?.as_ref().and_then(|report| withdrawn(report, reader));
            view.report_path = None;
        }
        let written_to = self.store().written_to(record).await?;
        let corrections = mailings.iter().filter(|mailing| mailing.job.kind == JobKind::Correction).count();
        let open = |record: &Record| {
            !record.job.phase.is_final() || record.job.emails().any(|email| email.outcome == Outcome::Unconfirmed)
        };
        view.afterwards = AfterwardsView {
            may_withdraw: job.report_saved() && !job.is_withdrawn(),
            correction: (!written_to.is_empty())
                .then(|| CorrectionOffer { request_key: mailing_key(id, "correction", corrections), recipients: written_to }),
            second_copies: job.emails().filter_map(|email| second_copy(record, email, &mailings)).collect(),
            may_delete: !open(record) && !mailings.iter().any(open),
        };
        Ok(())
    }

    /// Accounts for a stopping job without waiting for its worker.
    pub async fn account_now(&self, who: &Viewer, id: JobId, why: &str) -> Done<()> {
        admins_only(who)?;
        self.visible(who, id).await?;
        match text(why, MAX_REASON) {
            Ok(why) => moved_on(self.store().account_now(id, &who.email, &why).await),
            Err(said) => Ok(Err(said)),
        }
    }

    /// Takes a report back.
    pub async fn withdraw_report(&self, who: &Viewer, id: JobId, why: &str) -> Done<()> {
        self.visible(who, id).await?;
        match text(why, MAX_REASON) {
            Ok(why) => moved_on(self.store().withdraw_report(id, &who.email, &why).await),
            Err(said) => Ok(Err(said)),
        }
    }

    /// Deletes a job with everything that it has made; its effects stay in the history. Whoever has deleted it already, by a
    /// form that was sent twice, is told the same again.
    pub async fn delete_job(&self, who: &Viewer, id: JobId, why: &str) -> Done<()> {
        if self.have_deleted(who, id).await? {
            return Ok(Ok(()));
        }
        self.visible(who, id).await?;
        match text(why, MAX_REASON) {
            Ok(why) => moved_on(self.store().delete_job(id, &who.email, &why).await),
            Err(said) => Ok(Err(said)),
        }
    }

    /// Whether this person has deleted the job.
    async fn have_deleted(&self, who: &Viewer, id: JobId) -> Result<bool, ServiceError> {
        let deletions = EffectFilter { job: Some(id), kind: Some(EffectKind::Deletion), ..EffectFilter::default() };
        let Some(deletion) = self.store().effects_by_job(&deletions, None, 1).await?.pop() else { return Ok(false) };
        let decisions = self.store().decisions(id, deletion.number).await?;
        Ok(decisions.last().is_some_and(|decision| decision.by == who.email))
    }

    /// Says what became of an unconfirmed e-mail.
    pub async fn settle_effect(&self, who: &Viewer, job: JobId, number: u32, accepted: bool, seen: &str) -> Done<()> {
        admins_only(who)?;
        match text(seen, MAX_REASON) {
            Ok(seen) => moved_on(self.store().settle_by_person(job, number, accepted, &who.email, &seen).await),
            Err(said) => Ok(Err(said)),
        }
    }

    /// Writes a correction to everybody who may have got the link; returns its job.
    pub async fn correct(&self, who: &Viewer, id: JobId, key: RequestKey, says: &str) -> Done<JobId> {
        self.visible(who, id).await?;
        match text(says, MAX_CORRECTION) {
            Ok(says) => {
                let task = Task::Correction { about: id, text: says, by: who.email.clone() };
                self.mail_about(who, key, task, "", false).await
            }
            Err(said) => Ok(Err(said)),
        }
    }

    /// Sends a message again, byte for byte; returns the job that does it. Where the first one may have been accepted, the
    /// person must be `sure` that a second one is wanted.
    pub async fn send_again(&self, who: &Viewer, id: JobId, number: u32, key: RequestKey, why: &str, sure: bool) -> Done<JobId> {
        self.visible(who, id).await?;
        match text(why, MAX_REASON) {
            Ok(why) => self.mail_about(who, key, Task::SecondCopy { about: id, number }, &why, sure).await,
            Err(said) => Ok(Err(said)),
        }
    }

    async fn mail_about(&self, who: &Viewer, key: RequestKey, task: Task, why: &str, sure: bool) -> Done<JobId> {
        Ok(match self.store().order_mailing(key, task, &who.email, why, sure).await? {
            Mailing::Job(id) => Ok(id),
            Mailing::NotFound => return Err(AppError::NotFound.into()),
            Mailing::NotEnded | Mailing::KeyInUse => Err(Said::MovedOn),
            Mailing::NobodyWasWrittenTo => Err(Said::Nobody),
            Mailing::Accepted => Err(Said::Accepted),
            Mailing::MayDuplicate => Err(Said::NotSure),
            Mailing::OnItsWay => Err(Said::OnItsWay),
            Mailing::Withdrawn => Err(Said::Withdrawn),
        })
    }
}

/// What nobody could tell any more if a stopping job were accounted for now.
fn consequence(record: &Record) -> String {
    let doubtful: Vec<&str> = record
        .job
        .emails()
        .filter(|email| email.outcome == Outcome::InDoubt)
        .filter_map(|email| record.targets.get(&email.number).map(String::as_str))
        .collect();
    if doubtful.is_empty() {
        "Nothing would be unconfirmed by that: no message has been handed over without an answer.".into()
    } else {
        format!("The e-mail to {} would be unconfirmed: it may have been accepted, or not.", doubtful.join(", "))
    }
}

fn mailing_line(record: &Record, reader: &Reader) -> MailingLine {
    let row = &record.row;
    MailingLine {
        what: match row.spec.task.kind() {
            JobKind::SecondCopy => format!("Second copy to {}", row.spec.recipients.join(", ")),
            JobKind::Correction | JobKind::Report => format!("Correction to {}", row.spec.recipients.join(", ")),
        },
        path: format!("/jobs/{}", row.id),
        mark: wording::job_mark(&record.job),
        headline: headline(&record.job),
        created: moment(row.created_at, reader.zone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_as_long_as_its_field_has_counted() {
        assert_eq!(text(" It was\r\na trial. \r\n", 16), Ok("It was\na trial.".into()));
        assert_eq!(text("It was\r\na trial.", 15), Ok("It was\na trial.".into()));
        assert_eq!(text("It was\r\na trial.", 14), Err(Said::ReasonTooLong));
        assert_eq!(text(" \r\n ", 14), Err(Said::ReasonMissing));
        assert_eq!(text("a\0b\u{1b}c\r\n\0", 14), Ok("a b c".into()));
    }
}
