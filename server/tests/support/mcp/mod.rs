//! Clients of the Model Context Protocol, on bare bytes: what tests of a cancel are about is what still crosses the line, which a
//! library would hide.

pub mod http;
pub mod stdio;

use serde_json::{Value, json};

/// The revision that both sides speak.
pub const REVISION: &str = "2026-07-28";

/// What a request says of its client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared {
    /// It can read tasks.
    pub tasks: bool,
    /// It wants progress, by this token.
    pub progress: Option<&'static str>,
}

/// It can read tasks.
pub const TASKS: Declared = Declared { tasks: true, progress: None };
/// It wants progress.
pub const PROGRESS: Declared = Declared { tasks: false, progress: Some("progress-7") };

/// A request as the revision wants it, with everything about the client in itself.
pub fn request(id: u64, method: &str, mut params: Value, declared: Declared) -> Value {
    let mut capabilities = json!({});
    if declared.tasks {
        capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    }
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    if let Some(token) = declared.progress {
        meta["progressToken"] = token.into();
    }
    params["_meta"] = meta;
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The call of a tool.
pub fn call(id: u64, tool: &str, arguments: &Value, declared: Declared) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}), declared)
}

/// The arguments of a report of June 2026 that two people get.
pub fn june(key: &str) -> Value {
    json!({"month": "2026-06", "sources": ["Minutes"], "recipients": ["anna@example.org", "bert@example.org"], "request_key": key})
}

/// The text of a tool's result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}
