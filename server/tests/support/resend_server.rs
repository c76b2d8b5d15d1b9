//! A fake of Resend's API that keeps its promise about keys, and misbehaves at exactly one point.
//!
//! It counts the messages that it has *taken*, the truth that a client's answer is compared with. It never sleeps: a hang
//! lasts until the client is gone, a held answer until the test lets it go, and its clock stands still until the test moves it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use chrono::TimeDelta;
use mail::resend::{Resend, ResendSettings};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::instance::PATIENCE;

/// What the server does with one request.
#[derive(Clone, Debug)]
pub enum Act {
    /// What the documentation says.
    Serve,
    /// When the head has come, whatever follows it.
    Early(Ending),
    /// When the message has begun to come.
    Begun(Ending),
    /// When the message is there: takes it by the rules of the keys, and then fails to say so properly.
    Taken(Ending),
    /// When the message is there: does not take it.
    Dropped(Ending),
}

/// How an exchange ends instead of a good answer.
#[derive(Clone, Debug)]
pub enum Ending {
    Close,
    /// RST instead of FIN.
    Reset,
    /// Says nothing until the client has gone.
    Hang,
    /// A status and a text.
    Say(u16, &'static str),
    /// These bytes, and closes.
    Raw(&'static str),
    /// These bytes, and then nothing until the client has gone.
    RawThenHang(&'static str),
    /// Takes the message when the test calls [`Api::release`], and says so. Until then the key is in use.
    Hold,
}

/// How long a key is recognised.
const KEY_LIFE: TimeDelta = TimeDelta::hours(24);

/// One message that the service has taken.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub payload: String,
}

struct Known {
    payload: String,
    since: TimeDelta,
    /// None while the first request under the key is being worked on.
    id: Option<String>,
}

#[derive(Default)]
struct State {
    now: TimeDelta,
    keys: HashMap<String, Known>,
    taken: Vec<Message>,
    /// Heads and bodies of complete requests, in order.
    requests: Vec<(String, String)>,
    /// Requests whose body never began.
    without_body: usize,
}

struct Shared {
    acts: Mutex<VecDeque<Act>>,
    state: Mutex<State>,
    open: watch::Sender<usize>,
    heads: Semaphore,
    reached: Semaphore,
    released: Semaphore,
    over: CancellationToken,
    keeps_message_ids: bool,
    may_list: bool,
}

/// A running server; it stops with the runtime.
pub struct Api {
    pub port: u16,
    shared: Arc<Shared>,
}

/// Settings that lead to this address.
pub fn account(base_url: &str) -> ResendSettings {
    ResendSettings {
        api_key: SecretString::from("re_test"),
        base_url: base_url.to_owned(),
        from: "Recount <r@example.org>".into(),
        connect_seconds: 30,
        idle_seconds: 60,
        max_seconds: 300,
    }
}

/// A listener that does one thing with every connection.
pub async fn listener<F: Future<Output = ()> + Send>(act: impl Fn(TcpStream) -> F + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            act(socket).await;
        }
    });
    port
}

/// What differs from the usual account.
#[derive(Clone, Copy)]
pub struct Account {
    /// Whether the list shows the Message-ID that came with a message, or one of the service's own.
    pub keeps_message_ids: bool,
    /// Whether the API key may read the list.
    pub may_list: bool,
}

impl Api {
    /// The first request meets the first act and so on; every later one is served well.
    pub async fn start(acts: Vec<Act>) -> Self {
        Self::start_for(acts, Account { keeps_message_ids: true, may_list: true }).await
    }

    pub async fn start_for(acts: Vec<Act>, account: Account) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            acts: Mutex::new(acts.into()),
            state: Mutex::default(),
            open: watch::Sender::new(0),
            heads: Semaphore::new(0),
            reached: Semaphore::new(0),
            released: Semaphore::new(0),
            over: CancellationToken::new(),
            keeps_message_ids: account.keeps_message_ids,
            may_list: account.may_list,
        });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                serving.open.send_modify(|n| *n += 1);
                let shared = serving.clone();
                tokio::spawn(async move {
                    serve(socket, &shared).await;
                    shared.open.send_modify(|n| *n -= 1);
                });
            }
        });
        Self { port, shared }
    }

    /// Settings that lead here.
    pub fn settings(&self) -> ResendSettings {
        account(&format!("http://127.0.0.1:{}", self.port))
    }

    pub fn channel(&self) -> Resend {
        Resend::new(&self.settings()).expect("settings")
    }

    /// Waits until the head of a request has come.
    pub async fn head_seen(&self) {
        timeout(PATIENCE, self.shared.heads.acquire()).await.expect("a head comes").expect("open").forget();
    }

    /// Waits until an exchange has come to its hang or hold.
    pub async fn reached(&self) {
        self.shared.reached.acquire().await.expect("open").forget();
    }

    /// Lets one held answer go.
    pub fn release(&self) {
        self.shared.released.add_permits(1);
    }

    /// Ends what hangs, and waits until every client is gone. Only from then on the numbers below are final.
    pub async fn finished(&self) {
        self.shared.over.cancel();
        self.closed().await;
    }

    /// Like `finished`, but a hanging server goes on hanging: passes only if the client leaves.
    pub async fn closed(&self) {
        let mut open = self.shared.open.subscribe();
        open.wait_for(|n| *n == 0).await.expect("server is alive");
    }

    /// Moves the service's clock, by which it forgets keys.
    pub fn advance(&self, by: TimeDelta) {
        self.state(|state| state.now += by);
    }

    /// The messages that the service has taken responsibility for.
    pub fn taken(&self) -> Vec<Message> {
        self.state(|state| state.taken.clone())
    }

    /// Heads and bodies of the complete requests.
    pub fn requests(&self) -> Vec<(String, String)> {
        self.state(|state| state.requests.clone())
    }

    /// How many requests have come without any of their body.
    pub fn without_body(&self) -> usize {
        self.state(|state| state.without_body)
    }

    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        self.shared.state(work)
    }
}

impl Shared {
    fn state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().expect("no test panics while holding it"))
    }
}

async fn serve(mut socket: TcpStream, shared: &Shared) -> Option<()> {
    let (head, mut body) = read_head(&mut socket).await?;
    if head.starts_with("GET ") {
        let (status, text) = list(&head, shared);
        return say(&mut socket, status, &text).await;
    }
    let act = shared.acts.lock().expect("no test panics while holding it").pop_front().unwrap_or(Act::Serve);
    shared.state(|state| state.without_body += usize::from(body.is_empty()));
    shared.heads.add_permits(1);
    if let Act::Early(ending) = &act {
        return end(&mut socket, ending, shared).await;
    }
    let length: usize = header(&head, "content-length")?.parse().ok()?;
    let enough = if matches!(act, Act::Begun(_)) { 1 } else { length };
    let mut buffer = vec![0_u8; 8_192];
    while body.len() < enough {
        let count = socket.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&buffer[..count]);
    }
    shared.state(|state| state.without_body = 0);
    let payload = String::from_utf8(body).ok()?;
    shared.state(|state| {
        state.requests.push((head.clone(), payload.clone()));
    });
    let key = header(&head, "idempotency-key")?;
    match act {
        Act::Serve => {
            let (status, text) = take(key, &payload, shared);
            say(&mut socket, status, &text).await
        }
        Act::Taken(Ending::Hold) => {
            let at_once = begin(key, &payload, shared);
            if at_once.is_none() {
                wait(&mut socket, shared).await;
            }
            let (status, text) = at_once.unwrap_or_else(|| complete(key, shared));
            say(&mut socket, status, &text).await
        }
        Act::Taken(ending) => {
            take(key, &payload, shared);
            end(&mut socket, &ending, shared).await
        }
        Act::Early(ending) | Act::Begun(ending) | Act::Dropped(ending) => end(&mut socket, &ending, shared).await,
    }
}

/// The rules of the keys: an answer at once, or `None` when this request is the first and still to be worked on.
fn begin(key: &str, payload: &str, shared: &Shared) -> Option<(u16, String)> {
    shared.state(|state| {
        let now = state.now;
        state.keys.retain(|_, known| now < known.since + KEY_LIFE);
        match state.keys.get(key) {
            None => {
                state.keys.insert(key.to_owned(), Known { payload: payload.to_owned(), since: now, id: None });
                None
            }
            Some(known) if known.payload != payload => Some((409, error(409, "invalid_idempotent_request"))),
            Some(Known { id: None, .. }) => Some((409, error(409, "concurrent_idempotent_requests"))),
            Some(Known { id: Some(id), .. }) => Some((200, json!({ "id": id }).to_string())),
        }
    })
}

fn complete(key: &str, shared: &Shared) -> (u16, String) {
    shared.state(|state| {
        let id = format!("00000000-0000-4000-8000-{:012}", state.taken.len() + 1);
        let known = state.keys.get_mut(key).expect("it has begun");
        known.id = Some(id.clone());
        state.taken.push(Message { id: id.clone(), payload: known.payload.clone() });
        (200, json!({ "id": id }).to_string())
    })
}

fn take(key: &str, payload: &str, shared: &Shared) -> (u16, String) {
    begin(key, payload, shared).unwrap_or_else(|| complete(key, shared))
}

/// `GET /emails?limit=…&after=…`, the newest first.
fn list(head: &str, shared: &Shared) -> (u16, String) {
    if !shared.may_list {
        return (401, error(401, "restricted_api_key"));
    }
    let query = |name: &str| {
        let target = head.split(' ').nth(1)?;
        target.split_once('?')?.1.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    };
    let limit: usize = query("limit").and_then(|limit| limit.parse().ok()).unwrap_or(20).min(100);
    let messages = shared.state(|state| state.taken.clone());
    let mut newest = messages.iter().rev().skip_while(|message| query("after").is_some_and(|id| id != message.id)).peekable();
    if query("after").is_some() {
        newest.next();
    }
    let page = newest.by_ref().take(limit).map(|message| {
        let payload: Value = serde_json::from_str(&message.payload).expect("JSON");
        let given = payload["headers"]["Message-ID"].clone();
        let message_id = if shared.keeps_message_ids { given } else { json!(format!("<{}@service.test>", message.id)) };
        json!({"id": message.id, "message_id": message_id, "to": payload["to"], "subject": payload["subject"]})
    });
    let page: Vec<Value> = page.collect();
    (200, json!({"object": "list", "has_more": newest.peek().is_some(), "data": page}).to_string())
}

fn error(status: u16, name: &str) -> String {
    json!({"statusCode": status, "name": name, "message": "as the documentation says"}).to_string()
}

async fn end(socket: &mut TcpStream, ending: &Ending, shared: &Shared) -> Option<()> {
    match ending {
        Ending::Close => socket.shutdown().await.ok()?,
        Ending::Reset => socket.set_zero_linger().expect("a TCP socket"),
        Ending::Hang | Ending::Hold => wait(socket, shared).await,
        Ending::Say(status, text) => say(socket, *status, text).await?,
        Ending::Raw(bytes) => {
            socket.write_all(bytes.as_bytes()).await.ok()?;
            socket.shutdown().await.ok()?;
        }
        Ending::RawThenHang(bytes) => {
            socket.write_all(bytes.as_bytes()).await.ok()?;
            wait(socket, shared).await;
        }
    }
    None
}

/// Until the client is gone, the test lets go, or it is over.
async fn wait(socket: &mut TcpStream, shared: &Shared) {
    shared.reached.add_permits(1);
    let mut rest = [0; 64];
    let gone = async { while socket.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
    tokio::select! {
        () = gone => {}
        permit = shared.released.acquire() => permit.expect("open").forget(),
        () = shared.over.cancelled() => {}
    }
}

async fn say(socket: &mut TcpStream, status: u16, text: &str) -> Option<()> {
    let head = format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", text.len());
    socket.write_all((head + text).as_bytes()).await.ok()?;
    socket.shutdown().await.ok()
}

/// The head, and what came of the body with it.
async fn read_head(socket: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0_u8; 8_192];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Some((String::from_utf8(bytes).ok()?, body));
        }
        let count = socket.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// A header of a request's head.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}
