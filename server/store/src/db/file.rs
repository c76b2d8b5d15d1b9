//! SQLite's file while it is open, and what is in its place before that.
//!
//! An open file outlives its name: whoever deletes or replaces it leaves a server that goes on committing into what nobody will
//! ever read again. So before a transaction begins and before it commits, what is at the path is held against what was opened,
//! by device and number; that costs two calls of the operating system. The file itself must not be opened for that: closing it
//! would take this process's locks from SQLite.

use crate::{PlaceError, Unavailable};
use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::sleep;

/// How much room there must be for new orders, unless something else is set, in megabytes (1,000,000 bytes): so that those at
/// work can be finished.
pub const KEEP_FREE_MB: u32 = 16;

/// The files of an open database.
#[derive(Debug, Clone)]
pub struct OpenFile {
    files: Arc<Opened>,
    /// In bytes.
    keep_free: u64,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    database: Identity,
    /// The file with the latest changes, which SQLite keeps beside it. `None` on file systems where it works without.
    wal: Option<(PathBuf, Identity)>,
    /// With the last connection the files beside it go.
    is_closed: AtomicBool,
    /// The most bytes that it has been seen to have: nothing that Recount does makes it shorter.
    size: AtomicU64,
}

/// Which file it is, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl OpenFile {
    /// Remembers which files these are; SQLite must have them open.
    pub fn at(path: &Path) -> io::Result<Self> {
        let mut wal = OsString::from(path);
        wal.push("-wal");
        let database = fs::metadata(path)?;
        let wal = fs::metadata(&wal).ok().map(|metadata| (PathBuf::from(wal), Identity::from(&metadata)));
        let (path, size) = (path.to_owned(), database.len().into());
        let files = Opened { path, database: (&database).into(), wal, is_closed: false.into(), size };
        Ok(Self { files: Arc::new(files), keep_free: u64::from(KEEP_FREE_MB) * 1_000_000 })
    }

    /// Takes no new orders while there is less room than this, in bytes.
    pub fn keep_free(&mut self, bytes: u64) {
        self.keep_free = bytes;
    }

    /// From now on it is closed.
    pub fn close(&self) {
        self.files.is_closed.store(true, Relaxed);
    }

    /// Whether the file that is open is still the one at its path, and as long as it was.
    pub fn is_in_place(&self) -> Result<(), sqlx::Error> {
        let Opened { path, database, wal, is_closed, size } = &*self.files;
        if is_closed.load(Relaxed) {
            return Err(sqlx::Error::PoolClosed);
        }
        let now = metadata(path)?;
        if Identity::from(&now) != *database || now.len() < size.fetch_max(now.len(), Relaxed) {
            return Err(Unavailable::Replaced.into());
        }
        match wal {
            Some((path, wal)) if Identity::from(&metadata(path)?) != *wal => Err(Unavailable::Replaced.into()),
            _ => Ok(()),
        }
    }

    /// Whether something may be written to it.
    pub fn takes_changes(&self) -> Result<(), sqlx::Error> {
        self.is_in_place()?;
        let disk = statvfs(&self.files.path).map_err(io::Error::from)?;
        if disk.f_flag.contains(StatVfsMountFlags::RDONLY) { Err(Unavailable::ReadOnlyFolder.into()) } else { Ok(()) }
    }

    /// Whether there is room for new orders.
    pub fn has_room(&self) -> Result<(), sqlx::Error> {
        self.takes_changes()?;
        let disk = statvfs(&self.files.path).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < self.keep_free { Err(Unavailable::NoRoom.into()) } else { Ok(()) }
    }
}

fn metadata(path: &Path) -> Result<Metadata, sqlx::Error> {
    fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Unavailable::Replaced.into(),
        _ => sqlx::Error::Io(error),
    })
}

/// For a look at a file that changes nothing about it.
pub fn existing(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(path).create_if_missing(false).busy_timeout(Duration::from_secs(10))
}

/// Fails unless this is a database that Recount has made, or one that is missing and can be made.
pub async fn check_place(path: &Path) -> Result<(), PlaceError> {
    const LOOKS: u32 = 20;
    for _ in 0..LOOKS {
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(PlaceError::Driver(error.into())),
            Ok(metadata) if metadata.len() > 0 => return is_ours(path).await,
            // Another process may be making it just now.
            Ok(_) => sleep(Duration::from_millis(50)).await,
        }
    }
    Err(PlaceError::Empty)
}

async fn is_ours(path: &Path) -> Result<(), PlaceError> {
    let mut file = SqliteConnection::connect_with(&existing(path)).await?;
    // One that has nothing in it yet is of a first start that was cut off.
    let ours: bool = sqlx::query_scalar(
        "select (select count(*) from sqlite_schema where type = 'table' and name in ('_sqlx_migrations', 'jobs')) = 2
             or not exists (select 1 from sqlite_schema where type = 'table' and name not in ('_sqlx_migrations', 'sqlite_sequence'))",
    )
    .fetch_one(&mut file)
    .await?;
    file.close().await?;
    if ours { Ok(()) } else { Err(PlaceError::Foreign) }
}

/// The folder, where SQLite cannot work because it, or the file in it, is read-only.
pub fn read_only_folder(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_closed = |path: &Path| path.exists() && access(path, Access::WRITE_OK).is_err();
    (is_closed(folder) || is_closed(path)).then(|| folder.to_owned())
}
