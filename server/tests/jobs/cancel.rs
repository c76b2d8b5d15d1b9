//! Cancel while the worker collects, summarizes, and stands between two commands of the mail server.

use contract::{EffectKind, NotDone, Outcome, Phase, StepKind, StepState, headline};
use server::worker::Dependencies;
use store::Record;
use tokio::time::{Duration, Instant};

use crate::{
    ingest::files::docx,
    support::{
        instance::Instance,
        model_server::{
            GOOD, ModelServer,
            Reaction::{Deaf, Hold},
        },
        smtp_server::{
            Act::{self, Hang, Say},
            Script, Server,
        },
        worker::{NO_PAUSES, Running},
    },
};

const ACCEPTED: &[u8] = b"250 2.0.0 Ok: queued as ABC123\r\n";
const ONE: &[&str] = &["anna@example.org"];
const THREE: &[&str] = &["anna@example.org", "bert@example.org", "cleo@example.org"];

async fn cancel(instance: &Instance, id: domain::id::JobId) -> Record {
    instance.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_collecting_leaves_nothing() {
    let instance = Instance::new().await;
    for n in 0..1_500 {
        instance.document(&format!("2026-06-03-note-{n}.md"), "# Note\n\nThe council approved 140,000 dollars.\n");
    }
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies());
    // Right at the beginning: on a quick machine the first progress may be written only with the first documents.
    instance.wait(id, "the first step", |record| record.job.step(StepKind::Collect).unwrap().state == StepState::Running).await;
    let cancelled = Instant::now();
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    println!("cancel to the end of the job while collecting: {:?}", cancelled.elapsed());
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    assert!(instance.store.coverage(id).await.unwrap().is_empty());
    assert!(instance.messages().is_empty());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_the_model_streams_closes_the_stream() {
    let instance = Instance::new().await;
    instance.two_documents();
    for text in ["- The council", ""] {
        let mut server = ModelServer::start(vec![Hold(text)]).await;
        let id = instance.job(ONE).await;
        let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
        server.holding().await;
        let cancelled = Instant::now();
        let record = cancel(&instance, id).await;
        assert!(matches!(record.job.phase, Phase::Stopping | Phase::Cancelled));
        let left = server.left().await;
        println!("cancel to the closed stream, seen by the model server: {:?}", left - cancelled);

        let record = instance.wait_for_end(id).await;
        println!("cancel to the end of the job while summarizing: {:?}", cancelled.elapsed());
        assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
        let call = record.job.effects.iter().find(|effect| effect.kind == EffectKind::ModelCall).expect("a call");
        assert_eq!((call.outcome, call.not_done), (Outcome::NotDone, Some(NotDone::BrokenOff)));
        let evidence = call.evidence.as_deref().unwrap_or_default();
        assert!(evidence.contains("the provider may have gone on"), "{evidence}");
        worker.stop().await;
        assert_eq!(server.requests().len(), 1, "a cancel is no reason to ask again");
        assert!(!instance.report_exists(id).await);
    }
}

/// Nobody can make a provider stop. What Recount owes is its own end, at once, and the truth about the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_server_that_goes_on_after_the_closed_stream_changes_nothing() {
    let instance = Instance::new().await;
    instance.two_documents();
    let mut server = ModelServer::start(vec![Deaf("- The council", GOOD)]).await;
    let id = instance.job(ONE).await;
    let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
    server.holding().await;
    let cancelled = Instant::now();
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    println!("cancel to the end of the job while the model server goes on: {:?}", cancelled.elapsed());
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    let call = record.job.effects.iter().find(|effect| effect.kind == EffectKind::ModelCall).expect("a call");
    let evidence = call.evidence.as_deref().unwrap_or_default();
    assert!(evidence.contains("the provider may have gone on"), "{evidence}");

    server.goes_on_to_the_end().await;
    worker.stop().await;
    let later = instance.record(id).await;
    assert_eq!((later.row.version, &later.job), (record.row.version, &record.job));
    assert!(!instance.report_exists(id).await && instance.messages().is_empty());
    assert_eq!(server.requests().len(), 1);
}

/// A document that takes seconds to read, and whose reading nobody can interrupt.
fn slow_document() -> Vec<u8> {
    docx(&"<w:p><w:r><w:t>The council approved 140,000 dollars.</w:t></w:r></w:p>".repeat(20_000))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_a_document_is_read_waits_for_its_end_and_says_so() {
    let instance = Instance::new().await;
    let document = slow_document();
    // So many that the cancel comes long before the last, on any machine.
    for n in 0..200 {
        instance.document(&format!("2026-06-03-minutes-{n}.docx"), &document);
    }
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies());
    instance.wait(id, "the list of documents", |record| record.job.step(StepKind::Collect).unwrap().total > 0).await;
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    let history = instance.history(id).await;
    let discarded = |entry: &String| {
        entry.starts_with("The reading of 2026-06-03-minutes-")
            && entry.ends_with("ended after the cancel; its result was discarded")
    };
    let stopping = history.iter().position(|entry| entry == "Stopping").expect("it was stopping");
    assert!(history[stopping..].iter().any(discarded), "{history:?}");
    assert!(instance.store.coverage(id).await.unwrap().is_empty());
}

/// Runs a job against a scripted mail server, and cancels it when a session has come to its hold or hang.
async fn cancel_at(script: Script) -> (Record, Server) {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start(script);
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    // The server still hangs: this returns because the worker has closed the connection.
    server.closed().await;
    worker.stop().await;
    (record, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_final_dot_keeps_the_message_back() {
    let d = Script::default;
    for (command, script) in [
        ("greeting", Script { greeting: Hang, ..d() }),
        ("EHLO", Script { ehlo: Hang, ..d() }),
        ("second EHLO", Script { ehlo_again: Hang, ..d() }),
        ("MAIL", Script { mail: Hang, ..d() }),
        ("RCPT", Script { rcpt: Hang, ..d() }),
        ("DATA", Script { data: Hang, ..d() }),
    ] {
        let (record, server) = cancel_at(script).await;
        assert_eq!(headline(&record.job), "Cancelled. Report saved; email not sent", "{command}");
        assert_eq!(server.commits(), 0, "{command}");
        let email = record.job.effect(2).unwrap();
        assert_eq!((email.outcome, email.not_done), (Outcome::NotDone, Some(NotDone::BrokenOff)), "{command}");
        let evidence = email.evidence.as_deref().unwrap_or_default();
        assert!(evidence.starts_with("broken off before the message was handed over"), "{command}: {evidence}");
    }
}

/// Cancels between the final dot of the last message that is sent and its reply, and then lets the reply go.
async fn cancel_at_the_dot(recipients: &[&str], before: usize, reply: &'static [u8]) -> (Record, Server) {
    let instance = Instance::new().await;
    instance.two_documents();
    let mut scripts = vec![Script::default(); before];
    scripts.push(Script { dot: Act::Hold(reply), commit: reply == ACCEPTED, ..Script::default() });
    scripts.push(Script::default());
    let server = Server::start_each(scripts);
    let id = instance.job(recipients).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    let record = cancel(&instance, id).await;
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Stopping, "Stopping…"));
    let waiting = contract::waiting_for(&record.job).unwrap();
    assert!(waiting.starts_with("A message has been handed to the mail server"), "{waiting}");
    server.release();
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    server.finished().await;
    (record, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_only_final_dot_came_too_late() {
    let (record, server) = cancel_at_the_dot(ONE, 0, ACCEPTED).await;
    let expected = "The cancel came too late. Report saved; email accepted by the mail service";
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Finished, expected));
    assert_eq!(server.commits(), 1);
    let evidence = record.job.effect(2).unwrap().evidence.clone().unwrap();
    assert!(evidence.starts_with("250 2.0.0 Ok: queued as ABC123"), "{evidence}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_at_the_second_of_three_lets_the_third_not_start() {
    let (record, server) = cancel_at_the_dot(THREE, 1, ACCEPTED).await;
    let expected = "Cancelled. Report saved; email accepted for 2 of 3";
    assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Cancelled, expected));
    assert_eq!(server.commits(), 2);
    assert_eq!(record.job.effect(4).unwrap().outcome, Outcome::NotStarted);
    assert!(!server.lines().iter().any(|line| line.contains("cleo@example.org")), "{:?}", server.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_the_final_dot_of_a_cancelled_job_is_told() {
    let (record, server) = cancel_at_the_dot(ONE, 0, b"554 5.7.1 no\r\n").await;
    assert_eq!(server.commits(), 0);
    assert!(record.job.phase.is_final());
    assert!(headline(&record.job).ends_with("Report saved; email refused for 1 of 1"), "{}", headline(&record.job));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_a_back_off_ends_at_once() {
    const LONG: &[Duration] = &[Duration::from_hours(1)];
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start(Script { rcpt: Say(b"451 4.3.0 later\r\n"), ..Script::default() });
    let id = instance.job(ONE).await;
    let dependencies = instance.dependencies_with_smtp(server.port);
    let worker = Running::start(Dependencies { mail_pauses: LONG, ..dependencies });
    let tried = |record: &Record| record.job.effect(2).is_some_and(|email| email.outcome == Outcome::NotDone);
    instance.wait(id, "the first attempt", tried).await;
    let cancelled = Instant::now();
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    println!("cancel to the end of the job in a back-off: {:?}", cancelled.elapsed());
    assert_eq!(headline(&record.job), "Cancelled. Report saved; email not sent");
    worker.stop().await;
    assert_eq!(record.job.effect(2).unwrap().attempts, 1);
    assert_eq!(server.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_nobody_works_is_final_at_once() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    assert_eq!(cancel(&instance, id).await.job.phase, Phase::Cancelled);
    let worker = Running::start(Dependencies { mail_pauses: NO_PAUSES, ..instance.dependencies() });
    let other = instance.job(ONE).await;
    assert_eq!(instance.wait_for_end(other).await.job.phase, Phase::Finished);
    worker.stop().await;
    assert_eq!(instance.record(id).await.job.epoch, 0, "nobody has claimed it");
    assert_eq!(instance.messages().len(), 1);
}
