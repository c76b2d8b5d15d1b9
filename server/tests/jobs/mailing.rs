//! The e-mail step against a mail server that misbehaves: what is sent again, and what never is.

use contract::{NotDone, Outcome, Phase, headline};
use domain::id::JobId;
use mail::channel::{Channel, Outgoing, Reconciled};
use server::worker::Dependencies;
use store::Record;
use uuid::Uuid;

use crate::support::{
    instance::Instance,
    resend_server::{
        Act::{Dropped, Taken},
        Api, Ending,
    },
    smtp_server::{
        Act::{Close, Hold, Say},
        Script, Server,
    },
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

/// Runs one job to its end, and the worker for a while longer.
async fn run(instance: &Instance, server: &Server, recipients: &[&str]) -> (JobId, Record) {
    instance.two_documents();
    let id = instance.job(recipients).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    server.finished().await;
    (id, record)
}

/// The recipients that the server was told of, in order.
fn named(server: &Server) -> Vec<String> {
    server.lines().iter().filter_map(|line| Some(line.strip_prefix("RCPT TO:<")?.trim_end_matches('>').to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recipient_gets_one_message() {
    let (instance, server) = (Instance::new().await, Server::start(Script::default()));
    let (_, record) = run(&instance, &server, TWO).await;
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    assert_eq!((server.commits(), named(&server)), (2, TWO.iter().map(|&to| to.to_owned()).collect()));
    for (body, number) in server.bodies().iter().zip([2, 3]) {
        let text = String::from_utf8_lossy(body);
        assert!(text.contains(&format!("Message-ID: {}\r\n", record.message_ids[&number])), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_on_one_database_send_each_message_once() {
    let (instance, server) = (Instance::new().await, Server::start(Script::default()));
    instance.two_documents();
    let mut jobs = Vec::new();
    for _ in 0..12 {
        jobs.push(instance.job(ONE).await);
    }
    let mut workers = Vec::new();
    for _ in 0..2 {
        // With its own handle of the database, as a process has it.
        let store = instance.another_store().await;
        workers.push(Running::start(Dependencies { store, ..instance.dependencies_with_smtp(server.port) }));
    }
    for id in jobs {
        let job = instance.wait_for_end(id).await.job;
        let email = job.effect(2).unwrap();
        assert_eq!((job.epoch, email.outcome, email.attempts), (1, Outcome::Done, 1), "{job:?}");
    }
    for worker in workers {
        worker.stop().await;
    }
    server.finished().await;
    assert_eq!((server.commits(), named(&server).len()), (12, 12));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_after_the_dot_a_message_is_never_sent_again() {
    let instance = Instance::new().await;
    let server = Server::start(Script { dot: Close, ..Script::default() });
    let (id, record) = run(&instance, &server, ONE).await;
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Finished, "Report saved; email outcome unconfirmed"));
    assert_eq!(record.job.effect(2).unwrap().attempts, 1);

    // Another worker, and another job so that it has surely looked around.
    let other = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    instance.wait_for_end(other).await;
    worker.stop().await;
    assert_eq!(instance.record(id).await.job, record.job);
    assert_eq!(server.commits(), 2, "one for each job");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_recipient_does_not_keep_the_other_from_their_mail() {
    let instance = Instance::new().await;
    let refusing = Script { rcpt: Say(b"550 5.1.1 no such user\r\n"), ..Script::default() };
    let server = Server::start_each(vec![refusing, Script::default()]);
    let (_, record) = run(&instance, &server, TWO).await;
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Finished, "Report saved; email refused for 1 of 2"));
    let refused = record.job.effect(2).unwrap();
    assert_eq!((refused.outcome, refused.not_done, refused.attempts), (Outcome::NotDone, Some(NotDone::Refused), 1));
    assert!(refused.evidence.as_ref().is_some_and(|evidence| evidence.starts_with("550 5.1.1 no such user")), "{refused:?}");
    assert_eq!(record.job.effect(3).unwrap().outcome, Outcome::Done);
    assert_eq!((server.commits(), named(&server)), (1, TWO.iter().map(|&to| to.to_owned()).collect()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_refusal_is_tried_again_after_the_others_had_their_turn() {
    let instance = Instance::new().await;
    let busy = Script { rcpt: Say(b"451 4.3.0 later\r\n"), ..Script::default() };
    let server = Server::start_each(vec![busy, Script::default()]);
    let (_, record) = run(&instance, &server, TWO).await;
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    assert_eq!(named(&server), ["anna@example.org", "bert@example.org", "anna@example.org"]);
    assert_eq!((server.commits(), record.job.effect(2).unwrap().attempts), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_round_the_program_gives_up_and_says_so() {
    let instance = Instance::new().await;
    let server = Server::start(Script { rcpt: Say(b"451 4.3.0 later\r\n"), ..Script::default() });
    let (_, record) = run(&instance, &server, ONE).await;
    let email = record.job.effect(2).unwrap();
    assert_eq!((email.outcome, email.not_done, email.attempts), (Outcome::NotDone, Some(NotDone::GaveUp), 3));
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Finished, "Report saved; email not sent"));
    assert_eq!(server.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_the_answer_to_a_message_that_was_handed_over() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start(Script { dot: Hold(b"250 2.0.0 queued\r\n"), ..Script::default() });
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    worker.ask_to_stop();
    server.release();
    worker.stop().await;
    let record = instance.record(id).await;
    assert_eq!(record.job.effect(2).unwrap().outcome, Outcome::Done);
    assert_eq!((record.job.leased, server.commits()), (false, 1));

    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    assert_eq!(server.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_that_does_not_wait_longer_leaves_it_unconfirmed() {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start_each(vec![Script { dot: Hold(b"250 ok\r\n"), ..Script::default() }, Script::default()]);
    let id = instance.job(TWO).await;
    let worker = Running::start_with_grace(instance.dependencies_with_smtp(server.port), std::time::Duration::ZERO);
    server.reached().await;
    worker.stop().await;
    let record = instance.record(id).await;
    assert_eq!(record.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
    assert_eq!((record.job.phase, record.job.leased), (Phase::Running, false));

    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    server.finished().await;
    assert_eq!(headline(&record.job), "Report saved; email outcome unconfirmed");
    assert_eq!((server.commits(), named(&server)), (2, TWO.iter().map(|&to| to.to_owned()).collect()));
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_an_acceptance_has_an_id_and_a_refusal_its_name() {
    let instance = Instance::new().await;
    let refusal = r#"{"statusCode":422,"name":"validation_error","message":"no such domain"}"#;
    let api = Api::start(vec![Dropped(Ending::Say(422, refusal))]).await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let worker = Running::start(instance.dependencies_with(api.channel()));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; email refused for 1 of 2");
    let (refused, accepted) = (record.job.effect(2).unwrap(), record.job.effect(3).unwrap());
    assert_eq!((refused.not_done, refused.attempts), (Some(NotDone::Refused), 1));
    let evidence = refused.evidence.as_deref().unwrap();
    assert_eq!(evidence, "422 validation_error: no such domain (in the answer to the message)");
    let evidence = accepted.evidence.as_deref().unwrap();
    assert_eq!(evidence, format!("200, id {} (127.0.0.1:{})", api.taken()[0].id, api.port));
    assert_eq!(api.taken().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stored_message_carries_its_key_so_a_lost_answer_can_be_asked_for_again() {
    let instance = Instance::new().await;
    let api = Api::start(vec![Taken(Ending::Close)]).await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with(api.channel()));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; email outcome unconfirmed");

    let stored = instance.store.message(id, 2).await.unwrap().unwrap();
    let message = Outgoing {
        attempt: Uuid::nil(),
        from: stored.sender.parse().unwrap(),
        to: stored.recipient.parse().unwrap(),
        sha256: stored.sha256.as_slice().try_into().unwrap(),
        bytes: stored.bytes.into(),
        message_id: stored.message_id,
    };
    // As after a restart: another channel from the same settings.
    let channel = api.channel();
    assert!(channel.key_life(&message).is_some());
    let asked = channel.ask_again(&message).await;
    let first = format!("200, id {}", api.taken()[0].id);
    assert!(matches!(&asked, Reconciled::Accepted { evidence } if evidence.starts_with(&first)), "{asked:?}");
    assert_eq!(api.taken().len(), 1);
}
