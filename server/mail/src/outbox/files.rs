//! The outbox's file work: blocking, and each operation safe to be cut off anywhere.

use std::{
    fmt::Write as _,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest, Sha256};

use crate::channel::Outgoing;
use domain::fail_point;

/// Longest Message-ID that becomes a file name as it is, in bytes; file systems stop at 255.
const MAX_READABLE: usize = 200;

/// The names that one attempt uses.
#[derive(Debug, Clone)]
pub(super) struct Names {
    folder: PathBuf,
    temporary: PathBuf,
    void: PathBuf,
    message: PathBuf,
    file_name: String,
}

/// What became of giving the temporary file the message's name.
pub(super) enum Published {
    New,
    SameThere,
    OtherThere,
    /// The temporary name is gone: the attempt was settled as not accepted.
    Withdrawn,
    /// The file system said no before anything had a name.
    Refused(io::Error),
}

/// What taking the temporary name away showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Withdrawn {
    /// The attempt still had its temporary file, so it never named the message; it has lost the file now, or earlier.
    Proved,
    /// There is neither a temporary file nor the mark of one.
    NoTrace,
}

impl Names {
    pub(super) fn new(folder: &Path, message: &Outgoing) -> Self {
        let file_name = file_name(&message.message_id);
        Self {
            folder: folder.to_path_buf(),
            temporary: folder.join(format!(".{}.tmp", message.attempt)),
            void: folder.join(format!(".{}.void", message.attempt)),
            message: folder.join(&file_name),
            file_name,
        }
    }

    pub(super) fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Writes and flushes the temporary file, so that the message's name will stand for complete contents.
    pub(super) fn write_temporary(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&self.temporary)?;
        fail_point::reach_blocking("before", "the outbox file is written");
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        // The name too must survive a power failure: it is what reconciling looks for.
        let written = written.and_then(|()| self.flush_folder());
        if written.is_err() {
            // Best effort: nothing has been promised about this file yet.
            let _ = fs::remove_file(&self.temporary);
        }
        written
    }

    /// The point of no return.
    ///
    /// An error means that the file has its name, but that this might not survive a power failure.
    pub(super) fn publish(&self, bytes: &[u8]) -> io::Result<Published> {
        fail_point::reach_blocking("before", "the outbox file gets its name");
        let renamed = renameat_with(CWD, &self.temporary, CWD, &self.message, RenameFlags::NOREPLACE).map_err(io::Error::from);
        fail_point::reach_blocking("after", "the outbox file got its name");
        let published = match renamed {
            Ok(()) => Published::New,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::read(&self.message) {
                Ok(there) if there == bytes => Published::SameThere,
                Ok(_) => Published::OtherThere,
                Err(error) => Published::Refused(error),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Published::Withdrawn),
            Err(error) => Published::Refused(error),
        };
        match published {
            Published::New => self.flush_folder()?,
            // Best effort: the message is there already, and a temporary file more does no harm.
            Published::SameThere => {
                let _ = fs::remove_file(&self.temporary);
            }
            // Best effort: if it fails, reconciling does it.
            _ => {
                let _ = self.withdraw();
            }
        }
        Ok(published)
    }

    /// Takes the temporary name away for good and leaves the mark. Does no harm when repeated.
    pub(super) fn withdraw(&self) -> io::Result<Withdrawn> {
        match fs::rename(&self.temporary, &self.void) {
            Ok(()) => {
                self.flush_folder()?;
                Ok(Withdrawn::Proved)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(if self.void.try_exists()? { Withdrawn::Proved } else { Withdrawn::NoTrace })
            }
            Err(error) => Err(error),
        }
    }

    /// Withdraws, and only then looks for the message: `Some(true)` when it is there with these bytes.
    pub(super) fn settle(&self, bytes: &[u8]) -> io::Result<(Withdrawn, Option<bool>)> {
        let withdrawn = self.withdraw()?;
        match fs::read(&self.message) {
            Ok(there) => {
                self.flush_folder()?;
                Ok((withdrawn, Some(there == bytes)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok((withdrawn, None)),
            Err(error) => Err(error),
        }
    }

    fn flush_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

/// One name per Message-ID. One that is safe as it is stays readable, any other is hashed; a hash
/// has no `@`, so the two kinds never meet.
fn file_name(message_id: &str) -> String {
    let id = message_id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or_default();
    let safe = id.len() <= MAX_READABLE
        && id.contains('@')
        && !id.starts_with('.')
        // Lower case only: some file systems take `A` and `a` for the same name
        && id
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "@.-_".contains(c));
    if safe {
        return format!("{id}.eml");
    }
    let mut name = String::new();
    for byte in Sha256::digest(message_id) {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name + ".eml"
}
