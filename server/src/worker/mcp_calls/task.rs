//! The three questions about a server's task, and what a status means. Whoever asks decides what to do about it.

use documents::mcp::{Connection, Ended, Fault, Limits, ServerSource};
use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, GetTaskParams, GetTaskRequest, JsonObject, ServerResult,
    Task, TaskPayload, TaskStatus,
};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a server is asked that says nothing about it.
const USUAL_PAUSE: Duration = Duration::from_secs(1);
/// A server's own wish is kept to between these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_mins(1));

/// What a look at a task has shown.
#[derive(Debug)]
pub enum Seen {
    /// It goes on; the next look is due after the pause.
    Working(Duration),
    AsksForInput,
    Completed(Box<Result<CallToolResult, Fault>>),
    Failed(Fault),
    Cancelled,
}

impl Seen {
    /// The protocol's word for it.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Working(_) => word(TaskStatus::Working),
            Self::AsksForInput => word(TaskStatus::InputRequired),
            Self::Completed(_) => word(TaskStatus::Completed),
            Self::Failed(_) => word(TaskStatus::Failed),
            Self::Cancelled => word(TaskStatus::Cancelled),
        }
    }

    /// Whether the status never changes any more.
    pub fn is_terminal(&self) -> bool {
        !matches!(self, Self::Working(_) | Self::AsksForInput)
    }
}

/// The protocol's word for a status.
pub fn word(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
        _ => "unknown",
    }
}

/// The pause that a server wishes for between two looks.
pub fn pause(task: &Task) -> Duration {
    task.poll_interval_ms.map_or(USUAL_PAUSE, Duration::from_millis).clamp(PAUSES.0, PAUSES.1)
}

/// Probes at a task (`tasks/get`). `None`: stopped.
pub async fn look(
    connection: &mut Connection,
    source: &ServerSource,
    id: &str,
    stop: &CancellationToken,
) -> Option<Result<Seen, Fault>> {
    let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id)));
    let answer = match ask(connection, source, request, stop).await? {
        Ok(answer) => answer,
        Err(fault) => return Some(Err(fault)),
    };
    let ServerResult::GetTaskResult(got) = answer else {
        return Some(Err(Fault::Confused("it does not tell how its task is".into())));
    };
    let detailed = got.task;
    Some(Ok(match detailed.payload {
        TaskPayload::InputRequired { .. } => Seen::AsksForInput,
        TaskPayload::Completed { result } => Seen::Completed(Box::new(completed(result))),
        TaskPayload::Failed { error } => Seen::Failed(failed(&error, detailed.task.status_message.as_deref())),
        TaskPayload::Cancelled => Seen::Cancelled,
        _ => Seen::Working(pause(&detailed.task)),
    }))
}

/// Asks a server to cancel a task (`tasks/cancel`). That it says yes is not the end of the task. `None`: stopped.
pub async fn cancel(
    connection: &mut Connection,
    source: &ServerSource,
    id: &str,
    stop: &CancellationToken,
) -> Option<Result<(), Fault>> {
    let request = ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(id)));
    Some(ask(connection, source, request, stop).await?.map(drop))
}

/// Such questions are answered at once or not at all.
async fn ask(
    connection: &mut Connection,
    source: &ServerSource,
    request: ClientRequest,
    stop: &CancellationToken,
) -> Option<Result<ServerResult, Fault>> {
    let idle = source.settings.idle;
    match connection.call(request, Limits { idle, max: idle, grace: Duration::ZERO }, stop).await {
        Ended::Answered(answer) => Some(Ok(*answer)),
        Ended::Failed(fault) => Some(Err(fault)),
        Ended::BrokenOff(..) | Ended::Late(..) if stop.is_cancelled() => None,
        Ended::BrokenOff(..) | Ended::Late(..) => Some(Err(Fault::Silent(idle))),
    }
}

fn completed(result: JsonObject) -> Result<CallToolResult, Fault> {
    serde_json::from_value(Value::Object(result))
        .map_err(|_| Fault::Confused("the result of its task is not of the kind that was asked for".into()))
}

/// A JSON-RPC error, as a failed task has it.
fn failed(error: &JsonObject, status_message: Option<&str>) -> Fault {
    let code = error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).or(status_message).unwrap_or("its task failed");
    Fault::Refused { code, message: Fault::said(message) }
}
