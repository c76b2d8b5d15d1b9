//! Every route and every layer, in one place.

use super::{
    AppState, afterwards, assets, assistant, effects, events, jobs,
    page::in_words,
    people, rendering,
    security::{Https, csrf, security_headers},
    session::{session, within_scopes},
};
use crate::{api, mcp};
use app::{App, model::Viewer, ports::Pages, shell};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, request::Parts},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use leptos::{nonce::Nonce, prelude::provide_context, prelude::use_context};
use leptos_axum::{LeptosRoutes, generate_route_list};
use std::{sync::Arc, time::Duration};
use store::waiting_at_most;
use tower_http::{catch_panic::CatchPanicLayer, compression::CompressionLayer, trace::TraceLayer};

/// The largest body of a request that no route allows more for, in bytes.
const MAX_BODY: usize = 1 << 20;

/// The application. `public_url` is where people reach it.
pub fn router(state: AppState, public_url: &str) -> anyhow::Result<Router> {
    let context = {
        let service = state.service.clone();
        move || {
            provide_context::<Arc<dyn Pages>>(Arc::new(service.clone()));
            let Some(parts) = use_context::<Parts>() else { return };
            provide_context(parts.extensions.get::<Option<Viewer>>().cloned().flatten());
            if let Some(nonce) = parts.extensions.get::<Nonce>() {
                provide_context(nonce.clone());
            }
        }
    };
    let rendered = {
        let options = state.leptos.clone();
        move || shell(options.clone())
    };
    let https = Https(public_url.starts_with("https://"));
    let pages = Router::new()
        .leptos_routes_with_context(&state, generate_route_list(App), context.clone(), rendered.clone())
        .fallback(leptos_axum::render_app_async_with_context(context, rendered))
        .layer(from_fn(rendering::rendered));
    let app = Router::new()
        .merge(jobs::routes())
        .merge(afterwards::routes())
        .merge(effects::routes())
        .merge(events::routes())
        .merge(api::routes())
        .merge(assistant::routes())
        .merge(people::routes().with_state(state.people.clone()))
        .merge(pages)
        // From the inside out: what a token may do, who asks, whether their own page sent it, problems in words, then what every answer carries.
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn(within_scopes))
        .layer(from_fn_with_state(state.people.clone(), session))
        .layer(csrf(origin(public_url))?)
        .layer(from_fn(in_words))
        .merge(assets::routes())
        .merge(mcp::http::routes(&state, public_url))
        .layer(from_fn(answered_in_time))
        .route("/healthz", get(StatusCode::NO_CONTENT))
        .route("/readyz", get(ready))
        .layer(from_fn_with_state(https, security_headers))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::new())
        // What fails is logged with its cause where it happens.
        .layer(TraceLayer::new_for_http().on_failure(()))
        .with_state(state);
    Ok(app)
}

/// How long a request may wait for others to have written: the pages give a Cancel up after five seconds.
const TO_WRITE: Duration = Duration::from_secs(3);

/// Whoever asks is told in time that the database is too busy.
async fn answered_in_time(request: Request, next: Next) -> Response {
    waiting_at_most(TO_WRITE, next.run(request)).await
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    &url[..end]
}

/// Whether the server can do its work: changes can be committed. `/healthz` tells that the process lives, whatever the database
/// does.
async fn ready(State(service): State<crate::service::Service>) -> impl IntoResponse {
    match service.store().is_ready().await {
        Ok(()) => (StatusCode::OK, "ready"),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    }
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn the_origin_of_an_address_has_no_path() {
        assert_eq!(origin("https://recount.example.org"), "https://recount.example.org");
        assert_eq!(origin("http://127.0.0.1:3000/a/b"), "http://127.0.0.1:3000");
    }
}
