//! An instant, for people and for machines.

use crate::model::Moment;
use leptos::prelude::*;

/// The instant in the viewer's time zone, as the server wrote it.
#[component]
pub fn Time(at: Moment) -> impl IntoView {
    view! { <time datetime=at.iso>{at.text}</time> }
}
