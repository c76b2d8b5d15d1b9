//! An effect that nobody can tell about: what that means, where Recount has looked, and what people decided.

use crate::{
    model::{DecisionLine, EffectRow, MAX_REASON, ProbeLine, ProbePlan},
    ui::{Act, ActForm, Cell, Ledger, Time},
};
use leptos::prelude::*;

/// What is to be found out, and the form that settles it.
#[component]
pub fn Settle(
    row: EffectRow,
    /// What it means that it is unconfirmed.
    meaning: Option<String>,
    /// What to know before saying anything.
    warning: Option<String>,
) -> impl IntoView {
    let act = Act {
        title: "What became of it?".into(),
        action: format!("{}/decision", row.path),
        id: "seen".into(),
        name: "seen",
        label: "What did you see?",
        hint: "Where you looked, and what it says there.",
        longest: MAX_REASON,
        buttons: vec![("accepted", "It was accepted"), ("not_accepted", "It was not accepted")],
        ..Act::default()
    };
    view! {
        <section class="flow" aria-labelledby="settle">
            <h2 id="settle">"What became of it?"</h2>
            <div class="flow tight column">
                {meaning.map(|text| view! { <p>{text}</p> })}
                {warning
                    .map(|text| {
                        view! {
                            <p>
                                <strong>{text}</strong>
                            </p>
                        }
                    })}
                <p>
                    "To find out, search the mail server's log for the Message-ID"
                    {row
                        .message_id
                        .map(|id| {
                            view! {
                                " "
                                <code>{id}</code>
                            }
                        })} ". Finding nothing proves nothing unless the log covers the time of the attempt."
                </p>
            </div>
            <ActForm act says="Write down what you find. It is kept as the evidence, with your name." />
        </section>
    }
}

/// Where Recount has looked for the message, and how that goes on.
#[component]
pub fn Probes(probes: Vec<ProbeLine>, plan: Option<ProbePlan>) -> impl IntoView {
    let row = |ProbeLine { at, place, mark, result, evidence }| {
        vec![Cell::When(at), Cell::Text(place), Cell::State(mark, result), Cell::Words(evidence)]
    };
    let shown = plan.is_some() || !probes.is_empty();
    let none = probes.is_empty();
    shown.then(|| {
        view! {
            <section class="flow" aria-labelledby="looks">
                <h2 id="looks">"Where Recount has looked"</h2>
                {plan.map(|plan| view! { <Plan plan none /> })}
                {(!none)
                    .then(|| {
                        view! {
                            <Ledger
                                heads=&["When", "Where", "Result", "What was seen"]
                                rows=probes.into_iter().map(row).collect()
                            />
                        }
                    })}
            </section>
        }
    })
}

/// How the looks go on, or what has to be set up first.
#[component]
fn Plan(
    plan: ProbePlan,
    /// No look has been made yet.
    none: bool,
) -> impl IntoView {
    let ProbePlan { next, places } = plan;
    if places.is_empty() {
        return view! {
            <p class="empty">
                "Nowhere: no place to look at is set up. Give Recount an archive mailbox, a mailbox for bounces or the mail server's log, as docs/configuration.md describes."
            </p>
        }
            .into_any();
    }
    let places = places.join(", ");
    match next {
        Some(at) => {
            let beginning = if none { "First look: " } else { "Next look: " };
            view! { <p class="soft">{beginning} <Time at /> ", at " {places} ". Finding nothing settles nothing."</p> }.into_any()
        }
        None => {
            view! { <p class="soft">"No further look is planned at " {places} ". A person can still settle it."</p> }.into_any()
        }
    }
}

/// What people decided about it.
#[component]
pub fn Decisions(decisions: Vec<DecisionLine>) -> impl IntoView {
    let row = |DecisionLine { at, by, decision, reason }| {
        vec![Cell::When(at), Cell::Text(by), Cell::Text(decision), Cell::Words(Some(reason))]
    };
    (!decisions.is_empty()).then(|| {
        view! {
            <section class="flow" aria-labelledby="decisions">
                <h2 id="decisions">"What people decided"</h2>
                <Ledger
                    heads=&["When", "Who", "What", "Why, or what they saw"]
                    rows=decisions.into_iter().map(row).collect()
                />
            </section>
        }
    })
}
