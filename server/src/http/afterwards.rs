//! The forms about a job that has ended, whose end nobody will wait for, or that waits for a person in a restored copy. Plain HTML forms like those of [`super::jobs`]:
//! each ends in a redirect, which carries the name of a sentence where nothing was done.

use super::{AppState, problem::Problem, session::SignedIn};
use crate::service::{Done, Service, parse_id};
use app::model::{Said, effect_path};
use axum::{
    Form, Router,
    extract::{Path, State, rejection::FormRejection},
    response::Redirect,
    routing::post,
};
use domain::id::{JobId, RequestKey};
use serde::Deserialize;

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/jobs/{id}/accounting", post(account_now))
        .route("/jobs/{id}/resumption", post(go_on))
        .route("/jobs/{id}/withdrawal", post(withdraw))
        .route("/jobs/{id}/deletion", post(delete))
        .route("/jobs/{id}/corrections", post(correct))
        .route("/jobs/{id}/emails/{number}/second-copies", post(send_again))
        .route("/admin/effects/{job}/{number}/decision", post(decide))
}

/// A form with one text.
#[derive(Debug, Deserialize)]
struct Reason {
    #[serde(default)]
    why: String,
}

#[derive(Debug, Deserialize)]
struct Correction {
    key: String,
    #[serde(default)]
    text: String,
}

#[derive(Debug, Deserialize)]
struct SecondCopy {
    key: String,
    #[serde(default)]
    why: String,
    /// The box is ticked; browsers leave one out that is not.
    #[serde(default)]
    sure: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Decision {
    /// Which of the two buttons was pressed.
    outcome: DecidedOutcome,
    #[serde(default)]
    seen: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DecidedOutcome {
    Accepted,
    NotAccepted,
}

type Sent<T> = Result<Form<T>, FormRejection>;

/// Back to a page, with a sentence where there is something to say.
pub(super) fn back(path: &str, said: Option<Said>) -> Redirect {
    Redirect::to(&said.map_or_else(|| path.to_owned(), |said| format!("{path}?said={}", said.name())))
}

pub(super) fn answer(done: Done<()>, path: &str) -> Result<Redirect, Problem> {
    Ok(back(path, done?.err()))
}

/// To the job of the mailing that was ordered, or back to the one that it would have been about.
fn mailed(done: Done<JobId>, about: JobId) -> Result<Redirect, Problem> {
    Ok(match done? {
        Ok(mailing) => back(&job_path(mailing), None),
        Err(said) => back(&job_path(about), Some(said)),
    })
}

pub(super) fn job_path(id: JobId) -> String {
    format!("/jobs/{id}")
}

async fn account_now(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    form: Sent<Reason>,
) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    answer(service.account_now(&who, id, &form?.0.why).await, &job_path(id))
}

async fn go_on(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    form: Sent<Reason>,
) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    answer(service.go_on(&who, id, &form?.0.why).await, &job_path(id))
}

async fn withdraw(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    form: Sent<Reason>,
) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    answer(service.withdraw_report(&who, id, &form?.0.why).await, &job_path(id))
}

async fn delete(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    form: Sent<Reason>,
) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    Ok(match service.delete_job(&who, id, &form?.0.why).await? {
        Ok(()) => back("/jobs", Some(Said::Deleted)),
        Err(said) => back(&job_path(id), Some(said)),
    })
}

async fn correct(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
    form: Sent<Correction>,
) -> Result<Redirect, Problem> {
    let (id, Form(form)) = (parse_id::<JobId>(&id)?, form?);
    mailed(service.correct(&who, id, key(&form.key)?, &form.text).await, id)
}

async fn send_again(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path((id, number)): Path<(String, String)>,
    form: Sent<SecondCopy>,
) -> Result<Redirect, Problem> {
    let (id, Form(form)) = (parse_id::<JobId>(&id)?, form?);
    let number = parse_id(&number)?;
    mailed(service.send_again(&who, id, number, key(&form.key)?, &form.why, form.sure.is_some()).await, id)
}

async fn decide(
    State(service): State<Service>,
    SignedIn(who): SignedIn,
    Path((job, number)): Path<(String, String)>,
    form: Sent<Decision>,
) -> Result<Redirect, Problem> {
    let (id, number, Form(form)) = (parse_id::<JobId>(&job)?, parse_id::<u32>(&number)?, form?);
    let accepted = form.outcome == DecidedOutcome::Accepted;
    answer(service.settle_effect(&who, id, number, accepted, &form.seen).await, &effect_path(&job, number))
}

fn key(text: &str) -> Result<RequestKey, Problem> {
    text.parse().map_err(|_| Problem::bad_request("The form could not be read. Reload the page and try again."))
}
