//! A folder of `.eml` files: the channel that needs no mail server.
//!
//! The point of no return is one `hard_link` from a hidden, already flushed temporary file to the
//! message's name. It is atomic and fails when the name is taken, and the name comes from the
//! Message-ID, so no number of attempts can make a second file.
//!
//! An attempt that ended in the dark can always be settled, because [`Outbox::reconcile`] first takes
//! the temporary name away (a rename, flushed) and looks for the message's name only then:
//!
//! - a late worker that links before the rename has made the file, and the look finds it;
//! - one that links after the rename finds no temporary name, and its link fails, now and for ever.
//!
//! The renamed file (`.{attempt}.void`) stays as the mark of that proof, so asking again gives the
//! same answer. Only when neither name nor mark nor file is left (someone emptied the folder) is
//! there no proof. The one `Unconfirmed` of this channel is a file that got its name while the disk
//! refused to make that last.

mod files;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use self::files::{Linked, Names, Withdrawn};
use crate::mail::channel::{Cause, Channel, Delivery, Journal, Outgoing, Phase, Reconciled, Retry, Stop};

/// How screens call this channel.
const NAME: &str = "outbox folder";

/// Messages as files in one folder.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
}

impl Outbox {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open(folder: impl AsRef<Path>) -> io::Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[async_trait]
impl Channel for Outbox {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        if let Some(cause) = stop.cause() {
            return Delivery::BrokenOff { phase: Phase::Prepare, cause };
        }
        if !message.is_intact() {
            return Delivery::NotAccepted {
                phase: Phase::Prepare,
                evidence: "the stored message no longer has its SHA-256".to_owned(),
                retry: Retry::NeedsPerson,
            };
        }
        let names = Names::new(&self.folder, message);

        let (at, bytes) = (names.clone(), message.bytes.clone());
        if let Err(error) = blocking(move || at.write_temporary(&bytes)).await {
            return not_accepted(&error);
        }

        if let Err(refused) = journal.in_doubt().await {
            return withdrawn(names, refused.into()).await;
        }
        if let Some(cause) = stop.cause() {
            return withdrawn(names, cause).await;
        }

        let (at, bytes) = (names.clone(), message.bytes.clone());
        match blocking(move || at.link(&bytes)).await {
            Ok(Linked::New) => accepted(format!("written as {}", names.file_name())),
            Ok(Linked::SameThere) => accepted(format!("already there as {}", names.file_name())),
            Ok(Linked::OtherThere) => Delivery::NotAccepted {
                phase: Phase::Store,
                evidence: format!("{} exists with other contents", names.file_name()),
                retry: Retry::NeedsPerson,
            },
            Ok(Linked::Withdrawn) => Delivery::NotAccepted {
                phase: Phase::Store,
                evidence: "this attempt was given up before the file got its name".to_owned(),
                retry: Retry::Later,
            },
            Ok(Linked::Refused(error)) => not_accepted(&error),
            Err(error) => Delivery::Unconfirmed { evidence: format!("{} could not be secured: {error}", names.file_name()) },
        }
    }

    async fn reconcile(&self, message: &Outgoing) -> Reconciled {
        let names = Names::new(&self.folder, message);
        let (at, bytes) = (names.clone(), message.bytes.clone());
        let file = names.file_name();
        match blocking(move || at.settle(&bytes)).await {
            Ok((_, Some(true))) => Reconciled::Accepted { evidence: format!("found as {file}") },
            Ok((_, Some(false))) => {
                Reconciled::NotAccepted { evidence: format!("{file} exists with other contents, and no other file can come") }
            }
            Ok((Withdrawn::Proved, None)) => {
                Reconciled::NotAccepted { evidence: format!("there is no {file}, and the attempt can no longer make it") }
            }
            Ok((Withdrawn::NoTrace, None)) => {
                Reconciled::NotKnown { evidence: format!("there is no {file}, but no trace of the attempt either") }
            }
            Err(error) => Reconciled::NotKnown { evidence: format!("the outbox folder could not be read: {error}") },
        }
    }
}

fn accepted(evidence: String) -> Delivery {
    Delivery::Accepted { evidence, peer: NAME.to_owned() }
}

fn not_accepted(error: &io::Error) -> Delivery {
    let retry = match error.kind() {
        io::ErrorKind::StorageFull
        | io::ErrorKind::QuotaExceeded
        | io::ErrorKind::Interrupted
        | io::ErrorKind::ResourceBusy
        | io::ErrorKind::AlreadyExists => Retry::Later,
        _ => Retry::NeedsPerson,
    };
    Delivery::NotAccepted { phase: Phase::Store, evidence: format!("the file could not be written: {error}"), retry }
}

/// Breaks off after the record may say `in_doubt`: leaves the mark, so that even a crash right now
/// can be settled. If the mark fails too, the temporary name is still there and settles it as well.
async fn withdrawn(names: Names, cause: Cause) -> Delivery {
    if let Err(error) = blocking(move || names.withdraw()).await {
        tracing::warn!(%error, "an unused temporary file stays in the outbox folder");
    }
    Delivery::BrokenOff { phase: Phase::Journal, cause }
}

/// File work off the async threads; a task that could not run counts as an error of the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
