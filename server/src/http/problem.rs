//! Problem documents (RFC 9457): how the API says that something went wrong.

use crate::service::{ServiceError, told};
use app::{error::AppError, model::FieldError};
use axum::{
    extract::rejection::{FormRejection, QueryRejection},
    response::{IntoResponse, Response},
};
use domain::people::Scope;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use std::fmt;
use store::StoreError;

/// When to try again while the database is in trouble, in seconds.
pub const RETRY_SECONDS: u64 = 5;

/// One field that cannot be accepted, and a sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    pub field: String,
    pub detail: String,
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// A URI reference; `about:blank` says that the status tells everything.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    #[serde(skip)]
    retry_after_seconds: Option<u64>,
    /// How the caller may prove more (RFC 9110 11.6.1).
    #[serde(skip)]
    challenge: Option<&'static str>,
}

impl Problem {
    fn blank(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind: "about:blank", title, status, detail, errors: Vec::new(), retry_after_seconds: None, challenge: None }
    }

    /// 400: the request cannot be read.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::BAD_REQUEST, "Bad Request", detail)
    }

    /// 400: it can be read, but these fields cannot be accepted.
    pub fn invalid(errors: Vec<FieldProblem>) -> Self {
        Self {
            kind: "/problems/invalid",
            errors,
            ..Self::blank(
                StatusCode::BAD_REQUEST,
                "Some fields are not valid",
                "Correct the fields that are listed in errors and send the request again.",
            )
        }
    }

    /// 401: nobody is signed in, or the token is not valid.
    pub fn sign_in_required(detail: impl Into<String>) -> Self {
        Self { challenge: Some("Bearer"), ..Self::blank(StatusCode::UNAUTHORIZED, "Unauthorized", detail) }
    }

    /// 403: it is clear who asks, and the answer is no.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::FORBIDDEN, "Forbidden", detail)
    }

    /// 403: the token may not do this, whoever it belongs to (RFC 6750 3.1).
    pub fn insufficient_scope(lacking: Scope) -> Self {
        let (challenge, detail) = match lacking {
            Scope::Read => (
                "Bearer error=\"insufficient_scope\", scope=\"reports:read\"",
                "This token may not look at anything. Make one with the scope reports:read, on the Account page or with \
                 recount token create, and send that.",
            ),
            Scope::Write => (
                "Bearer error=\"insufficient_scope\", scope=\"reports:write\"",
                "This token may only look; nothing was changed. To start, cancel or change something, make one with the scope \
                 reports:write, on the Account page or with recount token create, and send that.",
            ),
        };
        Self {
            kind: "/problems/insufficient-scope",
            challenge: Some(challenge),
            ..Self::blank(StatusCode::FORBIDDEN, "Forbidden", detail)
        }
    }

    /// 404: there is nothing here, or it is not theirs to see; the two are not told apart.
    pub fn not_found() -> Self {
        Self::blank(StatusCode::NOT_FOUND, "Not Found", "There is nothing here, or it is not yours to see.")
    }

    /// 410: it was taken back.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::GONE, "Gone", detail)
    }

    /// 409: the request contradicts an earlier one.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::CONFLICT, "Conflict", detail)
    }

    /// 413: more bytes than are taken.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::PAYLOAD_TOO_LARGE, "Content Too Large", detail)
    }

    /// 429: try again later.
    pub fn too_many(detail: impl Into<String>, retry_after_seconds: u64) -> Self {
        Self {
            retry_after_seconds: Some(retry_after_seconds),
            ..Self::blank(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests", detail)
        }
    }

    /// 500: the cause goes to the log and nowhere else.
    pub fn internal(cause: impl fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::blank(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal Server Error",
            "Something went wrong on our side. It has been written to the server's log.",
        )
    }

    /// 503: the database or the file store is in trouble, which passes.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self {
            kind: "/problems/unavailable",
            retry_after_seconds: Some(RETRY_SECONDS),
            ..Self::blank(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable", detail)
        }
    }

    /// Whether it passes by itself.
    pub fn is_trouble(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// What happened, in a sentence or more.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The mistakes in single fields.
    pub fn errors(&self) -> &[FieldProblem] {
        &self.errors
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// With another sentence at its end.
    #[must_use]
    pub fn and(mut self, sentence: &str) -> Self {
        self.detail.push(' ');
        self.detail.push_str(sentence);
        self
    }

    /// The document.
    pub fn document(&self) -> Response {
        let document = axum::Json(self).into_response();
        ([(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))], document).into_response()
    }
}

impl From<Vec<FieldError>> for Problem {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::invalid(errors.into_iter().map(|error| FieldProblem { field: error.field, detail: error.text }).collect())
    }
}

impl From<AppError> for Problem {
    fn from(error: AppError) -> Self {
        match error {
            AppError::SignInRequired => Self::sign_in_required(error.to_string()),
            AppError::Forbidden => Self::forbidden(error.to_string()),
            AppError::NotFound => Self::not_found(),
            AppError::Withdrawn { .. } => Self::gone(error.to_string()),
            AppError::Invalid(detail) => Self::bad_request(detail),
            AppError::Unavailable(detail) => Self::unavailable(detail),
            // Its cause was logged where it happened.
            AppError::Unreachable | AppError::Internal => {
                Self::blank(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error", AppError::Internal.to_string())
            }
        }
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        error.0.into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        told(&error).into()
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_request(rejection.body_text())
    }
}

impl From<FormRejection> for Problem {
    fn from(rejection: FormRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Self::too_large("The form is too large.")
        } else {
            Self::bad_request("The form could not be read. Reload the page and try again.")
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = self.document();
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        // For whoever says it in another form.
        response.extensions_mut().insert(self);
        response
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde prescribes the signature")]
fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    async fn document(problem: Problem) -> (Response<()>, Value) {
        let (parts, body) = problem.into_response().into_parts();
        let bytes = axum::body::to_bytes(body, 10_000).await.unwrap();
        (Response::from_parts(parts, ()), serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn every_problem_has_its_status_in_line_and_document() {
        let cases = [
            (Problem::bad_request("x"), 400),
            (Problem::invalid(Vec::new()), 400),
            (Problem::sign_in_required("x"), 401),
            (Problem::forbidden("x"), 403),
            (Problem::insufficient_scope(Scope::Read), 403),
            (Problem::not_found(), 404),
            (Problem::conflict("x"), 409),
            (Problem::gone("x"), 410),
            (Problem::too_large("x"), 413),
            (Problem::too_many("x", 60), 429),
            (Problem::internal("x"), 500),
            (Problem::unavailable("x"), 503),
        ];
        for (problem, status) in cases {
            let (response, document) = document(problem).await;
            assert_eq!(response.status(), status);
            assert_eq!(document["status"], status);
            assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        }
    }

    #[tokio::test]
    async fn fields_are_listed() {
        let errors = vec![FieldProblem { field: "month".into(), detail: "Write the month like 2026-05.".into() }];
        let (_, document) = document(Problem::invalid(errors)).await;
        assert_eq!(document["type"], "/problems/invalid");
        assert_eq!(document["errors"], json!([{"field": "month", "detail": "Write the month like 2026-05."}]));
    }

    #[tokio::test]
    async fn the_headers_say_how_to_go_on() {
        let (response, document) = document(Problem::too_many("x", 90)).await;
        assert_eq!(response.headers()[RETRY_AFTER], "90");
        assert_eq!(document.get("errors"), None);
        assert_eq!(document["type"], "about:blank");
        let (response, document) = self::document(Problem::unavailable("x").and("y")).await;
        assert_eq!(response.headers()[RETRY_AFTER], "5");
        assert_eq!((&document["type"], &document["detail"]), (&json!("/problems/unavailable"), &json!("x y")));
        let (response, _) = self::document(Problem::sign_in_required("x")).await;
        assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
        for scope in [Scope::Read, Scope::Write] {
            let (response, document) = self::document(Problem::insufficient_scope(scope)).await;
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            assert_eq!(response.headers()[WWW_AUTHENTICATE], challenge.as_str());
            assert!(document["detail"].as_str().unwrap().contains(scope.name()), "{document}");
        }
    }

    #[tokio::test]
    async fn a_cause_is_not_told() {
        let (_, document) = document(Problem::internal("password=hunter2")).await;
        assert!(!document.to_string().contains("hunter2"));
    }
}
