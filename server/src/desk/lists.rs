//! Lists: jobs, the effect history, and what a report and its documents show.

use super::{
    Desk, DeskError,
    jobs::{parse_id, user_id},
    view::{Reader, coverage_summary, interval, moment},
};
use crate::{
    id::{JobId, ReportId, UserId},
    store::{EffectEntry, EffectFilter, Record},
    words,
};
use app::{
    contract::{EffectKind, Outcome, Phase, headline, if_cancelled_now},
    error::AppError,
    model::{DocumentView, EffectRow, EffectsView, Fact, JobRow, JobsView, ReportView, Viewer},
};
use chrono::{DateTime, SecondsFormat, Utc};

/// Rows on one page of a list.
const PAGE: u32 = 50;

fn job_row(record: &Record, reader: &Reader, with_owner: bool) -> JobRow {
    let row = &record.row;
    JobRow {
        id: row.id.to_string(),
        title: row.spec.full_title(),
        mark: words::job_mark(&record.job),
        headline: headline(&record.job),
        created: moment(row.created_at, reader.zone),
        owner: with_owner.then(|| reader.name(&row.owner_email).to_owned()),
        may_cancel: if_cancelled_now(&record.job).is_some(),
        report_path: row.report_id.map(|id| format!("/reports/{id}")),
    }
}

fn effect_row(entry: EffectEntry, reader: &Reader) -> EffectRow {
    EffectRow {
        at: moment(entry.changed_at, reader.zone),
        what: words::effect_name(entry.kind, entry.number, &entry.target),
        mark: words::outcome_mark(entry.outcome, entry.not_done),
        outcome_text: words::outcome_in_full(entry.kind, entry.outcome, entry.not_done).into(),
        evidence: entry.evidence,
        message_id: entry.message_id,
        job_path: format!("/jobs/{}", entry.job_id),
        job_title: entry.job_title,
        owner: entry.owner_email,
    }
}

impl Desk {
    /// Jobs, newest first: the viewer's own, or everybody's for an administrator.
    pub(super) async fn list_jobs(&self, who: &Viewer, state: &str, before: &str) -> Result<JobsView, DeskError> {
        let owner = if who.is_admin { None } else { Some(user_id(who)?) };
        let before = if before.is_empty() { None } else { Some(parse_id::<JobId>(before)?) };
        let phase = Phase::from_name(state);
        let records = self.store().jobs(owner, phase, before, PAGE + 1).await?;
        let shown = records.get(..PAGE as usize).unwrap_or(&records);
        let older_path = (records.len() > shown.len())
            .then(|| shown.last().map(|last| format!("/jobs?state={state}&before={}", last.row.id)))
            .flatten();
        let reader = Reader::new(&who.email, &who.zone);
        let jobs = shown.iter().map(|record| job_row(record, &reader, who.is_admin)).collect();
        Ok(JobsView { jobs, older_path, of_everyone: who.is_admin })
    }

    /// The viewer's latest jobs.
    pub(super) async fn recent_jobs(&self, who: &Viewer) -> Result<JobsView, DeskError> {
        let owner: UserId = user_id(who)?;
        let records = self.store().jobs(Some(owner), None, None, 6).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let jobs = records.iter().map(|record| job_row(record, &reader, false)).collect();
        Ok(JobsView { jobs, older_path: None, of_everyone: false })
    }

    /// The effect history, for administrators.
    pub(super) async fn list_effects(
        &self,
        who: &Viewer,
        outcome: &str,
        kind: &str,
        before: &str,
    ) -> Result<EffectsView, DeskError> {
        if !who.is_admin {
            return Err(AppError::Forbidden.into());
        }
        let (outcome_asked, kind_asked) = (Outcome::from_name(outcome), EffectKind::from_name(kind));
        // Without a filter the open ones have a list of their own.
        let apart = outcome_asked.is_none() && kind_asked.is_none();
        let filter = EffectFilter {
            outcome: outcome_asked,
            kind: kind_asked,
            settled: apart,
            before: if before.is_empty() { None } else { Some(parse_cursor(before).ok_or(AppError::NotFound)?) },
        };
        let reader = Reader::new(&who.email, &who.zone);
        let mut entries = self.store().effects(filter, PAGE + 1).await?;
        let more = entries.len() > PAGE as usize;
        entries.truncate(PAGE as usize);
        let older_path = entries.last().filter(|_| more).map(|last| {
            let at = last.changed_at.to_rfc3339_opts(SecondsFormat::Micros, true);
            format!("/admin/effects?outcome={outcome}&kind={kind}&before={at}_{}_{}", last.job_id, last.number)
        });
        let open = if apart && before.is_empty() { self.store().open_effects().await? } else { Vec::new() };
        Ok(EffectsView {
            open: open.into_iter().map(|entry| effect_row(entry, &reader)).collect(),
            rows: entries.into_iter().map(|entry| effect_row(entry, &reader)).collect(),
            older_path,
            outcome: outcome.to_owned(),
            kind: kind.to_owned(),
        })
    }

    /// A saved report.
    pub(super) async fn show_report(&self, who: &Viewer, id: &str) -> Result<ReportView, DeskError> {
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
    pub async fn saved_report(&self, who: &Viewer, id: &str) -> Result<crate::store::Report, DeskError> {
        Ok(self.readable_report(who, parse_id(id)?).await?.0)
    }

    /// The Markdown of a report, with a file name for it.
    pub async fn report_markdown(&self, who: &Viewer, id: &str) -> Result<(String, String), DeskError> {
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
    ) -> Result<DocumentView, DeskError> {
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
            facts.push(Fact { term: "SHA-256".into(), text: words::hex(&sha256) });
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

fn parse_cursor(text: &str) -> Option<(DateTime<Utc>, JobId, u32)> {
    let mut parts = text.split('_');
    let at = parts.next()?.parse().ok()?;
    Some((at, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
