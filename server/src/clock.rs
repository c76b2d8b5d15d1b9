//! Time as a dependency, so that tests can set it. `clippy.toml` bans every other way to ask for it.

use chrono::{DateTime, SubsecRound, Utc};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells the time, truncated to microseconds, which is what both databases can store.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> DateTime<Utc>;

    /// Whether other machines have clocks that show something else.
    fn is_of_this_machine(&self) -> bool {
        false
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    fn is_of_this_machine(&self) -> bool {
        true
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock(Mutex<DateTime<Utc>>);

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self(Mutex::new(start))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: chrono::TimeDelta) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
