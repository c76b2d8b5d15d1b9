//! Between processes: changes that this one commits are told to the others, and theirs are announced here.
//!
//! PostgreSQL passes messages on (LISTEN and NOTIFY), from within the transaction, so that a message is sent if and only if the
//! change is committed. With SQLite a counter in the file's header tells that somebody has written. Either is only a
//! hint: whoever waits for a change also looks for himself from time to time, since a message can be lost.

use super::{
    Store, StoreError,
    db::{CHANNEL, Db, Tx, listen},
    trouble::complain,
};
use crate::{
    bus::{Bus, JobChanged, News},
    id::JobId,
};
use sqlx::{Executor, Sqlite, SqlitePool, pool::PoolConnection, postgres::PgPool};
use std::{collections::HashMap, time::Duration};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often SQLite's counter is looked at, and the pause before PostgreSQL is listened to again after a failure.
const LOOK: Duration = Duration::from_secs(1);
/// A connection on which nothing was heard for this long is tried out.
const SILENCE: Duration = Duration::from_secs(15);
/// How long it may take to answer then.
const ANSWER: Duration = Duration::from_secs(5);

/// Commits changes and tells of them.
#[derive(Debug, Clone)]
pub(super) struct Announcer {
    pub(super) bus: Bus,
    /// Names this process, which needs no message about what it has done itself.
    origin: Uuid,
}

impl Default for Announcer {
    fn default() -> Self {
        Self { bus: Bus::default(), origin: Uuid::new_v4() }
    }
}

impl Announcer {
    /// Commits a transaction and tells everybody which jobs it has changed.
    pub(super) async fn commit(&self, tx: Tx, changes: &[JobChanged]) -> Result<(), sqlx::Error> {
        tx.commit_and_tell(self.origin, changes).await?;
        for &change in changes {
            self.bus.publish(News::Job(change));
        }
        Ok(())
    }

    fn hear(&self, message: &str) {
        match JobChanged::from_message(message) {
            Some((origin, _)) if origin == self.origin => {}
            Some((_, change)) => self.bus.publish(News::Job(change)),
            None => self.bus.publish(News::Anything),
        }
    }
}

impl Store {
    /// Announces changes that other processes commit, until `stop` is done. Goes on through every failure of the database.
    pub async fn relay_foreign_changes(&self, stop: CancellationToken) {
        stop.run_until_cancelled(async {
            loop {
                let Err(error) = match &self.db {
                    Db::Sqlite { reader, .. } => self.follow_file(reader).await,
                    Db::Postgres(pool) => self.listen(pool).await,
                };
                complain("changes by other processes are noticed late for now", &error);
                self.announcer.bus.publish(News::Anything);
                sleep(LOOK).await;
            }
        })
        .await;
    }

    async fn listen(&self, pool: &PgPool) -> Result<std::convert::Infallible, StoreError> {
        let mut listener = listen(pool, CHANNEL).await?;
        // What was said before is past.
        self.announcer.bus.publish(News::Anything);
        loop {
            let Ok(message) = timeout(SILENCE, listener.try_recv()).await else {
                let alive = timeout(ANSWER, listener.execute("select 1")).await;
                alive.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
                continue;
            };
            match message? {
                Some(message) => self.announcer.hear(message.payload()),
                // The connection was lost; the listener makes another one.
                None => self.announcer.bus.publish(News::Anything),
            }
        }
    }

    async fn follow_file(&self, reader: &SqlitePool) -> Result<std::convert::Infallible, StoreError> {
        let mut watcher = reader.acquire().await?;
        let mut seen = data_version(&mut watcher).await?;
        let mut told: HashMap<JobId, i64> = HashMap::new();
        loop {
            sleep(LOOK).await;
            let version = data_version(&mut watcher).await?;
            if version == seen {
                continue;
            }
            seen = version;
            let news = self.newest().await?;
            for &change in news.iter().filter(|change| told.get(&change.id) != Some(&change.version)) {
                self.announcer.bus.publish(News::Job(change));
            }
            told = news.into_iter().map(|change| (change.id, change.version)).collect();
        }
    }
}

/// A number that differs from the last one where another connection (of any process) has committed; SQLite counts for each
/// connection.
async fn data_version(watcher: &mut PoolConnection<Sqlite>) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("pragma data_version").fetch_one(&mut **watcher).await
}
