//! The protocol's requests, each handed to the file that knows about it.

#[cfg(feature = "fail-points")]
use super::fixtures;
use super::{
    arguments::read,
    generate::{self, Ends},
    order,
    principal::Principal,
    prompts, resources,
    results::{self, Failed, ReportLine, ReportList, SourceLine, SourceList, answer, wrong},
    tasks::{self, missing},
    tools::{self, CANCEL, GENERATE, LIST, Nothing, OneReport, Page, SOURCES, START, STATUS},
};
use crate::service::{AllowedSource, Service, ServiceError, parse_id};
use app::{
    model::{FieldError, Viewer},
    ports::Pages,
};
use contract::Phase;
use domain::{id::JobId, people::Scope};
use http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, GetPromptRequestParams, GetPromptResponse,
        GetTaskParams, GetTaskResult, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
    },
    service::RequestContext,
};

/// What assistants are told about the server as a whole.
const INSTRUCTIONS: &str = "Recount makes monthly reports: it collects a month's documents, summarizes them, saves the report and \
    e-mails a link to it. Start one with start_report, follow it with get_report_status, and stop it with cancel_report. Tell \
    people the headline as it is: it says exactly what has happened and what is not known. A cancel stops what has not happened yet; \
    it takes back nothing. Cancelling a call of start_report cancels no report; cancelling one of generate_report does.";

/// Recount as an MCP server.
#[derive(Clone)]
pub struct Recount {
    pub(super) service: Service,
    /// Who sits at the other end; `None` where every request says it itself.
    caller: Option<Principal>,
    ends: Ends,
}

impl Recount {
    /// For requests that carry their [`Principal`] in the extensions of their HTTP request.
    pub fn of_requests(service: Service, ends: Ends) -> Self {
        Self { service, caller: None, ends }
    }

    /// For one person.
    pub fn of(service: Service, caller: Principal, ends: Ends) -> Self {
        Self { service, caller: Some(caller), ends }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        let of_request = || context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Principal>()).cloned();
        self.caller.clone().or_else(of_request).ok_or_else(|| ErrorData::internal_error("Nobody is known to have asked.", None))
    }

    async fn look(&self, who: &Principal, arguments: JsonObject) -> Result<CallToolResult, Failed> {
        let who = who.with(Scope::Read)?;
        let id = one_report(arguments)?;
        let job = self.service.show_job(who, id).await?;
        Ok(results::status(&self.service, &job)?)
    }

    async fn cancel(&self, who: &Principal, arguments: JsonObject) -> Result<CallToolResult, Failed> {
        let who = who.with(Scope::Write)?;
        let id = one_report(arguments)?;
        let answer = self.service.cancel_job(who, id).await?;
        Ok(results::cancel(&self.service, &answer)?)
    }

    async fn list(&self, who: &Principal, arguments: JsonObject) -> Result<CallToolResult, Failed> {
        let who = who.with(Scope::Read)?;
        let (page, mut mistakes) = read::<Page>(arguments);
        let mut mistake = |field: &str, text: &str| mistakes.push(FieldError { field: field.into(), text: text.into() });
        if !page.state.is_empty() && Phase::from_name(&page.state).is_none() {
            mistake("state", "Use queued, running, stopping, cancelled, finished or failed, or leave it out.");
        }
        if !page.cursor.is_empty() && page.cursor.parse::<JobId>().is_err() {
            mistake("cursor", "Use the next_cursor of the page before, or leave it out.");
        }
        if !mistakes.is_empty() {
            return Err(wrong(&mistakes).into());
        }
        let view = Pages::jobs(&self.service, who, page.state, page.cursor).await.map_err(ServiceError)?;
        let next_cursor = results::next_cursor(&view);
        let reports: Vec<ReportLine> = view.jobs.into_iter().map(|row| ReportLine::of(&self.service, row)).collect();
        let lines: Vec<String> =
            reports.iter().map(|line| format!("- {}: {} ({})", line.title, line.headline, line.job_id)).collect();
        let text = if lines.is_empty() { "There are no reports here.".into() } else { lines.join("\n") };
        Ok(answer(text, &ReportList { reports, next_cursor })?)
    }

    fn sources(&self, who: &Principal, arguments: JsonObject) -> Result<CallToolResult, Failed> {
        who.with(Scope::Read)?;
        let (Nothing {}, mistakes) = read(arguments);
        if !mistakes.is_empty() {
            return Err(wrong(&mistakes).into());
        }
        let line = |known: &AllowedSource| SourceLine { id: known.id.clone(), name: known.name.clone() };
        let sources: Vec<SourceLine> = self.service.sources.iter().map(line).collect();
        let names: Vec<String> = sources.iter().map(|source| format!("- {} (id {})", source.name, source.id)).collect();
        let text = if names.is_empty() {
            "No folders are allowed. The administrator adds them to the settings.".into()
        } else {
            names.join("\n")
        };
        Ok(answer(text, &SourceList { sources })?)
    }

    /// Orders a report; `None` where the call was taken back before anything was ordered.
    async fn place(
        &self,
        who: &Viewer,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<JobId>, Failed> {
        if context.ct.is_cancelled() {
            return Ok(None);
        }
        order::place(&self.service, who, arguments).await.map(Some)
    }

    pub(super) async fn start(
        &self,
        who: &Principal,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Failed> {
        let who = who.with(Scope::Write)?;
        // Decided before there is a job: what could not be answered must not be done.
        let as_task = tasks::may_answer(context);
        let Some(id) = self.place(who, arguments, context).await? else { return Err(taken_back().into()) };
        if as_task {
            return Ok(CallToolResponse::Task(tasks::handle(&self.service, who, id).await?));
        }
        let job = self.service.show_job(who, id).await?;
        Ok(results::status(&self.service, &job)?.into())
    }

    pub(super) async fn generate(
        &self,
        who: &Principal,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Failed> {
        let who = who.with(Scope::Write)?;
        let Some(id) = self.place(who, arguments, context).await? else { return Err(taken_back().into()) };
        generate::wait(&self.service, who, id, context, &self.ends).await
    }
}

/// All tools.
fn offered() -> Vec<Tool> {
    #[cfg(feature = "fail-points")]
    return [tools::all(), fixtures::tools()].concat();
    #[cfg(not(feature = "fail-points"))]
    tools::all()
}

/// The answer to a request that was taken back, which nobody reads.
fn taken_back() -> ErrorData {
    ErrorData::internal_error("The request was cancelled.", None)
}

fn one_report(arguments: JsonObject) -> Result<JobId, Failed> {
    let (one, mut mistakes) = read::<OneReport>(arguments);
    if one.job_id.is_empty() && mistakes.is_empty() {
        let text = "Send the job_id that start_report or list_reports gave.".into();
        mistakes.push(FieldError { field: "job_id".into(), text });
    }
    if !mistakes.is_empty() {
        return Err(wrong(&mistakes).into());
    }
    Ok(parse_id(&one.job_id).map_err(ServiceError)?)
}

impl ServerHandler for Recount {
    fn get_info(&self) -> ServerConfig {
        let builder = ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts();
        ServerConfig::new(builder.enable_tasks().build())
            .with_server_info(Implementation::new("recount", env!("CARGO_PKG_VERSION")).with_title("Recount"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(offered()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        offered().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let who = self.caller(&context)?;
        #[cfg(feature = "fail-points")]
        if let Some(done) = fixtures::call(self, &who, &request, &context).await {
            return done.or_else(|failed| failed.into_result().map(Into::into));
        }
        let arguments = request.arguments.unwrap_or_default();
        let done = match request.name.as_ref() {
            START => self.start(&who, arguments, &context).await,
            GENERATE => self.generate(&who, arguments, &context).await.map(Into::into),
            STATUS => self.look(&who, arguments).await.map(Into::into),
            CANCEL => self.cancel(&who, arguments).await.map(Into::into),
            LIST => self.list(&who, arguments).await.map(Into::into),
            SOURCES => self.sources(&who, arguments).map(Into::into),
            other => return Err(ErrorData::invalid_params(format!("There is no tool \"{other}\"."), None)),
        };
        done.or_else(|failed| failed.into_result().map(Into::into))
    }

    async fn get_task(&self, request: GetTaskParams, context: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        tasks::get(&self.service, &self.caller(&context)?, &request.task_id).await
    }

    async fn update_task(&self, request: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        tasks::update(&self.service, &self.caller(&context)?, &request.task_id).await
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        tasks::cancel(&self.service, &self.caller(&context)?, &request.task_id).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        resources::list(&self.service, &self.caller(&context)?, cursor).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.caller(&context)?.with(Scope::Read).map_err(missing)?;
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        #[cfg(feature = "fail-points")]
        if let Some(fixture) = fixtures::resource(&request.uri) {
            return Ok(fixture.into());
        }
        Ok(resources::read(&self.service, &self.caller(&context)?, &request.uri).await?.into())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(prompts::list())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        #[cfg(feature = "fail-points")]
        if let Some(fixture) = fixtures::prompt(&request.name, &arguments) {
            return Ok(fixture.into());
        }
        Ok(prompts::get(&self.service, &self.caller(&context)?, &request.name, &arguments).await?.into())
    }
}
