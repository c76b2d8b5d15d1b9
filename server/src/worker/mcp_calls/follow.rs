//! A call that a server has answered with a task: the handle is written down before anything else, the task is followed until
//! it ends, and when the job stops it is cancelled and followed on, since an acknowledged cancel is not the end of the work.

use super::{
    Asked, Conversation,
    task::{Seen, cancel, look, pause, word},
};
use crate::worker::run::StepError;
use contract::wording;
use documents::mcp::{Cause, Connection, Fault, Link};
use rmcp::model::{CallToolResult, Task};
use std::time::Duration;
use store::{CallEnd, CallState, Heartbeat};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// How often in a row a server may be out of reach before its task is given up.
const MISSES: u32 = 5;
/// The pause after the server was out of reach.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a task that is cancelled although the job goes on is followed at once; afterwards the sweep does that.
const BRIEFLY: Duration = Duration::from_secs(2);

impl Conversation<'_> {
    /// Goes on with the task that an earlier claim of the job has left behind.
    pub(super) async fn go_on_with(&mut self, number: u32, id: String) -> Asked<CallToolResult> {
        let mut change = self.work.change().await?;
        change.note(format!("Waiting for the task of {} again, which it was asked for before", self.source.name));
        change.commit().await?;
        if let Err(fault) = self.connect().await? {
            return self.lost(number, fault).await;
        }
        self.see_through(number, &id, Instant::now(), Duration::ZERO).await
    }

    /// Follows a task that has just been made.
    pub(super) async fn follow(&mut self, number: u32, task: &Task, start: Instant) -> Asked<CallToolResult> {
        if !self.keep(number, task).await? {
            return self.disown(&task.task_id).await;
        }
        self.see_through(number, &task.task_id, start, pause(task)).await
    }

    /// The handle came when nobody waited for the answer any longer.
    pub(super) async fn follow_late(&mut self, number: u32, task: &Task, cause: Cause, start: Instant) -> Asked<CallToolResult> {
        if !self.keep(number, task).await? {
            return self.disown(&task.task_id).await;
        }
        match cause {
            Cause::Stop => Err(self.stop_task(number, &task.task_id, start).await),
            Cause::Silent | Cause::TooLong => {
                let fault = self.too_late(cause);
                self.give_up(number, &task.task_id, fault).await
            }
        }
    }

    async fn keep(&self, number: u32, task: &Task) -> Result<bool, StepError> {
        let claim = &self.work.claim;
        let store = &self.work.dependencies.store;
        Ok(store.keep_task(claim.id, claim.epoch, number, &task.task_id, word(task.status)).await?)
    }

    /// The job is another worker's, which does not know of the task and has asked for it again.
    async fn disown(&mut self, id: &str) -> Asked<CallToolResult> {
        if let Some(connection) = &mut self.connection {
            let _ = cancel(connection, &self.source, id, &CancellationToken::new()).await;
        }
        Err(StepError::Stopped)
    }

    async fn see_through(&mut self, number: u32, id: &str, start: Instant, first: Duration) -> Asked<CallToolResult> {
        let (stop, end) = (self.work.halt.stop.clone(), start + self.source.settings.max);
        self.work.pulse.allow(self.source.settings.max);
        let (mut due, mut misses, mut status) = (Instant::now() + first, 0, "");
        loop {
            tokio::select! {
                () = stop.cancelled() => return Err(self.stop_task(number, id, start).await),
                () = sleep_until(end) => {
                    let fault = Fault::TooLong(self.source.settings.max);
                    return self.give_up(number, id, fault).await;
                }
                () = sleep_until(due) => {}
            }
            let Some(seen) = self.look(id, &stop).await else { return Err(self.stop_task(number, id, start).await) };
            let seen = match seen {
                Ok(seen) => seen,
                Err(fault) if self.may_pass(&fault) && misses < MISSES => {
                    (misses, due) = (misses + 1, Instant::now() + AGAIN);
                    continue;
                }
                Err(fault) => return self.lost(number, fault).await,
            };
            misses = 0;
            if seen.status() != status || seen.is_terminal() {
                status = seen.status();
                self.work.dependencies.store.task_seen(self.work.claim.id, number, status, seen.is_terminal()).await?;
            }
            let (state, result) = match seen {
                Seen::Working(pause) => {
                    due = Instant::now() + pause;
                    continue;
                }
                Seen::AsksForInput => return self.give_up(number, id, Fault::AsksForInput).await,
                Seen::Completed(result) => (CallState::Answered, *result),
                Seen::Failed(fault) => (CallState::Failed, Err(fault)),
                Seen::Cancelled => (CallState::Failed, Err(Fault::TaskCancelled)),
            };
            let detail = result.as_ref().err().map(ToString::to_string);
            self.unwritten = Some(CallEnd { number, state, detail });
            return Ok(result);
        }
    }

    /// Probes at the task, over a new connection where the old one was lost. `None`: stopped.
    async fn look(&mut self, id: &str, stop: &CancellationToken) -> Option<Result<Seen, Fault>> {
        match stop.run_until_cancelled(self.reach()).await? {
            Ok(()) => {}
            Err(fault) => return Some(Err(fault)),
        }
        look(self.connection.as_mut()?, &self.source, id, stop).await
    }

    async fn reach(&mut self) -> Result<(), Fault> {
        if self.connection.as_ref().is_none_or(Connection::is_spent) {
            self.hang_up().await;
            if matches!(self.source.settings.link, Link::Stdio(_)) {
                // Its task has ended with it.
                return Err(Fault::Gone);
            }
            self.connection = Some(Connection::open(&self.source).await?);
        }
        Ok(())
    }

    fn may_pass(&self, fault: &Fault) -> bool {
        let elsewhere = matches!(self.source.settings.link, Link::Http { .. });
        elsewhere && matches!(fault, Fault::Unreachable(_) | Fault::Gone | Fault::Silent(_) | Fault::NoGreeting(_))
    }

    /// Nothing more can be learned about a task.
    async fn lost(&mut self, number: u32, fault: Fault) -> Asked<CallToolResult> {
        let gone = fault.is_unknown() || matches!(self.source.settings.link, Link::Stdio(_));
        if gone {
            self.work.dependencies.store.task_seen(self.work.claim.id, number, "not known any more", true).await?;
        }
        self.unwritten = Some(CallEnd { number, state: CallState::Failed, detail: Some(fault.to_string()) });
        Ok(Err(fault))
    }

    /// Cancels a task that the job, which goes on, waits for no longer.
    async fn give_up(&mut self, number: u32, id: &str, fault: Fault) -> Asked<CallToolResult> {
        let stop = self.work.halt.stop.clone();
        self.cancel(id, &stop).await;
        self.watch(number, id, Instant::now() + BRIEFLY, &stop).await?;
        let state = if matches!(fault, Fault::AsksForInput) { CallState::Failed } else { CallState::TimedOut };
        self.unwritten = Some(CallEnd { number, state, detail: Some(format!("{fault}; its task was asked to stop")) });
        self.leave(number).await?;
        Ok(Err(fault))
    }

    async fn cancel(&mut self, id: &str, stop: &CancellationToken) -> bool {
        if !matches!(stop.run_until_cancelled(self.reach()).await, Some(Ok(()))) {
            return false;
        }
        let Some(connection) = &mut self.connection else { return false };
        matches!(cancel(connection, &self.source, id, stop).await, Some(Ok(())))
    }

    /// The task of a program ends with the program, which is about to end; one elsewhere is the sweep's.
    async fn leave(&mut self, number: u32) -> Result<(), StepError> {
        if matches!(self.source.settings.link, Link::Stdio(_)) {
            self.hang_up().await;
            self.work.dependencies.store.task_seen(self.work.claim.id, number, "ended with its program", true).await?;
        }
        Ok(())
    }

    /// Probes until the task has ended; gives its last status. The end is written down.
    async fn watch(
        &mut self,
        number: u32,
        id: &str,
        end: Instant,
        stop: &CancellationToken,
    ) -> Result<Option<&'static str>, StepError> {
        let mut last = None;
        while Instant::now() < end && !stop.is_cancelled() {
            let wait = match timeout_at(end, self.look(id, stop)).await {
                Ok(Some(Ok(seen))) => {
                    last = Some(seen.status());
                    if seen.is_terminal() {
                        self.work.dependencies.store.task_seen(self.work.claim.id, number, seen.status(), true).await?;
                        return Ok(last);
                    }
                    match seen {
                        Seen::Working(pause) => pause,
                        _ => AGAIN,
                    }
                }
                Ok(Some(Err(fault))) if self.may_pass(&fault) => AGAIN,
                Ok(Some(Err(_)) | None) | Err(_) => break,
            };
            let _ = timeout_at(end, stop.run_until_cancelled(sleep(wait))).await;
        }
        if let Some(last) = last {
            self.work.dependencies.store.task_seen(self.work.claim.id, number, last, false).await?;
        }
        Ok(last)
    }

    /// The job stops. After a cancel the task is cancelled and waited for, within the longest time of the call; at a shutdown and
    /// after a lost lease it is left to whoever goes on with the job.
    async fn stop_task(&mut self, number: u32, id: &str, start: Instant) -> StepError {
        self.try_stop_task(number, id, start).await.err().unwrap_or(StepError::Stopped)
    }

    async fn try_stop_task(&mut self, number: u32, id: &str, start: Instant) -> Result<(), StepError> {
        let (name, shutdown) = (self.source.name.clone(), self.work.halt.shutdown.clone());
        let ended = |state, detail: &str| CallEnd { number, state, detail: Some(detail.to_owned()) };
        if shutdown.is_cancelled() || !self.is_cancelled().await? {
            let left = ended(CallState::Abandoned, "the worker stopped before its task had ended");
            self.work
                .say(format!("The task of {name} was not seen to end before the program was shut down"), Some(&left))
                .await?;
            return self.leave(number).await;
        }
        let asked = self.cancel(id, &shutdown).await;
        self.work
            .say(
                if asked {
                    wording::waiting_for_task(&name)
                } else {
                    format!("{name} could not be asked to cancel its task (tasks/cancel); looking whether the task ends")
                },
                None,
            )
            .await?;
        self.work.pulse.allow(self.source.settings.max);
        let last = self.watch(number, id, start + self.source.settings.max, &shutdown).await?;
        let became = match last {
            Some("completed") => format!("The task of {name} was completed all the same; its result was discarded"),
            Some(status @ ("cancelled" | "failed")) => format!("The task of {name} has ended: {status}"),
            other => format!("The task of {name} was not seen to end; last status seen: {}", other.unwrap_or("none")),
        };
        let cancelled = ended(CallState::Cancelled, &became);
        self.work.say(became, Some(&cancelled)).await?;
        self.leave(number).await
    }

    /// Whether somebody has cancelled the job, and it is still this worker's.
    async fn is_cancelled(&self) -> Result<bool, StepError> {
        let claim = &self.work.claim;
        let seen = self.work.dependencies.store.look(claim.id, claim.epoch).await?;
        Ok(matches!(seen, Heartbeat::Stop))
    }
}
