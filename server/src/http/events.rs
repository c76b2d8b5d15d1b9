//! Live updates: a stream of server-sent events for one job, and one for all that a person may see. An event says only which version
//! there is; the page reads the record itself, so that there is one way for data to reach a screen, and a missed event costs nothing.

use super::{AppState, problem::Problem, session::SignedIn};
use crate::service::{Service, parse_id};
use app::{error::AppError, model::Viewer};
use axum::{
    Router,
    extract::{Path, State},
    response::{
        Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use domain::id::{JobId, UserId};
use futures_util::{Stream, stream};
use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    time::Duration,
};
use store::notifications::{JobChanged, News, changed};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError, error::TryRecvError},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How often a sign of life is sent. Pages take three missing ones for a lost connection.
const ALIVE: Duration = Duration::from_secs(4);

/// Changes that come together within this time are told together, so that a busy server's pages are not told of each.
const TOGETHER: Duration = Duration::from_millis(200);
/// So many of the newest jobs are looked at in a quiet time: another process may have changed them without a word.
const LOOKED_AT: u32 = 50;

/// The routes. Those of one job are the same for the pages and the API.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/jobs/news", get(list_events))
        .route("/jobs/{id}/events", get(job_events))
        .route("/api/v1/jobs/{id}/events", get(job_events))
}

async fn job_events(
    State(service): State<Service>,
    State(shutdown): State<CancellationToken>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let id: JobId = parse_id(&id)?;
    // Listening starts before the first look, so that nothing falls in between.
    let notifications = service.store().notifications().subscribe();
    service.visible(&who, id).await?;
    let watch = Watch { service, who, id, notifications, shutdown, seen: 0, ended: false };
    let events = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|event| (Ok(event), watch)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE * 4)))
}

struct Watch {
    service: Service,
    who: Viewer,
    id: JobId,
    notifications: Receiver<News>,
    shutdown: CancellationToken,
    seen: i64,
    ended: bool,
}

impl Watch {
    /// The next event; `None` ends the stream: after a final phase, at a shutdown, or when the record cannot be read (the
    /// page then connects again).
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.ended || self.shutdown.is_cancelled() {
                return None;
            }
            let (version, ended) = self.service.store().job_version(self.id).await.ok()??;
            if version > self.seen {
                (self.seen, self.ended) = (version, ended);
                tracing::trace!(job = %self.id, version = self.seen, viewer = %self.who.id, "told a page");
                return Some(
                    Event::default().event("job").id(self.seen.to_string()).data(format!("{{\"version\":{}}}", self.seen)),
                );
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                waited = timeout(ALIVE, changed(&mut self.notifications, self.id)) => if waited.is_err() {
                    return Some(Event::default().event("alive").data("{}"));
                }
            }
        }
    }
}

/// Every job that somebody may see. What it tells of others must be nothing, not even that they exist.
async fn list_events(
    State(service): State<Service>,
    State(shutdown): State<CancellationToken>,
    SignedIn(who): SignedIn,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let notifications = service.store().notifications().subscribe();
    let owner = if who.is_admin { None } else { Some(who.id.parse().map_err(|_| AppError::SignInRequired)?) };
    let watch = ListWatch { service, owner, notifications, shutdown, looked: None };
    let events = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|event| (Ok(event), watch)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE * 4)))
}

struct ListWatch {
    service: Service,
    /// Whose jobs; those of everybody for an administrator.
    owner: Option<UserId>,
    notifications: Receiver<News>,
    shutdown: CancellationToken,
    /// What the last look at the newest jobs found; `None` before the first.
    looked: Option<HashMap<JobId, i64>>,
}

/// What has changed.
#[derive(Debug, Default)]
struct Changes {
    jobs: BTreeMap<JobId, i64>,
    /// Something may have changed that is not among them.
    anything: bool,
}

impl Changes {
    fn take(&mut self, news: Option<News>, owner: Option<UserId>) {
        match news {
            Some(News::Job(JobChanged { id, owner: of, version, .. })) => {
                if owner.is_none_or(|owner| owner == of) {
                    let known = self.jobs.entry(id).or_default();
                    *known = version.max(*known);
                }
            }
            Some(News::Anything) | None => self.anything = true,
        }
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && !self.anything
    }

    /// An empty list says that anything may have changed.
    fn event(self) -> Event {
        let jobs = if self.anything { BTreeMap::new() } else { self.jobs };
        let told: Vec<String> = jobs.iter().map(|(id, version)| format!("{{\"id\":\"{id}\",\"version\":{version}}}")).collect();
        Event::default().event("jobs").data(format!("[{}]", told.join(",")))
    }
}

impl ListWatch {
    /// The next event; `None` ends the stream: at a shutdown, or when the database cannot be asked (the page then connects again).
    async fn next(&mut self) -> Option<Event> {
        let alive = || Event::default().event("alive").data("{}");
        if self.looked.is_none() {
            self.looked = Some(self.look().await?);
            return Some(alive());
        }
        let shutdown = self.shutdown.clone();
        let changes = tokio::select! {
            () = shutdown.cancelled() => return None,
            told = timeout(ALIVE, self.told()) => told,
        };
        let changes = match changes {
            Ok(changes) => changes,
            Err(_) => self.found().await?,
        };
        Some(if changes.is_empty() { alive() } else { changes.event() })
    }

    /// Waits for an announcement that concerns this person, and for what comes together with it.
    async fn told(&mut self) -> Changes {
        let mut changes = Changes::default();
        while changes.is_empty() {
            match self.notifications.recv().await {
                Ok(news) => changes.take(Some(news), self.owner),
                Err(RecvError::Lagged(_)) => changes.take(None, self.owner),
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
        sleep(TOGETHER).await;
        loop {
            match self.notifications.try_recv() {
                Ok(news) => changes.take(Some(news), self.owner),
                Err(TryRecvError::Lagged(_)) => changes.take(None, self.owner),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return changes,
            }
        }
    }

    /// What has changed among the newest jobs since the last look. What was announced meanwhile is found once more, which pages
    /// that have read it know.
    async fn found(&mut self) -> Option<Changes> {
        let now = self.look().await?;
        let before = self.looked.replace(now.clone()).unwrap_or_default();
        let jobs =
            now.iter().filter(|(id, version)| before.get(id) != Some(version)).map(|(id, version)| (*id, *version)).collect();
        // A job that was deleted is nowhere to be found, and another one may have taken its place.
        Some(Changes { jobs, anything: now.len() < before.len() })
    }

    async fn look(&self) -> Option<HashMap<JobId, i64>> {
        Some(self.service.store().newest_versions(self.owner, LOOKED_AT).await.ok()?.into_iter().collect())
    }
}
