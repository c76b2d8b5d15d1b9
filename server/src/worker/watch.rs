//! Carries a cancel into running work: one watcher for each claimed job. It listens for changes, looks at the record at
//! least once a second in case a message was missed or another process wrote, and keeps the lease alive: as long as the work
//! shows that it gets on, and no longer.

use chrono::TimeDelta;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{Claim, Heartbeat, Store, StoreError, complain, notifications::may_have_to_stop};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, timeout, timeout_at};
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

/// By when the work of a claim has to show the next sign that it gets on. What begins something that may take long says how
/// long. So the watcher knows when to let the lease go, without the work having to give way.
#[derive(Debug, Clone)]
pub struct Pulse {
    due: Arc<Mutex<Instant>>,
    silence: Duration,
}

impl Pulse {
    /// The work may be silent for so long beyond what it has begun.
    pub fn new(silence: Duration) -> Self {
        Self { due: Arc::new(Mutex::new(Instant::now() + silence)), silence }
    }

    /// It gets on.
    pub fn beat(&self) {
        self.allow(Duration::ZERO);
    }

    /// It begins something that takes so long at most. The next sign ends that allowance.
    pub fn allow(&self, longest: Duration) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + longest + self.silence;
    }

    fn is_overdue(&self) -> bool {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) < Instant::now()
    }
}

/// How often the record is looked at when nobody has announced a change.
const LOOK: Duration = Duration::from_secs(1);

/// Watches a claim until `done`; fires `halt.stop` when its work must stop. Ends before `done` only where the work shows no more
/// that it gets on: then the lease is let go, and whoever sees that it has expired accounts for the job.
pub async fn watch(store: Store, claim: Claim, lease: TimeDelta, halt: Halt, pulse: Pulse, done: CancellationToken) {
    // Side by side: a heartbeat that waits for the database's writer must not keep the watcher from looking, nor a database that
    // does not answer keep the work from stopping with the process.
    let all = Box::pin(async {
        tokio::select! {
            () = keep_alive(&store, &claim, lease, &halt, &pulse) => {}
            () = look_out(&store, &claim, &halt) => {}
            () = shut_down(&halt) => {}
        }
    });
    done.run_until_cancelled(all).await;
}

async fn shut_down(halt: &Halt) {
    halt.shutdown.cancelled().await;
    halt.stop.cancel();
    std::future::pending::<()>().await;
}

/// The pause before a heartbeat is tried again that the database could not take, and how long it has to answer at least.
const AGAIN: Duration = Duration::from_secs(1);

/// Prolongs the lease. Where that has failed for as long as a lease lasts, another worker may have the job. As long as the record
/// can be read and says otherwise, the work goes on, or waits: a database that takes no changes lets nobody else have it either.
/// Ends when the work is overdue.
async fn keep_alive(store: &Store, claim: &Claim, lease: TimeDelta, halt: &Halt, pulse: &Pulse) {
    let lasts = lease.to_std().unwrap_or(LOOK);
    let mut beat = interval_at(Instant::now() + lasts / 3, lasts / 3);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held_until = Instant::now() + lasts;
    loop {
        beat.tick().await;
        if pulse.is_overdue() {
            halt.stop.cancel();
            return;
        }
        let asked_at = Instant::now();
        match timeout_at(held_until, store.heartbeat(claim.id, claim.epoch, lease)).await {
            Ok(seen) => {
                if seen.is_ok() {
                    held_until = asked_at + lasts;
                } else {
                    beat.reset_after(AGAIN.min(lasts / 3));
                }
                heed(seen, claim, halt);
            }
            Err(_) => match timeout(AGAIN.max(lasts / 3), store.look(claim.id, claim.epoch)).await {
                Ok(Ok(Heartbeat::GoOn)) => held_until = Instant::now() + lasts,
                _ => halt.stop.cancel(),
            },
        }
    }
}

async fn look_out(store: &Store, claim: &Claim, halt: &Halt) {
    let mut notifications = store.notifications().subscribe();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = look.tick() => heed(store.look(claim.id, claim.epoch).await, claim, halt),
            () = may_have_to_stop(&mut notifications, claim.id) => heed(store.look(claim.id, claim.epoch).await, claim, halt),
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

    #[tokio::test(start_paused = true)]
    async fn work_is_overdue_once_what_it_has_begun_has_had_its_time() {
        let second = Duration::from_secs(1);
        let pulse = Pulse::new(second);
        tokio::time::advance(second / 2).await;
        pulse.beat();
        tokio::time::advance(second / 2).await;
        assert!(!pulse.is_overdue());
        pulse.allow(second * 10);
        tokio::time::advance(second * 11).await;
        assert!(!pulse.is_overdue());
        tokio::time::advance(second / 2).await;
        assert!(pulse.is_overdue());
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
