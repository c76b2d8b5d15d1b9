//! Carries a cancel into running work: one watcher for each claimed job. It listens for changes, looks at the record at
//! least once a second in case a message was missed or another process wrote, and keeps the lease alive.

use crate::{
    bus::may_have_to_stop,
    store::{Claim, Heartbeat, Store, StoreError, complain, waiting_at_most},
};
use chrono::TimeDelta;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, timeout_at};
use tokio_util::sync::CancellationToken;

/// How a claim's work is told to stop.
#[derive(Debug, Clone)]
pub struct Halt {
    /// Nothing may start any more, whatever the reason: a cancel, a lost lease, a shutdown.
    pub stop: CancellationToken,
    /// The process is shutting down.
    pub shutdown: CancellationToken,
    /// The process will not wait any longer.
    pub give_up: CancellationToken,
}

impl Halt {
    /// Waits for `work`, or drops it at once when nothing may start any more. What ends after the stop does not count either:
    /// work that has seen the stop by itself ends early, with half a result.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let result = self.stop.run_until_cancelled(work).await?;
        (!self.stop.is_cancelled()).then_some(result)
    }
}

/// How often the record is looked at when nobody has announced a change.
const LOOK: Duration = Duration::from_secs(1);

/// Watches a claim until `done`; fires `halt.stop` when its work must stop.
pub async fn watch(store: Store, claim: Claim, lease: TimeDelta, halt: Halt, done: CancellationToken) {
    // Side by side: a heartbeat that waits for the database's writer must not keep the watcher from looking, nor a database that
    // does not answer keep the work from stopping with the process.
    let all = Box::pin(async {
        tokio::join!(keep_alive(&store, &claim, lease, &halt), look_out(&store, &claim, &halt), shut_down(&halt))
    });
    done.run_until_cancelled(all).await;
}

async fn shut_down(halt: &Halt) {
    halt.shutdown.cancelled().await;
    halt.stop.cancel();
}

/// How long a heartbeat waits for others who write, at least: for a third of the lease where that is longer.
const ANSWER: Duration = Duration::from_millis(500);
/// The pause before a heartbeat is tried again that the database has refused.
const AGAIN: Duration = Duration::from_secs(1);

/// Prolongs the lease. Once the database could not be reached for as long as a lease lasts, another worker may have the job. One
/// that refuses, refuses everybody: then nobody has it, and the work waits.
async fn keep_alive(store: &Store, claim: &Claim, lease: TimeDelta, halt: &Halt) {
    let lasts = lease.to_std().unwrap_or(LOOK);
    let mut beat = interval_at(Instant::now() + lasts / 3, lasts / 3);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held_until = Instant::now() + lasts;
    loop {
        beat.tick().await;
        let asked_at = Instant::now();
        let asking = waiting_at_most((lasts / 3).max(ANSWER), store.heartbeat(claim.id, claim.epoch, lease));
        match timeout_at(held_until, asking).await {
            Ok(seen) => {
                match seen.as_ref().map_err(StoreError::trouble) {
                    Ok(_) => held_until = asked_at + lasts,
                    Err(Some(trouble)) if trouble.is_everybodys() => {
                        held_until = Instant::now() + lasts;
                        beat.reset_after(AGAIN.min(lasts / 3));
                    }
                    Err(_) => {}
                }
                heed(seen, claim, halt);
            }
            Err(_) => halt.stop.cancel(),
        }
    }
}

async fn look_out(store: &Store, claim: &Claim, halt: &Halt) {
    let mut bus = store.bus().subscribe();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = look.tick() => heed(store.look(claim.id, claim.epoch).await, claim, halt),
            () = may_have_to_stop(&mut bus, claim.id) => heed(store.look(claim.id, claim.epoch).await, claim, halt),
        }
    }
}

fn heed(seen: Result<Heartbeat, StoreError>, claim: &Claim, halt: &Halt) {
    match seen {
        Ok(Heartbeat::GoOn) => {}
        Ok(Heartbeat::Stop | Heartbeat::Lost) => halt.stop.cancel(),
        // The next commit meets the same trouble and decides; a watcher cannot.
        Err(error) => complain(format_args!("the record of job {} could not be read", claim.id), &error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halt() -> Halt {
        let token = CancellationToken::new;
        Halt { stop: token(), shutdown: token(), give_up: token() }
    }

    #[tokio::test]
    async fn work_goes_on_until_the_stop_and_is_dropped_then() {
        let halt = halt();
        assert_eq!(halt.unless_stopped(async { 7 }).await, Some(7));
        let (stopped, ()) = tokio::join!(halt.unless_stopped(std::future::pending::<u32>()), async { halt.stop.cancel() });
        assert_eq!(stopped, None);
    }

    /// A folder's list that saw the stop is short; taken for whole, it would fail the job with "No documents".
    #[tokio::test]
    async fn a_result_that_comes_with_the_stop_does_not_count() {
        let halt = halt();
        let ending = async {
            halt.stop.cancel();
            7
        };
        assert_eq!(halt.unless_stopped(ending).await, None);
    }
}
