//! A worker or a database that ends around the point of no return of an e-mail. Whatever the moment: nothing is ever sent twice,
//! and the record says no more and no less than what is proved.

use std::time::Duration;

use chrono::TimeDelta;
use contract::{NotDone, Outcome, Phase, headline};
use domain::id::JobId;
use server::worker::Dependencies;
use store::Record;

use crate::support::{
    instance::{Instance, LEASE},
    smtp_server::{
        Act::{Freeze, Hold, Say},
        Script, Server,
    },
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const ACCEPTED: &[u8] = b"250 2.0.0 Ok: queued as ABC123\r\n";

/// A pause before the second attempt that no test outlasts.
const LONG: &[Duration] = &[Duration::from_hours(1)];

fn email(record: &Record) -> (Outcome, Option<NotDone>, u32) {
    let email = record.job.effect(2).unwrap();
    (email.outcome, email.not_done, email.attempts)
}

/// Lets the lease of whoever is gone run out, and another worker bring the job to its end.
async fn taken_over(instance: &Instance, id: JobId, server: &Server) -> Record {
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let second = Running::start(instance.dependencies_with_smtp(server.port));
    let record = instance.wait_for_end(id).await;
    second.stop().await;
    record
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_final_dot_and_its_reply_leaves_it_unconfirmed() {
    for commit in [true, false] {
        let instance = Instance::new().await;
        instance.two_documents();
        let server = Server::start_each(vec![Script { dot: Hold(ACCEPTED), commit, ..Script::default() }, Script::default()]);
        let id = instance.job(ONE).await;
        let worker = Running::start(instance.dependencies_with_smtp(server.port));
        server.reached().await;
        worker.kill().await;
        let record = taken_over(&instance, id, &server).await;
        server.finished().await;
        assert_eq!(email(&record), (Outcome::Unconfirmed, None, 1));
        assert_eq!(headline(&record.job), "Report saved; email outcome unconfirmed");
        assert_eq!(server.commits(), usize::from(commit), "it is not sent again");
    }
}

/// Nobody can know after the crash that the final dot had not left yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_the_intent_and_before_the_final_dot_leaves_it_unconfirmed_too() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start_each(vec![Script { body: Some((1, Freeze)), ..Script::default() }, Script::default()]);
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    worker.kill().await;
    let record = taken_over(&instance, id, &server).await;
    server.finished().await;
    assert_eq!(email(&record), (Outcome::Unconfirmed, None, 1));
    assert_eq!(server.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_lease_before_the_354_hands_nothing_over() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start_each(vec![Script { data: Hold(b"354 go on\r\n"), ..Script::default() }, Script::default()]);
    let id = instance.job(ONE).await;
    let slow = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    // The slow worker lives and may prolong its lease just before; then it is let run out again.
    while instance.recover().await.is_empty() {
        instance.clock.advance(LEASE + TimeDelta::seconds(1));
    }
    let record = taken_over(&instance, id, &server).await;
    assert_eq!(email(&record), (Outcome::Done, None, 2));
    server.release();
    // Whether it has heard of the loss by now or learns of it from the record: it leaves without the final dot.
    server.closed().await;
    slow.stop().await;
    assert_eq!(server.commits(), 1);
    assert_eq!(instance.record(id).await.job, record.job);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acceptance_that_the_database_could_not_take_is_unconfirmed_after_a_restart() {
    let instance = Instance::new().await;
    instance.two_documents();
    let mut raw = instance.raw().await;
    let broken = raw.either(
        "create trigger disk_full before update on effects when new.outcome = 'done' and new.kind = 'email'
         begin select raise(abort, 'the disk is full'); end",
        "create trigger disk_full before update on effects for each row when (new.outcome = 'done' and new.kind = 'email')
         execute function refuse_change('the disk is full')",
    );
    raw.run(broken).await;
    let server = Server::start(Script::default());
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    let in_doubt = |record: &Record| email(record).0 == Outcome::InDoubt;
    instance.wait(id, "the point of no return", in_doubt).await;
    // The session is over once the worker has read the 250 and said QUIT.
    while !server.lines().contains(&"QUIT".to_owned()) {
        tokio::task::yield_now().await;
    }
    assert!(in_doubt(&instance.record(id).await), "the proof cannot be written");
    worker.kill().await;
    raw.run(raw.either("drop trigger disk_full", "drop trigger disk_full on effects")).await;
    let record = taken_over(&instance, id, &server).await;
    server.finished().await;
    assert_eq!((email(&record), server.commits()), ((Outcome::Unconfirmed, None, 1), 1));
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Finished, "Report saved; email outcome unconfirmed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_attempt_sends_the_bytes_of_the_first_whatever_has_changed_since() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start_each(vec![
        Script { dot: Say(b"451 4.3.0 later\r\n"), commit: false, ..Script::default() },
        Script::default(),
    ]);
    let id = instance.job(ONE).await;
    let dependencies = instance.dependencies_with_smtp(server.port);
    let patient = Dependencies { mail_pauses: LONG, ..dependencies.clone() };
    let first = Running::start(patient);
    instance.wait(id, "the first attempt", |record| email(record).0 == Outcome::NotDone).await;
    first.stop().await;
    let stored = instance.store.message(id, 2).await.unwrap().expect("it was rendered");

    let moved = Dependencies {
        public_url: "http://elsewhere.test".into(),
        sender: "Somebody else <s@example.org>".parse().unwrap(),
        ..dependencies
    };
    let second = Running::start(moved);
    let record = instance.wait_for_end(id).await;
    second.stop().await;
    server.finished().await;
    assert_eq!(email(&record), (Outcome::Done, None, 2));
    let [sent] = &server.bodies()[..] else { panic!("one message is accepted") };
    // No line of it begins with a dot, so it travels as it is stored.
    assert_eq!(sent.strip_suffix(b".\r\n"), Some(&stored.bytes[..]));
    assert!(server.lines().iter().filter(|line| line.starts_with("MAIL ")).all(|line| line.contains("<r@example.org>")));
}
