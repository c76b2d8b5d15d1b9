//! Jobs at work: the worker that claims them, the four steps, the watcher that carries a cancel into them, and the
//! accounting for workers that died.

mod hold;
mod mailing;
mod reconcile;
mod run;
mod spec;
mod steps;
mod thread;
mod watch;
mod worker;

pub use hold::{Hold, UnknownHold};
pub use mailing::notice;
pub use spec::{SourceSpec, Spec, full_title};
pub use steps::collect::whole_month;
pub use worker::{Worker, WorkerOptions};

use crate::{extract::Limits, mail::channel::Channel, settings::SummarizerChoice, store::Store};
use lettre::message::Mailbox;
use std::{sync::Arc, time::Duration};

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
    /// The pauses before the second and later rounds of e-mail. After the last round the program gives up.
    pub mail_pauses: &'static [Duration],
}

/// The usual [`Services::mail_pauses`]: a mail server that is being restarted, greylisting, a short outage.
pub const MAIL_PAUSES: &[Duration] =
    &[Duration::from_secs(2), Duration::from_secs(10), Duration::from_mins(1), Duration::from_mins(5)];
