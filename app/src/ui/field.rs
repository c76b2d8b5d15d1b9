//! A field of a form: label, control, hint and mistakes, tied together for assistive technology.

use leptos::prelude::*;

/// The surroundings of the control with this id.
///
/// The control names `{id}-hint {id}-error` in `aria-describedby`; both always exist, and an empty one says nothing.
#[component]
pub fn Field(
    #[prop(into)] id: String,
    #[prop(into)] label: String,
    #[prop(into, optional)] hint: Signal<String>,
    #[prop(into, optional)] errors: Signal<Vec<String>>,
    children: Children,
) -> impl IntoView {
    let (hint_id, error_id) = (format!("{id}-hint"), format!("{id}-error"));
    view! {
        <div class="field">
            <label for=id>{label}</label>
            {children()}
            <p class="hint" id=hint_id>
                {move || hint.get()}
            </p>
            <div class="mistakes" id=error_id>
                {move || errors.get().into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
            </div>
        </div>
    }
}
