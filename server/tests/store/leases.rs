//! Leases where the machines' clocks differ: the database's time decides, so that a wrong clock neither takes a job from a worker
//! that lives nor leaves it to one that is dead.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use contract::Recovery;
use domain::clock::{Clock, SteadyTime, SystemClock};
use store::{ClaimTerms, Heartbeat, Store};
use tokio::time::{Instant, sleep};

use crate::support::{
    cluster::skips,
    instance::{Instance, PATIENCE},
};

/// The clock of a machine that is wrong by so much.
struct Wrong(TimeDelta);

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + self.0
    }

    fn steady(&self) -> SteadyTime {
        SystemClock.steady()
    }

    fn is_of_this_machine(&self) -> bool {
        true
    }
}

const HOUR: TimeDelta = TimeDelta::hours(1);

#[tokio::test]
async fn a_clock_that_is_wrong_by_an_hour_neither_steals_a_lease_nor_keeps_a_dead_one() {
    if skips("wrong clocks") {
        return;
    }
    let instance = Instance::new().await;
    let place = instance.place();
    let machine = async |wrong| Store::open(place, Arc::new(Wrong(wrong)), "recount.test").await.unwrap();
    let (slow, right, fast) = (machine(-HOUR).await, machine(TimeDelta::zero()).await, machine(HOUR).await);
    for (one, others) in [(&slow, [&right, &fast]), (&right, [&slow, &fast]), (&fast, [&slow, &right])] {
        let id = instance.job(&["anna@example.org"]).await;
        let long = ClaimTerms { lease: TimeDelta::minutes(30), per_person: None, only: Some(id) };
        let claim = one.claim_job("one", long).await.unwrap().unwrap();
        for store in [one, others[0], others[1]] {
            assert!(!store.expired_leases().await.unwrap().contains(&id), "it lives");
            assert_eq!(store.recover_job(id).await.unwrap(), None, "it lives");
            let due = store.next_due().await.unwrap().unwrap();
            assert!(due > TimeDelta::minutes(25) && due <= TimeDelta::minutes(30), "{due}");
            assert_eq!(store.heartbeat(id, claim.epoch, long.lease).await.unwrap(), Heartbeat::GoOn);
        }

        // The last sign of life.
        assert_eq!(one.heartbeat(id, claim.epoch, TimeDelta::milliseconds(300)).await.unwrap(), Heartbeat::GoOn);
        let deadline = Instant::now() + PATIENCE;
        while !others[0].expired_leases().await.unwrap().contains(&id) {
            assert!(Instant::now() < deadline, "the lease of the dead runs out for everybody");
            sleep(Duration::from_millis(20)).await;
        }
        assert!(others[1].expired_leases().await.unwrap().contains(&id));
        assert_eq!(others[1].recover_job(id).await.unwrap(), Some(Recovery::Resumable));
        assert_eq!(one.heartbeat(id, claim.epoch, long.lease).await.unwrap(), Heartbeat::Lost);
        instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    }
}
