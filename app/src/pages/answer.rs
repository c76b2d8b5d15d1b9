//! How every server function asks: for the signed-in person, through the port, with the right status on the way back.

use crate::{
    address::with_query,
    error::AppError,
    model::Viewer,
    ports::{self, Pages},
    ui::{Frame, Framed},
};
use http::{
    HeaderValue, StatusCode,
    header::{HeaderMap, REFERER, RETRY_AFTER},
    request::Parts,
};
use leptos::prelude::use_context;
use leptos_axum::ResponseOptions;
use std::sync::Arc;

/// Asks on behalf of the signed-in person.
pub async fn ask<T, F>(question: impl FnOnce(Arc<dyn Pages>, Viewer) -> F) -> Result<T, AppError>
where
    F: Future<Output = Result<T, AppError>>,
{
    settle(match (ports::pages(), ports::viewer()) {
        (Ok(pages), Ok(viewer)) => question(pages, viewer).await,
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

/// Asks for a whole page: with what its masthead shows.
pub async fn ask_framed<T, F>(question: impl FnOnce(Arc<dyn Pages>, Viewer) -> F) -> Result<Framed<T>, AppError>
where
    F: Future<Output = Result<T, AppError>>,
{
    ask(async |pages: Arc<dyn Pages>, viewer: Viewer| {
        let unconfirmed = pages.unconfirmed_effects(&viewer).await?;
        let content = question(pages, viewer.clone()).await?;
        Ok(Framed { frame: Frame { viewer, unconfirmed }, content })
    })
    .await
}

/// Gives the response the status of its error; who is not signed in is sent to the sign-in page and brought back after it.
pub fn settle<T>(answer: Result<T, AppError>) -> Result<T, AppError> {
    if let Err(error) = &answer {
        if let (Some(response), Ok(status)) = (use_context::<ResponseOptions>(), StatusCode::from_u16(error.status())) {
            response.set_status(status);
            if let AppError::Unavailable(_) = error {
                response.insert_header(RETRY_AFTER, HeaderValue::from_static("5"));
            }
        }
        if *error == AppError::SignInRequired {
            leptos_axum::redirect(&sign_in_path(use_context::<Parts>().as_ref()));
        }
    }
    answer
}

/// The sign-in page's address, which remembers the page that was asked for.
///
/// A server function is called from a page, so its own address would be of no use: its referrer is the page.
fn sign_in_path(request: Option<&Parts>) -> String {
    let next = request.map_or_else(String::new, |request| match request.uri.path_and_query() {
        Some(asked) if !asked.path().starts_with("/api/") => asked.as_str().to_owned(),
        _ => referrer(&request.headers),
    });
    // The first page is where one comes without being told.
    with_query("/sign-in", [("next", if next == "/" { "" } else { &next })])
}

/// The path and query of the page that a request came from.
fn referrer(headers: &HeaderMap) -> String {
    headers
        .get(REFERER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<http::Uri>().ok())
        .and_then(|page| page.path_and_query().map(ToString::to_string))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn request(uri: &str, referrer: Option<&str>) -> Parts {
        let mut builder = Request::builder().uri(uri);
        if let Some(page) = referrer {
            builder = builder.header(REFERER, page);
        }
        builder.body(()).expect("a valid request").into_parts().0
    }

    #[test]
    fn a_page_comes_back_after_signing_in() {
        let page = request("/jobs?state=failed&before=7", None);
        assert_eq!(sign_in_path(Some(&page)), "/sign-in?next=/jobs%3Fstate%3Dfailed%26before%3D7");
    }

    #[test]
    fn a_server_function_comes_back_to_its_page() {
        let call = request("/api/pages/job", Some("https://recount.example.org/jobs/7"));
        assert_eq!(sign_in_path(Some(&call)), "/sign-in?next=/jobs/7");
    }

    #[test]
    fn the_first_page_needs_no_memory() {
        assert_eq!(sign_in_path(Some(&request("/", None))), "/sign-in");
        assert_eq!(sign_in_path(Some(&request("/api/pages/job", None))), "/sign-in");
        assert_eq!(sign_in_path(None), "/sign-in");
    }
}
