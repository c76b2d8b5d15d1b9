//! The effect history: everything that the outside could see, with its proof.

use crate::{
    contract::{EffectKind, Outcome},
    error::AppError,
    model::{EffectRow, EffectsView},
    pages::query,
    ui::{Framed, Here, StateMark, Time, page},
};
use leptos::prelude::*;
use leptos_meta::Title;

/// The effects with an outcome, of a kind, older than `before`.
#[server(prefix = "/api", endpoint = "pages/effects")]
async fn load_effects(
    #[server(default)] outcome: String,
    #[server(default)] kind: String,
    #[server(default)] before: String,
) -> Result<Framed<EffectsView>, AppError> {
    super::answer::ask_framed(async move |pages, viewer| pages.effects(&viewer, outcome, kind, before).await).await
}

/// The word for an outcome in the filter.
fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NotStarted => "Not started",
        Outcome::InFlight => "In flight",
        Outcome::InDoubt => "In doubt",
        Outcome::Done => "Done",
        Outcome::NotDone => "Not done",
        Outcome::Unconfirmed => "Unconfirmed",
    }
}

/// The word for a kind in the filter.
fn kind_word(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::ModelCall => "Model calls",
        EffectKind::Report => "Saved reports",
        EffectKind::Email => "E-mails",
    }
}

/// The page.
#[component]
pub fn Effects() -> impl IntoView {
    let (outcome, kind, before) = (query("outcome"), query("kind"), query("before"));
    let asked = move || (outcome.get(), kind.get(), before.get());
    let data = Resource::new(asked, |(outcome, kind, before)| load_effects(outcome, kind, before));
    page(Here::Effects, data, |effects| view! { <History effects /> })
}

/// The filters, the open effects and the others.
#[component]
fn History(effects: EffectsView) -> impl IntoView {
    let EffectsView { open, rows, older_path, outcome, kind } = effects;
    let filtered = !outcome.is_empty() || !kind.is_empty();
    let outcomes = Outcome::ALL
        .iter()
        .map(|one| view! { <option value=one.name() selected=one.name() == outcome>{outcome_word(*one)}</option> })
        .collect_view();
    let kinds = EffectKind::ALL
        .iter()
        .map(|one| view! { <option value=one.name() selected=one.name() == kind>{kind_word(*one)}</option> })
        .collect_view();
    view! {
        <Title text="Effects" />
        <div class="flow wide">
            <div class="heading">
                <h1>"Effects"</h1>
                <p class="soft">"Everything that the outside could see, with its proof. Open ones first."</p>
            </div>
            <form class="row filter" method="get" action="/admin/effects" role="search" aria-label="Filter">
                <label for="outcome">"Outcome"</label>
                <select id="outcome" name="outcome">
                    <option value="" selected=outcome.is_empty()>
                        "Any outcome"
                    </option>
                    {outcomes}
                </select>
                <label for="kind">"Kind"</label>
                <select id="kind" name="kind">
                    <option value="" selected=kind.is_empty()>
                        "Any kind"
                    </option>
                    {kinds}
                </select>
                <button class="button" type="submit">
                    "Show"
                </button>
                {filtered
                    .then(|| {
                        view! {
                            <a class="button quiet" href="/admin/effects">
                                "Show all"
                            </a>
                        }
                    })}
            </form>
            {(!open.is_empty())
                .then(|| {
                    view! {
                        <section class="flow" aria-labelledby="open">
                            <h2 id="open">{format!("Open ({})", open.len())}</h2>
                            <Ledger rows=open />
                        </section>
                    }
                })}
            <section class="flow" aria-labelledby="others">
                <h2 id="others">{if filtered { "Found" } else { "Settled" }}</h2>
                {if rows.is_empty() {
                    view! { <p class="empty">"Nothing to show."</p> }.into_any()
                } else {
                    view! { <Ledger rows /> }.into_any()
                }}
            </section>
            {older_path
                .map(|path| {
                    view! {
                        <p>
                            <a class="button" href=path>
                                "Older effects"
                            </a>
                        </p>
                    }
                })}
        </div>
    }
}

/// Rows of effects.
#[component]
fn Ledger(rows: Vec<EffectRow>) -> impl IntoView {
    let row = |row: EffectRow| {
        view! {
            <tr>
                <td class="when">
                    <Time at=row.at />
                </td>
                <td class="what">{row.what}</td>
                <td>
                    <span class="state">
                        <StateMark mark=row.mark />
                        <span>{row.outcome_text}</span>
                    </span>
                </td>
                <td class="proof">
                    {row.evidence.map(|text| view! { <p>{text}</p> })}
                    {row
                        .message_id
                        .map(|id| {
                            view! {
                                <p>
                                    <code title="Message-ID">{id}</code>
                                </p>
                            }
                        })}
                </td>
                <td>
                    <a href=row.job_path>{row.job_title}</a>
                    <span class="soft owner">{row.owner}</span>
                </td>
            </tr>
        }
    };
    view! {
        <table class="ledger effects">
            <thead>
                <tr>
                    <th scope="col">"When"</th>
                    <th scope="col">"What"</th>
                    <th scope="col">"Outcome"</th>
                    <th scope="col">"Evidence"</th>
                    <th scope="col">"Job"</th>
                </tr>
            </thead>
            <tbody>{rows.into_iter().map(row).collect_view()}</tbody>
        </table>
    }
}
