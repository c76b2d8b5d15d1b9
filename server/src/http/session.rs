//! Who is asking, and what they may do. One middleware looks at the cookie or the bearer token and writes the answer into the
//! request's extensions; the extractors read it there, so no handler touches a cookie. A second one holds the method against the
//! token's scopes, so that no route can forget to.

use super::{people::PeopleState, problem::Problem, sign_in::sign_in_path};
use app::model::Viewer;
use axum::{
    extract::{FromRequestParts, OriginalUri, Request, State},
    middleware::Next,
    response::{IntoResponse, Redirect, Response},
};
use axum_extra::extract::cookie::{Cookie, CookieJar, SameSite};
use domain::{
    id::{SessionId, UserId},
    people::{Role, Scope, Scopes, bearer::BearerSecret},
};
use http::{
    HeaderMap, HeaderValue, Method,
    header::{AUTHORIZATION, CACHE_CONTROL},
    request::Parts,
};
use store::{Grant, Store, User};

/// The cookie's name. With https the prefix makes browsers refuse one that was set by a neighbouring host or over plain http.
fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-session" } else { "session" }
}

/// The cookie that signs a browser in.
pub fn session_cookie(secret: &BearerSecret, secure: bool) -> Cookie<'static> {
    Cookie::build((cookie_name(secure), secret.expose().to_owned()))
        .path("/")
        .http_only(true)
        .secure(secure)
        .same_site(SameSite::Lax)
        // The server decides when a session ends; the cookie only has to last until then.
        .permanent()
        .build()
}

/// The cookie that removes the one of [`session_cookie`]; `__Host-` cookies are only replaced by one with the same attributes.
pub fn removal_cookie(secure: bool) -> Cookie<'static> {
    let mut cookie = session_cookie(&BearerSecret::received(""), secure);
    cookie.make_removal();
    cookie
}

/// The session secret that the browser sent.
pub fn session_secret(jar: &CookieJar, secure: bool) -> Option<BearerSecret> {
    jar.get(cookie_name(secure)).map(|cookie| BearerSecret::received(cookie.value()))
}

/// Puts `Option<Viewer>`, `Option<SessionId>` and [`Scopes`] into the request's extensions. A bearer token decides alone where
/// there is one, and a wrong one is refused at once: a program must not silently go on as nobody.
pub async fn session(State(state): State<PeopleState>, mut request: Request, next: Next) -> Result<Response, Problem> {
    let Asking { viewer, session, scopes } = identify(&state, request.headers()).await?;
    let signed_in = viewer.is_some();
    request.extensions_mut().insert(viewer);
    request.extensions_mut().insert(session);
    request.extensions_mut().insert(scopes);
    let mut response = next.run(request).await;
    if signed_in {
        // What was made for one person must not be shown to the next one at the same machine.
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    Ok(response)
}

/// Lets pass what the token's scopes allow: safe methods (RFC 9110 9.2.1) look, all others change something. Must lie inside
/// [`session`]; a route that reads its own meaning out of a method stays outside of this and asks for the [`Scopes`] itself.
pub async fn within_scopes(request: Request, next: Next) -> Result<Response, Problem> {
    let scopes: Option<&Scopes> = request.extensions().get();
    let scopes = scopes.ok_or_else(|| Problem::internal("the session layer is missing around the check of scopes"))?;
    let needed = if request.method().is_safe() { Scope::Read } else { Scope::Write };
    if scopes.contains(needed) { Ok(next.run(request).await) } else { Err(Problem::insufficient_scope(needed)) }
}

/// What is known of whoever asks.
struct Asking {
    viewer: Option<Viewer>,
    session: Option<SessionId>,
    /// Only tokens have less than all.
    scopes: Scopes,
}

async fn identify(state: &PeopleState, headers: &HeaderMap) -> Result<Asking, Problem> {
    if let Some(token) = bearer(headers) {
        let (viewer, scopes) = of_token(&state.store, &token).await?;
        return Ok(Asking { viewer: Some(viewer), session: None, scopes });
    }
    let session = match session_secret(&CookieJar::from_headers(headers), state.secure) {
        Some(secret) => state.store.session_by_secret(&secret).await?,
        None => None,
    };
    let (viewer, session) = session.map(|session| (viewer(session.user, Some(session.id)), session.id)).unzip();
    Ok(Asking { viewer, session, scopes: Scopes::ALL })
}

/// The token of an `Authorization: Bearer` header (RFC 6750). Other schemes belong to a proxy in front of the server.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<BearerSecret> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| BearerSecret::received(token.trim()))
}

/// Whose token it is, and what it may do. A database that cannot be asked is no wrong token: a program that is told so would throw
/// its token away.
pub(crate) async fn of_token(store: &Store, token: &BearerSecret) -> Result<(Viewer, Scopes), Problem> {
    let grant = store.token_by_secret(token).await?;
    let invalid = || Problem::sign_in_required("The token is not valid. It may have been revoked.");
    let Grant { user, scopes } = grant.ok_or_else(invalid)?;
    Ok((viewer(user, None), scopes))
}

/// A person as the one who asks.
pub(crate) fn viewer(user: User, session: Option<SessionId>) -> Viewer {
    Viewer {
        id: user.id.to_string(),
        is_admin: user.role == Role::Admin,
        zone: user.zone.name().to_owned(),
        email: user.email,
        session: session.map(|id| id.to_string()),
    }
}

/// Somebody signed in, by cookie or token. Otherwise the API answers 401, and pages lead to the sign-in page and back.
#[derive(Debug, Clone)]
pub struct SignedIn(pub Viewer);

/// Somebody signed in with a browser. A token must not be able to make further tokens or end sessions: whoever found one
/// could stay after it is revoked.
#[derive(Debug, Clone, Copy)]
pub struct InBrowser {
    pub user: UserId,
    pub session: SessionId,
}

impl<S: Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        match parts.extensions.get::<Option<Viewer>>() {
            Some(Some(viewer)) => Ok(Self(viewer.clone())),
            Some(None) => Err(sign_in_first(parts)),
            None => Err(Problem::internal("the session layer is missing around this route").into_response()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for InBrowser {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let SignedIn(viewer) = SignedIn::from_request_parts(parts, state).await?;
        let Some(Some(session)) = parts.extensions.get::<Option<SessionId>>() else {
            return Err(Problem::forbidden("This is possible in the browser only, not with a token.").into_response());
        };
        let user = viewer.id.parse().map_err(|error| Problem::internal(error).into_response())?;
        Ok(Self { user, session: *session })
    }
}

fn sign_in_first(parts: &Parts) -> Response {
    // Nested routers see their part of the path only.
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
    if uri.path().starts_with("/api/") {
        return Problem::sign_in_required("Sign in, or send a token as \"Authorization: Bearer rct_…\".").into_response();
    }
    // A form cannot be sent again by a redirect, so only a page that was looked at is worth coming back to.
    let next = if parts.method == Method::GET { uri.path_and_query().map_or("", |path| path.as_str()) } else { "" };
    Redirect::to(&sign_in_path(&[("next", next)])).into_response()
}
