//! Copies of the SQLite file: one that is made while the server runs, and the look at one that comes back.
//!
//! Neither migrates anything. PostgreSQL has programs of its own for this.

use super::{StoreError, db::existing, set_aside::IS_MARKED};
use chrono::{DateTime, Utc};
use sqlx::{
    Connection, FromRow, SqliteConnection,
    sqlite::{SqliteJournalMode, SqliteSynchronous},
};
use std::path::Path;

/// What a backup holds, and what it only names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct BackupContents {
    pub jobs: i64,
    /// Those of them that have not ended.
    pub open_jobs: i64,
    pub reports: i64,
    pub people: i64,
    /// Uploaded files whose bytes are outside the database.
    pub files_elsewhere: i64,
}

/// Why a database cannot be backed up, or a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It is no database of SQLite, or not one that Recount made.
    #[error("it is no database of Recount")]
    NotRecount,
    /// SQLite's own check has found this.
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for BackupError {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() {
            // SQLITE_NOTADB and SQLITE_CORRUPT.
            Some("26") => Self::NotRecount,
            Some("11") => Self::Damaged(error.to_string()),
            _ => Self::Store(error.into()),
        }
    }
}

/// Copies the database into an empty file, as it is at one moment; a server may be at work on it meanwhile.
///
/// The copy carries the mark that makes its first opening set aside what is open in it ([`super::Store::open`]).
pub async fn back_up(database: &Path, into: &str, now: DateTime<Utc>) -> Result<BackupContents, BackupError> {
    let mut source = SqliteConnection::connect_with(&existing(database)).await?;
    if !is_ours(&mut source).await? {
        return Err(BackupError::NotRecount);
    }
    sqlx::query("vacuum into $1").bind(into).execute(&mut source).await?;
    source.close().await?;
    // One file without companions, whose last change is on the disk when this returns.
    let options = existing(Path::new(into)).journal_mode(SqliteJournalMode::Delete).synchronous(SqliteSynchronous::Full);
    let mut copy = SqliteConnection::connect_with(&options).await?;
    sqlx::query("insert into restores (copied_at) values ($1)").bind(now).execute(&mut copy).await?;
    let contents = sqlx::query_as(
        "select (select count(*) from jobs) as jobs,
                (select count(*) from jobs where finished_at is null) as open_jobs,
                (select count(*) from reports) as reports,
                (select count(*) from users) as people,
                (select count(*) from uploads where stored_as is not null) as files_elsewhere",
    )
    .fetch_one(&mut copy)
    .await?;
    copy.close().await?;
    Ok(contents)
}

/// Checks that a file is a whole database that Recount has made. Returns whether it carries the mark of a backup.
pub async fn check_backup(file: &Path) -> Result<bool, BackupError> {
    let mut file = SqliteConnection::connect_with(&existing(file)).await?;
    let found: Vec<String> = sqlx::query_scalar("pragma integrity_check(1)").fetch_all(&mut file).await?;
    if found != ["ok"] {
        return Err(BackupError::Damaged(found.join("; ")));
    }
    if !is_ours(&mut file).await? {
        return Err(BackupError::NotRecount);
    }
    let marked = sqlx::query_scalar(IS_MARKED).fetch_one(&mut file).await?;
    file.close().await?;
    Ok(marked)
}

async fn is_ours(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*) = 3 from sqlite_schema where type = 'table' and name in ('_sqlx_migrations', 'jobs', 'restores')",
    )
    .fetch_one(connection)
    .await
}
