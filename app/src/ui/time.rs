//! An instant, for people and for machines.

use crate::model::Moment;
use leptos::prelude::*;

/// The instant in the viewer's time zone, as the server wrote it.
#[component]
pub fn Time(at: Moment) -> impl IntoView {
    view! { <time datetime=at.iso>{at.text}</time> }
}

/// The instant without its day, where that is also the day of `now`.
#[component]
pub fn TimeOfDay(at: Moment, now: Moment) -> impl IntoView {
    let text = match (at.text.split_once(", "), now.text.split_once(", ")) {
        (Some((day, time)), Some((today, _))) if day == today => time.to_owned(),
        _ => at.text,
    };
    view! { <time datetime=at.iso>{text}</time> }
}
