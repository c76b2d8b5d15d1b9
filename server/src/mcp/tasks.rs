//! Tasks (the extension `io.modelcontextprotocol/tasks`, SEP-2663): a task is a job's record, and nothing beside it.
//!
//! Its id is the job's, it is durable before its handle is given out, and it outlives every connection and process. What is
//! unknown, foreign or no id at all is answered alike. A job that has failed is a `completed` task whose result is an error of the
//! tool; `failed` is for errors of the protocol, of which a record has none.

use super::{
    principal::{Missing, Principal},
    results::ended,
};
use crate::service::{Service, ServiceError, parse_id};
use app::{error::AppError, model::Viewer};
use chrono::{DateTime, SecondsFormat, Utc};
use contract::{Phase, headline};
use domain::{id::JobId, people::Scope};
use rmcp::{
    ErrorData, RoleServer,
    model::{CreateTaskResult, DetailedTask, ErrorCode, GetTaskResult, ProtocolVersion, Task, TaskPayload, TaskStatus},
    service::RequestContext,
};
use store::Record;

/// How often a task is worth looking at, in milliseconds.
const POLL: u64 = 1_000;

/// Whether this very request may be answered with a task. What the client has declared in an older handshake does not count:
/// such clients cannot read the handle.
pub fn may_answer(context: &RequestContext<RoleServer>) -> bool {
    let is_modern = context.meta.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
    is_modern && context.meta.client_capabilities().is_some_and(|declared| declared.supports_tasks())
}

/// The handle of a job that was just ordered.
pub async fn handle(service: &Service, who: &Viewer, id: JobId) -> Result<CreateTaskResult, ErrorData> {
    let record = service.visible(who, id).await.map_err(error)?;
    Ok(CreateTaskResult::new(task(&record)))
}

/// The task as it is now.
pub async fn get(service: &Service, who: &Principal, id: &str) -> Result<GetTaskResult, ErrorData> {
    let who = who.with(Scope::Read).map_err(missing)?;
    let id: JobId = parse_id(id).map_err(|cause| error(cause.into()))?;
    let record = service.visible(who, id).await.map_err(error)?;
    let payload = match record.job.phase {
        Phase::Queued | Phase::Running | Phase::Stopping => TaskPayload::Working,
        Phase::Cancelled => TaskPayload::Cancelled,
        Phase::Finished | Phase::Failed => {
            let job = service.show_job(who, id).await.map_err(error)?;
            let result = serde_json::to_value(ended(service, &job)?).map_err(internal)?;
            TaskPayload::Completed { result: result.as_object().cloned().unwrap_or_default() }
        }
    };
    Ok(GetTaskResult::new(DetailedTask::new(task(&record), payload)))
}

/// Takes input that no task asks for: whoever owns the task is thanked for it.
pub async fn update(service: &Service, who: &Principal, id: &str) -> Result<(), ErrorData> {
    let who = who.with(Scope::Write).map_err(missing)?;
    let id: JobId = parse_id(id).map_err(|cause| error(cause.into()))?;
    service.visible(who, id).await.map_err(error)?;
    Ok(())
}

/// Records the intent, as the Cancel button does, and acknowledges just that. A task that has ended stays as it is.
pub async fn cancel(service: &Service, who: &Principal, id: &str) -> Result<(), ErrorData> {
    let who = who.with(Scope::Write).map_err(missing)?;
    let id: JobId = parse_id(id).map_err(|cause| error(cause.into()))?;
    service.cancel_job(who, id).await.map_err(error)?;
    Ok(())
}

fn task(record: &Record) -> Task {
    let (row, job) = (&record.row, &record.job);
    let status = match job.phase {
        Phase::Queued | Phase::Running | Phase::Stopping => TaskStatus::Working,
        Phase::Cancelled => TaskStatus::Cancelled,
        Phase::Finished | Phase::Failed => TaskStatus::Completed,
    };
    let steps = record.times.iter().flat_map(|times| [times.started_at, times.ended_at]);
    let moments = steps.chain([row.started_at, row.finished_at, row.cancel_requested_at]).flatten();
    let updated = moments.chain(record.effect_times.values().copied()).fold(row.created_at, DateTime::max);
    // Without a time to live: a job's record is kept until a person deletes it.
    Task::new(row.id.to_string(), status, iso(row.created_at), iso(updated))
        .with_status_message(headline(job))
        .with_poll_interval_ms(POLL)
}

fn iso(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// A scope that a request lacks, as an error of the protocol.
pub fn missing(missing: Missing) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, missing.sentence(), None)
}

fn internal(cause: impl std::fmt::Display) -> ErrorData {
    tracing::error!(%cause, "a request failed");
    ErrorData::internal_error(AppError::Internal.to_string(), None)
}

fn error(ServiceError(error): ServiceError) -> ErrorData {
    match error {
        AppError::NotFound => ErrorData::invalid_params("There is no such task, or it is not yours to see.", None),
        AppError::Forbidden | AppError::SignInRequired => ErrorData::new(ErrorCode::INVALID_REQUEST, error.to_string(), None),
        other => ErrorData::internal_error(other.to_string(), None),
    }
}
