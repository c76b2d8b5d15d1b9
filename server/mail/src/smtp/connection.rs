//! One connection to a mail server: commands and replies, and what comes in between.
//!
//! A reply belongs to what was said before it, and nothing in the reply says so. So whatever can be read at the moment at
//! which something is said is no reply to it (`354` with a stray `250` behind it, a `550` in the middle of the message):
//! [`Connection::command`] and [`Connection::end`] look right before they write, and say nothing more to a server that has
//! answered without being asked.
//!
//! What remains: a reply that the server sends while the last bytes are under way to it cannot be told from the reply to them.
//! If a second one has come when the first is read, nobody knows which counts, and that is said. If the second comes later,
//! the first has been taken for the answer.
//!
//! Known limit: a reply without text (a bare `250`) or with text that is not UTF-8 counts as unreadable, so such an acceptance
//! ends as unconfirmed, the safe side.

use std::{
    fmt::Display,
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use lettre::transport::smtp::{
    authentication::{Credentials, Mechanism},
    commands::{Auth, Ehlo, Starttls},
    extension::{ClientId, Extension, ServerInfo},
    response::Response,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{fault::Fault, wire::Wire};

/// The longest reply, in bytes (Postfix's `smtp_response_limit`).
const REPLY_LIMIT: usize = 100_000;
/// The most questions that a sign-in may come to.
const CHALLENGES: usize = 10;

/// What ends a message (RFC 5321 4.1.1.4).
const TERMINATOR: &[u8] = b"\r\n.\r\n";

/// How a connection is protected.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server: ServerName<'static>,
}

enum Stream {
    Clear(Wire),
    Tls(Box<TlsStream<Wire>>),
}

/// A connection whose server has been greeted.
pub(super) struct Connection {
    stream: Stream,
    /// What was read and is not taken yet.
    unread: Vec<u8>,
    offers: ServerInfo,
}

impl Connection {
    /// Connects, waits for the greeting and asks what the server offers.
    pub(super) async fn open(address: (&str, u16), tls: Option<&Tls>, hello: &ClientId) -> Result<Self, Fault> {
        let wire = Wire::new(TcpStream::connect(address).await?)?;
        let stream = match tls {
            None => Stream::Clear(wire),
            Some(tls) => Stream::Tls(handshake(wire, tls).await?),
        };
        let mut connection = Self { stream, unread: Vec::new(), offers: ServerInfo::default() };
        connection.reply().await?;
        connection.hello(hello).await?;
        Ok(connection)
    }

    /// Goes over to TLS (RFC 3207), and asks again what the server offers.
    pub(super) async fn upgraded(mut self, tls: &Tls, hello: &ClientId) -> Result<Self, Fault> {
        if !self.offers.supports_feature(Extension::StartTls) {
            return Err(Fault::Unable("the mail server offers no STARTTLS".to_owned()));
        }
        self.command(Starttls).await?;
        // What stands behind the 220 came in clear text. Someone on the path could have put it there, to have it taken for
        // replies that came through TLS.
        match self.unasked().await {
            None => {}
            Some(Fault::Unasked(_)) => return Err(Fault::Tls("more was said in clear text behind the 220".to_owned())),
            Some(closed) => return Err(closed),
        }
        let Stream::Clear(wire) = self.stream else { return Err(Fault::Tls("there is TLS already".to_owned())) };
        let mut upgraded = Self { stream: Stream::Tls(handshake(wire, tls).await?), ..self };
        upgraded.hello(hello).await?;
        Ok(upgraded)
    }

    /// Signs in (RFC 4954).
    pub(super) async fn sign_in(&mut self, credentials: &Credentials) -> Result<Response, Fault> {
        let mechanism = self
            .offers
            .get_auth_mechanism(&[Mechanism::Plain, Mechanism::Login])
            .ok_or_else(|| Fault::Unable("the mail server offers no way of signing in that Recount knows".to_owned()))?;
        let mut reply = self.command(Auth::new(mechanism, credentials.clone(), None)?).await?;
        for _ in 0..CHALLENGES {
            if !reply.has_code(334) {
                break;
            }
            reply = self.command(Auth::new_from_response(mechanism, credentials.clone(), &reply)?).await?;
        }
        Ok(reply)
    }

    /// What the server has last said that it offers.
    pub(super) fn offers(&self, extension: Extension) -> bool {
        self.offers.supports_feature(extension)
    }

    /// Asks what the server offers.
    pub(super) async fn hello(&mut self, hello: &ClientId) -> Result<Response, Fault> {
        let reply = self.command(Ehlo::new(hello.clone())).await?;
        self.offers = ServerInfo::from_response(&reply)?;
        Ok(reply)
    }

    /// Says a command and waits for the reply to it, which is a positive one.
    pub(super) async fn command(&mut self, command: impl Display) -> Result<Response, Fault> {
        self.write(command.to_string().as_bytes()).await?;
        self.reply().await
    }

    /// Writes, if the server has said nothing without being asked.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if let Some(fault) = self.unasked().await {
            return Err(fault);
        }
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Ends the message and waits for the reply to it. Calls `handed_over` when the terminator may have left, and before that
    /// it certainly has not: what is readable at that instant, or was while the terminator did not go out yet, keeps it back.
    pub(super) async fn end(&mut self, handed_over: impl Fn()) -> Result<Response, Fault> {
        let written = poll_fn(|cx| {
            if let Some(fault) = self.poll_unasked(cx) {
                return Poll::Ready(Err(fault));
            }
            // Pending says that not one byte was taken.
            let written = Pin::new(&mut self.stream).poll_write(cx, TERMINATOR);
            if written.is_ready() {
                handed_over();
            }
            written.map_err(Fault::from)
        })
        .await?;
        self.stream.write_all(&TERMINATOR[written..]).await?;
        self.stream.flush().await?;
        let reply = self.reply().await;
        match (&reply, self.unasked().await) {
            (Ok(_) | Err(Fault::Reply { .. }), Some(Fault::Unasked(more))) => {
                let first = reply.map_or_else(|fault| fault.evidence(), |reply| super::fault::reply_evidence(&reply));
                Err(Fault::TwoReplies { first, more })
            }
            _ => reply,
        }
    }

    /// What the server has said without being asked, or that it has closed the connection; all that there is at this instant.
    pub(super) async fn unasked(&mut self) -> Option<Fault> {
        poll_fn(|cx| Poll::Ready(self.poll_unasked(cx))).await
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Option<Fault> {
        let ended = loop {
            match self.poll_fill(cx) {
                Poll::Ready(Ok(0)) => break Some(Fault::Link("the mail server closed it".to_owned())),
                Poll::Ready(Ok(_)) if self.unread.len() < REPLY_LIMIT => {}
                Poll::Ready(Ok(_)) | Poll::Pending => break None,
                Poll::Ready(Err(error)) => break Some(error.into()),
            }
        };
        let within_record = matches!(&self.stream, Stream::Tls(tls) if tls.get_ref().0.is_within_record());
        if self.unread.is_empty() && !within_record {
            return ended;
        }
        Some(Fault::Unasked(String::from_utf8_lossy(&self.unread).into_owned()))
    }

    async fn reply(&mut self) -> Result<Response, Fault> {
        loop {
            if let Some(reply) = self.take_reply() {
                return reply;
            }
            if poll_fn(|cx| self.poll_fill(cx)).await? == 0 {
                return Err(Fault::Link("it was closed before a complete reply".to_owned()));
            }
        }
    }

    /// Takes one reply, if there is a whole one.
    fn take_reply(&mut self) -> Option<Result<Response, Fault>> {
        let mut end = 0;
        loop {
            let Some(length) = self.unread[end..].iter().position(|byte| *byte == b'\n') else {
                let what = "a reply that does not end";
                return (self.unread.len() > REPLY_LIMIT).then(|| Err(Fault::Unreadable(what.to_owned())));
            };
            let line = &self.unread[end..=end + length];
            end += line.len();
            if line.get(3) != Some(&b'-') {
                break;
            }
        }
        let reply: Vec<u8> = self.unread.drain(..end).collect();
        Some(read(&reply))
    }

    /// Reads what there is behind what was read before. Returns how much that was, and 0 at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut piece = [0; 4096];
        let mut buffer = ReadBuf::new(&mut piece);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        self.unread.extend_from_slice(buffer.filled());
        read.map_ok(|()| buffer.filled().len())
    }
}

/// A positive reply; a negative one is a fault.
fn read(reply: &[u8]) -> Result<Response, Fault> {
    let unreadable = || Fault::Unreadable(String::from_utf8_lossy(reply).trim().to_owned());
    let text = std::str::from_utf8(reply).map_err(|_| unreadable())?;
    let reply: Response = text.parse().map_err(|_| unreadable())?;
    if reply.is_positive() { Ok(reply) } else { Err(Fault::from_reply(&reply)) }
}

async fn handshake(wire: Wire, tls: &Tls) -> Result<Box<TlsStream<Wire>>, Fault> {
    let connector = TlsConnector::from(tls.config.clone());
    match connector.connect(tls.server.clone(), wire.in_tls()).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) if error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).is_some() => {
            Err(Fault::Tls(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(wire) => Pin::new(wire).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Clear(wire) => Pin::new(wire).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(wire) => Pin::new(wire).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(wire) => Pin::new(wire).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reply_of_the_protocol_is_one() {
        for (bytes, code) in [(&b"250 ok\r\n"[..], 250), (b"250-a\r\n250 b\r\n", 250), (b"354 \r\n", 354)] {
            assert!(read(bytes).is_ok_and(|reply| reply.has_code(code)), "{bytes:?}");
        }
        assert!(matches!(read(b"550 5.1.1 no\r\n"), Err(Fault::Reply { code: 550, .. })));
        for bytes in
            [&b"250\r\n"[..], b"hello\r\n", b"\r\n", b"250 ok\n", b"250 accept\xe9\r\n", b"250-a\r\n550 b\r\n", b"650 x\r\n"]
        {
            assert!(matches!(read(bytes), Err(Fault::Unreadable(_))), "{bytes:?}");
        }
    }
}
