//! A held e-mail: when it goes out, what it says, and the button that lets it go now.

use super::{live::Live, ticking};
use crate::model::HoldView;
use leptos::prelude::*;

/// The hold, while there is one.
#[component]
pub fn Hold(live: Live) -> impl IntoView {
    let hold = live.part(|job| job.hold.clone());
    let action = live.part(|job| format!("/jobs/{}/approval", job.id));
    view! {
        {move || {
            hold.get()
                .map(|HoldView { seconds_left, subject, message, .. }| {
                    view! {
                        <div class="flow tight">
                            <Countdown seconds=seconds_left />
                            <form class="row" method="post" action=action.get_untracked()>
                                <button class="button" type="submit">
                                    "Send now"
                                </button>
                            </form>
                            <details class="fold">
                                <summary>"The message"</summary>
                                <p>
                                    <b>{subject}</b>
                                </p>
                                <pre class="message">{message}</pre>
                            </details>
                        </div>
                    }
                })
        }}
    }
}

/// The sentence about the time. It starts from what the server has counted, so that the browser's clock need not be right.
#[component]
fn Countdown(seconds: Option<u32>) -> impl IntoView {
    let left = RwSignal::new(seconds);
    ticking(move || {
        let _ = left.try_update(|left| *left = left.map(|seconds| seconds.saturating_sub(1)));
    });
    let sentence = move || match left.get() {
        None => "The e-mail waits for an approval.".to_owned(),
        Some(0) => "The e-mail goes out now.".to_owned(),
        Some(seconds) => format!("The e-mail goes out in {seconds} s."),
    };
    view! { <p class="countdown">{sentence}</p> }
}
