//! `[[sources]]` of the settings: a folder, or an MCP server with what is to be asked of it.

use crate::mcp::{Link, Program, ServerSettings, ToolCall, Wanted, names_month};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// A source that the administrator allows.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
pub struct SourceSetting {
    /// What people call it.
    pub name: String,
    pub reads: Reads,
}

/// Where documents come from.
#[derive(Debug, Clone)]
pub enum Reads {
    /// A folder, or a single file in the place of one.
    Folder(PathBuf),
    /// An MCP server.
    Server(Box<ServerSettings>),
}

/// Why a source cannot work; says what to do.
#[derive(Debug, thiserror::Error)]
#[error("the source \"{name}\": {what}")]
pub struct SourceSettingError {
    name: String,
    what: String,
}

/// A source as it is written, with all that either kind may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    path: Option<PathBuf>,
    command: Option<Vec<SecretString>>,
    env: Option<BTreeMap<String, SecretString>>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    bearer_token: Option<SecretString>,
    resources: Option<Resources>,
    #[serde(default)]
    calls: Vec<ToolCall>,
    idle_seconds: Option<u64>,
    max_seconds: Option<u64>,
    tasks: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Resources {
    All(bool),
    Matching(String),
}

const IDLE: u64 = 60;
const MAX: u64 = 600;

impl TryFrom<Written> for SourceSetting {
    type Error = SourceSettingError;

    fn try_from(written: Written) -> Result<Self, SourceSettingError> {
        let name = written.name.clone();
        let reads = written.reads().map_err(|what| SourceSettingError { name: name.clone(), what })?;
        Ok(Self { name, reads })
    }
}

impl Written {
    fn reads(mut self) -> Result<Reads, String> {
        if self.name.trim().is_empty() {
            return Err("it has no name. Give it one that people recognise.".into());
        }
        match (self.path.take(), self.command.take(), self.url.take()) {
            (Some(path), None, None) => match self.name_of_server_only() {
                Some(wrong) => Err(format!("{wrong} is of an MCP server, but this is a folder. Take it out.")),
                None => Ok(Reads::Folder(path)),
            },
            (None, Some(command), None) => {
                if self.bearer_token.is_some() {
                    return Err("bearer_token goes with url. A program gets its secrets by env.".into());
                }
                let link = self.program(command)?;
                self.server(link)
            }
            (None, None, Some(url)) => {
                if self.env.is_some() || self.cwd.is_some() {
                    return Err("env and cwd go with command. A server at a url gets its secret by bearer_token.".into());
                }
                let link = Link::Http { url: checked(&url)?, bearer: self.bearer_token.take() };
                self.server(link)
            }
            (None, None, None) => Err("it has no path. Give it a path (a folder), a command or a url (an MCP server).".into()),
            _ => Err("it has more than one of path, command and url. Keep one.".into()),
        }
    }

    fn name_of_server_only(&self) -> Option<&'static str> {
        [
            (self.env.is_some(), "env"),
            (self.cwd.is_some(), "cwd"),
            (self.bearer_token.is_some(), "bearer_token"),
            (self.resources.is_some(), "resources"),
            (!self.calls.is_empty(), "calls"),
            (self.idle_seconds.is_some(), "idle_seconds"),
            (self.max_seconds.is_some(), "max_seconds"),
            (self.tasks.is_some(), "tasks"),
        ]
        .into_iter()
        .find_map(|(is_there, name)| is_there.then_some(name))
    }

    fn program(&mut self, command: Vec<SecretString>) -> Result<Link, String> {
        let mut words = command.into_iter();
        let path = words.next().filter(|path| !path.expose_secret().is_empty());
        let path = path.ok_or("its command is empty. Name the program, then its arguments: [\"prog\", \"arg\"].")?;
        Ok(Link::Stdio(Program {
            path: path.expose_secret().into(),
            arguments: words.collect(),
            environment: self.env.take().unwrap_or_default(),
            folder: self.cwd.take(),
        }))
    }

    fn server(self, link: Link) -> Result<Reads, String> {
        let resources = match self.resources {
            None | Some(Resources::All(false)) => None,
            Some(Resources::All(true)) => Some(String::new()),
            Some(Resources::Matching(pattern)) => Some(pattern),
        };
        if let Some(pattern) = &resources {
            names_month(pattern).map_err(|error| format!("resources: {error}."))?;
        }
        for call in &self.calls {
            if call.tool.is_empty() {
                return Err("a call has no tool. Name one that the server offers.".into());
            }
            call.names_month().map_err(|error| format!("the arguments of {}: {error}.", call.tool))?;
        }
        if resources.is_none() && self.calls.is_empty() {
            return Err("nothing is asked of it. Add resources = true, or [[sources.calls]] with a tool.".into());
        }
        let (idle, max) = (self.idle_seconds.unwrap_or(IDLE), self.max_seconds.unwrap_or(MAX));
        if idle == 0 || max == 0 {
            return Err("idle_seconds and max_seconds are at least 1.".into());
        }
        Ok(Reads::Server(Box::new(ServerSettings {
            link,
            wanted: Wanted { resources, calls: self.calls },
            idle: Duration::from_secs(idle),
            max: Duration::from_secs(max),
            tasks: self.tasks.unwrap_or_default(),
        })))
    }
}

/// A token must not cross a network that anybody can listen to.
fn checked(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error| format!("its url cannot be understood ({error})."))?;
    let host = url.host_str().unwrap_or_default();
    let is_here = host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err("its url must begin with https:// (http:// only for a server on this machine).".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Config, File, FileFormat};
    use serde_json::json;

    fn read(text: &str) -> Result<SourceSetting, String> {
        let file = File::from_str(text, FileFormat::Toml);
        Config::builder().add_source(file).build().unwrap().try_deserialize().map_err(|error| error.to_string())
    }

    fn server(text: &str) -> ServerSettings {
        match read(text).unwrap().reads {
            Reads::Server(settings) => *settings,
            Reads::Folder(path) => panic!("{}", path.display()),
        }
    }

    #[test]
    fn a_program_keeps_the_case_of_its_variables_and_the_types_of_its_arguments() {
        let settings = server(
            "name = 'Wiki'\ncommand = ['wiki', '--token', 's3cret']\nenv = { API_Key = 's3cret' }\ncwd = '/srv'\nresources = true\n\
             [[calls]]\ntool = 'search'\narguments = { query = 'minutes {month}', pageSize = 20, deep = { On = true, none = [] } }\n",
        );
        let Link::Stdio(program) = &settings.link else { panic!("{:?}", settings.link) };
        assert_eq!(program.environment["API_Key"].expose_secret(), "s3cret");
        assert_eq!((program.arguments.len(), settings.link.transport()), (2, "stdio"));
        let arguments = json!({ "query": "minutes {month}", "pageSize": 20, "deep": { "On": true, "none": [] } });
        assert_eq!(serde_json::Value::Object(settings.wanted.calls[0].arguments.clone()), arguments);
        assert_eq!((settings.idle.as_secs(), settings.max.as_secs(), settings.tasks), (IDLE, MAX, false));
        assert!(!format!("{settings:?}").contains("s3cret"), "{settings:?}");
    }

    #[test]
    fn an_address_has_a_token_that_nothing_shows() {
        let settings =
            server("name = 'W'\nurl = 'https://w.example.org/mcp'\nbearer_token = 's3cret'\nresources = 'wiki://{month}'");
        assert!(!format!("{settings:?}").contains("s3cret"), "{settings:?}");
        assert!(settings.wanted.resources_name_month());
    }

    #[test]
    fn what_cannot_work_says_what_to_do() {
        let both = "name = 'W'\npath = '/srv'\nurl = 'https://w.example.org/mcp'";
        for (text, said) in [
            ("name = 'W'", "Give it a path"),
            (both, "Keep one"),
            ("name = ' '\npath = '/srv'", "no name"),
            ("name = 'W'\npath = '/srv'\nresources = true", "resources is of an MCP server"),
            ("name = 'W'\ncommand = []\nresources = true", "its command is empty"),
            ("name = 'W'\ncommand = ['w']", "nothing is asked of it"),
            ("name = 'W'\ncommand = ['w']\nresources = true\nbearer_token = 'x'", "goes with url"),
            ("name = 'W'\nurl = 'https://w.example.org'\nresources = true\ncwd = '/'", "go with command"),
            ("name = 'W'\nurl = 'http://w.example.org/mcp'\nresources = true", "must begin with https://"),
            ("name = 'W'\ncommand = ['w']\nresources = 'wiki://{mnoth}'", "no placeholder {mnoth}"),
            ("name = 'W'\ncommand = ['w']\nresources = true\nmax_seconds = 0", "at least 1"),
            ("name = 'W'\ncommand = ['w']\nresource = true", "resource"),
            ("name = 'W'\ncommand = ['w']\n[[calls]]\ntool = 't'\nargs = {}", "args"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(read("name = 'W'\nurl = 'http://127.0.0.1:1/mcp'\nresources = true").is_ok());
        assert!(read("name = 'W'\nurl = 'http://[::1]:1/mcp'\nresources = true").is_ok());
    }
}
