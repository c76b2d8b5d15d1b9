//! A database for one test: a file, or one of its own on the PostgreSQL server that `RECOUNT_TEST_POSTGRES` names, which
//! `server/tests/with-postgres.sh` starts. The same tests run on both.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    thread,
};

use crate::{Place, Store};
use domain::clock::ManualClock;
use sqlx::{AssertSqlSafe, Connection, PgConnection, postgres::PgConnectOptions, query, query_scalar, raw_sql};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};
use uuid::Uuid;

/// A migrated database that those of the tests are copied from.
const TEMPLATE: &str = "recount_template";
/// The lock under which one of several test programs makes the template.
const MAKING: i64 = 4711;

/// A database that is deleted when the test ends.
pub struct Database {
    pub place: Place,
    /// The server and the database's name there.
    pub server: Option<(PgConnectOptions, String)>,
}

impl Database {
    /// A new one with all tables; a file is in this folder.
    pub fn new(folder: &Path) -> Self {
        static TEMPLATE_MADE: OnceLock<()> = OnceLock::new();
        let Some(server) = server() else {
            return Self::file(folder);
        };
        TEMPLATE_MADE.get_or_init(|| blocking(|| make_template(server.clone())));
        Self::copied(server, TEMPLATE)
    }

    /// A file in this folder, wherever other tests have theirs.
    pub fn file(folder: &Path) -> Self {
        Self { place: Place::Sqlite(folder.join("recount.sqlite3")), server: None }
    }

    /// A copy of the database `original` of this server.
    pub fn copied(server: PgConnectOptions, original: &str) -> Self {
        let name = format!("t_{}", Uuid::now_v7().simple());
        blocking(|| run(server.clone(), format!("create database {name} template {original}")));
        let place = Place::Postgres(Box::new(server.clone().database(&name)));
        Self { place, server: Some((server, name)) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some((server, name)) = self.server.take() {
            blocking(|| run(server, format!("drop database {name} with (force)")));
        }
    }
}

/// The server that tests are to use.
fn server() -> Option<PgConnectOptions> {
    let url = std::env::var("RECOUNT_TEST_POSTGRES").ok()?;
    Some(url.parse().expect("RECOUNT_TEST_POSTGRES is a URL"))
}

async fn make_template(server: PgConnectOptions) {
    let mut connection = PgConnection::connect_with(&server).await.expect("PostgreSQL runs");
    query("select pg_advisory_lock($1)").bind(MAKING).execute(&mut connection).await.expect("a lock");
    let known = query_scalar("select exists (select 1 from pg_database where datname = $1)").bind(TEMPLATE);
    let known: bool = known.fetch_one(&mut connection).await.expect("an answer");
    if !known {
        run(server.clone(), format!("create database {TEMPLATE}")).await;
        let place = Place::Postgres(Box::new(server.database(TEMPLATE)));
        let clock = Arc::new(ManualClock::new(chrono::DateTime::UNIX_EPOCH));
        Store::open(&place, clock, "recount.test").await.expect("a new database").close().await;
    }
    connection.close().await.expect("nothing is open");
}

async fn run(server: PgConnectOptions, statement: String) {
    let mut connection = PgConnection::connect_with(&server).await.expect("PostgreSQL runs");
    raw_sql(AssertSqlSafe(statement.as_str())).execute(&mut connection).await.expect(&statement);
}

/// Runs this to its end on a thread of its own: a test's runtime may be the one that is ending, or there may be none. The other
/// tasks of a test go on meanwhile.
fn blocking<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send) {
    let on_a_thread = || {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                runtime.block_on(work());
            });
            thread.join().expect("the database does what it is told");
        });
    };
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(on_a_thread),
        _ => on_a_thread(),
    }
}
