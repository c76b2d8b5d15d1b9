//! Copies of the database that took its place: a backup that was put back, a standby that had not everything.
//!
//! Nobody here knows what the original did after the copy was made. What had not ended in it is set aside: no worker takes it
//! and no countdown ends until a person says that it goes on. The transaction that sets aside also takes every lease away, so
//! that a worker that is still alive somewhere meets a lost lease. A backup carries a mark, so that whoever opens it first sets
//! aside, however the file came to its place.

use super::{
    Store, StoreError,
    db::{Lock, Tx, read, within},
    record::{copy_in_words, load_one},
};
use crate::notifications::JobChanged;
use chrono::{DateTime, Utc};
use domain::id::JobId;

/// Whether this is a backup that nobody has opened.
pub(super) const IS_MARKED: &str = "select exists (select 1 from restores where restored_at is null)";
const WAITING: &str = "select count(*) from jobs where finished_at is null and set_aside_at is not null";

impl Store {
    /// Sets aside what is open where this is a backup that nobody has opened before.
    pub(super) async fn set_aside_if_copied(&self) -> Result<(), StoreError> {
        let copied: bool = read!(self.db, conn => sqlx::query_scalar(IS_MARKED).fetch_one(conn).await)?;
        if !copied {
            return Ok(());
        }
        let mut tx = self.db.begin_with_lock(Lock::SettingAside).await?;
        // Read again under the lock: another process may have opened it at the same time, and work in it by now.
        let copied: bool = within!(tx, conn => sqlx::query_scalar(IS_MARKED).fetch_one(conn).await)?;
        if copied {
            let waiting = self.set_aside_within(tx).await?;
            tracing::warn!(waiting, "this is a restored backup: {waiting} jobs that had not ended wait for a person");
        }
        Ok(())
    }

    /// Sets aside every job that has not ended: this database is a copy. Returns how many jobs wait for a person now.
    ///
    /// What their workers had open is accounted for, and what was stopping ends.
    pub async fn set_aside_open_jobs(&self) -> Result<i64, StoreError> {
        self.set_aside_within(self.db.begin().await?).await
    }

    /// In a transaction that this commits.
    async fn set_aside_within(&self, mut tx: Tx) -> Result<i64, StoreError> {
        // The original's clock may have been ahead of this one; everything that it has begun lies before the restore.
        let latest: Option<DateTime<Utc>> =
            within!(tx, conn => sqlx::query_scalar("select max(began_at) from attempts").fetch_one(conn).await)?;
        let now = self.clock.now();
        let at = latest.map_or(now, |latest| latest.max(now));
        let copied_at: Option<DateTime<Utc>> = within!(tx, conn => {
            sqlx::query_scalar("select min(copied_at) from restores where restored_at is null").fetch_one(conn).await
        })?;
        let open: Vec<JobId> = within!(tx, conn => {
            sqlx::query_scalar("select id from jobs where finished_at is null and set_aside_at is null order by id")
                .fetch_all(conn).await
        })?;
        let note = match copied_at {
            Some(copied) => format!("Restored from a backup of {}", copied.format("%-d %b %Y, %H:%M:%S UTC")),
            None => "Restored from a copy".into(),
        } + "; nothing goes on by itself";
        let mut changed = Vec::with_capacity(open.len());
        for id in open {
            let change;
            (tx, change) = self.part_from_worker(tx, id, copied_at, &note).await?;
            changed.extend(change);
        }
        // Also of what has ended: its unconfirmed e-mails may have been settled since, or sent a second time.
        within!(tx, conn => {
            sqlx::query(
                "update jobs set restored_at = $1
                 where restored_at is null
                   and (finished_at is null
                        or id in (select job_id from effects
                                  where outcome in ('in_flight', 'in_doubt', 'unconfirmed') and kind = 'email'))",
            )
            .bind(at).execute(conn).await.map(drop)
        })?;
        within!(tx, conn => {
            sqlx::query("update jobs set set_aside_at = $1 where finished_at is null and set_aside_at is null")
                .bind(at).execute(conn).await.map(drop)
        })?;
        let marked = within!(tx, conn => {
            sqlx::query("update restores set restored_at = $1 where restored_at is null")
                .bind(at).execute(conn).await.map(|done| done.rows_affected())
        })?;
        if marked == 0 {
            within!(tx, conn => {
                sqlx::query("insert into restores (restored_at) values ($1)").bind(at).execute(conn).await.map(drop)
            })?;
        }
        let waiting = within!(tx, conn => sqlx::query_scalar(WAITING).fetch_one(conn).await)?;
        self.announcer.commit(tx, &changed).await?;
        Ok(waiting)
    }

    /// How many jobs wait for a person.
    pub async fn jobs_set_aside(&self) -> Result<i64, StoreError> {
        Ok(read!(self.db, conn => sqlx::query_scalar(WAITING).fetch_one(conn).await)?)
    }

    /// Accounts for what a worker of the original had open, and tells the job's history of the copy. A job whose rows cannot be
    /// understood is left as it is, like everywhere: it is set aside with the others. Gives the transaction back.
    async fn part_from_worker(
        &self,
        mut tx: Tx,
        id: JobId,
        copied_at: Option<DateTime<Utc>>,
        note: &str,
    ) -> Result<(Tx, Option<JobChanged>), StoreError> {
        tx.lock_job(id).await?;
        let record = match load_one(&mut tx, id).await {
            Ok(Some(record)) => record,
            Ok(None) => return Ok((tx, None)),
            Err(error @ StoreError::Inconsistent { .. }) => {
                tracing::error!(job = %id, %error, "job {id} cannot be understood; it is set aside as it is");
                return Ok((tx, None));
            }
            Err(error) => return Err(error),
        };
        let mut change = self.change_within(tx, record);
        let was_leased = change.job.leased;
        change.job.recover_copy(&copy_in_words(copied_at, &change.row().spec));
        if was_leased {
            change.abandon_calls().await?;
        }
        change.note(note.to_owned());
        let (owner, version) = (change.row().owner_id, change.write().await?);
        Ok((change.tx, Some(JobChanged { id, owner, version, waits: false, goes_on: false })))
    }

    /// A person says that a job that was set aside goes on, and how they know that it may. `None` if there is no such job;
    /// refused where it has ended meanwhile. A repetition changes nothing.
    pub async fn go_on(&self, id: JobId, by: &str, why: &str) -> Result<Option<()>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        if change.row().set_aside_at.is_none() {
            return Ok(Some(()));
        }
        change.job.go_on(&format!("{by} decided that the original did not go on with it: {why}"))?;
        within!(change.tx, conn => sqlx::query("update jobs set set_aside_at = null where id = $1").bind(id).execute(conn).await.map(drop))?;
        change.note(format!("{by} decided: Go on. {why}"));
        change.commit().await?;
        Ok(Some(()))
    }

    /// When the copy was made in which jobs were set aside at `set_aside_at`; `None` where nobody knows.
    pub async fn copied_at(&self, set_aside_at: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select min(copied_at) from restores where restored_at = $1").bind(set_aside_at).fetch_one(conn).await
        })?)
    }

    /// Whether a message was begun to be handed over, in whatever copy, before this database was restored. What the original
    /// did about it afterwards is not known here.
    pub async fn begun_by_original(&self, message_id: &str) -> Result<bool, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar(
                "select exists (select 1 from attempts join effects using (job_id, number)
                                where message_id = $1 and began_at <= (select max(restored_at) from restores))",
            )
            .bind(message_id)
            .fetch_one(conn)
            .await
        })?)
    }
}
