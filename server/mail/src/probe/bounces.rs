//! The mailbox that bounces and delivery reports come to: the one of `mail.smtp.from`, the envelope's sender.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use chrono::TimeDelta;

use super::{
    Finding, MailboxSettings, Probe, SettingsError, Wanted,
    imap::{Found, Mailbox, Query},
    report::{Worth, weigh},
    run,
};
use crate::evidence::clean;

/// The most mails that are read in one look.
const MAX_CANDIDATES: usize = 50;

/// The beginning of each: the report stands before what it returns.
const SECTION: &str = "BODY.PEEK[]<0.262144>";

/// Probes for a mail about an attempt.
pub struct Bounces {
    name: String,
    mailbox: Arc<Mailbox>,
}

impl Bounces {
    /// Checks the settings and prepares TLS; does not connect.
    ///
    /// # Errors
    /// Says in words which setting is wrong.
    pub fn new(settings: &MailboxSettings) -> Result<Self, SettingsError> {
        let mailbox = Mailbox::new(settings)?;
        Ok(Self { name: format!("bounce mailbox {}", mailbox.place()), mailbox: mailbox.into() })
    }
}

#[async_trait]
impl Probe for Bounces {
    fn name(&self) -> &str {
        &self.name
    }

    async fn look(&self, wanted: &Wanted) -> Finding {
        let keys = match keys(wanted) {
            Ok(keys) => keys,
            Err(reason) => return Finding::Failed { reason },
        };
        let (name, mailbox, for_task) = (self.name.clone(), self.mailbox.clone(), wanted.clone());
        let finding = run(mailbox.max(), async move {
            let found = mailbox.find(&Query { keys: &keys, section: SECTION, limit: MAX_CANDIDATES }).await?;
            Ok(judge(&name, &keys, &for_task, &found))
        });
        concealed(finding.await, wanted)
    }
}

/// A finding is kept and shown, and the envelope ids are nobody's to see: not in what a report says, nor in what was asked or in
/// a server's complaint about it.
fn concealed(mut finding: Finding, wanted: &Wanted) -> Finding {
    let (Finding::Accepted { evidence: text }
    | Finding::Hint { seen: text }
    | Finding::Nothing { asked: text }
    | Finding::Failed { reason: text }) = &mut finding;
    for (id, place) in wanted.envelope_ids.iter().zip(1..) {
        *text = text.replace(&id.to_string(), &format!("(envelope id {place})"));
    }
    finding
}

/// Any mail since then that has one of the ids anywhere.
fn keys(wanted: &Wanted) -> Result<String, String> {
    let id = wanted.searchable_id()?.trim_matches(['<', '>']);
    // SINCE takes a day without a time zone (RFC 3501 6.4.4), and the server's clock is another one.
    let since = (wanted.since - TimeDelta::days(1)).format("%-d-%b-%Y");
    let mut keys = format!("SINCE {since} ");
    for envelope_id in &wanted.envelope_ids {
        // Writing to a string cannot fail.
        let _ = write!(keys, "OR TEXT \"{envelope_id}\" ");
    }
    let _ = write!(keys, "TEXT \"{id}\"");
    Ok(keys)
}

fn judge(name: &str, keys: &str, wanted: &Wanted, found: &Found) -> Finding {
    let weighed: Vec<_> = found.hits.iter().filter_map(|hit| Some((hit, weigh(&hit.bytes, wanted)?))).collect();
    let proof = weighed.iter().find(|(_, worth)| matches!(worth, Worth::Proof(_)));
    match proof.or(weighed.first()) {
        Some((hit, Worth::Proof(proof))) => {
            Finding::Accepted { evidence: format!("{name}: {}, {}", found.name(hit), clean(proof)) }
        }
        Some((hit, Worth::Hint(seen))) => Finding::Hint {
            seen: format!(
                "{name}: {}, {}; that proves nothing by itself, whoever knows the id can write it",
                found.name(hit),
                clean(seen)
            ),
        },
        None => Finding::Nothing {
            asked: format!(
                "{name}: UID SEARCH {keys} found {} of {} messages; of the {} newest, none reports on this message",
                found.matches,
                found.in_folder,
                found.hits.len()
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::wanted;

    #[test]
    fn every_attempt_is_searched_for_from_the_day_before() {
        let mut wanted = wanted("<1@e>");
        let first = "00000000-0000-0000-0000-000000000007";
        assert_eq!(keys(&wanted), Ok(format!("SINCE 20-Sep-2026 OR TEXT \"{first}\" TEXT \"1@e\"")));
        wanted.envelope_ids.push(uuid::Uuid::from_u128(8));
        let second = "00000000-0000-0000-0000-000000000008";
        assert_eq!(keys(&wanted), Ok(format!("SINCE 20-Sep-2026 OR TEXT \"{first}\" OR TEXT \"{second}\" TEXT \"1@e\"")));
        wanted.message_id = "<1@e\">".into();
        assert!(keys(&wanted).is_err());
    }

    #[test]
    fn no_finding_says_an_envelope_id() {
        let mut wanted = wanted("<1@e>");
        wanted.envelope_ids.push(uuid::Uuid::from_u128(8));
        let said = format!("SEARCH {} OR {}, {}", wanted.envelope_ids[0], wanted.envelope_ids[1], wanted.envelope_ids[0]);
        let expected = "SEARCH (envelope id 1) OR (envelope id 2), (envelope id 1)".to_owned();
        for (finding, concealing) in [
            (Finding::Accepted { evidence: said.clone() }, Finding::Accepted { evidence: expected.clone() }),
            (Finding::Hint { seen: said.clone() }, Finding::Hint { seen: expected.clone() }),
            (Finding::Nothing { asked: said.clone() }, Finding::Nothing { asked: expected.clone() }),
            (Finding::Failed { reason: said.clone() }, Finding::Failed { reason: expected.clone() }),
        ] {
            assert_eq!(concealed(finding, &wanted), concealing);
        }
    }
}
