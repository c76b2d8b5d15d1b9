//! What a mail in the bounce mailbox says about a message: a delivery report (RFC 3464), or the message's own header section
//! come back.
//!
//! A report about the recipient that names the attempt's envelope id proves that the mail service had accepted it, whatever it
//! reports: nobody else was told that id, and a refused message makes no report (RFC 3461 4). A report that names another one is
//! about another attempt. The message's own headers in a bounce, which servers write that know nothing of envelope ids, are a
//! hint: whoever knows the Message-ID can write such a mail.

use lettre::Address;
use mail_parser::{MessageParser, MessagePart, MimeHeaders};

use super::{Wanted, fields};

/// A mail with more mails inside than this is broken or hostile; dropping such a tree takes stack for each level.
const MAX_MAILS_INSIDE: usize = 100;

/// What may have become of a message (RFC 3464 2.3.3). All of it comes after the acceptance.
const ACTIONS: [&str; 5] = ["failed", "delayed", "delivered", "relayed", "expanded"];

/// The fields worth keeping, of the whole report and of each recipient.
const KEPT: [&str; 7] =
    ["Original-Envelope-Id", "Reporting-MTA", "Arrival-Date", "Final-Recipient", "Action", "Status", "Diagnostic-Code"];

/// What a mail is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Worth {
    /// Proof, word for word but for the envelope id.
    Proof(String),
    /// Something that anybody could have written who knows the Message-ID.
    Hint(String),
}

/// What this mail says about the message; `None` if nothing.
pub(super) fn weigh(mail: &[u8], wanted: &Wanted) -> Option<Worth> {
    if mail.windows(8).filter(|window| window.eq_ignore_ascii_case(b"message/")).count() > MAX_MAILS_INSIDE {
        return None;
    }
    let mail = MessageParser::default().parse(mail)?;
    for part in mail.parts.iter().filter(|part| is(part, "message", &["delivery-status", "global-delivery-status"])) {
        let groups = fields::groups(part.contents());
        let Some((about, recipients)) = groups.split_first() else { continue };
        if let Some(id) = fields::only(about, "Original-Envelope-Id") {
            let ours = wanted.envelope_ids.iter().any(|ours| ours.to_string() == id);
            let about_us = |group: &Vec<_>| has_action(group) && is_about(group, &wanted.recipient);
            return (ours && recipients.iter().any(about_us)).then(|| Worth::Proof(words(&groups)));
        }
    }
    mail.parts.iter().find_map(|part| returned(part, wanted)).map(Worth::Hint)
}

fn has_action(group: &[(String, String)]) -> bool {
    fields::only(group, "Action").is_some_and(|action| ACTIONS.iter().any(|known| known.eq_ignore_ascii_case(action)))
}

/// Whether the report's recipient is this one: as he was named to the mail service, or as its server knows him in the end.
fn is_about(group: &[(String, String)], recipient: &Address) -> bool {
    ["Original-Recipient", "Final-Recipient"].iter().any(|name| {
        // RFC 3464 2.3.1: the kind of address, and the address
        let address = fields::only(group, name).and_then(|value| value.split_once(';')).map(|(_, address)| address.trim());
        address.is_some_and(|address| address.eq_ignore_ascii_case(recipient.as_ref()))
    })
}

fn words(groups: &[Vec<(String, String)>]) -> String {
    let kept = |name: &str| KEPT.iter().any(|kept| kept.eq_ignore_ascii_case(name));
    let fields = groups.iter().flatten().filter(|(name, _)| kept(name));
    fields.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("; ")
}

/// The message's own header section, with or without its text.
fn returned(part: &MessagePart<'_>, wanted: &Wanted) -> Option<String> {
    let headers = is(part, "message", &["rfc822", "global", "global-headers"]) || is(part, "text", &["rfc822-headers"]);
    let fields = headers.then(|| fields::of(part.contents()))?;
    let id = fields::only(&fields, "Message-ID").filter(|id| *id == wanted.message_id)?;
    Some(format!("it returns the message with the header Message-ID: {id}"))
}

fn is(part: &MessagePart<'_>, kind: &str, subtypes: &[&str]) -> bool {
    part.content_type().is_some_and(|content| {
        let subtype = content.subtype().unwrap_or_default();
        content.ctype().eq_ignore_ascii_case(kind) && subtypes.iter().any(|known| known.eq_ignore_ascii_case(subtype))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::wanted;

    const OURS: &str = "00000000-0000-0000-0000-000000000007";

    /// A report as exim writes it.
    fn report(envelope_id: &str, recipient: &str, returned: &str) -> Vec<u8> {
        let status = format!("Reporting-MTA: dns; mx\r\n{envelope_id}\r\n\r\n{recipient}\r\n");
        format!(
            "From: Mailer-Daemon@mx\r\nTo: r@example.org\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n\
             --b\r\nContent-Type: text/plain\r\n\r\nMessage <1@e> with {OURS}\r\n\
             --b\r\nContent-Type: message/delivery-status\r\n\r\n{status}\r\n\
             --b\r\nContent-Type: text/rfc822-headers\r\n\r\n{returned}\r\n--b--\r\n"
        )
        .into_bytes()
    }

    fn weighed(mail: &[u8]) -> Option<Worth> {
        weigh(mail, &wanted("<1@e>"))
    }

    const HINT: &str = "it returns the message with the header Message-ID: <1@e>";

    #[test]
    fn every_report_about_the_attempt_is_proof() {
        for action in ACTIONS {
            let recipient = format!("Final-Recipient: rfc822;anna@example.org\r\nAction: {action}\r\nStatus: 2.0.0");
            let expected = format!(
                "Reporting-MTA: dns; mx; Original-Envelope-ID: {OURS}; Final-Recipient: rfc822;anna@example.org; \
                 Action: {action}; Status: 2.0.0"
            );
            let mail = report(&format!("Original-Envelope-ID: {OURS}"), &recipient, "Subject: s");
            assert_eq!(weighed(&mail), Some(Worth::Proof(expected)));
        }
    }

    #[test]
    fn a_report_about_another_attempt_is_none_even_with_the_same_message_id() {
        let delivered = "Final-Recipient: rfc822;anna@example.org\r\nAction: delivered\r\nStatus: 2.0.0";
        for id in [
            "00000000-0000-0000-0000-000000000008",
            "00000000-0000-0000-0000-0000000000071",
            "0000000-0000-0000-0000-000000000007",
            "",
        ] {
            let mail = report(&format!("Original-Envelope-Id: {id}"), delivered, "Message-ID: <1@e>");
            assert_eq!(weighed(&mail), None, "{id}");
        }
    }

    #[test]
    fn the_envelope_id_counts_only_where_it_belongs_and_with_an_action() {
        for recipient in ["", "Original-Envelope-Id: x", "Action: guessed", "Final-Recipient: rfc822;anna@example.org"] {
            assert_eq!(weighed(&report(&format!("Original-Envelope-Id: {OURS}"), recipient, "Subject: s")), None);
        }
        let twice = format!("Original-Envelope-Id: {OURS}\r\nOriginal-Envelope-Id: {OURS}");
        let delivered = "Final-Recipient: rfc822;anna@example.org\r\nAction: delivered";
        assert_eq!(weighed(&report(&twice, delivered, "Subject: s")), None);
        assert_eq!(weighed(&report("X: y", &format!("Original-Envelope-Id: {OURS}\r\n{delivered}"), "Subject: s")), None);
    }

    #[test]
    fn a_report_is_about_its_recipient_by_either_name() {
        let named = |field: &str| report(&format!("Original-Envelope-Id: {OURS}"), &format!("{field}\r\nAction: failed"), "S: s");
        for field in [
            "Final-Recipient: rfc822; ANNA@example.org",
            "Original-Recipient: rfc822;anna@example.org\r\nFinal-Recipient: rfc822;a.smith@elsewhere.example",
        ] {
            assert!(matches!(weighed(&named(field)), Some(Worth::Proof(_))), "{field}");
        }
        for field in
            ["Final-Recipient: rfc822;bert@example.org", "Final-Recipient: anna@example.org", "X: rfc822;anna@example.org"]
        {
            assert_eq!(weighed(&named(field)), None, "{field}");
        }
    }

    /// What the owner of a job can see or reckon: the job, the number, the Message-ID of other e-mails, and whatever can be reckoned
    /// from them.
    #[test]
    fn a_report_that_was_made_up_from_what_a_page_shows_proves_nothing() {
        let job = uuid::Uuid::from_u128(7_000);
        let delivered = "Final-Recipient: rfc822;anna@example.org\r\nAction: delivered\r\nStatus: 2.0.0";
        let reckoned = (0..5).map(|attempt| uuid::Uuid::new_v5(&job, format!("<1@e> {attempt}").as_bytes()).to_string());
        let guesses = ["<1@e>".to_owned(), "1@e".to_owned(), job.to_string(), "1".to_owned(), uuid::Uuid::nil().to_string()];
        for id in reckoned.chain(guesses) {
            let mail = report(&format!("Original-Envelope-Id: {id}"), delivered, "Message-ID: <1@e>");
            assert_eq!(weighed(&mail), None, "{id}");
        }
        assert_eq!(weighed(&report("X: y", delivered, "Message-ID: <1@e>")), Some(Worth::Hint(HINT.into())));
        // No attempt has a name that a report could know.
        let nameless = Wanted { envelope_ids: Vec::new(), ..wanted("<1@e>") };
        let mail = report(&format!("Original-Envelope-Id: {OURS}"), delivered, "Message-ID: <1@e>");
        assert_eq!(weigh(&mail, &nameless), None);
    }

    #[test]
    fn a_bounce_without_an_envelope_id_is_a_hint_with_the_exact_message_id() {
        let failed = "Final-Recipient: rfc822;a@e\r\nAction: failed\r\nStatus: 5.0.0";
        let found = weighed(&report("X: y", failed, "Subject: s\r\nMessage-ID:\r\n <1@e>"));
        assert_eq!(found, Some(Worth::Hint(HINT.into())));
        for header in
            ["Message-ID: <11@e>", "Message-ID: <1@e.org>", "References: <1@e>", "Subject: <1@e>\r\n\r\nMessage-ID: <1@e>"]
        {
            assert_eq!(weighed(&report("X: y", failed, header)), None, "{header}");
        }
    }

    #[test]
    fn a_returned_message_is_a_hint_and_the_message_itself_is_not() {
        let itself = "From: r@example.org\r\nMessage-ID: <1@e>\r\nContent-Type: text/plain\r\n\r\ntext";
        assert_eq!(weighed(itself.as_bytes()), None);
        let bounce = format!(
            "From: x@y\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
             --b\r\n\r\nno\r\n--b\r\nContent-Type: MESSAGE/RFC822\r\n\r\n{itself}\r\n--b--\r\n"
        );
        assert_eq!(weighed(bounce.as_bytes()), Some(Worth::Hint(HINT.into())));
        // Inside another mail it is somebody's attachment; that mail's own headers are what came back.
        let deeper = format!(
            "From: x@y\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n\
             --c\r\nContent-Type: message/rfc822\r\n\r\n{bounce}\r\n--c--\r\n"
        );
        assert_eq!(weighed(deeper.as_bytes()), None);
    }

    #[test]
    fn a_cut_broken_or_hostile_mail_proves_nothing() {
        let delivered = "Final-Recipient: rfc822;anna@example.org\r\nAction: delivered";
        let whole = report(&format!("Original-Envelope-Id: {OURS}"), delivered, "Message-ID: <1@e>");
        for end in 0..whole.len() {
            // Must not panic; what is proved by the part that is there may be proved.
            let _ = weighed(&whole[..end]);
        }
        let noise: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        assert_eq!(weighed(&noise), None);
        let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(10_000);
        assert_eq!(weighed(nested.as_bytes()), None);
    }
}
