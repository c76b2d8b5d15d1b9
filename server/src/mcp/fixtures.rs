//! What the protocol's conformance suite asks of every server: tools, resources and prompts of certain names.
//!
//! They are in builds for tests only (the feature `fail-points`), and there only where `RECOUNT_MCP_FIXTURES` is 1. Tools that
//! take time place orders as the real tools do, so that the suite's tasks are jobs of the real store and its progress is a
//! report's. The others answer what the suite expects to read.

use super::{
    handler::Recount,
    principal::Principal,
    results::{Failed, refused},
    tasks,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, GetPromptResult, JsonObject,
        PromptMessage, ReadResourceResult, ResourceContents, Role, SamplingCapability, Tool,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools by their names, with what the suite wants of them.
const TOOLS: [(&str, &str); 8] = [
    ("greet", "Answers at once, with a greeting"),
    ("test_simple_text", "Answers at once, with a text"),
    ("test_error_handling", "Answers at once, with an error of the tool"),
    ("test_missing_capability", "Needs a capability that no client of the suite declares"),
    ("test_tool_with_progress", "A report that is waited for"),
    ("slow_compute", "A report that is held for so many seconds; a task for those who know tasks"),
    ("confirm_delete", "A report; a task for those who know tasks, and without a question"),
    ("failing_job", "A report of a month without documents; a task, or nothing"),
];
/// A month of the suite's sample documents, and one that has none.
const MONTH: &str = "2026-05";
const EMPTY: &str = "2001-01";

fn are_on() -> bool {
    std::env::var_os("RECOUNT_MCP_FIXTURES").is_some_and(|value| value == "1")
}

/// The tools, where they are on.
pub fn tools() -> Vec<Tool> {
    if !are_on() {
        return Vec::new();
    }
    let schema = || Arc::new(JsonObject::from_iter([("type".into(), json!("object"))]));
    TOOLS.map(|(name, description)| Tool::new(name, description, schema())).into()
}

/// Calls one of the tools; `None` for any other.
pub async fn call(
    server: &Recount,
    who: &Principal,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, Failed>> {
    if !are_on() {
        return None;
    }
    let argument = |name: &str| request.arguments.as_ref().and_then(|arguments| arguments.get(name));
    let text = |name: &str| argument(name).and_then(Value::as_str).unwrap_or_default();
    let said = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into());
    Some(match request.name.as_ref() {
        "greet" => said(format!("Hello, {}!", text("name"))),
        "test_simple_text" => said("This is a simple text response for testing.".into()),
        "test_error_handling" => Ok(refused("This tool intentionally returns an error for testing").into()),
        "test_missing_capability" => {
            let mut sampling = ClientCapabilities::default();
            sampling.sampling = Some(SamplingCapability::default());
            Err(ErrorData::missing_required_client_capability(sampling).into())
        }
        "test_tool_with_progress" => server.generate(who, order(server, MONTH, "Progress", 0), context).await.map(Into::into),
        "slow_compute" => {
            let seconds = argument("seconds").and_then(Value::as_u64).unwrap_or_default();
            server.start(who, order(server, MONTH, text("label"), seconds), context).await
        }
        "confirm_delete" => server.start(who, order(server, MONTH, "Without a question", 0), context).await,
        "failing_job" if !tasks::may_answer(context) => {
            let tasks = ClientCapabilities::builder().enable_tasks().build();
            Err(ErrorData::missing_required_client_capability(tasks).into())
        }
        "failing_job" => server.start(who, order(server, EMPTY, "Nothing to read", 0), context).await,
        _ => return None,
    })
}

/// The arguments of an order from the first source.
fn order(server: &Recount, month: &str, title: &str, hold: u64) -> JsonObject {
    let source = server.service.sources.first().map(|known| known.id.clone());
    let hold = if hold == 0 { "none".into() } else { hold.to_string() };
    let order = json!({
        "month": month, "sources": [source], "recipients": ["suite@example.org"], "title": title, "hold": hold,
    });
    order.as_object().cloned().unwrap_or_default()
}

/// Reads one of the resources; `None` for any other.
pub fn resource(uri: &str) -> Option<ReadResourceResult> {
    if !are_on() {
        return None;
    }
    let (text, kind) = if uri == "test://static-text" {
        ("This is the content of the static text resource.".into(), "text/plain")
    } else {
        let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
        let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        (data.to_string(), "application/json")
    };
    Some(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(kind)]))
}

/// Fills in one of the prompts; `None` for any other.
pub fn prompt(name: &str, arguments: &JsonObject) -> Option<GetPromptResult> {
    if !are_on() {
        return None;
    }
    let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = match name {
        "test_simple_prompt" => "This is a simple prompt for testing.".into(),
        "test_prompt_with_arguments" => {
            format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2"))
        }
        _ => return None,
    };
    Some(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]))
}
