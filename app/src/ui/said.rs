//! What became of the form that led to this page, from the page's own address.

use super::{Notice, Tone};
use crate::model::Said;
use leptos::prelude::*;

/// The sentence with this name; nothing for a name that is none.
#[component]
pub fn SaidNotice(name: String) -> impl IntoView {
    Said::from_name(&name).map(|said| {
        view! {
            <Notice tone=if said.is_refusal() { Tone::Bad } else { Tone::Good }>
                <p>{said.sentence()}</p>
            </Notice>
        }
    })
}
