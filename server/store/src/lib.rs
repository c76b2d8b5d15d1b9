//! All SQL, one file per aggregate. Nothing outside this module knows which database there is.

mod afterwards;
mod availability;
mod backup;
mod change;
mod content;
mod create;
pub(crate) mod db;
mod effects;
mod error;
pub mod files;
mod forms;
mod health;
mod jobs;
mod lease_time;
mod mcp_calls;
pub mod notifications;
mod probes;
mod record;
mod relay;
mod sessions;
mod set_aside;
mod sign_in_failures;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
mod tokens;
mod users;

pub use afterwards::{Decision, Mailing, Ruling};
pub use availability::{Unavailable, complain};
pub use backup::{BackupContents, BackupError, back_up, check_backup};
pub use change::JobTx;
pub use content::{CollectedDocument, Message, Report};
pub use db::{KEEP_FREE_MB, Place, UnknownPlace, waiting_at_most};
pub use effects::{Attempt, EffectEntry, EffectFilter, EffectPart, EffectPlace, EffectRecord};
pub use error::{PlaceError, StoreError};
pub use forms::{Copies, NewUpload, Upload};
pub use jobs::{Claim, ClaimTerms, Heartbeat};
pub use mcp_calls::{CallEnd, CallRecord, CallState, NewCall, OpenTask};
pub use probes::{DueProbe, ProbeRecord, ProbeResult};
pub use record::{JobRow, Record, StepTimes};
pub use sessions::{SESSION_LIFETIME, SessionLine, SignedInSession};
pub use tokens::{Grant, TokenLine};
pub use users::{NewUser, User};

use crate::{files::Files, notifications::Notifications};
use chrono::{DateTime, Utc};
use db::Db;
use domain::{clock::SharedClock, id::message_id};
use health::Health;
use relay::Announcer;
use std::time::Duration;

/// How long the end waits for those who still hold the database.
const CLOSING: Duration = Duration::from_secs(5);

/// The store: the database, the clock that stamps its rows, and the notifications that tells of changes.
#[derive(Clone)]
pub struct Store {
    pub(crate) db: Db,
    pub(crate) clock: SharedClock,
    /// See [`lease_time`].
    machine_started_at: Option<DateTime<Utc>>,
    announcer: Announcer,
    health: Health,
    mail_domain: String,
    files: Option<Files>,
}

impl Store {
    /// Opens the database at `place`, making and migrating it as needed. `mail_domain` is the right side of Message-IDs.
    ///
    /// In a backup that was put in its place, what is open is set aside.
    pub async fn open(place: &Place, clock: SharedClock, mail_domain: &str) -> Result<Self, StoreError> {
        let db = Db::open(place).await?;
        let store = Self {
            machine_started_at: lease_time::machine_start(&db, &*clock).await?,
            db,
            clock,
            announcer: Announcer::default(),
            health: Health::default(),
            mail_domain: mail_domain.to_owned(),
            files: None,
        };
        store.set_aside_if_copied().await?;
        Ok(store)
    }

    /// The same store, with large uploads in `files` instead of in the database.
    #[must_use]
    pub fn with_files(self, files: Files) -> Self {
        Self { files: Some(files), ..self }
    }

    /// The same store, which takes no new orders while the disk of its file has less room than this, in bytes.
    #[must_use]
    pub fn keeping_free(mut self, bytes: u64) -> Self {
        self.db.keep_free(bytes);
        self
    }

    /// Where changes of jobs are announced.
    pub fn notifications(&self) -> &Notifications {
        &self.announcer.notifications
    }

    /// The clock.
    pub fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Runs a statement on the connection that writes.
    #[cfg(feature = "testing")]
    pub async fn on_writer(&self, statement: &'static str) -> Result<(), StoreError> {
        Ok(self.db.on_writer(statement).await?)
    }

    /// Closes the database. Who still holds it then is not waited for without end: a commit is whole or has not happened.
    pub async fn close(&self) {
        if tokio::time::timeout(CLOSING, self.db.close()).await.is_err() {
            tracing::warn!("somebody still holds the database; it is closed with the process");
        }
    }

    /// A Message-ID (RFC 5322 3.6.4) that nobody can guess: 128 random bits.
    fn new_message_id(&self) -> String {
        message_id(rand::random(), &self.mail_domain)
    }
}
