//! A form that does one thing about what the page shows: what it does, the text that somebody has to write for it, the button.
//!
//! All such forms are one view with different words, which also keeps the script small.

use super::Field;
use leptos::prelude::*;

/// The words of such a form.
#[derive(Debug, Clone, Default)]
pub struct Act {
    /// What it does; it names the form, and stands on the line that it is folded behind.
    pub title: String,
    pub action: String,
    /// The id of the text field, unique on its page, and its name in the form.
    pub id: String,
    pub name: &'static str,
    pub label: &'static str,
    pub hint: &'static str,
    /// The longest text, in characters.
    pub longest: u32,
    /// What has to be acknowledged with a tick.
    pub consent: Option<String>,
    /// What the buttons say, each with the `outcome` that it stands for; a single button stands for none.
    pub buttons: Vec<(&'static str, &'static str)>,
    /// The buttons look like what takes something away.
    pub stop: bool,
}

/// The form. `says` and `key` may change without taking away what somebody is writing.
#[component]
pub fn ActForm(act: Act, #[prop(into)] says: Signal<String>, #[prop(into, optional)] key: Option<Signal<String>>) -> AnyView {
    let Act { title, action, id, name, label, hint, longest, consent, buttons, stop } = act;
    let class = if stop { "button stop" } else { "button" };
    let described_by = format!("{id}-hint {id}-error");
    let says_id = format!("{id}-says");
    let button = |(outcome, words): (&'static str, &'static str)| {
        let name = (!outcome.is_empty()).then_some("outcome");
        view! {
            <button class=class type="submit" name=name value=name.map(|_| outcome) aria-describedby=says_id.clone()>
                {words}
            </button>
        }
    };
    view! {
        <form class="flow tight act" method="post" action=action aria-label=title>
            {key.map(|key| view! { <input type="hidden" name="key" value=move || key.get() /> })}
            <p id=says_id.clone()>{move || says.get()}</p>
            <Field id=id.clone() label hint>
                <textarea id=id name=name rows="3" required=true maxlength=longest aria-describedby=described_by></textarea>
            </Field>
            {consent
                .map(|text| {
                    view! {
                        <label class="consent">
                            <input type="checkbox" name="sure" value="yes" required=true />
                            <span>{text}</span>
                        </label>
                    }
                })}
            <div class="row">{buttons.into_iter().map(button).collect_view()}</div>
        </form>
    }
    .into_any()
}

/// The form behind a line that says what it does.
#[component]
pub fn FoldedAct(act: Act, #[prop(into)] says: Signal<String>, #[prop(into, optional)] key: Option<Signal<String>>) -> AnyView {
    view! {
        <details class="fold">
            <summary>{act.title.clone()}</summary>
            {ActForm(ActFormProps { act, says, key })}
        </details>
    }
    .into_any()
}
