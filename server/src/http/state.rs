//! What handlers are given. Each takes the part that it needs.

use super::PeopleState;
use crate::desk::Desk;
use axum::extract::FromRef;
use leptos::config::LeptosOptions;
use tokio_util::sync::CancellationToken;

/// The state of the web server.
#[derive(Clone)]
pub struct AppState {
    pub desk: Desk,
    pub people: PeopleState,
    /// Fires when the server stops, so that streams end.
    pub shutdown: CancellationToken,
    pub leptos: LeptosOptions,
}

impl AppState {
    /// The state; the options for Leptos are fixed, so that the binary needs no environment.
    pub fn new(desk: Desk, people: PeopleState, shutdown: CancellationToken) -> Self {
        let leptos = LeptosOptions::builder().output_name("app").site_pkg_dir("pkg").build();
        Self { desk, people, shutdown, leptos }
    }
}

macro_rules! part {
    ($field:ident: $type:ty) => {
        impl FromRef<AppState> for $type {
            fn from_ref(state: &AppState) -> Self {
                state.$field.clone()
            }
        }
    };
}

part!(desk: Desk);
part!(people: PeopleState);
part!(shutdown: CancellationToken);
part!(leptos: LeptosOptions);
