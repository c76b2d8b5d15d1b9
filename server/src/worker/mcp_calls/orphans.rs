//! Tasks of servers elsewhere that outlived their job: its worker was killed while one was open, or the job went on without it.
//! They are asked to stop and looked at until they have ended, so that no server works on for nobody, and the record says what
//! was last seen.

use super::task::{cancel, look};
use crate::worker::Dependencies;
use chrono::TimeDelta;
use documents::mcp::{Connection, Fault, Link, ServerSource};
use std::{sync::Arc, time::Duration};
use store::{OpenTask, StoreError, complain};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The pause between two rounds, at first and at most: while tasks do not end, a server is asked less and less often.
const ROUND: Duration = Duration::from_secs(5);
const LONGEST_ROUND: Duration = Duration::from_mins(5);
/// How long after its beginning a task is still looked after. No server keeps one for much longer.
const LOOKED_AFTER: TimeDelta = TimeDelta::days(1);

/// Goes on until `stop`. A task of its own: a slow server must not keep jobs waiting.
pub async fn run(dependencies: Arc<Dependencies>, stop: CancellationToken) {
    let mut pause = ROUND;
    loop {
        match stop.run_until_cancelled(dependencies.store.orphaned_tasks()).await {
            None => return,
            Some(Err(error)) => complain("open tasks of MCP servers could not be listed", &error),
            // Nothing can come where no server is set up.
            Some(Ok(tasks)) if tasks.is_empty() && dependencies.servers.is_empty() => return,
            Some(Ok(tasks)) => {
                pause = if tasks.is_empty() { ROUND } else { LONGEST_ROUND.min(pause * 2) };
                for task in tasks {
                    let settling = Box::pin(settle(&dependencies, &task, &stop));
                    if let Some(Err(error)) = stop.run_until_cancelled(settling).await {
                        complain(format_args!("a task of job {} could not be accounted for", task.job_id), &error);
                    }
                }
            }
        }
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Asks for the end of a task, and looks once: the next look is the next round's.
async fn settle(dependencies: &Dependencies, task: &OpenTask, stop: &CancellationToken) -> Result<(), StoreError> {
    let server = dependencies.servers.get(&task.source_id).filter(|server| matches!(server.settings.link, Link::Http { .. }));
    let Some(server) = server else {
        return tell(dependencies, task, "out of reach: its source is no longer in the settings", true).await;
    };
    let is_old = dependencies.store.clock().now() - task.started_at > LOOKED_AFTER;
    match ask(&server, &task.task_id, stop).await {
        Some(Ok(status)) => tell(dependencies, task, status.0, status.1 || is_old).await,
        Some(Err(fault)) if fault.is_unknown() => tell(dependencies, task, "not known any more", true).await,
        Some(Err(fault)) if is_old => tell(dependencies, task, &fault.to_string(), true).await,
        Some(Err(_)) | None => Ok(()),
    }
}

async fn ask(server: &ServerSource, id: &str, stop: &CancellationToken) -> Option<Result<(&'static str, bool), Fault>> {
    let mut connection = match Connection::open(server).await {
        Ok(connection) => connection,
        Err(fault) => return Some(Err(fault)),
    };
    let asked = cancel(&mut connection, server, id, stop).await;
    let seen = match asked {
        Some(Ok(())) => look(&mut connection, server, id, stop).await,
        Some(Err(fault)) => Some(Err(fault)),
        None => None,
    };
    connection.close().await;
    Some(seen?.map(|seen| (seen.status(), seen.is_terminal())))
}

async fn tell(dependencies: &Dependencies, task: &OpenTask, status: &str, ended: bool) -> Result<(), StoreError> {
    let store = &dependencies.store;
    let number = u32::try_from(task.number).unwrap_or_default();
    let is_new = store.task_seen(task.job_id, number, status, ended).await?;
    if let (true, true, Some(mut change)) = (ended, is_new, store.change_job(task.job_id).await?) {
        change.note(format!("The task that {} had been given: {status}", task.source));
        change.commit().await?;
    }
    Ok(())
}
