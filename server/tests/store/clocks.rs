//! A clock that is set, forward or back, while jobs are at work or held. Leases and holds go by a time that nobody sets.

use std::sync::Arc;

use chrono::TimeDelta;
use contract::{Phase, Recovery, StepKind};
use domain::{
    clock::{Clock, ManualClock},
    hold::Hold,
    id::{JobId, RequestKey},
    spec::Spec,
};
use store::{Heartbeat, Store};

use crate::support::instance::{Instance, LEASE};

const ONE: &[&str] = &["anna@example.org"];
const TICK: TimeDelta = TimeDelta::microseconds(1);

/// By how much it is set.
const JUMPS: [TimeDelta; 6] = [
    TimeDelta::seconds(-20),
    TimeDelta::hours(-1),
    TimeDelta::days(-400),
    TimeDelta::seconds(20),
    TimeDelta::days(1),
    TimeDelta::days(400),
];

#[tokio::test]
async fn a_clock_that_is_set_neither_takes_a_lease_away_nor_prolongs_one() {
    let instance = Instance::new().await;
    for jump in JUMPS {
        let claim = instance.job_at(StepKind::Collect, ONE).await;
        instance.clock.advance(LEASE - TICK);
        instance.clock.jump(jump);
        // One that has been there all the time, and one that starts now.
        for store in [&instance.store, &instance.another_store().await] {
            assert_eq!(store.expired_leases().await.unwrap(), [], "{jump}");
            assert_eq!(store.recover_job(claim.id).await.unwrap(), None, "{jump}");
            assert_eq!(store.next_due().await.unwrap(), Some(TICK), "{jump}");
        }
        assert_eq!(instance.store.heartbeat(claim.id, 1, LEASE).await.unwrap(), Heartbeat::GoOn);
        instance.clock.advance(LEASE);
        assert!(instance.recover().await.is_empty(), "{jump}");
        instance.clock.advance(TICK);
        assert_eq!(instance.recover().await, [(claim.id, Recovery::Resumable)], "{jump}");
        instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    }
}

#[tokio::test]
async fn stopping_ends_within_the_lease_whatever_the_clock_is_set_to() {
    for jump in JUMPS {
        let instance = Instance::new().await;
        let claim = instance.job_at(StepKind::Email, ONE).await;
        instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
        assert_eq!(instance.record(claim.id).await.job.phase, Phase::Stopping);
        instance.clock.jump(jump);
        instance.expire().await;
        assert_eq!(instance.record(claim.id).await.job.phase, Phase::Cancelled, "{jump}");
    }
}

#[tokio::test]
async fn a_machine_that_is_started_again_has_no_lease_left_whatever_its_clock_shows() {
    for jump in JUMPS {
        let instance = Instance::new().await;
        let claim = instance.job_at(StepKind::Collect, ONE).await;
        let clock = Arc::new(ManualClock::new(instance.clock.now() + jump));
        let store = Store::open(instance.place(), clock.clone(), "recount.test").await.unwrap();
        clock.advance(TICK);
        assert_eq!(store.expired_leases().await.unwrap(), [claim.id], "{jump}");
        assert_eq!(store.recover_job(claim.id).await.unwrap(), Some(Recovery::Resumable), "{jump}");
    }
}

/// A job that is held for half a minute from now on.
async fn held(instance: &Instance) -> JobId {
    let spec = Spec { hold: Hold::Countdown(30), ..instance.spec(ONE) };
    let (id, _) = instance.store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap();
    let claim = instance.claim("worker-1").await.unwrap();
    for step in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        instance.complete(&claim, step).await.unwrap();
    }
    assert!(instance.record(id).await.job.is_held());
    id
}

async fn is_held(instance: &Instance, store: &Store, id: JobId) -> bool {
    store.end_due_holds().await.unwrap();
    instance.record(id).await.job.is_held()
}

#[tokio::test]
async fn a_countdown_is_as_long_as_it_says_whatever_the_clock_is_set_to() {
    for jump in JUMPS {
        let instance = Instance::new().await;
        let id = held(&instance).await;
        instance.clock.advance(TimeDelta::seconds(10));
        instance.clock.jump(jump);
        instance.clock.advance(TimeDelta::seconds(20) - TICK);
        for store in [&instance.store, &instance.another_store().await] {
            assert!(is_held(&instance, store, id).await, "{jump}");
            assert_eq!(store.next_due().await.unwrap(), Some(TICK), "{jump}");
        }
        instance.clock.advance(TICK);
        assert!(!is_held(&instance, &instance.store, id).await, "{jump}");
    }
}

#[tokio::test]
async fn a_countdown_is_never_longer_than_it_says_after_the_machine_was_started_again() {
    for back in [TimeDelta::seconds(20), TimeDelta::hours(1), TimeDelta::days(400)] {
        let instance = Instance::new().await;
        let id = held(&instance).await;
        let clock = Arc::new(ManualClock::new(instance.clock.now() - back));
        let store = Store::open(instance.place(), clock.clone(), "recount.test").await.unwrap();
        assert!(is_held(&instance, &store, id).await);
        assert_eq!(store.next_due().await.unwrap(), Some(TimeDelta::seconds(30)), "{back}");
        // Every page that shows the countdown hears of it.
        let history = instance.history(id).await;
        assert!(history.contains(&"The clock was set back; the e-mail goes out in 30 s".to_owned()), "{history:?}");
        clock.advance(TimeDelta::seconds(30));
        assert!(!is_held(&instance, &store, id).await, "{back}");
    }
}
