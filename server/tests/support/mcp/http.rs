//! A client of `/mcp` on a bare connection, which a test can close at any byte.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Duration, Instant, timeout},
};

use super::{Declared, REVISION, call, request};
use crate::support::instance::PATIENCE;

/// Somebody with a token.
#[derive(Clone)]
pub struct Http {
    address: String,
    token: String,
}

/// One exchange on a connection of its own.
pub struct Exchange {
    socket: TcpStream,
    raw: Vec<u8>,
    head: Option<String>,
    /// The body, without the marks of its chunks.
    body: Vec<u8>,
    messages: VecDeque<Value>,
    ended: bool,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    /// The last message, which answers the request.
    pub body: Value,
}

impl Http {
    /// At a server, by its address.
    pub fn at(url: &str, token: &str) -> Self {
        let address = url.strip_prefix("http://").expect("a plain address").to_owned();
        Self { address, token: token.to_owned() }
    }

    /// Sends a message with the headers that go with it, and others instead of or besides those.
    pub async fn post_with(&self, message: &Value, headers: &[(&str, &str)]) -> Exchange {
        let method = message["method"].as_str().unwrap_or_default();
        let params = &message["params"];
        let name = [&params["name"], &params["uri"], &params["taskId"]].into_iter().find_map(Value::as_str);
        let bearer = format!("Bearer {}", self.token);
        let mut all = vec![("host", self.address.as_str()), ("authorization", &bearer), ("mcp-method", method)];
        if message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == REVISION {
            all.push(("mcp-protocol-version", REVISION));
        }
        if let Some(name) = name {
            all.push(("mcp-name", name));
        }
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
        all.extend(headers);
        // An empty value is none.
        all.retain(|(_, value)| !value.is_empty());
        let lines: Vec<String> = all.into_iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let body = message.to_string();
        let text = format!(
            "POST /mcp HTTP/1.1\r\n{}content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
             content-length: {}\r\n\r\n{body}",
            lines.concat(),
            body.len()
        );
        self.write(&text).await
    }

    /// Sends these bytes.
    pub async fn write(&self, text: &str) -> Exchange {
        let mut socket = TcpStream::connect(&self.address).await.expect("it listens");
        socket.write_all(text.as_bytes()).await.expect("it reads");
        Exchange { socket, raw: Vec::new(), head: None, body: Vec::new(), messages: VecDeque::new(), ended: false }
    }

    pub async fn post(&self, message: &Value) -> Exchange {
        self.post_with(message, &[]).await
    }

    /// Calls a tool without waiting for its answer.
    pub async fn begin(&self, tool: &str, arguments: &Value, declared: Declared) -> Exchange {
        self.post(&call(1, tool, arguments, declared)).await
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&self, method: &str, params: Value, declared: Declared) -> Answer {
        self.post(&request(1, method, params, declared)).await.answer().await
    }

    /// Calls a tool and waits for its result.
    pub async fn tool(&self, tool: &str, arguments: &Value) -> Value {
        let answer = self.begin(tool, arguments, Declared::default()).await.answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.get("error").is_none(), "{answer:?}");
        answer.body["result"].clone()
    }

    /// Asks for a task.
    pub async fn task(&self, id: &str) -> Value {
        self.ask("tasks/get", json!({"taskId": id}), super::TASKS).await.body
    }

    /// Presses a task's Cancel.
    pub async fn cancel_task(&self, id: &str) -> Value {
        self.ask("tasks/cancel", json!({"taskId": id}), super::TASKS).await.body
    }

    /// Polls a task until it is terminal.
    pub async fn end_of_task(&self, id: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let task = self.task(id).await["result"].clone();
            if task["status"] != "working" {
                return task;
            }
            assert!(Instant::now() < deadline, "the task does not end: {task}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Exchange {
    /// Reads on; `false` at the end.
    async fn read(&mut self) -> bool {
        let mut buffer = [0_u8; 8_192];
        let count = timeout(PATIENCE, self.socket.read(&mut buffer)).await.expect("it goes on").unwrap_or(0);
        self.raw.extend_from_slice(&buffer[..count]);
        self.take();
        count > 0
    }

    fn take(&mut self) {
        if self.head.is_none() {
            let Some(end) = self.raw.windows(4).position(|window| window == b"\r\n\r\n") else { return };
            self.head = Some(String::from_utf8_lossy(&self.raw[..end]).to_lowercase());
            self.raw.drain(..end + 4);
        }
        let head = self.head.clone().unwrap_or_default();
        if head.contains("transfer-encoding: chunked") {
            while let Some(line) = self.raw.windows(2).position(|window| window == b"\r\n") {
                let size = usize::from_str_radix(&String::from_utf8_lossy(&self.raw[..line]), 16).expect("a size");
                if self.raw.len() < line + 2 + size + 2 {
                    break;
                }
                self.body.extend_from_slice(&self.raw[line + 2..line + 2 + size]);
                self.raw.drain(..line + 2 + size + 2);
                self.ended |= size == 0;
            }
        } else {
            self.body.append(&mut self.raw);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
            self.ended |= length.is_none_or(|length: usize| self.body.len() >= length);
        }
        if head.contains("text/event-stream") {
            while let Some(end) = self.body.windows(2).position(|window| window == b"\n\n") {
                let event = String::from_utf8_lossy(&self.body[..end]).into_owned();
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                self.messages.extend(data.map(|data| serde_json::from_str(data).expect("JSON")));
                self.body.drain(..end + 2);
            }
        } else if self.ended && !self.body.is_empty() {
            let body = std::mem::take(&mut self.body);
            let text = String::from_utf8_lossy(&body).into_owned();
            self.messages.push_back(serde_json::from_slice(&body).unwrap_or(Value::String(text)));
        }
    }

    /// Whether anything has come yet, without waiting for it.
    pub fn is_silent(&mut self) -> bool {
        let mut buffer = [0_u8; 1];
        self.raw.is_empty() && self.head.is_none() && self.socket.try_read(&mut buffer).is_err()
    }

    /// Waits for the next message; `None` at the end.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Some(message);
            }
            if self.ended || !self.read().await {
                return None;
            }
        }
    }

    /// Waits for a progress with a sentence that begins so.
    pub async fn progress(&mut self, beginning: &str) -> Value {
        while let Some(message) = self.message().await {
            if message["params"]["message"].as_str().is_some_and(|text| text.starts_with(beginning)) {
                return message;
            }
        }
        panic!("no progress \"{beginning}\" came")
    }

    /// Waits for the whole answer.
    pub async fn answer(mut self) -> Answer {
        let mut body = Value::Null;
        while let Some(message) = self.message().await {
            body = message;
        }
        let head = self.head.expect("it answers");
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
        Answer { status, head, body }
    }
}
