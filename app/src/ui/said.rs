//! What became of the form that led to this page, from the page's own address.

use super::{Notice, Tone};
use crate::model::Said;
use leptos::prelude::*;

/// The sentence, where there is one.
#[component]
pub fn SaidNotice(said: Option<Said>) -> impl IntoView {
    said.map(|said| {
        view! {
            <Notice tone=if said.is_refusal() { Tone::Bad } else { Tone::Good }>
                <p>{said.sentence()}</p>
            </Notice>
        }
    })
}
