//! A state's shape and colour. The word always stands beside it, so assistive technology skips the shape.

use contract::Mark;
use leptos::prelude::*;

/// The shape.
#[component]
pub fn StateMark(#[prop(into)] mark: Signal<Mark>) -> impl IntoView {
    view! { <span class=move || format!("mark {}", mark.get().class()) aria-hidden="true"></span> }
}
