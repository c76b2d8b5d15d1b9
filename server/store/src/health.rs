//! Whether the database can be worked with. Only a committed write tells: a full or read-only database can still be read.

use super::{
    Store, StoreError,
    availability::{Unavailable, complain},
    db::{waiting_at_most, within},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// An answer is good for this long, so that asking often costs little.
const FRESH: Duration = Duration::from_secs(2);
/// How long the database has to answer.
const TO_ANSWER: Duration = Duration::from_secs(3);
/// How much of that is for those who write just now; an answer that says so is better than none.
const TO_WRITE: Duration = Duration::from_millis(2500);
/// How long somebody waits in all: for the one who is asking, and then for an answer of their own.
const PATIENCE: Duration = Duration::from_secs(4);

/// The last answer. One asks at a time and the others share what it finds out: they would only wait for each other.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<Mutex<Option<Answer>>>);

/// An answer, and when it was given.
type Answer = (Instant, Result<(), &'static str>);

impl Store {
    /// Whether changes can be committed, or a sentence that says why not. Answers within seconds, whatever the database does.
    pub async fn is_ready(&self) -> Result<(), &'static str> {
        let asking = async {
            let mut last = self.health.0.lock().await;
            match *last {
                Some((at, known)) if at.elapsed() < FRESH => known,
                _ => {
                    let found = self.look_at_health().await;
                    *last = Some((Instant::now(), found));
                    found
                }
            }
        };
        timeout(PATIENCE, asking).await.unwrap_or(Err(Unavailable::Down.sentence()))
    }

    async fn look_at_health(&self) -> Result<(), &'static str> {
        match timeout(TO_ANSWER, Box::pin(waiting_at_most(TO_WRITE, self.write_nothing_new()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                complain("not ready", &error);
                Err(match error.unavailable() {
                    // Nobody else writes what this writes.
                    Some(Unavailable::Slow) => Unavailable::Down.sentence(),
                    Some(trouble) => trouble.sentence(),
                    None => "The database does not work as it should.",
                })
            }
            Err(_) => Err(Unavailable::Down.sentence()),
        }
    }

    /// A transaction that comes to nothing, but has to reach the disk. It touches only a row of its own: one that all processes
    /// change would make them wait for each other, and for one that hangs. No account has the empty name.
    async fn write_nothing_new(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query("insert into sign_in_failures (account, at) values ('', $1)").bind(now).execute(conn).await.map(drop)
        })?;
        within!(tx, conn => sqlx::query("delete from sign_in_failures where account = ''").execute(conn).await.map(drop))?;
        tx.commit().await?;
        // What is small may still be stored where a report no longer is.
        Ok(self.db.has_room()?)
    }
}
