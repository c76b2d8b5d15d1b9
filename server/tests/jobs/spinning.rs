//! Work that never gives way: it costs its lease, and nothing else. Whoever watches it, the other jobs, Cancel and the end of the
//! program do not depend on it.

use std::time::Duration;

use chrono::TimeDelta;
use contract::{Effect, EffectKind, NotDone, Outcome, Phase, headline};
use domain::id::JobId;
use mail::outbox::Outbox;
use server::worker::{Dependencies, WorkerOptions};
use store::Record;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    channels::Spins,
    instance::{Instance, PATIENCE},
    model_server::{ENDLESS_LINE, ModelServer, Reaction::Flood, THINKING},
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const WRITTEN: &str = "Report saved; written to the outbox folder, no e-mail was sent";

/// Options with a short lease, so that there are signs of life often.
fn options() -> WorkerOptions {
    WorkerOptions { lease: TimeDelta::seconds(3), ..WorkerOptions::default() }
}

/// Waits until the record passes a test, while the clock goes on as a clock does.
async fn wait_in_time(instance: &Instance, id: JobId, test: impl Fn(&Record) -> bool) -> Record {
    let deadline = Instant::now() + PATIENCE;
    let mut last = Instant::now();
    loop {
        let record = instance.record(id).await;
        if test(&record) {
            return record;
        }
        assert!(Instant::now() < deadline, "{:#?}", record.job);
        sleep(Duration::from_millis(50)).await;
        instance.clock.advance(TimeDelta::from_std(last.elapsed()).unwrap());
        last = Instant::now();
    }
}

fn model_call(record: &Record) -> &Effect {
    record.job.effects.iter().find(|effect| effect.kind == EffectKind::ModelCall).expect("the model was asked")
}

/// A worker whose delivery never gives way, on a runtime with a single thread for everything else.
async fn stuck(instance: &Instance, options: WorkerOptions) -> (JobId, Running, Spins) {
    instance.two_documents();
    let id = instance.job(ONE).await;
    let spins = Spins::new(Outbox::open(instance.folder().join("outbox")).expect("an outbox"));
    let worker = Running::start_with(instance.dependencies_with(spins.clone()), options);
    timeout(PATIENCE, spins.reached.notified()).await.expect("the delivery begins");
    (id, worker, spins)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn work_that_never_gives_way_is_let_go_and_another_worker_finishes_the_job() {
    let instance = Instance::new().await;
    let options = WorkerOptions { silence: Duration::from_millis(100), ..options() };
    let (id, worker, spins) = stuck(&instance, options).await;
    let release = spins.release();
    let other = Running::start(instance.dependencies());
    let record = wait_in_time(&instance, id, |record| record.job.phase.is_final()).await;
    assert_eq!((record.job.epoch > 1, headline(&record.job).as_str()), (true, WRITTEN));
    assert_eq!(instance.messages().len(), 1);
    // It comes to itself, and has nothing more to say.
    drop(release);
    worker.stop().await;
    other.stop().await;
    assert_eq!(instance.record(id).await.job, record.job);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_cancel_of_work_that_never_gives_way_comes_to_its_end() {
    let instance = Instance::new().await;
    let options = WorkerOptions { silence: Duration::from_millis(100), ..options() };
    let (id, worker, spins) = stuck(&instance, options).await;
    let release = spins.release();
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    // The same worker accounts for it: nothing of it stands in its own way.
    let record = wait_in_time(&instance, id, |record| record.job.phase.is_final()).await;
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Cancelled, "Cancelled. Report saved; email not sent"));
    drop(release);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_shutdown_ends_beside_work_that_never_gives_way() {
    let instance = Instance::new().await;
    let (id, worker, spins) = stuck(&instance, WorkerOptions { grace: Duration::ZERO, ..options() }).await;
    let release = spins.release();
    worker.stop().await;
    assert_eq!(instance.record(id).await.job.phase, Phase::Running, "its lease has to expire");
    let other = Running::start(instance.dependencies());
    let record = wait_in_time(&instance, id, |record| record.job.phase.is_final()).await;
    assert_eq!(headline(&record.job), WRITTEN);
    drop(release);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_model_that_floods_is_cancelled_and_what_came_is_said() {
    let instance = Instance::new().await;
    instance.two_documents();
    let mut server = ModelServer::start(vec![Flood(200, THINKING)]).await;
    let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
    let id = instance.job(ONE).await;
    server.holding().await;
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    let record = instance.wait_for_end(id).await;
    server.left().await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    let call = model_call(&record);
    assert_eq!((call.outcome, call.not_done), (Outcome::NotDone, Some(NotDone::BrokenOff)));
    assert!(call.evidence.as_ref().is_some_and(|evidence| evidence.starts_with("The stream was closed. ")), "{call:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_line_without_an_end_fails_the_job_with_what_came() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = ModelServer::start(vec![Flood(200, ENDLESS_LINE)]).await;
    let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
    let id = instance.job(ONE).await;
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Failed while summarizing. Nothing was saved or sent");
    assert!(record.job.failure.as_ref().unwrap().reason.contains("sent a line of more than 1 MiB without an end"));
    let call = model_call(&record);
    let evidence = call.evidence.as_deref().unwrap();
    assert!(evidence.contains(" bytes had been received, but no text of an answer"), "{evidence}");
}
