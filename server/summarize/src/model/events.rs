//! Cuts a stream of bytes into events, and holds no more of it than an event may have.
//!
//! Work and memory grow with what arrives, never with what is held: a byte is looked at once, and a line that does not end is
//! given up at a limit.

use std::mem::take;

/// The most bytes of one event. The largest that a server has reason to send is a whole answer at once.
pub(super) const LONGEST_EVENT: usize = 1 << 20;

/// How events follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// `data:` lines up to an empty line, as in the HTML standard. Names, ids and comments are passed over.
    ServerSentEvents,
    /// One event a line.
    Lines,
}

/// An event of more than [`LONGEST_EVENT`] bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The events of one stream.
#[derive(Debug)]
pub(super) struct Events {
    framing: Framing,
    /// The line under way.
    line: Vec<u8>,
    /// The data of the event under way.
    data: Vec<u8>,
    /// The last line ended with a carriage return; a line feed after it belongs to it.
    returned: bool,
}

impl Events {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, line: Vec::new(), data: Vec::new(), returned: false }
    }

    /// Takes from `bytes` what belongs to the next event. `None`: all was taken, and the event is not complete.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLong> {
        loop {
            if !bytes.is_empty() && take(&mut self.returned) {
                *bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + piece.len() > LONGEST_EVENT {
                return Err(TooLong);
            }
            self.line.extend_from_slice(piece);
            let Some((ending, rest)) = rest.split_first() else {
                *bytes = rest;
                return Ok(None);
            };
            *bytes = rest;
            self.returned = *ending == b'\r';
            if let Some(event) = self.end_line() {
                return Ok(Some(event));
            }
        }
    }

    /// The last event, where the stream ended without the mark of its end.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        self.end_line().or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = take(&mut self.line);
        let line = line.trim_ascii();
        match self.framing {
            Framing::Lines => (!line.is_empty()).then(|| line.to_vec()),
            Framing::ServerSentEvents if line.is_empty() => self.end_event(),
            Framing::ServerSentEvents => {
                if let Some(data) = line.strip_prefix(b"data:") {
                    if !self.data.is_empty() {
                        self.data.push(b'\n');
                    }
                    self.data.extend_from_slice(data.trim_ascii());
                }
                None
            }
        }
    }

    fn end_event(&mut self) -> Option<Vec<u8>> {
        Some(take(&mut self.data)).filter(|data| !data.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream that arrives in pieces of `size` bytes.
    fn events(framing: Framing, stream: &str, size: usize) -> Vec<String> {
        let mut events = Events::new(framing);
        let mut seen = Vec::new();
        for mut piece in stream.as_bytes().chunks(size) {
            while let Some(event) = events.next(&mut piece).unwrap() {
                seen.push(event);
            }
        }
        seen.extend(events.rest());
        seen.into_iter().map(|event| String::from_utf8(event).unwrap()).collect()
    }

    #[test]
    fn events_are_the_same_however_they_arrive() {
        let stream = ": hello\n\ndata: one\n\nevent: x\r\ndata: é\r\ndata:two\r\n\r\nid: 7\rdata: three\r\r\n\ndata: last";
        for size in 1..stream.len() {
            assert_eq!(events(Framing::ServerSentEvents, stream, size), ["one", "é\ntwo", "three", "last"], "{size}");
            assert_eq!(events(Framing::Lines, "{\"é\":1}\n\n {} \r\n[]", size), ["{\"é\":1}", "{}", "[]"], "{size}");
        }
    }

    #[test]
    fn what_does_not_end_is_given_up_at_the_limit() {
        for (framing, piece) in [
            (Framing::Lines, "xxxxxxxx"),
            (Framing::ServerSentEvents, "data: xx"),
            (Framing::ServerSentEvents, "data: xx\n"),
            (Framing::ServerSentEvents, ": xxxxxx"),
        ] {
            let mut events = Events::new(framing);
            let taken = (0..=LONGEST_EVENT).find(|_| events.next(&mut piece.as_bytes()).is_err()).unwrap();
            assert!(taken * piece.len() <= 4 * LONGEST_EVENT, "{piece}: {taken}");
            assert!(events.line.capacity() + events.data.capacity() <= 4 * LONGEST_EVENT);
        }
    }
}
