//! What people change about their own account.

use super::{
    page::page,
    people::PeopleState,
    problem::Problem,
    session::{InBrowser, removal_cookie},
};
use axum::{
    Form,
    extract::{Path, State, rejection::FormRejection},
    response::{Html, IntoResponse, Redirect, Response},
};
use axum_extra::extract::CookieJar;
use chrono_tz::Tz;
use domain::{
    id::{SessionId, TokenId},
    people::Scopes,
    text::escaped,
};
use serde::Deserialize;

/// A name is for recognising the token; no list can show a longer one.
const MAX_NAME_CHARS: usize = 100;

/// The field of the time zone form.
#[derive(Deserialize)]
pub struct ZoneForm {
    /// An IANA name.
    zone: String,
}

/// The fields of the form that makes a token.
#[derive(Deserialize)]
pub struct TokenForm {
    name: String,
    #[serde(default)]
    may: May,
}

/// What the token may do; without the box that says less, all.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum May {
    Look,
    #[default]
    Act,
}

impl From<May> for Scopes {
    fn from(may: May) -> Self {
        match may {
            May::Look => Self::READ,
            May::Act => Self::ALL,
        }
    }
}

/// `POST /account/zone`
pub async fn set_zone(
    State(state): State<PeopleState>,
    InBrowser { user, .. }: InBrowser,
    form: Result<Form<ZoneForm>, FormRejection>,
) -> Result<Redirect, Problem> {
    let Ok(zone) = form?.0.zone.trim().parse::<Tz>() else { return Ok(Redirect::to("/account?problem=zone")) };
    state.store.set_zone(user, zone).await?;
    Ok(Redirect::to("/account"))
}

/// `POST /account/tokens`. The answer is the page that shows the secret, once: to lead to another one, the secret would have to
/// be kept somewhere, and another process might be asked for that page.
pub async fn create_token(
    State(state): State<PeopleState>,
    InBrowser { user, .. }: InBrowser,
    form: Result<Form<TokenForm>, FormRejection>,
) -> Result<Response, Problem> {
    let Form(TokenForm { name, may }) = form?;
    let Some(name) = token_name(&name) else { return Ok(Redirect::to("/account?problem=name").into_response()) };
    let secret = state.store.create_token(user, name, may.into()).await?;
    let content = format!(
        "<p>Copy this token now. It is shown only once.</p>\n\
         <p><code class=\"secret\" tabindex=\"0\" aria-label=\"New token\">{}</code></p>\n\
         <p>For an assistant, put it into the <a href=\"/account/assistant\">ready-made configuration</a>.</p>\n\
         <p><a class=\"button\" href=\"/account\">Go back to the account</a></p>",
        escaped(secret.expose())
    );
    Ok(Html(page("New token", &content, None)).into_response())
}

/// The name of a token as it was typed, if it can be one.
pub(super) fn token_name(typed: &str) -> Option<&str> {
    let name = typed.trim();
    (!name.is_empty() && name.chars().count() <= MAX_NAME_CHARS).then_some(name)
}

/// `POST /account/tokens/{id}/revocation`. Doing it twice is no error: the token is gone either way.
pub async fn revoke_token(
    State(state): State<PeopleState>,
    InBrowser { user, .. }: InBrowser,
    Path(id): Path<String>,
) -> Result<Redirect, Problem> {
    let id: TokenId = id.parse().map_err(|_| Problem::not_found())?;
    state.store.delete_token(user, id).await?;
    Ok(Redirect::to("/account"))
}

/// `POST /account/sessions/{id}/revocation`. Revoking the session that asks is signing out.
pub async fn revoke_session(
    State(state): State<PeopleState>,
    InBrowser { user, session }: InBrowser,
    Path(id): Path<String>,
    jar: CookieJar,
) -> Result<Response, Problem> {
    let id: SessionId = id.parse().map_err(|_| Problem::not_found())?;
    state.store.delete_session(user, id).await?;
    Ok(if id == session {
        (jar.add(removal_cookie(state.secure)), Redirect::to("/sign-in")).into_response()
    } else {
        Redirect::to("/account").into_response()
    })
}
