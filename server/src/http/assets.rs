//! The style sheet, the script and the WebAssembly: inside the binary in releases, read from disk in debug builds. Names carry
//! no hash; a strong `ETag` (RFC 9110 8.8.3) makes every later load a short 304.

use super::AppState;
use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use rust_embed::{EmbeddedFile, RustEmbed};

#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../target/site"]
#[allow_missing = true]
struct Site;

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new().route("/pkg/{*path}", get(package)).route("/favicon.svg", get(favicon))
}

async fn package(Path(path): Path<String>, headers: HeaderMap) -> Response {
    serve(&format!("pkg/{path}"), &headers)
}

async fn favicon(headers: HeaderMap) -> Response {
    serve("favicon.svg", &headers)
}

fn serve(path: &str, headers: &HeaderMap) -> Response {
    let Some((file, encoding)) = find(path, headers) else { return StatusCode::NOT_FOUND.into_response() };
    let etag = format!("\"{}\"", domain::text::hex(&file.metadata.sha256_hash()));
    let mut response = if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, content_type(path))], file.data).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::try_from(etag) {
        headers.insert(header::ETAG, etag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// The smallest form of a file that the browser takes. The build makes the compressed ones.
fn find(path: &str, headers: &HeaderMap) -> Option<(EmbeddedFile, Option<&'static str>)> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let takes = |name: &str| accepted.split(',').any(|part| part.split(';').next().is_some_and(|coding| coding.trim() == name));
    for (coding, suffix) in [("br", "br"), ("gzip", "gz")] {
        if takes(coding)
            && let Some(file) = Site::get(&format!("{path}.{suffix}"))
        {
            return Some((file, Some(coding)));
        }
    }
    Site::get(path).map(|file| (file, None))
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}
