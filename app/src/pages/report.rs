//! The saved report, set as a document.

use crate::{
    error::AppError,
    model::ReportView,
    pages::param,
    ui::{Facts, Framed, Here, Time, load, page},
};
use leptos::prelude::*;
use leptos_meta::Title;

/// One report.
#[server(prefix = "/api", endpoint = "pages/report")]
async fn load_report(id: String) -> Result<Framed<ReportView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.report(&viewer, id).await).await
}

/// The page.
#[component]
pub fn Report() -> impl IntoView {
    let id = param("id");
    let data = load(move || id.get(), load_report);
    page(Here::Jobs, data, |report| view! { <Sheet report /> })
}

/// The text and what is known about it.
#[component]
fn Sheet(report: ReportView) -> impl IntoView {
    let ReportView { title, interval, created, html, markdown_path, job_path, facts, .. } = report;
    view! {
        <Title text=title.clone() />
        <div class="with-aside">
            <div class="flow wide">
                <header class="heading">
                    <nav class="crumbs" aria-label="Breadcrumb">
                        <a href="/jobs">"Jobs"</a>
                        {job_path.clone().map(|path| view! { <a href=path>"This job"</a> })}
                        <span aria-current="page">"Report"</span>
                    </nav>
                    <h1>{title}</h1>
                    <p class="soft">{interval} ", saved " <Time at=created /></p>
                </header>
                <article class="prose" inner_html=html></article>
            </div>
            <aside class="flow" aria-label="About this report">
                <h2>"This report"</h2>
                <Facts facts />
                <ul class="links">
                    {job_path
                        .map(|path| {
                            view! {
                                <li>
                                    <a href=path>"How it was made"</a>
                                </li>
                            }
                        })}
                    <li>
                        <a href=markdown_path download="" rel="external">
                            "Download as Markdown"
                        </a>
                    </li>
                </ul>
                <p class="soft">"To keep it on paper or as PDF, print this page."</p>
            </aside>
        </div>
    }
}
