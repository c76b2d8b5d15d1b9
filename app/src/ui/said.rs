//! What became of the form that led to this page, from the page's own address.

use super::{Notice, Tone};
use crate::model::Said;
use leptos::prelude::*;

/// The sentence, where there is one.
#[component]
pub fn SaidNotice(said: Option<Said>) -> impl IntoView {
    said.map(|said| {
        let tone = match said {
            said if said.is_refusal() => Tone::Bad,
            said if said.is_about_a_cancel() => Tone::Note,
            _ => Tone::Good,
        };
        view! {
            <Notice tone>
                <p>{said.sentence()}</p>
            </Notice>
        }
    })
}
