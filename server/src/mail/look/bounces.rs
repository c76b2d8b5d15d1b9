//! The mailbox that bounces and delivery reports come to: the one of `mail.smtp.from`, the envelope's sender.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use chrono::TimeDelta;

use super::{
    Finding, Look, MailboxSettings, SettingsError, Wanted,
    imap::{Found, Mailbox, Query},
    report, run,
};
use crate::mail::evidence::clean;

/// The most mails that are read in one look.
const MAX_CANDIDATES: usize = 50;

/// The beginning of each: the report stands before what it returns.
const SECTION: &str = "BODY.PEEK[]<0.262144>";

/// Looks for a mail about an attempt.
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
impl Look for Bounces {
    fn name(&self) -> &str {
        &self.name
    }

    async fn look(&self, wanted: &Wanted) -> Finding {
        let keys = match keys(wanted) {
            Ok(keys) => keys,
            Err(reason) => return Finding::Failed { reason },
        };
        let (name, mailbox, wanted) = (self.name.clone(), self.mailbox.clone(), wanted.clone());
        run(mailbox.max(), async move {
            let found = mailbox.find(&Query { keys: &keys, section: SECTION, limit: MAX_CANDIDATES }).await?;
            Ok(judge(&name, &keys, &wanted, &found))
        })
        .await
    }
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
    let proof = found.hits.iter().find_map(|hit| Some((hit, report::proof(&hit.bytes, wanted)?)));
    match proof {
        Some((hit, proof)) => Finding::Accepted { evidence: format!("{name}: {}, {}", found.name(hit), clean(&proof)) },
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
    use crate::mail::look::tests::wanted;

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
}
