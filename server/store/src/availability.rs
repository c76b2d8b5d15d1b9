//! What may be the matter with a database through no fault of the program: it cannot be reached, has no room, takes no changes,
//! or is too busy. People are told so in words, nothing is given up for it, and work goes on by itself afterwards.

use super::{PlaceError, StoreError};
use sqlx::{error::DatabaseError, migrate::MigrateError, postgres::PgDatabaseError, sqlite::SqliteError};
use std::{
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The matter with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub enum Unavailable {
    /// It does not answer, or lets nobody in.
    Down,
    /// It has not answered for as long as somebody could wait.
    Slow,
    /// It cannot write: no room, or a disk that fails.
    Full,
    /// It can still write, but not much more.
    NoRoom,
    /// It takes no changes, as a standby does, or somebody has closed it for writing.
    ReadOnly,
    /// The folder of its file takes no changes.
    ReadOnlyFolder,
    /// It was waited for too long.
    Busy,
    /// Its file is no longer in its place, or has become shorter.
    Replaced,
    /// What is in it cannot be understood.
    Damaged,
}

impl Unavailable {
    /// What is the matter, as a sentence for everybody.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Down => "The database cannot be reached just now.",
            Self::Slow => "The database does not answer in time just now.",
            Self::Full => "The database cannot store anything just now: its disk is full, or out of order.",
            Self::NoRoom => {
                "The disk with the database is nearly full. New orders are taken when there is room again; until then the rest \
                 is kept for those that were taken."
            }
            Self::ReadOnly => "The database takes no changes just now; it can only be read.",
            Self::ReadOnlyFolder => "The database takes no changes just now: the data folder is read-only.",
            Self::Busy => "The database is too busy to answer just now.",
            Self::Replaced => {
                "The database file has been deleted, replaced or cut short under the running server. Nothing is recorded or sent \
                 any more. Put the right file in its place and restart Recount."
            }
            Self::Damaged => {
                "The database is damaged. Stop Recount, put a backup of the database in its place and start Recount again."
            }
        }
    }

    /// Whether it may pass without anybody's help.
    pub fn may_pass(self) -> bool {
        !matches!(self, Self::Replaced | Self::Damaged)
    }

    pub(super) fn of(error: &sqlx::Error) -> Option<Self> {
        match error {
            sqlx::Error::Io(error) => Some(error.get_ref().and_then(|error| error.downcast_ref()).copied().unwrap_or(Self::Down)),
            sqlx::Error::Tls(_)
            // A server, or a proxy in front of it, that ends the connection in the middle of its greeting.
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Some(Self::Down),
            sqlx::Error::Database(error) => Self::told(error.as_ref()),
            _ => None,
        }
    }

    fn told(error: &dyn DatabaseError) -> Option<Self> {
        let code = error.code()?;
        if error.try_downcast_ref::<PgDatabaseError>().is_some() {
            Self::of_sqlstate(&code)
        } else if error.try_downcast_ref::<SqliteError>().is_some() {
            Self::of_sqlite(code.parse().ok()?)
        } else {
            None
        }
    }

    /// By PostgreSQL's SQLSTATE (its appendix A).
    fn of_sqlstate(code: &str) -> Option<Self> {
        match code {
            // Disk full; I/O error.
            "53100" | "58030" => Some(Self::Full),
            "25006" => Some(Self::ReadOnly),
            // Data or an index that is corrupted; a file that is missing.
            "XX001" | "XX002" | "58P01" => Some(Self::Damaged),
            // Deadlock; time-outs of locks and statements; a transaction that could not be put in order.
            "40P01" | "55P03" | "57014" | "40001" => Some(Self::Busy),
            // Shut down, crashed, starting up, not a database to connect to (any more), idle for too long.
            "57P01" | "57P02" | "57P03" | "57P05" | "55000" | "25P03" => Some(Self::Down),
            _ if code.starts_with("08") || code.starts_with("53") => Some(Self::Down),
            _ => None,
        }
    }

    /// By SQLite's result code, whose last byte is the primary one.
    fn of_sqlite(code: u32) -> Option<Self> {
        const WRITE: u32 = 778;
        const FSYNC: u32 = 1034;
        const DIRECTORY_FSYNC: u32 = 1290;
        const TRUNCATE: u32 = 1546;
        const SHARED_MEMORY_SIZE: u32 = 4874;
        const MOVED: u32 = 1032;
        const FOLDER: u32 = 1544;
        match (code, code & 0xff) {
            // A quota that is used up is an I/O error as well.
            (WRITE | FSYNC | DIRECTORY_FSYNC | TRUNCATE | SHARED_MEMORY_SIZE, _) | (_, 13) => Some(Self::Full),
            // Busy; locked; locks that could not be agreed upon.
            (_, 5 | 6 | 15) => Some(Self::Busy),
            (MOVED, _) => Some(Self::Replaced),
            (FOLDER, _) => Some(Self::ReadOnlyFolder),
            (_, 8) => Some(Self::ReadOnly),
            // I/O error; the file cannot be opened.
            (_, 10 | 14) => Some(Self::Down),
            // Corrupt; not a database.
            (_, 11 | 26) => Some(Self::Damaged),
            _ => None,
        }
    }
}

impl From<Unavailable> for sqlx::Error {
    fn from(trouble: Unavailable) -> Self {
        Self::Io(std::io::Error::other(trouble))
    }
}

impl StoreError {
    /// Whether the database is in trouble. `None`: the fault is in the program, or in what it was asked.
    pub fn unavailable(&self) -> Option<Unavailable> {
        match self {
            Self::Driver(error)
            | Self::Place(PlaceError::Driver(error))
            | Self::Migrate(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => Unavailable::of(error),
            Self::Refused(_)
            | Self::Place(_)
            | Self::Files(_)
            | Self::Migrate(_)
            | Self::TooOld { .. }
            | Self::Inconsistent { .. }
            | Self::Affected { .. }
            | Self::Json(_) => None,
        }
    }
}

/// While the database is in trouble, a line about it goes to the log no more often than this, whoever meets it.
const QUIET: Duration = Duration::from_secs(5);

/// When the last line was written, and what has been left out since.
static LAST: Mutex<Option<(Instant, u32)>> = Mutex::new(None);

/// Writes to the log what could not be done. Every task of a process meets the same trouble, again and again, so that is said
/// once in a while.
pub fn complain(what: impl Display, error: &StoreError) {
    if error.unavailable().is_none() {
        tracing::error!(%error, "{what}");
    } else if let Some(left_out) = may_speak(&mut LAST.lock().unwrap_or_else(PoisonError::into_inner), Instant::now()) {
        tracing::error!(%error, left_out, "{what}");
    }
}

/// How many lines were left out, if there may be one again.
fn may_speak(last: &mut Option<(Instant, u32)>, now: Instant) -> Option<u32> {
    match last {
        Some((at, left_out)) if now.duration_since(*at) < QUIET => {
            *left_out += 1;
            None
        }
        _ => Some(last.replace((now, 0)).map_or(0, |(_, left_out)| left_out)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
    use std::io;

    #[test]
    fn what_postgresql_says_is_understood() {
        let cases = [
            ("53100", Some(Unavailable::Full)),
            ("25006", Some(Unavailable::ReadOnly)),
            ("55P03", Some(Unavailable::Busy)),
            ("57014", Some(Unavailable::Busy)),
            ("57P01", Some(Unavailable::Down)),
            ("57P03", Some(Unavailable::Down)),
            ("53300", Some(Unavailable::Down)),
            ("08006", Some(Unavailable::Down)),
            ("XX001", Some(Unavailable::Damaged)),
            // A constraint, a syntax error, a wrong password: nothing that passes by itself.
            ("23505", None),
            ("42601", None),
            ("28P01", None),
        ];
        for (code, trouble) in cases {
            assert_eq!(Unavailable::of_sqlstate(code), trouble, "{code}");
        }
    }

    #[test]
    fn what_the_network_says_is_understood() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::ConnectionReset, io::ErrorKind::TimedOut] {
            assert_eq!(StoreError::from(sqlx::Error::Io(kind.into())).unavailable(), Some(Unavailable::Down));
        }
        assert_eq!(StoreError::from(sqlx::Error::PoolTimedOut).unavailable(), Some(Unavailable::Down));
        assert_eq!(StoreError::from(sqlx::Error::RowNotFound).unavailable(), None);
        assert_eq!(StoreError::Affected { what: "x", rows: 0 }.unavailable(), None);
    }

    #[tokio::test]
    async fn what_sqlite_says_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new().filename(folder.path().join("a.db")).create_if_missing(true);
        let options = options.busy_timeout(Duration::ZERO);
        let mut one = SqliteConnection::connect_with(&options).await.unwrap();
        let mut other = SqliteConnection::connect_with(&options).await.unwrap();
        let mut trouble = async |statement: &'static str| {
            let result = one.execute(statement).await;
            result.map_err(|error| StoreError::from(error).unavailable()).map(drop)
        };
        assert_eq!(trouble("create table a (x text) strict").await, Ok(()));
        assert_eq!(trouble("select nothing").await, Err(None));
        other.execute("begin immediate").await.unwrap();
        assert_eq!(trouble("begin immediate").await, Err(Some(Unavailable::Busy)));
        other.execute("commit").await.unwrap();
        assert_eq!(trouble("pragma max_page_count = 2").await, Ok(()));
        assert_eq!(trouble("insert into a values (hex(zeroblob(10000)))").await, Err(Some(Unavailable::Full)));
        assert_eq!(trouble("pragma query_only = on").await, Ok(()));
        assert_eq!(trouble("insert into a values ('x')").await, Err(Some(Unavailable::ReadOnly)));
        let missing = SqliteConnectOptions::new().filename(folder.path().join("none/a.db"));
        let error = SqliteConnection::connect_with(&missing).await.unwrap_err();
        assert_eq!(StoreError::from(error).unavailable(), Some(Unavailable::Down));
    }

    #[test]
    fn what_sqlite_says_of_its_file_is_understood() {
        for (code, trouble) in [
            (11, Unavailable::Damaged),
            // A page of an index.
            (779, Unavailable::Damaged),
            (26, Unavailable::Damaged),
            (1032, Unavailable::Replaced),
            (8, Unavailable::ReadOnly),
            (1544, Unavailable::ReadOnlyFolder),
            (517, Unavailable::Busy),
            (13, Unavailable::Full),
        ] {
            assert_eq!(Unavailable::of_sqlite(code), Some(trouble), "{code}");
        }
        let all =
            [Unavailable::Replaced, Unavailable::Damaged, Unavailable::ReadOnlyFolder, Unavailable::NoRoom, Unavailable::Slow];
        for trouble in all {
            assert_eq!(StoreError::from(sqlx::Error::from(trouble)).unavailable(), Some(trouble));
        }
    }

    #[test]
    fn the_log_is_told_once_in_a_while() {
        let (mut last, start) = (None, Instant::now());
        assert_eq!(may_speak(&mut last, start), Some(0));
        assert_eq!(may_speak(&mut last, start + QUIET / 3), None);
        assert_eq!(may_speak(&mut last, start + QUIET / 2), None);
        assert_eq!(may_speak(&mut last, start + QUIET), Some(2));
        assert_eq!(may_speak(&mut last, start + QUIET + QUIET), Some(0));
    }
}
