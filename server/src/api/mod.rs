//! The JSON API, thin over the same service as the pages. Errors are problem documents (RFC 9457).

mod afterwards;

use crate::{
    http::{AppState, problem::Problem, session::SignedIn},
    service::{Ordered, Service, parse_id},
};
use app::{
    model::{CancelAnswerView, EffectQuery, EffectView, EffectsView, JobView, JobsView},
    ports::Pages,
};
use axum::{
    Json, Router,
    extract::{
        Path, Query, State,
        rejection::{JsonRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{any, get, put},
};
use domain::{
    id::{JobId, RequestKey},
    request::ReportRequest,
};
use serde::{Deserialize, Serialize};

/// The routes. The event stream is with the pages', since both are one.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/v1/jobs", get(list).post(create))
        .route("/api/v1/jobs/{id}", get(show))
        .route("/api/v1/jobs/{id}/cancellation", put(cancel))
        .route("/api/v1/jobs/{id}/approval", put(approve))
        .route("/api/v1/reports/{id}", get(report))
        .route("/api/v1/effects", get(effects))
        .route("/api/v1/effects/{job}/{number}", get(effect))
        .merge(afterwards::routes())
        .route("/api/v1/{*rest}", any(async || Problem::not_found()))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Filter {
    state: String,
    before: String,
}

/// A saved report with all that it was made from.
#[derive(Debug, Serialize)]
struct ReportDocument {
    id: String,
    job_id: String,
    title: String,
    created_at: chrono::DateTime<chrono::Utc>,
    markdown: String,
    html: String,
    provenance: serde_json::Value,
}

/// Creates a job, or finds the one that the same key has made: 201 for a new one, 200 for a known one.
async fn create(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    headers: HeaderMap,
    body: Result<Json<ReportRequest>, JsonRejection>,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers)?;
    let Json(request) = body.map_err(|rejection| Problem::bad_request(rejection.body_text()))?;
    match service.order(&who, key, &request.in_zone(&who.zone)).await? {
        Ordered::Job { id, is_new } => {
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            let job = service.show_job(&who, id).await?;
            Ok((status, [(header::LOCATION, format!("/api/v1/jobs/{id}"))], Json(job)).into_response())
        }
        Ordered::Conflict => {
            Err(Problem::conflict("This Idempotency-Key was used for another report. Send a new key, or the same request again."))
        }
        Ordered::Wrong(errors) => Err(errors.into()),
    }
}

/// The `Idempotency-Key` header as a request key. Any text will do; a UUID is taken as it is.
fn idempotency_key(headers: &HeaderMap) -> Result<RequestKey, Problem> {
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok()).and_then(RequestKey::named);
    key.ok_or_else(|| {
        Problem::bad_request(
            "Send an Idempotency-Key header of 1 to 255 characters, the same one for every repetition of this request. It \
             makes sure that a repeated request finds its job instead of making another.",
        )
    })
}

async fn list(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Query(filter): Query<Filter>,
) -> Result<Json<JobsView>, Problem> {
    Ok(Json(Pages::jobs(&service, &who, filter.state, filter.before).await?))
}

async fn show(State(service): State<Service>, SignedIn(who): SignedIn, Path(id): Path<String>) -> Result<Json<JobView>, Problem> {
    Ok(Json(Pages::job(&service, &who, id).await?))
}

/// Always 200 for a job that is theirs, whatever the cancel meets.
async fn cancel(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
) -> Result<Json<CancelAnswerView>, Problem> {
    Ok(Json(Pages::cancel(&service, &who, id).await?))
}

/// Ends a hold: the e-mail goes out now. A repetition changes nothing.
async fn approve(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
) -> Result<Json<JobView>, Problem> {
    let id: JobId = parse_id(&id)?;
    afterwards::done(service.send_now(&who, id).await)?;
    Ok(Json(service.show_job(&who, id).await?))
}

async fn report(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
) -> Result<Json<ReportDocument>, Problem> {
    let report = service.saved_report(&who, &id).await?;
    Ok(Json(ReportDocument {
        id: report.id.to_string(),
        job_id: JobId::to_string(&report.job_id),
        title: report.title,
        created_at: report.created_at,
        markdown: report.markdown,
        html: report.html,
        provenance: serde_json::from_str(&report.provenance).map_err(Problem::internal)?,
    }))
}

/// The same list as the page; a filter that cannot be read is an error here.
async fn effects(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    query: Result<Query<EffectQuery>, QueryRejection>,
) -> Result<Json<EffectsView>, Problem> {
    let Query(query) = query?;
    let view = Pages::effects(&service, &who, query).await?;
    if view.mistakes.is_empty() { Ok(Json(view)) } else { Err(view.mistakes.into()) }
}

async fn effect(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path((job, number)): Path<(String, String)>,
) -> Result<Json<EffectView>, Problem> {
    Ok(Json(Pages::effect(&service, &who, job, number).await?))
}
