//! The routes of accounts: signing in and out, the first admin, and what a person changes about their own account. Plain
//! forms that work without JavaScript: each answers with a redirect to a page that shows what came of it, or with a secret that is
//! shown only once.

use super::{account, sign_in};
use crate::service::first_admin::FirstAdmin;
use axum::{Router, extract::DefaultBodyLimit, routing::post};
use std::sync::Arc;
use store::Store;

/// No form here is longer.
pub(super) const MAX_FORM_BYTES: usize = 16 * 1024;

/// What the handlers need.
#[derive(Clone)]
pub struct PeopleState {
    pub store: Store,
    pub first_admin: Arc<FirstAdmin>,
    /// Whether the public address is https: decides the cookie's name and its `Secure`.
    pub secure: bool,
}

/// The routes; the [`session`](super::session::session) layer must lie around them.
pub fn routes() -> Router<PeopleState> {
    Router::new()
        .route("/sign-in", post(sign_in::sign_in))
        .route("/setup", post(sign_in::set_up))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/account/zone", post(account::set_zone))
        .route("/account/tokens", post(account::create_token))
        .route("/account/tokens/{id}/revocation", post(account::revoke_token))
        .route("/account/sessions/{id}/revocation", post(account::revoke_session))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
}
