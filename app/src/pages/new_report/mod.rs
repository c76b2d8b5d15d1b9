//! The form for a new report, with the recent ones beside it.
//!
//! It is a plain form that the server answers. A script adds what a person would otherwise have to press "Check" for: counts
//! when the month changes, the list of people when the recipients change, and the dates of files as soon as they are chosen.

mod fields;
mod form;

use crate::{
    error::AppError,
    live::{AsOf, News},
    model::{DocumentChoice, JobRow, JobsView, NewReportView, RecipientCheck},
    pages::query,
    ui::{Framed, Here, Row, Rows, StateMark, load, page},
};
use form::Request;
use leptos::prelude::*;
use leptos_meta::Title;
use serde::{Deserialize, Serialize};

/// The form and what stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Desk {
    form: NewReportView,
    recent: JobsView,
}

/// The form, filled in from a draft, from a job, or with sensible values.
#[server(prefix = "/api", endpoint = "pages/new-report")]
async fn load_desk(draft: Option<String>, from: Option<String>, month: Option<String>) -> Result<Framed<Desk>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| {
        let form = pages.new_report(&viewer, crate::model::NewReportQuery { draft, from, month }).await?;
        Ok(Desk { form, recent: pages.recent(&viewer).await? })
    })
    .await
}

/// The viewer's latest jobs alone, for an update.
#[server(prefix = "/api", endpoint = "pages/recent")]
async fn load_recent() -> Result<JobsView, AppError> {
    super::answer::ask(async move |pages, viewer| pages.recent(&viewer).await).await
}

/// The form again for another choice of documents.
#[server(prefix = "/api", endpoint = "new-report/recount")]
async fn recount(request_key: String, #[server(default)] choice: DocumentChoice) -> Result<NewReportView, AppError> {
    super::answer::ask(async move |pages, viewer| pages.recount(&viewer, request_key, choice).await).await
}

/// The people that the typed recipients are.
#[server(prefix = "/api", endpoint = "new-report/recipients")]
async fn check_recipients(#[server(default)] typed: String) -> Result<RecipientCheck, AppError> {
    super::answer::ask(async move |pages, viewer| pages.check_recipients(&viewer, typed).await).await
}

/// The page.
#[component]
pub fn NewReport() -> impl IntoView {
    let given = |name| {
        let value = query(name);
        move || Some(value.get()).filter(|text| !text.is_empty())
    };
    let (draft, from, month) = (given("draft"), given("from"), given("month"));
    let data = load(move || (draft(), from(), month()), |(draft, from, month)| load_desk(draft, from, month));
    page(Here::NewReport, data, |desk| {
        view! {
            <Title text="New report" />
            <div class="with-aside">
                <Request view=desk.form />
                <Recent jobs=desk.recent />
            </div>
        }
    })
}

/// The viewer's latest jobs, which follow the record.
#[component]
fn Recent(jobs: JobsView) -> impl IntoView {
    let list = RwSignal::new(jobs);
    expect_context::<News>().follow_jobs(list, load_recent);
    let none = Memo::new(move |_| list.with(|list| list.jobs.is_empty()));
    let as_of = Signal::derive(move || list.with(|list| list.as_of.clone()));
    let rows = Signal::derive(move || list.with(|list| list.jobs.iter().map(recent).collect()));
    view! {
        <aside class="flow" aria-labelledby="recent">
            <h2 id="recent">"Recent"</h2>
            {move || if none.get() {
                view! { <p class="empty">"Your reports will be listed here."</p> }.into_any()
            } else {
                view! {
                    <ul class="recent">
                        <Rows rows />
                    </ul>
                    <p>
                        <a href="/jobs">"All jobs"</a>
                        " "
                        <AsOf at=as_of />
                    </p>
                }
                    .into_any()
            }}
        </aside>
    }
}

/// One of them, known by its version.
fn recent(job: &JobRow) -> Row {
    let key = format!("{} {}", job.id, job.version);
    let job = job.clone();
    Row::new(key, move || {
        let JobRow { id, title, mark, headline, set_aside, .. } = job.clone();
        view! {
            <li>
                <a href=format!("/jobs/{id}")>{title}</a>
                <span class="state soft">
                    <StateMark mark />
                    <span>{headline}</span>
                    {set_aside.then(|| view! { <span>"(waits for a person)"</span> })}
                </span>
            </li>
        }
        .into_any()
    })
}
