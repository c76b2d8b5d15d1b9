//! What an administrator writes down about the account, and what is wrong with it.

use std::time::Duration;

use lettre::message::Mailbox;
use reqwest::{Url, header::HeaderValue};
use serde::Deserialize;
use thiserror::Error;

use super::Limits;
use crate::smtp::is_loopback;
use secrecy::{ExposeSecret, SecretString};

/// The account at Resend, as written in the settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResendSettings {
    /// The key of the account; one that may only send is enough.
    pub api_key: SecretString,
    /// Where the API is.
    #[serde(default = "public_api")]
    pub base_url: String,
    /// The sender, `reports@example.org` or `Recount <reports@example.org>`; its domain must be one that the service knows.
    pub from: String,
    /// The longest wait for a connection, in seconds.
    #[serde(default = "connect_seconds")]
    pub connect_seconds: u64,
    /// The longest silence while the answer is due, in seconds.
    #[serde(default = "idle_seconds")]
    pub idle_seconds: u64,
    /// The longest wait for the answer to a message, in seconds.
    #[serde(default = "max_seconds")]
    pub max_seconds: u64,
}

fn public_api() -> String {
    "https://api.resend.com".to_owned()
}

fn connect_seconds() -> u64 {
    30
}

fn idle_seconds() -> u64 {
    60
}

fn max_seconds() -> u64 {
    300
}

/// What is wrong with the settings, in words for the administrator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// `api_key` is empty or cannot stand in a header.
    #[error("The API key of Resend is missing or contains a character that no key has. Copy it again.")]
    ApiKey,
    /// `base_url` is no address.
    #[error("\"{0}\" is not the address of an API, such as https://api.resend.com, without user name, question mark or #.")]
    BaseUrl(String),
    /// `http` to another machine.
    #[error("Without encryption, mail may only go to a service on this machine, and \"{0}\" is another one. Use https.")]
    PlainToOtherMachine(String),
    /// `from` is not an address.
    #[error("\"{0}\" is not a sender's e-mail address, such as Recount <reports@example.org>.")]
    From(String),
    /// A time-out of nothing.
    #[error("The time-out {0} is 0, so no message could ever be sent. Give at least 1.")]
    ZeroTimeout(&'static str),
    /// The HTTP client could not be set up on this machine.
    #[error("The HTTP client for Resend cannot be set up: {0}.")]
    Client(String),
}

impl ResendSettings {
    /// The sender of every message.
    ///
    /// # Errors
    /// [`SettingsError::From`] when `from` is not one address.
    pub fn sender(&self) -> Result<Mailbox, SettingsError> {
        let wrong = || SettingsError::From(self.from.clone());
        if self.from.chars().any(char::is_control) {
            return Err(wrong());
        }
        self.from.parse().map_err(|_| wrong())
    }

    /// Checks everything that can be checked without the network, and gives the address that messages are posted to.
    pub(super) fn validate(&self) -> Result<Url, SettingsError> {
        let key = self.api_key.expose_secret();
        if key.is_empty() || HeaderValue::from_str(key).is_err() {
            return Err(SettingsError::ApiKey);
        }
        self.sender()?;
        for (name, seconds) in
            [("connect_seconds", self.connect_seconds), ("idle_seconds", self.idle_seconds), ("max_seconds", self.max_seconds)]
        {
            if seconds == 0 {
                return Err(SettingsError::ZeroTimeout(name));
            }
        }
        self.emails()
    }

    fn emails(&self) -> Result<Url, SettingsError> {
        let wrong = || SettingsError::BaseUrl(self.base_url.clone());
        let mut url = Url::parse(&self.base_url).map_err(|_| wrong())?;
        let bare = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|_| bare).ok_or_else(wrong)?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(host.trim_matches(['[', ']'])) => {}
            "http" => return Err(SettingsError::PlainToOtherMachine(host.to_owned())),
            _ => return Err(wrong()),
        }
        url.path_segments_mut().map_err(|()| wrong())?.pop_if_empty().push("emails");
        Ok(url)
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            connect: Duration::from_secs(self.connect_seconds),
            idle: Duration::from_secs(self.idle_seconds),
            maximum: Duration::from_secs(self.max_seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> ResendSettings {
        serde_json::from_str(json).expect("settings")
    }

    fn at(base_url: &str) -> Result<String, SettingsError> {
        let good = settings(r#"{"api_key":"re_1","from":"r@e.org"}"#);
        ResendSettings { base_url: base_url.to_owned(), ..good }.validate().map(String::from)
    }

    #[test]
    fn the_least_that_must_be_written_is_the_key_and_the_sender() {
        let s = settings(r#"{"api_key":"re_1","from":"Recount <r@example.org>"}"#);
        assert_eq!(s.validate().map(String::from), Ok("https://api.resend.com/emails".to_owned()));
        assert_eq!((s.connect_seconds, s.idle_seconds, s.max_seconds), (30, 60, 300));
        let typo = serde_json::from_str::<ResendSettings>(r#"{"api_kye":"re_1","from":"r@e.org"}"#);
        assert!(typo.is_err_and(|e| e.to_string().contains("api_kye")));
    }

    #[test]
    fn without_encryption_only_this_machine_is_reached() {
        for good in ["http://127.0.0.1:8080/", "http://localhost", "http://[::1]:1", "https://mail.example.org/v1"] {
            assert!(at(good).is_ok_and(|emails| emails == format!("{}/emails", good.trim_end_matches('/'))), "{good}");
        }
        for plain in ["http://api.resend.com", "http://10.0.0.1", "http://localhost.example.org"] {
            assert!(matches!(at(plain), Err(SettingsError::PlainToOtherMachine(_))), "{plain}");
        }
        for wrong in ["api.resend.com", "ftp://127.0.0.1", "https://", "https://u:p@e.org", "https://e.org?x=", "https://e.org/#"]
        {
            assert!(matches!(at(wrong), Err(SettingsError::BaseUrl(_))), "{wrong}");
        }
    }

    #[test]
    fn each_wrong_setting_is_named_and_the_key_is_in_no_text() {
        let good = settings(r#"{"api_key":"re_secret","from":"r@example.org"}"#);
        let wrong = |change: fn(&mut ResendSettings)| {
            let mut s = good.clone();
            change(&mut s);
            s.validate().expect_err("must be refused").to_string()
        };
        assert!(wrong(|s| s.api_key = SecretString::from("")).contains("API key"));
        assert!(wrong(|s| s.api_key = SecretString::from("re\n1")).contains("API key"));
        assert!(wrong(|s| s.from = "reports".into()).contains("sender"));
        assert!(wrong(|s| s.from = "r@e.org\r\nBcc: x@e.org".into()).contains("sender"));
        assert!(wrong(|s| s.max_seconds = 0).contains("max_seconds"));
        assert!(!format!("{good:?}").contains("secret"));
    }
}
