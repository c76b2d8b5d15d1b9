//! A model server that does what a test tells it to, and reports what it saw.
//!
//! Written on bare sockets, because the tests are about connections: when they are closed, and by whom.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// One thing the server does while answering.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Send(String),
    /// Sends the text again and again until the client is gone.
    Drip(String),
    /// Nothing until the client is gone.
    Hang,
    /// Ends the body properly.
    Finish,
    /// Drops the connection in the middle of the body.
    Reset,
}

#[derive(Debug, Clone)]
pub(super) enum Reaction {
    Status(u16, &'static str, &'static str),
    /// Not even a status line.
    Silence,
    Stream(Vec<Step>),
    /// This status, this text, and then the second one again and again, as fast as it is taken, until the client is gone.
    Flood(u16, &'static str, &'static str),
}

/// One piece of an answer as `OpenAI`-compatible servers stream it.
pub(super) fn chunk(text: &str) -> Step {
    Step::Send(format!("data: {}\n\n", json!({"id": "answer-7", "choices": [{"index": 0, "delta": {"content": text}}]})))
}

/// A whole answer that ends for `finish_reason`.
pub(super) fn answer(text: &str, finish_reason: &str) -> Reaction {
    let end = json!({"id": "answer-7", "choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]});
    let usage = json!({"id": "answer-7", "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 4096, "total_tokens": 4996}});
    let tail = Step::Send(format!("data: {end}\n\ndata: {usage}\n\ndata: [DONE]\n\n"));
    Reaction::Stream(if text.is_empty() { vec![tail, Step::Finish] } else { vec![chunk(text), tail, Step::Finish] })
}

pub(super) struct FakeServer {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    /// Bytes sent in floods.
    flooded: Arc<AtomicUsize>,
    /// One message for each answer whose script has come to `Hang`, `Drip`, `Silence` or a flood.
    pub(super) waiting: UnboundedReceiver<()>,
    /// When a client closed its connection while the server was waiting.
    pub(super) closed: UnboundedReceiver<Instant>,
}

#[derive(Clone)]
struct Reports {
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    flooded: Arc<AtomicUsize>,
    waiting: UnboundedSender<()>,
    closed: UnboundedSender<Instant>,
}

impl FakeServer {
    /// Starts a server that reacts to its first request with the first reaction and so on; the last one repeats.
    pub(super) async fn start(reactions: Vec<Reaction>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let ((waiting, saw_waiting), (closed, saw_closed)) = (unbounded_channel(), unbounded_channel());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let flooded = Arc::new(AtomicUsize::new(0));
        let reports = Reports { requests: Arc::clone(&requests), flooded: Arc::clone(&flooded), waiting, closed };
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, reactions.clone(), reports.clone()));
            }
        });
        Self { address, requests, flooded, waiting: saw_waiting, closed: saw_closed }
    }

    /// Bytes that its floods could send before their clients were gone.
    pub(super) fn flooded(&self) -> usize {
        self.flooded.load(SeqCst)
    }

    /// Path and body of each request so far.
    pub(super) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().expect("no test panics while holding it").clone()
    }
}

async fn serve(mut socket: TcpStream, reactions: Vec<Reaction>, reports: Reports) -> Option<()> {
    let request = read_request(&mut socket).await?;
    let index = {
        let mut requests = reports.requests.lock().expect("no test panics while holding it");
        requests.push(request);
        requests.len() - 1
    };
    match reactions.get(index).or(reactions.last())? {
        Reaction::Status(status, headers, body) => {
            let head =
                format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
            socket.write_all(head.as_bytes()).await.ok()?;
        }
        Reaction::Silence => wait(&mut socket, &reports, None).await,
        Reaction::Flood(status, beginning, again) => {
            let head = format!("HTTP/1.1 {status} x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
            socket.write_all(head.as_bytes()).await.ok()?;
            if !beginning.is_empty() {
                send(&mut socket, beginning).await?;
            }
            // The test may have ended already; then nobody listens.
            let _ = reports.waiting.send(());
            let text = again.repeat(8_192 / again.len() + 1);
            while send(&mut socket, &text).await.is_some() {
                reports.flooded.fetch_add(text.len(), SeqCst);
            }
            let _ = reports.closed.send(Instant::now());
            return None;
        }
        Reaction::Stream(steps) => {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
            socket.write_all(head.as_bytes()).await.ok()?;
            for step in steps {
                match step {
                    Step::Send(text) => send(&mut socket, text).await?,
                    Step::Drip(text) => wait(&mut socket, &reports, Some(text)).await,
                    Step::Hang => wait(&mut socket, &reports, None).await,
                    Step::Finish => socket.write_all(b"0\r\n\r\n").await.ok()?,
                    Step::Reset => return None,
                }
            }
        }
    }
    socket.shutdown().await.ok()
}

async fn send(socket: &mut TcpStream, text: &str) -> Option<()> {
    socket.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await.ok()
}

/// Waits, sending `drip` every now and then, until the client closes the connection.
async fn wait(socket: &mut TcpStream, reports: &Reports, drip: Option<&str>) {
    // The test may have ended already; then nobody listens.
    let _ = reports.waiting.send(());
    let mut byte = [0_u8; 1];
    loop {
        tokio::select! {
            read = socket.read(&mut byte) => if !matches!(read, Ok(1)) { break },
            () = tokio::time::sleep(Duration::from_millis(15)) => {
                if let Some(text) = drip && send(socket, text).await.is_none() { break }
            }
        }
    }
    let _ = reports.closed.send(Instant::now());
}

async fn read_request(socket: &mut TcpStream) -> Option<(String, Value)> {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 8_192];
    loop {
        let count = socket.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..head_end]).to_lowercase();
        let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
        if bytes.len() >= head_end + 4 + length {
            let path = String::from_utf8_lossy(&bytes).split(' ').nth(1)?.to_owned();
            return Some((path, serde_json::from_slice(&bytes[head_end + 4..]).ok()?));
        }
    }
}
