//! Tells the parts of this process that a job has changed: the worker that runs it, and every page that watches it.
//!
//! A message is only a hint that there is something to read; the truth is in the database. Whoever waits here subscribes
//! first and reads after, and looks again from time to time, because another process may have written too.

use contract::{Job, Phase};
use domain::id::{JobId, UserId};
use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

/// A job's record has a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobChanged {
    pub id: JobId,
    pub owner: UserId,
    pub version: i64,
    /// Whether a worker may take the job now.
    pub waits: bool,
    /// Whether a worker has it, whom nobody has asked to stop.
    pub goes_on: bool,
}

/// What is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// One job.
    Job(JobChanged),
    /// Announcements of other processes may have been missed: anything may have changed.
    Anything,
}

/// The process's bulletin board.
#[derive(Debug, Clone)]
pub struct Notifications(broadcast::Sender<News>);

impl Default for Notifications {
    fn default() -> Self {
        Self(broadcast::channel(1024).0)
    }
}

impl JobChanged {
    /// The change that gave this record this version.
    pub fn of(id: JobId, owner: UserId, version: i64, job: &Job) -> Self {
        let waits = matches!(job.phase, Phase::Queued | Phase::Running) && !job.leased && !job.is_held();
        Self { id, owner, version, waits, goes_on: job.phase == Phase::Running && job.leased }
    }

    /// The text that another process is told. `origin` is the process that it comes from.
    pub fn to_message(self, origin: Uuid) -> String {
        let state = match self {
            Self { waits: true, .. } => "waits",
            Self { goes_on: true, .. } => "goes-on",
            _ => "busy",
        };
        format!("{origin} {} {} {state} {}", self.id, self.version, self.owner)
    }

    /// Reads such a text; `None` if another version of the program has another form of it.
    pub fn from_message(message: &str) -> Option<(Uuid, Self)> {
        let mut words = message.split(' ');
        let origin = words.next()?.parse().ok()?;
        let (id, version) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (state, owner) = (words.next()?, words.next()?.parse().ok()?);
        Some((origin, Self { id, owner, version, waits: state == "waits", goes_on: state == "goes-on" }))
    }
}

impl Notifications {
    /// Tells everybody who listens; nobody listening is fine.
    pub fn publish(&self, news: News) {
        let _ = self.0.send(news);
    }

    /// Listens from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}

/// Waits until something about `id` may have changed, or messages were missed.
pub async fn changed(receiver: &mut broadcast::Receiver<News>, id: JobId) {
    until(receiver, |change| change.id == id).await;
}

/// Waits until whoever works on `id` may have to stop, or messages were missed.
pub async fn may_have_to_stop(receiver: &mut broadcast::Receiver<News>, id: JobId) {
    until(receiver, |change| change.id == id && !change.goes_on).await;
}

/// Waits until there may be a job that a worker can take. Returns which one, unless messages were missed.
pub async fn work_waits(receiver: &mut broadcast::Receiver<News>) -> Option<JobChanged> {
    until(receiver, |change| change.waits).await
}

async fn until(receiver: &mut broadcast::Receiver<News>, matters: impl Fn(JobChanged) -> bool) -> Option<JobChanged> {
    loop {
        match receiver.recv().await {
            Ok(News::Job(change)) if matters(change) => return Some(change),
            Ok(News::Job(_)) => {}
            Ok(News::Anything) | Err(RecvError::Lagged(_)) => return None,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let origin = Uuid::new_v4();
        for (waits, goes_on) in [(true, false), (false, true), (false, false)] {
            let change = JobChanged { id: JobId::new(), owner: UserId::new(), version: 7, waits, goes_on };
            assert_eq!(JobChanged::from_message(&change.to_message(origin)), Some((origin, change)));
        }
        assert_eq!(JobChanged::from_message("2 something else"), None);
    }
}
