//! What can go wrong in the store. "Not found" is never an error: it is `None`.

use super::Unavailable;
use crate::files::FilesError;
use contract::Refusal;
use std::path::PathBuf;

/// A failed call of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The contract says no; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database could not be asked, or said no.
    #[error("database: {0}")]
    Driver(#[from] sqlx::Error),
    /// What is in the database's place is none that can be opened.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// An uploaded file is out of reach, missing or damaged.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The migrations could not be applied.
    #[error("migration: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A newer version has made migrations that this one must know to work with the database.
    #[error(
        "A newer version of Recount has changed this database so that this one cannot work with it any more. Start the newer version. \
         (The database needs migration {needed}; this version knows those up to {known}.)"
    )]
    TooOld { needed: i64, known: i64 },
    /// A row holds what the program never writes.
    #[error("inconsistent data in {table}.{column}, row {row}")]
    Inconsistent { table: &'static str, column: &'static str, row: String },
    /// A guarded write changed another number of rows than it must.
    #[error("{what}: expected one row, changed {rows}")]
    Affected { what: &'static str, rows: u64 },
    /// A value could not be turned into JSON or back.
    #[error("json: {0}")]
    Json(#[from] serde_json::Error),
}

/// Why what is in the place of an SQLite file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A file without content; only a file that is missing is made.
    #[error(
        "the file is empty, so what was in it is lost. Put the right file in its place. If there never was anything in it, delete it"
    )]
    Empty,
    #[error("the file is no database, or one that is damaged. Put the right file in its place; it has been left as it is")]
    NoDatabase,
    #[error("the file is a database of something else. Choose another place; it has been left as it is")]
    Foreign,
    #[error("the data folder {} is read-only. Recount has to write to it and to the database in it", .0.display())]
    ReadOnly(PathBuf),
    #[error("database: {0}")]
    Driver(sqlx::Error),
}

impl From<sqlx::Error> for PlaceError {
    fn from(error: sqlx::Error) -> Self {
        match Unavailable::of(&error) {
            Some(Unavailable::Damaged) => Self::NoDatabase,
            _ => Self::Driver(error),
        }
    }
}

impl StoreError {
    /// Whether the database has refused a row because there is one like it.
    pub(super) fn is_taken(&self) -> bool {
        let Self::Driver(error) = self else { return false };
        error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }
}

/// Fails unless exactly one row was changed: a lost race is an error, never silence.
pub(super) fn one_row(what: &'static str, rows: u64) -> Result<(), StoreError> {
    if rows == 1 { Ok(()) } else { Err(StoreError::Affected { what, rows }) }
}
