//! What the settings say about an MCP server that documents are asked from.

use super::fill::{Fill, UnknownPlaceholder, matches, names_month, value_names_month};
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

/// A server, how it is reached, and what is asked of it.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub link: Link,
    pub wanted: Wanted,
    /// The longest silence of a call. Progress ends a silence, a keep-alive does not.
    pub idle: Duration,
    /// The longest call, from its start; nothing prolongs it.
    pub max: Duration,
    /// Whether the server may answer a tool call with a task (the extension `io.modelcontextprotocol/tasks`).
    pub tasks: bool,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Link {
    /// A program of this machine, over its standard input and output.
    Stdio(Program),
    /// Streamable HTTP.
    Http { url: Url, bearer: Option<SecretString> },
}

impl Link {
    /// The name under which calls are recorded.
    pub fn transport(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http { .. } => "http",
        }
    }
}

/// A program to start. It gets a few harmless variables of Recount's environment and those named here: the others may be
/// secrets.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    /// They may hold secrets, as people do put them there.
    pub arguments: Vec<SecretString>,
    pub environment: BTreeMap<String, SecretString>,
    pub folder: Option<PathBuf>,
}

/// What is asked of a server.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The pattern of the URIs of resources to read; empty for all.
    pub resources: Option<String>,
    pub calls: Vec<ToolCall>,
}

impl Wanted {
    /// Whether the resources are asked for by month, so that each one is of that month.
    pub fn resources_name_month(&self) -> bool {
        self.resources.as_deref().is_some_and(|pattern| names_month(pattern).unwrap_or_default())
    }

    /// Whether the resource with this URI is to be read.
    pub fn means(&self, fill: &Fill, uri: &str) -> bool {
        self.resources.as_deref().is_some_and(|pattern| matches(&fill.text(pattern), uri))
    }
}

/// A tool to call, with placeholders in the strings of its arguments.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub tool: String,
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl ToolCall {
    /// The arguments for one report.
    pub fn filled(&self, fill: &Fill) -> Map<String, Value> {
        self.arguments.iter().map(|(name, value)| (name.clone(), fill.json(value))).collect()
    }

    /// Whether the tool is asked for the month, so that what it gives is of that month.
    pub fn names_month(&self) -> Result<bool, UnknownPlaceholder> {
        value_names_month(&Value::Object(self.arguments.clone()))
    }
}

/// A server with the id and the name of its source.
#[derive(Debug, Clone)]
pub struct ServerSource {
    pub id: String,
    pub name: String,
    pub settings: ServerSettings,
}

/// The servers of the settings.
#[derive(Debug, Clone, Default)]
pub struct Servers(Arc<[Arc<ServerSource>]>);

impl Servers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server with this id.
    pub fn get(&self, id: &str) -> Option<Arc<ServerSource>> {
        self.0.iter().find(|server| server.id == id).cloned()
    }
}

impl FromIterator<ServerSource> for Servers {
    fn from_iter<I: IntoIterator<Item = ServerSource>>(servers: I) -> Self {
        Self(servers.into_iter().map(Arc::new).collect())
    }
}
