//! For tests, here and in the crates above: an instance with a database of its own and a clock that the test moves.

use crate::{NewUser, Store};
use chrono::{DateTime, Utc};
use domain::{
    clock::{Clock, ManualClock},
    id::UserId,
    people::{EmailAddress, Role, password::NewPassword},
};
use std::sync::Arc;

mod database;
pub use database::Database;

/// A store on an empty database.
pub struct Instance {
    pub store: Store,
    pub clock: Arc<ManualClock>,
    // They delete the database when the test ends.
    _database: Database,
    _dir: tempfile::TempDir,
}

impl Instance {
    /// A new one, in 2026.
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        let start = DateTime::from_timestamp(1_780_000_000, 0).expect("an instant of 2026");
        let clock = Arc::new(ManualClock::new(start));
        let database = Database::new(dir.path());
        let store = Store::open(&database.place, clock.clone(), "recount.test").await.expect("a new database");
        Self { store, clock, _database: database, _dir: dir }
    }

    /// What its clock says.
    pub fn clock_now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Somebody who signs in with this password.
    pub async fn person(&self, email: &str, password: &str, role: Role) -> UserId {
        let email = EmailAddress::parse(email).expect("an address");
        let hash = NewPassword::check(password.into(), &email).expect("a good password").hash().await.expect("a hash");
        match self.store.create_user(&email, role, &hash, chrono_tz::Tz::UTC).await.expect("a working database") {
            NewUser::Created(id) => id,
            NewUser::EmailTaken => panic!("{email} is taken"),
        }
    }
}
