//! Tells the parts of this process that a job has changed: the worker that runs it, and every page that watches it.
//!
//! A message is only a hint that there is something to read; the truth is in the database. Whoever waits here subscribes
//! first and reads after, and looks again from time to time, because another process may have written too.

use crate::id::JobId;
use tokio::sync::broadcast;

/// A job's record has a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobChanged {
    pub id: JobId,
    pub version: i64,
}

/// The process's bulletin board.
#[derive(Debug, Clone)]
pub struct Bus(broadcast::Sender<JobChanged>);

impl Default for Bus {
    fn default() -> Self {
        Self(broadcast::channel(1024).0)
    }
}

impl Bus {
    /// Tells everybody who listens; nobody listening is fine.
    pub fn publish(&self, change: JobChanged) {
        let _ = self.0.send(change);
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<JobChanged> {
        self.0.subscribe()
    }
}

/// Waits until something about `id` may have changed, or messages were missed.
pub async fn changed(receiver: &mut broadcast::Receiver<JobChanged>, id: JobId) {
    loop {
        match receiver.recv().await {
            Ok(change) if change.id != id => {}
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
