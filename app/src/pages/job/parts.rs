//! The parts of a job's page. Each watches only what it shows.

use super::{
    hold::Hold,
    live::{Live, Press},
    waiting::{AccountNow, GoOn, Unconfirmed, Waiting},
};
use crate::{
    contract::{Phase, StepState},
    model::{CoverageLine, EffectLine, HistoryLine, JobView, StepView},
    ui::{StateMark, Time},
};
use leptos::{ev::SubmitEvent, html, prelude::*};

/// Up to this many documents are shown without being asked for.
const SHOWN_DOCUMENTS: usize = 8;

/// The running step with its numbers, where they are known; a job that is being stopped makes no progress.
fn progress(job: &JobView) -> Option<StepView> {
    if job.phase == Phase::Stopping {
        return None;
    }
    job.steps.iter().find(|step| step.state == StepState::Running && step.total > 0).cloned()
}

/// What the job has come to, what it waits for, and Cancel.
#[component]
pub fn Verdict(
    live: Live,
    /// The page does not reload itself: somebody is writing.
    paused: bool,
) -> impl IntoView {
    let mark = live.part(|job| job.mark);
    let headline = live.part(|job| job.headline.clone());
    let reason = live.part(|job| job.reason.clone());
    let waiting = live.part(|job| job.waiting_for.clone());
    let progress = live.part(progress);
    let report = live.part(|job| job.report_path.clone());
    let ended = live.part(|job| job.phase.is_final());
    let weight = move || if ended.get() { "button primary" } else { "button" };
    view! {
        <section class=move || format!("verdict {}", mark.get().class()) aria-labelledby="headline">
            <StateMark mark />
            <div class="flow tight">
                <div class="flow tight" aria-live="polite">
                    <h2 id="headline" tabindex="-1">
                        {move || headline.get()}
                    </h2>
                    {move || reason.get().map(|text| view! { <p>{text}</p> })}
                    {move || waiting.get().map(|text| view! { <p>{text}</p> })}
                </div>
                <Waiting live />
                <Unconfirmed live />
                <Hold live />
                <GoOn live />
                {move || progress.get().map(|step| view! { <Progress step /> })}
                <Cancel live />
                {move || {
                    report
                        .get()
                        .map(|path| {
                            view! {
                                <p class="row">
                                    <a class=weight href=path>
                                        "Read the report"
                                    </a>
                                </p>
                            }
                        })
                }}
                <AccountNow live paused />
            </div>
        </section>
    }
}

/// How far the running step is.
#[component]
fn Progress(step: StepView) -> impl IntoView {
    view! {
        <div class="progress">
            <progress max=step.total value=step.done aria-label=step.title></progress>
            <span class="soft">{format!("{} of {}", step.done, step.total)}</span>
        </div>
    }
}

/// The Cancel with what it can still do, and who has pressed it.
///
/// Without a script it is a plain form. With one, the page says what has become of the request even when no answer comes.
#[component]
fn Cancel(live: Live) -> impl IntoView {
    let possible = live.part(|job| job.if_cancelled_now.is_some());
    let consequence = live.part(|job| job.if_cancelled_now.clone());
    let record = live.part(|job| job.cancel.clone());
    let action = live.part(|job| format!("/jobs/{}/cancellation", job.id));
    let button = NodeRef::<html::Button>::new();
    let press = move |event: SubmitEvent| {
        event.prevent_default();
        live.cancel();
    };
    let word = move || if matches!(live.press(), Press::Sent | Press::Checking) { "Cancelling…" } else { "Cancel" };
    let busy = move || matches!(live.press(), Press::Sent | Press::Checking).then_some("true");
    let said = move || match live.press() {
        Press::No | Press::Sent => None,
        Press::Checking => Some("Cancel not confirmed, checking…".to_owned()),
        Press::Answered(text) => Some(text),
    };
    // The button goes when the cancel is accepted; who pressed it should not lose their place with it.
    Effect::new(move |before: Option<bool>| {
        let now = possible.get();
        if before == Some(true)
            && !now
            && live.was_pressed()
            && let Some(headline) = document().get_element_by_id("headline")
            && let Ok(headline) = wasm_bindgen::JsCast::dyn_into::<web_sys::HtmlElement>(headline)
        {
            // A headline that cannot take the focus leaves it where the browser put it.
            let _ = headline.focus();
        }
        now
    });
    view! {
        {move || {
            possible
                .get()
                .then(|| {
                    view! {
                        <form class="row cancel" method="post" action=action.get_untracked() on:submit=press>
                            <button
                                class="button stop"
                                type="submit"
                                node_ref=button
                                aria-disabled=busy
                                aria-describedby="if-cancelled"
                            >
                                {word}
                            </button>
                            <p class="soft" id="if-cancelled">
                                {move || consequence.get()}
                            </p>
                        </form>
                    }
                })
        }}
        <div role="status">{move || said().map(|text| view! { <p class="said">{text}</p> })}</div>
        {move || {
            record
                .get()
                .map(|cancel| {
                    view! {
                        <p class="soft">"Cancel was pressed at " <Time at=cancel.at /> " by " {cancel.by} "."</p>
                    }
                })
        }}
    }
}

/// The four steps.
#[component]
pub fn Steps(live: Live) -> impl IntoView {
    let steps = live.part(|job| job.steps.clone());
    let item = |step: StepView| {
        let current = (step.state == StepState::Running).then_some("step");
        view! {
            <li class=step.state.name() aria-current=current>
                <StateMark mark=step.mark />
                <b>{step.title}</b>
                <span class="soft">{step.detail}</span>
                {step.took.map(|took| view! { <span class="soft took">{took}</span> })}
            </li>
        }
    };
    view! {
        <ol class="steps" aria-label="Steps">
            {move || steps.get().into_iter().map(item).collect_view()}
        </ol>
    }
}

/// What the outside could see, with its proof.
#[component]
pub fn Effects(live: Live) -> impl IntoView {
    let effects = live.part(|job| job.effects.clone());
    view! {
        <section class="flow" aria-labelledby="outside">
            <h2 id="outside">"What has happened outside"</h2>
            {move || {
                let lines = effects.get();
                if lines.is_empty() {
                    view! { <p class="empty">"Nothing yet, and nothing is planned."</p> }.into_any()
                } else {
                    view! {
                        <table class="ledger effects">
                            <thead>
                                <tr>
                                    <th scope="col">"When"</th>
                                    <th scope="col">"What"</th>
                                    <th scope="col">"Outcome"</th>
                                    <th scope="col">"Evidence"</th>
                                </tr>
                            </thead>
                            <tbody>{lines.into_iter().map(|line| view! { <Effect line /> }).collect_view()}</tbody>
                        </table>
                    }
                        .into_any()
                }
            }}
        </section>
    }
}

/// One effect.
#[component]
fn Effect(line: EffectLine) -> impl IntoView {
    let attempts = (line.attempts > 1).then(|| format!("{} attempts", line.attempts));
    view! {
        <tr>
            <td class="when">{line.at.map(|at| view! { <Time at /> })}</td>
            <td class="what">
                {match line.path {
                    Some(path) => view! { <a href=path>{line.what}</a> }.into_any(),
                    None => line.what.into_any(),
                }}
            </td>
            <td>
                <span class="state">
                    <StateMark mark=line.mark />
                    <span>{line.outcome_text}</span>
                </span>
            </td>
            <td class="proof">
                {line.evidence.map(|text| view! { <p>{text}</p> })} {attempts.map(|text| view! { <p class="soft">{text}</p> })}
                {line
                    .message_id
                    .map(|id| {
                        view! {
                            <p>
                                <code title="Message-ID">{id}</code>
                            </p>
                        }
                    })}
            </td>
        </tr>
    }
}

/// What became of each document. Nothing is left out of a report in silence.
#[component]
pub fn Coverage(live: Live) -> impl IntoView {
    let any = live.part(|job| !job.coverage.is_empty());
    let summary = live.part(|job| job.coverage_summary.clone());
    let lines = live.part(|job| job.coverage.clone());
    let row = |line: CoverageLine| {
        view! {
            <tr>
                <td class="number">{line.number.map(|number| number.to_string())}</td>
                <td class="what">{line.name} <span class="soft owner">{line.source}</span></td>
                <td>
                    <span class="state">
                        <StateMark mark=line.mark />
                        <span>{line.state}</span>
                    </span>
                    {line.reason.map(|text| view! { <p class="soft">{text}</p> })}
                </td>
                <td class="when">
                    {line.date} {line.dated_by.map(|by| view! { <span class="soft owner">"by " {by}</span> })}
                </td>
            </tr>
        }
    };
    view! {
        {move || {
            any.get()
                .then(|| {
                    let open = lines.with_untracked(Vec::len) <= SHOWN_DOCUMENTS;
                    view! {
                        <details class="fold" open=open>
                            <summary>
                                <h2>"Documents"</h2>
                                <span class="soft">{move || summary.get()}</span>
                            </summary>
                            <table class="ledger coverage">
                                <thead>
                                    <tr>
                                        <th scope="col">
                                            <abbr title="Number in the report">"No."</abbr>
                                        </th>
                                        <th scope="col">"Document"</th>
                                        <th scope="col">"What became of it"</th>
                                        <th scope="col">"Its date"</th>
                                    </tr>
                                </thead>
                                <tbody>{move || lines.get().into_iter().map(row).collect_view()}</tbody>
                            </table>
                        </details>
                    }
                })
        }}
    }
}

/// Everything that was committed, in order.
#[component]
pub fn History(live: Live) -> impl IntoView {
    let any = live.part(|job| !job.history.is_empty());
    let lines = live.part(|job| job.history.clone());
    let item = |line: HistoryLine| {
        view! {
            <li>
                <Time at=line.at />
                <span>{line.text}</span>
            </li>
        }
    };
    view! {
        {move || {
            any.get()
                .then(|| {
                    view! {
                        <details class="fold">
                            <summary>
                                <h2>"History"</h2>
                                <span class="soft">{move || format!("{} entries", lines.with(Vec::len))}</span>
                            </summary>
                            <ol class="history">{move || lines.get().into_iter().map(item).collect_view()}</ol>
                        </details>
                    }
                })
        }}
    }
}
