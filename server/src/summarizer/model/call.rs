//! One call to a model: attempts, time-outs, cancel, and the record of all of it.
//!
//! An attempt is an effect of its own: its intent is committed before, its outcome after. A cancel ends everything at
//! once, a stream by closing it and a back-off by waking from it, and no attempt ever follows a cancel. Time-outs are
//! not retried: the server may still be working on the first request, and another one would only add to its load.

use super::connection::{Connection, Frames};
use super::prompt::Prompt;
use super::settings::ModelSettings;
use crate::fail_point;
use crate::summarizer::SummarizeError;
use crate::summarizer::ledger::{CallEvidence, CallIntent, CallOutcome, Ledger};
use futures_util::StreamExt as _;
use genai::chat::{ChatStreamEvent, StopReason, StreamEnd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// The longest wait between two attempts, whatever a server asks for.
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// Bytes of an answer per allowed token. Far above any language's, so only a broken server exceeds it.
const BYTES_PER_ALLOWED_TOKEN: usize = 64;
/// A prompt with more bytes per counted token than this was cut by the server.
const CUT_PROMPT_BYTES_PER_TOKEN: usize = 8;

/// Everything a call needs.
pub(super) struct Caller<'a> {
    pub(super) settings: &'a ModelSettings,
    pub(super) connection: &'a Connection,
    pub(super) ledger: &'a dyn Ledger,
    pub(super) cancel: &'a CancellationToken,
}

/// How an attempt ended.
enum Ended {
    Answered {
        text: String,
        evidence: CallEvidence,
        stop: Option<StopReason>,
        refused: bool,
    },
    /// The token had fired before anything was sent.
    NotStarted,
    Cancelled {
        received: u64,
    },
    TimedOut {
        received: u64,
        reason: String,
    },
    Faulted {
        received: u64,
        fault: Fault,
    },
}

/// What went wrong, and whether trying again may help.
struct Fault {
    reason: String,
    retry: Retry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    No,
    AfterBackoff,
    /// The server said how long to wait.
    After(Duration),
}

impl Caller<'_> {
    /// Calls the model until it answers. `(number, of)` is the call's place in the summary.
    pub(super) async fn call(
        &self,
        prompt: &Prompt<'_>,
        (number, of): (u32, u32),
        purpose: &str,
    ) -> Result<String, SummarizeError> {
        let (system, user) = (prompt.system(), prompt.user());
        let mut attempt = 1;
        loop {
            if self.cancel.is_cancelled() {
                return Err(SummarizeError::Stopped);
            }
            let intent = CallIntent {
                number,
                of,
                attempt,
                host: self.connection.host().to_owned(),
                model: self.settings.model.clone(),
                purpose: purpose.to_owned(),
                prompt_bytes: system.len() + user.len(),
            };
            let handle = self.ledger.call_intended(&intent).await?;
            let (outcome, result) = self.judge(self.attempt(system.clone(), user.clone()).await, intent.prompt_bytes);
            self.ledger.call_ended(&handle, outcome).await?;
            let fault = match result {
                Ok(text) => return Ok(text),
                Err(Failure::Stopped) => return Err(SummarizeError::Stopped),
                Err(Failure::Fault(fault)) => fault,
            };
            let wait = match fault.retry {
                Retry::AfterBackoff => self.backoff(attempt),
                Retry::After(wait) => wait.min(LONGEST_BACKOFF),
                Retry::No => return Err(SummarizeError::failed(fault.reason)),
            };
            if attempt >= self.settings.max_attempts {
                return Err(SummarizeError::failed(format!("{} Given up after {attempt} attempts.", fault.reason)));
            }
            tracing::info!(
                attempt,
                wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                reason = fault.reason,
                "the model is asked again"
            );
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(SummarizeError::Stopped),
                () = sleep(wait) => attempt += 1,
            }
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.settings.first_backoff.saturating_mul(factor).min(LONGEST_BACKOFF)
    }

    /// One request. The stream is dropped, and with it the connection closed, before this returns.
    async fn attempt(&self, system: String, user: String) -> Ended {
        let started = Instant::now();
        let deadline = started + self.settings.max_timeout;
        let mut idle = started + self.settings.idle_timeout;
        let limit =
            usize::try_from(self.settings.max_output_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_ALLOWED_TOKEN);
        let frames = Arc::new(Frames::default());
        if self.cancel.is_cancelled() {
            return Ended::NotStarted;
        }
        fail_point::reach("before", "the model call").await;
        let mut stream = match self.connection.stream(system, user, &frames).await {
            Ok(stream) => stream,
            Err(error) => {
                return Ended::Faulted { received: 0, fault: self.fault(&error) };
            }
        };
        let (mut text, mut received) = (String::new(), 0_u64);
        loop {
            let event = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Ended::Cancelled { received },
                () = sleep_until(deadline) => return Ended::TimedOut { received, reason: self.took_too_long() },
                () = sleep_until(idle) => return Ended::TimedOut { received, reason: self.went_silent() },
                event = stream.next() => event,
            };
            match event {
                Some(Ok(ChatStreamEvent::Chunk(chunk))) => {
                    received += characters(&chunk.content);
                    text.push_str(&chunk.content);
                    idle = Instant::now() + self.settings.idle_timeout;
                    if text.len() > limit {
                        let reason =
                            format!("The model server at {} sent far more text than it was allowed to.", self.connection.host());
                        return Ended::Faulted { received, fault: Fault { reason, retry: Retry::No } };
                    }
                }
                // Thinking aloud is progress, but no part of the answer.
                Some(Ok(ChatStreamEvent::ReasoningChunk(chunk))) if !chunk.content.is_empty() => {
                    idle = Instant::now() + self.settings.idle_timeout;
                }
                Some(Ok(ChatStreamEvent::End(end))) => {
                    let seen = frames.seen();
                    let (evidence, stop) = evidence(end, seen.provider_id, received);
                    return Ended::Answered { text, evidence, stop, refused: seen.refused };
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    return Ended::Faulted { received, fault: self.fault(&error) };
                }
                None => {
                    let reason = format!(
                        "The model server at {} closed the connection before the end of its answer.",
                        self.connection.host()
                    );
                    return Ended::Faulted { received, fault: Fault { reason, retry: Retry::AfterBackoff } };
                }
            }
        }
    }

    /// What an attempt's end means for the record and for the caller.
    fn judge(&self, ended: Ended, prompt_bytes: usize) -> (CallOutcome, Result<String, Failure>) {
        match ended {
            Ended::NotStarted => (CallOutcome::NotStarted, Err(Failure::Stopped)),
            Ended::Cancelled { received } => {
                let reason = "The stream was closed.".to_owned();
                (CallOutcome::BrokenOff { received_characters: received, reason }, Err(Failure::Stopped))
            }
            Ended::TimedOut { received, reason } => {
                let recorded = format!("{reason} The stream was closed.");
                (
                    CallOutcome::BrokenOff { received_characters: received, reason: recorded },
                    Err(Failure::Fault(Fault { reason, retry: Retry::No })),
                )
            }
            Ended::Faulted { received: 0, fault } => {
                (CallOutcome::Failed { reason: fault.reason.clone() }, Err(Failure::Fault(fault)))
            }
            Ended::Faulted { received, fault } => (
                CallOutcome::BrokenOff { received_characters: received, reason: fault.reason.clone() },
                Err(Failure::Fault(fault)),
            ),
            Ended::Answered { text, evidence, stop, refused } => {
                let problem = self.problem(&text, &evidence, stop.as_ref(), refused, prompt_bytes);
                let result = problem.map_or(Ok(text), |reason| Err(Failure::Fault(Fault { reason, retry: Retry::No })));
                (CallOutcome::Answered { evidence }, result)
            }
        }
    }

    /// Why an answer is of no use, if it is not.
    fn problem(
        &self,
        text: &str,
        evidence: &CallEvidence,
        stop: Option<&StopReason>,
        refused: bool,
        prompt_bytes: usize,
    ) -> Option<String> {
        let counted = evidence.tokens_in.and_then(|tokens| usize::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
        match stop {
            _ if refused => Some("The model refused to answer.".to_owned()),
            Some(StopReason::ContentFilter(_)) => Some("The model refused to answer.".to_owned()),
            Some(StopReason::MaxTokens(_)) => {
                let tokens = evidence.tokens_out.unwrap_or_else(|| u64::from(self.settings.max_output_tokens));
                Some(format!("The model's answer was cut off after {} tokens; raise the limit or choose fewer documents.", grouped(tokens)))
            }
            Some(StopReason::ToolCall(_)) => Some("The model asked for a tool instead of answering; it has none. Choose another model.".to_owned()),
            _ if text.trim().is_empty() => Some("The model sent an empty answer.".to_owned()),
            _ => counted.filter(|tokens| tokens.saturating_mul(CUT_PROMPT_BYTES_PER_TOKEN) < prompt_bytes).map(|tokens| {
                format!(
                    "The model server at {} read only {} tokens, less than it was sent. Raise its context length, or lower context_tokens in the settings.",
                    self.connection.host(),
                    grouped(u64::try_from(tokens).unwrap_or(u64::MAX))
                )
            }),
        }
    }

    fn took_too_long(&self) -> String {
        format!("The model server at {} did not finish within {}.", self.connection.host(), seconds(self.settings.max_timeout))
    }

    fn went_silent(&self) -> String {
        format!("The model server at {} sent nothing for {}.", self.connection.host(), seconds(self.settings.idle_timeout))
    }

    fn fault(&self, error: &genai::Error) -> Fault {
        let host = self.connection.host();
        if let Some((status, body, wait)) = status_of(error) {
            let hint = match status.as_u16() {
                401 | 403 => ": check the key".to_owned(),
                404 => ": check the model's name and the server's address".to_owned(),
                300..=399 => ", a redirect: set the address it leads to".to_owned(),
                429 => " (too many requests)".to_owned(),
                500..=599 => String::new(),
                _ => message_of(&body).map(|message| format!(": {message}")).unwrap_or_default(),
            };
            let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
            let retry = match wait {
                Some(wait) if may_pass => Retry::After(wait),
                None if may_pass => Retry::AfterBackoff,
                _ => Retry::No,
            };
            return Fault { reason: format!("The model server at {host} answered {}{hint}.", status.as_u16()), retry };
        }
        tracing::warn!(%host, %error, "a model call failed");
        match error {
            genai::Error::WebStream { error, .. } if is_connect(error.as_ref()) => {
                Fault { reason: format!("The model server at {host} cannot be reached."), retry: Retry::AfterBackoff }
            }
            genai::Error::WebStream { .. } | genai::Error::WebModelCall { .. } => {
                Fault { reason: format!("The connection to the model server at {host} was lost."), retry: Retry::AfterBackoff }
            }
            genai::Error::ChatResponse { body, .. } => {
                let message = message_of(&body.to_string()).unwrap_or_else(|| "it did not say why".to_owned());
                let may_pass = ["overloaded", "rate_limit", "server_error", "api_error", "unavailable"]
                    .iter()
                    .any(|word| body.to_string().contains(word));
                let retry = if may_pass { Retry::AfterBackoff } else { Retry::No };
                Fault { reason: format!("The model server at {host} broke off its answer: {message}."), retry }
            }
            _ => Fault {
                reason: format!(
                    "The model server at {host} sent something that is not a model's answer. Check its address and protocol."
                ),
                retry: Retry::No,
            },
        }
    }
}

enum Failure {
    Stopped,
    Fault(Fault),
}

/// The status, the body, and the wait that the server asked for, where an error carries an HTTP answer.
fn status_of(error: &genai::Error) -> Option<(reqwest::StatusCode, String, Option<Duration>)> {
    match error {
        genai::Error::HttpError { status, body, headers, .. } => Some((*status, body.clone(), retry_after(headers))),
        genai::Error::WebStream { error, .. } => error.downcast_ref::<genai::Error>().and_then(status_of),
        _ => None,
    }
}

/// `Retry-After` in seconds (RFC 9110, 10.2.3). Its other form, a date, would need this machine's clock to be right;
/// the usual back-off serves as well.
fn retry_after(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    headers.get(reqwest::header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn is_connect(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect)
}

/// The message in a provider's error body, as one short plain line.
fn message_of(body: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(body).ok()?;
    let message = ["/error/message", "/message", "/error", "/detail"].iter().find_map(|path| json.pointer(path)?.as_str())?;
    let plain = crate::summarizer::inline::plain(message);
    let short: String = plain.trim_end_matches('.').chars().take(200).collect();
    (!short.is_empty()).then_some(short)
}

fn evidence(end: StreamEnd, provider_id: Option<String>, characters: u64) -> (CallEvidence, Option<StopReason>) {
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    let usage = end.captured_usage.as_ref();
    let evidence = CallEvidence {
        tokens_in: usage.and_then(|usage| tokens(usage.prompt_tokens)),
        tokens_out: usage.and_then(|usage| tokens(usage.completion_tokens)),
        provider_id: provider_id.or(end.captured_response_id),
        finish_reason: end.captured_stop_reason.as_ref().map(|stop| stop.raw().to_owned()),
        characters,
    };
    (evidence, end.captured_stop_reason)
}

fn characters(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// `4096` as `4,096`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
