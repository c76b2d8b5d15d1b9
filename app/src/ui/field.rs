//! A field of a form: label, control, hint and mistakes, tied together for assistive technology.

use leptos::prelude::*;

/// The surroundings of the control with this id.
///
/// The control names `{id}-hint {id}-error` in `aria-describedby`; both always exist, and an empty one says nothing.
#[component]
pub fn Field(
    id: &'static str,
    label: &'static str,
    #[prop(into, optional)] hint: Signal<String>,
    #[prop(into, optional)] errors: Signal<Vec<String>>,
    children: Children,
) -> impl IntoView {
    view! {
        <div class="field">
            <label for=id>{label}</label>
            {children()}
            <p class="hint" id=format!("{id}-hint")>
                {move || hint.get()}
            </p>
            <div class="mistakes" id=format!("{id}-error")>
                {move || errors.get().into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
            </div>
        </div>
    }
}
