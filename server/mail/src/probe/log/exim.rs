//! exim's main log: `2026-11-29 18:00:00 1vPk3F-00000002abc-0001 <= r@example.org H=… P=esmtp S=812 id=0123@example.org`.

use super::Scan;
use crate::evidence::clean;

/// Probes for the `<=` line with the id.
pub(super) struct Exim {
    /// Without its angle brackets, as exim writes it.
    id: Vec<u8>,
}

impl Exim {
    pub(super) fn new(message_id: &str) -> Self {
        Self { id: message_id.trim_matches(['<', '>']).as_bytes().to_vec() }
    }
}

impl Scan for Exim {
    fn line(&mut self, line: &[u8]) -> Option<String> {
        let mut words = Words(line);
        // Date, time, and by `log_selector` zone and process; nothing that came from outside.
        let queue_id = words.by_ref().find(|word| !word.iter().all(|c| c.is_ascii_digit() || b"-:.+[]".contains(c)))?;
        if !is_queue_id(queue_id) || words.next()? != b"<=" {
            return None;
        }
        let _sender = words.next()?;
        // The first one is exim's own field; later ones could be part of a subject.
        let id = words.find_map(|word| word.strip_prefix(b"id="))?;
        (id == self.id).then(|| clean(&String::from_utf8_lossy(line)))
    }
}

/// `xxxxxx-yyyyyy-zz`, since exim 4.97 `xxxxxx-yyyyyyyyyyy-zzzz`.
fn is_queue_id(word: &[u8]) -> bool {
    let lengths: Vec<usize> = word.split(|c| *c == b'-').map(<[u8]>::len).collect();
    (lengths == [6, 6, 2] || lengths == [6, 11, 4]) && word.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
}

/// What spaces separate, except inside quotation marks: `DN="CN=Anna B"` is one word.
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        self.0 = self.0.trim_ascii_start();
        let (mut quoted, mut escaped) = (false, false);
        let end = self.0.iter().position(|c| {
            let ends = *c == b' ' && !quoted;
            quoted ^= *c == b'"' && !escaped;
            escaped = *c == b'\\' && !escaped;
            ends
        });
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proves(line: &str) -> bool {
        Exim::new("<1@e.org>").line(line.as_bytes()).is_some()
    }

    #[test]
    fn the_line_that_takes_the_message_is_proof() {
        for line in [
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org H=(c) [127.0.0.1] P=esmtp S=812 id=1@e.org",
            "2026-11-29 18:00:00.123 +0100 [4711] 1vPk3F-00000004abc-0001 <= <> R=x U=root P=local S=8 id=1@e.org T=\"s\"",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= \"a b\"@e.org DN=\"CN=x id=9@e.org\" S=8 id=1@e.org for a@e.org",
        ] {
            assert_eq!(Exim::new("<1@e.org>").line(line.as_bytes()).as_deref(), Some(line));
        }
    }

    #[test]
    fn other_ids_and_other_lines_are_none() {
        for line in [
            "",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=812 id=11@e.org",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=812 id=1@e.org.uk",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=812 id=1@e.or",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=812 id=<1@e.org>",
            // Somebody else's message, with our id where a subject or a sender stands
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=8 id=2@e.org T=\"id=1@e.org\" id=1@e.org",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= r@e.org S=8 T=\"x \\\" id=1@e.org \"",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd <= id=1@e.org",
            // Not taken
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd H=(c) rejected after DATA: 1vPk3F-0004ab-Cd <= r@e.org id=1@e.org",
            "2026-11-29 18:00:00 1vPk3F-0004ab-Cd => anna@e.org R=r T=t id=1@e.org",
            "2026-11-29 18:00:00 rejected <= r@e.org id=1@e.org",
            "2026-11-29 18:00:00 SMTP connection lost after final dot id=1@e.org",
        ] {
            assert!(!proves(line), "{line}");
        }
    }
}
