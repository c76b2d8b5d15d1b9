//! What follows a job, and what waits for a person or need not be waited for: withdrawal, correction, second copy, deletion,
//! accounting, going on in a restored copy, and what a person saw of an unconfirmed e-mail.

use super::idempotency_key;
use crate::{
    http::{AppState, problem::Problem, session::SignedIn},
    service::{Done, Service, parse_id},
};
use app::{
    model::{EffectView, JobView, Said},
    ports::Pages,
};
use axum::{
    Json, Router,
    extract::{Path, State, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{post, put},
};
use domain::id::JobId;
use serde::Deserialize;

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/v1/jobs/{id}/accounting", put(account_now))
        .route("/api/v1/jobs/{id}/resumption", put(go_on))
        .route("/api/v1/jobs/{id}/withdrawal", put(withdraw))
        .route("/api/v1/jobs/{id}/deletion", put(delete))
        .route("/api/v1/jobs/{id}/corrections", post(correct))
        .route("/api/v1/jobs/{id}/emails/{number}/second-copies", post(send_again))
        .route("/api/v1/effects/{job}/{number}/decision", put(decide))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Correction {
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecondCopy {
    why: String,
    /// The caller knows that the recipient may get the message twice.
    #[serde(default)]
    may_duplicate: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    accepted: bool,
    /// What the person saw.
    seen: String,
}

type Body<T> = Result<Json<T>, JsonRejection>;

fn read<T>(body: Body<T>) -> Result<T, Problem> {
    body.map(|Json(value)| value).map_err(|rejection| Problem::bad_request(rejection.body_text()))
}

/// Turns what was not done into a problem.
pub(super) fn done<T>(result: Done<T>) -> Result<T, Problem> {
    result?.map_err(|said| match said {
        Said::ReasonMissing | Said::ReasonTooLong => Problem::bad_request(said.sentence()),
        Said::NotSure => Problem::bad_request(
            "The first message may have been accepted. Say \"may_duplicate\": true if a second one is wanted all the same.",
        ),
        // Its sentence is about a form.
        Said::MovedOn => Problem::conflict("The record does not allow this, or not any more. Nothing was changed."),
        _ => Problem::conflict(said.sentence()),
    })
}

async fn account_now(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    body: Body<Reason>,
) -> Result<Json<JobView>, Problem> {
    done(service.account_now(&who, parse_id(&id)?, &read(body)?.why).await)?;
    Ok(Json(Pages::job(&service, &who, id).await?))
}

async fn go_on(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    body: Body<Reason>,
) -> Result<Json<JobView>, Problem> {
    done(service.go_on(&who, parse_id(&id)?, &read(body)?.why).await)?;
    Ok(Json(Pages::job(&service, &who, id).await?))
}

async fn withdraw(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    body: Body<Reason>,
) -> Result<Json<JobView>, Problem> {
    done(service.withdraw_report(&who, parse_id(&id)?, &read(body)?.why).await)?;
    Ok(Json(Pages::job(&service, &who, id).await?))
}

/// 204: from now on the job is not found.
async fn delete(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    body: Body<Reason>,
) -> Result<StatusCode, Problem> {
    done(service.delete_job(&who, parse_id(&id)?, &read(body)?.why).await)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn correct(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body<Correction>,
) -> Result<Response, Problem> {
    let key = idempotency_key(&headers)?;
    let mailing = done(service.correct(&who, parse_id(&id)?, key, &read(body)?.text).await)?;
    created(&service, &who, mailing).await
}

async fn send_again(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path((id, number)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body<SecondCopy>,
) -> Result<Response, Problem> {
    let (key, SecondCopy { why, may_duplicate }) = (idempotency_key(&headers)?, read(body)?);
    let mailing = done(service.send_again(&who, parse_id(&id)?, parse_id(&number)?, key, &why, may_duplicate).await)?;
    created(&service, &who, mailing).await
}

/// 201 with the job of the mailing; a repetition answers the same.
async fn created(service: &Service, who: &app::model::Viewer, id: JobId) -> Result<Response, Problem> {
    let job = service.show_job(who, id).await?;
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/api/v1/jobs/{id}"))], Json(job)).into_response())
}

async fn decide(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path((job, number)): Path<(String, String)>,
    body: Body<Decision>,
) -> Result<Json<EffectView>, Problem> {
    let Decision { accepted, seen } = read(body)?;
    done(service.settle_effect(&who, parse_id(&job)?, parse_id(&number)?, accepted, &seen).await)?;
    Ok(Json(Pages::effect(&service, &who, job, number).await?))
}
