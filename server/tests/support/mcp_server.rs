//! Scripted MCP servers, over both transports: each tool does what its name says (`mcp_server.py`), and everything that reaches
//! the server is told to the test.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use documents::mcp::{Link, Program, ServerSettings, ServerSource, ToolCall, Wanted};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::instance::PATIENCE;

/// How the server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
}

pub const BOTH: [Transport; 2] = [Transport::Stdio, Transport::Http];

/// A server; over stdio, the programs of it that Recount starts.
pub struct McpServer {
    transport: Transport,
    control: u16,
    options: Value,
    url: Option<String>,
    events: watch::Receiver<Vec<Value>>,
    _listening: AbortOnDropHandle<()>,
    child: Option<Child>,
}

impl McpServer {
    pub async fn start(transport: Transport) -> Self {
        Self::with(transport, json!({})).await
    }

    /// With `era` (`"legacy"`), `docs` (resources by name), `kind` (of program) or `token`.
    pub async fn with(transport: Transport, options: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = listener.local_addr().unwrap().port();
        let (sender, events) = watch::channel(Vec::new());
        let sender = Arc::new(sender);
        let listening = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    let mut lines = BufReader::new(stream).lines();
                    let mut pid = Value::Null;
                    while let Ok(Some(line)) = lines.next_line().await {
                        let event: Value = serde_json::from_str(&line).unwrap();
                        pid = event["pid"].clone();
                        sender.send_modify(|events| events.push(event));
                    }
                    sender.send_modify(|events| events.push(json!({ "kind": "gone", "pid": pid })));
                });
            }
        });
        let mut server =
            Self { transport, control, options, url: None, events, _listening: AbortOnDropHandle::new(listening), child: None };
        if transport == Transport::Http {
            let child = Command::new("python3").args(server.arguments("http")).stderr(Stdio::null()).spawn();
            server.child = Some(child.expect("python3"));
            let listens = server.until(|event| event["kind"] == "listens").await;
            server.url = Some(format!("http://127.0.0.1:{}/mcp", listens["port"]));
        }
        server
    }

    fn arguments(&self, transport: &str) -> Vec<String> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/support/mcp_server.py");
        vec![script.display().to_string(), transport.into(), self.control.to_string(), self.options.to_string()]
    }

    /// The address, over HTTP.
    pub fn url(&self) -> &str {
        self.url.as_deref().expect("it listens")
    }

    /// The command line, over stdio.
    pub fn command(&self) -> Vec<String> {
        [vec!["python3".to_owned()], self.arguments("stdio")].concat()
    }

    /// The source "Wiki" with calls of these tools, for the month.
    pub fn source(&self, tools: &[&str]) -> ServerSource {
        let arguments = json!({ "month": "{month}" }).as_object().unwrap().clone();
        let calls = tools.iter().map(|&tool| ToolCall { tool: tool.into(), arguments: arguments.clone() }).collect();
        ServerSource { id: "wiki".into(), name: "Wiki".into(), settings: self.settings(Wanted { resources: None, calls }) }
    }

    /// The source "Wiki" with resources of this pattern.
    pub fn resources(&self, pattern: &str) -> ServerSource {
        let wanted = Wanted { resources: Some(pattern.into()), calls: Vec::new() };
        ServerSource { id: "wiki".into(), name: "Wiki".into(), settings: self.settings(wanted) }
    }

    fn settings(&self, wanted: Wanted) -> ServerSettings {
        let link = match self.transport {
            Transport::Stdio => {
                let mut words = self.command().into_iter();
                Link::Stdio(Program {
                    path: words.next().expect("a program").into(),
                    arguments: words.map(secrecy::SecretString::from).collect(),
                    environment: [("WIKI_TOKEN".to_owned(), "s3cret".into())].into(),
                    folder: None,
                })
            }
            Transport::Http => {
                let bearer = self.options["token"].as_str().map(secrecy::SecretString::from);
                Link::Http { url: self.url().parse().unwrap(), bearer }
            }
        };
        ServerSettings { link, wanted, idle: PATIENCE, max: PATIENCE * 2, tasks: false }
    }

    /// Lets the tasks of `task_waits` end.
    pub async fn release(&self) {
        let port = self.url().rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
        stream.write_all(b"GET /release HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    }

    /// Waits for the first event that passes the test.
    pub async fn until(&self, test: impl Fn(&Value) -> bool) -> Value {
        let mut events = self.events.clone();
        let found = timeout(PATIENCE, async {
            let events = events.wait_for(|events| events.iter().any(&test)).await.unwrap();
            events.iter().find(|event| test(event)).cloned().unwrap()
        });
        found.await.unwrap_or_else(|_| panic!("waited in vain; there were: {:#?}", self.events.borrow()))
    }

    /// Waits until so many requests with this method have arrived.
    pub async fn asked_times(&self, method: &str, times: usize) {
        let arrived = |events: &Vec<Value>| events.iter().filter(|event| event["message"]["method"] == method).count() >= times;
        let mut events = self.events.clone();
        let waited = timeout(PATIENCE, events.wait_for(arrived)).await.map(|found| drop(found.expect("it listens")));
        waited.unwrap_or_else(|_| panic!("waited in vain; there were: {:#?}", self.events.borrow()));
    }

    /// Waits until a request with this method has arrived.
    pub async fn asked(&self, method: &str) -> Value {
        self.until(|event| event["message"]["method"] == method).await["message"].clone()
    }

    /// Waits until the program with which an event came is gone.
    pub async fn gone(&self, event: &Value) {
        self.until(|later| later["kind"] == "gone" && later["pid"] == event["pid"]).await;
    }

    /// Everything so far.
    pub fn events(&self) -> Vec<Value> {
        self.events.borrow().clone()
    }

    /// All messages with this method so far.
    pub fn received(&self, method: &str) -> Vec<Value> {
        self.events().into_iter().map(|event| event["message"].clone()).filter(|message| message["method"] == method).collect()
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// With limits that end a test soon.
pub fn within(source: ServerSource, idle: Duration, max: Duration) -> ServerSource {
    let settings = ServerSettings { idle, max, ..source.settings };
    ServerSource { settings, ..source }
}

/// Of a client that takes tasks for answers.
pub fn taking_tasks(source: ServerSource) -> ServerSource {
    let settings = ServerSettings { tasks: true, ..source.settings };
    ServerSource { settings, ..source }
}
