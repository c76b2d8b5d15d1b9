//! Signing in with e-mail and password.

use domain::people::{
    EmailAddress,
    bearer::BearerSecret,
    password::{self, HashingFailed},
    throttle::{Admission, minutes_until},
};
use store::{Store, StoreError};

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The same for a wrong password and an unknown account: which one it was is nobody's business.
    #[error("The e-mail address or the password is wrong.")]
    WrongCredentials,
    /// Too many failures; the password was not looked at.
    #[error("Too many failed sign-ins. Try again in {minutes} {}.", if *.minutes == 1 { "minute" } else { "minutes" })]
    Throttled {
        /// Until a further try is admitted.
        minutes: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The hash could not be computed.
    #[error(transparent)]
    Hashing(#[from] HashingFailed),
}

/// Signs in, and returns the secret of the new session. `device` is what the list of sessions calls it. The session that the
/// browser had before, `replaces`, ends: a cookie that somebody planted there gains nothing.
pub async fn sign_in(
    store: &Store,
    email: &str,
    password: String,
    device: &str,
    replaces: Option<&BearerSecret>,
) -> Result<BearerSecret, SignInError> {
    let email = EmailAddress::parse(email).map_err(|_| SignInError::WrongCredentials)?;
    // The try is counted before the password is looked at; otherwise many tries at once would all find the count at zero.
    if let Admission::Refused { until } = store.admit_sign_in(&email).await? {
        return Err(SignInError::Throttled { minutes: minutes_until(until, store.clock().now()) });
    }
    let (user, hash) = store.credentials(&email).await?.unzip();
    let matches = password::verify(password, hash).await?;
    let Some(user) = user.filter(|_| matches) else { return Err(SignInError::WrongCredentials) };
    store.clear_sign_in_failures(&email).await?;
    Ok(store.create_session(user, device, replaces).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use domain::people::Role;
    use store::testing::Instance;

    const RIGHT: &str = "correct horse";

    async fn attempt(instance: &Instance, email: &str, password: &str) -> Result<BearerSecret, SignInError> {
        sign_in(&instance.store, email, password.to_owned(), "Test", None).await
    }

    #[tokio::test]
    async fn the_right_password_opens_a_session() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", RIGHT, Role::Admin).await;
        let secret = attempt(&instance, " ADA@example.org", RIGHT).await.unwrap();
        let session = instance.store.session_by_secret(&secret).await.unwrap().unwrap();
        assert_eq!(session.user.id, ada);
        assert_eq!(session.user.role, Role::Admin);
    }

    #[tokio::test]
    async fn wrong_and_unknown_get_the_same_answer() {
        let instance = Instance::new().await;
        instance.person("ada@example.org", RIGHT, Role::User).await;
        for (email, password) in [("ada@example.org", "wrong horse"), ("bob@example.org", RIGHT), ("nonsense", RIGHT)] {
            let error = attempt(&instance, email, password).await.unwrap_err();
            assert!(matches!(error, SignInError::WrongCredentials), "{email}");
        }
    }

    #[tokio::test]
    async fn after_five_failures_even_the_right_password_waits() {
        let instance = Instance::new().await;
        instance.person("ada@example.org", RIGHT, Role::User).await;
        for email in ["ada@example.org", "unknown@example.org"] {
            for _ in 0..5 {
                assert!(matches!(attempt(&instance, email, "wrong horse").await, Err(SignInError::WrongCredentials)));
            }
            let error = attempt(&instance, email, RIGHT).await.unwrap_err();
            assert_eq!(error.to_string(), "Too many failed sign-ins. Try again in 15 minutes.", "{email}");
        }
        instance.clock.advance(TimeDelta::minutes(14));
        let error = attempt(&instance, "ada@example.org", RIGHT).await.unwrap_err();
        assert_eq!(error.to_string(), "Too many failed sign-ins. Try again in 1 minute.");
        instance.clock.advance(TimeDelta::minutes(1));
        attempt(&instance, "ada@example.org", RIGHT).await.unwrap();
    }

    #[tokio::test]
    async fn a_success_clears_the_count() {
        let instance = Instance::new().await;
        instance.person("ada@example.org", RIGHT, Role::User).await;
        for _ in 0..3 {
            for _ in 0..4 {
                assert!(attempt(&instance, "ada@example.org", "wrong horse").await.is_err());
            }
            attempt(&instance, "ada@example.org", RIGHT).await.unwrap();
        }
    }

    #[tokio::test]
    async fn guesses_at_the_same_time_are_counted_too() {
        let instance = Instance::new().await;
        instance.person("ada@example.org", RIGHT, Role::User).await;
        let guesses = (0..12).map(|_| attempt(&instance, "ada@example.org", "wrong horse"));
        let outcomes = futures_util::future::join_all(guesses).await;
        let looked_at = outcomes.iter().filter(|outcome| matches!(outcome, Err(SignInError::WrongCredentials))).count();
        assert_eq!(looked_at, 5);
    }

    #[tokio::test]
    async fn signing_in_ends_the_session_that_the_browser_had() {
        let instance = Instance::new().await;
        instance.person("ada@example.org", RIGHT, Role::User).await;
        let planted = attempt(&instance, "ada@example.org", RIGHT).await.unwrap();
        let fresh = sign_in(&instance.store, "ada@example.org", RIGHT.into(), "Test", Some(&planted)).await.unwrap();
        assert!(instance.store.session_by_secret(&planted).await.unwrap().is_none());
        assert!(instance.store.session_by_secret(&fresh).await.unwrap().is_some());
    }
}
