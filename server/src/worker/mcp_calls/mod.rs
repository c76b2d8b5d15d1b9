//! A job's conversations with MCP servers: every call is on record before it begins and after it has ended, a stop is carried
//! into it by the means of its transport, and what the history says about that is written with it.

mod follow;
pub mod orphans;
mod task;

use super::run::{StepError, Work};
use documents::mcp::{Cause, Connection, Ended, Fault, Limits, ServerSource, Signal, ToolCall};
use domain::{fail_point, text::hex};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ListResourcesRequest, ListResourcesResult,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResult, ServerResult,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use store::{CallEnd, CallState, NewCall, complain};
use tokio::time::Instant;

/// How long the answer of a call is still waited for that may hold the only handle of a task: without it nobody could stop the
/// task any more.
const GRACE: Duration = Duration::from_secs(2);

/// What came of a question: the answer, or why there is none. The error of the error is the job's.
pub type Asked<T> = Result<Result<T, Fault>, StepError>;

/// A conversation with one server, for one job. Nothing of it is left once it has ended, or is dropped.
pub struct Conversation<'a> {
    work: &'a Work,
    source: Arc<ServerSource>,
    connection: Option<Connection>,
    /// Why no connection could be opened. It is not tried again: another wait would tell nothing new.
    out_of_reach: Option<Fault>,
    /// The end of the last call, which is written with the beginning of the next.
    unwritten: Option<CallEnd>,
}

impl<'a> Conversation<'a> {
    /// One that has not begun.
    pub fn new(work: &'a Work, source: Arc<ServerSource>) -> Self {
        Self { work, source, connection: None, out_of_reach: None, unwritten: None }
    }

    pub fn source(&self) -> &ServerSource {
        &self.source
    }

    /// One page of the list of resources.
    pub async fn list(&mut self, cursor: Option<String>) -> Asked<ListResourcesResult> {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page));
        Ok(match self.ask("resources/list", "", request).await? {
            Ok(ServerResult::ListResourcesResult(page)) => Ok(page),
            Ok(other) => Err(unexpected(&other)),
            Err(fault) => Err(fault),
        })
    }

    /// The contents of a resource.
    pub async fn read(&mut self, uri: &str) -> Asked<ReadResourceResult> {
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(ReadResourceRequestParams::new(uri)));
        Ok(match self.ask("resources/read", uri, request).await? {
            Ok(ServerResult::ReadResourceResult(read)) => Ok(read),
            Ok(other) => Err(unexpected(&other)),
            Err(fault) => Err(fault),
        })
    }

    /// What a tool gives, directly or by a task.
    pub async fn call_tool(&mut self, call: &ToolCall, arguments: Map<String, Value>) -> Asked<CallToolResult> {
        let fingerprint = fingerprint(&call.tool, &arguments);
        let params = CallToolRequestParams::new(call.tool.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let new = NewCall { fingerprint, ..self.new_call("tools/call", &call.tool) };
        let claim = &self.work.claim;
        if let Some((number, task)) = self.work.dependencies.store.adopt_task(claim.id, claim.epoch, &new).await? {
            match self.go_on_with(number, task).await? {
                Err(fault) if fault.is_unknown() => {}
                other => return Ok(other),
            }
        }
        if let Err(fault) = self.connect().await? {
            return Ok(Err(fault));
        }
        let (start, number) = (Instant::now(), self.begin(&new).await?);
        let takes_tasks = self.connection.as_ref().is_some_and(Connection::offers_tasks);
        match self.send(request).await {
            Ended::Answered(ref answer) if takes_tasks && let ServerResult::CreateTaskResult(created) = &**answer => {
                self.follow(number, &created.task, start).await
            }
            Ended::Late(cause, Ok(ref answer)) if let ServerResult::CreateTaskResult(created) = &**answer => {
                self.follow_late(number, &created.task, cause, start).await
            }
            ended => Ok(self.conclude(number, ended).await?.and_then(|answer| match answer {
                ServerResult::CallToolResult(result) => Ok(result),
                // A tool may have nothing to say.
                ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => Ok(CallToolResult::default()),
                other => Err(unexpected(&other)),
            })),
        }
    }

    /// Ends the conversation: writes what is left to write, and waits until nothing of the connection is left.
    pub async fn end(mut self) {
        if let Some(ended) = self.unwritten.take() {
            let claim = &self.work.claim;
            if let Err(error) = self.work.dependencies.store.end_call(claim.id, claim.epoch, &ended).await {
                complain(format_args!("the end of a call of job {} could not be written", claim.id), &error);
            }
        }
        self.hang_up().await;
    }

    async fn ask(&mut self, method: &'static str, target: &str, request: ClientRequest) -> Asked<ServerResult> {
        if let Err(fault) = self.connect().await? {
            return Ok(Err(fault));
        }
        let number = self.begin(&self.new_call(method, target)).await?;
        let ended = self.send(request).await;
        self.conclude(number, ended).await
    }

    fn new_call(&self, method: &'static str, target: &str) -> NewCall {
        NewCall {
            source_id: self.source.id.clone(),
            source: self.source.name.clone(),
            transport: self.source.settings.link.transport(),
            method,
            target: target.to_owned(),
            fingerprint: String::new(),
        }
    }

    /// Makes sure that there is a connection on which nothing was broken off.
    async fn connect(&mut self) -> Asked<()> {
        self.work.check()?;
        if let Some(fault) = &self.out_of_reach {
            return Ok(Err(fault.clone()));
        }
        if self.connection.as_ref().is_some_and(|connection| !connection.is_spent()) {
            return Ok(Ok(()));
        }
        self.hang_up().await;
        self.work.ready().await?;
        match self.work.unless_stopped(Box::pin(Connection::open(&self.source))).await? {
            Ok(connection) => {
                self.connection = Some(connection);
                Ok(Ok(()))
            }
            Err(fault) => {
                tracing::warn!(job = %self.work.claim.id, source = self.source.name, %fault, "an MCP server cannot be asked");
                self.out_of_reach = Some(fault.clone());
                Ok(Err(fault))
            }
        }
    }

    async fn hang_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    /// Writes down that a call begins. Where that is refused, nothing is sent.
    async fn begin(&mut self, call: &NewCall) -> Result<u32, StepError> {
        let claim = &self.work.claim;
        fail_point::reach("before", call.method).await;
        let number = self.work.dependencies.store.begin_call(claim.id, claim.epoch, self.unwritten.as_ref(), call).await?;
        self.unwritten = None;
        Ok(number)
    }

    async fn send(&mut self, request: ClientRequest) -> Ended {
        let Some(connection) = &mut self.connection else { return Ended::Failed(Fault::Gone) };
        let settings = &self.source.settings;
        let may_be_task = connection.offers_tasks() && matches!(request, ClientRequest::CallToolRequest(_));
        let grace = if may_be_task { GRACE } else { Duration::ZERO };
        self.work.pulse.allow(settings.max);
        connection.call(request, Limits { idle: settings.idle, max: settings.max, grace }, &self.work.halt.stop).await
    }

    /// Accounts for a call that has ended.
    async fn conclude(&mut self, number: u32, ended: Ended) -> Asked<ServerResult> {
        let name = self.source.name.clone();
        match ended {
            Ended::Answered(answer) => {
                self.unwritten = Some(CallEnd { number, state: CallState::Answered, detail: None });
                Ok(Ok(*answer))
            }
            Ended::Failed(fault) => {
                self.unwritten = Some(CallEnd { number, state: CallState::Failed, detail: Some(fault.to_string()) });
                Ok(Err(fault))
            }
            Ended::BrokenOff(Cause::Stop, signal) => {
                let told = match signal {
                    Signal::Told => format!("Told {name} to stop (notifications/cancelled); a late answer is ignored"),
                    Signal::NotTaken => format!("{name} does not even take the request to stop; the connection to it was ended"),
                    Signal::Closed => format!("Closed the answer of {name}"),
                    Signal::ToldByPost => {
                        format!(
                            "Told {name} to stop (notifications/cancelled, as its older revision of MCP has it) and closed its answer"
                        )
                    }
                };
                Err(self.stopped(number, told).await)
            }
            Ended::Late(Cause::Stop, _) => {
                let told = format!("The answer of {name} came just after the cancel; it was discarded");
                Err(self.stopped(number, told).await)
            }
            Ended::BrokenOff(cause, _) | Ended::Late(cause, _) => {
                let fault = self.too_late(cause);
                self.unwritten = Some(CallEnd { number, state: CallState::TimedOut, detail: Some(fault.to_string()) });
                Ok(Err(fault))
            }
        }
    }

    fn too_late(&self, cause: Cause) -> Fault {
        let settings = &self.source.settings;
        match cause {
            Cause::Silent => Fault::Silent(settings.idle),
            Cause::TooLong | Cause::Stop => Fault::TooLong(settings.max),
        }
    }

    /// Writes down that a call was broken off because the job stops.
    async fn stopped(&mut self, number: u32, told: String) -> StepError {
        let ended = CallEnd { number, state: CallState::Cancelled, detail: Some(told.clone()) };
        match self.work.say(told, Some(&ended)).await {
            Ok(_) => StepError::Stopped,
            Err(error) => error,
        }
    }
}

/// Equal for equal calls. The arguments themselves are not kept: they may hold secrets.
fn fingerprint(tool: &str, arguments: &Map<String, Value>) -> String {
    let asked = Value::Array(vec![tool.into(), Value::Object(arguments.clone())]);
    hex(&Sha256::digest(asked.to_string()))
}

fn unexpected(answer: &ServerResult) -> Fault {
    match answer {
        ServerResult::CreateTaskResult(_) => Fault::UnaskedTask,
        ServerResult::InputRequiredResult(_) => Fault::AsksForInput,
        _ => Fault::Confused("its answer is not of the kind that was asked for".into()),
    }
}
