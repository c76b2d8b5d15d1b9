//! What handlers are given. Each takes the part that it needs.

use super::PeopleState;
use crate::service::Service;
use axum::extract::FromRef;
use leptos::config::LeptosOptions;
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

/// The state of the web server.
#[derive(Clone)]
pub struct AppState {
    pub service: Service,
    pub people: PeopleState,
    /// Fires when the server stops, so that streams end.
    pub shutdown: CancellationToken,
    pub leptos: LeptosOptions,
    /// Where it listens, if that is known.
    pub listens: Option<SocketAddr>,
}

impl AppState {
    /// The state; the options for Leptos are fixed, so that the binary needs no environment.
    pub fn new(service: Service, people: PeopleState, shutdown: CancellationToken) -> Self {
        let leptos = LeptosOptions::builder().output_name("app").site_pkg_dir("pkg").build();
        Self { service, people, shutdown, leptos, listens: None }
    }

    /// The same for a server that listens there.
    #[must_use]
    pub fn listening_on(self, address: SocketAddr) -> Self {
        Self { listens: Some(address), ..self }
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

part!(service: Service);
part!(people: PeopleState);
part!(shutdown: CancellationToken);
part!(leptos: LeptosOptions);
