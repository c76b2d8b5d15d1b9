//! The rows of a list that follows the record: one that has not changed stays where it is in the page, with the focus that may be
//! in it. One component for all such lists keeps the script small.

use leptos::prelude::*;
use std::sync::Arc;

/// A row, known by everything that it shows.
#[derive(Clone)]
pub struct Row {
    key: String,
    view: Arc<dyn Fn() -> AnyView + Send + Sync>,
}

impl Row {
    /// A row that is made anew when its key is another one.
    pub fn new(key: String, view: impl Fn() -> AnyView + Send + Sync + 'static) -> Self {
        Self { key, view: Arc::new(view) }
    }
}

/// The rows.
#[component]
pub fn Rows(rows: Signal<Vec<Row>>) -> AnyView {
    view! { <For each=move || rows.get() key=|row| row.key.clone() children=|row: Row| (row.view)() /> }.into_any()
}
