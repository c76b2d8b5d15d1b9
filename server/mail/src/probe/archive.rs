//! The mailbox that gets a copy of every message.
//!
//! The copy goes to a second envelope recipient of the same transaction (`mail.smtp.archive`). RFC 5321 4.1.1.4 knows one
//! outcome for a message, not one per recipient, so the copy proves that the server also took the message for its recipient.

use async_trait::async_trait;

use super::{
    Finding, MailboxSettings, Probe, SettingsError, Wanted, fields,
    imap::{Found, Mailbox, Query},
    run,
};

/// The most messages whose Message-ID is compared; a server searches for a part of a header (RFC 3501 6.4.4).
const MAX_CANDIDATES: usize = 20;

/// Only the one header field, and no more of it than a line may have.
const SECTION: &str = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]<0.4096>";

/// Probes for the copy by its exact Message-ID.
pub struct Archive {
    name: String,
    mailbox: std::sync::Arc<Mailbox>,
}

impl Archive {
    /// Checks the settings and prepares TLS; does not connect.
    ///
    /// # Errors
    /// Says in words which setting is wrong.
    pub fn new(settings: &MailboxSettings) -> Result<Self, SettingsError> {
        let mailbox = Mailbox::new(settings)?;
        Ok(Self { name: format!("archive mailbox {}", mailbox.place()), mailbox: mailbox.into() })
    }
}

#[async_trait]
impl Probe for Archive {
    fn name(&self) -> &str {
        &self.name
    }

    async fn look(&self, wanted: &Wanted) -> Finding {
        let id = match wanted.searchable_id() {
            Ok(id) => id.to_owned(),
            Err(reason) => return Finding::Failed { reason },
        };
        let (name, mailbox) = (self.name.clone(), self.mailbox.clone());
        run(mailbox.max(), async move {
            let keys = format!("HEADER Message-ID \"{id}\"");
            let found = mailbox.find(&Query { keys: &keys, section: SECTION, limit: MAX_CANDIDATES }).await?;
            Ok(judge(&name, &keys, &id, &found))
        })
        .await
    }
}

fn judge(name: &str, keys: &str, id: &str, found: &Found) -> Finding {
    let same = found.hits.iter().find(|hit| fields::only(&fields::of(&hit.bytes), "Message-ID") == Some(id));
    match same {
        Some(hit) => Finding::Accepted { evidence: format!("{name}: {}, Message-ID: {id}", found.name(hit)) },
        None => Finding::Nothing {
            asked: format!(
                "{name}: UID SEARCH {keys} found {} of {} messages, none with exactly this Message-ID",
                found.matches, found.in_folder
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::imap::Hit;

    fn judged(headers: &[&str]) -> Finding {
        let hits = (1..).zip(headers).map(|(uid, text)| Hit { uid, arrived: None, bytes: text.as_bytes().to_vec() }).collect();
        let found = Found { uid_validity: Some(9), in_folder: 5, matches: headers.len(), hits };
        judge("archive", "HEADER Message-ID \"<1@e>\"", "<1@e>", &found)
    }

    #[test]
    fn only_the_whole_id_is_proof() {
        let evidence = "archive: UID 2 (UIDVALIDITY 9), Message-ID: <1@e>".to_owned();
        let found = judged(&["Message-ID: <11@e>\r\n\r\n", "message-id:\r\n <1@e>\r\n\r\n"]);
        assert_eq!(found, Finding::Accepted { evidence });
        for header in [
            "",
            "Message-ID: <11@e>\r\n\r\n",
            "Message-ID: <1@e.org>\r\n\r\n",
            "Message-ID: x<1@e>\r\n\r\n",
            "Message-ID: <1@E>\r\n\r\n",
            "In-Reply-To: <1@e>\r\n\r\n",
            "Message-ID: <2@e>\r\nMessage-ID: <1@e>\r\n\r\n",
        ] {
            assert!(matches!(judged(&[header]), Finding::Nothing { .. }), "{header}");
        }
    }

    #[test]
    fn nothing_says_what_was_asked() {
        let Finding::Nothing { asked } = judged(&[]) else { panic!("nothing was there") };
        assert!(asked.contains("UID SEARCH HEADER Message-ID \"<1@e>\" found 0 of 5 messages"), "{asked}");
    }
}
