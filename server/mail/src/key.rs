//! Idempotency keys: how a service recognises a message that it was given before.
//!
//! The key follows from the Message-ID (128 random bits, one for all attempts) and from whom it is meant for: the channel's
//! address and account. It stands in a header of the stored bytes, so it is there or not there for good. When the settings
//! name another server or account later, the key in the bytes is no longer the one they lead to, and nothing is handed over
//! again: to the new service the message would be a first one.

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use mail_parser::MessageParser;
use sha2::{Digest, Sha256};

use super::channel::{Delivery, Journal, Outgoing, Reconciled, Refused};

/// How much of a key's life is not used: the service's clock and ours are two.
const MARGIN: TimeDelta = TimeDelta::hours(1);

/// A header with a message's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHeader {
    /// The field's name (RFC 5322 3.6.8).
    pub name: String,
    /// The key, 32 hexadecimal digits.
    pub value: String,
}

impl KeyHeader {
    /// The key of a message for one service, which `account` names in parts: its address, the user, and so on.
    pub(super) fn new(name: &str, account: &[&str], message_id: &str) -> Self {
        let mut hash = Sha256::new();
        for part in account.iter().chain([&message_id]) {
            // The length keeps two parts from being read as one.
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        let key = hash.finalize().iter().take(16).fold(0_u128, |key, byte| key << 8 | u128::from(*byte));
        Self { name: name.to_owned(), value: format!("{key:032x}") }
    }

    /// Whether the stored message has exactly this header.
    pub(super) fn is_in(&self, message: &Outgoing) -> bool {
        let parser = MessageParser::new().default_header_raw();
        parser.parse_headers(&*message.bytes).is_some_and(|parsed| {
            parsed.headers_raw().any(|(name, value)| name.eq_ignore_ascii_case(&self.name) && value.trim() == self.value)
        })
    }
}

/// Whether a key that lives for `life` from the first attempt on is certainly still recognised. An attempt that is still to
/// come says that the clock was set back, and then nobody knows how old the key is.
pub fn recognised(life: TimeDelta, first_attempt: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    first_attempt <= now && first_attempt + (life - MARGIN.min(life / 2)) > now
}

/// The journal of a message that is handed over again: the record says already that it may have been accepted.
pub(super) struct InDoubtAlready;

#[async_trait]
impl Journal for InDoubtAlready {
    async fn in_doubt(&self) -> Result<(), Refused> {
        Ok(())
    }
}

/// What handing a message over again says about the first attempt.
pub(super) fn reconciled(again: Delivery) -> Reconciled {
    let not_known = |what: String| Reconciled::NotKnown { evidence: format!("handed over again under the same key: {what}") };
    match again {
        Delivery::Accepted { evidence, peer } => {
            Reconciled::Accepted { evidence: format!("{evidence} ({peer}), handed over again under the same key") }
        }
        Delivery::NotAccepted { phase, evidence, .. } => not_known(format!("{evidence} ({phase})")),
        Delivery::BrokenOff { phase, cause } => not_known(format!("broken off {phase}: {cause}")),
        Delivery::Unconfirmed { evidence } => not_known(evidence),
    }
}

/// The answer where handing over again could make a second message.
pub(super) fn not_asked() -> Reconciled {
    Reconciled::NotKnown {
        evidence: "not handed over again: the message carries no key that the mail service of the present settings would \
                   recognise"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_for_the_same_message_and_service_only() {
        let key = |account: &[&str], id: &str| KeyHeader::new("X-Key", account, id).value;
        let one = key(&["mx", "u"], "<1@e.org>");
        assert_eq!(one, key(&["mx", "u"], "<1@e.org>"));
        assert_eq!(one.len(), 32);
        for other in [key(&["mx", "u"], "<2@e.org>"), key(&["mx", "v"], "<1@e.org>"), key(&["mxu", ""], "<1@e.org>")] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_last_hour_of_a_keys_life_is_not_used() {
        let first = DateTime::from_timestamp(1_782_900_000, 0).expect("a time");
        let day = TimeDelta::hours(24);
        assert!(recognised(day, first, first));
        assert!(recognised(day, first, first + TimeDelta::hours(23) - TimeDelta::seconds(1)));
        assert!(!recognised(day, first, first + TimeDelta::hours(23)));
        assert!(!recognised(day, first, first - TimeDelta::seconds(1)), "the clock was set back");
        assert!(recognised(TimeDelta::hours(1), first, first + TimeDelta::minutes(29)), "half of a short life is used");
        assert!(!recognised(TimeDelta::hours(1), first, first + TimeDelta::minutes(30)));
    }
}
