//! The first person of a new instance. Whoever can read the terminal gets a one-time code, and whoever has the code may make
//! the first admin in the browser; without it the first stranger to find a new instance would own it.

use domain::id::UserId;
use domain::people::{
    EmailAddress, InvalidEmail,
    bearer::{BearerSecret, random},
    password::{HashingFailed, NewPassword, WeakPassword},
};
use std::sync::{Mutex, PoisonError};
use store::{Store, StoreError};

/// Crockford's Base32: no letter that looks like a digit.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Holds the code while it is valid: from a start without users until the first admin is made.
#[derive(Debug, Default)]
pub struct FirstAdmin(Mutex<Option<BearerSecret>>);

/// Why the first admin was not made.
#[derive(Debug, thiserror::Error)]
pub enum FirstAdminError {
    /// The code is wrong, or there already is a user; the code is worth nothing then.
    #[error("That code is not valid. It is printed in the terminal when the server starts without users.")]
    WrongCode,
    /// See [`InvalidEmail`].
    #[error(transparent)]
    Email(#[from] InvalidEmail),
    /// See [`WeakPassword`].
    #[error(transparent)]
    Weak(#[from] WeakPassword),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The hash could not be computed.
    #[error(transparent)]
    Hashing(#[from] HashingFailed),
}

impl FirstAdmin {
    /// Makes a code if nobody exists yet.
    pub async fn at_start(store: &Store) -> Result<Self, StoreError> {
        let code = if store.users_exist().await? { None } else { Some(BearerSecret::received(&new_code())) };
        Ok(Self(Mutex::new(code)))
    }

    /// The code to print, such as `7K3M-QX9D`, while it is valid.
    pub fn code(&self) -> Option<String> {
        self.lock().as_ref().map(|code| {
            let (first, second) = code.expose().split_at(4);
            format!("{first}-{second}")
        })
    }

    /// Makes the first admin. The code is looked at first, because hashing a password for a stranger costs something.
    pub async fn make(&self, store: &Store, code: &str, email: &str, password: String) -> Result<UserId, FirstAdminError> {
        // Digests are compared, so the time of the comparison tells nothing about the code.
        let typed = BearerSecret::received(&plain(code)).digest();
        if self.lock().as_ref().map(BearerSecret::digest) != Some(typed) {
            return Err(FirstAdminError::WrongCode);
        }
        let email = EmailAddress::parse(email)?;
        let hash = NewPassword::check(password, &email)?.hash().await?;
        let made = store.create_first_user(&email, &hash).await?;
        *self.lock() = None;
        made.ok_or(FirstAdminError::WrongCode)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<BearerSecret>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Eight characters, 40 bits.
fn new_code() -> String {
    random::<8>().iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
}

/// Reads a code as Crockford decodes it: case, dashes and look-alikes do not matter.
fn plain(typed: &str) -> String {
    typed
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| match c.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::people::Role;
    use store::testing::Instance;

    const PASSWORD: &str = "correct horse";

    #[test]
    fn a_code_may_be_typed_carelessly() {
        assert_eq!(plain(" 7k3m-oilx "), "7K3M011X");
    }

    #[tokio::test]
    async fn the_code_makes_one_admin_and_no_second() {
        let instance = Instance::new().await;
        let first_admin = FirstAdmin::at_start(&instance.store).await.unwrap();
        let code = first_admin.code().unwrap();
        assert_eq!(code.len(), 9);
        let wrong = first_admin.make(&instance.store, "0000-0000", "ada@example.org", PASSWORD.into()).await;
        assert!(matches!(wrong, Err(FirstAdminError::WrongCode)));
        assert!(!instance.store.users_exist().await.unwrap());

        let ada = first_admin.make(&instance.store, &code.to_lowercase(), "ada@example.org", PASSWORD.into()).await.unwrap();
        let user = instance.store.user(ada).await.unwrap().unwrap();
        assert_eq!(user.role, Role::Admin);
        assert_eq!(first_admin.code(), None);

        let again = first_admin.make(&instance.store, &code, "eve@example.org", PASSWORD.into()).await;
        assert!(matches!(again, Err(FirstAdminError::WrongCode)));
    }

    #[tokio::test]
    async fn a_bad_address_or_password_leaves_the_code_valid() {
        let instance = Instance::new().await;
        let first_admin = FirstAdmin::at_start(&instance.store).await.unwrap();
        let code = first_admin.code().unwrap();
        let bad = first_admin.make(&instance.store, &code, "ada", PASSWORD.into()).await;
        assert!(matches!(bad, Err(FirstAdminError::Email(InvalidEmail))));
        let weak = first_admin.make(&instance.store, &code, "ada@example.org", "short".into()).await;
        assert!(matches!(weak, Err(FirstAdminError::Weak(WeakPassword::TooShort))));
        first_admin.make(&instance.store, &code, "ada@example.org", PASSWORD.into()).await.unwrap();
    }

    #[tokio::test]
    async fn the_code_is_worth_nothing_once_somebody_exists() {
        let instance = Instance::new().await;
        let first_admin = FirstAdmin::at_start(&instance.store).await.unwrap();
        let code = first_admin.code().unwrap();
        instance.person("bob@example.org", PASSWORD, Role::User).await;
        let late = first_admin.make(&instance.store, &code, "eve@example.org", PASSWORD.into()).await;
        assert!(matches!(late, Err(FirstAdminError::WrongCode)));
        let eve = EmailAddress::parse("eve@example.org").unwrap();
        assert!(instance.store.user_by_email(&eve).await.unwrap().is_none());
        assert_eq!(FirstAdmin::at_start(&instance.store).await.unwrap().code(), None);
    }
}
