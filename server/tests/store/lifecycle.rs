//! Creating, claiming, keeping a claim, and what every change leaves behind.

use std::{collections::HashSet, sync::Arc};

use chrono::TimeDelta;
use contract::{Epoch, Job, Outcome, Phase, Refusal, StepKind, StepState, Verdict, headline};
use domain::{
    id::{JobId, RequestKey},
    people::Role,
};
use store::{
    ClaimTerms, Heartbeat,
    notifications::{JobChanged, News},
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
async fn an_announced_job_is_taken_as_long_as_it_is_to_be_had() {
    let instance = Instance::new().await;
    let mut notifications = instance.store.notifications().subscribe();
    let (first, second) = (instance.job(&["anna@example.org"]).await, instance.job(&["anna@example.org"]).await);
    let announced = [notifications.recv().await.unwrap(), notifications.recv().await.unwrap()].map(|news| match news {
        News::Job(change) => change,
        News::Anything => panic!("this process has missed nothing"),
    });
    assert_eq!(
        announced.map(|change| (change.id, change.owner, change.waits)),
        [first, second].map(|id| (id, instance.owner, true))
    );

    let take = |which: usize, terms| instance.store.claim_announced(announced[which], "worker-1", terms);
    assert!(take(1, terms(Some(first))).await.unwrap().is_none(), "it was not to be taken");
    let claim = take(1, terms(None)).await.unwrap().unwrap();
    assert_eq!((claim.id, claim.epoch, claim.step), (second, 1, StepKind::Collect));
    let row = instance.record(second).await.row;
    assert_eq!((row.lease_owner.as_deref(), row.lease_expires_at), (Some("worker-1"), Some(row.started_at.unwrap() + LEASE)));
    assert!(take(1, terms(None)).await.unwrap().is_none(), "it has a live lease");

    let one_each = ClaimTerms { per_person: Some(1), ..terms(None) };
    assert!(take(0, one_each).await.unwrap().is_none(), "its owner has one at work");
    instance.store.cancel_job(first, "ada@example.org").await.unwrap();
    assert!(take(0, terms(None)).await.unwrap().is_none(), "it has ended");
    assert_eq!(instance.history(first).await.iter().filter(|entry| entry.contains("worker-1")).count(), 0);
}

/// The claim of an announced job locks nothing: the version of the record decides.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_was_first_keeps_an_announced_job_from_being_taken() {
    let instance = Arc::new(Instance::new().await);
    let id = instance.job(&["anna@example.org"]).await;
    let announced = JobChanged { id, owner: instance.owner, version: 1, waits: true, goes_on: false };
    let mut change = instance.store.change_job(id).await.unwrap().unwrap();
    let claiming = tokio::spawn({
        let instance = instance.clone();
        async move { instance.store.claim_announced(announced, "worker-1", terms(None)).await }
    });
    change.note("Somebody looked".into());
    change.commit().await.unwrap();
    let taken = claiming.await.unwrap().unwrap();
    // The claim has read the record before that change or after it; nothing of one that failed is left.
    let record = instance.record(id).await;
    let (version, epoch) = if taken.is_some() { (3, 1) } else { (2, 0) };
    assert_eq!((record.row.version, record.job.epoch, record.job.leased), (version, epoch, taken.is_some()));
    let entries = instance.history(id).await;
    assert_eq!(entries.iter().filter(|entry| entry.contains("worker-1")).count(), usize::from(taken.is_some()), "{entries:?}");
    assert_eq!(entries.iter().filter(|entry| *entry == "Somebody looked").count(), 1);
}

/// More than one statement has room for.
#[tokio::test]
async fn a_change_of_very_many_effects_is_written_whole() {
    let instance = Instance::new().await;
    let people: Vec<String> = (0..120).map(|n| format!("person-{n}@example.org")).collect();
    let people: Vec<&str> = people.iter().map(String::as_str).collect();
    let claim = instance.job_at(StepKind::Email, &people).await;
    let emails = instance.emails(claim.id).await;
    assert_eq!(emails.len(), 120);
    let each = |job: &mut Job, act: fn(&mut Job, Epoch, u32) -> Result<(), Refusal>| {
        emails.iter().try_for_each(|&number| act(job, claim.epoch, number))
    };
    instance.change(claim.id, |job| each(job, Job::begin_effect)).await.unwrap();
    instance.change(claim.id, |job| each(job, Job::doubt)).await.unwrap();
    let settle = |job: &mut Job, epoch, number| job.settle(epoch, number, Verdict::Done("250 ok".into()));
    instance.change(claim.id, |job| each(job, settle)).await.unwrap();
    let record = instance.record(claim.id).await;
    assert!(record.job.emails().all(|email| (email.outcome, email.attempts) == (Outcome::Done, 1)));
    for number in emails {
        let attempts = instance.store.effect(claim.id, number).await.unwrap().unwrap().attempts;
        assert_eq!(attempts.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [Outcome::Done], "{number}");
    }
    let told = instance.history(claim.id).await.iter().filter(|entry| entry.contains("person-")).count();
    assert_eq!(told, 3 * 120);
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
    let mut notifications = instance.store.notifications().subscribe();
    let id = eventful_job(&instance).await;
    let mut last = 0;
    while let Ok(News::Job(JobChanged { id: of, version, .. })) = notifications.try_recv() {
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
