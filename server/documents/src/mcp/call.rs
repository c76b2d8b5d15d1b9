//! One call, which every request goes through: two time-outs, a stop at any moment, and the signal to the server that fits the
//! transport.
//!
//! rmcp's own time-outs are not used: they wait for the request to stop to be written, and a program that has stopped reading
//! never lets it.

use super::{connection::Connection, fault::Fault};
use rmcp::{
    model::{CancelledNotificationParam, ClientRequest, ServerResult},
    service::{PeerRequestOptions, ServiceError},
};
use std::{sync::atomic::Ordering, time::Duration};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a server may take to take the request to stop.
const SIGNAL: Duration = Duration::from_secs(2);

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Without progress.
    pub idle: Duration,
    /// From its start, whatever happens.
    pub max: Duration,
    /// How long its answer is still waited for once it is to be broken off: it may hold the only handle of a task.
    pub grace: Duration,
}

/// Why a call was broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Stop,
    Silent,
    TooLong,
}

/// How the server was told that nobody waits any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `notifications/cancelled` with the request's id was written.
    Told,
    /// The server did not even take that.
    NotTaken,
    /// The stream of the answer was closed, which is the signal over HTTP.
    Closed,
    /// A server of an older revision keeps the work of a closed stream going, so that it gets the notification.
    ToldByPost,
}

/// How a call ended.
#[derive(Debug)]
pub enum Ended {
    Answered(Box<ServerResult>),
    Failed(Fault),
    /// Nobody waits for the answer any longer.
    BrokenOff(Cause, Signal),
    /// It was to be broken off, but its answer came within the grace.
    Late(Cause, Result<Box<ServerResult>, Fault>),
}

impl Connection {
    /// Sends a request and waits for its answer. No request is ever sent again.
    pub async fn call(&mut self, request: ClientRequest, limits: Limits, stop: &CancellationToken) -> Ended {
        // Until it has ended well: if this future is dropped, nobody knows what the server is in the middle of.
        self.spent = true;
        let start = Instant::now();
        let mut progress = self.progress.clone();
        progress.mark_unchanged();
        // With one call at a time there is always room in the queue.
        let sending = self.peer().send_cancellable_request(request, PeerRequestOptions::no_options());
        let mut handle = match timeout(limits.idle, sending).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(error)) => return Ended::Failed(self.fault(&error)),
            Err(_) => return Ended::Failed(Fault::Silent(limits.idle)),
        };
        let (mut silent_at, mut reached) = (start + limits.idle, f64::NEG_INFINITY);
        let cause = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => return match self.received(answer) {
                    Ok(answer) => Ended::Answered(answer),
                    Err(fault) => Ended::Failed(fault),
                },
                () = stop.cancelled() => break Cause::Stop,
                () = sleep_until(start + limits.max) => break Cause::TooLong,
                () = sleep_until(silent_at) => break Cause::Silent,
                Ok(()) = progress.changed() => {
                    // A number that does not grow is no progress.
                    let reported = progress.borrow_and_update().clone();
                    if let Some((_, value)) = reported.filter(|(token, value)| *token == handle.progress_token && *value > reached) {
                        (reached, silent_at) = (value, Instant::now() + limits.idle);
                    }
                }
            }
        };
        if !limits.grace.is_zero()
            && let Ok(answer) = timeout(limits.grace, &mut handle.rx).await
        {
            return Ended::Late(cause, self.received(answer));
        }
        let reason = match cause {
            Cause::Stop => "the report is no longer made",
            Cause::Silent => "no progress for too long",
            Cause::TooLong => "it takes too long",
        };
        let signal = CancelledNotificationParam::new(Some(handle.id.clone()), Some(reason.into()));
        let told = matches!(timeout(SIGNAL, self.peer().notify_cancelled(signal)).await, Ok(Ok(())));
        self.deaf = !told;
        let signal = match told {
            true if self.is_stdio() => Signal::Told,
            // rmcp keeps the notification to itself and closes the stream.
            true if self.is_modern() => Signal::Closed,
            true => Signal::ToldByPost,
            false => Signal::NotTaken,
        };
        Ended::BrokenOff(cause, signal)
    }

    fn received<E>(&mut self, answer: Result<Result<ServerResult, ServiceError>, E>) -> Result<Box<ServerResult>, Fault> {
        match answer {
            Ok(Ok(answer)) => {
                self.spent = false;
                Ok(Box::new(answer))
            }
            Ok(Err(error)) => {
                // An error of the protocol is an answer as well.
                self.spent = !matches!(error, ServiceError::McpError(_));
                Err(self.fault(&error))
            }
            Err(_) => Err(self.fault(&ServiceError::TransportClosed)),
        }
    }

    fn fault(&self, error: &ServiceError) -> Fault {
        match error.into() {
            _ if self.overflow.load(Ordering::Relaxed) => Fault::TooLarge,
            // A pipe that is broken.
            Fault::Unreachable(_) if self.is_stdio() => Fault::Gone,
            fault => fault,
        }
    }
}
