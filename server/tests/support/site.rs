//! The whole site over one instance, asked without a network, by people and by programs.

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, to_bytes},
};
use documents::source::setting::{Reads, SourceSetting};
use domain::{id::UserId, people::Scopes};
use futures_util::StreamExt;
use http::{
    HeaderMap, Request, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, LOCATION},
    request::Builder,
};
use serde_json::Value;
use server::{
    http::{AppState, PeopleState, router},
    service::{Service, first_admin::FirstAdmin},
    settings::{Settings, UploadSettings},
    worker::Dependencies,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::instance::{Instance, PATIENCE};

/// The most that a test reads of an answer, in bytes.
const LONGEST: usize = 10_000_000;

/// A key for requests that are sent again.
pub const KEY: &str = "6f9619ff-8b86-4011-b42d-00c04fc964ff";

/// A site with one allowed folder, `Minutes`. Uploads may have 1 MB each and 2 MB together.
pub struct Site {
    pub instance: Instance,
    pub shutdown: CancellationToken,
    router: Router,
}

impl Site {
    pub async fn new() -> Self {
        let instance = Instance::new().await;
        let dependencies = instance.dependencies();
        Self::of(instance, dependencies).await
    }

    pub async fn of(instance: Instance, dependencies: Dependencies) -> Self {
        let settings = Settings {
            sources: vec![SourceSetting { name: "Minutes".into(), reads: Reads::Folder(instance.folder().join("minutes")) }],
            folder: instance.folder().to_owned(),
            uploads: UploadSettings { max_file_mb: 1, max_total_mb: 2 },
            ..Settings::default()
        };
        let service = Service::new(Arc::new(dependencies), Arc::new(settings));
        let people = PeopleState {
            store: instance.store.clone(),
            first_admin: Arc::new(FirstAdmin::at_start(&instance.store).await.expect("the database works")),
            secure: false,
        };
        let shutdown = CancellationToken::new();
        let state = AppState::new(service, people, shutdown.clone());
        Self { instance, shutdown, router: router(state, "http://recount.test").expect("a good address") }
    }

    pub async fn ask(&self, request: Request<Body>) -> http::Response<Body> {
        let what = format!("{} {}", request.method(), request.uri());
        let answer = timeout(PATIENCE, self.router.clone().oneshot(request)).await;
        answer.unwrap_or_else(|_| panic!("{what} is not answered")).expect("the router always answers")
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = self.ask(request).await.into_parts();
        let bytes = timeout(PATIENCE, to_bytes(body, LONGEST)).await.expect("the answer ends").expect("it is not too long");
        Answer { status: parts.status, headers: parts.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    /// A program that acts for a person.
    pub async fn program(&self, user: UserId) -> Caller<'_> {
        self.limited_program(user, Scopes::ALL).await
    }

    /// A program that may not do all that the person may do.
    pub async fn limited_program(&self, user: UserId, scopes: Scopes) -> Caller<'_> {
        let token = self.instance.store.create_token(user, "test", scopes).await.expect("the database works");
        Caller { site: self, name: AUTHORIZATION.as_str(), value: format!("Bearer {}", token.expose()) }
    }

    /// A browser that a person has signed in with.
    pub async fn browser(&self, user: UserId) -> Caller<'_> {
        let secret = self.instance.store.create_session(user, "Test", None).await.expect("the database works");
        Caller { site: self, name: COOKIE.as_str(), value: format!("session={}", secret.expose()) }
    }

    /// Somebody whom nobody knows.
    pub fn stranger(&self) -> Caller<'_> {
        Caller { site: self, name: "x-stranger", value: "yes".into() }
    }
}

/// Somebody who asks, in the way in which they prove who they are.
pub struct Caller<'a> {
    site: &'a Site,
    name: &'static str,
    value: String,
}

impl Caller<'_> {
    pub fn request(&self, method: &str, path: &str) -> Builder {
        Request::builder().method(method).uri(path).header(self.name, &self.value).header("host", "recount.test")
    }

    pub async fn get(&self, path: &str) -> Answer {
        let accept = if path.starts_with("/api/") { "application/json" } else { "text/html,*/*;q=0.8" };
        self.site.send(self.request("GET", path).header(ACCEPT, accept).body(Body::empty()).expect("a request")).await
    }

    pub async fn put(&self, path: &str) -> Answer {
        self.site.send(self.request("PUT", path).body(Body::empty()).expect("a request")).await
    }

    /// Orders a report over the API.
    pub async fn order(&self, key: &str, body: &Value) -> Answer {
        let request = self.request("POST", "/api/v1/jobs").header(CONTENT_TYPE, "application/json");
        let request = if key.is_empty() { request } else { request.header("idempotency-key", key) };
        self.site.send(request.body(Body::from(body.to_string())).expect("a request")).await
    }

    /// Sends a JSON body, with [`KEY`] where a key is asked for.
    pub async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let request = self.request(method, path).header(CONTENT_TYPE, "application/json").header("idempotency-key", KEY);
        self.site.send(request.body(Body::from(body.to_owned())).expect("a request")).await
    }

    /// Sends a form without files, already encoded.
    pub async fn fill_in(&self, path: &str, form: &str) -> Answer {
        let request = self.request("POST", path).header("sec-fetch-site", "same-origin");
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.site.send(request.body(Body::from(form.to_owned())).expect("a request")).await
    }

    /// Sends a form as a browser does without a script.
    pub async fn submit(&self, path: &str, form: &Form) -> Answer {
        let request = self
            .request("POST", path)
            .header(ACCEPT, "text/html,*/*;q=0.8")
            .header("sec-fetch-site", "same-origin")
            .header(CONTENT_TYPE, format!("multipart/form-data; boundary={BOUNDARY}"));
        self.site.send(request.body(Body::from(form.body())).expect("a request")).await
    }

    /// Follows the events of a job.
    pub async fn follow(&self, path: &str) -> Events {
        let response = self.site.ask(self.request("GET", path).body(Body::empty()).expect("a request")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Events { body: response.into_body().into_data_stream(), pending: String::new() }
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Where it leads, for a redirect after a form.
    pub fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{self:?}");
        self.headers[LOCATION].to_str().expect("a path")
    }

    /// A page with this status and heading.
    pub fn page(&self, status: u16, heading: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.text.contains(&format!("<h1>{heading}</h1>")), "{self:?}");
    }

    /// The problem document with this status.
    pub fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers[CONTENT_TYPE], "application/problem+json", "{self:?}");
        let document = self.json();
        assert_eq!(document["status"], status);
        document
    }
}

const BOUNDARY: &str = "----between-the-parts";

/// A form with files, as browsers send it.
#[derive(Debug, Clone, Default)]
pub struct Form(Vec<u8>);

impl Form {
    pub fn field(mut self, name: &str, value: &str) -> Self {
        let part = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self.0.extend_from_slice(part.as_bytes());
        self
    }

    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
        );
        self.0.extend_from_slice(head.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.extend_from_slice(b"\r\n");
        self
    }

    fn body(&self) -> Vec<u8> {
        let mut body = self.0.clone();
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        body
    }
}

/// A stream of server-sent events.
pub struct Events {
    body: axum::body::BodyDataStream,
    pending: String,
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub id: Option<i64>,
    pub data: String,
}

impl Events {
    /// The next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.pending.find("\n\n") {
                let block: String = self.pending.drain(..end + 2).collect();
                let field = |name: &str| {
                    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
                };
                let Some(name) = field("event") else { continue };
                let id = field("id").map(|id| id.parse().expect("a version"));
                return Some(Event { name, id, data: field("data").unwrap_or_default() });
            }
            let chunk = timeout(PATIENCE, self.body.next()).await.expect("an event comes")?.expect("the stream is whole");
            self.pending.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
        }
    }
}
