//! Recipients as a person types them into a form.
//!
//! What passes here can stand in a header and in an SMTP command without quoting or escaping: no
//! white space, no control characters, one address and nothing around it. Everything refused is
//! refused in words that name the address, so that the form can show them beside the field.

use std::{fmt, str::FromStr};

use lettre::Address;
use thiserror::Error;

/// How many recipients a report may have unless the settings say otherwise.
pub const DEFAULT_MAX_RECIPIENTS: usize = 100;

/// Longest address that SMTP can carry (RFC 5321 4.5.3.1.3), in bytes.
const MAX_ADDRESS: usize = 254;

/// Longest local part (RFC 5321 4.5.3.1.1), in bytes.
const MAX_LOCAL_PART: usize = 64;

/// Longest piece of a wrong address that an error repeats, in characters.
const MAX_QUOTED: usize = 80;

/// One person (or list) to write to.
///
/// The domain is in its ASCII form (`xn--…`), so that only a local part outside ASCII needs a mail
/// server with SMTPUTF8. Two recipients are equal when mail to them goes the same way: the domain
/// ignores case, the local part does not (RFC 5321 2.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recipient {
    address: Address,
}

impl Recipient {
    /// The address for the envelope and the header.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Why a text is not one e-mail address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecipientError {
    /// Not an address at all.
    #[error("\"{0}\" is not an e-mail address.")]
    NotAnAddress(String),
    /// Line breaks or other control characters, as in an attempt to smuggle in a header.
    #[error("\"{0}\" contains a line break or another control character. Type the address again.")]
    ControlCharacter(String),
    /// White space within the address.
    #[error("\"{0}\" contains a space. Separate addresses with a comma.")]
    Space(String),
    /// Longer than mail servers take.
    #[error("\"{0}\" is longer than an e-mail address can be.")]
    TooLong(String),
}

impl FromStr for Recipient {
    type Err = RecipientError;

    /// Parses exactly one address; white space around it is ignored, a display name is not taken.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim_matches([' ', '\t']);
        if text.chars().any(char::is_control) {
            return Err(RecipientError::ControlCharacter(quoted(text)));
        }
        if text.chars().any(char::is_whitespace) {
            return Err(RecipientError::Space(quoted(text)));
        }
        let not_an_address = || RecipientError::NotAnAddress(quoted(text));
        let (local, domain) = text.rsplit_once('@').ok_or_else(not_an_address)?;
        if text.contains(['<', '>']) || local.contains('"') {
            return Err(not_an_address());
        }
        let domain = if domain.starts_with('[') {
            domain.to_owned()
        } else {
            idna::domain_to_ascii(domain).map_err(|_| not_an_address())?
        };
        if local.len() > MAX_LOCAL_PART || local.len() + 1 + domain.len() > MAX_ADDRESS {
            return Err(RecipientError::TooLong(quoted(text)));
        }
        let address = Address::new(local, domain).map_err(|_| not_an_address())?;
        Ok(Self { address })
    }
}

/// Why a whole field of recipients is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecipientsError {
    /// Nothing but separators.
    #[error("Give at least one e-mail address.")]
    None,
    /// More than are allowed, counted after merging duplicates.
    #[error(
        "{} recipients are more than Recount sends to: at most {}.",
        grouped(*given),
        grouped(*max)
    )]
    TooMany {
        /// How many different ones were given.
        given: usize,
        /// How many are allowed.
        max: usize,
    },
    /// At least one is wrong; every wrong one is listed, in the order of the field.
    #[error("{}", joined(.0))]
    Invalid(Vec<RecipientError>),
}

/// Reads a field with addresses separated by commas, semicolons or line breaks.
///
/// Duplicates are merged, the first stays in its place.
///
/// # Errors
/// Everything that is wrong with the field at once, see [`RecipientsError`].
pub fn parse_recipients(field: &str, max: usize) -> Result<Vec<Recipient>, RecipientsError> {
    let mut recipients = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut wrong = Vec::new();
    let parts = field.split([',', ';', '\n', '\r']).map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        match part.parse::<Recipient>() {
            Ok(recipient) => {
                if seen.insert(recipient.clone()) {
                    recipients.push(recipient);
                }
            }
            Err(error) => wrong.push(error),
        }
    }
    let given = recipients.len() + wrong.len();
    if given > max {
        return Err(RecipientsError::TooMany { given, max });
    }
    if !wrong.is_empty() {
        return Err(RecipientsError::Invalid(wrong));
    }
    if recipients.is_empty() {
        return Err(RecipientsError::None);
    }
    Ok(recipients)
}

/// The text for an error: bounded, and with control characters made visible.
fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_QUOTED).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        shown.push('…');
    }
    shown
}

fn joined(errors: &[RecipientError]) -> String {
    let sentences: Vec<_> = errors.iter().map(ToString::to_string).collect();
    sentences.join(" ")
}

/// 1000 → `1,000`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<String, String> {
        text.parse::<Recipient>().map(|r| r.to_string()).map_err(|e| e.to_string())
    }

    fn list(field: &str) -> Result<Vec<String>, String> {
        parse_recipients(field, DEFAULT_MAX_RECIPIENTS)
            .map(|all| all.iter().map(ToString::to_string).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn ordinary_addresses_are_taken_as_they_are() {
        for good in [
            "anna@example.org",
            "first.last+tag@mail.example.co.uk",
            "O'Brien@example.org",
            "anna@localhost",
            "postmaster@[127.0.0.1]",
        ] {
            assert_eq!(one(good), Ok(good.to_owned()));
        }
        assert_eq!(one("  anna@example.org\t"), Ok("anna@example.org".to_owned()));
    }

    #[test]
    fn letters_outside_ascii_stay_in_the_local_part_and_are_encoded_in_the_domain() {
        assert_eq!(one("ünal@Müller.example"), Ok("ünal@xn--mller-kva.example".to_owned()));
        assert_eq!(one("用户@例子.example"), Ok("用户@xn--fsqu00a.example".to_owned()));
    }

    #[test]
    fn what_is_not_one_address_is_refused_by_name() {
        for wrong in [
            "anna",
            "anna@",
            "@example.org",
            "@",
            "a@b@",
            "anna@exa_mple..org",
            "anna@.org",
            "Anna <anna@example.org>",
            "<anna@example.org>",
            "a..b@example.org",
            "anna@-x.org",
            "\"a b\"@example.org",
            "\"a\"@example.org",
            "anna@example.org>",
            "anna@[1.2.3",
        ] {
            let error = one(wrong).expect_err(wrong);
            assert!(error.contains(wrong), "{wrong}: {error}");
        }
        assert_eq!(one("anna@"), Err("\"anna@\" is not an e-mail address.".to_owned()));
    }

    #[test]
    fn headers_cannot_be_injected() {
        for wrong in [
            "a@example.org\r\nBcc: x@example.org",
            "a@example.org\nBcc:x@example.org",
            "a\r@example.org",
            "a\0@example.org",
            "a@exam\u{7f}ple.org",
            "a@example.org\u{85}",
        ] {
            let error = one(wrong).expect_err(wrong);
            assert!(error.contains("control character"), "{error}");
            assert!(!error.chars().any(char::is_control));
        }
        // In a list the line break separates, and the header is no address.
        let error = list("a@example.org\r\nBcc: x@example.org").expect_err("header");
        assert_eq!(error, "\"Bcc: x@example.org\" contains a space. Separate addresses with a comma.");
        assert!(one("a b@example.org").is_err_and(|e| e.contains("space")));
        assert!(one("a\u{2028}b@example.org").is_err_and(|e| e.contains("space")));
    }

    #[test]
    fn too_long_is_said_so_and_repeated_in_part() {
        let error = one(&format!("{}@example.org", "a".repeat(65))).expect_err("local part");
        assert!(error.contains("longer"));
        let error = one(&format!("a@{}", "b".repeat(100_000))).expect_err("domain");
        assert!(error.chars().count() < 200, "{error}");
    }

    #[test]
    fn a_list_has_commas_semicolons_or_lines() {
        assert_eq!(
            list("a@example.org, b@example.org;c@example.org\r\n\r\n d@example.org ,"),
            Ok(["a", "b", "c", "d"].map(|n| format!("{n}@example.org")).to_vec())
        );
        assert_eq!(list(" ,;\n"), Err("Give at least one e-mail address.".to_owned()));
    }

    #[test]
    fn duplicates_are_merged_ignoring_case_only_in_the_domain() {
        assert_eq!(
            list("a@Example.org, a@example.ORG, A@example.org"),
            Ok(vec!["a@example.org".to_owned(), "A@example.org".to_owned()])
        );
    }

    #[test]
    fn every_wrong_address_gets_its_sentence() {
        assert_eq!(
            list("anna@, ok@example.org, bert"),
            Err("\"anna@\" is not an e-mail address. \"bert\" is not an e-mail address.".to_owned())
        );
    }

    #[test]
    fn a_thousand_recipients_are_too_many_and_a_hundred_are_not() {
        let field = |n: usize| {
            let lines: Vec<_> = (0..n).map(|i| format!("p{i}@example.org")).collect();
            lines.join(
                "
",
            )
        };
        assert_eq!(list(&field(100)).map(|all| all.len()), Ok(100));
        assert_eq!(list(&field(1000)), Err("1,000 recipients are more than Recount sends to: at most 100.".to_owned()));
        assert_eq!(parse_recipients(&field(2), 1), Err(RecipientsError::TooMany { given: 2, max: 1 }));
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1,234,567".into()));
    }
}
