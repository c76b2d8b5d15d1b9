//! Probes for proof that a message was accepted, where handing it over ended without an answer.
//!
//! Three places can know what the lost answer would have said: the [`Archive`] mailbox that gets a copy of every message in
//! the same transaction, the mailbox of [`Bounces`] and delivery reports, and the mail server's own [`LogFile`]. Each is asked
//! for ids that nobody can guess, and each answer is compared to the whole id. Finding it is proof; not finding it proves
//! nothing, since a copy may be late, a report lost, a log rotated.
//!
//! What is found must not be something that whoever profits could have made. Anybody can write to a mailbox, so there all rests
//! on the ids: the envelope id goes to the mail service and to nobody else, and the Message-ID of an unconfirmed e-mail is shown
//! to administrators only (`docs/contract.md` has the table).

mod archive;
mod bounces;
mod fields;
mod imap;
mod log;
mod report;
mod settings;
mod wire;

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use lettre::Address;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

pub use self::{
    archive::Archive,
    bounces::Bounces,
    log::LogFile,
    settings::{LogFormat, LogSettings, MailboxSettings, SettingsError},
};

/// What is looked for: one message that was handed over and never answered for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// `<…@…>`, the same for every attempt.
    pub message_id: String,
    /// The envelope id (RFC 3461 4.4) of every attempt that may have been accepted. No finding says it.
    pub envelope_ids: Vec<Uuid>,
    /// Whom it was for.
    pub recipient: Address,
    /// When it was first handed over.
    pub since: DateTime<Utc>,
}

impl Wanted {
    /// The Message-ID, if it is one that can be asked for.
    ///
    /// Recount's own are plain ASCII. Anything else could end a quoted string of IMAP or a line of its dialogue.
    fn searchable_id(&self) -> Result<&str, String> {
        let id = self.message_id.as_str();
        let inner = id.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or_default();
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '<' | '>');
        if id.len() <= MAX_ID && inner.contains('@') && inner.chars().all(plain) {
            Ok(id)
        } else {
            Err("the message's id is not one that can be searched for".to_owned())
        }
    }
}

/// Longest Message-ID that is looked for, in bytes; a header line may not be longer (RFC 5322 2.1.1).
const MAX_ID: usize = 998;

/// What a look brought to light.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Proof that the mail service accepted the message.
    Accepted {
        /// Where and what, word for word: the log's line, the archive's Message-ID, the report's fields.
        evidence: String,
    },
    /// Something that anybody could have made who knows the Message-ID: worth a person's look, and proof of nothing.
    Hint {
        /// Where and what.
        seen: String,
    },
    /// Nothing was found, which proves nothing.
    Nothing {
        /// What was asked, and where.
        asked: String,
    },
    /// The place could not be looked at.
    Failed {
        /// Why not.
        reason: String,
    },
}

/// A place that may know what became of a message. Looking changes nothing there.
#[async_trait]
pub trait Probe: Send + Sync {
    /// How screens call it, e.g. `archive mailbox archive@imap.example.org, folder INBOX`.
    fn name(&self) -> &str;

    /// Probes once, within the look's own time-outs. Dropping the future stops it.
    async fn look(&self, wanted: &Wanted) -> Finding;
}

/// Runs one look on a task of its own, for at most `max`: an answer from outside that some parser cannot bear ends that task,
/// not the caller's. Dropping the future ends it too.
async fn run(max: Duration, work: impl Future<Output = Result<Finding, String>> + Send + 'static) -> Finding {
    let task = AbortOnDropHandle::new(tokio::spawn(timeout(max, work)));
    let reason = match task.await {
        Ok(Ok(Ok(finding))) => return finding,
        Ok(Ok(Err(reason))) => reason,
        Ok(Err(_)) => format!("it was not over within {} s", max.as_secs()),
        Err(_) => "what was found there could not be read".to_owned(),
    };
    Finding::Failed { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn wanted(message_id: &str) -> Wanted {
        Wanted {
            message_id: message_id.to_owned(),
            envelope_ids: vec![Uuid::from_u128(7)],
            recipient: "anna@example.org".parse().expect("address"),
            since: DateTime::from_timestamp(1_790_000_000, 0).expect("time"),
        }
    }

    #[test]
    fn only_an_id_that_cannot_be_mistaken_for_a_command_is_asked_for() {
        assert_eq!(wanted("<0123@example.org>").searchable_id(), Ok("<0123@example.org>"));
        let long = format!("<{}@e>", "x".repeat(MAX_ID));
        for id in [
            "",
            "<>",
            "0@e",
            "<0@e",
            "<0>",
            "<0@e>\r\nA1 DELETE INBOX",
            "<0@e\r\n>",
            "<0\"@e>",
            "<0\\@e>",
            "<0@e> OR ALL <1@e>",
            "<ü@e>",
            &long,
        ] {
            assert!(wanted(id).searchable_id().is_err(), "{id}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_ends_however_much_progress_it_makes_and_whatever_breaks() {
        let progress = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let over = Finding::Failed { reason: "it was not over within 180 s".to_owned() };
        assert_eq!(run(Duration::from_mins(3), progress).await, over);
        let broken = Finding::Failed { reason: "what was found there could not be read".to_owned() };
        assert_eq!(run(Duration::from_mins(3), async { panic!("a parser") }).await, broken);
    }
}
