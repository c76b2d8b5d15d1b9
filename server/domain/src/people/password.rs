//! Passwords: the rule for new ones, and Argon2id (RFC 9106) for keeping them.
//!
//! Hashing is slow and takes 19 MiB by design, so it runs outside the async threads, a few at a time: a flood of sign-ins
//! waits in a queue instead of filling the memory.

use super::EmailAddress;
use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc},
};
use std::fmt;
use tokio::sync::Semaphore;

/// The rule of NIST SP 800-63B in spirit: length counts, composition rules do not help.
const MIN_CHARS: usize = 10;

/// No passphrase is longer; without a limit a request could make the server hash megabytes.
const MAX_CHARS: usize = 1000;

/// What is stored for accounts that nobody signs in to. It is no PHC string, and the store does not count its owners as people.
pub const UNUSABLE: &str = "!";

/// How many hashes are worked on at once.
static AT_ONCE: Semaphore = Semaphore::const_new(4);

/// The hash of a password that nobody has, with today's parameters. An unknown account is checked against it, so that the
/// time of the answer does not tell which accounts exist.
const NOBODYS_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$yVrq5mVfWWBQuWM1n+qsNQ$XT9aQlh/PmK5PGUkok79hLMRNhf/xmEyjA31RXgfOKg";

/// Why a new password is refused; the sentence says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeakPassword {
    /// Fewer than ten characters.
    #[error("The password is too short. Use at least 10 characters.")]
    TooShort,
    /// More than a thousand characters.
    #[error("The password is too long. Use at most 1,000 characters.")]
    TooLong,
    /// It is the e-mail address.
    #[error("The password must not be the e-mail address. Choose something that others cannot guess.")]
    IsEmail,
}

/// The hash could not be computed or read; never the fault of the password.
#[derive(Debug, thiserror::Error)]
#[error("password hashing: {0}")]
pub struct HashingFailed(String);

/// A password that obeys the rule, on its way to being hashed.
pub struct NewPassword(String);

/// A password as it is kept: an Argon2id hash with salt and parameters, in PHC string format.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

impl NewPassword {
    /// Holds a password against the rule.
    pub fn check(typed: String, email: &EmailAddress) -> Result<Self, WeakPassword> {
        let chars = typed.chars().count();
        if typed.trim().to_lowercase() == email.as_str() {
            Err(WeakPassword::IsEmail)
        } else if chars < MIN_CHARS {
            Err(WeakPassword::TooShort)
        } else if chars > MAX_CHARS {
            Err(WeakPassword::TooLong)
        } else {
            Ok(Self(typed))
        }
    }

    /// Hashes it with a fresh salt.
    pub async fn hash(self) -> Result<PasswordHash, HashingFailed> {
        apart(move || {
            let hash = Argon2::default().hash_password(self.0.as_bytes()).map_err(failed)?;
            Ok(PasswordHash(hash.to_string()))
        })
        .await
    }
}

impl PasswordHash {
    /// What no password fits: for accounts that nobody signs in to.
    pub fn unusable() -> Self {
        Self(UNUSABLE.to_owned())
    }

    /// A hash as it was stored.
    pub fn stored(phc: String) -> Self {
        Self(phc)
    }

    /// What is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewPassword(…)")
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Whether `typed` is the password behind `hash`. Without a hash (no such account) it takes as long and says no.
pub async fn verify(typed: String, hash: Option<PasswordHash>) -> Result<bool, HashingFailed> {
    if typed.chars().count() > MAX_CHARS {
        return Ok(false);
    }
    // An account that nobody signs in to is like none.
    let hash = hash.filter(|hash| hash.as_str() != UNUSABLE);
    apart(move || {
        let phc = hash.as_ref().map_or(NOBODYS_HASH, PasswordHash::as_str);
        let parsed = phc::PasswordHash::new(phc).map_err(failed)?;
        let matches = Argon2::default().verify_password(typed.as_bytes(), &parsed).is_ok();
        Ok(matches && hash.is_some())
    })
    .await
}

/// Runs `work` on a thread for blocking work, when it is its turn.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, HashingFailed> + Send + 'static) -> Result<T, HashingFailed> {
    let turn = AT_ONCE.acquire().await.map_err(failed)?;
    tokio::task::spawn_blocking(move || {
        // The turn ends with the work, even where nobody waits for the answer any more.
        let _turn = turn;
        work()
    })
    .await
    .map_err(failed)?
}

fn failed(error: impl fmt::Display) -> HashingFailed {
    HashingFailed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> EmailAddress {
        EmailAddress::parse("ada@example.org").unwrap()
    }

    fn refusal(typed: &str) -> Option<WeakPassword> {
        NewPassword::check(typed.to_owned(), &ada()).err()
    }

    #[test]
    fn the_rule_counts_characters_not_bytes() {
        assert_eq!(refusal("123456789"), Some(WeakPassword::TooShort));
        assert_eq!(refusal("ééééééééé"), Some(WeakPassword::TooShort));
        assert_eq!(refusal("éééééééééé"), None);
        assert_eq!(refusal(&"x".repeat(1000)), None);
        assert_eq!(refusal(&"x".repeat(1001)), Some(WeakPassword::TooLong));
    }

    #[test]
    fn the_address_is_no_password() {
        assert_eq!(refusal(" ADA@example.org"), Some(WeakPassword::IsEmail));
        assert_eq!(refusal("ada@example.org and more"), None);
    }

    #[tokio::test]
    async fn only_the_password_itself_fits_its_hash() {
        let hash = NewPassword::check("correct horse".into(), &ada()).unwrap().hash().await.unwrap();
        assert!(verify("correct horse".into(), Some(hash.clone())).await.unwrap());
        assert!(!verify("correct horsf".into(), Some(hash.clone())).await.unwrap());
        assert!(!verify("correct horse".into(), None).await.unwrap());
    }

    #[tokio::test]
    async fn a_hash_that_cannot_be_read_is_an_error() {
        assert!(verify("correct horse".into(), Some(PasswordHash::stored("plain".into()))).await.is_err());
    }

    #[tokio::test]
    async fn nobodys_hash_costs_as_much_as_a_real_one() {
        let fresh = NewPassword::check("correct horse".into(), &ada()).unwrap().hash().await.unwrap();
        let parameters = |phc: &str| phc.split('$').take(4).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parameters(fresh.as_str()), parameters(NOBODYS_HASH));
        assert_eq!(fresh.as_str().len(), NOBODYS_HASH.len());
    }
}
