//! The list of jobs, and what a report and its documents show.

use super::{
    Service, ServiceError,
    jobs::{parse_id, user_id},
    view::{Reader, coverage_summary, interval, moment},
};
use app::{
    address::with_query,
    error::AppError,
    model::{DocumentView, Fact, JobRow, JobsView, ReportView, Viewer},
};
use contract::wording;
use contract::{Mark, Phase, headline, if_cancelled_now};
use domain::id::{JobId, ReportId, UserId};
use store::Record;

/// Rows on one page of a list.
const PAGE: u32 = 50;

fn job_row(record: &Record, reader: &Reader, with_owner: bool) -> JobRow {
    let row = &record.row;
    let set_aside = row.set_aside_at.is_some() && !record.job.phase.is_final();
    JobRow {
        id: row.id.to_string(),
        version: row.version,
        title: row.spec.full_title(),
        mark: if set_aside { Mark::Waiting } else { wording::job_mark(&record.job) },
        headline: headline(&record.job),
        set_aside,
        created: moment(row.created_at, reader.zone),
        owner: with_owner.then(|| reader.name(&row.owner_email).to_owned()),
        may_cancel: if_cancelled_now(&record.job).is_some(),
        report_path: row.report_id.filter(|_| !record.job.is_withdrawn()).map(|id| format!("/reports/{id}")),
    }
}

impl Service {
    /// Jobs, newest first: the viewer's own, or everybody's for an administrator.
    pub(super) async fn list_jobs(&self, who: &Viewer, state: &str, before: &str) -> Result<JobsView, ServiceError> {
        let owner = if who.is_admin { None } else { Some(user_id(who)?) };
        let before = if before.is_empty() { None } else { Some(parse_id::<JobId>(before)?) };
        let phase = Phase::from_name(state);
        let now = self.store().clock().now();
        let records = self.store().jobs(owner, phase, before, PAGE + 1).await?;
        let shown = records.get(..PAGE as usize).unwrap_or(&records);
        let older_path = (records.len() > shown.len())
            .then(|| shown.last().map(|last| with_query("/jobs", [("state", state), ("before", &last.row.id.to_string())])))
            .flatten();
        let reader = Reader::new(&who.email, &who.zone);
        let jobs = shown.iter().map(|record| job_row(record, &reader, who.is_admin)).collect();
        Ok(JobsView { jobs, older_path, of_everyone: who.is_admin, as_of: moment(now, reader.zone) })
    }

    /// The viewer's latest jobs.
    pub(super) async fn recent_jobs(&self, who: &Viewer) -> Result<JobsView, ServiceError> {
        let owner: UserId = user_id(who)?;
        let now = self.store().clock().now();
        let records = self.store().jobs(Some(owner), None, None, 6).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let jobs = records.iter().map(|record| job_row(record, &reader, false)).collect();
        Ok(JobsView { jobs, older_path: None, of_everyone: false, as_of: moment(now, reader.zone) })
    }

    /// A saved report.
    pub(super) async fn show_report(&self, who: &Viewer, id: &str) -> Result<ReportView, ServiceError> {
        let id: ReportId = parse_id(id)?;
        let (report, record) = self.readable_report(who, id).await?;
        let coverage = self.store().coverage(report.job_id).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let created = moment(report.created_at, reader.zone);
        let mut facts = vec![
            Fact { term: "Month".into(), text: interval(&record.row.spec) },
            Fact { term: "Saved".into(), text: created.text.clone() },
            Fact { term: "Asked for by".into(), text: reader.name(&record.row.owner_email).into() },
        ];
        facts.extend(coverage_summary(&coverage).map(|text| Fact { term: "Documents".into(), text }));
        let is_owner = who.is_admin || record.row.owner_id == user_id(who)?;
        Ok(ReportView {
            id: id.to_string(),
            title: report.title,
            interval: interval(&record.row.spec),
            created,
            html: report.html,
            markdown_path: format!("/reports/{id}/report.md"),
            job_path: is_owner.then(|| format!("/jobs/{}", report.job_id)),
            facts,
        })
    }

    /// A saved report as it is stored.
    pub async fn saved_report(&self, who: &Viewer, id: &str) -> Result<store::Report, ServiceError> {
        Ok(self.readable_report(who, parse_id(id)?).await?.0)
    }

    /// The Markdown of a report, with a file name for it.
    pub async fn report_markdown(&self, who: &Viewer, id: &str) -> Result<(String, String), ServiceError> {
        let (report, record) = self.readable_report(who, parse_id(id)?).await?;
        Ok((format!("report-{}.md", record.row.spec.month), report.markdown))
    }

    /// A document of a report with the passage that a statement rests on.
    pub(super) async fn show_document(
        &self,
        who: &Viewer,
        report: &str,
        number: u32,
        start: usize,
        end: usize,
    ) -> Result<DocumentView, ServiceError> {
        let (report, record) = self.readable_report(who, parse_id(report)?).await?;
        let document = self.store().document(record.row.id, number).await?.ok_or(AppError::NotFound)?;
        let text = document.text.unwrap_or_default();
        // An offset that lies inside a character, or past the end, cites nothing.
        let cited = text.get(..start).zip(text.get(start..end)).zip(text.get(end..));
        let ((before, passage), after) = cited.unwrap_or(((text.as_str(), ""), ""));
        let mut facts = vec![Fact { term: "From".into(), text: document.source }];
        if let (Some(date), Some(rule)) = (document.date, document.dated_by) {
            facts.push(Fact { term: "Dated".into(), text: format!("{date}, by {rule}") });
        }
        if let Some(sha256) = document.sha256 {
            facts.push(Fact { term: "SHA-256".into(), text: domain::text::hex(&sha256) });
        }
        facts.extend(document.coverage.reason.map(|text| Fact { term: "Read in part".into(), text }));
        Ok(DocumentView {
            report_title: report.title,
            report_path: format!("/reports/{}", report.id),
            number,
            name: document.name,
            facts,
            before: before.to_owned(),
            passage: passage.to_owned(),
            after: after.to_owned(),
        })
    }
}
