//! The connection to an IMAP server, bounded in silence and in bytes: the server's answers are data from outside, and the
//! parser behind this would hold half a gigabyte of one of them.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};
use tokio_rustls::client::TlsStream;

/// Most bytes that one look reads.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// What the bytes go over.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that fails when nothing comes for too long, or too much in all.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Stream,
    idle: Duration,
    silence: Pin<Box<Sleep>>,
    left: usize,
}

impl Wire {
    /// In clear text.
    pub(super) fn plain(tcp: TcpStream, idle: Duration) -> Self {
        Self::new(Stream::Plain(tcp), idle)
    }

    /// Through TLS.
    pub(super) fn tls(tls: TlsStream<TcpStream>, idle: Duration) -> Self {
        Self::new(Stream::Tls(Box::new(tls)), idle)
    }

    fn new(stream: Stream, idle: Duration) -> Self {
        Self { stream, idle, silence: Box::pin(sleep(idle)), left: MAX_BYTES }
    }

    /// The TCP connection of one that is in clear text.
    pub(super) fn into_tcp(self) -> Option<TcpStream> {
        match self.stream {
            Stream::Plain(tcp) => Some(tcp),
            Stream::Tls(_) => None,
        }
    }

    fn progress(&mut self) {
        let end = Instant::now() + self.idle;
        self.silence.as_mut().reset(end);
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };
        if read.is_pending() {
            ready!(self.silence.as_mut().poll(cx));
            let silence = format!("no answer within {} s", self.idle.as_secs());
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, silence)));
        }
        let count = buf.filled().len() - before;
        match self.left.checked_sub(count) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other(format!("it sent more than {} MiB", MAX_BYTES >> 20)))),
        }
        self.progress();
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What is asked begins a new wait.
        self.progress();
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
