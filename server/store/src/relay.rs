//! Between processes: changes that this one commits are told to the others, and theirs are announced here.
//!
//! PostgreSQL passes messages on (LISTEN and NOTIFY). Those about what may start or stop somebody are sent from within the
//! transaction, so that they are sent if and only if the change is committed. But commits with messages wait for each other, one
//! at a time for the whole server, each for its disk. So those about a job that goes on, by far the most, which only pages
//! follow, are gathered and sent a moment later. With SQLite a counter in the file's header tells that somebody has written. All
//! of that is only a hint: whoever waits for a change also looks for himself from time to time, since a message can be lost.

use super::{
    Store, StoreError,
    availability::complain,
    db::{Batch, CHANNEL, Db, Lock, Tx, listen},
};
use crate::notifications::{JobChanged, News, Notifications};
use domain::id::JobId;
use sqlx::{Executor, Sqlite, SqlitePool, pool::PoolConnection, postgres::PgPool};
use std::{collections::HashMap, convert::Infallible, time::Duration};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often SQLite's counter is looked at, and the pause before PostgreSQL is listened to again after a failure.
const LOOK: Duration = Duration::from_secs(1);
/// A connection on which nothing was heard for this long is tried out.
const SILENCE: Duration = Duration::from_secs(15);
/// How long it may take to answer then.
const ANSWER: Duration = Duration::from_secs(5);
/// How long messages about jobs that go on are gathered: less than a person notices.
const GATHER: Duration = Duration::from_millis(50);
/// How many of them may be unsent; what is over that is lost.
const UNSENT: usize = 1024;

/// Commits changes and tells of them.
#[derive(Debug, Clone)]
pub(super) struct Announcer {
    pub(super) notifications: Notifications,
    /// Names this process, which needs no message about what it has done itself.
    origin: Uuid,
    /// Takes what is to be told a moment later. It has a receiver while somebody relays.
    later: broadcast::Sender<JobChanged>,
}

impl Default for Announcer {
    fn default() -> Self {
        Self { notifications: Notifications::default(), origin: Uuid::new_v4(), later: broadcast::Sender::new(UNSENT) }
    }
}

impl Announcer {
    /// Commits a transaction and tells everybody which jobs it has changed.
    pub(super) async fn commit(&self, tx: Tx, changes: &[JobChanged]) -> Result<(), sqlx::Error> {
        let is_relayed = self.later.receiver_count() > 0;
        let (later, now): (Vec<JobChanged>, _) = changes.iter().partition(|change| is_relayed && change.goes_on);
        tx.commit_and_tell(self.origin, &now).await?;
        for &change in changes {
            self.notifications.publish(News::Job(change));
        }
        for change in later {
            // An error says that the relay has ended just now: a hint is lost.
            let _ = self.later.send(change);
        }
        Ok(())
    }

    /// Makes writes that are a transaction of their own and that make a job wait for a worker, and tells everybody.
    pub(super) async fn write(&self, db: &Db, batch: Batch, lock: Lock<'_>, change: JobChanged) -> Result<(), StoreError> {
        db.write(batch, lock, self.origin, change).await?;
        self.notifications.publish(News::Job(change));
        Ok(())
    }

    fn hear(&self, message: &str) {
        match JobChanged::from_message(message) {
            Some((origin, _)) if origin == self.origin => {}
            Some((_, change)) => self.notifications.publish(News::Job(change)),
            None => self.notifications.publish(News::Anything),
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
                    Db::Postgres(pool) => tokio::select! {
                        ended = Box::pin(self.listen(pool)) => ended,
                        ended = Box::pin(self.tell()) => ended,
                    },
                };
                complain("changes by other processes are noticed late for now", &error);
                self.announcer.notifications.publish(News::Anything);
                sleep(LOOK).await;
            }
        })
        .await;
    }

    /// Tells other processes of this one's jobs that go on: of each job the latest change.
    async fn tell(&self) -> Result<Infallible, StoreError> {
        let mut later = self.announcer.later.subscribe();
        loop {
            let mut latest = HashMap::new();
            match later.recv().await {
                Ok(change) => latest.insert(change.id, change),
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => std::future::pending().await,
            };
            sleep(GATHER).await;
            while let Ok(change) = later.try_recv() {
                latest.insert(change.id, change);
            }
            self.db.tell(self.announcer.origin, latest.values()).await?;
        }
    }

    async fn listen(&self, pool: &PgPool) -> Result<Infallible, StoreError> {
        let mut listener = listen(pool, CHANNEL).await?;
        // What was said before is past.
        self.announcer.notifications.publish(News::Anything);
        loop {
            let Ok(message) = timeout(SILENCE, listener.try_recv()).await else {
                let alive = timeout(ANSWER, listener.execute("select 1")).await;
                alive.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
                continue;
            };
            match message? {
                Some(message) => self.announcer.hear(message.payload()),
                // The connection was lost; the listener makes another one.
                None => self.announcer.notifications.publish(News::Anything),
            }
        }
    }

    async fn follow_file(&self, reader: &SqlitePool) -> Result<Infallible, StoreError> {
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
                self.announcer.notifications.publish(News::Job(change));
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
