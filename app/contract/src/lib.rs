//! The cancellation contract: which states a job, its steps and its effects can be in, and who may move them where.
//!
//! Everything here is pure: no clock, no database, no framework. The server loads a [`Job`] inside a transaction, calls one of
//! its transitions and stores the result, so the code that the tests explore exhaustively is the code that runs in production.
//! The browser compiles the same module for the words. Times, people and addresses belong to the store, not to the contract.

mod afterwards;
mod change;
mod effect;
#[cfg(test)]
mod explore;
mod headline;
mod job;
mod mark;
mod month;
#[cfg(test)]
mod sentences;
#[cfg(test)]
mod sentences_in_doubt;
mod step;
mod version;
pub mod wording;

pub use change::{Change, changes};
pub use effect::{Effect, EffectKind, NotDone, Outcome, Unconfirmed, Verdict, Via};
pub use headline::{contradiction, headline, if_cancelled_now, waiting_for};
pub use job::{CancelAnswer, Epoch, Failure, Job, JobKind, MAX_CLAIMS, Phase, Recovery, Refusal};
pub use mark::Mark;
pub use month::{Month, MonthError};
pub use step::{Step, StepKind, StepState};
pub use version::{is_news, may_replace};

/// Implements the lower-case names under which a state is stored, sent and shown.
macro_rules! named {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name under which this value is stored and sent.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The value with this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
use named;
