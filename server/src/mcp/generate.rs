//! The call that waits for its report. The report belongs to the call: whoever takes the call back cancels the report, by the
//! same path as the Cancel button.
//!
//! `RequestContext::ct` fires when the call is taken back, but also at every normal end and when the server stops. So it is
//! looked at here only, while the call runs, and nothing of the job ever hangs on it.

use super::results::{Failed, ended, page, refused};
use crate::service::{Service, ServiceError};
use app::{
    error::AppError,
    model::{JobView, Viewer},
};
use domain::id::JobId;
use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{CallToolResult, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use std::time::Duration;
use store::notifications::changed;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Another process may write too, so silence is not taken for rest.
const LOOK: Duration = Duration::from_secs(1);
/// The pause after a Cancel that the database did not take.
const AGAIN: Duration = Duration::from_secs(1);

/// The ends of a connection, as far as they are not the protocol's.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// The client has left for good: on stdio, the end of the input.
    pub left: CancellationToken,
    /// This process stops. It hands its jobs back; nobody has asked to cancel any.
    pub shutdown: CancellationToken,
}

/// Waits for the end of a job that this call has ordered.
pub async fn wait(
    service: &Service,
    who: &Viewer,
    id: JobId,
    context: &RequestContext<RoleServer>,
    ends: &Ends,
) -> Result<CallToolResult, Failed> {
    // Listening starts before the first look, so that nothing falls in between.
    let mut notifications = service.store().notifications().subscribe();
    let mut progress = context.meta.get_progress_token().map(|token| Progress { token, peer: &context.peer, told: 0 });
    let taken_back = async || {
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = ends.left.cancelled() => {}
        }
    };
    loop {
        let next = async {
            match service.show_job(who, id).await {
                Ok(job) if job.phase.is_final() => return Some(Ok(job)),
                // No worker takes one that waits for a person.
                Ok(job) if job.set_aside.is_some() => return Some(Err(refused(set_aside(service, &job)).into())),
                Ok(job) => {
                    if let Some(progress) = &mut progress {
                        progress.tell(&job).await;
                    }
                }
                // It passes by itself, and to leave here would leave the job behind.
                Err(ServiceError(AppError::Unavailable(_))) => {}
                Err(error) => return Some(Err(error.into())),
            }
            let _ = timeout(LOOK, changed(&mut notifications, id)).await;
            None
        };
        let seen = tokio::select! {
            biased;
            () = taken_back() => break,
            seen = next => seen,
        };
        match seen {
            None => {}
            Some(Ok(job)) => return Ok(ended(service, &job)?),
            Some(Err(failed)) => return Err(failed),
        }
    }
    if ends.shutdown.is_cancelled() {
        let text = format!("Recount is stopping. The report {id} is not cancelled: it goes on when Recount runs again.");
        return Err(ErrorData::internal_error(text, None).into());
    }
    cancel(service, who, id, &ends.shutdown).await;
    // Nobody reads this: the answer to a call that was taken back is suppressed.
    Err(ErrorData::internal_error("The request was cancelled.", None).into())
}

fn set_aside(service: &Service, job: &JobView) -> String {
    let url = page(service, &job.id);
    format!("This is a restored copy of Recount, and the report waits until a person decides about it on its page: {url}")
}

/// Presses Cancel until that is recorded: nobody is left who could press it again.
async fn cancel(service: &Service, who: &Viewer, id: JobId, shutdown: &CancellationToken) {
    let by = format!("{} (the request was cancelled)", who.email);
    while let Err(ServiceError(error)) = service.cancel_job_as(who, id, &by).await {
        if error == AppError::NotFound {
            return;
        }
        // Why was logged where it happened.
        tracing::debug!(job = %id, "the cancel of a request could not be recorded yet");
        if shutdown.run_until_cancelled(sleep(AGAIN)).await.is_none() {
            return;
        }
    }
}

/// The progress of one call: the record's versions, which only grow, with its headlines.
struct Progress<'a> {
    token: ProgressToken,
    peer: &'a Peer<RoleServer>,
    told: i64,
}

impl Progress<'_> {
    async fn tell(&mut self, job: &JobView) {
        if job.version <= self.told {
            return;
        }
        self.told = job.version;
        #[expect(clippy::cast_precision_loss, reason = "no record has 2^52 versions")]
        let reached = job.version as f64;
        let param = ProgressNotificationParam::new(self.token.clone(), reached).with_message(job.headline.clone());
        // A client that does not read is noticed by its connection.
        let _ = self.peer.notify_progress(param).await;
    }
}
