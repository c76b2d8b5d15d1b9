//! The failed sign-ins of the last minutes, in the database, so that a restart does not forgive them.

use super::{
    Store, StoreError,
    db::{Lock, within},
};
use chrono::{DateTime, Utc};
use domain::people::{
    EmailAddress,
    throttle::{Admission, WINDOW, admission},
};

impl Store {
    /// Decides whether a sign-in may be tried, and counts it as a failure until it turns out to be none.
    pub async fn admit_sign_in(&self, account: &EmailAddress) -> Result<Admission, StoreError> {
        let now = self.clock.now();
        // Guesses at the same time would otherwise all find the same count.
        let mut tx = self.db.begin_with_lock(Lock::SignIn(account)).await?;
        // Of all accounts: names that do not exist must not pile up.
        within!(tx, conn => {
            sqlx::query("delete from sign_in_failures where at <= $1").bind(now - WINDOW).execute(conn).await.map(drop)
        })?;
        let failures: Vec<DateTime<Utc>> = within!(tx, conn => {
            sqlx::query_scalar("select at from sign_in_failures where account = $1 order by at")
                .bind(account.as_str()).fetch_all(conn).await
        })?;
        let admission = admission(&failures, now);
        if admission == Admission::Admitted {
            within!(tx, conn => {
                sqlx::query("insert into sign_in_failures (account, at) values ($1, $2)")
                    .bind(account.as_str()).bind(now).execute(conn).await.map(drop)
            })?;
        }
        tx.commit().await?;
        Ok(admission)
    }

    /// Forgets the failures of an account, because somebody has signed in.
    pub async fn clear_sign_in_failures(&self, account: &EmailAddress) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query("delete from sign_in_failures where account = $1").bind(account.as_str()).execute(conn).await.map(drop)
        })?;
        Ok(tx.commit().await?)
    }
}
