//! The connections of the web server: who gets one, and for how long.
//!
//! `axum::serve` takes every connection and waits for its first request for ever: a thousand clients that send nothing use up the
//! descriptors that database, mail and signals need, and then nobody gets through, not even with a Cancel. Here there is a limit
//! in total and for each address, and a new connection is always let in: where it is one too many, it takes the place of the one
//! that is the least loss. Only connections whose request is being worked on are never closed for another.

use axum::{
    Router,
    body::{Body, Bytes, HttpBody},
    extract::Request,
};
use hyper::{
    body::{Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{IpAddr, Ipv6Addr},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// How many connections there may be, and how long they may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// At once.
    pub total: usize,
    /// At once from one address, or from one network of IPv6 (/64, which one customer gets). This machine itself is not held
    /// to it: a web server in front of Recount is the only client that Recount sees.
    pub per_address: usize,
    /// From the connection, or from the answer before, to the end of a request's head.
    pub head: Duration,
    /// The longest silence in the body of a request.
    pub body: Duration,
}

/// The usual [`Limits::head`]. A browser's next request may come a while after the last one on the same connection.
pub const HEAD: Duration = Duration::from_secs(30);
/// The usual [`Limits::body`].
pub const BODY: Duration = Duration::from_secs(30);
/// The most bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// The pause while closed connections end.
const SOON: Duration = Duration::from_millis(1);
/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves `app` to whoever connects until `shutdown`, and ends when the last answer is sent.
pub async fn serve(listener: TcpListener, app: Router, limits: Limits, shutdown: CancellationToken) {
    let open = Open::new(limits);
    let tasks = TaskTracker::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                // Whoever has made room for another is gone soon; until then it still has its descriptor.
                while tasks.len() > limits.total {
                    sleep(SOON).await;
                }
                if let Some(place) = open.enter(peer.ip()) {
                    tasks.spawn(talk(stream, app.clone(), place, limits, shutdown.clone()));
                } else {
                    tracing::warn!(%peer, "every connection is at work; this one is turned away");
                }
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken; trying again soon");
                open.close_one(|_| true);
                sleep(PAUSE).await;
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// It went away before it was taken.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// One connection from its first byte to its last.
async fn talk(stream: TcpStream, app: Router, place: Place, limits: Limits, shutdown: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let place = Arc::new(place);
    let service = service_fn(|request: Request<Incoming>| {
        let (app, place) = (app.clone(), place.clone());
        async move {
            let request = request.map(|body| {
                place.is_at(if body.is_end_stream() { Stage::Work } else { Stage::Request });
                Body::new(Watched {
                    body: Body::new(body),
                    place: place.clone(),
                    stage: Stage::Request,
                    next: Stage::Work,
                    silence: Some(Silence::of(limits.body)),
                })
            });
            let response = app.oneshot(request).await?;
            place.is_at(Stage::Answer);
            let watched = |body| Body::new(Watched { body, place, stage: Stage::Answer, next: Stage::Idle, silence: None });
            Ok::<_, Infallible>(response.map(watched))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Its end is the client's business; what matters of a request is logged where it is answered.
    tokio::select! {
        biased;
        () = place.close.cancelled() => {}
        _ = connection.as_mut() => {}
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                () = place.close.cancelled() => {}
                _ = connection => {}
            }
        }
    }
}

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing, or the head of a request.
    Idle,
    /// The body of a request is on its way.
    Request,
    /// The answer is on its way; for live updates that takes as long as a page is open.
    Answer,
    /// The request is worked on.
    Work,
}

impl Stage {
    /// How much is lost with a connection that is at this, as an order; `None` where nothing may be. Who has not sent a whole
    /// request loses the least: whoever it is will connect again.
    fn loss(self) -> Option<u8> {
        match self {
            Self::Idle | Self::Request => Some(0),
            Self::Answer => Some(1),
            Self::Work => None,
        }
    }
}

/// The open connections.
#[derive(Clone)]
struct Open {
    limits: Limits,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// Counts everything that happens, so that it is known what happened first.
    now: u64,
    connections: HashMap<u64, Connection>,
}

struct Connection {
    network: IpAddr,
    stage: Stage,
    /// When it came to this stage, in the table's count.
    since: u64,
    close: CancellationToken,
}

/// A connection's place among the open ones; dropping it makes it free.
struct Place {
    id: u64,
    table: Arc<Mutex<Table>>,
    close: CancellationToken,
}

impl Open {
    fn new(limits: Limits) -> Self {
        Self { limits, table: Arc::default() }
    }

    /// A place for a new connection; where there is none, that of the one which is the least loss. `None` if all are at work.
    fn enter(&self, address: IpAddr) -> Option<Place> {
        let network = network(address);
        let of_this = |connection: &Connection| connection.network == network;
        let from_there = lock(&self.table).connections.values().filter(|connection| of_this(connection)).count();
        if !network.is_loopback() && from_there >= self.limits.per_address && !self.close_one(of_this) {
            return None;
        }
        if lock(&self.table).connections.len() >= self.limits.total && !self.close_one(|_| true) {
            return None;
        }
        let (mut table, close) = (lock(&self.table), CancellationToken::new());
        let id = table.tick();
        table.connections.insert(id, Connection { network, stage: Stage::Idle, since: id, close: close.clone() });
        Some(Place { id, table: self.table.clone(), close })
    }

    /// Closes the connection that is the least loss among those that `may` go; of several the one that has been at it the longest.
    /// Tells whether there was one.
    fn close_one(&self, may: impl Fn(&Connection) -> bool) -> bool {
        let mut table = lock(&self.table);
        let candidates = table.connections.iter().filter(|(_, connection)| may(connection));
        let losses = candidates.filter_map(|(id, connection)| Some((connection.stage.loss()?, connection.since, *id)));
        let least = losses.min().map(|(.., id)| id);
        let closed = least.and_then(|id| table.connections.remove(&id));
        closed.inspect(|connection| connection.close.cancel()).is_some()
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

impl Place {
    fn is_at(&self, stage: Stage) {
        self.moves(|_| true, stage);
    }

    /// Moves on where it `may` from the stage that it is at.
    fn moves(&self, may: impl Fn(Stage) -> bool, next: Stage) {
        let mut table = lock(&self.table);
        let since = table.tick();
        if let Some(connection) = table.connections.get_mut(&self.id).filter(|connection| may(connection.stage)) {
            (connection.stage, connection.since) = (next, since);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.table).connections.remove(&self.id);
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What counts as one address: all of an IPv6 network, since whoever has one can take any address in it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        other => other,
    }
}

/// A body that tells when it is through, or nobody reads on.
struct Watched {
    body: Body,
    place: Arc<Place>,
    /// What the connection is at while this lasts.
    stage: Stage,
    next: Stage,
    /// How long nothing may come of it.
    silence: Option<Silence>,
}

struct Silence {
    longest: Duration,
    end: Pin<Box<Sleep>>,
}

impl Silence {
    fn of(longest: Duration) -> Self {
        Self { longest, end: Box::pin(sleep(longest)) }
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some(silence) = &mut self.silence else { return frame };
        if frame.is_ready() {
            silence.end.as_mut().reset(Instant::now() + silence.longest);
        } else if silence.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.place.moves(|stage| stage == self.stage, self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::post;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::timeout,
    };

    fn open(total: usize, per_address: usize) -> Open {
        Open::new(Limits { total, per_address, head: HEAD, body: BODY })
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_new_connection_takes_the_place_of_the_one_that_is_the_least_loss() {
        let open = open(4, 4);
        let [answering, sending, idle, working] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"]
            .map(|client| open.enter(address(client)).expect("there is room"));
        for (place, stage) in [(&answering, Stage::Answer), (&working, Stage::Work), (&sending, Stage::Request)] {
            place.is_at(stage);
        }
        let mut at_work = Vec::new();
        for (closed, kept) in [(&idle, &sending), (&sending, &answering)] {
            let new = open.enter(address("192.0.2.5")).expect("it is let in");
            assert!(closed.close.is_cancelled() && !kept.close.is_cancelled(), "whoever has waited longest");
            new.is_at(Stage::Work);
            at_work.push(new);
        }
        let last = open.enter(address("192.0.2.6")).expect("it is let in");
        assert!(answering.close.is_cancelled());
        last.is_at(Stage::Work);
        assert!(open.enter(address("192.0.2.7")).is_none(), "all are at work");
        drop(working);
        assert!(open.enter(address("192.0.2.7")).is_some());
    }

    #[tokio::test]
    async fn a_request_that_never_comes_to_its_end_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let limits = Limits { total: 8, per_address: 8, head: SOON * 20, body: SOON * 20 };
        let shutdown = CancellationToken::new();
        let app = Router::new().route("/", post(async |body: String| body));
        let serving = tokio::spawn(serve(listener, app, limits, shutdown.clone()));
        for (request, answered) in [
            ("", ""),
            ("POST / HTTP/1.1\r\nX-Slow: ", ""),
            ("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nslow", "HTTP/1.1 400 Bad Request"),
        ] {
            let mut client = TcpStream::connect(address).await.expect("a connection");
            client.write_all(request.as_bytes()).await.expect("it is open");
            let mut answer = Vec::new();
            let closed = timeout(Duration::from_mins(2), client.read_to_end(&mut answer)).await.expect("it is closed");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.starts_with(answered) && (closed.is_err() || !answered.is_empty() || answer.is_empty()), "{answer}");
        }
        shutdown.cancel();
        serving.await.expect("it ends well");
    }

    #[test]
    fn one_address_takes_only_its_own_places() {
        let open = open(100, 2);
        let other = open.enter(address("192.0.2.9")).expect("there is room");
        for (first, next) in [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::2"), ("::ffff:192.0.2.7", "192.0.2.7")] {
            let places = [first, next, next].map(|client| open.enter(address(client)).expect("it is let in"));
            assert_eq!(places.map(|place| place.close.is_cancelled()), [true, false, false], "{first}");
        }
        assert!(!other.close.is_cancelled());
        let places = ["127.0.0.1"; 3].map(|client| open.enter(address(client)).expect("there is room"));
        assert!(places.iter().all(|place| !place.close.is_cancelled()), "a server in front brings everybody");
    }
}
