//! Save: the draft becomes the report. Its row, the end of the step and the start of the e-mail are one transaction, so the
//! report exists if and only if the save came before a cancel.

use crate::{
    report::{DocumentLine, ReportContent, TimeLine, render_html, render_markdown},
    service::{interval, moment},
    worker::run::{StepError, Work},
};
use contract::StepKind;
use domain::{fail_point, id::ReportId};
use serde_json::json;
use store::{CollectedDocument, StoreError};
use summarize::Draft;

/// Runs the step.
pub async fn run(work: &Work) -> Result<(), StepError> {
    let (id, spec) = (work.claim.id, &work.claim.spec);
    let store = &work.dependencies.store;
    let draft = store
        .summary(id)
        .await?
        .ok_or_else(|| StepError::Failed("The draft of the report is missing. Start the report again.".into()))?;
    let draft: Draft = serde_json::from_str(&draft).map_err(StoreError::from)?;
    let documents = store.coverage(id).await?;
    let record = store.job(id).await?.ok_or(StepError::Stopped)?;

    let report = ReportId::new();
    let saved_at = store.clock().now();
    let zone = domain::period::parse_zone(&spec.zone).unwrap_or(chrono_tz::UTC);
    let at = |what: &str, when| TimeLine { what: what.into(), when: moment(when, zone).text };
    let mut times = vec![at("Asked for", record.row.created_at)];
    times.extend(record.row.started_at.map(|when| at("Begun", when)));
    times.push(at("Saved", saved_at));
    let content = ReportContent {
        title: spec.full_title(),
        month: spec.month.title(),
        zone: spec.zone.clone(),
        interval: interval(spec),
        instructions: spec.instructions.clone(),
        draft,
        documents: documents.iter().map(document_line).collect(),
        times,
        job_id: id.to_string(),
    };
    let base = format!("/reports/{report}");
    let markdown = render_markdown(&content, &format!("{}{base}", work.dependencies.public_url));
    let html = render_html(&content, &base);
    let provenance = json!({
        "month": spec.month, "zone": spec.zone, "start": spec.start, "end": spec.end, "interval": content.interval, "instructions": spec.instructions,
        "documents": documents.iter().map(provenance).collect::<Vec<_>>(),
        "summarizer": content.draft.summarizer.name, "parameters": content.draft.parameters, "notes": content.draft.notes,
        "asked_for_at": record.row.created_at, "begun_at": record.row.started_at, "saved_at": saved_at,
    });
    fail_point::reach("before", "the save takes the database").await;
    // Everything is ready before the database is held: a Cancel must not wait for the rendering.
    let mut change = work.change().await?;
    change.job.complete_step(work.claim.epoch, StepKind::Save)?;
    change.insert_report(report, &content.title, &markdown, &html, &provenance).await?;
    change.commit().await?;
    Ok(())
}

fn document_line(document: &CollectedDocument) -> DocumentLine {
    DocumentLine {
        number: document.number,
        name: document.name.clone(),
        date: document.date.clone(),
        rule: document.dated_by.clone(),
        sha256: document.sha256.as_deref().map(domain::text::hex),
        coverage: document.coverage.outcome.label().to_lowercase(),
        reason: document.coverage.reason.clone(),
    }
}

fn provenance(document: &CollectedDocument) -> serde_json::Value {
    json!({
        "number": document.number, "source": document.source, "name": document.name, "title": document.title,
        "date": document.date, "dated_by": document.dated_by, "sha256": document.sha256.as_deref().map(domain::text::hex),
        "coverage": document.coverage,
    })
}
