//! What every response tells the browser to refuse, and the check that a form was sent by our own pages.

use super::problem::Problem;
use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{
    HeaderName, HeaderValue,
    header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS},
};
use leptos::nonce::Nonce;
use tower_http::csrf::{ConfigError, CsrfLayer, ProtectionError};

/// Adds the security headers, and puts the [`Nonce`] of the policy into the request's extensions, where the renderer of the
/// pages finds it. With `https` browsers are told to never ask over plain http again; only this host is meant, because what
/// else runs under the domain is not ours to decide.
pub async fn security_headers(State(Https(https)): State<Https>, mut request: Request, next: Next) -> Response {
    let nonce = Nonce::new();
    request.extensions_mut().insert(nonce.clone());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    match HeaderValue::try_from(policy(&nonce)) {
        Ok(policy) => headers.insert(CONTENT_SECURITY_POLICY, policy),
        Err(error) => return Problem::internal(error).into_response(),
    };
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin"));
    if https {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}

/// Whether the public address is https.
#[derive(Debug, Clone, Copy)]
pub struct Https(pub bool);

/// Only our own files run and load, and inline scripts only with the nonce of this response. WebAssembly needs its own word.
fn policy(nonce: &Nonce) -> String {
    format!(
        "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; \
         object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

/// The answer to a request that another site sent.
pub type CrossSiteAnswer = fn(ProtectionError) -> Response;

/// Refuses what another site's page sends: everything but GET, HEAD and OPTIONS must come from `public_origin` or from the
/// host that was asked. Programs send no `Origin` and pass; they carry no cookie that could be abused.
///
/// `public_origin` is as a browser writes it: `https://recount.example.org`, no path, no default port.
pub fn csrf(public_origin: &str) -> Result<CsrfLayer<CrossSiteAnswer>, ConfigError> {
    let answer: CrossSiteAnswer = |_| {
        Problem::forbidden(
            "This request was sent by another site's page. If it was yours, the server's public address is not configured rightly.",
        )
        .into_response()
    };
    Ok(CsrfLayer::new().add_trusted_origin(public_origin)?.with_rejection_response(answer))
}
