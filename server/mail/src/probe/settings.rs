//! What an administrator writes down about the places to look at.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;
use thiserror::Error;

use crate::smtp::{Security, is_host, is_loopback};
use secrecy::{ExposeSecret, SecretString};

/// A mailbox that is read by IMAP (RFC 3501).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailboxSettings {
    /// Host name, which is also the name in the certificate, or an IP address.
    pub host: String,
    /// Defaults to the usual port of `security`: 993, otherwise 143.
    pub port: Option<u16>,
    /// Defaults to `tls`.
    #[serde(default)]
    pub security: Security,
    /// Who signs in.
    pub username: String,
    /// The password for `username`.
    pub password: SecretString,
    /// The folder to search.
    #[serde(default = "inbox")]
    pub folder: String,
    /// PEM file with certificates to trust in addition to the system's.
    pub extra_ca_file: Option<PathBuf>,
    /// Longest silence of the server, in seconds.
    #[serde(default = "idle_seconds")]
    pub idle_seconds: u64,
    /// Longest look, in seconds.
    #[serde(default = "max_seconds")]
    pub max_seconds: u64,
}

/// The longest time-out: an hour. The looks for all e-mails are made one after the other.
const MAX_SECONDS: u64 = 3600;

fn inbox() -> String {
    "INBOX".to_owned()
}

fn idle_seconds() -> u64 {
    30
}

fn max_seconds() -> u64 {
    180
}

/// The mail server's log, where it is on this machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// The log; the rotated one beside it has `.1` added to its name.
    pub path: PathBuf,
    /// Whose log it is.
    pub format: LogFormat,
}

/// The mail servers whose logs can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// exim's main log; `log_selector` must have `msg_id`, which it has by default.
    Exim,
    /// What Postfix writes to the system's log.
    Postfix,
}

/// What is wrong with the settings, in words for the administrator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// `host` is not a host name or IP address.
    #[error("\"{0}\" is not a host name. Give the IMAP server's name, such as imap.example.org.")]
    Host(String),
    /// `port` is 0.
    #[error("Port 0 cannot be connected to. Use 993 for tls or 143 for starttls, or leave the port out.")]
    Port,
    /// `plain` to another machine.
    #[error(
        "Without encryption, only a mailbox on this machine may be read, and \"{0}\" is another one. \
         Use security = \"tls\" or \"starttls\"."
    )]
    PlainToOtherMachine(String),
    /// A value that cannot stand in a quoted string of IMAP.
    #[error("{0} is empty or has characters that cannot be sent. Use letters, digits and signs of ASCII.")]
    Unsendable(&'static str),
    /// A time-out of nothing, or one that is none.
    #[error("{0} must be from 1 to {MAX_SECONDS}: with 0 nothing could ever be found, and a look must end.")]
    Timeout(&'static str),
    /// The extra CA file or the system's certificates cannot be used.
    #[error("TLS cannot be set up: {0}.")]
    Tls(String),
    /// The log's path is relative.
    #[error("\"{}\" does not begin with a slash. Give the log's full path, such as /var/log/exim4/mainlog.", .0.display())]
    RelativePath(PathBuf),
}

impl MailboxSettings {
    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.security {
            Security::Tls => 993,
            Security::StartTls | Security::Plain => 143,
        })
    }

    /// See `idle_seconds`.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.idle_seconds)
    }

    /// See `max_seconds`.
    pub fn max(&self) -> Duration {
        Duration::from_secs(self.max_seconds)
    }

    /// Checks everything that can be checked without the network or the file system.
    ///
    /// # Errors
    /// The first setting that is wrong.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if !is_host(&self.host) {
            return Err(SettingsError::Host(self.host.clone()));
        }
        if self.port == Some(0) {
            return Err(SettingsError::Port);
        }
        if self.security == Security::Plain && !is_loopback(&self.host) {
            return Err(SettingsError::PlainToOtherMachine(self.host.clone()));
        }
        // LOGIN and EXAMINE take 7-bit strings (RFC 3501 9, `quoted`); a folder's other letters are written in modified UTF-7.
        for (name, value) in
            [("username", self.username.as_str()), ("password", self.password.expose_secret()), ("folder", self.folder.as_str())]
        {
            if value.is_empty() || !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
                return Err(SettingsError::Unsendable(name));
            }
        }
        for (name, seconds) in [("idle_seconds", self.idle_seconds), ("max_seconds", self.max_seconds)] {
            if !(1..=MAX_SECONDS).contains(&seconds) {
                return Err(SettingsError::Timeout(name));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> MailboxSettings {
        serde_json::from_str(json).expect("settings")
    }

    #[test]
    fn the_least_that_must_be_written_is_host_and_sign_in() {
        let s = settings(r#"{"host":"imap.example.org","username":"u","password":"p"}"#);
        assert_eq!(s.validate(), Ok(()));
        assert_eq!((s.security, s.port(), s.folder.as_str()), (Security::Tls, 993, "INBOX"));
        let typo = serde_json::from_str::<MailboxSettings>(r#"{"host":"i","username":"u","password":"p","fodler":"x"}"#);
        assert!(typo.is_err_and(|e| e.to_string().contains("fodler")));
    }

    #[test]
    fn each_wrong_setting_is_named() {
        let good = settings(r#"{"host":"imap.example.org","username":"u","password":"p"}"#);
        let wrong = |change: fn(&mut MailboxSettings)| {
            let mut s = good.clone();
            change(&mut s);
            s.validate().expect_err("must be refused").to_string()
        };
        assert!(wrong(|s| s.host = "imap example".into()).contains("imap example"));
        assert!(wrong(|s| s.port = Some(0)).contains("Port 0"));
        assert!(wrong(|s| s.security = Security::Plain).contains("imap.example.org"));
        assert!(wrong(|s| s.username = "u\r\nA DELETE x".into()).contains("username"));
        assert!(wrong(|s| s.password = SecretString::from("")).contains("password"));
        assert!(wrong(|s| s.folder = "Entwürfe".into()).contains("folder"));
        assert!(wrong(|s| s.idle_seconds = 0).contains("idle_seconds"));
        assert!(wrong(|s| s.max_seconds = u64::MAX).contains("max_seconds"));
    }

    #[test]
    fn the_password_is_in_no_debug_text() {
        let s = settings(r#"{"host":"i","username":"u","password":"correct horse"}"#);
        assert!(!format!("{s:?}").contains("horse"));
    }
}
