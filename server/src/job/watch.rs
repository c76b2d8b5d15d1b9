//! Carries a cancel into running work: one watcher for each claimed job. It listens for changes, looks at the record at
//! least once a second in case a message was missed or another process wrote, and keeps the lease alive.

use crate::{
    bus::changed,
    store::{Claim, Heartbeat, Store},
};
use chrono::TimeDelta;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
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

/// How often the record is looked at when nobody has announced a change.
const LOOK: Duration = Duration::from_secs(1);

/// Watches a claim until `done`; fires `halt.stop` when its work must stop.
pub async fn watch(store: Store, claim: Claim, lease: TimeDelta, halt: Halt, done: CancellationToken) {
    let mut bus = store.bus().subscribe();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let every = (lease / 3).to_std().unwrap_or(LOOK);
    let mut beat = interval_at(Instant::now() + every, every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let seen = tokio::select! {
            () = done.cancelled() => return,
            () = halt.shutdown.cancelled(), if !halt.stop.is_cancelled() => {
                halt.stop.cancel();
                continue;
            }
            _ = beat.tick() => store.heartbeat(claim.id, claim.epoch, lease).await,
            _ = look.tick() => store.look(claim.id, claim.epoch).await,
            () = changed(&mut bus, claim.id) => store.look(claim.id, claim.epoch).await,
        };
        match seen {
            Ok(Heartbeat::GoOn) => {}
            Ok(Heartbeat::Stop | Heartbeat::Lost) => halt.stop.cancel(),
            // The next commit meets the same trouble and decides; a watcher cannot.
            Err(error) => tracing::warn!(job = %claim.id, %error, "the record of the job could not be read"),
        }
    }
}
