//! What the server and the browser both know: the view models and the pages. The states and their words are in `contract`.
//!
//! No SQL and no network in here. The server renders these pages and the browser wakes them up, so a view may depend on its
//! data only: never on a clock, on chance or on the browser's language.

// The types of views nest as deep as the pages do.
#![recursion_limit = "256"]

pub mod address;
pub mod error;
mod live;
pub mod model;
mod pages;
#[cfg(feature = "ssr")]
pub mod ports;
mod ui;

#[cfg(feature = "ssr")]
pub use ui::account_masthead;

use leptos::prelude::*;
use leptos_meta::{MetaTags, Title, provide_meta_context};
use leptos_router::{
    SsrMode,
    components::{Route, Router, Routes},
    path,
};

/// The document around every page.
pub fn shell(options: LeptosOptions) -> impl IntoView {
    view! {
        <!DOCTYPE html>
        <html lang="en">
            <head>
                <meta charset="utf-8" />
                <meta name="viewport" content="width=device-width, initial-scale=1" />
                <meta name="color-scheme" content="light dark" />
                <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
                <link rel="stylesheet" href="/pkg/app.css" />
                <HydrationScripts options defer=true />
                <MetaTags />
            </head>
            <body>
                <App />
            </body>
        </html>
    }
}

/// Every page and its address.
///
/// All of them render in one piece ([`SsrMode::Async`]): status, title and redirects are right, and nothing needs a script.
#[component]
pub fn App() -> impl IntoView {
    provide_meta_context();
    live::provide_news();
    ui::provide_frame();

    view! {
        <Title formatter=|page: String| ui::tab_title(&page) />
        <Router>
            <a class="skip" href="#content">
                "Skip to the content"
            </a>
            <Routes fallback=pages::NotFound>
                <Route path=path!("/") view=pages::NewReport ssr=SsrMode::Async />
                <Route path=path!("/sign-in") view=pages::SignIn ssr=SsrMode::Async />
                <Route path=path!("/jobs") view=pages::Jobs ssr=SsrMode::Async />
                <Route path=path!("/jobs/:id") view=pages::Job ssr=SsrMode::Async />
                <Route path=path!("/reports/:id") view=pages::Report ssr=SsrMode::Async />
                <Route path=path!("/reports/:id/documents/:number") view=pages::Document ssr=SsrMode::Async />
                <Route path=path!("/admin/effects") view=pages::Effects ssr=SsrMode::Async />
                <Route path=path!("/admin/effects/:job/:number") view=pages::OneEffect ssr=SsrMode::Async />
                <Route path=path!("/account") view=pages::Account ssr=SsrMode::Async />
            </Routes>
        </Router>
    }
}

/// Wakes the rendered page up; the loader in the document's head calls it.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    console_error_panic_hook::set_once();
    hydrate_body(App);
}
