//! A stopping job: since when it is waited for, and the way for administrators not to wait any longer. A job of a restored
//! copy, which waits for a person. And an e-mail that nobody can tell about once it has ended.

use super::{live::Live, ticking};
use crate::{
    model::{MAX_REASON, Moment},
    ui::{Act, ActForm, FoldedAct, Time},
};
use contract::Outcome;
use leptos::prelude::*;

/// Without a script the page reloads itself, which would take away what somebody is writing.
const PAUSE: &str =
    r#"<p class="soft">This page reloads itself. <a href="?reload=off#account-now">Stop the reloading</a> before you write.</p>"#;

/// Since when a stopping job waits.
#[component]
pub fn Waiting(live: Live) -> impl IntoView {
    let since = live.part(|job| {
        let (at, seconds) = job.waiting_since.as_ref().zip(job.waiting_seconds)?;
        Some((Moment { iso: at.iso.clone(), text: at.beside(&job.as_of).to_owned() }, seconds))
    });
    move || since.get().map(|(at, seconds)| view! { <Since words="Waiting since " at seconds /> })
}

/// Words, the time, and how long ago that is. It starts from what the server has counted, so that the browser's clock need not be
/// right.
#[component]
pub(super) fn Since(#[prop(into)] words: String, at: Moment, seconds: u32) -> impl IntoView {
    let waited = RwSignal::new(seconds);
    ticking(move || {
        let _ = waited.try_update(|seconds| *seconds = seconds.saturating_add(1));
    });
    let long = move || match waited.get() {
        seconds @ ..60 => format!(", for {seconds} s."),
        seconds => format!(", for {} min {} s.", seconds / 60, seconds % 60),
    };
    view! { <p class="soft">{words} <Time at /> {long}</p> }
}

/// Not waiting for the worker any longer, where that is offered.
#[component]
pub fn AccountNow(
    live: Live,
    /// The page does not reload itself: somebody is writing.
    paused: bool,
) -> impl IntoView {
    let offered = live.part(|job| job.account_now.is_some());
    let says = live.part(|job| {
        let consequence = job.account_now.as_ref().map(|offer| offer.consequence.clone()).unwrap_or_default();
        format!("The worker is waited for no longer, and the job ends with what is known now. {consequence}")
    });
    let act = move || Act {
        title: "Account for it now".into(),
        action: live.path("/accounting"),
        id: "accounting".into(),
        name: "why",
        label: "Why is it not waited for?",
        longest: MAX_REASON,
        buttons: vec![("", "Account for it now")],
        stop: true,
        ..Act::default()
    };
    move || {
        offered.get().then(|| {
            view! {
                <details class="fold" id="account-now" open=paused>
                    <summary>"Account for it now"</summary>
                    {(!paused).then(|| view! { <noscript inner_html=PAUSE></noscript> })}
                    <ActForm act=act() says />
                </details>
            }
        })
    }
}

/// The decision that a job of a restored copy waits for.
#[component]
pub fn GoOn(live: Live) -> impl IntoView {
    let offered = live.part(|job| job.set_aside.is_some());
    let says = "Recount goes on where this copy stands, and e-mails what it has no record of. Go on only if you know that this has not happened already.";
    let act = move || Act {
        title: "Go on".into(),
        action: live.path("/resumption"),
        id: "resumption".into(),
        name: "why",
        label: "How do you know?",
        longest: MAX_REASON,
        buttons: vec![("", "Go on")],
        ..Act::default()
    };
    move || offered.get().then(|| view! { <FoldedAct act=act() says /> })
}

/// Who can say what became of an unconfirmed e-mail, and where.
#[component]
pub fn Unconfirmed(live: Live) -> impl IntoView {
    let open = live.part(|job| {
        let ended = job.phase.is_final();
        let unconfirmed = job.effects.iter().filter(|effect| ended && effect.outcome == Outcome::Unconfirmed);
        unconfirmed.map(|effect| (effect.what.clone(), effect.path.clone())).collect::<Vec<_>>()
    });
    let hint = |(what, path): (String, Option<String>)| {
        if let Some(path) = path {
            let words = format!("What became of it: {what}");
            view! {
                <p>
                    <a href=path>{words}</a>
                </p>
            }
            .into_any()
        } else {
            let words = format!("{what}: an administrator can look into it and say what became of it.");
            view! { <p class="soft">{words}</p> }.into_any()
        }
    };
    move || open.get().into_iter().map(hint).collect_view()
}
