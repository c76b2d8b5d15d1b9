//! One document of a report with the passage that the report cites.

use crate::{
    error::AppError,
    model::DocumentView,
    pages::{param, query},
    ui::{Facts, Framed, Here, load, page},
};
use leptos::{html, prelude::*};
use leptos_meta::Title;

/// One document; `start` and `end` are byte offsets of the passage.
#[server(prefix = "/api", endpoint = "pages/document")]
async fn load_document(
    #[server(default)] report: String,
    number: u32,
    start: usize,
    end: usize,
) -> Result<Framed<DocumentView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.document(&viewer, report, number, start, end).await).await
}

/// The page. An offset that is no number means that no passage is asked for.
#[component]
pub fn Document() -> impl IntoView {
    let (report, number) = (param("id"), param("number"));
    let (from, to) = (query("from"), query("to"));
    let asked = move || {
        (
            report.get(),
            number.get().parse().unwrap_or_default(),
            from.get().parse().unwrap_or_default(),
            to.get().parse().unwrap_or_default(),
        )
    };
    let data = load(asked, |(report, number, start, end)| load_document(report, number, start, end));
    page(Here::Jobs, data, |document| view! { <Text document /> })
}

/// The text.
#[component]
fn Text(document: DocumentView) -> impl IntoView {
    let DocumentView { report_title, report_path, number, name, facts, before, passage, after } = document;
    let cited = !passage.is_empty();
    let mark = NodeRef::<html::Mark>::new();
    // A page that was reached without a full load has no passage yet when the browser looks for the address's fragment.
    Effect::new(move |_| {
        if let Some(element) = mark.get() {
            element.scroll_into_view();
        }
    });
    view! {
        <Title text=format!("{name}, document {number}") />
        <div class="with-aside">
            <div class="flow wide">
                <header class="heading">
                    <nav class="crumbs" aria-label="Breadcrumb">
                        <a href="/jobs">"Jobs"</a>
                        <a href=report_path.clone()>{report_title}</a>
                        <span aria-current="page">{format!("Document {number}")}</span>
                    </nav>
                    <h1>{name}</h1>
                    {cited
                        .then(|| {
                            view! {
                                <p>
                                    <a href="#passage" rel="external">
                                        "Go to the cited passage"
                                    </a>
                                </p>
                            }
                        })}
                </header>
                <div class="document">
                    {before} {cited.then(|| view! { <mark id="passage" node_ref=mark>{passage}</mark> })} {after}
                </div>
            </div>
            <aside class="flow" aria-label="About this document">
                <h2>"This document"</h2>
                <Facts facts />
                <p>
                    <a href=report_path>"Back to the report"</a>
                </p>
            </aside>
        </div>
    }
}
