//! Jobs at work: the worker that claims them, the four steps, the watcher that carries a cancel into them, and the
//! accounting for workers that died.

mod blocking;
mod claims;
mod mailing;
mod mcp_calls;
pub mod reconcile;
mod run;
mod steps;
mod watch;

pub use claims::{Worker, WorkerOptions};
pub use mailing::notice;
pub use steps::collect::whole_month;

use documents::{mcp::Servers, read::Limits};
use lettre::message::Mailbox;
use mail::{channel::Channel, probe::Probe};
use std::{sync::Arc, time::Duration};
use store::Store;
use summarize::SummarizerChoice;

/// What the steps work with.
#[derive(Clone)]
pub struct Dependencies {
    pub store: Store,
    pub summarizer: SummarizerChoice,
    pub channel: Arc<dyn Channel>,
    /// Who the messages come from.
    pub sender: Mailbox,
    /// Where people reach this server; links in messages begin with it. Without a trailing slash.
    pub public_url: String,
    pub limits: Limits,
    /// Where unconfirmed e-mails are looked for.
    pub probes: Arc<[Arc<dyn Probe>]>,
    /// The pauses before the second and later rounds of e-mail. After the last round the program gives up.
    pub mail_pauses: &'static [Duration],
    /// The pauses before the second and later attempts to read an uploaded file from a file store that cannot be reached. After
    /// the last attempt the job fails.
    pub file_pauses: &'static [Duration],
    /// The MCP servers that documents may be asked from.
    pub servers: Servers,
}

/// The usual [`Dependencies::file_pauses`]: a file store that is being restarted, a short outage of the network.
pub const FILE_PAUSES: &[Duration] =
    &[Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30), Duration::from_mins(1)];

/// The usual [`Dependencies::mail_pauses`]: a mail server that is being restarted, greylisting, a short outage.
pub const MAIL_PAUSES: &[Duration] =
    &[Duration::from_secs(2), Duration::from_secs(10), Duration::from_mins(1), Duration::from_mins(5)];
