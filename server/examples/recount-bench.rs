//! Recount as a peer of the bench: answers the lines that `bench/README.md` describes.
//!
//! Its jobs are real ones: a report about one small document, with the built-in summarizer and one recipient, and with everything
//! written that Recount always writes. Only the mail server is made up: it accepts at once, except for the recipients that
//! stand for jobs that wait.

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use documents::mcp::Servers;
use domain::{
    clock::SystemClock,
    hold::Hold,
    id::{JobId, RequestKey, UserId},
    people::{EmailAddress, Role, password::PasswordHash},
    place::{Folder, Place},
    spec::{SourceSpec, Spec, Task},
};
use mail::channel::{Channel, Delivery, DeliveryPhase, Journal, Outgoing, Stop};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use server::{
    settings::Settings,
    worker::{Dependencies, FILE_PAUSES, MAIL_PAUSES, Worker, WorkerOptions},
};
use std::{io, path::Path, sync::Arc, time::Duration};
use store::{NewUser, Store, notifications::News};
use summarize::SummarizerChoice;
use tokio::{
    sync::broadcast::error::RecvError,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How many jobs are put into the queue side by side.
const WRITERS: usize = 8;
/// The recipient of jobs without a key.
const NOBODY: &str = "nobody";
/// The claim of a job is the second change of its record; the first made it.
const CLAIMED: i64 = 2;
/// How long a job waits to be cancelled.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the mail server of a stubborn job takes for its answer.
const DEAF: Duration = Duration::from_secs(3);

/// What is asked of a peer. Persons and limits are only asked of this one; the key of a job begins with its kind.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Command {
    Setup,
    Work { slots: usize, per_person: Option<u32> },
    Fill { n: usize, person: Option<String> },
    Enqueue { key: String, person: Option<String> },
    Cancel { job: JobId },
}

fn main() -> Result<()> {
    let place = std::env::args().nth(1).context("the first argument is the address of the database")?.parse()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let store = runtime.block_on(Store::open(&place, Arc::new(SystemClock), "bench.test"))?;
    let (peer, relaying) = (Peer { store: store.clone() }, store);
    runtime.spawn(async move { relaying.relay_foreign_changes(CancellationToken::new()).await });
    for line in io::stdin().lines() {
        match runtime.block_on(peer.obey(serde_json::from_str(&line?)?)) {
            Ok(answer) => println!("{}", json!({ "answer": answer })),
            Err(error) => println!("{}", json!({ "error": format!("{error:#}") })),
        }
    }
    Ok(())
}

struct Peer {
    store: Store,
}

impl Peer {
    async fn obey(&self, command: Command) -> Result<Value> {
        match command {
            // Opening the database has made its tables.
            Command::Setup => Ok(Value::Null),
            Command::Work { slots, per_person } => {
                self.work(WorkerOptions { concurrency: slots, per_person, ..WorkerOptions::default() })?;
                Ok(Value::Null)
            }
            Command::Fill { n, person } => {
                self.fill(n, self.owner(person).await?).await?;
                Ok(Value::Null)
            }
            Command::Enqueue { key, person } => {
                let owner = self.owner(person).await?;
                let at = now();
                let job = order(&self.store, owner, &key).await?;
                Ok(json!({ "at": at, "job": job }))
            }
            Command::Cancel { job } => {
                let at = now();
                let Some((answer, _)) = self.store.cancel_job(job, "bench@example.org").await? else { bail!("no such job") };
                Ok(json!({ "at": at, "said": format!("{answer:?}") }))
            }
        }
    }

    /// The person whose jobs these are.
    async fn owner(&self, person: Option<String>) -> Result<UserId> {
        let email = EmailAddress::parse(person.as_deref().unwrap_or("bench@example.org"))?;
        if let Some(user) = self.store.user_by_email(&email).await? {
            return Ok(user.id);
        }
        let made = self.store.create_user(&email, Role::User, &PasswordHash::unusable(), chrono_tz::UTC).await?;
        let NewUser::Created(id) = made else { bail!("{email} was made twice") };
        Ok(id)
    }

    async fn fill(&self, n: usize, owner: UserId) -> Result<()> {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let store = self.store.clone();
            writers.spawn(async move {
                for _ in (writer..n).step_by(WRITERS) {
                    order(&store, owner, NOBODY).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        Ok(())
    }

    fn work(&self, options: WorkerOptions) -> Result<()> {
        tokio::spawn(tell_of_claims(self.store.clone()));
        let dependencies = Dependencies {
            store: self.store.clone(),
            summarizer: SummarizerChoice::BuiltIn,
            channel: Arc::new(MailServer),
            sender: "Recount <recount@bench.test>".parse()?,
            public_url: "http://127.0.0.1".into(),
            limits: Settings::default().limits(),
            probes: Arc::default(),
            mail_pauses: MAIL_PAUSES,
            file_pauses: FILE_PAUSES,
            servers: Servers::default(),
        };
        tokio::spawn(Worker::new(Arc::new(dependencies), options).run(CancellationToken::new()));
        Ok(())
    }
}

async fn order(store: &Store, owner: UserId, key: &str) -> Result<JobId> {
    let folder = Folder { name: "Docs".into(), root: Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/documents") };
    let spec = Spec {
        title: "Bench".into(),
        month: "2026-06".parse()?,
        start: "2026-06-01T00:00:00Z".parse()?,
        end: "2026-07-01T00:00:00Z".parse()?,
        zone: "UTC".into(),
        sources: vec![SourceSpec { id: "docs".into(), name: "Docs".into(), place: Place::whole(folder).into() }],
        recipients: vec![format!("{key}@bench.test")],
        instructions: None,
        hold: Hold::None,
        task: Task::Report,
    };
    Ok(store.create_job(owner, RequestKey::new(), &spec).await?.0)
}

/// Reports the beginning of jobs that do nothing: the worker's process announces each claim when it is committed, and then its
/// first step runs.
async fn tell_of_claims(store: Store) {
    let mut notifications = store.notifications().subscribe();
    loop {
        let news = notifications.recv().await;
        let at = now();
        let id = match news {
            Ok(News::Job(change)) if change.version == CLAIMED => change.id,
            Ok(_) | Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        let Ok(Some(record)) = store.job(id).await else { continue };
        let recipient = record.row.spec.recipients.first().map(String::as_str).unwrap_or_default();
        match recipient.split_once('@') {
            // Jobs with a key and jobs without are never in the same database: what they are need not be asked again.
            Some((NOBODY, _)) => return say("first", "", at),
            Some((key, _)) if key.starts_with("nothing") => say("began", key, at),
            _ => {}
        }
    }
}

/// A mail server that accepts at once, or does what the recipient's name asks for.
struct MailServer;

#[async_trait]
impl Channel for MailServer {
    fn name(&self) -> &'static str {
        "the bench's mail server"
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        let key = message.to.user();
        if key.starts_with("patient") {
            say("began", key, now());
            if let Ok(cause) = timeout(PATIENCE, stop.requested()).await {
                say("told", key, now());
                return Delivery::BrokenOff { phase: DeliveryPhase::Connect, cause };
            }
        }
        if let Err(refused) = journal.in_doubt().await {
            return Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause: refused.into() };
        }
        if key.starts_with("stubborn") {
            say("began", key, now());
            // The message is handed over: only the answer decides, and nothing can hurry it.
            sleep(DEAF).await;
            say("ended", key, now());
        }
        Delivery::Accepted { evidence: "250 2.0.0 Ok".into(), peer: "bench.test".into() }
    }
}

fn say(event: &str, key: &str, at: i64) {
    println!("{}", json!({ "event": event, "key": key, "at": at }));
}

/// The machine's monotonic clock in nanoseconds: the one clock that all programs of the bench share.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
