//! The e-mail address that a person signs in with.

use std::fmt;

/// The longest address that SMTP can carry (RFC 5321, section 4.5.3.1.3, without the angle brackets).
const MAX_OCTETS: usize = 254;

/// An e-mail address as the name of an account: trimmed and in lower case, so that one person cannot have two accounts by
/// capital letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EmailAddress(String);

/// What was typed cannot be an e-mail address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("That is not an e-mail address. Write it like name@example.org.")]
pub struct InvalidEmail;

impl EmailAddress {
    /// Reads what was typed. This refuses only what is surely a slip; whether mail arrives is for the mail server to say.
    pub fn parse(typed: &str) -> Result<Self, InvalidEmail> {
        let address = typed.trim().to_lowercase();
        let (local, domain) = address.rsplit_once('@').ok_or(InvalidEmail)?;
        let whole = !local.is_empty() && !domain.is_empty() && !local.contains('@');
        let clean = !address.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | ',' | ';'));
        if whole && clean && address.len() <= MAX_OCTETS { Ok(Self(address)) } else { Err(InvalidEmail) }
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_trimmed_and_lower_case() {
        assert_eq!(EmailAddress::parse("  Ada@Example.ORG \n").unwrap().as_str(), "ada@example.org");
    }

    #[test]
    fn slips_are_refused() {
        let long = format!("{}@example.org", "a".repeat(250));
        for typed in
            ["", "ada", "@example.org", "ada@", "a@b@c", "a b@c.org", "a@c.org\r\nBcc: x@y.z", "Ada <a@b.c>", "a@b,c@d", &long]
        {
            assert_eq!(EmailAddress::parse(typed), Err(InvalidEmail), "{typed:?}");
        }
    }
}
