//! The clear-text part of a STARTTLS connection, read one byte at a time.
//!
//! lettre reads replies through a buffer that outlives the upgrade to TLS. Someone on the path
//! could send replies in clear text right behind the server's `220` and have them taken for
//! replies that came through TLS (the "STARTTLS response injection" class). Handing out one byte
//! per read leaves everything behind the `220` in the socket, where the TLS handshake meets it and
//! fails. A connection that stays plain is read the same way; its few hundred bytes cost nothing.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// First byte of a TLS handshake record (RFC 8446 5.1). No SMTP command begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// A TCP connection that begins in clear text and goes over to TLS.
#[derive(Debug)]
pub(super) struct ClearThenTls {
    tcp: TcpStream,
    in_tls: bool,
}

impl ClearThenTls {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, in_tls: false }
    }
}

impl AsyncTokioStream for ClearThenTls {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.peer_addr()
    }
}

impl AsyncRead for ClearThenTls {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.in_tls {
            return Pin::new(&mut self.tcp).poll_read(cx, buf);
        }
        let mut byte = [0];
        let mut one = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut self.tcp).poll_read(cx, &mut one))?;
        buf.put_slice(one.filled());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClearThenTls {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.first() == Some(&TLS_HANDSHAKE) {
            self.in_tls = true;
        }
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
