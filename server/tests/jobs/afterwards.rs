//! Corrections and second copies through a worker: the bytes that go out, and what cancels, crashes and people do to them.

use chrono::TimeDelta;
use contract::{NotDone, Outcome, Phase, Unconfirmed, headline};
use domain::{
    id::{JobId, RequestKey},
    spec::Task,
};
use mail::outbox::Outbox;
use store::{Mailing, Record};
use tokio::time::timeout;

use crate::support::{
    channels::{Dark, Stands},
    ended::ordered,
    instance::{Instance, LEASE, PATIENCE},
    smtp_server::{
        Act::{Close, Hold, Say},
        Script, Server,
    },
    worker::Running,
};

const ANNA: &str = "anna@example.org";
const BERT: &str = "bert@example.org";
const ADA: &str = "ada@example.org";

/// Runs a job, or a mailing, to its end.
async fn work(instance: &Instance, port: u16, id: JobId) -> Record {
    let worker = Running::start(instance.dependencies_with_smtp(port));
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    record
}

async fn report(instance: &Instance, port: u16, recipients: &[&str]) -> Record {
    instance.two_documents();
    let id = instance.job(recipients).await;
    work(instance, port, id).await
}

async fn correct(instance: &Instance, about: JobId, text: &str) -> JobId {
    let task = Task::Correction { about, text: text.into(), by: ADA.into() };
    ordered(instance.store.order_mailing(RequestKey::new(), task, ADA, "", false).await.unwrap())
}

/// The message as it was stored; what a server has read has its dots doubled and ends with the final one.
async fn stored(instance: &Instance, id: JobId, number: u32) -> String {
    String::from_utf8(instance.store.message(id, number).await.unwrap().unwrap().bytes).unwrap()
}

fn read(body: &[u8]) -> String {
    let text = String::from_utf8(body.to_vec()).unwrap().replace("\r\n..", "\r\n.");
    text.strip_suffix(".\r\n").unwrap().to_owned()
}

/// The values of a header field, unfolded.
fn header(message: &str, name: &str) -> Vec<String> {
    let head = message.split("\r\n\r\n").next().unwrap().replace("\r\n ", " ");
    head.split("\r\n").filter_map(|line| Some(line.strip_prefix(&format!("{name}: "))?.to_owned())).collect()
}

/// The message with its quoted-printable undone, as far as these tests need it.
fn readable(message: &str) -> String {
    message.replace("=\r\n", "").replace("=3D", "=")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_answers_the_first_message_of_each_recipient() {
    let (instance, server) = (Instance::new().await, Server::start(Script::default()));
    let first = report(&instance, server.port, &[ANNA, BERT]).await;
    instance.clock.advance(TimeDelta::days(1));
    let id = correct(
        &instance,
        first.row.id,
        "The sum is 130,000.\r\n.\r\nBcc: eve@example.org\r\n\r\n<b onclick='x'>Sorry</b>\twe & all",
    )
    .await;
    instance.clock.advance(TimeDelta::hours(1));
    let record = work(&instance, server.port, id).await;
    server.finished().await;
    assert_eq!(headline(&record.job), "Correction accepted by the mail service");
    assert_eq!(server.commits(), 4);
    for (at, number, to) in [(2, 1, ANNA), (3, 2, BERT)] {
        let message = read(&server.bodies()[at]);
        assert_eq!(message, stored(&instance, id, number).await);
        let about = &first.message_ids[&(number + 1)];
        assert_eq!(header(&message, "Subject"), ["Correction: Report for June 2026: Minutes"]);
        assert_eq!(header(&message, "To"), [to]);
        assert_eq!(header(&message, "Message-ID"), [record.message_ids[&number].clone()]);
        assert_eq!((header(&message, "In-Reply-To"), header(&message, "References")), (vec![about.clone()], vec![about.clone()]));
        assert_eq!(header(&message, "Date"), ["Thu, 02 Jul 2026 08:00:00 +0000"], "when it was asked for, not when it went out");
        assert_eq!(header(&message, "X-Recount-Job"), [id.to_string()]);
        assert!(header(&message, "Bcc").is_empty());
        let text = readable(&message);
        assert!(
            text.contains("The sum is 130,000.\r\n.\r\nBcc: eve@example.org\r\n\r\n<b onclick='x'>Sorry</b> we & all\r\n"),
            "{text}"
        );
        assert!(text.contains("&lt;b onclick=&#39;x&#39;&gt;Sorry&lt;/b&gt; we &amp; all</blockquote>"), "{text}");
        assert!(text.contains(&format!("because {ADA} asked Recount to send this correction to {to}")), "{text}");
        assert!(text.contains("http://recount.test/reports/"), "{text}");
    }
    let after = instance.record(first.row.id).await;
    assert_eq!((after.job.phase, headline(&after.job)), (first.job.phase, headline(&first.job)), "the first job stays as it was");
    assert_eq!(after.job.effects, first.job.effects);
}

/// Whoever knows the Message-ID of an unconfirmed message could make up the proof that it came.
#[tokio::test(flavor = "multi_thread")]
async fn a_correction_does_not_name_a_first_message_that_is_unconfirmed() {
    let instance = Instance::new().await;
    let server = Server::start_each(vec![Script { dot: Close, ..Script::default() }, Script::default()]);
    let first = report(&instance, server.port, &[ANNA, BERT]).await;
    assert_eq!(headline(&first.job), "Report saved; email outcome unconfirmed");
    let id = correct(&instance, first.row.id, "The sum is 130,000.").await;
    work(&instance, server.port, id).await;
    server.finished().await;
    let messages = [stored(&instance, id, 1).await, stored(&instance, id, 2).await];
    let [unconfirmed, accepted] = [2, 3].map(|number| first.message_ids[&number].clone());
    assert!(!messages[0].contains(unconfirmed.trim_matches(['<', '>'])), "{}", messages[0]);
    assert!(header(&messages[0], "In-Reply-To").is_empty() && header(&messages[0], "References").is_empty());
    assert_eq!(header(&messages[1], "In-Reply-To"), [accepted]);

    // Nor one of which a second copy is.
    let refused = Script { rcpt: Say(b"550 5.1.1 no such user\r\n"), ..Script::default() };
    let closes = Script { dot: Close, ..Script::default() };
    let server = Server::start_each(vec![refused, closes, Script::default()]);
    let first = report(&instance, server.port, &[ANNA]).await;
    let copy = ordered(instance.second_copy(first.row.id, 2).await);
    assert_eq!(headline(&work(&instance, server.port, copy).await.job), "Second copy outcome unconfirmed");
    let id = correct(&instance, first.row.id, "The sum is 130,000.").await;
    work(&instance, server.port, id).await;
    assert!(header(&stored(&instance, id, 1).await, "In-Reply-To").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_correction_in_any_script_is_a_message_that_servers_take() {
    let (instance, server) = (Instance::new().await, Server::start(Script::default()));
    let first = report(&instance, server.port, &[ANNA]).await;
    for text in ["x".repeat(4000), "六月の報告 🎉".repeat(400), "-- \r\n.".repeat(500)] {
        let id = correct(&instance, first.row.id, &text).await;
        assert_eq!(headline(&work(&instance, server.port, id).await.job), "Correction accepted by the mail service");
        let message = stored(&instance, id, 1).await;
        assert!(message.is_ascii() && message.split("\r\n").all(|line| line.len() <= 998));
        assert_eq!(read(server.bodies().last().unwrap()), message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_copy_of_an_unconfirmed_message_has_the_same_bytes() {
    let instance = Instance::new().await;
    let server = Server::start_each(vec![Script { dot: Close, ..Script::default() }, Script::default()]);
    let first = report(&instance, server.port, &[ANNA]).await;
    assert_eq!(headline(&first.job), "Report saved; email outcome unconfirmed");
    instance.clock.advance(TimeDelta::days(3));
    let id = ordered(instance.second_copy(first.row.id, 2).await);
    let record = work(&instance, server.port, id).await;
    server.finished().await;
    assert_eq!(headline(&record.job), "Second copy accepted by the mail service");
    let bodies = server.bodies();
    assert_eq!((bodies.len(), &bodies[0]), (2, &bodies[1]), "to the byte: Message-ID and Date included");
    assert_eq!(read(&bodies[1]), stored(&instance, first.row.id, 2).await);
    assert_eq!(record.message_ids[&1], first.message_ids[&2]);
    let email = instance.record(first.row.id).await.job.effect(2).cloned().unwrap();
    assert_eq!((email.outcome, email.attempts), (Outcome::Unconfirmed, 1), "nobody knows more about the first one");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_or_given_up_goes_out_once_more_on_a_persons_word() {
    for (script, sessions, why) in [
        (Script { rcpt: Say(b"550 5.1.1 no such user\r\n"), ..Script::default() }, 1, NotDone::Refused),
        (Script { mail: Say(b"451 4.3.0 later\r\n"), ..Script::default() }, 3, NotDone::GaveUp),
    ] {
        let instance = Instance::new().await;
        let mut scripts = vec![script; sessions];
        scripts.push(Script::default());
        let server = Server::start_each(scripts);
        let first = report(&instance, server.port, &[ANNA]).await;
        assert_eq!(first.job.effect(2).unwrap().not_done, Some(why));
        let id = ordered(instance.second_copy(first.row.id, 2).await);
        let record = work(&instance, server.port, id).await;
        server.finished().await;
        assert_eq!((headline(&record.job).as_str(), server.commits()), ("Second copy accepted by the mail service", 1));
        assert_eq!(read(&server.bodies()[0]), stored(&instance, first.row.id, 2).await);
        assert_eq!(instance.record(first.row.id).await.job, first.job);

        // The correction answers that message as well.
        let correction = correct(&instance, first.row.id, "Wrong sum.").await;
        work(&instance, server.port, correction).await;
        assert_eq!(header(&stored(&instance, correction, 1).await, "In-Reply-To"), [first.message_ids[&2].clone()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mailings_go_into_the_outbox_folder_too() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(&[ANNA]).await;
    let worker = Running::start(instance.dependencies());
    instance.wait_for_end(id).await;
    let correction = correct(&instance, id, "Wrong sum.").await;
    let record = instance.wait_for_end(correction).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Correction written to the outbox folder, no e-mail was sent");
    let messages = instance.messages();
    assert_eq!(messages.len(), 2);
    let corrected = stored(&instance, correction, 1).await;
    assert!(messages.iter().any(|(_, text)| *text == corrected));
}

/// A second copy that waits, of a message that was refused.
async fn waiting_copy(second: Script) -> (Instance, Server, Record, JobId) {
    let instance = Instance::new().await;
    let server = Server::start_each(vec![Script { rcpt: Say(b"550 no\r\n"), ..Script::default() }, second, Script::default()]);
    let first = report(&instance, server.port, &[ANNA]).await;
    let id = ordered(instance.second_copy(first.row.id, 2).await);
    (instance, server, first, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mailing_that_is_cancelled_while_it_waits_goes_nowhere() {
    let (instance, server, first, id) = waiting_copy(Script::default()).await;
    instance.store.cancel_job(id, ADA).await.unwrap();
    assert_eq!(headline(&instance.record(id).await.job), "Cancelled. Second copy not started");
    let next = report(&instance, server.port, &[BERT]).await;
    server.finished().await;
    assert_eq!((next.job.phase, server.commits()), (Phase::Finished, 1), "only the next job's message");
    assert!(!server.lines().iter().skip_while(|line| !line.contains("QUIT")).any(|line| line.contains(ANNA)));
    assert!(
        matches!(instance.second_copy(first.row.id, 2).await, Mailing::Job(other) if other != id),
        "it may be asked for again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_final_dot_keeps_a_mailing_from_going_out() {
    for script in
        [Script { rcpt: Hold(b"250 ok\r\n"), ..Script::default() }, Script { data: Hold(b"354 go on\r\n"), ..Script::default() }]
    {
        let (instance, server, _, id) = waiting_copy(script).await;
        let worker = Running::start(instance.dependencies_with_smtp(server.port));
        server.reached().await;
        instance.store.cancel_job(id, ADA).await.unwrap();
        let record = instance.wait_for_end(id).await;
        worker.stop().await;
        server.finished().await;
        assert_eq!((headline(&record.job).as_str(), server.commits()), ("Cancelled. Second copy not sent", 0));
        assert_eq!(record.job.effect(1).unwrap().not_done, Some(NotDone::BrokenOff));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_final_dot_of_a_mailing_comes_too_late() {
    let (instance, server, _, id) = waiting_copy(Script { dot: Hold(b"250 queued\r\n"), ..Script::default() }).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    instance.store.cancel_job(id, ADA).await.unwrap();
    assert_eq!(instance.record(id).await.job.phase, Phase::Stopping);
    server.release();
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "The cancel came too late. Second copy accepted by the mail service");
    assert_eq!(server.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_in_a_mailing_sends_nothing_twice() {
    for (script, headline_then, commits) in [
        (Script { dot: Hold(b"250 queued\r\n"), ..Script::default() }, "Second copy outcome unconfirmed", 1),
        (Script { rcpt: Hold(b"250 ok\r\n"), ..Script::default() }, "Second copy accepted by the mail service", 1),
    ] {
        let (instance, server, _, id) = waiting_copy(script).await;
        let worker = Running::start(instance.dependencies_with_smtp(server.port));
        server.reached().await;
        worker.kill().await;
        instance.clock.advance(LEASE + TimeDelta::seconds(1));
        let record = work(&instance, server.port, id).await;
        server.finished().await;
        assert_eq!((headline(&record.job).as_str(), server.commits()), (headline_then, commits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_whose_worker_dies_in_the_dark_is_found_in_the_outbox() {
    let instance = Instance::new().await;
    instance.two_documents();
    let about = instance.job(&[ANNA]).await;
    let worker = Running::start(instance.dependencies());
    instance.wait_for_end(about).await;
    worker.stop().await;
    let id = correct(&instance, about, "Wrong sum.").await;
    let (dark, reached) = Dark::new(Outbox::open(instance.folder().join("outbox")).unwrap(), Stands::AfterTheFile);
    let worker = Running::start(instance.dependencies_with(dark));
    timeout(PATIENCE, reached.notified()).await.expect("the delivery begins");
    worker.kill().await;
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Correction written to the outbox folder, no e-mail was sent");
    assert_eq!((record.job.effect(1).unwrap().attempts, instance.messages().len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_withdrawn_between_two_attempts_at_its_second_copy_does_not_go_out() {
    let (instance, server, first, id) = waiting_copy(Script { rcpt: Hold(b"450 later\r\n"), ..Script::default() }).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    instance.store.withdraw_report(first.row.id, ADA, "wrong month").await.unwrap().unwrap();
    server.release();
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Failed while e-mailing the second copy. Second copy not sent");
    assert_eq!(server.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_withdrawn_while_its_second_copy_waits_does_not_go_out() {
    let (instance, server, first, id) = waiting_copy(Script::default()).await;
    instance.store.withdraw_report(first.row.id, ADA, "wrong month").await.unwrap().unwrap();
    let record = work(&instance, server.port, id).await;
    server.finished().await;
    assert_eq!(headline(&record.job), "Failed while e-mailing the second copy. Second copy not started");
    assert_eq!(record.job.failure.unwrap().reason, "The report was withdrawn before its link went out again.");
    assert_eq!(server.commits(), 0);
}

/// A job that is stopping: its worker waits for the mail server's answer, and a person does not.
async fn accounted_for(answer: &'static [u8]) -> (Instance, Server, Running, JobId) {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = Server::start(Script { dot: Hold(answer), ..Script::default() });
    let id = instance.job(&[ANNA]).await;
    let worker = Running::start(instance.dependencies_with_smtp(server.port));
    server.reached().await;
    instance.store.cancel_job(id, ADA).await.unwrap();
    instance.store.account_now(id, "admin@example.org", "I do not wait").await.unwrap().unwrap();
    assert_eq!(headline(&instance.record(id).await.job), "Cancelled. Report saved; email outcome unconfirmed");
    (instance, server, worker, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_that_nobody_waited_for_still_brings_its_evidence() {
    for (answer, outcome, sentence) in [
        (&b"250 2.0.0 queued\r\n"[..], Outcome::Done, "Cancelled. Report saved; email accepted for 1 of 1"),
        (b"554 5.7.1 spam\r\n", Outcome::NotDone, "Cancelled. Report saved; email refused for 1 of 1"),
    ] {
        let (instance, server, worker, id) = accounted_for(answer).await;
        server.release();
        let record = instance.wait(id, "the answer", |record| record.job.effect(2).unwrap().outcome == outcome).await;
        worker.stop().await;
        assert_eq!((record.job.phase, headline(&record.job).as_str()), (Phase::Cancelled, sentence));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_contradicts_a_person_is_kept_beside_their_word() {
    let (instance, server, worker, id) = accounted_for(b"250 2.0.0 queued\r\n").await;
    let unattended = instance.record(id).await.job.effect(2).unwrap().unconfirmed;
    assert_eq!(unattended, Some(Unconfirmed::Unattended), "its worker may still get an answer");
    instance.store.settle_by_person(id, 2, false, "admin@example.org", "nothing came").await.unwrap().unwrap();
    assert_eq!(headline(&instance.record(id).await.job), "Cancelled. Report saved; email not sent");
    server.release();
    worker.stop().await;
    let job = instance.record(id).await.job;
    let email = job.effect(2).cloned().unwrap();
    assert_eq!((email.outcome, email.not_done), (Outcome::NotDone, Some(NotDone::Attested)), "what is settled stays");
    assert!(email.contradiction.is_some_and(|late| late.starts_with("250 2.0.0 queued")));
    assert_eq!(headline(&job), "Cancelled. Report saved; email: a person said it was not accepted; the mail service says it was");
    let history = instance.store.effect(id, 2).await.unwrap().unwrap().history;
    let last = &history.last().unwrap().1;
    assert!(last.starts_with("The worker's answer came late: 250 2.0.0 queued"), "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_contradicts_a_person_is_kept_beside_their_word() {
    let (instance, server, worker, id) = accounted_for(b"554 5.7.1 spam\r\n").await;
    instance.store.settle_by_person(id, 2, true, "admin@example.org", "seen in the log").await.unwrap().unwrap();
    server.release();
    worker.stop().await;
    let job = instance.record(id).await.job;
    assert_eq!(job.effect(2).unwrap().outcome, Outcome::Done, "what is settled stays");
    assert_eq!(headline(&job), "Cancelled. Report saved; email: a person said it was accepted; the mail service says it was not");
}
