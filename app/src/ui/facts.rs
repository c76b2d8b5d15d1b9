//! Terms and what they are for the thing on the page.

use crate::model::Fact;
use leptos::prelude::*;

/// A description list.
#[component]
pub fn Facts(#[prop(into)] facts: Signal<Vec<Fact>>) -> impl IntoView {
    view! {
        <dl class="facts">
            {move || {
                facts
                    .get()
                    .into_iter()
                    .map(|fact| {
                        view! {
                            <div>
                                <dt>{fact.term}</dt>
                                <dd>{fact.text}</dd>
                            </div>
                        }
                    })
                    .collect_view()
            }}
        </dl>
    }
}
