//! Jobs at work: the worker that claims them, the four steps, the watcher that carries a cancel into them, and the
//! accounting for workers that died.

mod mailing;
mod reconcile;
mod run;
mod spec;
mod steps;
mod watch;
mod worker;

pub use spec::{SourceSpec, Spec};
pub use steps::collect::whole_month;
pub use worker::{Worker, WorkerOptions};

use crate::{extract::Limits, mail::channel::Channel, settings::SummarizerChoice, store::Store};
use lettre::message::Mailbox;
use std::sync::Arc;

/// What the steps work with.
#[derive(Clone)]
pub struct Services {
    pub store: Store,
    pub summarizer: SummarizerChoice,
    pub channel: Arc<dyn Channel>,
    /// Who the messages come from.
    pub sender: Mailbox,
    /// Where people reach this server; links in messages begin with it. Without a trailing slash.
    pub public_url: String,
    pub limits: Limits,
}
