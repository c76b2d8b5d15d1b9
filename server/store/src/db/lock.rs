//! What is locked that has no row of its own to lock, or none yet. All names are made in one place, so that no two things share
//! one by accident.

use domain::{
    id::{RequestKey, UserId},
    people::EmailAddress,
};
use uuid::Uuid;

/// Something that one transaction at a time is about. It waits for the others, and keeps them waiting until its end.
#[derive(Debug, Clone, Copy)]
pub enum Lock<'a> {
    /// The making of the first account.
    FirstUser,
    /// The setting aside of what is open in a restored copy.
    SettingAside,
    /// The counting of guesses at one account.
    SignIn(&'a EmailAddress),
    /// What belongs to one request: its job, and its files before there is one.
    Request(RequestKey),
    /// The counting of one person's jobs at work.
    AtWork(UserId),
}

impl Lock<'_> {
    /// The call of PostgreSQL that waits for it and takes it.
    pub fn call(self) -> String {
        format!("pg_advisory_xact_lock({})", self.number())
    }

    /// The number that stands for it. Two things may have the same by chance; they then wait for each other without need.
    pub fn number(self) -> i64 {
        let name = match self {
            Self::FirstUser => Uuid::from_u128(1),
            Self::SettingAside => Uuid::from_u128(2),
            Self::SignIn(account) => Uuid::new_v5(&Uuid::NAMESPACE_URL, account.as_str().as_bytes()),
            Self::Request(key) => key.0,
            Self::AtWork(person) => person.0,
        };
        let (high, low) = name.as_u64_pair();
        (high ^ low).cast_signed()
    }
}
