//! The time that decides about leases and holds: one that nobody sets. So a clock that jumps neither keeps the job of a dead worker
//! nor takes that of a living one, and a countdown lasts as long as it says.
//!
//! All who share a database have to mean the same by it. With PostgreSQL, whose users are on machines with different clocks, it is
//! the server's clock. With SQLite all of them are on one machine, and it is that machine's steady time: it begins with what the
//! clock shows when the first of them asks after a start of the machine, and that is written down for the others.

use super::{
    Store, StoreError, complain,
    db::{Db, read, within},
};
use chrono::{DateTime, Utc};
use domain::clock::{Clock, SteadyTime};
use uuid::Uuid;

const KNOWN: &str = "select started_at from machine_start where boot = $1";

impl Store {
    /// The time that decides about leases and holds.
    pub async fn lease_time(&self) -> Result<DateTime<Utc>, StoreError> {
        match self.machine_started_at {
            Some(start) => Ok(start + self.clock.steady().age),
            None => Ok(read!(self.db, conn => sqlx::query_scalar("select clock_timestamp()").fetch_one(conn).await)?),
        }
    }

    /// The same inside a transaction that began when the database's clock showed `database_time`.
    pub(super) fn lease_time_of(&self, database_time: DateTime<Utc>) -> DateTime<Utc> {
        self.machine_started_at.map_or(database_time, |start| start + self.clock.steady().age)
    }
}

/// When the machine was started, in the time that decides about leases; `None` where the database's server tells that time.
pub(super) async fn machine_start(db: &Db, clock: &dyn Clock) -> Result<Option<DateTime<Utc>>, StoreError> {
    if matches!(db, Db::Postgres(_)) && clock.is_of_this_machine() {
        return Ok(None);
    }
    let (SteadyTime { boot, age }, now) = (clock.steady(), clock.now());
    // Where nobody can tell whether the machine was started again, each process goes by the clock as it found it.
    let Some(boot) = boot else { return Ok(Some(now - age)) };
    let known: Option<DateTime<Utc>> = read!(*db, conn => sqlx::query_scalar(KNOWN).bind(boot).fetch_optional(conn).await)?;
    if known.is_some() {
        return Ok(known);
    }
    match write_down(db, boot, now - age, now).await {
        Ok(start) => Ok(Some(start)),
        // A disk that is full keeps nobody from reading, nor from cancelling as soon as there is room.
        Err(error) => {
            complain("when the machine was started could not be written down", &error);
            Ok(Some(now - age))
        }
    }
}

/// Writes down for the others when the machine was started, unless one of them was first. Returns what is written there.
async fn write_down(db: &Db, boot: Uuid, start: DateTime<Utc>, now: DateTime<Utc>) -> Result<DateTime<Utc>, StoreError> {
    let mut tx = db.begin().await?;
    within!(tx, conn => {
        sqlx::query("insert into machine_start (boot, started_at) values ($1, $2) on conflict do nothing")
            .bind(boot).bind(start).execute(conn).await.map(drop)
    })?;
    within!(tx, conn => sqlx::query("delete from machine_start where boot <> $1").bind(boot).execute(conn).await.map(drop))?;
    // Whoever had a lease has ended with the machine, whose clock may have shown more than it does now.
    within!(tx, conn => {
        sqlx::query("update jobs set lease_expires_at = $1 where lease_expires_at > $1").bind(now).execute(conn).await.map(drop)
    })?;
    let start: DateTime<Utc> = within!(tx, conn => sqlx::query_scalar(KNOWN).bind(boot).fetch_one(conn).await)?;
    tx.commit().await?;
    Ok(start)
}
