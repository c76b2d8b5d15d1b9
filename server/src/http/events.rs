//! Live updates: a stream of server-sent events for one job. An event says only which version there is; the page reads the
//! record itself, so that there is one way for data to reach a screen, and a missed event costs nothing.

use super::{AppState, problem::Problem, session::SignedIn};
use crate::{
    bus::{News, changed},
    desk::{Desk, parse_id},
    id::JobId,
};
use app::model::Viewer;
use axum::{
    Router,
    extract::{Path, State},
    response::{
        Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures_util::{Stream, stream};
use std::{convert::Infallible, time::Duration};
use tokio::{sync::broadcast::Receiver, time::timeout};
use tokio_util::sync::CancellationToken;

/// How often a sign of life is sent. Pages take three missing ones for a lost connection.
const ALIVE: Duration = Duration::from_secs(4);

/// The routes, the same for the pages and the API.
pub fn routes() -> Router<AppState> {
    Router::new().route("/jobs/{id}/events", get(job_events)).route("/api/v1/jobs/{id}/events", get(job_events))
}

async fn job_events(
    State(desk): State<Desk>,
    State(shutdown): State<CancellationToken>,
    SignedIn(who): SignedIn,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let id: JobId = parse_id(&id)?;
    // Listening starts before the first look, so that nothing falls in between.
    let bus = desk.store().bus().subscribe();
    desk.visible(&who, id).await?;
    let watch = Watch { desk, who, id, bus, shutdown, seen: 0, ended: false };
    let events = stream::unfold(watch, |mut watch| async move { watch.next().await.map(|event| (Ok(event), watch)) });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE * 4)))
}

struct Watch {
    desk: Desk,
    who: Viewer,
    id: JobId,
    bus: Receiver<News>,
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
            let (version, ended) = self.desk.store().job_version(self.id).await.ok()??;
            if version > self.seen {
                (self.seen, self.ended) = (version, ended);
                tracing::trace!(job = %self.id, version = self.seen, viewer = %self.who.id, "told a page");
                return Some(
                    Event::default().event("job").id(self.seen.to_string()).data(format!("{{\"version\":{}}}", self.seen)),
                );
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return None,
                waited = timeout(ALIVE, changed(&mut self.bus, self.id)) => if waited.is_err() {
                    return Some(Event::default().event("alive").data("{}"));
                }
            }
        }
    }
}
