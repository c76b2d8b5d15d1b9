//! A channel that does to each delivery what the seed says: accepts, refuses, loses the answer, or hangs. It keeps the truth
//! that the record is compared with.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use contract::Outcome;
use mail::channel::{Cause, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Retry, Stop};
use store::{EffectFilter, EffectPart, Store};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How long a spinning delivery keeps its thread: longer than its lease lasts without a sign of progress.
const SPINS: Duration = Duration::from_secs(8);

/// What a delivery comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fate {
    Accepted,
    /// For good, before the message.
    Refused,
    /// For now, before the message.
    Later,
    /// As the reply to the message.
    RefusedAtTheEnd,
    /// The connection is lost behind the message; the flag says whether it was accepted.
    Lost(bool),
    /// No answer before the message.
    HangsBefore,
    /// Nothing before the message, and it keeps its thread meanwhile.
    Spins,
    /// No answer behind the message.
    HangsAfter(bool),
}

impl Fate {
    fn of(roll: u64) -> Self {
        let coin = roll.is_multiple_of(2);
        match (roll / 2) % 100 {
            0..58 => Self::Accepted,
            58..64 => Self::Refused,
            64..72 => Self::Later,
            72..77 => Self::RefusedAtTheEnd,
            77..84 => Self::Lost(coin),
            84..91 => Self::HangsBefore,
            91..92 => Self::Spins,
            _ => Self::HangsAfter(coin),
        }
    }

    fn is_accepted(self) -> bool {
        matches!(self, Self::Accepted | Self::Spins | Self::Lost(true) | Self::HangsAfter(true))
    }
}

/// What the outside knows.
#[derive(Debug, Default)]
struct Truth {
    /// Deliveries by recipient.
    deliveries: HashMap<String, u32>,
    /// Accepted messages by Message-ID.
    accepted: HashMap<String, u32>,
    /// Lost answers and hangs, for the summary.
    faults: usize,
    /// What must never happen, in words.
    wrong: Vec<String>,
}

#[derive(Debug)]
struct Shared {
    seed: u64,
    calm: CancellationToken,
    truth: Mutex<Truth>,
}

/// The channel. What it does follows from the seed, the recipient's address, and how often it was addressed.
#[derive(Clone)]
pub struct Chaos {
    store: Store,
    shared: Arc<Shared>,
}

impl Chaos {
    pub fn new(seed: u64, store: Store) -> Self {
        let shared = Shared { seed, calm: CancellationToken::new(), truth: Mutex::default() };
        Self { store, shared: Arc::new(shared) }
    }

    /// From now on nothing hangs any more.
    pub fn calm_down(&self) {
        self.shared.calm.cancel();
    }

    /// How often a message with this Message-ID was accepted.
    pub fn accepted(&self, message_id: &str) -> u32 {
        self.truth().accepted.get(message_id).copied().unwrap_or_default()
    }

    /// Messages accepted, and answers that were lost or never came.
    pub fn totals(&self) -> (u32, usize) {
        let truth = self.truth();
        (truth.accepted.values().sum(), truth.faults)
    }

    /// What was seen here that must never happen.
    pub fn wrong(&self) -> Vec<String> {
        self.truth().wrong.clone()
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.shared.truth.lock().expect("nobody panics while holding it")
    }

    fn roll(&self, recipient: &str) -> u64 {
        let count = {
            let mut truth = self.truth();
            let count = truth.deliveries.entry(recipient.to_owned()).or_default();
            *count += 1;
            *count
        };
        let mut hasher = DefaultHasher::new();
        (self.shared.seed, recipient, count).hash(&mut hasher);
        hasher.finish()
    }

    /// Every effect seen outside has its intent committed before: here, that the message may be accepted now.
    async fn check_intent(&self, message: &Outgoing) {
        let filter = EffectFilter { message_id: Some(message.message_id.clone()), ..EffectFilter::default() };
        let open = self.store.effects(EffectPart::Open, &filter, None, 1).await.expect("the database works");
        // Unconfirmed already where this worker has lost its lease meanwhile.
        if !open.iter().any(|effect| matches!(effect.outcome, Outcome::InDoubt | Outcome::Unconfirmed)) {
            self.truth().wrong.push(format!("{} is handed over, but the record says {open:?}", message.message_id));
        }
    }
}

fn not_accepted(phase: DeliveryPhase, retry: Retry) -> Delivery {
    Delivery::NotAccepted { phase, evidence: "550 5.0.0 as the seed says".into(), retry }
}

#[async_trait]
impl Channel for Chaos {
    fn name(&self) -> &'static str {
        "a channel with a mind of its own"
    }

    fn longest(&self) -> Duration {
        Duration::ZERO
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        let roll = self.roll(message.to.as_ref());
        let (fate, calm) = (Fate::of(roll), &self.shared.calm);
        sleep(Duration::from_micros(roll % 3_000)).await;
        if let Some(cause) = stop.cause() {
            return Delivery::BrokenOff { phase: DeliveryPhase::Connect, cause };
        }
        match fate {
            Fate::Refused => return not_accepted(DeliveryPhase::RcptTo, Retry::NeedsPerson),
            Fate::Later => return not_accepted(DeliveryPhase::RcptTo, Retry::Later),
            Fate::Spins => {
                self.truth().faults += 1;
                let until = Instant::now() + SPINS;
                while !calm.is_cancelled() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(10));
                }
                // From here on it goes on as if nothing had been, and meets the guard.
            }
            Fate::HangsBefore => {
                self.truth().faults += 1;
                tokio::select! {
                    cause = stop.requested() => return Delivery::BrokenOff { phase: DeliveryPhase::Data, cause },
                    () = calm.cancelled() => return not_accepted(DeliveryPhase::Data, Retry::Later),
                }
            }
            _ => {}
        }
        if let Err(refused) = journal.in_doubt().await {
            return Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause: Cause::from(refused) };
        }
        self.check_intent(message).await;
        sleep(Duration::from_micros(roll / 7 % 3_000)).await;
        if fate.is_accepted() {
            *self.truth().accepted.entry(message.message_id.clone()).or_default() += 1;
        }
        sleep(Duration::from_micros(roll / 11 % 3_000)).await;
        match fate {
            Fate::Accepted | Fate::Spins => {
                Delivery::Accepted { evidence: format!("250 2.0.0 Ok: {}", message.message_id), peer: "chaos".into() }
            }
            Fate::RefusedAtTheEnd => not_accepted(DeliveryPhase::FinalDot, Retry::NeedsPerson),
            Fate::Lost(_) => {
                self.truth().faults += 1;
                Delivery::Unconfirmed { evidence: "the connection was lost".into() }
            }
            _ => {
                self.truth().faults += 1;
                tokio::select! {
                    () = stop.give_up.cancelled() => {}
                    () = calm.cancelled() => {}
                }
                Delivery::Unconfirmed { evidence: "no answer".into() }
            }
        }
    }
}
