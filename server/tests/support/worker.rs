//! Workers on an instance, with the channel and the summarizer that a test needs, and ways to end them.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use documents::{mcp::Servers, read::Limits};
use mail::{channel::Channel, outbox::Outbox, smtp::Smtp};
use server::worker::{Dependencies, Worker, WorkerOptions};
use summarize::SummarizerChoice;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    instance::{Instance, LEASE, PATIENCE},
    mail::settings,
};

/// Pauses between rounds of e-mail, or between looks for a file, that nobody notices.
pub const NO_PAUSES: &[Duration] = &[Duration::ZERO, Duration::ZERO];

impl Instance {
    /// Everything that a worker needs: the built-in summarizer and the outbox folder.
    pub fn dependencies(&self) -> Dependencies {
        Dependencies {
            store: self.store.clone(),
            summarizer: SummarizerChoice::BuiltIn,
            channel: Arc::new(Outbox::open(self.outbox()).expect("an outbox")),
            sender: "Recount <r@example.org>".parse().expect("a sender"),
            public_url: "http://recount.test".into(),
            limits: Limits::default(),
            probes: Arc::default(),
            mail_pauses: NO_PAUSES,
            file_pauses: NO_PAUSES,
            servers: Servers::default(),
        }
    }

    /// Like [`Instance::services`], with another channel.
    pub fn dependencies_with(&self, channel: impl Channel + 'static) -> Dependencies {
        Dependencies { channel: Arc::new(channel), ..self.dependencies() }
    }

    /// Like [`Instance::services`], mailing to a server on this port.
    pub fn dependencies_with_smtp(&self, port: u16) -> Dependencies {
        self.dependencies_with(Smtp::new(&settings(port)).expect("settings"))
    }

    fn outbox(&self) -> PathBuf {
        self.folder().join("outbox")
    }

    /// The messages in the outbox, by name.
    pub fn messages(&self) -> Vec<(String, String)> {
        let Ok(entries) = fs::read_dir(self.outbox()) else { return Vec::new() };
        let mut messages: Vec<_> = entries
            .map(|entry| entry.expect("an entry"))
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .filter(|(name, _)| !name.starts_with('.'))
            .map(|(name, path)| (name, fs::read_to_string(path).expect("a message")))
            .collect();
        messages.sort();
        messages
    }

    /// Two short documents of the month that jobs ask for.
    pub fn two_documents(&self) {
        self.document("2026-06-03-meeting.md", "# Meeting\n\nThe council approved 140,000 dollars for the library.\n");
        self.document("2026-06-17-review.md", "# Review\n\nThe library stays open until ten in the evening from July on.\n");
    }
}

/// A worker at work.
pub struct Running {
    task: JoinHandle<()>,
    shutdown: CancellationToken,
    /// Every task of the worker has a share of them.
    dependencies: Weak<Dependencies>,
}

impl Running {
    pub fn start(dependencies: Dependencies) -> Self {
        Self::start_with_grace(dependencies, PATIENCE)
    }

    /// A worker that waits so long at a shutdown for the mail server's answer.
    pub fn start_with_grace(dependencies: Dependencies, grace: Duration) -> Self {
        Self::start_with(dependencies, WorkerOptions { lease: LEASE, grace, ..WorkerOptions::default() })
    }

    pub fn start_with(dependencies: Dependencies, options: WorkerOptions) -> Self {
        let shutdown = CancellationToken::new();
        let dependencies = Arc::new(dependencies);
        let shares = Arc::downgrade(&dependencies);
        let task = tokio::spawn(Worker::new(dependencies, options).run(shutdown.clone()));
        Self { task, shutdown, dependencies: shares }
    }

    /// Tells it to shut down.
    pub fn ask_to_stop(&self) {
        self.shutdown.cancel();
    }

    /// Shuts it down, and waits until it has handed back what it had.
    pub async fn stop(self) {
        self.shutdown.cancel();
        timeout(PATIENCE, self.task).await.expect("a worker stops").expect("a worker does not panic");
    }

    /// Ends it in the middle of whatever it does, as a crash would, and waits until nothing of it is left: its tasks are dropped
    /// on other threads, and one of them could still act after the test has gone on.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()), "it was still at work");
        let gone = async {
            while self.dependencies.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("nothing of a killed worker is left");
    }
}
