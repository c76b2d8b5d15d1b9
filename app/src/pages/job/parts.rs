//! The parts of a job's page. Each watches only what it shows.

use super::{
    hold::Hold,
    live::{Live, Press},
    waiting::{AccountNow, GoOn, Since, Unconfirmed, Waiting},
};
use crate::{
    model::{CoverageLine, EffectLine, HistoryLine, JobView, StepView},
    ui::{Notice, StateMark, Time, Tone},
};
use contract::{Outcome, Phase, StepState};
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
    /// The form that led here was a Cancel that changed nothing.
    late: bool,
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
                <UnderWay live />
                <Cancel live />
                <TooLate live late />
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

/// How far the running step is. While nothing of it is done, the bar says only that it goes on.
#[component]
fn Progress(step: StepView) -> impl IntoView {
    view! {
        <div class="progress">
            <progress max=step.total value=(step.done > 0).then_some(step.done) aria-label=step.title></progress>
            <span class="soft">{step.detail}</span>
        </div>
    }
}

/// What is under way at the outside and for how long, so that a long call can be seen to go on.
#[component]
fn UnderWay(live: Live) -> impl IntoView {
    let open = live.part(|job| job.under_way.clone());
    move || {
        open.get().map(|open| {
            view! { <Since words=format!("{}: {}, since ", open.what, open.outcome_text) at=open.since seconds=open.seconds /> }
        })
    }
}

/// What can still be done about a report that a Cancel came too late for: below, in "Afterwards".
#[component]
fn TooLate(live: Live, late: bool) -> impl IntoView {
    let came_too_late = live.part(|job| job.phase == Phase::Finished && job.cancel.is_some());
    let ended = live.part(|job| job.phase.is_final());
    let may_correct = live.part(|job| job.afterwards.correction.is_some());
    let may_withdraw = live.part(|job| job.afterwards.may_withdraw);
    let changed_nothing = move || late || matches!(live.press(), Press::Answered(_));
    let asked = move || came_too_late.get() || (ended.get() && changed_nothing());
    // The address of the field opens what it is folded in; the router would only scroll.
    let link = |to: &'static str, words: &'static str| {
        view! {
            <a class="button" href=to rel="external">
                {words}
            </a>
        }
    };
    move || {
        (asked() && (may_correct.get() || may_withdraw.get())).then(|| {
            view! {
                <p class="row">
                    {may_correct.get().then(|| link("#correction", "Send a correction"))}
                    {may_withdraw.get().then(|| link("#withdrawal", "Withdraw the report"))}
                </p>
            }
        })
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
        <div role="status">
            {move || {
                said()
                    .map(|text| {
                        view! {
                            <Notice tone=Tone::Note>
                                <p class="said">{text}</p>
                            </Notice>
                        }
                    })
            }}
        </div>
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

/// What the outside could see, with its proof; and apart from it what has not begun, which may still come or never will.
#[component]
pub fn Effects(live: Live) -> impl IntoView {
    let begun = live.part(|job| effects(job, true));
    let others = live.part(|job| effects(job, false));
    let goes_on = live.part(|job| job.phase.lets_start());
    let title = move || if goes_on.get() { "What is planned" } else { "What will not happen" };
    view! {
        <section class="flow" aria-labelledby="outside">
            <h2 id="outside">"What has happened outside"</h2>
            {move || {
                let lines = begun.get();
                if lines.is_empty() {
                    let nothing = if goes_on.get() { "Nothing yet." } else { "Nothing." };
                    view! { <p class="empty">{nothing}</p> }.into_any()
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
        {move || {
            let lines = others.get();
            (!lines.is_empty())
                .then(|| {
                    view! {
                        <section class="flow" aria-labelledby="not-begun">
                            <h2 id="not-begun">{title}</h2>
                            <ul class="lines not-begun">{lines.into_iter().map(|line| view! { <NotBegun line /> }).collect_view()}</ul>
                        </section>
                    }
                })
        }}
    }
}

/// The effects that have begun, or those that have not.
fn effects(job: &JobView, begun: bool) -> Vec<EffectLine> {
    job.effects.iter().filter(|effect| (effect.outcome != Outcome::NotStarted) == begun).cloned().collect()
}

/// An effect that has not begun.
#[component]
fn NotBegun(line: EffectLine) -> impl IntoView {
    view! {
        <li class="line">
            <span>{line.what}</span>
            <span class="state soft">
                <StateMark mark=line.mark />
                <span>{line.outcome_text}</span>
            </span>
        </li>
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
