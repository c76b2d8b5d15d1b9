//! A fake S3 with one bucket, which can fail, hold an upload, and lie about what it has.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Bytes, to_bytes},
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use store::files::{Files, FilesSettings, OpenError};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};

use super::instance::PATIENCE;

/// The longest request, in bytes.
const LONGEST: usize = 10_000_000;
const KEY_ID: &str = "AKIATEST";

/// What the service does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Serve,
    /// Answers with this status and an error code.
    Say(u16, &'static str),
    /// Takes an upload when the test calls [`S3::release`].
    HoldUploads,
    /// Never answers.
    Hang,
}

#[derive(Debug, Clone)]
pub struct Object {
    pub bytes: Bytes,
    pub modified: DateTime<Utc>,
}

struct Shared {
    mood: Mutex<Mood>,
    objects: Mutex<BTreeMap<String, Object>>,
    /// What new objects get as their time.
    now: DateTime<Utc>,
    /// Method and path of each request, in order.
    requests: Mutex<Vec<String>>,
    /// How many requests there have been.
    count: watch::Sender<usize>,
    reached: Semaphore,
    released: Semaphore,
}

/// A running service; it stops with the runtime, or when the test stops it.
pub struct S3 {
    port: u16,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl S3 {
    pub async fn start(now: DateTime<Utc>) -> Self {
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Serve),
            objects: Mutex::default(),
            now,
            requests: Mutex::default(),
            count: watch::Sender::new(0),
            reached: Semaphore::new(0),
            released: Semaphore::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let port = listener.local_addr().expect("an address").port();
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { port, shared, serving }
    }

    /// The store in this service, for every file.
    pub fn files(&self) -> Files {
        self.files_at("s3://bucket/office").expect("settings")
    }

    pub fn files_at(&self, store: &str) -> Result<Files, OpenError> {
        let environment = [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ENDPOINT_URL", &format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true"),
            ("UNRELATED", "x"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Files::open(&FilesSettings { store: store.into(), in_database_up_to_mb: 0 }, environment)
    }

    pub fn set(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    pub fn objects(&self) -> BTreeMap<String, Object> {
        self.shared.objects.lock().unwrap().clone()
    }

    pub fn put(&self, key: &str, bytes: &'static [u8], modified: DateTime<Utc>) {
        let object = Object { bytes: Bytes::from_static(bytes), modified };
        self.shared.objects.lock().unwrap().insert(key.into(), object);
    }

    pub fn remove(&self, key: &str) {
        self.shared.objects.lock().unwrap().remove(key).expect("it is there");
    }

    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// Waits for a request after the first `count` ones.
    pub async fn request_after(&self, count: usize) {
        let mut counting = self.shared.count.subscribe();
        let _ = timeout(PATIENCE, counting.wait_for(|seen| *seen > count)).await.expect("a request comes");
    }

    /// Waits until a request is being held.
    pub async fn reached(&self) {
        timeout(PATIENCE, self.shared.reached.acquire()).await.expect("a request comes").expect("it is open").forget();
    }

    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// Refuses connections from now on.
    pub async fn stop(&mut self) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, LONGEST).await.expect("a whole request");
    let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
    let request = format!("{} {path}", head.method);
    shared.requests.lock().unwrap().push(request.clone());
    shared.count.send_modify(|count| *count += 1);
    if let Err(why) = signed(&head.headers, &body) {
        return (StatusCode::FORBIDDEN, format!("<Error><Code>{why}</Code></Error>")).into_response();
    }
    let mood = *shared.mood.lock().unwrap();
    match mood {
        Mood::Say(status, code) => {
            let status = StatusCode::from_u16(status).expect("a status");
            return (status, format!("<Error><Code>{code}</Code></Error>")).into_response();
        }
        Mood::HoldUploads if head.method == Method::PUT => {
            shared.reached.add_permits(1);
            shared.released.acquire().await.expect("it is open").forget();
        }
        Mood::Serve | Mood::HoldUploads => {}
        Mood::Hang => {
            shared.reached.add_permits(1);
            std::future::pending::<()>().await;
        }
    }
    let mut objects = shared.objects.lock().unwrap();
    let Some(rest) = path.strip_prefix("/bucket") else {
        return (StatusCode::NOT_FOUND, "<Error><Code>NoSuchBucket</Code></Error>").into_response();
    };
    let key = rest.trim_start_matches('/').to_owned();
    match head.method {
        Method::PUT => {
            let modified = shared.now;
            objects.insert(key, Object { bytes: body, modified });
            [("etag", "\"1\"")].into_response()
        }
        Method::GET if key.is_empty() => listing(&objects, &query),
        Method::GET => match objects.get(&key) {
            Some(Object { bytes, modified }) => {
                let modified = modified.format("%a, %d %b %Y %H:%M:%S GMT").to_string();
                ([("etag", "\"1\"".to_owned()), ("last-modified", modified)], bytes.clone()).into_response()
            }
            None => (StatusCode::NOT_FOUND, "<Error><Code>NoSuchKey</Code></Error>").into_response(),
        },
        Method::POST if query.starts_with("delete") => {
            let text = String::from_utf8_lossy(&body).into_owned();
            let mut said = String::from("<DeleteResult>");
            for key in text.split("<Key>").skip(1).filter_map(|part| part.split("</Key>").next()) {
                objects.remove(key);
                write!(said, "<Deleted><Key>{key}</Key></Deleted>").expect("memory");
            }
            said.push_str("</DeleteResult>");
            said.into_response()
        }
        _ => panic!("the fake does not know {request}?{query}"),
    }
}

fn listing(objects: &BTreeMap<String, Object>, query: &str) -> Response {
    let query: BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let prefix = query.get("prefix").map_or("", String::as_str);
    let mut said = String::from("<ListBucketResult>");
    for (key, Object { bytes, modified }) in objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        let (modified, size) = (modified.to_rfc3339(), bytes.len());
        write!(said, "<Contents><Key>{key}</Key><LastModified>{modified}</LastModified><Size>{size}</Size></Contents>")
            .expect("memory");
    }
    said.push_str("</ListBucketResult>");
    said.into_response()
}

/// Whether a request is signed as AWS Signature Version 4 demands, for this body. The signature itself is not computed again.
fn signed(headers: &http::HeaderMap, body: &[u8]) -> Result<(), &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = header("authorization").ok_or("MissingSecurityHeader")?;
    let (date, hash) = (header("x-amz-date").ok_or("NoDate")?, header("x-amz-content-sha256").ok_or("NoHash")?);
    let scope = format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/{}/eu-central-1/s3/aws4_request", &date[..8]);
    let names = authorization.split("SignedHeaders=").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
    let signature = authorization.split("Signature=").nth(1).unwrap_or_default();
    let digest = Sha256::digest(body).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let all = ["host", "x-amz-content-sha256", "x-amz-date"].iter().all(|name| names.split(';').any(|signed| signed == *name));
    if !authorization.starts_with(&scope) || !all || signature.len() != 64 {
        return Err("SignatureDoesNotMatch");
    }
    if hash == digest { Ok(()) } else { Err("XAmzContentSHA256Mismatch") }
}
