//! One call to a model: attempts, time-outs, cancel, and the record of all of it.
//!
//! An attempt is an effect of its own: its intent is committed before, its outcome after. A cancel ends everything at
//! once, a stream by closing it and a back-off by waking from it, and no attempt ever follows a cancel. Time-outs are
//! not retried: the server may still be working on the first request, and another one would only add to its load.
//!
//! A server may send without an end and faster than we can read. So everything that is kept of an answer has a limit, and
//! between any two pieces the cancel and the clocks are looked at first.

use super::connection::{Connection, retry_after};
use super::events::{Events, LONGEST_EVENT, TooLong};
use super::prompt::Prompt;
use super::protocol::{Answer, Heard, Stop, Unavailable, framing};
use super::settings::ModelSettings;
use crate::SummarizeError;
use crate::ledger::{CallIntent, CallOutcome, Ledger, Received};
use domain::clock::SharedClock;
use domain::fail_point;
use reqwest::{Response, StatusCode};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// The longest wait between two attempts, whatever a server asks for.
pub(super) const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// Bytes of an answer per allowed token. Far above any language's, so only a broken server exceeds it.
const BYTES_PER_ALLOWED_TOKEN: usize = 64;
/// The most that is read of what a server says beside an error status, in bytes.
const LONGEST_ERROR: usize = 64 << 10;
/// Keep-alives in an idle time-out come to less than this many bytes; what is more is worth a word.
const KEEP_ALIVES: u64 = 64 << 10;
/// A prompt with more bytes per counted token than this was cut by the server.
const CUT_PROMPT_BYTES_PER_TOKEN: usize = 8;

/// Everything a call needs.
pub(super) struct Caller<'a> {
    pub(super) settings: &'a ModelSettings,
    pub(super) connection: &'a Connection,
    pub(super) ledger: &'a dyn Ledger,
    pub(super) cancel: &'a CancellationToken,
    pub(super) clock: &'a SharedClock,
}

/// How an attempt ended.
enum Ended {
    Answered(Answer),
    /// The token had fired before anything was sent.
    NotStarted,
    Cancelled(Received),
    TimedOut(Received, String),
    Faulted(Received, Fault),
}

/// What went wrong, and whether trying again may help.
struct Fault {
    reason: String,
    retry: Retry,
}

impl Fault {
    fn for_good(reason: String) -> Self {
        Self { reason, retry: Retry::No }
    }

    fn may_pass(reason: String) -> Self {
        Self { reason, retry: Retry::AfterBackoff }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    No,
    AfterBackoff,
    /// The server said how long to wait.
    After(Duration),
}

/// What ends a wait for the server before it has done what it is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Cancelled,
    /// The attempt has lasted as long as it may.
    Maximum,
    /// Too long without progress.
    Idle,
}

/// How long one attempt may still wait.
struct Patience<'a> {
    cancel: &'a CancellationToken,
    deadline: Instant,
    idle_timeout: Duration,
    idle: Instant,
}

impl Patience<'_> {
    /// Waits for `work`. Where it is ready each time, as with a server that always has something to say, the thread is given
    /// away in between: no timer moves, and no other task gets its turn, while one task keeps it.
    async fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, Over> {
        yield_now().await;
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Over::Cancelled),
            () = sleep_until(self.deadline) => Err(Over::Maximum),
            () = sleep_until(self.idle) => Err(Over::Idle),
            done = work => Ok(done),
        }
    }

    fn progress(&mut self) {
        self.idle = Instant::now() + self.idle_timeout;
    }
}

/// An answer that is coming in.
struct Incoming {
    answer: Answer,
    /// All bytes of its stream.
    bytes: u64,
    /// Those since the last piece of the answer.
    idle_bytes: u64,
}

impl Incoming {
    fn received(&self) -> Received {
        Received { characters: self.answer.evidence.characters, bytes: self.bytes }
    }
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
            let (outcome, result) = self.judge(self.attempt(&system, &user).await, intent.prompt_bytes);
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
    async fn attempt(&self, system: &str, user: &str) -> Ended {
        let started = Instant::now();
        let mut patience = Patience {
            cancel: self.cancel,
            deadline: started + self.settings.max_timeout,
            idle_timeout: self.settings.idle_timeout,
            idle: started + self.settings.idle_timeout,
        };
        if self.cancel.is_cancelled() {
            return Ended::NotStarted;
        }
        fail_point::reach("before", "the model call").await;
        let mut incoming = Incoming { answer: Answer::default(), bytes: 0, idle_bytes: 0 };
        let response = match patience.wait(self.connection.send(self.settings, system, user)).await {
            Ok(Ok(response)) if response.status().is_success() => response,
            Ok(Ok(response)) => return self.refused(response, &patience).await,
            Ok(Err(error)) => return Ended::Faulted(Received::default(), self.lost(&error)),
            Err(over) => return self.over(over, &incoming),
        };
        match self.listen(response, &mut incoming, &mut patience).await {
            Ok(()) => Ended::Answered(incoming.answer),
            Err(Broken::Over(over)) => self.over(over, &incoming),
            Err(Broken::Fault(fault)) => Ended::Faulted(incoming.received(), fault),
        }
    }

    /// Reads a stream to the end of its answer.
    async fn listen(&self, mut response: Response, incoming: &mut Incoming, patience: &mut Patience<'_>) -> Result<(), Broken> {
        let mut events = Events::new(framing(self.settings.provider));
        loop {
            let chunk = patience.wait(response.chunk()).await?.map_err(|error| self.lost(&error))?;
            let Some(chunk) = chunk else { break };
            let count = length(chunk.len());
            (incoming.bytes, incoming.idle_bytes) = (incoming.bytes + count, incoming.idle_bytes + count);
            let mut left = chunk.as_ref();
            while let Some(event) = events.next(&mut left).map_err(|TooLong| self.does_not_end())? {
                match self.hear(&event, incoming)? {
                    Heard::Nothing => {}
                    Heard::Progress => {
                        incoming.idle_bytes = 0;
                        patience.progress();
                    }
                    Heard::End => return Ok(()),
                }
            }
        }
        if let Some(event) = events.rest()
            && self.hear(&event, incoming)? == Heard::End
        {
            return Ok(());
        }
        let reason =
            format!("The model server at {} closed the connection before the end of its answer.", self.connection.host());
        Err(Broken::Fault(Fault::may_pass(reason)))
    }

    fn hear(&self, event: &[u8], incoming: &mut Incoming) -> Result<Heard, Fault> {
        let heard = incoming.answer.hear(self.settings.provider, event).map_err(|trouble| self.trouble(trouble))?;
        let allowed = usize::try_from(self.settings.max_output_tokens).unwrap_or(usize::MAX);
        if incoming.answer.text.len() > allowed.saturating_mul(BYTES_PER_ALLOWED_TOKEN) {
            let host = self.connection.host();
            return Err(Fault::for_good(format!("The model server at {host} sent far more text than it was allowed to.")));
        }
        Ok(heard)
    }

    /// An answer with another status than success. Its text may say why, so some of it is read.
    async fn refused(&self, mut response: Response, patience: &Patience<'_>) -> Ended {
        let (status, wait) = (response.status(), retry_after(response.headers(), self.clock));
        let mut body = Vec::new();
        let is_whole = loop {
            match patience.wait(response.chunk()).await {
                Ok(Ok(Some(chunk))) if body.len() + chunk.len() <= LONGEST_ERROR => body.extend_from_slice(&chunk),
                Ok(Ok(None)) => break true,
                Err(Over::Cancelled) => return Ended::Cancelled(Received { characters: 0, bytes: length(body.len()) }),
                // The status says enough.
                Ok(_) | Err(Over::Maximum | Over::Idle) => break false,
            }
        };
        Ended::Faulted(Received::default(), self.status_fault(status, wait, is_whole.then_some(body.as_slice())))
    }

    fn over(&self, over: Over, incoming: &Incoming) -> Ended {
        let host = self.connection.host();
        let reason = match over {
            Over::Cancelled => return Ended::Cancelled(incoming.received()),
            Over::Maximum => {
                format!("The model server at {host} did not finish within {}.", seconds(self.settings.max_timeout))
            }
            Over::Idle if incoming.idle_bytes > KEEP_ALIVES => format!(
                "The model server at {host} sent {} bytes without a piece of an answer for {}.",
                grouped(incoming.idle_bytes),
                seconds(self.settings.idle_timeout)
            ),
            Over::Idle => format!("The model server at {host} sent nothing for {}.", seconds(self.settings.idle_timeout)),
        };
        Ended::TimedOut(incoming.received(), reason)
    }

    /// What an attempt's end means for the record and for the caller.
    fn judge(&self, ended: Ended, prompt_bytes: usize) -> (CallOutcome, Result<String, Failure>) {
        match ended {
            Ended::NotStarted => (CallOutcome::NotStarted, Err(Failure::Stopped)),
            Ended::Cancelled(received) => {
                let reason = "The stream was closed.".to_owned();
                (CallOutcome::BrokenOff { received, reason }, Err(Failure::Stopped))
            }
            Ended::TimedOut(received, reason) => {
                let recorded = format!("{reason} The stream was closed.");
                (CallOutcome::BrokenOff { received, reason: recorded }, Err(Failure::Fault(Fault::for_good(reason))))
            }
            Ended::Faulted(received, fault) if received == Received::default() => {
                (CallOutcome::Failed { reason: fault.reason.clone() }, Err(Failure::Fault(fault)))
            }
            Ended::Faulted(received, fault) => {
                (CallOutcome::BrokenOff { received, reason: fault.reason.clone() }, Err(Failure::Fault(fault)))
            }
            Ended::Answered(answer) => {
                let problem = self.problem(&answer, prompt_bytes);
                let Answer { text, evidence, .. } = answer;
                (
                    CallOutcome::Answered { evidence },
                    problem.map_or(Ok(text), |reason| Err(Failure::Fault(Fault::for_good(reason)))),
                )
            }
        }
    }

    /// Why an answer is of no use, if it is not.
    fn problem(&self, answer: &Answer, prompt_bytes: usize) -> Option<String> {
        let evidence = &answer.evidence;
        let counted = evidence.tokens_in.and_then(|tokens| usize::try_from(tokens).ok()).filter(|tokens| *tokens > 0);
        match answer.stop() {
            Stop::Refused => Some("The model refused to answer.".to_owned()),
            Stop::CutOff => {
                let tokens = evidence.tokens_out.unwrap_or_else(|| u64::from(self.settings.max_output_tokens));
                Some(format!("The model's answer was cut off after {} tokens; raise the limit or choose fewer documents.", grouped(tokens)))
            }
            Stop::WantsTool => Some("The model asked for a tool instead of answering; it has none. Choose another model.".to_owned()),
            Stop::Complete if answer.text.trim().is_empty() => Some("The model sent an empty answer.".to_owned()),
            Stop::Complete => counted.filter(|tokens| tokens.saturating_mul(CUT_PROMPT_BYTES_PER_TOKEN) < prompt_bytes).map(|tokens| {
                format!(
                    "The model server at {} read only {} tokens, less than it was sent. Raise its context length, or lower context_tokens in the settings.",
                    self.connection.host(),
                    grouped(length(tokens))
                )
            }),
        }
    }

    /// `body` is what the server said beside the status, where that came whole.
    fn status_fault(&self, status: StatusCode, wait: Option<Duration>, body: Option<&[u8]>) -> Fault {
        let host = self.connection.host();
        let hint = match status.as_u16() {
            401 | 403 => ": check the key".to_owned(),
            404 => ": check the model's name and the server's address".to_owned(),
            300..=399 => ", a redirect: set the address it leads to".to_owned(),
            429 => " (too many requests)".to_owned(),
            500..=599 => String::new(),
            _ => body.and_then(message_of).map(|message| format!(": {message}")).unwrap_or_default(),
        };
        let more = if body.is_none() { " What else it said was not read to its end." } else { "" };
        let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 429);
        let retry = match wait {
            Some(wait) if may_pass => Retry::After(wait),
            None if may_pass => Retry::AfterBackoff,
            _ => Retry::No,
        };
        Fault { reason: format!("The model server at {host} answered {}{hint}.{more}", status.as_u16()), retry }
    }

    fn lost(&self, error: &reqwest::Error) -> Fault {
        let host = self.connection.host();
        tracing::warn!(%host, error = %chain(error), "a model call failed");
        Fault::may_pass(if error.is_connect() {
            format!("The model server at {host} cannot be reached.")
        } else {
            format!("The connection to the model server at {host} was lost.")
        })
    }

    fn trouble(&self, trouble: Unavailable) -> Fault {
        let host = self.connection.host();
        match trouble {
            Unavailable::Said(event) => {
                let event = event.to_string();
                tracing::warn!(%host, event = %event.chars().take(500).collect::<String>(), "a model broke off its answer");
                let message = message_of(event.as_bytes()).unwrap_or_else(|| "it did not say why".to_owned());
                let reason = format!("The model server at {host} broke off its answer: {message}.");
                let may_pass = ["overloaded", "rate_limit", "server_error", "api_error", "unavailable"];
                let retry = if may_pass.iter().any(|word| event.contains(word)) { Retry::AfterBackoff } else { Retry::No };
                Fault { reason, retry }
            }
            Unavailable::Foreign => Fault::for_good(format!(
                "The model server at {host} sent something that is not a model's answer. Check its address and protocol."
            )),
        }
    }

    fn does_not_end(&self) -> Fault {
        let (host, limit) = (self.connection.host(), LONGEST_EVENT >> 20);
        Fault::for_good(format!(
            "The model server at {host} sent a line of more than {limit} MiB without an end. Check its address and protocol."
        ))
    }
}

/// Why no answer came to its end.
enum Broken {
    Over(Over),
    Fault(Fault),
}

impl From<Over> for Broken {
    fn from(over: Over) -> Self {
        Self::Over(over)
    }
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

enum Failure {
    Stopped,
    Fault(Fault),
}

/// An error with all its causes, for the log.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The message in a provider's error body, as one short plain line.
fn message_of(body: &[u8]) -> Option<String> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    let message = ["/error/message", "/message", "/error", "/detail"].iter().find_map(|path| json.pointer(path)?.as_str())?;
    let plain = crate::inline::plain(message);
    let short: String = plain.trim_end_matches('.').chars().take(200).collect();
    (!short.is_empty()).then_some(short)
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
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
