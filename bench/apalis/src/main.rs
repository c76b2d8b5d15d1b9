//! apalis-postgres as a peer of the bench: answers the lines that `bench/README.md` describes.
//!
//! Jobs are woken by the storage's LISTEN/NOTIFY with its poll as safety net. apalis has no call by which another process cancels a job
//! (a task's context can only be cancelled inside the worker that runs it), so `cancel` says that there is none.

use std::{sync::Once, time::Duration};

use anyhow::{Context, Result, anyhow};
use apalis::layers::WorkerBuilderExt;
use apalis::prelude::{BackendExt, BoxDynError, TaskBuilder, TaskId, TaskSink, WorkerBuilder, WorkerContext};
use apalis_postgres::{Config, PgPool, PostgresStorage};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use tokio::io::{AsyncBufReadExt, BufReader};
use ulid::Ulid;

const QUEUE: &str = "bench";

/// Jobs without a key are only counted; the first of them says that the work has begun.
static COUNTING: Once = Once::new();

/// What a job is asked to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Nothing,
    Patient,
    Stubborn,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    kind: Kind,
    key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Command {
    Setup,
    Work { slots: usize },
    Fill { n: usize },
    Enqueue { kind: Kind, key: String },
    Cancel {},
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).context("the first argument is the address of the database")?;
    let pool = PgPoolOptions::new().max_connections(32).connect(&url).await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match obey(&pool, serde_json::from_str(&line)?).await {
            Ok(answer) => println!("{}", json!({ "answer": answer })),
            Err(error) => println!("{}", json!({ "error": format!("{error:#}") })),
        }
    }
    Ok(())
}

async fn obey(pool: &PgPool, command: Command) -> Result<Value> {
    match command {
        Command::Setup => PostgresStorage::setup(pool).await?,
        Command::Work { slots } => work(pool, slots),
        Command::Fill { n } => push(pool, (0..n).map(|_| (Ulid::generate(), Job { kind: Kind::Nothing, key: None }))).await?,
        Command::Enqueue { kind, key } => {
            let id = Ulid::generate();
            let at = now();
            push(pool, [(id, Job { kind, key: Some(key) })].into_iter()).await?;
            return Ok(json!({ "at": at, "job": id.to_string() }));
        }
        Command::Cancel {} => return Ok(json!({ "at": now(), "said": null })),
    }
    Ok(Value::Null)
}

fn storage(pool: &PgPool) -> PostgresStorage<Job> {
    let config = Config::default().queue(QUEUE).batch_size(100).heartbeat_interval(Duration::from_secs(5)).missed_heartbeats(2);
    PostgresStorage::new(pool).with_config(config)
}

async fn push(pool: &PgPool, jobs: impl Iterator<Item = (Ulid, Job)>) -> Result<()> {
    let tasks: Vec<_> = jobs.map(|(id, job)| TaskBuilder::new(job).task_id(TaskId::from_ulid(id)).build()).collect();
    storage(pool).push_all(&mut futures::stream::iter(tasks)).await.map_err(|error| anyhow!("{error:?}"))
}

fn work(pool: &PgPool, slots: usize) {
    let backend = storage(pool).with_pubsub().poll_with_interval(Duration::from_millis(500));
    let worker = WorkerBuilder::new(format!("worker-{}", std::process::id())).backend(backend).concurrency(slots).build(handle);
    tokio::spawn(async move {
        if let Err(error) = worker.run().await {
            eprintln!("the worker ended: {error}");
        }
    });
}

async fn handle(job: Job, _worker: WorkerContext) -> Result<(), BoxDynError> {
    let Some(key) = job.key else {
        COUNTING.call_once(|| say("first", ""));
        return Ok(());
    };
    say("began", &key);
    match job.kind {
        Kind::Nothing => {}
        // Nothing can tell it; it waits as long as the peers wait that can be told.
        Kind::Patient => tokio::time::sleep(Duration::from_secs(10)).await,
        Kind::Stubborn => {
            tokio::time::sleep(Duration::from_secs(3)).await;
            say("ended", &key);
        }
    }
    Ok(())
}

fn say(event: &str, key: &str) {
    println!("{}", json!({ "event": event, "key": key, "at": now() }));
}

/// The machine's monotonic clock in nanoseconds: the one clock that all programs of the bench share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
