//! Pages that never come. Once in some hundred pages, when many are rendered at the same time, the renderer (Leptos 0.8) waits
//! for data that has long arrived, and the browser for the page. Reading a page changes nothing, so that it is simply rendered
//! again; what was stuck is dropped.

use super::problem::Problem;
use axum::{
    body::Body,
    extract::Request,
    http::Method,
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::time::Duration;
use tokio::time::timeout;

/// How long rendering may take. A database that is in trouble says so sooner.
const LONG_ENOUGH: Duration = Duration::from_secs(8);
const TRIES: usize = 3;

/// Renders a page again where it does not come.
pub async fn rendered(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let (parts, _) = request.into_parts();
    for _ in 0..TRIES {
        let request = Request::from_parts(parts.clone(), Body::empty());
        if let Ok(response) = timeout(LONG_ENOUGH, next.clone().run(request)).await {
            return response;
        }
        tracing::warn!(path = parts.uri.path(), "a page was not rendered in time");
    }
    Problem::unavailable("The page could not be made in time. Try again in a moment.").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, middleware::from_fn, routing::get};
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };
    use tower::ServiceExt;

    /// A page that comes at this try, and how often it was asked for.
    async fn tried(comes_at: usize, method: Method) -> (Option<u16>, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let page = move || async move {
            if counted.fetch_add(1, SeqCst) + 1 < comes_at {
                std::future::pending::<()>().await;
            }
            "page"
        };
        let app = Router::new().route("/", get(page.clone()).post(page)).layer(from_fn(rendered));
        let request = Request::builder().method(method).uri("/").body(Body::empty()).expect("a request");
        let answer = timeout(LONG_ENOUGH * 10, app.oneshot(request)).await.ok();
        (answer.map(|answer| answer.expect("an answer").status().as_u16()), asked.load(SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_does_not_come_is_rendered_again() {
        assert_eq!(tried(1, Method::GET).await, (Some(200), 1));
        assert_eq!(tried(3, Method::GET).await, (Some(200), 3));
        assert_eq!(tried(4, Method::GET).await, (Some(503), 3));
    }

    /// What a form sends may have happened.
    #[tokio::test(start_paused = true)]
    async fn what_is_sent_is_never_repeated() {
        assert_eq!(tried(2, Method::POST).await, (None, 1));
    }
}
