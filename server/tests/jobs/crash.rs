//! Workers that end in the middle of a job: at every single commit, by a crash, a shutdown or a cancel. Whatever the moment,
//! the next worker brings the job to an end that is true: in the record, in the reports, and in the recipients' mailboxes.

use std::time::Duration;

use chrono::TimeDelta;
use contract::{EffectKind, MAX_CLAIMS, NotDone, Outcome, Phase, headline};
use domain::id::JobId;
use mail::outbox::Outbox;
use server::worker::{Dependencies, WorkerOptions};
use store::Record;
use tokio::time::timeout;

use crate::support::{
    channels::{Dark, Panics, Stands},
    instance::{Instance, LEASE, PATIENCE},
    model_server::{
        GOOD, ModelServer,
        Reaction::{Answer, Hold},
    },
    smtp_server::{Act, Script, Server},
    worker::Running,
};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interruption {
    Kill,
    Shutdown,
    Cancel,
}

/// Where the messages go.
enum Mail {
    Outbox,
    Smtp(Server),
}

impl Mail {
    fn dependencies(&self, instance: &Instance) -> Dependencies {
        match self {
            Self::Outbox => instance.dependencies(),
            Self::Smtp(server) => instance.dependencies_with_smtp(server.port),
        }
    }

    /// Every message that the outside has accepted, as text.
    async fn accepted(&self, instance: &Instance) -> Vec<String> {
        match self {
            Self::Outbox => instance.messages().into_iter().map(|(_, text)| text).collect(),
            Self::Smtp(server) => {
                server.finished().await;
                server.bodies().iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect()
            }
        }
    }
}

/// Interrupts a job when its record gets to version `at`, and lets a second worker bring it to its end. Tells whether
/// the job was still under way at that version.
async fn interrupt(at: i64, how: Interruption, mail: &Mail) -> bool {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let worker = Running::start(mail.dependencies(&instance));
    let reached = instance.wait(id, "the next commit", |record| record.row.version >= at).await;
    match how {
        Interruption::Kill => worker.kill().await,
        Interruption::Shutdown => worker.stop().await,
        Interruption::Cancel => {
            instance.store.cancel_job(id, "ada@example.org").await.unwrap();
            instance.wait_for_end(id).await;
            worker.stop().await;
        }
    }
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let second = Running::start(mail.dependencies(&instance));
    let record = instance.wait_for_end(id).await;
    second.stop().await;

    let context = format!("{how:?} at version {at}");
    check_end(&instance, &record, mail, &context).await;
    if how != Interruption::Cancel {
        assert_eq!(record.job.phase, Phase::Finished, "{context}: {:?}", record.job);
    }
    !reached.job.phase.is_final()
}

/// The record, the reports and the mailboxes tell the same story.
async fn check_end(instance: &Instance, record: &Record, mail: &Mail, context: &str) {
    let (id, job): (JobId, _) = (record.row.id, &record.job);
    assert_eq!(instance.report_exists(id).await, job.report_saved(), "{context}");
    assert!(!job.effects.iter().any(|effect| effect.outcome.is_open()), "{context}: {job:?}");
    assert_eq!(headline(job).contains("Report saved"), job.report_saved(), "{context}: {}", headline(job));
    let accepted = mail.accepted(instance).await;
    for effect in job.emails() {
        let message_id = format!("Message-ID: {}\r\n", record.message_ids[&effect.number]);
        let copies = accepted.iter().filter(|text| text.contains(&message_id)).count();
        match effect.outcome {
            Outcome::Done => assert_eq!(copies, 1, "{context}: {effect:?}"),
            // The outbox can always be asked, so nothing stays in the dark there.
            Outcome::Unconfirmed => assert!(copies <= 1 && matches!(mail, Mail::Smtp(_)), "{context}: {effect:?}"),
            _ => assert_eq!(copies, 0, "{context}: {effect:?}"),
        }
    }
}

async fn interrupt_everywhere(how: Interruption, mail: impl Fn() -> Mail) {
    let (mut under_way, versions) = (0, versions_of_a_whole_job(&mail()).await);
    for at in 1..versions {
        under_way += i64::from(interrupt(at, how, &mail()).await);
    }
    // On a busy machine a job may have gone on before the interruption comes; its end must be true all the same.
    println!("{how:?}: {under_way} of {versions} commits");
    assert!(under_way > 0);
}

/// How many versions the record of a job has that nothing interrupts.
async fn versions_of_a_whole_job(mail: &Mail) -> i64 {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let worker = Running::start(mail.dependencies(&instance));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    check_end(&instance, &record, mail, "uninterrupted").await;
    assert!(record.row.version > 12, "{record:?}");
    record.row.version
}

fn smtp() -> Mail {
    Mail::Smtp(Server::start(Script::default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_commit_costs_no_message_and_sends_none_twice() {
    interrupt_everywhere(Interruption::Kill, || Mail::Outbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_commit_of_an_smtp_job_sends_nothing_twice() {
    interrupt_everywhere(Interruption::Kill, smtp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_at_any_commit_hands_the_job_back() {
    interrupt_everywhere(Interruption::Shutdown, || Mail::Outbox).await;
    interrupt_everywhere(Interruption::Shutdown, smtp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_any_commit_ends_with_a_true_sentence() {
    interrupt_everywhere(Interruption::Cancel, || Mail::Outbox).await;
    interrupt_everywhere(Interruption::Cancel, smtp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_that_was_broken_off_is_made_again_by_the_next_worker() {
    for how in [Interruption::Kill, Interruption::Shutdown] {
        let instance = Instance::new().await;
        instance.two_documents();
        let mut server = ModelServer::start(vec![Hold("- The council"), Answer(GOOD, "stop")]).await;
        let dependencies = Dependencies { summarizer: server.summarizer(), ..instance.dependencies() };
        let id = instance.job(TWO).await;
        let worker = Running::start(dependencies.clone());
        server.holding().await;
        if how == Interruption::Kill {
            worker.kill().await;
            instance.clock.advance(LEASE + TimeDelta::seconds(1));
        } else {
            worker.stop().await;
        }
        server.left().await;
        let second = Running::start(dependencies);
        let record = instance.wait_for_end(id).await;
        second.stop().await;
        assert_eq!(record.job.phase, Phase::Finished, "{how:?}: {:?}", record.job.failure);
        let calls = record.job.effects.iter().filter(|effect| effect.kind == EffectKind::ModelCall);
        let outcomes: Vec<_> = calls.map(|call| (call.outcome, call.not_done, call.epoch)).collect();
        let expected = [(Outcome::NotDone, Some(NotDone::BrokenOff), 1), (Outcome::Done, None, 2)];
        assert_eq!(outcomes, expected, "{how:?}");
        assert_eq!((server.requests().len(), instance.messages().len()), (2, 2), "{how:?}");
    }
}

/// A worker dies in the middle of a delivery to the outbox; the next one has to find out what became of it.
async fn dies_in_the_dark(stands: Stands) -> (Instance, Record) {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(&["anna@example.org"]).await;
    let (dark, reached) = Dark::new(Outbox::open(instance.folder().join("outbox")).unwrap(), stands);
    let worker = Running::start(instance.dependencies_with(dark));
    timeout(PATIENCE, reached.notified()).await.expect("the delivery begins");
    assert_eq!(instance.record(id).await.job.effect(2).unwrap().outcome, Outcome::InDoubt);
    worker.kill().await;
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let second = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    second.stop().await;
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    assert_eq!(instance.messages().len(), 1);
    (instance, record)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_proves_that_a_message_in_doubt_was_not_written_and_it_is_sent_again() {
    let (_, record) = dies_in_the_dark(Stands::BeforeTheFile).await;
    assert_eq!(record.job.effect(2).unwrap().attempts, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_proves_that_a_message_in_doubt_was_written_and_it_is_not_sent_again() {
    let (_, record) = dies_in_the_dark(Stands::AfterTheFile).await;
    let email = record.job.effect(2).unwrap();
    assert_eq!(email.attempts, 1);
    assert!(email.evidence.as_ref().is_some_and(|evidence| evidence.starts_with("found as ")), "{email:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_whose_worker_died_is_reconciled_too() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let (dark, reached) = Dark::new(Outbox::open(instance.folder().join("outbox")).unwrap(), Stands::AfterTheFile);
    let worker = Running::start(instance.dependencies_with(dark));
    timeout(PATIENCE, reached.notified()).await.expect("the delivery begins");
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    worker.kill().await;
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let second = Running::start(instance.dependencies());
    let settled = |record: &Record| record.job.effect(2).is_some_and(|email| email.outcome == Outcome::Done);
    let record = instance.wait(id, "the proof", settled).await;
    second.stop().await;
    let expected = "Cancelled. Report saved; written to the outbox folder for 1 of 2, no e-mail was sent";
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Cancelled, expected));
    assert_eq!(instance.messages().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_killed_keeps_no_lease_alive() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let (dark, reached) = Dark::new(Outbox::open(instance.folder().join("outbox")).unwrap(), Stands::BeforeTheFile);
    // A sign of life comes with every third of it. The instance's clock stands still, so it never runs out by itself.
    let options = WorkerOptions { lease: TimeDelta::seconds(3), ..WorkerOptions::default() };
    let worker = Running::start_with(instance.dependencies_with(dark), options);
    timeout(PATIENCE, reached.notified()).await.expect("the delivery begins");
    worker.kill().await;
    let before = instance.record(id).await.row.lease_expires_at;
    instance.clock.advance(TimeDelta::seconds(1));
    // Time for two signs of life, should anybody still give them.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(instance.record(id).await.row.lease_expires_at, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_outlasts_its_lease_is_not_taken_over() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start_each(vec![Script { data: Act::Hold(b"354 go on\r\n"), ..Script::default() }, Script::default()]);
    let id = instance.job(&["anna@example.org"]).await;
    // A sign of life comes with every third of it. In the clock's time it runs out only where that is moved and nobody prolongs
    // it; in real time a sign of life has all of it to be written, whatever else the machine does.
    let lease = TimeDelta::seconds(6);
    let options = WorkerOptions { lease, ..WorkerOptions::default() };
    let dependencies = instance.dependencies_with_smtp(server.port);
    let slow = Running::start_with(dependencies.clone(), options.clone());
    server.reached().await;
    let other = Running::start_with(dependencies, options);
    for _ in 0..3 {
        instance.clock.advance(lease);
        assert_eq!(instance.recover().await, []);
        let until = Some(instance.store.clock().now() + lease);
        let prolonged = async {
            while instance.record(id).await.row.lease_expires_at != until {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, prolonged).await.expect("a sign of life");
    }
    server.release();
    let record = instance.wait_for_end(id).await;
    for worker in [slow, other] {
        worker.stop().await;
    }
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    let email = record.job.effect(2).unwrap();
    assert_eq!((record.job.epoch, email.attempts, server.commits()), (1, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_step_ends_the_job_and_not_the_worker() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let clock = instance.clock.clone();
    let panics = Panics(move || clock.advance(LEASE + TimeDelta::seconds(1)));
    let worker = Running::start(instance.dependencies_with(panics));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!((record.job.phase, record.job.epoch), (Phase::Failed, MAX_CLAIMS));
    assert_eq!(headline(&record.job), "Failed while e-mailing the link. Report saved; email not sent");
    assert_eq!(record.job.failure.unwrap().reason, "The program stopped 3 times while e-mailing the link.");
}
