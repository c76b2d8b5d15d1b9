//! The database: one SQLite file, or a PostgreSQL server that several machines share.
//!
//! Every query is written once, as text that both understand; the macros `read!` and `within!` compile its body once for each
//! driver. What truly differs is in the few named functions of this file: how a transaction begins, which rows it locks,
//! and how other processes are told.

mod batch;
mod file;
mod lock;
mod patience;
mod postgres;

use super::{PlaceError, StoreError, Unavailable};
use crate::notifications::JobChanged;
pub(super) use batch::{Batch, Value};
use domain::id::JobId;
pub use file::KEEP_FREE_MB;
use file::OpenFile;
pub(super) use file::existing;
pub(super) use lock::Lock;
use patience::patiently;
pub use patience::waiting_at_most;
use postgres::PgTx;
pub(super) use postgres::{Borrowed, CHANNEL, bounded, listen};
use sqlx::{
    AssertSqlSafe, Connection, Sqlite, SqlitePool, Transaction,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPool},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};
use uuid::Uuid;

const SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
const POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// Where the database is.
#[derive(Clone)]
pub enum Place {
    /// A file on this machine.
    Sqlite(PathBuf),
    /// A server.
    Postgres(Box<PgConnectOptions>),
}

/// The text names no database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("The database is written as postgres://user:password@host/name, or as the path of an SQLite file. {0}")]
pub struct UnknownPlace(String);

impl FromStr for Place {
    type Err = UnknownPlace;

    /// Reads `postgres://…` (RFC 3986, with the parameters of libpq) or a path.
    fn from_str(text: &str) -> Result<Self, UnknownPlace> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => {
                let options: PgConnectOptions = text.parse().map_err(|error: sqlx::Error| UnknownPlace(error.to_string()))?;
                Ok(Self::Postgres(Box::new(options)))
            }
            Some((scheme, _)) => Err(UnknownPlace(format!("Recount does not know {scheme}://."))),
            None if text.is_empty() => Err(UnknownPlace("It is empty.".into())),
            None => Ok(Self::Sqlite(text.strip_prefix("sqlite:").unwrap_or(text).into())),
        }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::Sqlite(path.to_owned())
    }
}

/// Without the password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(options) => {
                let (host, port) = (options.get_host(), options.get_port());
                write!(f, "{} on {host}:{port}", options.get_database().unwrap_or(options.get_username()))
            }
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The open database.
#[derive(Debug, Clone)]
pub enum Db {
    /// SQLite has one writer at a time, so there is one connection for writing, and waiting for it happens in the pool instead
    /// of in busy retries.
    Sqlite { reader: SqlitePool, writer: SqlitePool, file: OpenFile },
    /// Writers of different jobs do not wait for each other; those of the same job do ([`Tx::lock_job`]).
    Postgres(PgPool),
}

/// An open transaction.
#[derive(Debug)]
pub enum Tx {
    Sqlite(Transaction<'static, Sqlite>, OpenFile),
    Postgres(PgTx),
}

/// Whether somebody else is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    None,
    Some,
}

/// Runs a query outside a transaction: `read!(db, conn => query.fetch_all(conn).await)`.
macro_rules! read {
    ($db:expr, $conn:ident => $body:expr) => {
        match &$db {
            $crate::db::Db::Sqlite { reader: $conn, file, .. } => match file.is_in_place() {
                Ok(()) => $body,
                Err(gone) => Err(gone),
            },
            $crate::db::Db::Postgres(pool) => match $crate::db::Borrowed::of(pool).await {
                Ok(mut connection) => {
                    let result = {
                        let $conn = &mut *connection;
                        $crate::db::bounded(async { $body }).await
                    };
                    match result {
                        Ok(result) => result,
                        Err(late) => {
                            connection.give_up();
                            Err(late)
                        }
                    }
                }
                Err(unavailable) => Err(unavailable),
            },
        }
    };
}

/// Runs a query inside a transaction: `within!(tx, conn => query.execute(conn).await.map(drop))`.
macro_rules! within {
    ($tx:expr, $conn:ident => $body:expr) => {
        match &mut $tx {
            $crate::db::Tx::Sqlite(transaction, _) => {
                let $conn = &mut **transaction;
                $body
            }
            $crate::db::Tx::Postgres(transaction) => {
                let result = match transaction.connection() {
                    Ok($conn) => $crate::db::bounded(async { $body }).await,
                    Err(over) => Ok(Err(over)),
                };
                match result {
                    Ok(result) => result,
                    Err(late) => {
                        transaction.give_up();
                        Err(late)
                    }
                }
            }
        }
    };
}

pub(super) use {read, within};

impl Db {
    /// Opens the database, and makes and migrates what is missing.
    pub async fn open(place: &Place) -> Result<Self, StoreError> {
        let db = match place {
            Place::Sqlite(path) => match Self::open_sqlite(path).await {
                Err(error) if error.unavailable() == Some(Unavailable::Damaged) => return Err(PlaceError::NoDatabase.into()),
                Err(error) if error.unavailable().is_some() => {
                    return Err(file::read_only_folder(path).map_or(error, |folder| PlaceError::ReadOnly(folder).into()));
                }
                opened => opened?,
            },
            Place::Postgres(options) => Self::Postgres(postgres::open(options).await?),
        };
        db.check_compatibility().await?;
        Ok(db)
    }

    /// `synchronous = full`: an accepted cancel and an e-mail in doubt must survive a power cut, and this writes little.
    async fn open_sqlite(path: &Path) -> Result<Self, StoreError> {
        file::check_place(path).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10))
            .foreign_keys(true);
        // After some errors, such as a full disk, SQLite takes a transaction back by itself, and the driver believes for ever
        // that it is still open: such a connection begins no other one.
        let writer = lasting()
            .max_connections(1)
            .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
        let writer = writer.connect_with(options.clone()).await?;
        migrator(SQLITE_MIGRATIONS).run_direct(None, &mut *writer.acquire().await?, false).await?;
        // Connections that are made later find the file, and never make another one.
        let options = options.create_if_missing(false);
        writer.set_connect_options(options.clone());
        let file = OpenFile::at(path).map_err(sqlx::Error::Io)?;
        // SQLite opens what it may only read as well, where the files beside it are there.
        file.takes_changes()?;
        // Readers wait for nobody but those who keep the whole file to themselves, and whoever asks waits for an answer.
        let reading = options.read_only(true).busy_timeout(Duration::from_secs(2));
        let reader = lasting().max_connections(8).connect_with(reading).await?;
        Ok(Self::Sqlite { reader, writer, file })
    }

    /// A newer version may have migrated the database. It says whether this one may go on beside it.
    async fn check_compatibility(&self) -> Result<(), StoreError> {
        let needed: i64 = read!(*self, conn => {
            sqlx::query_scalar("select oldest_migration from compatibility").fetch_one(conn).await
        })?;
        let known = SQLITE_MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
        if known < needed { Err(StoreError::TooOld { needed, known }) } else { Ok(()) }
    }

    /// Begins a write transaction. SQLite takes its write lock at once, so nothing that is read inside can be stale; with
    /// PostgreSQL that holds for what [`Tx::lock_job`] and its siblings lock.
    pub async fn begin(&self) -> Result<Tx, sqlx::Error> {
        Ok(match self {
            Self::Sqlite { writer, file, .. } => {
                file.takes_changes()?;
                let begun = match patiently(Unavailable::Busy, writer.begin_with("begin immediate")).await {
                    // The one connection is with somebody who writes.
                    Err(sqlx::Error::PoolTimedOut) => Err(Unavailable::Busy.into()),
                    other => other,
                };
                Tx::Sqlite(begun?, file.clone())
            }
            Self::Postgres(pool) => Tx::Postgres(patiently(Unavailable::Slow, PgTx::begin(pool, "begin")).await?.0),
        })
    }

    /// Begins a write transaction as soon as nobody else changes this job, see [`Tx::lock_job`].
    pub async fn begin_on_job(&self, id: JobId) -> Result<Tx, sqlx::Error> {
        // Most jobs are about no other one, and then one exchange is enough.
        let alone = format!("select 1 from jobs where id = '{id}' and about_job is null for update");
        let (mut tx, is_locked) = self.begin_and_lock(&alone).await?;
        if !is_locked {
            tx.lock_job(id).await?;
        }
        Ok(tx)
    }

    /// Begins a write transaction in which nobody else changes this job, whatever it is about, and which holds `lock` as well.
    /// `None` if a worker has the job, if it has ended, or, with [`Patience::None`], if somebody changes it just now.
    pub async fn begin_on_free_job(
        &self,
        id: JobId,
        lock: Option<Lock<'_>>,
        patience: Patience,
    ) -> Result<Option<Tx>, sqlx::Error> {
        let lock = lock.map_or("1".into(), Lock::call);
        let how = match patience {
            Patience::None => "skip locked",
            Patience::Some => "",
        };
        let free =
            format!("select {lock} from jobs where id = '{id}' and finished_at is null and lease_owner is null for update {how}");
        let (tx, is_locked) = self.begin_and_lock(&free).await?;
        Ok(is_locked.then_some(tx))
    }

    /// Begins a write transaction that holds `lock`.
    pub async fn begin_with_lock(&self, lock: Lock<'_>) -> Result<Tx, sqlx::Error> {
        Ok(self.begin_and_lock(&format!("select {}", lock.call())).await?.0)
    }

    /// Begins a write transaction with a statement that locks something, unless the database locks everything by itself. The
    /// statement has no parameters, since those would cost an exchange. Returns whether there was something to lock.
    async fn begin_and_lock(&self, statement: &str) -> Result<(Tx, bool), sqlx::Error> {
        let Self::Postgres(pool) = self else { return Ok((self.begin().await?, true)) };
        // Identifiers and numbers of the program's own types, and nothing else.
        let begun = PgTx::begin(pool, AssertSqlSafe(format!("begin; {statement}")));
        let (transaction, rows) = patiently(Unavailable::Slow, begun).await?;
        Ok((Tx::Postgres(transaction), rows > 0))
    }

    /// Begins a transaction for reading: all that is read inside belongs to one moment.
    pub async fn snapshot(&self) -> Result<Tx, sqlx::Error> {
        Ok(match self {
            Self::Sqlite { reader, file, .. } => {
                file.is_in_place()?;
                Tx::Sqlite(reader.begin().await?, file.clone())
            }
            Self::Postgres(pool) => Tx::Postgres(PgTx::begin(pool, "begin isolation level repeatable read, read only").await?.0),
        })
    }

    /// Whether there is room for new orders. PostgreSQL does not tell.
    pub fn has_room(&self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite { file, .. } => file.has_room(),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Takes no new orders while the disk has less room than this, in bytes.
    pub fn keep_free(&mut self, bytes: u64) {
        if let Self::Sqlite { file, .. } = self {
            file.keep_free(bytes);
        }
    }

    /// Runs a statement on the connection that writes. Some states of SQLite, such as taking no changes, belong to a
    /// connection, so that no test could bring them about from outside.
    #[cfg(feature = "testing")]
    pub async fn on_writer(&self, statement: &'static str) -> Result<(), sqlx::Error> {
        use sqlx::Executor;
        match self {
            Self::Sqlite { writer, .. } => writer.execute(statement).await.map(drop),
            Self::Postgres(pool) => pool.execute(statement).await.map(drop),
        }
    }

    /// Tells the other processes of changes that are committed already. With SQLite they look for themselves.
    pub async fn tell(&self, origin: Uuid, changes: impl Iterator<Item = &JobChanged>) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite { .. } => Ok(()),
            Self::Postgres(pool) => {
                let (transaction, _) = PgTx::begin(pool, "begin; set local synchronous_commit = off").await?;
                transaction.commit(changes.map(|change| change.to_message(origin))).await
            }
        }
    }

    /// Closes every connection; open transactions end first.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { reader, writer, file } => {
                file.close();
                reader.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => postgres::close(pool).await,
        }
    }
}

/// A pool whose connections stay: where the last one closes, SQLite removes the files beside the database.
fn lasting() -> SqlitePoolOptions {
    SqlitePoolOptions::new().idle_timeout(None).max_lifetime(None)
}

/// Migrations that a newer version has made are not this one's business ([`Db::open`] asks whether it may go on).
fn migrator(mut migrations: Migrator) -> Migrator {
    migrations.set_ignore_missing(true);
    migrations
}

impl Tx {
    /// Waits until nobody else changes this job, nor the report's job that it is a mailing about, and keeps others waiting
    /// until the end of the transaction. The jobs that a mailing is about come first, so that no two wait for each other.
    pub async fn lock_job(&mut self, id: JobId) -> Result<(), sqlx::Error> {
        if let Self::Postgres(_) = self {
            within!(*self, conn => {
                sqlx::query(
                    "with recursive line (id, about_job, depth) as
                         (select id, about_job, 0 from jobs where id = $1
                          union all select jobs.id, jobs.about_job, depth + 1 from jobs join line on jobs.id = line.about_job)
                     select jobs.id from jobs join line on line.id = jobs.id order by line.depth desc for update of jobs",
                )
                .bind(id)
                .execute(conn)
                .await
                .map(drop)
            })?;
        }
        Ok(())
    }

    /// Waits until no other transaction holds this lock.
    pub async fn lock(&mut self, lock: Lock<'_>) -> Result<(), sqlx::Error> {
        if let Self::Postgres(_) = self {
            let text = format!("select {}", lock.call());
            within!(*self, conn => sqlx::query(AssertSqlSafe(text)).execute(conn).await.map(drop))?;
        }
        Ok(())
    }

    /// Commits.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.commit_and_tell(Uuid::nil(), &[]).await
    }

    /// Commits, and with PostgreSQL tells the other processes of these changes, if and only if the commit succeeds. SQLite has
    /// no such means; there they look for themselves.
    pub async fn commit_and_tell(self, origin: Uuid, changes: &[JobChanged]) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction, file) => {
                file.is_in_place()?;
                transaction.commit().await?;
                // Nobody is promised what was committed while the file was taken away.
                file.is_in_place()
            }
            Self::Postgres(transaction) => transaction.commit(changes.iter().map(|change| change.to_message(origin))).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_migrations() {
        let names =
            |migrator: &Migrator| -> Vec<_> { migrator.iter().map(|one| (one.version, one.description.clone())).collect() };
        assert_eq!(names(&SQLITE_MIGRATIONS), names(&POSTGRES_MIGRATIONS));
    }

    #[test]
    fn a_database_is_a_url_or_a_path() {
        assert!(matches!("sqlite:/srv/a.db".parse(), Ok(Place::Sqlite(path)) if path == Path::new("/srv/a.db")));
        assert!(matches!("data/a.db".parse(), Ok(Place::Sqlite(path)) if path == Path::new("data/a.db")));
        let place: Place = "postgres://recount:secret@db.example.org/office".parse().expect("a database");
        assert_eq!(format!("{place} {place:?}"), "office on db.example.org:5432 office on db.example.org:5432");
        for text in ["", "mysql://localhost/office", "postgres://localhost:port"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
