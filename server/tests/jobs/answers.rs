//! The answer to a commit is lost, and the connection with it, so that the program cannot know whether it was committed. That
//! happens here to each commit of a job's life, one after the other, and to each of those that follow a Cancel; whichever it is,
//! the job comes to an end that is true. Only on PostgreSQL: with SQLite there is nothing between the program and its file.

use std::{
    io::Write,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use chrono::TimeDelta;
use contract::{CancelAnswer, Outcome, Phase, headline};
use domain::id::{JobId, RequestKey};
use server::worker::{Dependencies, WorkerOptions};
use store::{Record, Store};
use tokio::{sync::Semaphore, time::timeout};

use crate::support::{
    cluster::skips,
    instance::{Instance, PATIENCE},
    proxy::Proxy,
    smtp_server::{Act::Hold, Script, Server},
    truth::check_sentence,
    worker::Running,
};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];
const LEASE: TimeDelta = TimeDelta::seconds(3);
/// Cases under way at the same time: most of the time of each is the wait for a lease.
const AT_ONCE: usize = 6;
/// When nothing has happened for this long, the worker may have given its claim up.
const QUIET: Duration = Duration::from_millis(500);

/// A worker whose line to the database loses what the test wants.
struct Case {
    instance: Instance,
    line: Proxy,
    store: Store,
    server: Server,
    worker: Running,
}

impl Case {
    async fn new(script: Script) -> Self {
        let instance = Instance::new().await;
        instance.two_documents();
        let (line, store) = instance.store_on_a_line().await;
        let server = Server::start(script);
        let dependencies = Dependencies { store: store.clone(), ..instance.dependencies_with_smtp(server.port) };
        let options = WorkerOptions { lease: LEASE, grace: PATIENCE, ..WorkerOptions::default() };
        Self { instance, line, store, server, worker: Running::start_with(dependencies, options) }
    }

    /// Whoever gets no answer asks again.
    async fn order(&self) -> JobId {
        let (key, spec) = (RequestKey::new(), self.instance.spec(TWO));
        loop {
            if let Ok((id, _)) = self.store.create_job(self.instance.owner, key, &spec).await {
                return id;
            }
        }
    }

    async fn cancel(&self, id: JobId) -> (CancelAnswer, Record) {
        loop {
            if let Ok(answer) = self.store.cancel_job(id, "ada@example.org").await {
                return answer.expect("the job exists");
            }
        }
    }

    /// Waits for the end. The leases of claims that are given up run out meanwhile.
    async fn end(self, id: JobId, context: &str) -> Record {
        let record = loop {
            if let Ok(record) = timeout(QUIET, self.instance.wait_for_end(id)).await {
                break record;
            }
            self.instance.clock.advance(LEASE + TimeDelta::microseconds(1));
        };
        self.worker.stop().await;
        self.server.finished().await;
        let job = &record.job;
        let accepted = self.server.commits();
        let reports = usize::from(self.instance.report_exists(id).await);
        for email in job.emails() {
            let recipient = format!("To: {}", record.targets[&email.number]);
            let bodies = self.server.bodies();
            let copies = bodies.iter().filter(|body| String::from_utf8_lossy(body).contains(&recipient)).count();
            match email.outcome {
                Outcome::Done => assert_eq!(copies, 1, "{context}: {email:?}"),
                Outcome::Unconfirmed => assert!(copies <= 1, "{context}: {email:?}"),
                _ => assert_eq!(copies, 0, "{context}: {email:?}"),
            }
        }
        check_sentence(&headline(job), job, reports, accepted, context);
        let history = self.instance.history(id).await;
        assert!(!history.iter().any(|entry| entry.contains("came late")), "{context}: {history:#?}");
        record
    }
}

/// A whole job that loses the answer to the commit with this number; 0 for none. Returns how many commits there were.
async fn whole(number: usize) -> usize {
    let case = Case::new(Script::default()).await;
    case.line.loses_answer_to_commit(number);
    let id = case.order().await;
    let commits = case.line.counter();
    let context = format!("the answer to commit {number} was lost");
    let record = case.end(id, &context).await;
    assert_eq!((record.job.phase, record.job.cancel_requested), (Phase::Finished, false), "{context}: {:?}", record.job);
    // Between the server's 354 and the message nobody else was in doubt.
    assert!(record.job.emails().all(|email| email.outcome == Outcome::Done), "{context}: {:?}", record.job);
    commits.load(SeqCst)
}

/// A job that is cancelled at the first recipient, and loses the answer to the commit with this number from then on.
async fn cancelled(number: usize) -> usize {
    let case = Case::new(Script { rcpt: Hold(b"250 2.1.5 ok\r\n"), ..Script::default() }).await;
    let id = case.order().await;
    timeout(PATIENCE, case.server.reached()).await.expect("the worker is at the mail server");
    let commits = case.line.counter();
    let before = commits.load(SeqCst);
    case.line.loses_answer_to_commit(before + number);
    let (answer, _) = case.cancel(id).await;
    assert!(matches!(answer, CancelAnswer::Accepted | CancelAnswer::AlreadyRequested), "{answer:?}");
    case.server.release();
    let context = format!("the answer to commit {number} from the Cancel on was lost");
    let record = case.end(id, &context).await;
    assert_eq!(headline(&record.job), "Cancelled. Report saved; email not sent", "{context}: {:?}", record.job);
    commits.load(SeqCst) - before
}

/// Runs a case for each commit that there is without any loss. Returns how many those were.
async fn each<F>(case: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = usize> + Send + 'static,
{
    let commits = case(0).await;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let cases: Vec<_> = (1..=commits)
        .map(|number| {
            let (places, case) = (places.clone(), case(number));
            tokio::spawn(async move {
                let _place = places.acquire_owned().await.expect("open");
                case.await
            })
        })
        .collect();
    for case in cases {
        case.await.expect("the case passes");
    }
    commits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_costs_neither_the_job_nor_its_truth() {
    if skips("commits whose answer is lost") {
        return;
    }
    let (all, after) = (each(whole).await, each(cancelled).await);
    assert!(all > 10 && after >= 2, "{all}, {after}");
    let line = format!("The answer to each of {all} commits of a job was lost, and to each of {after} after a Cancel");
    writeln!(std::io::stdout().lock(), "{line}").expect("standard output");
}
