//! One job: what is known about it, live, and the Cancel.
//!
//! The page is a view of the server's record. Updates change the record in one signal and each part watches only what it
//! shows, so focus and open sections stay where they are.

mod hold;
mod live;
mod parts;

use crate::{
    error::AppError,
    model::{CancelAnswerView, JobView},
    pages::param,
    ui::{Facts, Framed, Here, Notice, Time, Tone, page},
};
use leptos::prelude::*;
use leptos_meta::Title;
use live::Live;

/// One job with the page's frame.
#[server(prefix = "/api", endpoint = "pages/job")]
async fn load_job(id: String) -> Result<Framed<JobView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.job(&viewer, id).await).await
}

/// The record alone, for an update.
#[server(prefix = "/api", endpoint = "jobs/read")]
async fn read_job(id: String) -> Result<JobView, AppError> {
    super::answer::ask(async move |pages, viewer| pages.job(&viewer, id).await).await
}

/// Asks for the job's cancellation; a repetition changes nothing.
#[server(prefix = "/api", endpoint = "jobs/cancel")]
async fn cancel_job(id: String) -> Result<CancelAnswerView, AppError> {
    super::answer::ask(async move |pages, viewer| pages.cancel(&viewer, id).await).await
}

/// The page.
#[component]
pub fn Job() -> impl IntoView {
    let id = param("id");
    let data = Resource::new(move || id.get(), load_job);
    page(Here::Jobs, data, |job| view! { <Record job /> })
}

/// Reloads the page for as long as a script does not do better.
const RELOAD: &str = r#"<meta http-equiv="refresh" content="2">"#;

/// The record in its parts.
#[component]
fn Record(job: JobView) -> impl IntoView {
    // A job never changes its title. The server writes the head last, when the page's signals are gone: no signal may go there.
    let title = job.title.clone();
    let live = Live::new(job);
    live.follow();
    let ended = live.part(|job| job.phase.is_final());
    let facts = live.part(|job| job.facts.clone());
    let again = live.part(|job| job.again_path.clone());
    view! {
        <Title text=title.clone() />
        {move || (!ended.get()).then(|| view! { <noscript inner_html=RELOAD></noscript> })}
        <div class="with-aside">
            <div class="flow wide">
                <header class="heading">
                    <nav class="crumbs" aria-label="Breadcrumb">
                        <a href="/jobs">"Jobs"</a>
                        <span aria-current="page">"This job"</span>
                    </nav>
                    <h1>{title}</h1>
                </header>
                <Connection live />
                <parts::Verdict live />
                <parts::Steps live />
                <parts::Effects live />
                <parts::Coverage live />
                <parts::History live />
            </div>
            <aside class="flow" aria-label="About this job">
                <h2>"This job"</h2>
                <Facts facts />
                <p>
                    <a class="button" href=move || again.get()>
                        "Start again with another month"
                    </a>
                </p>
            </aside>
        </div>
    }
}

/// What the screen is worth while it hears nothing from the server.
#[component]
fn Connection(live: Live) -> impl IntoView {
    let as_of = live.part(|job| job.as_of.clone());
    view! {
        <div role="status">
            {move || {
                live.is_lost()
                    .then(|| {
                        view! {
                            <Notice tone=Tone::Note>
                                <p>"Connection lost, last known state at " <Time at=as_of.get() /></p>
                            </Notice>
                        }
                    })
            }}
        </div>
    }
}
