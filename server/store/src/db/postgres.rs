//! What PostgreSQL needs besides SQL. A server can vanish without a word (a cable, a failover), so every exchange has an end,
//! and a connection that has missed it is thrown away: nobody knows what it is in the middle of. The server in turn does not
//! let a client that has vanished keep its locks.

use super::{POSTGRES_MIGRATIONS, migrator};
use crate::StoreError;
use sqlx::{
    AssertSqlSafe, Connection, PgConnection, Postgres, SqlSafeStr,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions},
    raw_sql,
};
use std::{
    io,
    ops::{Deref, DerefMut},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    time::{error::Elapsed, timeout},
};

/// How long one statement may take, with its way there and back. Longer than the server's own limits, which say what is wrong.
const STATEMENT: Duration = Duration::from_secs(10);
/// How long a free connection is waited for.
const ACQUIRE: Duration = Duration::from_secs(5);
/// A connection that was idle for this long is tried out before it is used.
const TRY_AFTER: Duration = Duration::from_secs(1);
/// How long it may take to answer then; what is left of [`ACQUIRE`] is for making another one.
const TRY: Duration = Duration::from_secs(2);
const CONNECTIONS: u32 = 10;

/// The channel on which processes tell each other of changes.
pub const CHANNEL: &str = "recount_jobs";

/// The session's settings: nobody waits long for a lock, and whoever vanishes in the middle of a transaction loses it soon. All
/// queries want few rows in the order of an index; a bitmap scan would read all that there are and sort them, and PostgreSQL
/// prefers it while it does not know yet that the queue has grown.
const SESSION: [(&str, &str); 5] = [
    ("enable_bitmapscan", "off"),
    ("statement_timeout", "8s"),
    ("lock_timeout", "6s"),
    ("idle_in_transaction_session_timeout", "5s"),
    ("tcp_user_timeout", "15s"),
];

/// Connects, and migrates the database as needed; PostgreSQL lets one process at a time do that.
pub async fn open(options: &PgConnectOptions) -> Result<PgPool, StoreError> {
    let named = options.clone().application_name("recount");
    let mut connection = bounded(PgConnection::connect_with(&named)).await.flatten()?;
    migrator(POSTGRES_MIGRATIONS).run_direct(None, &mut connection, false).await?;
    connection.close().await?;
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRY_AFTER {
                    timeout(TRY, connection.ping()).await.map_err(late).flatten()?;
                }
                Ok(true)
            })
        })
        .connect_with(named.options(SESSION))
        .await?;
    Ok(pool)
}

/// The exchange's result, or an error when it does not come in time.
pub async fn bounded<T>(exchange: impl Future<Output = T>) -> Result<T, sqlx::Error> {
    // On the heap: it would be part of every future that asks the database for something.
    timeout(STATEMENT, Box::pin(exchange)).await.map_err(late)
}

fn late(_: Elapsed) -> sqlx::Error {
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the database does not answer"))
}

/// A connection for listening, and nothing else. It is not one of the pool's: a listener that is dropped gives its connection
/// back only after an answer, for which it waits without an end, and the pool would be one connection short for as long.
pub async fn listen(pool: &PgPool, channel: &str) -> Result<PgListener, sqlx::Error> {
    let own = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE).idle_timeout(None).max_lifetime(None);
    let mut listener = PgListener::connect_with(&own.connect_lazy_with((*pool.connect_options()).clone())).await?;
    bounded(listener.listen(channel)).await.flatten()?;
    Ok(listener)
}

/// Closes a pool. What does not come back in time is dropped.
pub async fn close(pool: &PgPool) {
    if timeout(STATEMENT, pool.close()).await.is_err() {
        tracing::warn!("the database does not answer; its connections are dropped");
    }
}

/// A connection of the pool.
#[derive(Debug)]
pub struct Borrowed {
    connection: PoolConnection<Postgres>,
    is_spoiled: bool,
}

impl Borrowed {
    /// Waits for a free one.
    pub async fn of(pool: &PgPool) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: pool.acquire().await?, is_spoiled: false })
    }

    /// Nobody knows what it is in the middle of: it ends, and does not go back.
    pub fn give_up(mut self) {
        self.is_spoiled = true;
        self.connection.close_on_drop();
    }
}

impl Deref for Borrowed {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Gives it back. The pool tries out what comes back and would wait for the answer for ever, with the connection's place taken;
/// a server that vanishes just then would cost one place after the other.
impl Drop for Borrowed {
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.is_spoiled, Handle::try_current()) {
            runtime.spawn(timeout(STATEMENT, self.connection.return_to_pool()));
        }
    }
}

/// An open transaction. Dropping it takes it back, in the background.
#[derive(Debug)]
pub struct PgTx {
    /// `None` once it is over.
    connection: Option<Borrowed>,
}

impl PgTx {
    /// Begins a transaction with these statements, in one exchange. Returns how many rows they gave as well.
    pub async fn begin(pool: &PgPool, statements: impl SqlSafeStr) -> Result<(Self, u64), sqlx::Error> {
        let mut transaction = Self { connection: Some(Borrowed::of(pool).await?) };
        let rows = transaction.say(statements).await?;
        Ok((transaction, rows))
    }

    /// Fails once the transaction is over.
    pub fn connection(&mut self) -> Result<&mut PgConnection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::WorkerCrashed)
    }

    /// Ends the transaction with its connection.
    pub fn give_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.give_up();
        }
    }

    /// Commits, and sends these messages with it, of letters, digits, hyphens and spaces only. After an error nobody knows
    /// whether it was committed.
    pub async fn commit(mut self, messages: impl Iterator<Item = String>) -> Result<(), sqlx::Error> {
        // In one exchange: every commit of a job has a message.
        let told: Vec<String> = messages.map(|message| format!("select pg_notify('{CHANNEL}', '{message}'); ")).collect();
        self.say(AssertSqlSafe(told.concat() + "commit")).await?;
        self.connection = None;
        Ok(())
    }

    /// Returns how many rows the statements gave.
    async fn say(&mut self, statements: impl SqlSafeStr) -> Result<u64, sqlx::Error> {
        let said = bounded(raw_sql(statements).execute(self.connection()?)).await.flatten();
        if said.is_err() {
            self.give_up();
        }
        said.map(|done| done.rows_affected())
    }
}

impl Drop for PgTx {
    fn drop(&mut self) {
        let (Some(mut connection), Ok(runtime)) = (self.connection.take(), Handle::try_current()) else { return };
        runtime.spawn(async move {
            if bounded(raw_sql("rollback").execute(&mut *connection)).await.flatten().is_err() {
                connection.give_up();
            }
        });
    }
}
