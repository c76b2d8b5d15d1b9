//! Channels that end in the dark: their workers die in the middle of a delivery, or never come out of it.

use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use async_trait::async_trait;
use contract::Via;
use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Refused, Stop},
    outbox::Outbox,
};
use tokio::sync::Notify;

/// Where a delivery by [`Dark`] comes to a stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// The record says `in_doubt`, and nothing has been handed over.
    BeforeTheFile,
    /// The file is there, and nobody has written that down.
    AfterTheFile,
}

/// An outbox folder whose worker gets no further than to one place.
pub struct Dark {
    outbox: Outbox,
    stands: Stands,
    reached: Arc<Notify>,
}

impl Dark {
    /// The channel, and what tells that a delivery has come to its place.
    pub fn new(outbox: Outbox, stands: Stands) -> (Self, Arc<Notify>) {
        let reached = Arc::new(Notify::new());
        (Self { outbox, stands, reached: reached.clone() }, reached)
    }

    async fn stand<T>(&self) -> T {
        self.reached.notify_one();
        std::future::pending().await
    }
}

#[async_trait]
impl Channel for Dark {
    fn name(&self) -> &str {
        self.outbox.name()
    }

    fn via(&self) -> Via {
        self.outbox.via()
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        let gate = Gate { journal, dark: self };
        self.outbox.deliver(message, &gate, stop).await;
        self.stand().await
    }
}

struct Gate<'a> {
    journal: &'a dyn Journal,
    dark: &'a Dark,
}

#[async_trait]
impl Journal for Gate<'_> {
    async fn in_doubt(&self) -> Result<(), Refused> {
        self.journal.in_doubt().await?;
        if self.dark.stands == Stands::BeforeTheFile { self.dark.stand().await } else { Ok(()) }
    }
}

/// A channel with a bug: it brings its task down.
pub struct Panics<F>(pub F);

#[async_trait]
impl<F: Fn() + Send + Sync> Channel for Panics<F> {
    fn name(&self) -> &'static str {
        "a channel with a bug"
    }

    async fn deliver(&self, _: &Outgoing, _: &dyn Journal, _: &Stop) -> Delivery {
        (self.0)();
        panic!("a bug in a channel, as the test wants it")
    }
}

/// A channel with another bug: its first delivery never gives way, whatever it is told, until the test lets it.
#[derive(Clone)]
pub struct Spins {
    outbox: Arc<Outbox>,
    pub reached: Arc<Notify>,
    has_spun: Arc<AtomicBool>,
    released: Arc<(Mutex<bool>, Condvar)>,
}

impl Spins {
    /// Whose later deliveries go to this outbox.
    pub fn new(outbox: Outbox) -> Self {
        Self { outbox: Arc::new(outbox), reached: Arc::default(), has_spun: Arc::default(), released: Arc::default() }
    }

    /// Lets it go on. A test that fails does so too: its threads have to end.
    pub fn release(&self) -> Release {
        Release(self.clone())
    }
}

/// Lets a [`Spins`] go on when it is dropped.
pub struct Release(Spins);

impl Drop for Release {
    fn drop(&mut self) {
        let (released, changed) = &*self.0.released;
        *released.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

#[async_trait]
impl Channel for Spins {
    fn name(&self) -> &str {
        self.outbox.name()
    }

    fn via(&self) -> Via {
        self.outbox.via()
    }

    fn longest(&self) -> Duration {
        Duration::ZERO
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        if self.has_spun.swap(true, SeqCst) {
            return self.outbox.deliver(message, journal, stop).await;
        }
        self.reached.notify_one();
        let (released, changed) = &*self.released;
        let held = released.lock().unwrap_or_else(PoisonError::into_inner);
        drop(changed.wait_while(held, |released| !*released).unwrap_or_else(PoisonError::into_inner));
        Delivery::BrokenOff { phase: DeliveryPhase::Connect, cause: Cause::Cancelled }
    }
}
