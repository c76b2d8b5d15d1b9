//! A scripted SMTP server that misbehaves at exactly one point.
//!
//! It counts what it has *committed*, the truth that a client's answer is compared with, and never
//! sleeps: a hang lasts until the client is gone, and a held reply until the test lets it go.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::gate::Door;

/// What the server does instead of, or as, its reply.
#[derive(Clone, Debug)]
pub enum Act {
    Say(&'static [u8]),
    SayAndClose(&'static [u8]),
    Close,
    /// FIN without the farewell of TLS (`close_notify`).
    Cut,
    /// RST instead of FIN.
    Reset,
    /// Says nothing until the client has gone.
    Hang,
    /// Stops reading too, so that the client's writes get stuck.
    Freeze,
    /// Says it again every minute, until the client has gone.
    Drip(&'static [u8]),
    /// Replies when the test calls [`Server::release`].
    Hold(&'static [u8]),
}

/// One behaviour per point of the dialogue. The default is a well-behaved server.
#[derive(Clone, Debug)]
pub struct Script {
    pub greeting: Act,
    pub ehlo: Act,
    /// Every EHLO after the first.
    pub ehlo_again: Act,
    pub starttls: Act,
    pub auth: Act,
    pub mail: Act,
    pub rcpt: Act,
    /// Every RCPT after the first of a session.
    pub rcpt_again: Act,
    pub data: Act,
    /// After that many bytes of the message. Once something was said, it goes on reading.
    pub body: Option<(usize, Act)>,
    /// Whether it keeps the message when the final dot has come.
    pub commit: bool,
    pub dot: Act,
    pub quit: Act,
    /// How long it takes for each answer in the dialogue, so that a session lasts about as long as with a real server.
    pub thinks: Duration,
    /// The header by whose value it recognises a message that it has kept before; it keeps no second one.
    pub key_header: Option<&'static str>,
}

pub const EHLO: &[u8] = b"250-mx.test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-SIZE 100000000\r\n250 AUTH PLAIN LOGIN\r\n";
pub const EHLO_STARTTLS: &[u8] = b"250-mx.test\r\n250-8BITMIME\r\n250-STARTTLS\r\n250 AUTH PLAIN LOGIN\r\n";

/// In bytes.
const RECEIVE_BUFFER: u32 = 64 * 1024;

impl Default for Script {
    fn default() -> Self {
        Self {
            greeting: Act::Say(b"220 mx.test ESMTP\r\n"),
            ehlo: Act::Say(EHLO),
            ehlo_again: Act::Say(EHLO),
            starttls: Act::Say(b"220 2.0.0 go ahead\r\n"),
            auth: Act::Say(b"235 2.7.0 welcome\r\n"),
            mail: Act::Say(b"250 2.1.0 ok\r\n"),
            rcpt: Act::Say(b"250 2.1.5 ok\r\n"),
            rcpt_again: Act::Say(b"250 2.1.5 ok\r\n"),
            data: Act::Say(b"354 go on\r\n"),
            body: None,
            commit: true,
            dot: Act::Say(b"250 2.0.0 Ok: queued as ABC123\r\n"),
            quit: Act::Say(b"221 2.0.0 bye\r\n"),
            thinks: Duration::ZERO,
            key_header: None,
        }
    }
}

/// Whether the server speaks TLS, and from when on.
#[derive(Clone, Default)]
pub enum Encryption {
    #[default]
    None,
    Implicit(TlsAcceptor),
    StartTls(TlsAcceptor),
}

/// What the server saw and did.
struct Seen {
    commits: AtomicUsize,
    lines: Mutex<Vec<String>>,
    bodies: Mutex<Vec<Vec<u8>>>,
    keys: Mutex<HashSet<String>>,
    open: watch::Sender<usize>,
    reached: Semaphore,
    released: Semaphore,
    over: CancellationToken,
    door: Option<Door>,
}

impl Seen {
    /// Stands at a point of its own, where the test wants to hear of it. `false` where the client was killed meanwhile.
    async fn reach(&self, point: &str) -> bool {
        match &self.door {
            Some(door) => door.reach(format!("smtp server {point}")).await,
            None => true,
        }
    }
}

/// A running server; it stops with the runtime.
pub struct Server {
    pub port: u16,
    seen: Arc<Seen>,
}

impl Server {
    pub fn start(script: Script) -> Self {
        Self::start_each(vec![script])
    }

    /// The first session follows the first script and so on; the last one repeats.
    pub fn start_each(scripts: Vec<Script>) -> Self {
        Self::start_scripted(scripts, Encryption::None, None)
    }

    /// Stands at a point of its own before each reply.
    pub fn start_gated(door: Door) -> Self {
        Self::start_scripted(vec![Script::default()], Encryption::None, Some(door))
    }

    pub fn start_encrypted(script: Script, encryption: Encryption) -> Self {
        Self::start_scripted(vec![script], encryption, None)
    }

    fn start_scripted(scripts: Vec<Script>, encryption: Encryption, door: Option<Door>) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        // A fixed, small buffer: a server that stops reading must make the client's writes stick
        // on any machine.
        socket.set_recv_buffer_size(RECEIVE_BUFFER).expect("a size");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let listener = socket.listen(16).expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let seen = Arc::new(Seen {
            commits: AtomicUsize::new(0),
            lines: Mutex::default(),
            bodies: Mutex::default(),
            keys: Mutex::default(),
            open: watch::Sender::new(0),
            reached: Semaphore::new(0),
            released: Semaphore::new(0),
            over: CancellationToken::new(),
            door,
        });
        let shared = seen.clone();
        let last = scripts.last().cloned().unwrap_or_default();
        let mut scripts = scripts.into_iter();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                shared.open.send_modify(|n| *n += 1);
                let script = scripts.next().unwrap_or_else(|| last.clone());
                let (encryption, seen) = (encryption.clone(), shared.clone());
                tokio::spawn(async move {
                    serve(tcp, &script, encryption, &seen).await;
                    seen.open.send_modify(|n| *n -= 1);
                });
            }
        });
        Self { port, seen }
    }

    /// Waits until a session has come to its [`Act::Hang`], [`Act::Freeze`] or [`Act::Hold`].
    pub async fn reached(&self) {
        self.seen.reached.acquire().await.expect("open").forget();
    }

    /// Lets one held reply go.
    pub fn release(&self) {
        self.seen.released.add_permits(1);
    }

    /// Waits until every client is gone and everything they sent was read. Only from then on
    /// the numbers below are final.
    pub async fn finished(&self) {
        self.seen.over.cancel();
        self.closed().await;
    }

    /// Like `finished`, but a hanging server goes on hanging: passes only if the client leaves.
    pub async fn closed(&self) {
        let mut open = self.seen.open.subscribe();
        open.wait_for(|n| *n == 0).await.expect("server is alive");
    }

    pub fn commits(&self) -> usize {
        self.seen.commits.load(SeqCst)
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen.lines.lock().expect("lines").clone()
    }

    /// The messages with their dot-stuffing and final dot, as they came.
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        self.seen.bodies.lock().expect("bodies").clone()
    }
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// Reading and writing over whatever the session runs on now.
type Line = BufReader<Pin<Box<dyn Wire>>>;

/// The session goes on, or is over.
type Go = Option<()>;

async fn serve(tcp: TcpStream, script: &Script, encryption: Encryption, seen: &Seen) {
    match encryption {
        Encryption::Implicit(acceptor) => {
            if let Ok(tls) = acceptor.accept(tcp).await {
                let mut line: Line = BufReader::new(Box::pin(tls));
                if act(&script.greeting, &mut line, seen).await.is_some() {
                    dialogue(&mut line, script, seen).await;
                }
            }
        }
        Encryption::None => {
            let mut line: Line = BufReader::new(Box::pin(tcp));
            seen.reach("has a connection").await;
            if act(&script.greeting, &mut line, seen).await.is_some() {
                dialogue(&mut line, script, seen).await;
            }
        }
        Encryption::StartTls(acceptor) => {
            if let Some(tcp) = before_tls(tcp, script, seen).await
                && let Ok(tls) = acceptor.accept(tcp).await
            {
                dialogue(&mut BufReader::new(Box::pin(tls)), script, seen).await;
            }
        }
    }
}

/// Greeting, EHLO and STARTTLS in clear text.
async fn before_tls(tcp: TcpStream, script: &Script, seen: &Seen) -> Option<TcpStream> {
    // Acts work on any line, and the TCP stream is needed back: so it is lent.
    let std = tcp.into_std().ok()?;
    let copy = TcpStream::from_std(std.try_clone().ok()?).ok()?;
    let mut line: Line = BufReader::new(Box::pin(copy));
    act(&script.greeting, &mut line, seen).await?;
    loop {
        let command = read_command(&mut line, seen).await?;
        match command.as_str() {
            "EHLO" => act(&script.ehlo, &mut line, seen).await?,
            "STARTTLS" => {
                act(&script.starttls, &mut line, seen).await?;
                return TcpStream::from_std(std).ok();
            }
            _ => act(&Act::Say(b"530 5.7.0 STARTTLS first\r\n"), &mut line, seen).await?,
        }
    }
}

async fn dialogue(line: &mut Line, script: &Script, seen: &Seen) -> Go {
    let (mut hellos, mut recipients) = (0, 0);
    loop {
        let command = read_command(line, seen).await?;
        seen.reach(&format!("has {command}")).await;
        tokio::time::sleep(script.thinks).await;
        let answer = match command.as_str() {
            "EHLO" => {
                hellos += 1;
                if hellos == 1 { &script.ehlo } else { &script.ehlo_again }
            }
            "AUTH" => &script.auth,
            "MAIL" => &script.mail,
            "RCPT" => {
                recipients += 1;
                if recipients == 1 { &script.rcpt } else { &script.rcpt_again }
            }
            "QUIT" => &script.quit,
            "DATA" => {
                act(&script.data, line, seen).await?;
                if !matches!(&script.data, Act::Say(b) | Act::Hold(b) if b.starts_with(b"354")) {
                    continue;
                }
                let body = read_message(line, script, seen).await?;
                let key = script.key_header.and_then(|name| header(&body, name));
                let is_new = |key| seen.keys.lock().expect("keys").insert(key);
                // Nobody has promised anything yet: a message whose client was killed now may be dropped.
                let is_wanted = seen.reach("has the message and has not accepted it").await;
                if script.commit && is_wanted && key.is_none_or(is_new) {
                    seen.commits.fetch_add(1, SeqCst);
                    seen.bodies.lock().expect("bodies").push(body);
                    seen.reach("has accepted the message and has not said so").await;
                    tokio::time::sleep(script.thinks).await;
                }
                &script.dot
            }
            _ => &Act::Say(b"500 5.5.2 what\r\n"),
        };
        act(answer, line, seen).await?;
        if command == "QUIT" {
            return None;
        }
    }
}

async fn read_command(line: &mut Line, seen: &Seen) -> Option<String> {
    let mut text = String::new();
    if line.read_line(&mut text).await.ok()? == 0 {
        return None;
    }
    let text = text.trim_end();
    seen.lines.lock().expect("lines").push(text.to_owned());
    text.split(' ').next().map(str::to_ascii_uppercase)
}

/// Reads up to the final dot; `None` when the client left before it.
async fn read_message(line: &mut Line, script: &Script, seen: &Seen) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    let mut early = script.body.as_ref();
    while !body.ends_with(b"\r\n.\r\n") {
        let n = line.read(&mut piece).await.ok()?;
        if n == 0 {
            return None;
        }
        body.extend_from_slice(&piece[..n]);
        if let Some((_, what)) = early.take_if(|(limit, _)| body.len() > *limit) {
            act(what, line, seen).await?;
            if !matches!(what, Act::Say(_)) {
                return None;
            }
        }
    }
    Some(body)
}

/// The value of a header that stands on one line.
fn header(message: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(message);
    let mut head = text.split("\r\n").take_while(|line| !line.is_empty());
    head.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
}

async fn act(what: &Act, line: &mut Line, seen: &Seen) -> Go {
    match what {
        Act::Say(bytes) => write(line, bytes).await,
        Act::SayAndClose(bytes) => {
            write(line, bytes).await;
            let _ = line.get_mut().shutdown().await;
            None
        }
        Act::Close => {
            let _ = line.get_mut().shutdown().await;
            None
        }
        // Dropping the stream says nothing more over it.
        Act::Cut => None,
        Act::Reset => {
            line.get_ref().tcp().set_zero_linger().expect("a TCP socket");
            None
        }
        Act::Hang => {
            seen.reached.add_permits(1);
            let mut rest = [0; 1024];
            let gone = async { while line.read(&mut rest).await.is_ok_and(|n| n > 0) {} };
            tokio::select! {
                () = gone => {}
                () = seen.over.cancelled() => {}
            }
            None
        }
        Act::Freeze => {
            seen.reached.add_permits(1);
            seen.over.cancelled().await;
            None
        }
        Act::Drip(bytes) => {
            seen.reached.add_permits(1);
            while write(line, bytes).await.is_some() {
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            None
        }
        Act::Hold(bytes) => {
            seen.reached.add_permits(1);
            tokio::select! {
                permit = seen.released.acquire() => permit.expect("open").forget(),
                () = seen.over.cancelled() => {}
            }
            write(line, bytes).await
        }
    }
}

async fn write(line: &mut Line, bytes: &[u8]) -> Go {
    line.get_mut().write_all(bytes).await.ok()?;
    line.get_mut().flush().await.ok()
}
