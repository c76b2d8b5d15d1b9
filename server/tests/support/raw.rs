//! A connection of its own to a test's database, for looking at and tampering with rows.

use domain::id::JobId;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, SqliteConnection, query, query_scalar, raw_sql, sqlite::SqliteConnectOptions,
};
use store::Place;

use super::instance::PATIENCE;

/// Such a connection.
pub enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Runs one body on either: `on!(raw, connection => query(text).bind(value).execute(connection).await.map(drop))`.
macro_rules! on {
    ($raw:expr, $connection:ident => $body:expr) => {
        match &mut $raw {
            $crate::support::raw::Raw::Sqlite($connection) => $body,
            $crate::support::raw::Raw::Postgres($connection) => $body,
        }
    };
}
pub(crate) use on;

impl Raw {
    pub async fn open(place: &Place) -> Self {
        match place {
            Place::Sqlite(path) => {
                let options = SqliteConnectOptions::new().filename(path).foreign_keys(true).busy_timeout(PATIENCE);
                Self::Sqlite(SqliteConnection::connect_with(&options).await.expect("the database can be opened again"))
            }
            Place::Postgres(options) => {
                Self::Postgres(PgConnection::connect_with(options).await.expect("the database can be opened again"))
            }
        }
    }

    /// The text for the database that there is.
    pub fn either<'a>(&self, sqlite: &'a str, postgres: &'a str) -> &'a str {
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }

    /// Runs statements without values.
    pub async fn run(&mut self, statements: &str) {
        let statements = AssertSqlSafe(statements);
        on!(*self, connection => raw_sql(statements).execute(connection).await.map(drop)).expect("the database works");
    }

    /// Runs a statement in which `$1` is a job.
    pub async fn tamper(&mut self, statement: &str, job: JobId) -> Result<(), sqlx::Error> {
        let statement = AssertSqlSafe(statement);
        on!(*self, connection => query(statement).bind(job).execute(connection).await.map(drop))
    }

    /// Why the database refuses a statement in which `$1` is a job.
    pub async fn refusal(&mut self, statement: &str, job: JobId) -> String {
        match self.tamper(statement, job).await {
            Err(sqlx::Error::Database(error)) => error.message().to_owned(),
            other => panic!("\"{statement}\" should have been refused, but: {other:?}"),
        }
    }

    /// The number that a query gives in which `$1` is a job.
    pub async fn number_of(&mut self, text: &str, job: JobId) -> i64 {
        let text = AssertSqlSafe(text);
        on!(*self, connection => query_scalar(text).bind(job).fetch_one(connection).await).expect("a number")
    }

    /// The number that a query gives.
    pub async fn number(&mut self, text: &str) -> i64 {
        let text = AssertSqlSafe(text);
        on!(*self, connection => query_scalar(text).fetch_one(connection).await).expect("a number")
    }
}
