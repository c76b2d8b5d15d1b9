//! Ordering a report, looking at a job, cancelling it.

use super::{
    Done, Service, ServiceError,
    afterwards::{moved_on, withdrawn},
    order::{check, resembles},
    view::{Reader, conceal_message_ids, job_view, moment},
};
use crate::worker::notice;
use app::{
    error::AppError,
    model::{CancelAnswerView, Fact, FieldError, HoldView, JobView, Said, Viewer, WithdrawnView, effect_path},
};
use contract::{CancelAnswer, JobKind, Phase, wording};
use domain::id::{JobId, ReportId, RequestKey, UserId};
use domain::request::ReportRequest;
use mail::compose::preview;
use store::Record;

/// What became of an order.
#[derive(Debug)]
pub enum Ordered {
    /// There is a job: a new one, or the one that this request had made before.
    Job { id: JobId, is_new: bool },
    /// The key belongs to a job that was ordered differently.
    Conflict,
    /// The order has mistakes.
    Wrong(Vec<FieldError>),
}

/// The viewer's id as the store knows it.
pub(super) fn user_id(who: &Viewer) -> Result<UserId, AppError> {
    who.id.parse().map_err(|_| AppError::SignInRequired)
}

/// An id or a number from an address; what is none names nothing.
pub fn parse_id<T: std::str::FromStr>(text: &str) -> Result<T, AppError> {
    text.parse().map_err(|_| AppError::NotFound)
}

impl Service {
    /// Takes a request for a report, with the files that were uploaded under its key. The same one gives the same job, however often
    /// it arrives.
    pub async fn order(&self, who: &Viewer, key: RequestKey, request: &ReportRequest) -> Result<Ordered, ServiceError> {
        let owner = user_id(who)?;
        let has_files = request.sources.is_empty() && !self.store().uploads(owner, key).await?.is_empty();
        let checked = check(request, has_files, &self.sources);
        // A repetition is answered first, even where its folders have gone since: its job has not.
        if let Some(id) = self.store().job_of_request(owner, key).await? {
            let record = self.visible(who, id).await?;
            let same = checked.map_or_else(|_| resembles(request, &record.row.spec), |spec| spec == record.row.spec);
            return Ok(if same { Ordered::Job { id, is_new: false } } else { Ordered::Conflict });
        }
        match checked {
            Err(errors) => Ok(Ordered::Wrong(errors)),
            Ok(spec) => {
                let (id, is_new) = self.store().create_job(owner, key, &spec).await?;
                Ok(Ordered::Job { id, is_new })
            }
        }
    }

    /// A job that the viewer may see.
    pub async fn visible(&self, who: &Viewer, id: JobId) -> Result<Record, ServiceError> {
        let record = self.store().job(id).await?.ok_or(AppError::NotFound)?;
        if who.is_admin || record.row.owner_id == user_id(who)? { Ok(record) } else { Err(AppError::NotFound.into()) }
    }

    /// A job in words.
    pub async fn show_job(&self, who: &Viewer, id: JobId) -> Result<JobView, ServiceError> {
        // The record first: the lists may then be newer than its version, which the next version puts right, but never older,
        // which nothing would.
        let record = self.visible(who, id).await?;
        let coverage = self.store().coverage(id).await?;
        let history = self.store().history(id).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let mut view = job_view(&record, &coverage, &history, &reader, self.store().clock().now());
        view.hold = self.hold_view(&record, &reader).await?;
        self.add_afterwards(who, &record, &reader, &mut view).await?;
        self.add_set_aside(&record, &reader, &mut view).await?;
        if who.is_admin {
            for effect in &mut view.effects {
                effect.path = Some(effect_path(&view.id, effect.number));
            }
        } else {
            conceal_message_ids(&record, &mut view);
        }
        if record.job.kind == JobKind::Report {
            let summarizer = Fact { term: "Summarizer".into(), text: self.summarizer.to_string() };
            view.facts.insert(3.min(view.facts.len()), summarizer);
        }
        Ok(view)
    }

    /// Cancels a job: always answers with what it met and the state that the job is in now.
    pub async fn cancel_job(&self, who: &Viewer, id: JobId) -> Result<CancelAnswerView, ServiceError> {
        self.cancel_job_as(who, id, &who.email).await
    }

    /// The same where the record has to say more than who it was.
    pub async fn cancel_job_as(&self, who: &Viewer, id: JobId, by: &str) -> Result<CancelAnswerView, ServiceError> {
        self.visible(who, id).await?;
        let (answer, record) = self.store().cancel_job(id, by).await?.ok_or(AppError::NotFound)?;
        let job = self.show_job(who, id).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let row = &record.row;
        let (outcome, said, won_by) = match answer {
            CancelAnswer::Accepted => ("accepted", None, None),
            CancelAnswer::AlreadyRequested => ("already_requested", Some(Said::CancelledBefore), None),
            CancelAnswer::TooLate if record.job.phase == Phase::Failed => ("too_late", Some(Said::TooLateFailed), Some("failed")),
            CancelAnswer::TooLate => ("too_late", Some(Said::TooLateFinished), Some("finished")),
        };
        Ok(CancelAnswerView {
            outcome: outcome.into(),
            message: wording::cancel_answer(answer, record.job.phase).into(),
            said,
            requested_at: row.cancel_requested_at.map(|at| moment(at, reader.zone)),
            requested_by: row.cancel_requested_by.as_deref().map(|by| reader.name(by).to_owned()),
            won_by: won_by.map(str::to_owned),
            job,
        })
    }

    /// Lets a held e-mail go out now.
    pub async fn send_now(&self, who: &Viewer, id: JobId) -> Done<()> {
        self.visible(who, id).await?;
        moved_on(self.store().send_now(id, &who.email).await.map(|sent| sent.map(|_| ())))
    }

    /// What a held job's page shows: the time, and the message as it will go out. Nothing while it is set aside: what it waits for
    /// then is another decision.
    async fn hold_view(&self, record: &Record, reader: &Reader) -> Result<Option<HoldView>, ServiceError> {
        if !record.job.is_held() || record.row.set_aside_at.is_some() {
            return Ok(None);
        }
        let Some(report) = self.store().report_of_job(record.row.id).await? else { return Ok(None) };
        let first = record.job.emails().next().and_then(|email| notice(&self.dependencies, record, &report, email.number));
        let preview = first.map(|notice| preview(&notice)).unwrap_or_default();
        let left = match record.row.hold_until {
            Some(until) => Some(until - self.store().lease_time().await?),
            None => None,
        };
        Ok(Some(HoldView {
            // As the clock will show it, whatever it has shown when the hold began.
            until: left.map(|left| moment(self.store().clock().now() + left, reader.zone)),
            seconds_left: left.map(|left| u32::try_from(left.num_seconds().max(0)).unwrap_or(u32::MAX)),
            subject: preview.0,
            message: preview.1,
        }))
    }

    /// The job behind a report that the viewer may read: the owner, administrators, and people whom its link was sent to.
    pub(super) async fn readable_report(&self, who: &Viewer, id: ReportId) -> Result<(store::Report, Record), ServiceError> {
        let report = self.store().report(id).await?.ok_or(AppError::NotFound)?;
        let record = self.store().job(report.job_id).await?.ok_or(AppError::NotFound)?;
        let is_recipient = record.row.spec.recipients.iter().any(|address| address.eq_ignore_ascii_case(&who.email));
        if !who.is_admin && !is_recipient && record.row.owner_id != user_id(who)? {
            return Err(AppError::NotFound.into());
        }
        let reader = Reader::new(&who.email, &who.zone);
        match withdrawn(&report, &reader) {
            None => Ok((report, record)),
            Some(WithdrawnView { at, by, why }) => Err(AppError::Withdrawn { title: report.title, at: at.text, by, why }.into()),
        }
    }
}
