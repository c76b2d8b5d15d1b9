//! An instance with a database, people, a folder of documents, and a clock that the test moves.

use std::{fs, path::Path, process::Command, sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use contract::{EffectKind, Job, Refusal, StepKind};
use domain::{
    clock::ManualClock,
    hold::Hold,
    id::{JobId, ReportId, RequestKey, UserId},
    people::{EmailAddress, Role, password::PasswordHash},
    spec::{SourceSpec, Spec, Task},
};
use sqlx::postgres::PgConnectOptions;
use store::{Claim, ClaimTerms, NewUser, Place, Record, Store, StoreError, back_up, notifications::changed};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use super::{proxy::Proxy, raw::Raw};
use store::testing::Database;

/// How long a test waits for something that must come, before it fails. Generous, for machines under load; shorter than what the
/// program itself would wait for a server that is silent, so that waiting in vain shows.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// How often a record is looked at when nobody has announced a change.
const LOOK: Duration = Duration::from_millis(500);

/// How long a claim holds without a sign of life, in time of the instance's clock.
pub const LEASE: TimeDelta = TimeDelta::seconds(15);

/// A database of its own with one person.
pub struct Instance {
    pub store: Store,
    pub clock: Arc<ManualClock>,
    /// ada@example.org
    pub owner: UserId,
    database: Database,
    // Deletes everything when the test ends.
    folder: TempDir,
}

impl Instance {
    /// Accounts for every job whose lease has expired.
    pub async fn recover(&self) -> Vec<(JobId, contract::Recovery)> {
        let mut recovered = Vec::new();
        for id in self.store.expired_leases().await.expect("the database works") {
            let recovery = self.store.recover_job(id).await.expect("the database works");
            recovered.extend(recovery.map(|recovery| (id, recovery)));
        }
        recovered
    }

    pub async fn new() -> Self {
        Self::inside(TempDir::new().expect("a folder for the test")).await
    }

    /// Where the machine has memory that looks like a disk, in that: each commit of a job waits for the disk, and a test
    /// with thousands of jobs would mostly measure that.
    pub async fn without_disk() -> Self {
        Self::inside(TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder for the test")).await
    }

    async fn inside(folder: TempDir) -> Self {
        let start: DateTime<Utc> = "2026-07-01T08:00:00Z".parse().expect("an instant");
        let clock = Arc::new(ManualClock::new(start));
        let database = Database::new(folder.path());
        let store = Store::open(&database.place, clock.clone(), "recount.test").await.expect("a new database");
        let owner = add_person(&store, "ada@example.org", Role::User).await;
        fs::create_dir(folder.path().join("minutes")).expect("a folder for documents");
        Self { store, clock, owner, database, folder }
    }

    /// A restored copy of it, as a backup of this moment makes one. What it makes later is its own.
    pub async fn restored(&self) -> Self {
        self.restored_after(TimeDelta::zero()).await
    }

    /// Like [`Instance::restored`], on a machine whose clock shows this much more.
    pub async fn restored_after(&self, passed: TimeDelta) -> Self {
        let folder = TempDir::new().expect("a folder for the test");
        let now = self.store.clock().now();
        let database = match &self.database.place {
            Place::Sqlite(file) => {
                let database = Database::file(folder.path());
                let copy = folder.path().join("recount.sqlite3");
                back_up(file, copy.to_str().expect("UTF-8"), now).await.expect("a backup");
                database
            }
            Place::Postgres(from) => {
                let database = dumped(from);
                let mut raw = Raw::open(&database.place).await;
                raw.run(&format!("insert into restores (copied_at) values ('{}')", now.to_rfc3339())).await;
                database
            }
        };
        fs::create_dir(folder.path().join("minutes")).expect("a folder for documents");
        let clock = Arc::new(ManualClock::new(now + passed));
        let store = Store::open(&database.place, clock.clone(), "recount.test").await.expect("a whole copy");
        Self { store, clock, owner: self.owner, database, folder }
    }

    /// The same database, opened again as after a restart.
    pub async fn reopened(self) -> Self {
        self.store.close().await;
        Self { store: self.another_store().await, ..self }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn place(&self) -> &Place {
        &self.database.place
    }

    pub async fn person(&self, email: &str, role: Role) -> UserId {
        add_person(&self.store, email, role).await
    }

    /// Puts a document into the folder that jobs read.
    pub fn document(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.folder().join("minutes").join(name), content).expect("a document");
    }

    /// An order for June 2026 from the folder of documents.
    pub fn spec(&self, recipients: &[&str]) -> Spec {
        Spec {
            title: "Minutes".into(),
            month: "2026-06".parse().expect("a month"),
            start: "2026-05-31T22:00:00Z".parse().expect("an instant"),
            end: "2026-06-30T22:00:00Z".parse().expect("an instant"),
            zone: "Europe/Berlin".into(),
            sources: vec![SourceSpec {
                id: "minutes".into(),
                name: "Minutes".into(),
                place: domain::place::Place::whole(domain::place::Folder {
                    name: "Minutes".into(),
                    root: self.folder().join("minutes"),
                })
                .into(),
            }],
            recipients: recipients.iter().map(|&address| address.to_owned()).collect(),
            instructions: None,
            hold: Hold::None,
            task: Task::Report,
        }
    }

    /// A new job of ada's.
    pub async fn job(&self, recipients: &[&str]) -> JobId {
        let made = self.store.create_job(self.owner, RequestKey::new(), &self.spec(recipients)).await;
        made.expect("the database works").0
    }

    pub async fn record(&self, id: JobId) -> Record {
        self.store.job(id).await.expect("the database works").expect("the job exists")
    }

    /// What the history says, oldest first.
    pub async fn history(&self, id: JobId) -> Vec<String> {
        self.store.history(id).await.expect("the database works").into_iter().map(|(_, entry)| entry).collect()
    }

    pub async fn report_exists(&self, id: JobId) -> bool {
        self.store.report_of_job(id).await.expect("the database works").is_some()
    }

    /// Applies a transition and commits it, as a worker does.
    pub async fn change<T>(&self, id: JobId, transition: impl FnOnce(&mut Job) -> Result<T, Refusal>) -> Result<T, StoreError> {
        let mut change = self.store.change_job(id).await?.expect("the job exists");
        let result = transition(&mut change.job)?;
        change.commit().await?;
        Ok(result)
    }

    pub async fn claim(&self, worker: &str) -> Option<Claim> {
        self.store.claim_job(worker, terms(None)).await.expect("the database works")
    }

    /// Completes the running step with what has to be stored for it.
    pub async fn complete(&self, claim: &Claim, step: StepKind) -> Result<(), StoreError> {
        let mut change = self.store.change_job(claim.id).await?.expect("the job exists");
        if step == StepKind::Save {
            change.insert_report(ReportId::new(), "Minutes, June 2026", "# Minutes", "<h1>Minutes</h1>", &"{}".into()).await?;
        }
        change.job.complete_step(claim.epoch, step)?;
        change.commit().await?;
        Ok(())
    }

    /// A new job, claimed, with every step before `step` done.
    pub async fn job_at(&self, step: StepKind, recipients: &[&str]) -> Claim {
        let id = self.job(recipients).await;
        let claim = self.claim("worker-1").await.expect("a job waits");
        assert_eq!(claim.id, id);
        for &earlier in StepKind::ALL.iter().filter(|&&kind| kind < step && kind != StepKind::Hold) {
            self.complete(&claim, earlier).await.expect("nothing stands in the way");
        }
        claim
    }

    /// The numbers of a job's e-mails.
    pub async fn emails(&self, id: JobId) -> Vec<u32> {
        let record = self.record(id).await;
        record.job.effects.iter().filter(|effect| effect.kind == EffectKind::Email).map(|effect| effect.number).collect()
    }

    /// Lets the lease of a claim run out, and recovers.
    pub async fn expire(&self) {
        self.clock.advance(LEASE + TimeDelta::microseconds(1));
        self.recover().await;
    }

    /// Waits until the record passes a test, and fails loudly if it never does.
    pub async fn wait(&self, id: JobId, what: &str, test: impl Fn(&Record) -> bool) -> Record {
        let mut notifications = self.store.notifications().subscribe();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let record = self.record(id).await;
            if test(&record) {
                return record;
            }
            assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}; the job is {:#?}", record.job);
            // A worker that is killed right after its commit announces nothing, so silence is not taken for rest.
            let _ = timeout(LOOK, changed(&mut notifications, id)).await;
        }
    }

    pub async fn wait_for_end(&self, id: JobId) -> Record {
        self.wait(id, "the end of the job", |record| record.job.phase.is_final()).await
    }

    /// A connection of its own to the database, for looking at and tampering with rows.
    pub async fn raw(&self) -> Raw {
        Raw::open(&self.database.place).await
    }

    /// The store over a line to PostgreSQL that a test can cut.
    pub async fn store_on_a_line(&self) -> (Proxy, Store) {
        let Place::Postgres(options) = &self.database.place else { panic!("a file needs no line") };
        let line = Proxy::to(options.get_port()).await;
        let place = Place::Postgres(Box::new(options.as_ref().clone().host("127.0.0.1").port(line.port)));
        let store = Store::open(&place, self.clock.clone(), "recount.test").await.expect("the database can be opened again");
        (line, store)
    }

    /// The store over a handle of its own, as another process has it.
    pub async fn another_store(&self) -> Store {
        Store::open(&self.database.place, self.clock.clone(), "recount.test").await.expect("the database can be opened again")
    }
}

/// The usual terms for a claim, of any job or only this one.
pub fn terms(only: Option<JobId>) -> ClaimTerms {
    ClaimTerms { lease: LEASE, per_person: None, only }
}

/// A copy that PostgreSQL's own programs make while the database is in use, as an administrator does.
fn dumped(from: &PgConnectOptions) -> Database {
    let copy = Database::copied(from.clone().database("postgres"), "template0");
    let Place::Postgres(to) = &copy.place else { panic!("it is on the same server") };
    let script = "pg_dump --format custom --dbname \"$0\" | pg_restore --exit-on-error --no-owner --dbname \"$1\"";
    // libpq does not know all the parameters that sqlx writes.
    let url = |options: &PgConnectOptions| {
        let (user, host, port) = (options.get_username(), options.get_host(), options.get_port());
        format!("postgres://{user}@{host}:{port}/{}", options.get_database().expect("a name"))
    };
    let urls = [from, to].map(url);
    let done = Command::new("bash").args(["-o", "pipefail", "-c", script]).args(urls).status().expect("a shell");
    assert!(done.success());
    copy
}

async fn add_person(store: &Store, email: &str, role: Role) -> UserId {
    let email = EmailAddress::parse(email).expect("an address");
    match store.create_user(&email, role, &PasswordHash::unusable(), chrono_tz::Tz::Europe__Berlin).await {
        Ok(NewUser::Created(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// Tells from a failed call why the contract refused it.
pub fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> Refusal {
    match result {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("it should have been refused, but: {other:?}"),
    }
}
