//! Signing in and out, and making the first admin.
//!
//! A browser is sent on with 303, to where it wanted to go or back to the form with what went wrong in the address. A client
//! that does not ask for HTML gets the problem document and its status (401, 429) instead.

use super::{
    device::device_name,
    people::PeopleState,
    problem::{FieldProblem, Problem},
    session::{removal_cookie, session_cookie, session_secret},
};
use crate::service::{
    first_admin::FirstAdminError,
    sign_in::{self, SignInError},
};
use app::model::Viewer;
use axum::{
    Extension, Form,
    extract::{State, rejection::FormRejection},
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::CookieJar;
use domain::id::{SessionId, UserId};
use http::{HeaderMap, header::ACCEPT};
use serde::Deserialize;

/// The fields of the sign-in form. A missing one is an empty one: both are wrong credentials.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SignInForm {
    email: String,
    password: String,
    next: String,
}

/// The fields of the form that makes the first admin.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SetUpForm {
    code: String,
    email: String,
    password: String,
}

/// `POST /sign-in`
pub async fn sign_in(
    State(state): State<PeopleState>,
    headers: HeaderMap,
    jar: CookieJar,
    form: Result<Form<SignInForm>, FormRejection>,
) -> Result<Response, Problem> {
    let Form(form) = form?;
    let before = session_secret(&jar, state.secure);
    let device = device_name(&headers);
    match sign_in::sign_in(&state.store, &form.email, form.password, &device, before.as_ref()).await {
        Ok(secret) => Ok((jar.add(session_cookie(&secret, state.secure)), Redirect::to(local_path(&form.next))).into_response()),
        Err(error) => {
            let (name, minutes) = match &error {
                SignInError::WrongCredentials => ("credentials", String::new()),
                SignInError::Throttled { minutes } => ("throttled", minutes.to_string()),
                SignInError::Store(_) | SignInError::Hashing(_) => return Err(error.into()),
            };
            let back = [("problem", name), ("minutes", &minutes), ("email", &form.email), ("next", &form.next)];
            refuse(&headers, error, &back)
        }
    }
}

/// `POST /setup`
pub async fn set_up(
    State(state): State<PeopleState>,
    headers: HeaderMap,
    jar: CookieJar,
    form: Result<Form<SetUpForm>, FormRejection>,
) -> Result<Response, Problem> {
    let Form(form) = form?;
    match state.first_admin.make(&state.store, &form.code, &form.email, form.password).await {
        Ok(user) => {
            let before = session_secret(&jar, state.secure);
            let secret = state.store.create_session(user, &device_name(&headers), before.as_ref()).await?;
            Ok((jar.add(session_cookie(&secret, state.secure)), Redirect::to("/")).into_response())
        }
        Err(error) => {
            let name = match &error {
                FirstAdminError::WrongCode => "code",
                FirstAdminError::Email(_) => "email",
                FirstAdminError::Weak(_) => "weak",
                FirstAdminError::Store(_) | FirstAdminError::Hashing(_) => return Err(error.into()),
            };
            refuse(&headers, error, &[("problem", name), ("email", &form.email)])
        }
    }
}

/// `POST /sign-out`. The session ends on the server too: a copy of the cookie is worth nothing afterwards.
pub async fn sign_out(
    State(state): State<PeopleState>,
    Extension(viewer): Extension<Option<Viewer>>,
    Extension(session): Extension<Option<SessionId>>,
    jar: CookieJar,
) -> Result<Response, Problem> {
    if let Some((viewer, session)) = viewer.zip(session) {
        let user = viewer.id.parse::<UserId>().map_err(Problem::internal)?;
        state.store.delete_session(user, session).await?;
    }
    Ok((jar.add(removal_cookie(state.secure)), Redirect::to("/sign-in")).into_response())
}

/// The address of the sign-in page with these parameters, leaving out the empty ones.
pub fn sign_in_path(parameters: &[(&str, &str)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
    if query.is_empty() { "/sign-in".to_owned() } else { format!("/sign-in?{query}") }
}

/// Where to go after signing in: `next` if it is a path of this site, otherwise the start page.
///
/// Browsers read `//host`, `/\host` and, as they drop tabs and line ends, `/<tab>/host` as another site.
fn local_path(next: &str) -> &str {
    let local = next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    if local && next.bytes().all(|byte| byte.is_ascii_graphic()) { next } else { "/" }
}

fn refuse<E: Into<Problem>>(headers: &HeaderMap, error: E, back: &[(&str, &str)]) -> Result<Response, Problem> {
    let wants_html =
        headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains("text/html"));
    if wants_html { Ok(Redirect::to(&sign_in_path(back)).into_response()) } else { Err(error.into()) }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::WrongCredentials => Self::sign_in_required(error.to_string()),
            SignInError::Throttled { minutes } => Self::too_many(error.to_string(), minutes * 60),
            SignInError::Store(error) => error.into(),
            SignInError::Hashing(_) => Self::internal(error),
        }
    }
}

impl From<FirstAdminError> for Problem {
    fn from(error: FirstAdminError) -> Self {
        let field = match error {
            FirstAdminError::WrongCode => "code",
            FirstAdminError::Email(_) => "email",
            FirstAdminError::Weak(_) => "password",
            FirstAdminError::Store(error) => return error.into(),
            FirstAdminError::Hashing(_) => return Self::internal(error),
        };
        Self::invalid(vec![FieldProblem { field: field.to_owned(), detail: error.to_string() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_paths_are_kept() {
        for path in ["/", "/jobs", "/jobs/1?tab=effects", "/account?next=https://example.org", "/a//b"] {
            assert_eq!(local_path(path), path);
        }
    }

    #[test]
    fn other_sites_are_not_gone_to() {
        let attempts = [
            "",
            "jobs",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/a\\b",
            "https://evil.example",
            "javascript:alert(1)",
            " /jobs",
            "/\t/evil.example",
            "/\n/evil.example",
            "/jobs\r\nSet-Cookie: a=b",
            "/é",
            "/jobs x",
        ];
        for attempt in attempts {
            assert_eq!(local_path(attempt), "/", "{attempt:?}");
        }
    }

    #[test]
    fn parameters_are_encoded_and_empty_ones_left_out() {
        assert_eq!(sign_in_path(&[("next", "")]), "/sign-in");
        assert_eq!(
            sign_in_path(&[("problem", "credentials"), ("email", "a+b&c@x.org"), ("next", "")]),
            "/sign-in?problem=credentials&email=a%2Bb%26c%40x.org"
        );
    }
}
