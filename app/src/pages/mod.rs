//! One module per page: its component and the server functions behind it, which do nothing but ask a port.

mod account;
#[cfg(feature = "ssr")]
pub(crate) mod answer;
mod document;
mod effect;
mod effects;
mod job;
mod jobs;
mod new_report;
mod not_found;
mod report;
mod send_again;
mod sign_in;

pub use account::Account;
pub use document::Document;
pub use effect::OneEffect;
pub use effects::Effects;
pub use job::Job;
pub use jobs::Jobs;
pub use new_report::NewReport;
pub use not_found::NotFound;
pub use report::Report;
pub use sign_in::SignIn;

use leptos::prelude::*;
use leptos_router::hooks::{use_params_map, use_query_map};

/// A part of the address's path; empty where the route has none of this name.
fn param(name: &'static str) -> Memo<String> {
    let params = use_params_map();
    Memo::new(move |_| params.with(|all| all.get(name)).unwrap_or_default())
}

/// A value of the address's query; empty where there is none.
fn query(name: &'static str) -> Memo<String> {
    let values = use_query_map();
    Memo::new(move |_| values.with(|all| all.get(name)).unwrap_or_default())
}
