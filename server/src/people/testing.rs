//! An instance with a database of its own and a clock that the test moves.

use super::{EmailAddress, Role, password::NewPassword};
use crate::{
    clock::{Clock, ManualClock},
    id::UserId,
    store::{NewUser, Store},
};
use chrono::{DateTime, Utc};
use std::sync::Arc;

#[path = "../../tests/support/database.rs"]
mod database;
pub(crate) use database::Database;

pub(crate) struct Instance {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    // They delete the database when the test ends.
    _database: Database,
    _dir: tempfile::TempDir,
}

impl Instance {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        let start = DateTime::from_timestamp(1_780_000_000, 0).expect("an instant of 2026");
        let clock = Arc::new(ManualClock::new(start));
        let database = Database::new(dir.path());
        let store = Store::open(&database.place, clock.clone(), "recount.test").await.expect("a new database");
        Self { store, clock, _database: database, _dir: dir }
    }

    pub(crate) fn clock_now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    pub(crate) async fn person(&self, email: &str, password: &str, role: Role) -> UserId {
        let email = EmailAddress::parse(email).expect("an address");
        let hash = NewPassword::check(password.into(), &email).expect("a good password").hash().await.expect("a hash");
        match self.store.create_user(&email, role, &hash, chrono_tz::Tz::UTC).await.expect("a working database") {
            NewUser::Created(id) => id,
            NewUser::EmailTaken => panic!("{email} is taken"),
        }
    }
}
