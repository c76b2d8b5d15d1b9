//! Unconfirmed e-mails of a service that recognises a message by its key: the answer to the same message is the answer to the
//! first one, as long as the key is recognised and nobody has cancelled.

use chrono::TimeDelta;
use contract::{NotDone, Outcome, headline};
use server::worker::{Dependencies, reconcile::due_probes};
use store::{ProbeRecord, ProbeResult, Record};

use crate::support::{
    instance::{Instance, LEASE},
    resend_server::{
        Account,
        Act::{Dropped, Taken},
        Api, Ending,
    },
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const TOO_EARLY: TimeDelta = TimeDelta::seconds(59);

/// How often a message was handed over; questions about earlier ones do not count.
fn handed_over(api: &Api) -> usize {
    api.requests().iter().filter(|(head, _)| head.starts_with("POST ")).count()
}

/// A finished job whose only e-mail is unconfirmed, since the service's first answer was lost.
async fn unconfirmed(api: &Api) -> (Instance, Dependencies, Record) {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    let dependencies = instance.dependencies_with(api.channel());
    let worker = Running::start(dependencies.clone());
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; email outcome unconfirmed");
    (instance, dependencies, record)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_and_no_second_message_is_made() {
    // With an API key that may only send, what was sent cannot be listed.
    let account = Account { keeps_message_ids: true, may_list: false };
    let api = Api::start_for(vec![Taken(Ending::Close)], account).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    let id = record.row.id;
    instance.clock.advance(TOO_EARLY);
    due_probes(&dependencies).await;
    assert_eq!(instance.store.probes(id, 2).await.unwrap(), []);
    instance.clock.advance(TimeDelta::seconds(1));
    due_probes(&dependencies).await;
    let record = instance.record(id).await;
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    assert_eq!((handed_over(&api), api.taken().len()), (2, 1));
    let probes = instance.store.probes(id, 2).await.unwrap();
    let results: Vec<_> = probes.iter().map(|look| look.end.clone().unwrap().1).collect();
    assert_eq!(results, [ProbeResult::Failed, ProbeResult::Found]);
    assert!(probes[1].end.as_ref().is_some_and(|(_, _, text)| text.contains(&api.taken()[0].id)), "{probes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_service_lists_is_not_handed_over_again() {
    let api = Api::start(vec![Taken(Ending::Close)]).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    let record = instance.record(record.row.id).await;
    assert_eq!((record.job.effect(2).unwrap().outcome, handed_over(&api), api.taken().len()), (Outcome::Done, 1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_arrived_arrives_with_the_repetition() {
    let api = Api::start(vec![Dropped(Ending::Close)]).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    assert_eq!(api.taken().len(), 0);
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    let record = instance.record(record.row.id).await;
    assert_eq!((record.job.effect(2).unwrap().outcome, api.taken().len()), (Outcome::Done, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_handed_over_again_once_the_key_may_be_forgotten() {
    let api = Api::start(vec![Dropped(Ending::Close)]).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    let asked = handed_over(&api);
    instance.clock.advance(TimeDelta::hours(23));
    due_probes(&dependencies).await;
    assert_eq!(handed_over(&api), asked);
    assert_eq!(instance.record(record.row.id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_makes_no_key_younger() {
    let api = Api::start(vec![Dropped(Ending::Close)]).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    let asked = handed_over(&api);
    instance.clock.advance(TimeDelta::hours(26));
    instance.clock.jump(TimeDelta::hours(-6));
    due_probes(&dependencies).await;
    assert_eq!(handed_over(&api), asked);
    assert_eq!(instance.record(record.row.id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_repetition_settles_nothing() {
    let refusal = r#"{"statusCode":403,"name":"forbidden","message":"the account is closed"}"#;
    let api = Api::start(vec![Dropped(Ending::Close), Dropped(Ending::Say(403, refusal))]).await;
    let (instance, dependencies, record) = unconfirmed(&api).await;
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    let email = instance.record(record.row.id).await.job.effect(2).unwrap().clone();
    assert_eq!((email.outcome, email.not_done), (Outcome::Unconfirmed, None::<NotDone>));
    let probes = instance.store.probes(record.row.id, 2).await.unwrap();
    let refused = |look: &ProbeRecord| {
        look.end.as_ref().is_some_and(|(_, result, text)| *result == ProbeResult::Nothing && text.contains("forbidden"))
    };
    assert!(probes.iter().any(refused), "{probes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_cancelled_hands_nothing_over_again() {
    let api = Api::start(vec![Dropped(Ending::Hang)]).await;
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    let dependencies = instance.dependencies_with(api.channel());
    let worker = Running::start(dependencies.clone());
    instance.wait(id, "the message", |record| record.job.effect(2).is_some_and(|e| e.outcome == Outcome::InDoubt)).await;
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    worker.kill().await;
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    instance.store.recover_job(id).await.unwrap();
    assert_eq!(headline(&instance.record(id).await.job), "Cancelled. Report saved; email outcome unconfirmed");
    let asked = handed_over(&api);
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    assert_eq!((handed_over(&api), api.taken().len()), (asked, 0));
}
