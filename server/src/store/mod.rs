//! All SQL, one file per aggregate. Nothing outside this module knows which database there is.

mod afterwards;
mod backup;
mod change;
mod content;
pub(crate) mod db;
mod effects;
mod error;
mod forms;
mod jobs;
mod looks;
mod record;
mod sessions;
mod set_aside;
mod sign_in_failures;
mod tokens;
mod users;

pub use afterwards::{Decision, Mailing, Ruling};
pub use backup::{BackupContents, BackupError, back_up, check_backup};
pub use change::JobTx;
pub use content::{CollectedDocument, Message, Report};
pub use effects::{Attempt, EffectEntry, EffectFilter, EffectPart, EffectPlace, EffectRecord};
pub use error::StoreError;
pub use forms::{NewUpload, Upload};
pub use jobs::{Claim, Heartbeat};
pub use looks::{DueLook, LookRecord, LookResult};
pub use record::{JobRow, Record, StepTimes};
pub use sessions::{SESSION_LIFETIME, SessionLine, SignedInSession};
pub use tokens::TokenLine;
pub use users::{NewUser, User};

use crate::{
    bus::{Bus, JobChanged},
    clock::SharedClock,
    id::JobId,
    mail::compose::message_id,
};
use db::Db;
use std::{collections::HashMap, path::Path};

/// The store: the database, the clock that stamps its rows, and the bus that tells of changes.
#[derive(Clone)]
pub struct Store {
    pub(crate) db: Db,
    pub(crate) clock: SharedClock,
    bus: Bus,
    mail_domain: String,
}

impl Store {
    /// Opens the SQLite file at `path`, making and migrating it as needed. `mail_domain` is the right side of Message-IDs.
    ///
    /// In a backup that was put in its place, what is open is set aside.
    pub async fn open(path: &Path, clock: SharedClock, mail_domain: &str) -> Result<Self, StoreError> {
        let db = Db::open_sqlite(path).await?;
        let store = Self { db, clock, bus: Bus::default(), mail_domain: mail_domain.to_owned() };
        store.set_aside_if_copied().await?;
        Ok(store)
    }

    /// Where changes of jobs are announced.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The clock.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        db::read!(self.db, conn => sqlx::query("select 1 from jobs limit 1").fetch_optional(conn).await)?;
        Ok(())
    }

    /// Closes the database.
    pub async fn close(&self) {
        self.db.close().await;
    }

    /// Announces changes that other processes commit (the command line, say), until `stop` is done. Looks once a second, at
    /// a counter that SQLite keeps in the file's header.
    pub async fn relay_foreign_changes(&self, stop: tokio_util::sync::CancellationToken) -> Result<(), StoreError> {
        let mut watcher = self.db.watcher().await?;
        let mut seen = self.db.data_version(&mut watcher).await?;
        let mut told: HashMap<JobId, i64> = HashMap::new();
        while stop.run_until_cancelled(tokio::time::sleep(std::time::Duration::from_secs(1))).await.is_some() {
            let version = self.db.data_version(&mut watcher).await?;
            if version != seen {
                seen = version;
                let versions = self.open_versions().await?;
                for &(id, version) in versions.iter().filter(|(id, version)| told.get(id) != Some(version)) {
                    self.bus.publish(JobChanged { id, version });
                }
                told = versions.into_iter().collect();
            }
        }
        Ok(())
    }

    /// A Message-ID (RFC 5322 3.6.4) that nobody can guess: 128 random bits.
    fn new_message_id(&self) -> String {
        message_id(rand::random(), &self.mail_domain)
    }
}
