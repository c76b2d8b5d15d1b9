//! Accounts over HTTP, with every layer that lies around them.

use super::{
    people::{PeopleState, routes},
    security::{Https, csrf, security_headers},
    session::{SignedIn, session, within_scopes},
};
use crate::service::first_admin::FirstAdmin;
use axum::{
    Router,
    body::Body,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
    routing::{get, post},
};
use chrono::TimeDelta;
use domain::people::{EmailAddress, Role, Scopes};
use http::{
    Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, LOCATION, RETRY_AFTER, SET_COOKIE},
};
use leptos::nonce::Nonce;
use std::sync::Arc;
use store::testing::Instance;
use tower::ServiceExt;

const PASSWORD: &str = "correct horse";

struct Site {
    instance: Instance,
    state: PeopleState,
    router: Router,
}

impl Site {
    /// A site with one person, ada@example.org.
    async fn new(secure: bool) -> Self {
        let instance = Instance::new().await;
        instance.person("ada@example.org", PASSWORD, Role::User).await;
        Self::of(instance, secure).await
    }

    async fn of(instance: Instance, secure: bool) -> Self {
        let first_admin = FirstAdmin::at_start(&instance.store).await.unwrap();
        let state = PeopleState { store: instance.store.clone(), first_admin: Arc::new(first_admin), secure };
        let origin = if secure { "https://recount.example" } else { "http://recount.example" };
        let router = routes()
            .route("/jobs", get(whoami))
            .route("/kept", get(async |_: SignedIn| ([(CACHE_CONTROL, "private, max-age=60")], "kept")))
            .route("/nonce", get(async |axum::Extension(nonce): axum::Extension<Nonce>| nonce.to_string()))
            .route("/api/v1/jobs", post(whoami).get(whoami))
            .layer(from_fn(within_scopes))
            .layer(from_fn_with_state(state.clone(), session))
            .layer(csrf(origin).unwrap())
            .layer(from_fn_with_state(Https(secure), security_headers))
            .with_state(state.clone());
        Self { instance, state, router }
    }

    async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Probes at a page as the browser with this cookie.
    async fn get(&self, path: &str, cookie: &str) -> Response {
        self.send(Request::get(path).header(COOKIE, cookie).body(Body::empty()).unwrap()).await
    }

    /// Sends a form as a browser does.
    async fn post(&self, path: &str, cookie: &str, form: &str) -> Response {
        self.send(form_request(path).header(COOKIE, cookie).body(Body::from(form.to_owned())).unwrap()).await
    }

    /// Signs ada in and returns her cookie.
    async fn sign_in(&self) -> String {
        let response = self.post("/sign-in", "", &credentials(PASSWORD)).await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        cookie(&response)
    }
}

fn ada_address() -> EmailAddress {
    EmailAddress::parse("ada@example.org").unwrap()
}

async fn whoami(SignedIn(viewer): SignedIn) -> String {
    format!("{} {} {}", viewer.email, if viewer.is_admin { "admin" } else { "user" }, viewer.zone)
}

fn form_request(path: &str) -> http::request::Builder {
    Request::post(path)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "text/html,*/*;q=0.8")
        .header("sec-fetch-site", "same-origin")
}

fn credentials(password: &str) -> String {
    format!("email=ada%40example.org&password={}", password.replace(' ', "+"))
}

/// What the browser would send back.
fn cookie(response: &Response) -> String {
    response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn location(response: &Response) -> &str {
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    response.headers()[LOCATION].to_str().unwrap()
}

async fn text(response: Response) -> String {
    String::from_utf8(axum::body::to_bytes(response.into_body(), 100_000).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn the_way_in_and_out() {
    let site = Site::new(false).await;
    let refused = site.get("/jobs?phase=running", "").await;
    assert_eq!(location(&refused), "/sign-in?next=%2Fjobs%3Fphase%3Drunning");

    let form = format!("{}&next=%2Fjobs%3Fphase%3Drunning", credentials(PASSWORD));
    let signed_in = site.post("/sign-in", "", &form).await;
    assert_eq!(location(&signed_in), "/jobs?phase=running");
    let cookie = cookie(&signed_in);
    assert_eq!(text(site.get("/jobs", &cookie).await).await, "ada@example.org user UTC");

    let out = site.post("/sign-out", &cookie, "").await;
    assert_eq!(location(&out), "/sign-in");
    assert!(out.headers()[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    // Whoever had copied the cookie is out too.
    assert_eq!(location(&site.get("/jobs", &cookie).await), "/sign-in?next=%2Fjobs");
}

#[tokio::test]
async fn a_session_ends_with_time() {
    let site = Site::new(false).await;
    let cookie = site.sign_in().await;
    site.instance.clock.advance(TimeDelta::days(13));
    assert_eq!(site.get("/jobs", &cookie).await.status(), StatusCode::OK);
    site.instance.clock.advance(TimeDelta::days(14));
    assert_eq!(site.get("/jobs", &cookie).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn signing_in_again_replaces_the_session() {
    let site = Site::new(false).await;
    let first = site.sign_in().await;
    let second = cookie(&site.post("/sign-in", &first, &credentials(PASSWORD)).await);
    assert_ne!(first, second);
    assert_eq!(site.get("/jobs", &first).await.status(), StatusCode::SEE_OTHER);
    assert_eq!(site.get("/jobs", &second).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_cookie_is_as_strict_as_the_address_allows() {
    for (secure, name) in [(false, "session="), (true, "__Host-session=")] {
        let site = Site::new(secure).await;
        let response = site.post("/sign-in", "", &credentials(PASSWORD)).await;
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        assert!(cookie.starts_with(name), "{cookie}");
        let attributes: Vec<_> = cookie.split("; ").skip(1).collect();
        for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
            assert!(attributes.contains(&attribute), "{cookie}");
        }
        assert_eq!(attributes.contains(&"Secure"), secure, "{cookie}");
        assert!(!cookie.contains("Domain"), "{cookie}");
    }
}

#[tokio::test]
async fn a_cookie_set_over_plain_http_opens_no_secure_site() {
    let site = Site::new(true).await;
    let cookie = site.sign_in().await;
    assert_eq!(site.get("/jobs", &cookie).await.status(), StatusCode::OK);
    let plain = cookie.replace("__Host-session", "session");
    assert_eq!(site.get("/jobs", &plain).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn failures_lead_back_to_the_form() {
    let site = Site::new(false).await;
    let form = format!("{}&next=%2Fjobs", credentials("wrong horse"));
    let expected = "/sign-in?problem=credentials&email=ada%40example.org&next=%2Fjobs";
    for _ in 0..5 {
        let wrong = site.post("/sign-in", "", &form).await;
        assert_eq!(location(&wrong), expected);
        assert!(wrong.headers().get(SET_COOKIE).is_none());
    }
    let throttled = site.post("/sign-in", "", &credentials(PASSWORD)).await;
    assert_eq!(location(&throttled), "/sign-in?problem=throttled&minutes=15&email=ada%40example.org");
    site.instance.clock.advance(TimeDelta::minutes(15));
    site.sign_in().await;
}

#[tokio::test]
async fn a_program_gets_a_status_and_a_sentence() {
    let site = Site::new(false).await;
    let form = credentials("wrong horse");
    let send = || async {
        let request = Request::post("/sign-in").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        site.send(request.body(Body::from(form.clone())).unwrap()).await
    };
    for _ in 0..5 {
        assert_eq!(send().await.status(), StatusCode::UNAUTHORIZED);
    }
    let throttled = send().await;
    assert_eq!(throttled.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(throttled.headers()[RETRY_AFTER], "900");
    assert!(text(throttled).await.contains("Too many failed sign-ins. Try again in 15 minutes."));
}

#[tokio::test]
async fn no_sign_in_leads_to_another_site() {
    let site = Site::new(false).await;
    for next in ["%2F%2Fevil.example", "%2F%5Cevil.example", "https%3A%2F%2Fevil.example", "%2F%09%2Fevil.example"] {
        let response = site.post("/sign-in", "", &format!("{}&next={next}", credentials(PASSWORD))).await;
        assert_eq!(location(&response), "/", "{next}");
    }
}

#[tokio::test]
async fn forms_that_are_none_are_refused() {
    let site = Site::new(false).await;
    let huge = site.post("/sign-in", "", &format!("email={}", "a".repeat(20_000))).await;
    assert_eq!(huge.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let json = Request::post("/sign-in").header(CONTENT_TYPE, "application/json").body(Body::from("{}")).unwrap();
    assert_eq!(site.send(json).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(location(&site.post("/sign-in", "", "").await), "/sign-in?problem=credentials");
}

#[tokio::test]
async fn another_site_cannot_send_our_forms() {
    let site = Site::new(false).await;
    let cookie = site.sign_in().await;
    let send = |headers: &'static [(&'static str, &'static str)]| {
        let mut request =
            Request::post("/account/zone").header(CONTENT_TYPE, "application/x-www-form-urlencoded").header(COOKIE, &cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        site.send(request.body(Body::from("zone=Europe%2FLisbon")).unwrap())
    };
    for refused in [
        &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")][..],
        &[("sec-fetch-site", "same-site")],
        &[("host", "10.0.0.5:3000"), ("origin", "https://evil.example")],
        &[("host", "10.0.0.5:3000"), ("origin", "null")],
    ] {
        let response = send(refused).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{refused:?}");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
        assert!(response.headers().contains_key("content-security-policy"));
    }
    for passes in [
        &[("sec-fetch-site", "same-origin")][..],
        &[("host", "10.0.0.5:3000"), ("origin", "http://10.0.0.5:3000")],
        &[("host", "internal"), ("origin", "http://recount.example")],
    ] {
        assert_eq!(location(&send(passes).await), "/account", "{passes:?}");
    }
}

#[tokio::test]
async fn a_token_serves_programs_until_it_is_revoked() {
    let site = Site::new(false).await;
    let cookie = site.sign_in().await;
    let made = site.post("/account/tokens", &cookie, "name=nightly").await;
    assert_eq!(made.headers()[CACHE_CONTROL], "no-store");
    let page = text(made).await;
    let (_, secret) = page.split_once("aria-label=\"New token\">").unwrap();
    let secret = secret.split_once('<').unwrap().0;
    let ada = site.state.store.user_by_email(&ada_address()).await.unwrap().unwrap().id;

    let call = |scheme: &str, token: &str| {
        let request = Request::post("/api/v1/jobs").header(AUTHORIZATION, format!("{scheme} {token}"));
        site.send(request.header(HOST, "recount.example").body(Body::empty()).unwrap())
    };
    assert_eq!(text(call("Bearer", secret).await).await, "ada@example.org user UTC");
    assert_eq!(text(call("bearer", secret).await).await, "ada@example.org user UTC");
    let wrong = call("Bearer", "rct_wrong").await;
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(wrong.headers()[CONTENT_TYPE], "application/problem+json");

    let id = site.state.store.tokens_of(ada).await.unwrap()[0].id;
    let revoked = site.post(&format!("/account/tokens/{id}/revocation"), &cookie, "").await;
    assert_eq!(location(&revoked), "/account");
    assert_eq!(call("Bearer", secret).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_authorization_of_a_proxy_is_not_ours() {
    let site = Site::new(false).await;
    let cookie = site.sign_in().await;
    let send = |authorization: &'static str| {
        let request = Request::get("/jobs").header(COOKIE, &cookie).header(AUTHORIZATION, authorization);
        site.send(request.body(Body::empty()).unwrap())
    };
    assert_eq!(send("Basic YWRhOng=").await.status(), StatusCode::OK);
    // A token that is sent decides alone, even beside a good cookie.
    assert_eq!(send("Bearer rct_wrong").await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_token_is_no_key_to_the_account() {
    let site = Site::new(false).await;
    let ada = site.state.store.user_by_email(&ada_address()).await.unwrap().unwrap().id;
    let secret = site.state.store.create_token(ada, "nightly", Scopes::ALL).await.unwrap();
    let request = form_request("/account/tokens").header(AUTHORIZATION, format!("Bearer {}", secret.expose()));
    let response = site.send(request.body(Body::from("name=second")).unwrap()).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert_eq!(site.state.store.tokens_of(ada).await.unwrap().len(), 1);
}

#[tokio::test]
async fn nobody_is_told_so_as_fits_the_address() {
    let site = Site::new(false).await;
    let api = site.get("/api/v1/jobs", "session=stolen").await;
    assert_eq!(api.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(api.headers()[CONTENT_TYPE], "application/problem+json");
    // A form cannot be repeated by a redirect, so there is nothing to come back to.
    assert_eq!(location(&site.post("/account/zone", "", "zone=UTC").await), "/sign-in");
}

#[tokio::test]
async fn a_route_outside_the_session_layer_is_an_error_and_not_open() {
    let router: Router = Router::new().route("/jobs", get(whoami));
    let response = router.oneshot(Request::get("/jobs").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn the_account_says_what_is_wrong() {
    let site = Site::new(false).await;
    let cookie = site.sign_in().await;
    assert_eq!(location(&site.post("/account/zone", &cookie, "zone=Mars").await), "/account?problem=zone");
    assert_eq!(location(&site.post("/account/zone", &cookie, "zone=Asia%2FTokyo").await), "/account");
    let ada = site.state.store.user_by_email(&ada_address()).await.unwrap().unwrap();
    assert_eq!(ada.zone, chrono_tz::Tz::Asia__Tokyo);
    assert_eq!(location(&site.post("/account/tokens", &cookie, "name=+").await), "/account?problem=name");
    let nonsense = site.post("/account/tokens/nonsense/revocation", &cookie, "").await;
    assert_eq!(nonsense.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_device_can_be_signed_out_from_another() {
    let site = Site::new(false).await;
    let (here, there) = (site.sign_in().await, site.sign_in().await);
    let bob = site.instance.person("bob@example.org", PASSWORD, Role::User).await;
    let bobs = site.state.store.create_session(bob, "Test", None).await.unwrap();
    let bobs = format!("session={}", bobs.expose());
    let id = session_of(&site, &there).await;

    // Somebody else's device is not ended, and whether it exists is not told.
    assert_eq!(location(&site.post(&format!("/account/sessions/{id}/revocation"), &bobs, "").await), "/account");
    assert_eq!(site.get("/jobs", &there).await.status(), StatusCode::OK);

    assert_eq!(location(&site.post(&format!("/account/sessions/{id}/revocation"), &here, "").await), "/account");
    assert_eq!(site.get("/jobs", &there).await.status(), StatusCode::SEE_OTHER);

    let own = session_of(&site, &here).await;
    let out = site.post(&format!("/account/sessions/{own}/revocation"), &here, "").await;
    assert_eq!(location(&out), "/sign-in");
    assert_eq!(site.get("/jobs", &here).await.status(), StatusCode::SEE_OTHER);
}

async fn session_of(site: &Site, cookie: &str) -> domain::id::SessionId {
    let secret = domain::people::bearer::BearerSecret::received(cookie.strip_prefix("session=").unwrap());
    site.state.store.session_by_secret(&secret).await.unwrap().unwrap().id
}

#[tokio::test]
async fn the_first_admin_is_made_with_the_code_and_once() {
    let site = Site::of(Instance::new().await, false).await;
    let code = site.state.first_admin.code().unwrap();
    let form = |code: &str, password: &str| format!("code={code}&email=ada%40example.org&password={password}");

    let wrong = site.post("/setup", "", &form("0000-0000", "correct+horse")).await;
    assert_eq!(location(&wrong), "/sign-in?problem=code&email=ada%40example.org");
    let weak = site.post("/setup", "", &form(&code, "short")).await;
    assert_eq!(location(&weak), "/sign-in?problem=weak&email=ada%40example.org");
    let right = site.post("/setup", "", &form(&code, "correct+horse")).await;
    assert_eq!(location(&right), "/");
    assert_eq!(text(site.get("/jobs", &cookie(&right)).await).await, "ada@example.org admin UTC");
    let again = site.post("/setup", "", &form(&code, "correct+horse")).await;
    assert_eq!(location(&again), "/sign-in?problem=code&email=ada%40example.org");
}

#[tokio::test]
async fn the_browser_is_told_what_to_refuse() {
    for secure in [false, true] {
        let site = Site::new(secure).await;
        let cookie = site.sign_in().await;
        let response = site.get("/nonce", &cookie).await;
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let csp = header("content-security-policy").unwrap();
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(header(name).as_deref(), Some(value));
        }
        assert_eq!(header("strict-transport-security").is_some(), secure);
        let nonce = text(response).await;
        assert_eq!(
            csp,
            format!(
                "default-src 'self'; script-src 'self' 'nonce-{nonce}' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; \
                 object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
            )
        );
        assert_ne!(text(site.get("/nonce", &cookie).await).await, nonce);
        assert_eq!(site.get("/kept", &cookie).await.headers()[CACHE_CONTROL], "private, max-age=60");
        assert!(site.get("/nonce", "").await.headers().get(CACHE_CONTROL).is_none());
    }
}

#[tokio::test]
async fn a_public_origin_with_a_path_is_refused() {
    assert!(csrf("https://recount.example/app").is_err());
    assert!(csrf("recount.example").is_err());
}
