//! Creating, claiming, keeping a claim, and what every change leaves behind.

use std::{collections::HashSet, sync::Arc};

use app::contract::{Outcome, Phase, StepKind, StepState, Verdict, headline};
use chrono::TimeDelta;
use server::{
    bus::{JobChanged, News},
    id::{JobId, RequestKey},
    people::Role,
    store::Heartbeat,
};
use tokio::task::JoinSet;

use crate::support::instance::{Instance, LEASE, terms};

#[tokio::test(flavor = "multi_thread")]
async fn invariant_10_create_is_idempotent_however_often_a_request_arrives_at_once() {
    let instance = Arc::new(Instance::new().await);
    let key = RequestKey::new();
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let instance = instance.clone();
        requests.spawn(async move {
            instance.store.create_job(instance.owner, key, &instance.spec(&["anna@example.org"])).await.expect("it works")
        });
    }
    let answers = requests.join_all().await;
    assert_eq!(answers.iter().map(|(id, _)| *id).collect::<HashSet<_>>().len(), 1);
    assert_eq!(answers.iter().filter(|(_, is_new)| *is_new).count(), 1);
    assert_eq!(instance.store.jobs(None, None, None, 100).await.unwrap().len(), 1);
    assert_eq!(instance.history(answers[0].0).await, ["Created"]);
}

#[tokio::test]
async fn a_key_belongs_to_the_person_who_sent_it() {
    let instance = Instance::new().await;
    let bob = instance.person("bob@example.org", Role::User).await;
    let (key, spec) = (RequestKey::new(), instance.spec(&["anna@example.org"]));
    let (adas, _) = instance.store.create_job(instance.owner, key, &spec).await.unwrap();
    let (bobs, is_new) = instance.store.create_job(bob, key, &spec).await.unwrap();
    assert!(is_new);
    assert_ne!(adas, bobs);
    assert_eq!(instance.store.job_of_request(instance.owner, key).await.unwrap(), Some(adas));
    assert_eq!(instance.store.job_of_request(bob, key).await.unwrap(), Some(bobs));
    assert_eq!(instance.store.job_of_request(bob, RequestKey::new()).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_job_intends_a_report_and_a_message_for_each_recipient() {
    let instance = Instance::new().await;
    let id = instance.job(&["anna@example.org", "bert@example.org"]).await;
    let record = instance.record(id).await;
    assert_eq!((record.row.version, record.job.phase, record.job.epoch), (1, Phase::Queued, 0));
    assert!(record.job.effects.iter().all(|effect| effect.outcome == Outcome::NotStarted));
    assert_eq!(record.targets[&2], "anna@example.org");
    assert_eq!(record.targets[&3], "bert@example.org");
    assert_ne!(record.message_ids[&2], record.message_ids[&3]);
    assert!(record.message_ids[&2].ends_with("@recount.test>"), "{:?}", record.message_ids);
    assert_eq!(headline(&record.job), "Waiting to start");
}

#[tokio::test]
async fn a_claim_takes_the_oldest_job_with_a_lease_and_an_epoch() {
    let instance = Instance::new().await;
    let (first, second) = (instance.job(&["anna@example.org"]).await, instance.job(&["anna@example.org"]).await);
    let claim = instance.claim("worker-1").await.unwrap();
    assert_eq!((claim.id, claim.epoch, claim.step), (first, 1, StepKind::Collect));
    let row = instance.record(first).await.row;
    let now = instance.store.clock().now();
    assert_eq!((row.lease_owner.as_deref(), row.lease_expires_at), (Some("worker-1"), Some(now + LEASE)));
    assert_eq!(row.started_at, Some(now));

    let only = instance.store.claim_job("worker-2", terms(Some(first))).await.unwrap();
    assert!(only.is_none(), "it has a live lease");
    assert_eq!(instance.claim("worker-2").await.unwrap().id, second);
    assert!(instance.claim("worker-3").await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_workers_one_gets_the_job() {
    let instance = Arc::new(Instance::new().await);
    for round in 0..10 {
        let id = instance.job(&["anna@example.org"]).await;
        let mut workers = JoinSet::new();
        for n in 0..8 {
            let instance = instance.clone();
            workers.spawn(async move { instance.claim(&format!("worker-{n}")).await });
        }
        let claims: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
        assert_eq!(claims.len(), 1, "round {round}");
        assert_eq!((claims[0].id, claims[0].epoch), (id, 1));
        assert_eq!(instance.record(id).await.job.epoch, 1);
    }
}

#[tokio::test]
async fn a_heartbeat_prolongs_the_lease_and_tells_whether_to_go_on() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Collect, &["anna@example.org"]).await;
    let version = instance.record(claim.id).await.row.version;
    let beat = |epoch| instance.store.heartbeat(claim.id, epoch, LEASE);
    let look = |epoch| instance.store.look(claim.id, epoch);

    instance.clock.advance(TimeDelta::seconds(10));
    assert_eq!((beat(1).await.unwrap(), look(1).await.unwrap()), (Heartbeat::GoOn, Heartbeat::GoOn));
    let record = instance.record(claim.id).await;
    assert_eq!(record.row.lease_expires_at, Some(instance.store.clock().now() + LEASE));
    assert_eq!(record.row.version, version, "nothing that a page shows has changed");

    assert_eq!((beat(2).await.unwrap(), look(0).await.unwrap()), (Heartbeat::Lost, Heartbeat::Lost));
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    assert_eq!((beat(1).await.unwrap(), look(1).await.unwrap()), (Heartbeat::Stop, Heartbeat::Stop));
    instance.change(claim.id, |job| job.account(1)).await.unwrap();
    assert_eq!((beat(1).await.unwrap(), look(1).await.unwrap()), (Heartbeat::Lost, Heartbeat::Lost));
    assert_eq!(instance.store.heartbeat(JobId::new(), 1, LEASE).await.unwrap(), Heartbeat::Lost);
}

/// Drives a job through everything that can happen on the way to its end, a dead worker included.
async fn eventful_job(instance: &Instance) -> JobId {
    let claim = instance.job_at(StepKind::Collect, &["anna@example.org", "bert@example.org"]).await;
    let id = claim.id;
    instance.change(id, |job| job.progress(1, 2, 5)).await.unwrap();
    instance.complete(&claim, StepKind::Collect).await.unwrap();
    let call = instance.change(id, |job| job.begin_model_call(1)).await.unwrap();
    instance.expire().await;
    let claim = instance.claim("worker-2").await.unwrap();
    assert_eq!((claim.epoch, claim.step), (2, StepKind::Summarize));
    let again = instance.change(id, |job| job.begin_model_call(2)).await.unwrap();
    assert_eq!(again, call + 1);
    instance.change(id, |job| job.settle(2, again, Verdict::Done("900 characters".into()))).await.unwrap();
    instance.complete(&claim, StepKind::Summarize).await.unwrap();
    instance.complete(&claim, StepKind::Save).await.unwrap();
    for number in instance.emails(id).await {
        instance.change(id, |job| job.begin_effect(2, number)).await.unwrap();
        instance.change(id, |job| job.doubt(2, number)).await.unwrap();
        instance.change(id, |job| job.settle(2, number, Verdict::Done("250 ok".into()))).await.unwrap();
    }
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    instance.change(id, |job| job.account(2)).await.unwrap();
    instance.store.cancel_job(id, "bob@example.org").await.unwrap();
    id
}

#[tokio::test]
async fn every_change_gets_the_next_version_and_is_announced() {
    let instance = Instance::new().await;
    let mut bus = instance.store.bus().subscribe();
    let id = eventful_job(&instance).await;
    let mut last = 0;
    while let Ok(News::Job(JobChanged { id: of, version, .. })) = bus.try_recv() {
        assert_eq!((of, version), (id, last + 1));
        last = version;
    }
    assert_eq!(instance.record(id).await.row.version, last);
    assert!(last > 15, "{last}");
}

#[tokio::test]
async fn the_history_tells_every_change() {
    let instance = Instance::new().await;
    let id = eventful_job(&instance).await;
    let expected = [
        "Created",
        "Collect: started",
        "Running",
        "Taken by worker worker-1",
        "Collect: done",
        "Summarize: started",
        "Model call 4: in flight",
        "Model call 4: not answered",
        "Summarize: will be done again",
        "The worker has not been heard of; what it had open was accounted for",
        "Summarize: started",
        "Taken by worker worker-2",
        "Model call 5: in flight",
        "Model call 5: answered",
        "Summarize: done",
        "Save: started",
        "Report: saved",
        "Save: done",
        "E-mail: started",
        "E-mail to anna@example.org: in flight",
        "E-mail to anna@example.org: handed over, no answer yet",
        "E-mail to anna@example.org: accepted by the mail service",
        "E-mail to bert@example.org: in flight",
        "E-mail to bert@example.org: handed over, no answer yet",
        "E-mail to bert@example.org: accepted by the mail service",
        "Cancel accepted, asked for by ada@example.org",
        "Stopping",
        "E-mail: done",
        "Finished",
        "Cancel pressed again by bob@example.org",
    ];
    assert_eq!(instance.history(id).await, expected);
}

#[tokio::test]
async fn a_change_that_changes_nothing_leaves_no_trace() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Collect, &["anna@example.org"]).await;
    instance.change(claim.id, |job| job.progress(1, 3, 5)).await.unwrap();
    let version = instance.record(claim.id).await.row.version;
    // Progress only grows: what is smaller is no change.
    instance.change(claim.id, |job| job.progress(1, 2, 4)).await.unwrap();
    let record = instance.record(claim.id).await;
    assert_eq!(record.row.version, version);
    let step = record.job.step(StepKind::Collect).copied().unwrap();
    assert_eq!((step.done, step.total, step.state), (3, 5, StepState::Running));
}
