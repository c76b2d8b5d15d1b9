//! Pages that no script wakes up and that need nothing from the database: problems in words, for people who look at pages
//! where programs get the problem document, and what is shown only once.

use super::{
    assistant,
    problem::{Problem, RETRY_SECONDS},
    session::bearer,
};
use app::error::AppError;
use axum::{
    body::{Body, HttpBody},
    extract::Request,
    http::{
        HeaderValue, StatusCode,
        header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
    },
    middleware::Next,
    response::Response,
};
use domain::text::escaped;
use std::fmt::Write;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A whole page with this heading. `content` is HTML; `refresh` is when the browser asks again by itself, in seconds.
pub fn page(title: &str, content: &str, refresh: Option<u64>) -> String {
    let refresh = refresh.map(|seconds| format!("<meta http-equiv=\"refresh\" content=\"{seconds}\">\n")).unwrap_or_default();
    let title = escaped(title);
    let body = format!(
        "<header class=\"masthead\"><a class=\"brand\" href=\"/\">Recount</a></header>\n\
         <main id=\"content\" class=\"narrow\"><div class=\"flow\">\n<h1>{title}</h1>\n{content}\n</div></main>"
    );
    document(&title, &refresh, &body)
}

/// A whole page with the frame that the other pages have. `masthead` and `content`, which brings its heading, are HTML.
pub fn framed(title: &str, masthead: &str, content: &str) -> String {
    let body = format!(
        "<a class=\"skip\" href=\"#content\">Skip to the content</a>\n{masthead}\n\
         <main id=\"content\" tabindex=\"-1\">\n{content}\n</main>"
    );
    document(&escaped(title), "", &body)
}

/// All arguments are HTML.
fn document(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         {head}<link rel=\"icon\" href=\"/favicon.svg\" type=\"image/svg+xml\">\n<link rel=\"stylesheet\" href=\"/pkg/app.css\">\n\
         <title>{title} · Recount</title>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )
}

/// Says problems in the form that the one who asks can use: browsers get a page, the pages' scripts the error that they know.
/// Only here it is known that something was sent, of which nobody can say now whether it was recorded.
pub async fn in_words(request: Request, next: Next) -> Response {
    let asked = Asked::of(&request);
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else { return response };
    let (kind, body) = if problem.is_trouble() {
        match (asked.by, asked.doubt()) {
            (By::Program, None) => return response,
            (By::Program, Some(doubt)) => {
                *response.body_mut() = problem.and(doubt).document().into_body();
                response.headers_mut().remove(CONTENT_LENGTH);
                return response;
            }
            (By::Script, _) => match serde_json::to_vec(&AppError::Unavailable(problem.detail().to_owned())) {
                Ok(error) => (JSON, Body::from(error)),
                Err(error) => return Problem::internal(error).document(),
            },
            (By::Browser, None) => {
                let content = format!("<p>{}</p><p>This page asks again by itself.</p>", escaped(problem.detail()));
                (HTML, page("Not possible just now", &content, Some(RETRY_SECONDS)).into())
            }
            (By::Browser, Some(doubt)) => (HTML, unconfirmed(&problem, &asked, doubt).into()),
        }
    } else if asked.by == By::Browser {
        (HTML, refused(&problem).into())
    } else {
        return response;
    };
    *response.body_mut() = body;
    response.headers_mut().remove(CONTENT_LENGTH);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Who wants to read the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Browser,
    /// A server function's caller.
    Script,
    Program,
}

struct Asked {
    by: By,
    path: String,
    sends: bool,
    /// It can be sent again by a form without fields.
    is_empty: bool,
}

impl Asked {
    fn of(request: &Request) -> Self {
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path = request.uri().path();
        let by = match path.strip_prefix("/api/") {
            Some(rest) if rest.starts_with("v1/") => By::Program,
            Some(_) => By::Script,
            None if accept.contains("text/html") && bearer(request.headers()).is_none() => By::Browser,
            None => By::Program,
        };
        Self { by, path: path.to_owned(), sends: !request.method().is_safe(), is_empty: request.body().is_end_stream() }
    }

    /// What is not known now about what was sent.
    fn doubt(&self) -> Option<&'static str> {
        self.sends.then(|| {
            if self.path.ends_with("/cancellation") {
                "It is not known whether your Cancel was recorded. Press Cancel again: pressing twice does no harm."
            } else if ["/account/tokens", assistant::PATH].contains(&self.path.as_str()) {
                "It is not known whether the token was made. Look at your account first, and revoke a token that you have not seen."
            } else {
                "It is not known whether what you sent was recorded. Send it again: what was recorded is not done twice."
            }
        })
    }
}

/// The page after a form that got no answer. A browser that reloads it sends the form again, with its files.
fn unconfirmed(problem: &Problem, asked: &Asked, doubt: &str) -> String {
    let mut content = format!("<p>{}</p><p><b>{}</b></p>", escaped(problem.detail()), escaped(doubt));
    if asked.is_empty {
        let word = if asked.path.ends_with("/cancellation") { "Cancel" } else { "Send it again" };
        let _ = write!(
            content,
            "<form method=\"post\" action=\"{}\"><button class=\"button stop\" type=\"submit\">{word}</button></form>",
            escaped(&asked.path)
        );
    } else {
        content.push_str(
            "<p>Reload this page to send it again. Your browser still has everything that you typed, and your files.</p>",
        );
    }
    page("Not confirmed", &content, None)
}

/// The page after what was understood and is not done.
fn refused(problem: &Problem) -> String {
    let title = match problem.status() {
        StatusCode::BAD_REQUEST => "That could not be read",
        StatusCode::UNAUTHORIZED => "Sign in to see this",
        StatusCode::FORBIDDEN => "Not for you to do",
        StatusCode::NOT_FOUND => "Nothing here",
        StatusCode::GONE => "Withdrawn",
        StatusCode::CONFLICT => "Not possible any more",
        StatusCode::PAYLOAD_TOO_LARGE => "Too large",
        StatusCode::TOO_MANY_REQUESTS => "Too many attempts",
        _ => "Something went wrong",
    };
    let mut content = format!("<p>{}</p>", escaped(problem.detail()));
    for error in problem.errors() {
        let _ = write!(content, "<p>{}</p>", escaped(&error.detail));
    }
    content.push_str("<p class=\"row\"><a class=\"button\" href=\"/jobs\">Go to the jobs</a></p>");
    page(title, &content, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_typed_is_text() {
        let page = refused(&Problem::bad_request("\"<script>\" is no month."));
        assert!(page.contains("<p>&quot;&lt;script&gt;&quot; is no month.</p>"), "{page}");
    }

    #[test]
    fn what_was_perhaps_made_is_said() {
        let doubt = |path: &str| {
            let request = Request::post(path).body(Body::empty()).unwrap();
            Asked::of(&request).doubt().unwrap()
        };
        for path in ["/account/tokens", assistant::PATH] {
            assert!(doubt(path).starts_with("It is not known whether the token was made."), "{path}");
        }
        assert!(doubt("/account/zone").starts_with("It is not known whether what you sent was recorded."));
    }

    #[test]
    fn each_is_answered_in_a_form_of_their_own() {
        let asked = |path: &str, headers: &[(&str, &str)]| {
            let builder =
                headers.iter().fold(Request::builder().uri(path), |builder, (name, value)| builder.header(*name, *value));
            Asked::of(&builder.body(Body::empty()).unwrap()).by
        };
        let html = ("accept", "text/html,*/*;q=0.8");
        assert_eq!(asked("/jobs", &[html]), By::Browser);
        assert_eq!(asked("/jobs", &[html, ("authorization", "Basic YWRhOng=")]), By::Browser);
        assert_eq!(asked("/admin/effects.csv", &[html, ("authorization", "Bearer rct_x")]), By::Program);
        assert_eq!(asked("/jobs/7/events", &[("accept", "text/event-stream")]), By::Program);
        assert_eq!(asked("/api/v1/jobs", &[html]), By::Program);
        assert_eq!(asked("/api/jobs/read", &[("accept", "application/json")]), By::Script);
    }
}
