//! The form that sends a message a second time, on the job's page and on the effect's.

use crate::{
    model::{MAX_REASON, SecondCopyOffer},
    ui::{Act, FoldedAct},
};
use leptos::prelude::*;

/// The form, folded; `action` is where it goes. Where the first message may have been accepted, the warning has to be acknowledged.
#[component]
pub fn SendAgain(action: String, offer: SecondCopyOffer) -> impl IntoView {
    let SecondCopyOffer { number, request_key, to, may_duplicate } = offer;
    let first = if may_duplicate { "The first one may have been accepted, or not." } else { "The first one was not accepted." };
    let says = format!("{first} The same message goes out once more, byte for byte, as a job of its own with its own Cancel.");
    let act = Act {
        title: format!("Send again to {to}"),
        action,
        id: format!("again-{number}"),
        name: "why",
        label: "Why is it sent again?",
        longest: MAX_REASON,
        consent: may_duplicate.then(|| format!("I know that {to} may get this message twice.")),
        buttons: vec![("", "Send again")],
        ..Act::default()
    };
    view! { <FoldedAct act says key=request_key /> }
}
