//! One connection to a server: opened, used for one call after the other, and closed for good.

use super::{
    fault::Fault,
    process::Process,
    settings::{Link, ServerSource},
};
use reqwest::Url;
use rmcp::{
    ClientHandler, Peer, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RunningService, ServiceError},
    transport::{
        StreamableHttpClientTransport, async_rw::AsyncRwTransport, common::client_side_sse::NeverRetry,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use secrecy::{ExposeSecret, SecretString};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
    time::timeout,
};

/// The longest that a server may take until it is ready: some look for newer versions of themselves first.
const OPENING: Duration = Duration::from_mins(1);
/// How long a connection may take to reach a machine.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may take to close.
const CLOSING: Duration = Duration::from_secs(2);
/// The longest line of a program, the same as of an answer over HTTP.
const MAX_LINE: usize = 16 << 20;

/// The last progress that a server reported, and of which call.
pub(super) type Progress = Option<(ProgressToken, f64)>;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    service: RunningService<RoleClient, Client>,
    process: Option<Process>,
    pub(super) progress: watch::Receiver<Progress>,
    /// A line of the program's was too long.
    pub(super) overflow: Arc<AtomicBool>,
    /// A call was broken off, or is under way.
    pub(super) spent: bool,
    /// The server does not even take a request to stop.
    pub(super) deaf: bool,
}

impl Connection {
    /// Opens a connection. Dropping the future ends what was begun.
    pub async fn open(source: &ServerSource) -> Result<Self, Fault> {
        let longest = OPENING.min(source.settings.max);
        let opening = Self::greet(source);
        timeout(longest, Box::pin(opening)).await.unwrap_or(Err(Fault::NoGreeting(longest)))
    }

    async fn greet(source: &ServerSource) -> Result<Self, Fault> {
        let (reported, progress) = watch::channel(None);
        let client = Client { tasks: source.settings.tasks, reported };
        let overflow = Arc::<AtomicBool>::default();
        let (service, process) = match &source.settings.link {
            Link::Stdio(program) => {
                let (process, output, input) = Process::start(program, &source.name)?;
                let output = Metered { output, line: 0, overflow: overflow.clone() };
                let transport = AsyncRwTransport::new_client(output, input).with_max_line_length(usize::MAX);
                (client.serve_with_lifecycle(transport, lifecycle()).await, Some(process))
            }
            Link::Http { url, bearer } => {
                let transport = http(url, bearer.as_ref())?;
                (client.serve_with_lifecycle(transport, lifecycle()).await, None)
            }
        };
        let service = service.map_err(|error| match Fault::of_opening(&error) {
            Fault::Gone | Fault::Unreachable(_) if process.is_some() => Fault::EndedAtOnce,
            fault => fault,
        })?;
        let connection = Self { service, process, progress, overflow, spent: false, deaf: false };
        if !source.settings.wanted.calls.is_empty() {
            connection.learn_headers().await?;
        }
        Ok(connection)
    }

    /// Lets rmcp see the schemas of the tools: they say which arguments a call repeats in its headers (SEP-2243), and a server
    /// of this revision refuses a call over HTTP without them. One that does not tell its tools may still be called.
    async fn learn_headers(&self) -> Result<(), Fault> {
        if self.is_stdio() || !self.is_modern() {
            return Ok(());
        }
        match self.peer().list_all_tools().await {
            Ok(_) | Err(ServiceError::McpError(_)) => Ok(()),
            Err(error) => Err((&error).into()),
        }
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Whether the server speaks the revision without sessions, in which a closed answer is a cancel.
    pub(super) fn is_modern(&self) -> bool {
        self.peer().peer_info().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28)
    }

    pub(super) fn is_stdio(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the server offers to answer with tasks.
    pub fn offers_tasks(&self) -> bool {
        self.service.service().tasks
            && self.is_modern()
            && self.peer().peer_info().is_some_and(|info| info.capabilities.supports_tasks())
    }

    /// Whether no other call may be made on it.
    pub fn is_spent(&self) -> bool {
        self.spent || self.service.is_closed() || self.peer().is_transport_closed()
    }

    /// Closes it and waits until nothing of it is left: at most about six seconds for a program that obeys nothing.
    pub async fn close(mut self) {
        let gently = !self.deaf;
        if gently {
            let _ = self.service.close_with_timeout(CLOSING).await;
        }
        if let Some(process) = self.process.take() {
            process.end(gently).await;
        }
    }
}

fn lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
}

/// A lost answer is not asked for again: the server would do everything twice.
fn http(url: &Url, bearer: Option<&SecretString>) -> Result<StreamableHttpClientTransport<reqwest::Client>, Fault> {
    let mut client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT);
    if url.scheme() == "http" {
        // Only this machine itself is reached so, and it is never behind a proxy.
        client = client.no_proxy();
    }
    let client = client.build().map_err(|error| Fault::Unreachable(error.without_url().to_string()))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str()).reinit_on_expired_session(false);
    config.retry_config = Arc::new(NeverRetry::default());
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer.expose_secret());
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// What Recount is to a server.
#[derive(Debug)]
struct Client {
    tasks: bool,
    reported: watch::Sender<Progress>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let declared = ClientCapabilities::builder();
        let capabilities = if self.tasks { declared.enable_tasks().build() } else { declared.build() };
        ClientConfig::new(capabilities, Implementation::new("recount", env!("CARGO_PKG_VERSION")))
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.reported.send_replace(Some((report.progress_token, report.progress)));
    }
}

/// A program's output, which ends where a line gets too long: rmcp would pass over such a line and wait for the answer in it.
#[derive(Debug)]
struct Metered<R> {
    output: R,
    /// The length of the line so far, in bytes.
    line: usize,
    overflow: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<R> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.output).poll_read(context, buffer);
        let new = buffer.filled().get(before..).unwrap_or_default();
        self.line = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => new.len() - end - 1,
            None => self.line + new.len(),
        };
        if self.line > MAX_LINE {
            self.overflow.store(true, Ordering::Relaxed);
            return Poll::Ready(Err(io::Error::other("a line is too long")));
        }
        read
    }
}
