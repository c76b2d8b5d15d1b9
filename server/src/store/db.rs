//! The database. Every query is written once, as text that both SQLite and PostgreSQL understand; the macros `read!` and
//! `within!` compile its body once for each driver. SQLite is the only driver so far: a second one is a variant here and an
//! arm in the macros.

use super::StoreError;
use sqlx::{
    Sqlite, SqlitePool, Transaction,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::{path::Path, time::Duration};

/// The open database.
#[derive(Debug, Clone)]
pub enum Db {
    /// One file. SQLite has one writer at a time, so there is one connection for writing, and waiting for it happens in the
    /// pool instead of in busy retries.
    Sqlite { reader: SqlitePool, writer: SqlitePool },
}

/// An open transaction.
#[derive(Debug)]
pub enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
}

/// Runs a query outside a transaction: `read!(db, conn => query.fetch_all(conn).await)`.
macro_rules! read {
    ($db:expr, $conn:ident => $body:expr) => {
        match &$db {
            $crate::store::db::Db::Sqlite { reader: $conn, .. } => $body,
        }
    };
}

/// Runs a query inside a transaction: `within!(tx, conn => query.execute(conn).await)`.
macro_rules! within {
    ($tx:expr, $conn:ident => $body:expr) => {
        match &mut $tx {
            $crate::store::db::Tx::Sqlite(transaction) => {
                let $conn = &mut **transaction;
                $body
            }
        }
    };
}

pub(super) use {read, within};

impl Db {
    /// Opens (and makes, and migrates) the SQLite file at `path`.
    ///
    /// `synchronous = full`: an accepted cancel and an e-mail in doubt must survive a power cut, and this writes little.
    pub async fn open_sqlite(path: &Path) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10))
            .foreign_keys(true);
        let writer = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        sqlx::migrate!("../migrations/sqlite").run(&writer).await?;
        let reader = SqlitePoolOptions::new().max_connections(8).connect_with(options.read_only(true)).await?;
        Ok(Self::Sqlite { reader, writer })
    }

    /// Begins a write transaction; SQLite takes its write lock at once, so nothing that is read inside can be stale.
    pub async fn begin(&self) -> Result<Tx, sqlx::Error> {
        match self {
            Self::Sqlite { writer, .. } => Ok(Tx::Sqlite(writer.begin_with("begin immediate").await?)),
        }
    }

    /// Begins a transaction for reading: all that is read inside belongs to one moment.
    pub async fn snapshot(&self) -> Result<Tx, sqlx::Error> {
        match self {
            Self::Sqlite { reader, .. } => Ok(Tx::Sqlite(reader.begin().await?)),
        }
    }

    /// A number that differs from the last one where another connection (of any process) has committed.
    pub async fn data_version(&self, watcher: &mut Watcher) -> Result<i64, sqlx::Error> {
        match watcher {
            Watcher::Sqlite(connection) => sqlx::query_scalar("pragma data_version").fetch_one(&mut **connection).await,
        }
    }

    /// A connection that is kept for [`Db::data_version`]: SQLite counts per connection.
    pub async fn watcher(&self) -> Result<Watcher, sqlx::Error> {
        match self {
            Self::Sqlite { reader, .. } => Ok(Watcher::Sqlite(reader.acquire().await?)),
        }
    }

    /// Closes every connection; open transactions end first.
    pub async fn close(&self) {
        match self {
            Self::Sqlite { reader, writer } => {
                reader.close().await;
                writer.close().await;
            }
        }
    }
}

/// See [`Db::watcher`].
#[derive(Debug)]
pub enum Watcher {
    Sqlite(sqlx::pool::PoolConnection<Sqlite>),
}

impl Tx {
    /// Commits.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(transaction) => transaction.commit().await,
        }
    }
}
