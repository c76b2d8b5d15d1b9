//! The way to a model server.

use super::protocol::Question;
use super::settings::{ModelSettings, Provider};
use crate::SummarizeError;
use domain::clock::SharedClock;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, Url};
use std::fmt;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for one model of one server.
pub(super) struct Connection {
    client: reqwest::Client,
    /// Ends with a slash.
    url: Url,
    key: Option<String>,
    host: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("host", &self.host).finish_non_exhaustive()
    }
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
        let client = http.build().map_err(|error| {
            tracing::error!(%error, "the HTTP client for models could not be set up");
            SummarizeError::failed("The HTTP client for models could not be set up. The server's log says why.")
        })?;
        let key = settings.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned);
        if matches!(settings.provider, Provider::Anthropic | Provider::Gemini) && key.is_none() {
            return Err(SummarizeError::failed(format!("The model server at {host} wants a key. Set it in the settings.")));
        }
        Ok(Self { client, url, key, host })
    }

    /// Host and port, for people and for the ledger.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a question, and waits for the head of the answer. Dropping the answer closes the connection.
    pub(super) async fn send(&self, settings: &ModelSettings, system: &str, user: &str) -> reqwest::Result<Response> {
        let request = Question { settings, key: self.key.as_deref(), system, user }.request();
        let url = format!("{}{}", self.url, request.path);
        let mut sending = self.client.post(url).header(CONTENT_TYPE, "application/json").body(request.body.to_string());
        for (name, value) in request.headers {
            sending = sending.header(name, value);
        }
        sending.send().await
    }
}

/// How long a server asks to be left alone: `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3). A date is reckoned in
/// the server's own time where it says what that is, since machines' clocks differ.
pub(super) fn retry_after(headers: &HeaderMap, clock: &SharedClock) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let date = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    // A date that has passed asks for no wait.
    Some(until.duration_since(date.unwrap_or_else(|| clock.now().into())).unwrap_or_default())
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

#[cfg(test)]
mod tests {
    use super::*;
    use domain::clock::ManualClock;
    use std::sync::Arc;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_until_a_date() {
        let clock: SharedClock = Arc::new(ManualClock::new("2026-07-01T08:00:00Z".parse().expect("an instant")));
        for (retry, date, seconds) in [
            ("7", None, Some(7)),
            (" 0 ", None, Some(0)),
            // Without its own time, the server's date is taken by our clock.
            ("Wed, 01 Jul 2026 08:00:30 GMT", None, Some(30)),
            ("Wed, 01 Jul 2026 07:59:00 GMT", None, Some(0)),
            // A server whose clock is an hour slow.
            ("Wed, 01 Jul 2026 07:00:45 GMT", Some("Wed, 01 Jul 2026 07:00:05 GMT"), Some(40)),
            // The older forms that a client must understand.
            ("Wednesday, 01-Jul-26 08:00:20 GMT", None, Some(20)),
            ("Wed Jul  1 08:00:10 2026", Some("some day"), Some(10)),
            ("soon", None, None),
            ("-5", None, None),
        ] {
            let mut headers = HeaderMap::from_iter([(RETRY_AFTER, retry.parse().expect("a header"))]);
            headers.extend(date.map(|date| (DATE, date.parse().expect("a header"))));
            assert_eq!(retry_after(&headers, &clock), seconds.map(Duration::from_secs), "{retry} {date:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), &clock), None);
    }

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
