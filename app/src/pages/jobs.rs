//! The list of jobs.

use crate::{
    error::AppError,
    live::{AsOf, News},
    model::{JobRow, JobsView, Said},
    pages::query,
    ui::{Framed, Here, Row, Rows, SaidNotice, StateMark, Time, load, page},
};
use contract::Phase;
use leptos::prelude::*;
use leptos_meta::Title;

/// The jobs in a state, older than `before`.
#[server(prefix = "/api", endpoint = "pages/jobs")]
async fn load_jobs(#[server(default)] state: String, #[server(default)] before: String) -> Result<Framed<JobsView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.jobs(&viewer, state, before).await).await
}

/// The word for a phase in the filter.
fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Queued => "Waiting to start",
        Phase::Running => "Running",
        Phase::Stopping => "Stopping",
        Phase::Cancelled => "Cancelled",
        Phase::Finished => "Finished",
        Phase::Failed => "Failed",
    }
}

/// The page.
#[component]
pub fn Jobs() -> impl IntoView {
    let (state, before, said) = (query("state"), query("before"), query("said"));
    let asked = move || (state.get_untracked(), before.get_untracked());
    let data = load(move || (state.get(), before.get()), |(state, before)| load_jobs(state, before));
    page(Here::Jobs, data, move |jobs| {
        let (state, before) = asked();
        view! { <List jobs state before said=Said::from_name(&said.get_untracked()) /> }
    })
}

/// The filter and the rows, which follow the record.
#[component]
fn List(jobs: JobsView, state: String, before: String, said: Option<Said>) -> impl IntoView {
    let of_everyone = jobs.of_everyone;
    let list = RwSignal::new(jobs);
    let asked = StoredValue::new((state.clone(), before));
    expect_context::<News>().follow_jobs(list, move || async move {
        let (state, before) = asked.try_get_value().unwrap_or_default();
        Ok(load_jobs(state, before).await?.content)
    });
    let none = Memo::new(move |_| list.with(|list| list.jobs.is_empty()));
    let older_path = Memo::new(move |_| list.with(|list| list.older_path.clone()));
    let as_of = Signal::derive(move || list.with(|list| list.as_of.clone()));
    let rows = Signal::derive(move || list.with(|list| list.jobs.iter().map(row).collect()));
    let filtered = !state.is_empty();
    let nothing = if filtered { "No job is in this state." } else { "There are no jobs." };
    let options = Phase::ALL
        .iter()
        .map(|phase| view! { <option value=phase.name() selected=phase.name() == state>{word(*phase)}</option> })
        .collect_view();
    view! {
        <Title text="Jobs" />
        <div class="flow wide">
            <div class="heading">
                <h1>"Jobs"</h1>
                <p class="soft">
                    {if of_everyone { "Everybody's reports, newest first. " } else { "Your reports, newest first. " }}
                    <AsOf at=as_of />
                </p>
            </div>
            <SaidNotice said />
            <form class="row filter" method="get" action="/jobs" role="search" aria-label="Filter">
                <label for="state">"State"</label>
                <select id="state" name="state">
                    <option value="" selected=!filtered>
                        "Any state"
                    </option>
                    {options}
                </select>
                <button class="button" type="submit">
                    "Show"
                </button>
            </form>
            {move || if none.get() {
                view! {
                    <p class="empty">
                        {nothing} " "
                        <a href=if filtered { "/jobs" } else { "/" }>
                            {if filtered { "Show all jobs" } else { "Make a report" }}
                        </a>
                    </p>
                }
                    .into_any()
            } else {
                view! {
                    <table class="ledger jobs">
                        <caption class="unseen">"Jobs, newest first"</caption>
                        <thead>
                            <tr>
                                <th scope="col">"Report"</th>
                                <th scope="col">"What became of it"</th>
                                <th scope="col">"Asked for"</th>
                                <th scope="col">
                                    <span class="unseen">"What you can do"</span>
                                </th>
                            </tr>
                        </thead>
                        <tbody>
                            <Rows rows />
                        </tbody>
                    </table>
                }
                    .into_any()
            }}
            {move || older_path.get()
                .map(|path| {
                    view! {
                        <p>
                            <a class="button" href=path>
                                "Older jobs"
                            </a>
                        </p>
                    }
                })}
        </div>
    }
}

/// One job, known by its version.
fn row(job: &JobRow) -> Row {
    let key = format!("{} {}", job.id, job.version);
    let job = job.clone();
    Row::new(key, move || cells(job.clone()))
}

fn cells(job: JobRow) -> AnyView {
    let path = format!("/jobs/{}", job.id);
    let cancel_label = format!("Cancel {}", job.title);
    view! {
        <tr>
            <th scope="row">
                <a href=path.clone()>{job.title}</a>
            </th>
            <td>
                <span class="state">
                    <StateMark mark=job.mark />
                    <span>{job.headline}</span>
                </span>
                {job.set_aside.then(|| view! { <span class="soft owner">"waits for a person"</span> })}
            </td>
            <td class="when">
                <Time at=job.created />
                {job.owner.map(|owner| view! { <span class="soft owner">{owner}</span> })}
            </td>
            <td class="acts">
                {job.report_path.map(|path| view! { <a href=path>"Read"</a> })}
                {job
                    .may_cancel
                    .then(|| {
                        view! {
                            <form method="post" action=format!("{path}/cancellation")>
                                <button class="button small stop" type="submit" aria-label=cancel_label>
                                    "Cancel"
                                </button>
                            </form>
                        }
                    })}
            </td>
        </tr>
    }
    .into_any()
}
