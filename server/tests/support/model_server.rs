//! A model server on loopback that streams as OpenAI-compatible servers do, and does what a test tells it to.
//!
//! Written on bare sockets, because the tests are about connections: when they are closed, and by whom.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use summarize::{ModelSettings, Provider, SummarizerChoice};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    },
    time::{Instant, timeout},
};

use super::{gate::Door, instance::PATIENCE};

/// What the server does with one request.
#[derive(Debug, Clone)]
pub enum Reaction {
    /// A status without a stream.
    Status(u16, &'static str),
    /// Streams this text and ends for this reason.
    Answer(&'static str, &'static str),
    /// Streams this text, then nothing until the client leaves.
    Hold(&'static str),
    /// Streams this text, and once the test says so the next one to its end; whether the client is still there is all the same.
    Deaf(&'static str, &'static str),
    /// This status, and this text again and again, as fast as it is taken, until the client leaves.
    Flood(u16, &'static str),
}

/// A line that does not end.
pub const ENDLESS_LINE: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"x";
/// Pieces of thinking, which are progress.
pub const THINKING: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n";

/// A good answer for two documents.
pub const GOOD: &str = "## Library\n- The council approved 140,000 dollars. [1:1]\n- The library stays open until ten. [2:1]\n";

/// A running server; it stops with the runtime.
pub struct ModelServer {
    address: String,
    shared: Arc<Shared>,
    holding: UnboundedReceiver<()>,
    left: UnboundedReceiver<Instant>,
    ended: UnboundedReceiver<()>,
}

struct Shared {
    reactions: Vec<Reaction>,
    door: Option<Door>,
    requests: Mutex<Vec<Value>>,
    holding: UnboundedSender<()>,
    left: UnboundedSender<Instant>,
    ended: UnboundedSender<()>,
    go_on: Notify,
}

impl ModelServer {
    /// Starts a server that reacts to its first request with the first reaction and so on; the last one repeats.
    pub async fn start(reactions: Vec<Reaction>) -> Self {
        Self::begin(reactions, None).await
    }

    /// A server that answers well, and stands at a point of its own before the answer and in the middle of it.
    pub async fn start_gated(door: Door) -> Self {
        Self::begin(vec![Reaction::Answer(GOOD, "stop")], Some(door)).await
    }

    async fn begin(reactions: Vec<Reaction>, door: Option<Door>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let ((holding, saw_holding), (left, saw_left)) = (unbounded_channel(), unbounded_channel());
        let (ended, saw_the_end) = unbounded_channel();
        let requests = Mutex::default();
        let shared = Arc::new(Shared { reactions, door, requests, holding, left, ended, go_on: Notify::new() });
        let serving = shared.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shared = serving.clone();
                tokio::spawn(async move { serve(socket, &shared).await });
            }
        });
        Self { address, shared, holding: saw_holding, left: saw_left, ended: saw_the_end }
    }

    /// Its address as a base URL.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// A summarizer that asks this server.
    pub fn summarizer(&self) -> SummarizerChoice {
        SummarizerChoice::Model(ModelSettings {
            base_url: Some(self.base_url()),
            first_backoff: Duration::from_millis(1),
            max_attempts: 3,
            ..ModelSettings::new(Provider::OpenAiCompatible, "test-model")
        })
    }

    /// Lets a [`Reaction::Deaf`] server go on, and waits until it has generated its whole answer.
    pub async fn goes_on_to_the_end(&mut self) {
        self.shared.go_on.notify_one();
        timeout(PATIENCE, self.ended.recv()).await.expect("the server goes on").expect("the server lives");
    }

    /// Waits until an answer has come to its [`Reaction::Hold`] or floods, or a deaf server to where it waits for the test.
    pub async fn holding(&mut self) {
        timeout(PATIENCE, self.holding.recv()).await.expect("the server is asked").expect("the server lives");
    }

    /// Waits until a client has left a held answer, and tells when it did.
    pub async fn left(&mut self) -> Instant {
        timeout(PATIENCE, self.left.recv()).await.expect("the client leaves").expect("the server lives")
    }

    /// The bodies of the requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().expect("no test panics while holding it").clone()
    }
}

impl Shared {
    async fn reach(&self, point: &str) {
        if let Some(door) = &self.door {
            door.reach(point.to_owned()).await;
        }
    }
}

async fn serve(mut socket: TcpStream, shared: &Shared) -> Option<()> {
    let request = read_request(&mut socket).await?;
    let index = {
        let mut requests = shared.requests.lock().expect("no test panics while holding it");
        requests.push(request);
        requests.len() - 1
    };
    shared.reach("the model server has the request").await;
    match shared.reactions.get(index).or(shared.reactions.last())? {
        Reaction::Status(status, body) => {
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            socket.write_all(head.as_bytes()).await.ok()?;
        }
        Reaction::Answer(text, reason) => {
            begin(&mut socket, text).await?;
            shared.reach("the model server has sent words").await;
            end(&mut socket, reason).await?;
        }
        Reaction::Hold(text) => {
            begin(&mut socket, text).await?;
            // The test may have ended already; then nobody listens.
            let _ = shared.holding.send(());
            let _ = socket.read(&mut [0_u8; 1]).await;
            let _ = shared.left.send(Instant::now());
            return None;
        }
        Reaction::Flood(status, text) => {
            let head = format!("HTTP/1.1 {status} x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
            socket.write_all(head.as_bytes()).await.ok()?;
            let _ = shared.holding.send(());
            let text = text.repeat(100);
            while send(&mut socket, &text).await.is_some() {}
            let _ = shared.left.send(Instant::now());
            return None;
        }
        Reaction::Deaf(text, rest) => {
            begin(&mut socket, text).await?;
            let _ = shared.holding.send(());
            shared.go_on.notified().await;
            for piece in rest.split_inclusive(' ') {
                let _ = event(&mut socket, &piece_of_text(piece)).await;
            }
            let _ = end(&mut socket, "stop").await;
            let _ = shared.ended.send(());
            return None;
        }
    }
    socket.shutdown().await.ok()
}

async fn begin(socket: &mut TcpStream, text: &str) -> Option<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    socket.write_all(head.as_bytes()).await.ok()?;
    if text.is_empty() {
        return Some(());
    }
    event(socket, &piece_of_text(text)).await
}

fn piece_of_text(text: &str) -> Value {
    json!({"id": "answer-7", "choices": [{"index": 0, "delta": {"content": text}}]})
}

async fn end(socket: &mut TcpStream, reason: &str) -> Option<()> {
    event(socket, &json!({"id": "answer-7", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})).await?;
    send(socket, "data: [DONE]\n\n").await?;
    socket.write_all(b"0\r\n\r\n").await.ok()
}

async fn event(socket: &mut TcpStream, data: &Value) -> Option<()> {
    send(socket, &format!("data: {data}\n\n")).await
}

async fn send(socket: &mut TcpStream, text: &str) -> Option<()> {
    socket.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()
}

/// Reads one request with its body.
async fn read_request(socket: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 8_192];
    loop {
        let count = socket.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
        if bytes.len() >= head_end + 4 + length {
            return serde_json::from_slice(&bytes[head_end + 4..]).ok();
        }
    }
}
