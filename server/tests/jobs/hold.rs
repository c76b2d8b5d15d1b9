//! The wait before the e-mail: nobody works on a held job, so a cancel in it is always clean, and no death matters.

use chrono::TimeDelta;
use contract::{Phase, headline};
use domain::{
    hold::Hold,
    id::{JobId, RequestKey},
    spec::Spec,
};

use crate::support::{instance::Instance, worker::Running};

const ONE: &[&str] = &["anna@example.org"];

/// A job that is held, with its worker.
async fn held(instance: &Instance, hold: Hold) -> (JobId, Running) {
    instance.two_documents();
    let spec = Spec { hold, ..instance.spec(ONE) };
    let (id, _) = instance.store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap();
    let worker = Running::start(instance.dependencies());
    let record = instance.wait(id, "the hold", |record| record.job.is_held()).await;
    assert_eq!(headline(&record.job), "Report saved; email not sent yet");
    assert!(record.row.report_id.is_some() && record.row.lease_owner.is_none());
    (id, worker)
}

async fn sent_once(instance: &Instance, id: JobId, worker: Running) {
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    assert_eq!(instance.messages().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_countdown_lets_the_e_mail_go_when_its_time_has_come() {
    let instance = Instance::new().await;
    let (id, worker) = held(&instance, Hold::Countdown(30)).await;
    let until = instance.record(id).await.row.hold_until.expect("a countdown ends");
    instance.clock.advance(TimeDelta::seconds(29));
    instance.store.end_due_holds().await.unwrap();
    assert!(instance.record(id).await.job.is_held());
    instance.clock.advance(until - instance.store.clock().now());
    sent_once(&instance, id, worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_lets_it_go_once() {
    let instance = Instance::new().await;
    let (id, worker) = held(&instance, Hold::Approval).await;
    instance.clock.advance(TimeDelta::days(3));
    instance.store.end_due_holds().await.unwrap();
    assert!(instance.record(id).await.job.is_held(), "no time ends a wait for approval");
    assert_eq!(instance.store.send_now(id, "ada@example.org").await.unwrap(), Some(true));
    sent_once(&instance, id, worker).await;
    assert_eq!(instance.store.send_now(id, "ada@example.org").await.unwrap(), Some(false));
    let history = instance.store.history(id).await.unwrap();
    assert!(history.iter().any(|(_, entry)| entry == "Sent now by ada@example.org"), "{history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_hold_is_clean_and_at_once() {
    for hold in [Hold::Countdown(30), Hold::Approval] {
        let instance = Instance::new().await;
        let (id, worker) = held(&instance, hold).await;
        let (_, record) = instance.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
        assert_eq!(record.job.phase, Phase::Cancelled);
        assert_eq!(headline(&record.job), "Cancelled. Report saved; email not started");
        instance.clock.advance(TimeDelta::days(1));
        instance.store.end_due_holds().await.unwrap();
        assert_eq!(instance.store.send_now(id, "ada@example.org").await.unwrap(), Some(false));
        worker.stop().await;
        assert_eq!(instance.messages().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_neither_ends_nor_prolongs_a_hold() {
    let instance = Instance::new().await;
    let (id, worker) = held(&instance, Hold::Countdown(30)).await;
    let until = instance.record(id).await.row.hold_until;
    worker.kill().await;
    assert_eq!(instance.recover().await, []);
    let next = Running::start(instance.dependencies());
    instance.clock.advance(TimeDelta::seconds(10));
    assert_eq!(instance.record(id).await.row.hold_until, until);
    instance.clock.advance(TimeDelta::seconds(20));
    sent_once(&instance, id, next).await;
}
