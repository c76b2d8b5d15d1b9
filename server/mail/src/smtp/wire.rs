//! The TCP connection below SMTP and below its TLS, read to the byte.
//!
//! Two questions must have an exact answer here: is there anything to read at this instant, and has anything of a reply come
//! that is not whole yet? So every read asks the system itself, not what the runtime has been told so far: a process that was
//! stopped (SIGSTOP) wakes up to time-outs that have elapsed and to a reply that lies in the socket, and the runtime learns of
//! the time-outs first. And the frames of TLS (RFC 8446 5.1) are counted, because half a record is not handed up.

use std::{
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A connection whose reads are exact.
#[derive(Debug)]
pub(super) struct Wire {
    tcp: TcpStream,
    /// The same socket, without the runtime. It does not wait either.
    socket: std::net::TcpStream,
    /// Where the records of TLS begin and end; `None` in clear text.
    records: Option<Records>,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream) -> io::Result<Self> {
        let tcp = tcp.into_std()?;
        let socket = tcp.try_clone()?;
        Ok(Self { tcp: TcpStream::from_std(tcp)?, socket, records: None })
    }

    /// What comes from now on is TLS.
    pub(super) fn in_tls(self) -> Self {
        Self { records: Some(Records::default()), ..self }
    }

    /// Whether a TLS record has come in part.
    pub(super) fn is_within_record(&self) -> bool {
        self.records.as_ref().is_some_and(Records::is_within)
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match self.socket.read(buf.initialize_unfilled()) {
            Ok(count) => buf.advance(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The runtime tells when it is worth another try.
                ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
        if let Some(records) = &mut self.records {
            records.pass(&buf.filled()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

/// Follows the records of TLS: five bytes of which the last two are the length, and then so many.
#[derive(Debug, Default)]
struct Records {
    /// How much of the head has come.
    head: usize,
    /// How much of the record is still to come, once the head is there.
    left: usize,
}

const HEAD: usize = 5;

impl Records {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.head < HEAD {
                self.head += 1;
                // The last two bytes of the head, the higher one first.
                self.left = if self.head < HEAD - 1 { 0 } else { self.left << 8 | usize::from(*first) };
                bytes = rest;
            } else {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = &bytes[count..];
            }
            if self.head == HEAD && self.left == 0 {
                self.head = 0;
            }
        }
    }

    fn is_within(&self) -> bool {
        self.head > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two records, of 3 and of 300 bytes, and one that is empty.
    fn records() -> Vec<u8> {
        let record = |length: u16| [&[23, 3, 3][..], &length.to_be_bytes(), &vec![0xff; length.into()]].concat();
        [record(3), record(300), record(0)].concat()
    }

    #[test]
    fn a_record_is_whole_with_its_last_byte() {
        let ends = [8, 8 + 305, 8 + 305 + 5];
        for step in [1, 2, 7, 1000] {
            let (mut counted, mut passed) = (Records::default(), 0);
            for piece in records().chunks(step) {
                counted.pass(piece);
                passed += piece.len();
                assert_eq!(counted.is_within(), !ends.contains(&passed), "{step}: {passed}");
            }
        }
    }
}
