//! One job: what is known about it, live, and the Cancel.
//!
//! The page is a view of the server's record. Updates change the record in one signal and each part watches only what it
//! shows, so focus and open sections stay where they are.

mod about;
mod afterwards;
mod hold;
mod live;
mod parts;
mod waiting;

use crate::{
    error::AppError,
    model::{CancelAnswerView, JobView, Said},
    pages::{param, query},
    ui::{Facts, Framed, Here, Notice, SaidNotice, Time, Tone, load, page},
};
use leptos::prelude::*;
use leptos_meta::Title;
use live::Live;
use std::time::Duration;

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
    let (id, said, reload) = (param("id"), query("said"), query("reload"));
    let data = load(move || id.get(), load_job);
    page(Here::Jobs, data, move |job| {
        view! { <Record job said=Said::from_name(&said.get_untracked()) paused=reload.get_untracked() == "off" /> }
    })
}

/// Calls `tick` every second, for as long as the part of the page stands that asks for it.
fn ticking(tick: impl Fn() + Copy + 'static) {
    Effect::new(move |_| {
        if let Ok(timer) = set_interval_with_handle(tick, Duration::from_secs(1)) {
            on_cleanup(move || timer.clear());
        }
    });
}

/// Reloads the page for as long as a script does not do better.
const RELOAD: &str = r#"<meta http-equiv="refresh" content="2">"#;

/// The record in its parts.
#[component]
fn Record(
    job: JobView,
    /// About the form that led here.
    said: Option<Said>,
    /// The page does not reload itself: somebody is writing.
    paused: bool,
) -> impl IntoView {
    // A job never changes its title. The server writes the head last, when the page's signals are gone: no signal may go there.
    let title = job.title.clone();
    let about = job.about.clone();
    let live = Live::new(job);
    live.follow();
    // Nothing of it changes by itself, and somebody may be writing.
    let rests = live.part(|job| job.phase.is_final() || job.set_aside.is_some());
    let facts = live.part(|job| job.facts.clone());
    let again = live.part(|job| job.again_path.clone());
    let crumb = match about.clone() {
        None => view! { <span aria-current="page">"This job"</span> }.into_any(),
        Some(about) => view! {
            <a href=about.path>{about.title}</a>
            <span aria-current="page">"This mailing"</span>
        }
        .into_any(),
    };
    view! {
        <Title text=title.clone() />
        {move || (!paused && !rests.get()).then(|| view! { <noscript inner_html=RELOAD></noscript> })}
        <div class="with-aside">
            <div class="flow wide">
                <header class="heading">
                    <nav class="crumbs" aria-label="Breadcrumb">
                        <a href="/jobs">"Jobs"</a>
                        {crumb}
                    </nav>
                    <h1>{title}</h1>
                </header>
                <SaidNotice said />
                <Connection live />
                <about::Withdrawn live />
                <parts::Verdict live paused late=said.is_some_and(Said::is_about_a_cancel) />
                {about.clone().map(|about| view! { <about::Text about /> })}
                <parts::Steps live />
                <parts::Effects live />
                <about::Mailings live />
                <afterwards::Afterwards live />
                <parts::Coverage live />
                <parts::History live />
            </div>
            <aside class="flow" aria-label="About this job">
                <h2>"This job"</h2>
                <Facts facts />
                {match about {
                    None => {
                        view! {
                            <p>
                                <a class="button" href=again.get_untracked()>
                                    "Start again with another month"
                                </a>
                            </p>
                        }
                            .into_any()
                    }
                    Some(about) => {
                        view! {
                            <p>
                                <a class="button" href=about.path>
                                    "Go to the report's job"
                                </a>
                            </p>
                        }
                            .into_any()
                    }
                }}
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
