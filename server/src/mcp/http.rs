//! The server at `/mcp`: Streamable HTTP without sessions.
//!
//! A request says who asks by a bearer token and by nothing else: no cookie, which another site's page could make a browser
//! send, and nothing in the address, which proxies write down. Host and Origin are checked all the same (DNS rebinding). Without
//! sessions a closed response stream takes its request back, which is the only way to do so in revision 2026-07-28; an event store
//! would undo that, so there is none.

use super::{Principal, Recount, generate::Ends};
use crate::http::{
    AppState,
    problem::Problem,
    session::{bearer, of_token},
};
use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use http::{HeaderValue, Uri, header::CACHE_CONTROL, uri::Scheme};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use std::sync::Arc;
use store::Store;
use tokio_util::sync::CancellationToken;

/// The largest request, in bytes.
const MAX_BODY: usize = 1 << 20;
/// The names of this machine.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Pages of this machine, such as an inspector's.
const LOCAL_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The route. `public_url` is where people reach the server.
pub fn routes(state: &AppState, public_url: &str) -> Router<AppState> {
    let ends = Ends { left: CancellationToken::new(), shutdown: state.shutdown.clone() };
    let handler = Recount::of_requests(state.service.clone(), ends);
    let listens = state.listens.map(|address| address.ip().to_string());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_cancellation_token(state.shutdown.clone())
        .with_max_request_body_bytes(MAX_BODY)
        .with_allowed_hosts(hosts(public_url).into_iter().chain(listens))
        .enforce_origin_validation()
        .with_allowed_origins(origins(public_url));
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new().route_service("/mcp", service).layer(from_fn_with_state(state.service.store().clone(), identified))
}

/// The hosts that a request may be for.
fn hosts(public_url: &str) -> Vec<String> {
    let public = public_url.parse::<Uri>().ok().and_then(|url| url.host().map(str::to_owned));
    LOOPBACK.map(str::to_owned).into_iter().chain(public).collect()
}

/// The pages that a request may come from. Each with its port: without one, any would do.
fn origins(public_url: &str) -> Vec<String> {
    let own = public_url.parse::<Uri>().ok().and_then(|url| {
        let scheme = url.scheme()?;
        let port = url.port_u16().unwrap_or(if *scheme == Scheme::HTTPS { 443 } else { 80 });
        Some(format!("{scheme}://{}:{port}", url.host()?))
    });
    LOCAL_ORIGINS.map(str::to_owned).into_iter().chain(own).collect()
}

/// Puts the [`Principal`] into the request's extensions.
async fn identified(State(store): State<Store>, mut request: Request, next: Next) -> Result<Response, Problem> {
    let token = bearer(request.headers()).ok_or_else(|| {
        Problem::sign_in_required("Send a token as \"Authorization: Bearer rct_…\". Make one on your account's page.")
    })?;
    let (viewer, scopes) = of_token(&store, &token).await?;
    request.extensions_mut().insert(Principal::new(viewer, scopes));
    let mut response = next.run(request).await;
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_address_and_this_machine_are_let_in() {
        assert_eq!(hosts("https://recount.example.org/"), ["localhost", "127.0.0.1", "::1", "recount.example.org"]);
        assert_eq!(origins("https://recount.example.org").last().unwrap(), "https://recount.example.org:443");
        assert_eq!(origins("http://10.0.0.7:3000/recount").last().unwrap(), "http://10.0.0.7:3000");
    }
}
