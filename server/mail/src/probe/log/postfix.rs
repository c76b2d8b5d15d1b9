//! Postfix in the system's log:
//!
//! ```text
//! Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=<0123@example.org>
//! Nov 29 18:00:01 mx postfix/qmgr[398]: 4Fk2xQ1: from=<r@example.org>, size=812, nrcpt=2 (queue active)
//! ```
//!
//! The first line is written as soon as the header has come, even if the connection is then lost or the message refused. Only
//! a complete message gets into the queue that `qmgr` reads, so the second one is the proof. Queue ids are used again.

use std::collections::HashMap;

use super::Scan;
use crate::evidence::clean;

/// Probes for the two lines with one queue id.
pub(super) struct Postfix {
    id: Vec<u8>,
    /// Queue ids under which a message with the id is arriving, and the line that says so.
    arriving: HashMap<Vec<u8>, String>,
}

impl Postfix {
    pub(super) fn new(message_id: &str) -> Self {
        Self { id: message_id.as_bytes().to_vec(), arriving: HashMap::new() }
    }
}

impl Scan for Postfix {
    fn line(&mut self, line: &[u8]) -> Option<String> {
        let Line { daemon, queue_id, text } = Line::parse(line)?;
        match daemon {
            b"cleanup" => {
                if let Some(id) = text.strip_prefix(b"message-id=") {
                    if id.trim_ascii_end() == self.id {
                        self.arriving.insert(queue_id.to_vec(), clean(&String::from_utf8_lossy(line)));
                    } else {
                        self.arriving.remove(queue_id);
                    }
                }
            }
            b"qmgr" if text.starts_with(b"from=<") => {
                let arrived = self.arriving.remove(queue_id)?;
                return Some(format!("{arrived} / {}", clean(&String::from_utf8_lossy(line))));
            }
            // The queue id is now another message's
            b"smtpd" | b"pickup" | b"qmqpd" if text.starts_with(b"client=") || text.starts_with(b"uid=") => {
                self.arriving.remove(queue_id);
            }
            _ => {}
        }
        None
    }
}

/// The parts of a line that Postfix itself writes.
struct Line<'a> {
    /// `cleanup` of `postfix/cleanup[412]:`, also of another instance or service.
    daemon: &'a [u8],
    queue_id: &'a [u8],
    text: &'a [u8],
}

impl<'a> Line<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        // The first such word: whatever came from outside stands behind it.
        let program = loop {
            let (word, behind) = split(rest, b' ')?;
            rest = behind;
            if word.ends_with(b"]:") {
                break split(word, b'[')?.0;
            }
        };
        let daemon = program.strip_prefix(b"postfix").and_then(|path| path.rsplit(|c| *c == b'/').next())?;
        let (queue_id, text) = split(rest, b':')?;
        let valid = !queue_id.is_empty() && queue_id.iter().all(u8::is_ascii_alphanumeric);
        valid.then_some(Self { daemon, queue_id, text: text.strip_prefix(b" ")? })
    }
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|c| *c == at)?;
    Some((bytes.get(..place)?, bytes.get(place + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(lines: &[&str]) -> Option<String> {
        let mut scan = Postfix::new("<1@e.org>");
        lines.iter().find_map(|line| scan.line(line.as_bytes()))
    }

    const ARRIVING: &str = "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=<1@e.org>";
    const QUEUED: &str = "Nov 29 18:00:01 mx postfix/qmgr[398]: 4Fk2xQ1: from=<r@e.org>, size=812, nrcpt=2 (queue active)";

    #[test]
    fn arrived_and_queued_under_one_queue_id_is_proof() {
        let other = "Nov 29 18:00:00 mx postfix/cleanup[413]: 9Zz: message-id=<2@e.org>";
        assert_eq!(proof(&[ARRIVING, other, QUEUED]), Some(format!("{ARRIVING} / {QUEUED}")));
        let arriving = "2026-11-29T18:00:00.1+00:00 mx postfix-out/cleanup[4]: 9Zz: message-id=<1@e.org>";
        let queued = "2026-11-29T18:00:00.2+00:00 mx postfix-out/qmgr[5]: 9Zz: from=<>, size=1, nrcpt=1 (queue active)";
        assert!(proof(&[arriving, queued]).is_some());
    }

    /// What Postfix 3.7 wrote about one message that it took and one whose connection was cut in the middle of its text.
    const REAL: &str = "\
        Nov 29 19:01:58 pf postfix/smtpd[19328]: connect from localhost[127.0.0.1]\n\
        Nov 29 19:01:58 pf postfix/smtpd[19328]: 5BA009907D9: client=localhost[127.0.0.1]\n\
        Nov 29 19:01:58 pf postfix/cleanup[19330]: 5BA009907D9: message-id=<good@pf.test>\n\
        Nov 29 19:01:58 pf postfix/smtpd[19328]: connect from localhost[127.0.0.1]\n\
        Nov 29 19:01:58 pf postfix/qmgr[19276]: 5BA009907D9: from=<r@pf.test>, size=240, nrcpt=2 (queue active)\n\
        Nov 29 19:01:58 pf postfix/smtpd[19328]: 69C539907DA: client=localhost[127.0.0.1]\n\
        Nov 29 19:01:58 pf postfix/cleanup[19330]: 69C539907DA: message-id=<lost@pf.test>\n\
        Nov 29 19:01:58 pf postfix/cleanup[19333]: 6EB899907DE: message-id=<20261129190158.6EB899907DE@pf.test>\n\
        Nov 29 19:01:58 pf postfix/qmgr[19276]: 6EB899907DE: from=<>, size=1918, nrcpt=1 (queue active)\n\
        Nov 29 19:01:58 pf postfix/bounce[19332]: 5BA009907D9: sender delivery status notification: 6EB899907DE\n\
        Nov 29 19:01:58 pf postfix/qmgr[19276]: 5BA009907D9: removed\n\
        Nov 29 19:01:59 pf postfix/smtpd[19328]: lost connection after DATA (6131 bytes) from localhost[127.0.0.1]\n";

    #[test]
    fn a_real_log_tells_what_was_taken_from_what_only_arrived() {
        let found = |id| {
            let mut scan = Postfix::new(id);
            REAL.lines().find_map(|line| scan.line(line.as_bytes()))
        };
        assert!(found("<good@pf.test>").is_some_and(|proof| proof.contains("5BA009907D9: from=<r@pf.test>")));
        assert_eq!(found("<lost@pf.test>"), None);
    }

    #[test]
    fn arriving_alone_is_none() {
        let lost = "Nov 29 18:00:01 mx postfix/smtpd[410]: lost connection after DATA (120 bytes) from c[127.0.0.1]";
        let refused = "Nov 29 18:00:01 mx postfix/cleanup[412]: 4Fk2xQ1: milter-reject: END-OF-MESSAGE from c: 5.7.1 no";
        assert_eq!(proof(&[ARRIVING, lost, refused]), None);
        assert_eq!(proof(&[QUEUED, ARRIVING]), None);
        assert_eq!(proof(&[ARRIVING, &QUEUED.replace("4Fk2xQ1", "4Fk2xQ")]), None);
        assert_eq!(proof(&[ARRIVING, &QUEUED.replace("from=<r@e.org>, size=812, nrcpt=2 (queue active)", "removed")]), None);
    }

    #[test]
    fn a_queue_id_that_is_used_again_is_another_message() {
        let client = "Nov 29 18:00:01 mx postfix/submission/smtpd[410]: 4Fk2xQ1: client=c[127.0.0.1]";
        let pickup = "Nov 29 18:00:01 mx postfix/pickup[410]: 4Fk2xQ1: uid=0 from=<root>";
        let other = "Nov 29 18:00:01 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=<>";
        for again in [client, pickup, other] {
            assert_eq!(proof(&[ARRIVING, again, QUEUED]), None, "{again}");
        }
    }

    #[test]
    fn other_ids_and_lines_that_only_quote_ours_are_none() {
        for line in [
            "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=<1@e.org.uk>",
            "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=<1@e.or",
            "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: message-id=1@e.org",
            "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: resent-message-id=<1@e.org>",
            "Nov 29 18:00:00 mx postfix/cleanup[412]: 4Fk2xQ1: info: header Subject: x: message-id=<1@e.org>",
            "Nov 29 18:00:00 mx sshd[1]: postfix/cleanup[412]: 4Fk2xQ1: message-id=<1@e.org>",
            "Nov 29 18:00:00 mx postfix/smtpd[412]: 4Fk2xQ1: message-id=<1@e.org>",
            "Nov 29 18:00:00 mx postfix/cleanup[412]: : message-id=<1@e.org>",
            "",
        ] {
            assert_eq!(proof(&[line, QUEUED]), None, "{line}");
        }
    }
}
