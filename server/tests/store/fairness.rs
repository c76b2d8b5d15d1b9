//! Who is served first, and that one person's many jobs do not starve others.

use std::{collections::HashMap, sync::Arc};

use contract::{Phase, StepKind};
use domain::{
    id::{JobId, RequestKey, UserId},
    people::Role,
};
use server::worker::WorkerOptions;
use store::{Claim, ClaimTerms};
use tokio::{sync::Barrier, task::JoinSet};

use crate::support::{
    instance::{Instance, LEASE},
    worker::Running,
};

const TWO_EACH: ClaimTerms = ClaimTerms { lease: LEASE, per_person: Some(2), only: None };

async fn job_of(instance: &Instance, owner: UserId) -> JobId {
    let made = instance.store.create_job(owner, RequestKey::new(), &instance.spec(&["anna@example.org"])).await;
    made.expect("the database works").0
}

async fn claim(instance: &Instance) -> Option<Claim> {
    instance.store.claim_job("worker", TWO_EACH).await.expect("the database works")
}

#[tokio::test]
async fn first_come_first_served_but_for_who_has_enough_at_work() {
    let instance = Instance::new().await;
    let bert = instance.person("bert@example.org", Role::User).await;
    let mut of_ada = Vec::new();
    for _ in 0..4 {
        of_ada.push(job_of(&instance, instance.owner).await);
    }
    let of_bert = job_of(&instance, bert).await;
    of_ada.push(job_of(&instance, instance.owner).await);

    let (first, second) = (claim(&instance).await.unwrap(), claim(&instance).await.unwrap());
    assert_eq!([first.id, second.id], of_ada[..2]);
    assert_eq!(claim(&instance).await.unwrap().id, of_bert, "ada has two at work");
    assert!(claim(&instance).await.is_none());

    instance.change(first.id, |job| job.release(first.epoch)).await.unwrap();
    assert_eq!(claim(&instance).await.unwrap().id, first.id, "the oldest that waits, though it was at work before");
    instance.change(second.id, |job| job.fail(second.epoch, "no documents")).await.unwrap();
    assert_eq!(claim(&instance).await.unwrap().id, of_ada[2]);
    assert!(claim(&instance).await.is_none());
    let unlimited = ClaimTerms { per_person: None, ..TWO_EACH };
    assert_eq!(instance.store.claim_job("worker", unlimited).await.unwrap().unwrap().id, of_ada[3]);
}

#[tokio::test]
async fn a_held_job_is_not_at_work() {
    let instance = Instance::new().await;
    let one_each = ClaimTerms { per_person: Some(1), ..TWO_EACH };
    let held = domain::spec::Spec { hold: domain::hold::Hold::Approval, ..instance.spec(&["anna@example.org"]) };
    instance.store.create_job(instance.owner, RequestKey::new(), &held).await.unwrap();
    let next = job_of(&instance, instance.owner).await;
    let claim = instance.store.claim_job("worker", one_each).await.unwrap().unwrap();
    for step in [StepKind::Collect, StepKind::Summarize] {
        instance.complete(&claim, step).await.unwrap();
    }
    assert!(instance.store.claim_job("worker", one_each).await.unwrap().is_none());
    instance.complete(&claim, StepKind::Save).await.unwrap();
    assert!(instance.record(claim.id).await.job.is_held());
    assert_eq!(instance.store.claim_job("worker", one_each).await.unwrap().unwrap().id, next);
}

/// Whoever counts before another one's commit would take one too many.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_when_many_workers_look_at_the_same_time() {
    const WORKERS: usize = 8;
    let instance = Arc::new(Instance::new().await);
    let bert = instance.person("bert@example.org", Role::User).await;
    for owner in [instance.owner, bert] {
        for _ in 0..WORKERS {
            job_of(&instance, owner).await;
        }
    }
    let (mut workers, start) = (JoinSet::new(), Arc::new(Barrier::new(WORKERS)));
    for _ in 0..WORKERS {
        let (store, start) = (instance.another_store().await, start.clone());
        workers.spawn(async move {
            start.wait().await;
            let mut taken = Vec::new();
            while let Some(claim) = store.claim_job("worker", TWO_EACH).await.unwrap() {
                taken.push(claim.id);
            }
            taken
        });
    }
    let mut at_work: HashMap<UserId, usize> = HashMap::new();
    for id in workers.join_all().await.concat() {
        *at_work.entry(instance.record(id).await.row.owner_id).or_default() += 1;
    }
    assert_eq!(at_work, HashMap::from([(instance.owner, 2), (bert, 2)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_persons_many_jobs_do_not_starve_another() {
    const MANY: usize = 30;
    let instance = Instance::new().await;
    instance.two_documents();
    let bert = instance.person("bert@example.org", Role::User).await;
    let mut of_ada = Vec::new();
    for _ in 0..MANY {
        of_ada.push(job_of(&instance, instance.owner).await);
    }
    let of_bert = job_of(&instance, bert).await;
    let options = WorkerOptions { concurrency: 3, per_person: Some(2), lease: LEASE, ..WorkerOptions::default() };
    let worker = Running::start_with(instance.dependencies(), options);
    assert_eq!(instance.wait_for_end(of_bert).await.job.phase, Phase::Finished);
    let mut open = 0;
    for &id in &of_ada {
        open += usize::from(!instance.record(id).await.job.phase.is_final());
    }
    assert!(open > MANY / 2, "bert's job, the last to come, was to be among the first: {open} of ada's are open");
    for id in of_ada {
        instance.wait_for_end(id).await;
    }
    worker.stop().await;
}
