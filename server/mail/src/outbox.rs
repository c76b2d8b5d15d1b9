//! A folder of `.eml` files: the channel that needs no mail server.
//!
//! The point of no return is one rename of a hidden, already flushed temporary file to the message's name, of the kind that
//! replaces nothing (`renameat2` with `RENAME_NOREPLACE`): at any instant the attempt has either its temporary file or the
//! message's name, never both and never neither. The name comes from the Message-ID, so no number of attempts can make a
//! second file. A file system that cannot do this (NFS, say) refuses, and nothing is sent.
//!
//! So an attempt that ended in the dark can be settled, because [`Outbox::reconcile`] takes the temporary file away first (a
//! rename, flushed) and looks for the message's name only then:
//!
//! - the temporary file was there: the message was not published, and a late worker's rename now fails, for ever;
//! - it was not, and the message's file is there: it was published.
//!
//! The renamed file (`.{attempt}.void`) stays as the mark of the first, so asking again gives the same answer. Where neither
//! file nor mark is left, a mail program may have picked the message up, or somebody emptied the folder: there is no proof,
//! and the attempt stays unconfirmed.

mod files;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use contract::Via;
use tokio::task::spawn_blocking;

use self::files::{Names, Published, Withdrawn};
use crate::channel::{Asking, Cause, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Reconciled, Retry, Stop};

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

    fn via(&self) -> Via {
        Via::Outbox
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        if let Some(cause) = stop.cause() {
            return Delivery::BrokenOff { phase: DeliveryPhase::Prepare, cause };
        }
        if !message.is_intact() {
            return Delivery::NotAccepted {
                phase: DeliveryPhase::Prepare,
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
        match blocking(move || at.publish(&bytes)).await {
            Ok(Published::New) => accepted(format!("written as {}", names.file_name())),
            Ok(Published::SameThere) => accepted(format!("already there as {}", names.file_name())),
            Ok(Published::OtherThere) => Delivery::NotAccepted {
                phase: DeliveryPhase::Store,
                evidence: format!("{} exists with other contents", names.file_name()),
                retry: Retry::NeedsPerson,
            },
            Ok(Published::Withdrawn) => Delivery::NotAccepted {
                phase: DeliveryPhase::Store,
                evidence: "this attempt was given up before the file got its name".to_owned(),
                retry: Retry::Later,
            },
            Ok(Published::Refused(error)) => not_accepted(&error),
            Err(error) => Delivery::Unconfirmed { evidence: format!("{} could not be secured: {error}", names.file_name()) },
        }
    }

    fn asking(&self) -> Asking {
        Asking::Freely
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
            Err(error) => Reconciled::NotAsked { reason: format!("the outbox folder could not be read: {error}") },
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
    Delivery::NotAccepted { phase: DeliveryPhase::Store, evidence: format!("the file could not be written: {error}"), retry }
}

/// Breaks off after the record may say `in_doubt`: leaves the mark, so that even a crash right now
/// can be settled. If the mark fails too, the temporary name is still there and settles it as well.
async fn withdrawn(names: Names, cause: Cause) -> Delivery {
    if let Err(error) = blocking(move || names.withdraw()).await {
        tracing::warn!(%error, "an unused temporary file stays in the outbox folder");
    }
    Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause }
}

/// File work off the async threads; a task that could not run counts as an error of the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
