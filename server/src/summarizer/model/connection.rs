//! The way to a model server.

use super::settings::{ModelSettings, Provider};
use crate::summarizer::SummarizeError;
use genai::adapter::AdapterKind;
use genai::chat::{ChatFrameSink, ChatMessage, ChatOptions, ChatRequest, FrameCtx, RawFrameRef};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use reqwest::Url;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for one model of one server.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    target: ServiceTarget,
    options: ChatOptions,
    host: String,
}

impl Connection {
    /// Prepares a client. Redirects and the HTTP library's own retries are off: each request must be one that the
    /// ledger knows of, sent to the server that the administrator named.
    pub(super) fn open(settings: &ModelSettings) -> Result<Self, SummarizeError> {
        let url = base_url(settings)?;
        let host = host_of(&url);
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_TIMEOUT);
        if is_loopback(&url) {
            // A server on this machine is never behind a proxy.
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| {
            tracing::error!(%error, "the HTTP client for models could not be set up");
            SummarizeError::failed("The HTTP client for models could not be set up. The server's log says why.")
        })?;
        let (kind, needs_key) = match settings.provider {
            Provider::OpenAiCompatible => (AdapterKind::OpenAI, false),
            Provider::Anthropic => (AdapterKind::Anthropic, true),
            Provider::Ollama => (AdapterKind::Ollama, false),
            Provider::Gemini => (AdapterKind::Gemini, true),
        };
        let key = settings.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        if needs_key && key.is_none() {
            return Err(SummarizeError::failed(format!("The model server at {host} wants a key. Set it in the settings.")));
        }
        let mut options = ChatOptions::default().with_max_tokens(settings.max_output_tokens).with_capture_usage(true);
        options.temperature = settings.temperature;
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(url.as_str()),
            // Servers without keys ignore the header.
            auth: AuthData::from_single(key.unwrap_or("none")),
            model: ModelIden::new(kind, settings.model.clone()),
        };
        Ok(Self {
            client: Client::builder().with_reqwest(http).build().map_err(|error| SummarizeError::failed(error.to_string()))?,
            target,
            options,
            host,
        })
    }

    /// Host and port, for people and for the ledger.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Begins a streamed call. Nothing is sent before the stream is polled; dropping it closes the connection.
    pub(super) async fn stream(
        &self,
        system: String,
        user: String,
        frames: &Arc<Frames>,
    ) -> genai::Result<genai::chat::ChatStream> {
        let request = ChatRequest::new(vec![ChatMessage::system(system), ChatMessage::user(user)]);
        let sink: Arc<dyn ChatFrameSink> = Arc::<Frames>::clone(frames);
        let options = self.options.clone().with_raw_frame_sink_arc(sink);
        Ok(self.client.exec_chat_stream(self.target.clone(), request, Some(&options)).await?.stream)
    }
}

fn base_url(settings: &ModelSettings) -> Result<Url, SummarizeError> {
    let public = match settings.provider {
        Provider::OpenAiCompatible => "https://api.openai.com/v1",
        Provider::Anthropic => "https://api.anthropic.com/v1",
        Provider::Ollama => "http://127.0.0.1:11434",
        Provider::Gemini => "https://generativelanguage.googleapis.com/v1beta",
    };
    let given = settings.base_url.as_deref().map(str::trim).filter(|url| !url.is_empty()).unwrap_or(public).trim_end_matches('/');
    let given = if settings.provider == Provider::Ollama { given.trim_end_matches("/v1") } else { given };
    let url = Url::parse(&format!("{given}/")).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none() && url.query().is_none());
    url.ok_or_else(|| {
        SummarizeError::failed(
            "The address of the model server is not one. Write it like http://127.0.0.1:8080/v1, without a user name, password or question mark.",
        )
    })
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What only the raw frames of a stream tell: the answer's id, and a refusal where a server puts it beside the text.
#[derive(Debug, Default)]
pub(super) struct Frames {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) provider_id: Option<String>,
    pub(super) refused: bool,
}

impl Frames {
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _context: &FrameCtx, frame: RawFrameRef<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let may_refuse = frame.data.contains("\"refusal\":\"");
        if seen.provider_id.is_some() && !may_refuse {
            return;
        }
        let Some(json) = frame.json() else { return };
        if seen.provider_id.is_none() {
            let id = ["/id", "/message/id", "/responseId"].iter().find_map(|path| json.pointer(path)?.as_str());
            seen.provider_id = id.map(|id| id.chars().filter(|c| !c.is_control()).take(200).collect());
        }
        seen.refused |=
            json.pointer("/choices/0/delta/refusal").and_then(|refusal| refusal.as_str()).is_some_and(|text| !text.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_before_anything_is_sent() {
        let open = |url: &str| {
            Connection::open(&ModelSettings {
                base_url: Some(url.to_owned()),
                ..ModelSettings::new(Provider::OpenAiCompatible, "m")
            })
        };
        assert_eq!(open("http://127.0.0.1:8080/v1/").expect("it is an address").host(), "127.0.0.1:8080");
        for url in
            ["127.0.0.1:8080", "ftp://x.test", "http://", "http://a:b@x.test/v1", "https://x.test/v1?key=1", "file:///etc/passwd"]
        {
            assert!(open(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_missing_key_is_said_before_anything_is_sent() {
        let error = Connection::open(&ModelSettings::new(Provider::Anthropic, "m")).expect_err("it needs a key");
        assert_eq!(error.to_string(), "The model server at api.anthropic.com wants a key. Set it in the settings.");
    }
}
