//! Time as a dependency, so that tests can set it. `clippy.toml` bans every other way to ask for it.

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use rustix::time::{ClockId, clock_gettime};
use std::{
    fs,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};
use uuid::Uuid;

/// Tells the time, truncated to microseconds, which is what both databases can store.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> DateTime<Utc>;

    /// The time that goes on whatever becomes of [`Clock::now`], which people and programs set.
    fn steady(&self) -> SteadyTime;

    /// Whether other machines have clocks that show something else.
    fn is_of_this_machine(&self) -> bool {
        false
    }
}

/// A time that nobody sets: the same for all processes of a machine, it goes on also while that sleeps, and begins anew when it is
/// started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyTime {
    /// Names the start of the machine; `None` where the system has no name for it.
    pub boot: Option<Uuid>,
    /// How long ago that was.
    pub age: TimeDelta,
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// What the kernel calls this start of the machine (`random(4)`).
static BOOT: LazyLock<Option<Uuid>> =
    LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().parse().ok());

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(6)
    }

    fn steady(&self) -> SteadyTime {
        let since = clock_gettime(ClockId::Boottime);
        SteadyTime { boot: *BOOT, age: TimeDelta::seconds(since.tv_sec) + TimeDelta::microseconds(since.tv_nsec / 1_000) }
    }

    fn is_of_this_machine(&self) -> bool {
        true
    }
}

/// A clock that stands still until a test moves it. It was made when its machine was started.
#[derive(Debug)]
pub struct ManualClock {
    boot: Uuid,
    shows: Mutex<Shows>,
}

#[derive(Debug)]
struct Shows {
    now: DateTime<Utc>,
    age: TimeDelta,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: DateTime<Utc>) -> Self {
        Self { boot: Uuid::new_v4(), shows: Mutex::new(Shows { now: start, age: TimeDelta::zero() }) }
    }

    fn shows(&self) -> MutexGuard<'_, Shows> {
        self.shows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets time pass.
    pub fn advance(&self, by: TimeDelta) {
        let mut shows = self.shows();
        shows.now += by;
        shows.age += by;
    }

    /// Sets what the clock shows, forward or back, while no time passes.
    pub fn jump(&self, by: TimeDelta) {
        self.shows().now += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.shows().now
    }

    fn steady(&self) -> SteadyTime {
        SteadyTime { boot: Some(self.boot), age: self.shows().age }
    }
}
