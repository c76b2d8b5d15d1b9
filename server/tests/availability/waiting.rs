//! Workers whose database refuses for longer than a lease lasts, in the middle of a job. Waiting for it costs no claim and ends no
//! job, and nothing that costs money or time is done again: afterwards the job ends as if nothing had been.

use std::time::Duration;

use chrono::TimeDelta;
use contract::{CancelAnswer, Outcome, Phase, headline};
use domain::id::RequestKey;
use http::StatusCode;
use server::worker::{Dependencies, WorkerOptions};
use store::Unavailable;
use tokio::time::{Instant, sleep};

use crate::support::{
    instance::{Instance, PATIENCE},
    model_server::{ModelServer, Reaction::Deaf},
    raw::Raw,
    site::Site,
    smtp_server::{Script, Server},
    worker::Running,
};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];
/// How long the database refuses.
const LONG: Duration = Duration::from_secs(4);

/// In which way a database refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Somebody else writes, and does not come to an end.
    Locked,
    /// It can only be read.
    ReadOnly,
    /// There is room for what is small, such as a claim or a sign of life, and not for a report.
    NearlyFull,
}

impl Way {
    async fn set(self, on: bool, raw: &mut Raw) {
        let value = if on { "on" } else { "off" };
        let statements = match self {
            Self::Locked if on => {
                raw.either("begin exclusive", "begin; lock table jobs in exclusive mode").to_owned()
            }
            Self::Locked => "rollback".to_owned(),
            Self::ReadOnly => format!(
                "do $$ begin execute format('alter database %I set default_transaction_read_only = {value}', current_database());
                 end $$;
                 select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            ),
            Self::NearlyFull if on => "
                create function full_disk() returns trigger language plpgsql as
                $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$;
                create trigger full_disk before insert on summaries for each row execute function full_disk();
                create trigger full_disk before insert on reports for each row execute function full_disk()"
                .to_owned(),
            Self::NearlyFull => "drop trigger full_disk on summaries; drop trigger full_disk on reports".to_owned(),
        };
        raw.run(&statements).await;
    }
}

/// A job is at its model when the database begins to refuse; another worker looks for dead ones meanwhile.
async fn costs_nothing(way: Way) {
    let instance = Instance::new().await;
    instance.two_documents();
    let mut raw = instance.raw().await;
    if way != Way::Locked && matches!(raw, Raw::Sqlite(_)) {
        // Nothing outside a connection brings this about for a file; the program's own test fills a disk.
        return;
    }
    // A file is refused at once; PostgreSQL lets everybody wait for a lock, for longer than a short lease would last.
    let lease = TimeDelta::milliseconds(if matches!(raw, Raw::Sqlite(_)) { 1_500 } else { 15_000 });
    let words = "## Library\n- The council approved 140,000 dollars. [1:1]\n";
    let mut model = ModelServer::start(vec![Deaf(words, "- The library stays open until ten. [2:1]\n")]).await;
    let smtp = Server::start(Script::default());
    let options = WorkerOptions { lease, grace: PATIENCE, ..WorkerOptions::default() };
    let dependencies = Dependencies { summarizer: model.summarizer(), ..instance.dependencies_with_smtp(smtp.port) };
    let others = Dependencies { store: instance.another_store().await, ..dependencies.clone() };
    let id = instance.job(TWO).await;
    let worker = Running::start_with(dependencies, options.clone());
    model.holding().await;
    let other = Running::start_with(others, options);

    way.set(true, &mut raw).await;
    if way != Way::NearlyFull {
        // Nobody can prolong it, and nobody can take the job for it.
        instance.clock.advance(lease + TimeDelta::milliseconds(1));
    }
    model.goes_on_to_the_end().await;
    let since = Instant::now();
    while since.elapsed() < LONG {
        let record = instance.store.job(id).await;
        // Connections that the server has ended come up first.
        if let Ok(Some(record)) = record {
            assert_eq!((record.job.phase, record.job.epoch, record.job.lost_claims), (Phase::Running, 1, 0), "{way:?}");
            assert!(!record.job.report_saved(), "{way:?}");
        }
        sleep(Duration::from_millis(100)).await;
    }
    way.set(false, &mut raw).await;
    while instance.store.job(id).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "{way:?}: the database works again");
        sleep(Duration::from_millis(100)).await;
    }
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    other.stop().await;
    let (job, history) = (&record.job, instance.history(id).await);
    assert_eq!(headline(job), "Report saved; email accepted by the mail service", "{way:?}: {history:#?}");
    assert_eq!((job.epoch, job.lost_claims), (1, 0), "{way:?}: {history:#?}");
    assert_eq!((model.requests().len(), smtp.commits()), (1, 2), "{way:?}: {history:#?}");
    assert!(job.emails().all(|email| email.attempts == 1 && email.outcome == Outcome::Done), "{way:?}: {job:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_costs_a_job_nothing() {
    costs_nothing(Way::Locked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_can_only_be_read_costs_a_job_nothing() {
    costs_nothing(Way::ReadOnly).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_only_what_is_small_costs_a_job_nothing() {
    costs_nothing(Way::NearlyFull).await;
}

/// The page gives a Cancel up after five seconds, and readers wait for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn while_another_process_writes_everybody_is_told_in_time() {
    let site = Site::new().await;
    let program = site.program(site.instance.owner).await;
    let id = site.instance.job(TWO).await;
    let api = format!("/api/v1/jobs/{id}");
    let mut raw = site.instance.raw().await;
    let Raw::Sqlite(_) = raw else { return };
    // The use of the token is to be written down too; all waits of a request count together.
    site.instance.clock.advance(TimeDelta::hours(2));
    raw.run("begin exclusive").await;
    let asked = Instant::now();
    let told = program.put(&format!("{api}/cancellation")).await;
    // SQLite itself would have waited for ten seconds, twice.
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
    let detail = told.problem(503)["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with(Unavailable::Busy.sentence()) && detail.contains("not known whether your Cancel"), "{detail}");
    assert_eq!(program.get(&api).await.json()["phase"], "queued");
    let ready = site.stranger().get("/readyz").await;
    assert_eq!((ready.status, ready.text.as_str()), (StatusCode::SERVICE_UNAVAILABLE, Unavailable::Busy.sentence()));
    raw.run("rollback").await;
    assert_eq!(program.put(&format!("{api}/cancellation")).await.json()["outcome"], "accepted");
}

/// So that what was ordered can be finished.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_nearly_full_takes_no_new_orders_and_finishes_the_old_ones() {
    let instance = Instance::new().await;
    let Raw::Sqlite(_) = instance.raw().await else { return };
    instance.two_documents();
    let (key, spec) = (RequestKey::new(), instance.spec(TWO));
    let (id, _) = instance.store.create_job(instance.owner, key, &spec).await.unwrap();
    let (stopped, _) = instance.store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap();
    // No disk has as much.
    let store = instance.another_store().await.keeping_free(u64::MAX);
    assert_eq!(store.is_ready().await, Err(Unavailable::NoRoom.sentence()));
    let refused = store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap_err();
    assert_eq!(refused.unavailable(), Some(Unavailable::NoRoom));
    assert_eq!(store.create_job(instance.owner, key, &spec).await.unwrap(), (id, false), "it was taken before");
    assert_eq!(store.cancel_job(stopped, "ada@example.org").await.unwrap().unwrap().0, CancelAnswer::Accepted);
    let worker = Running::start(Dependencies { store: store.clone(), ..instance.dependencies() });
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    assert_eq!(instance.store.is_ready().await, Ok(()));
}
