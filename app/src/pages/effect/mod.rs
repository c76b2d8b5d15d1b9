//! One effect: what was intended, every attempt with its answer, everything that was recorded about it, and what a person may
//! do about it.

mod unconfirmed;

use crate::{
    error::AppError,
    model::{AttemptLine, EffectView, HistoryLine, Moment, Said},
    pages::{param, query, send_again::SendAgain},
    ui::{Facts, Framed, Here, SaidNotice, StateMark, Time, load, page},
};
use contract::{EffectKind, Outcome};
use leptos::prelude::*;
use leptos_meta::Title;
use unconfirmed::{Decisions, Probes, Settle};

/// The effect with this number of a job.
#[server(prefix = "/api", endpoint = "pages/effect")]
async fn load_effect(job: String, number: String) -> Result<Framed<EffectView>, AppError> {
    crate::pages::answer::ask_framed(async move |pages, viewer| pages.effect(&viewer, job, number).await).await
}

/// The page.
#[component]
pub fn OneEffect() -> impl IntoView {
    let (job, number, said) = (param("job"), param("number"), query("said"));
    let data = load(move || (job.get(), number.get()), |(job, number)| load_effect(job, number));
    page(Here::Effects, data, move |effect| view! { <Account effect said=Said::from_name(&said.get_untracked()) /> })
}

/// The effect and its proof.
#[component]
fn Account(effect: EffectView, said: Option<Said>) -> impl IntoView {
    let EffectView { row, meaning, warning, facts, attempts, history, siblings_path, probes, plan, decisions, second_copy } =
        effect;
    let unsettled = (row.kind == EffectKind::Email && row.outcome == Outcome::Unconfirmed).then(|| row.clone());
    let job = row.job.clone();
    view! {
        <Title text=row.what.clone() />
        <div class="with-aside">
            <div class="flow wide">
                <header class="heading">
                    <nav class="crumbs" aria-label="Breadcrumb">
                        <a href="/admin/effects">"Effects"</a>
                        <a href=siblings_path.clone()>{row.job_title.clone()}</a>
                        <span aria-current="page">"This effect"</span>
                    </nav>
                    <h1>{row.what}</h1>
                </header>
                <SaidNotice said />
                <section class=format!("verdict {}", row.mark.class()) aria-labelledby="outcome">
                    <StateMark mark=row.mark />
                    <div class="flow tight">
                        <h2 id="outcome">{row.outcome_text}</h2>
                        {row.evidence.map(|text| view! { <p class="words">{text}</p> })}
                        <p class="soft">"Since " <Time at=row.at /></p>
                    </div>
                </section>
                {unsettled.map(|row| view! { <Settle row meaning warning /> })}
                {second_copy.map(|offer| view! { <SendAgain action=offer.action(&job) offer /> })}
                <Probes probes plan />
                <Decisions decisions />
                <Attempts attempts />
                <Recorded history />
            </div>
            <aside class="flow" aria-label="About this effect">
                <h2>"This effect"</h2>
                <Facts facts />
                <ul class="links">
                    {row
                        .job_path
                        .map(|path| {
                            view! {
                                <li>
                                    <a href=path>"Its job"</a>
                                </li>
                            }
                        })}
                    <li>
                        <a href=siblings_path>"All effects of its job"</a>
                    </li>
                </ul>
            </aside>
        </div>
    }
}

/// Every attempt, with the answer word for word.
#[component]
fn Attempts(attempts: Vec<AttemptLine>) -> impl IntoView {
    let time = |word: &'static str, at: Moment| {
        view! {
            <p>
                {word} " " <Time at />
            </p>
        }
    };
    let row = move |attempt: AttemptLine| {
        view! {
            <tr>
                <th scope="row">{format!("Attempt {}", attempt.number)}</th>
                <td class="when">
                    {time("Begun", attempt.began)} {attempt.in_doubt.map(|at| time("In doubt", at))}
                    {attempt.ended.map(|at| time("Ended", at))} {attempt.settled.map(|at| time("Settled", at))}
                </td>
                <td>
                    <span class="state">
                        <StateMark mark=attempt.mark />
                        <span>{attempt.outcome_text}</span>
                    </span>
                </td>
                <td class="proof">
                    {attempt.reply.map(|text| view! { <code class="words">{text}</code> })}
                    {attempt.settled_by.map(|text| view! { <p class="words">{text}</p> })}
                </td>
            </tr>
        }
    };
    view! {
        <section class="flow" aria-labelledby="attempts">
            <h2 id="attempts">"Attempts"</h2>
            {if attempts.is_empty() {
                view! { <p class="empty">"It was intended and never begun."</p> }.into_any()
            } else {
                view! {
                    <table class="ledger">
                        <thead>
                            <tr>
                                <th scope="col">"Attempt"</th>
                                <th scope="col">"When"</th>
                                <th scope="col">"Outcome"</th>
                                <th scope="col">"Answer, word for word"</th>
                            </tr>
                        </thead>
                        <tbody>{attempts.into_iter().map(row).collect_view()}</tbody>
                    </table>
                }
                    .into_any()
            }}
        </section>
    }
}

/// What was recorded and decided.
#[component]
fn Recorded(history: Vec<HistoryLine>) -> impl IntoView {
    let item = |line: HistoryLine| {
        view! {
            <li>
                <Time at=line.at />
                <span>{line.text}</span>
            </li>
        }
    };
    (!history.is_empty()).then(|| {
        view! {
            <section class="flow" aria-labelledby="recorded">
                <h2 id="recorded">"What was recorded and decided"</h2>
                <ol class="history">{history.into_iter().map(item).collect_view()}</ol>
            </section>
        }
    })
}
