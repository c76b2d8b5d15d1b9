//! How a job and the mailings about it belong together, and a report that was taken back.

use super::live::Live;
use crate::{
    model::{AboutView, MailingLine, WithdrawnView},
    ui::{Cell, Ledger, Notice, Time, Tone},
};
use leptos::prelude::*;

/// That the report was taken back.
#[component]
pub fn Withdrawn(live: Live) -> impl IntoView {
    let withdrawn = live.part(|job| job.withdrawn.clone());
    view! {
        {move || {
            withdrawn
                .get()
                .map(|WithdrawnView { at, by, why }| {
                    view! {
                        <Notice tone=Tone::Note>
                            <p>
                                <b>"The report is withdrawn"</b> ", on " <Time at /> " by " {by} "."
                            </p>
                            <p class="words">{why}</p>
                            <p class="soft">"Its link says this instead of showing the report."</p>
                        </Notice>
                    }
                })
        }}
    }
}

/// For a mailing: what it says of its own.
#[component]
pub fn Text(about: AboutView) -> impl IntoView {
    about.text.map(|text| {
        view! {
            <section class="flow" aria-labelledby="says">
                <h2 id="says">"What the correction says"</h2>
                <blockquote class="message">{text}</blockquote>
            </section>
        }
    })
}

/// Corrections and second copies, each a job of its own.
#[component]
pub fn Mailings(live: Live) -> impl IntoView {
    let lines = live.part(|job| job.mailings.clone());
    let row = |MailingLine { what, path, mark, headline, created }| {
        vec![Cell::When(created), Cell::Link { path, text: what }, Cell::State(mark, headline)]
    };
    view! {
        {move || {
            let lines = lines.get();
            (!lines.is_empty())
                .then(|| {
                    view! {
                        <section class="flow" aria-labelledby="mailings">
                            <h2 id="mailings">"Mailings about this report"</h2>
                            <Ledger heads=&["Asked for", "What", "What became of it"] rows=lines.into_iter().map(row).collect() />
                        </section>
                    }
                })
        }}
    }
}
