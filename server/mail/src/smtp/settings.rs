//! What an administrator writes down about the mail server, and what is wrong with it.

use secrecy::SecretString;
use std::{net::IpAddr, path::PathBuf, time::Duration};

use lettre::{Address, message::Mailbox};
use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// TLS from the first byte (RFC 8314), port 465.
    #[default]
    Tls,
    /// Upgraded by STARTTLS (RFC 3207), port 587. Never falls back to plain.
    StartTls,
    /// No protection, port 25. Only to this machine itself.
    Plain,
}

/// The longest waits, each for one thing. In settings they are whole seconds.
///
/// The defaults are the minimums of RFC 5321 4.5.3.2. The last one is the one not to shorten: a
/// server may need it, and giving up early makes an accepted message look unconfirmed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Name look-up, TCP, implicit TLS, greeting and EHLO together.
    #[serde(deserialize_with = "seconds")]
    pub connect: Duration,
    /// Each of STARTTLS, AUTH, EHLO, MAIL and RCPT.
    #[serde(deserialize_with = "seconds")]
    pub command: Duration,
    /// DATA.
    #[serde(deserialize_with = "seconds")]
    pub data: Duration,
    /// Each block of the message.
    #[serde(deserialize_with = "seconds")]
    pub block: Duration,
    /// From the final dot to its reply.
    #[serde(deserialize_with = "seconds")]
    pub final_dot: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_mins(5),
            command: Duration::from_mins(5),
            data: Duration::from_mins(2),
            block: Duration::from_mins(3),
            final_dot: Duration::from_mins(10),
        }
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_secs)
}

/// The mail server that takes messages, as written in the settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmtpSettings {
    /// Host name, which is also the name in the certificate, or an IP address.
    pub host: String,
    /// Defaults to the usual port of `security`.
    pub port: Option<u16>,
    /// Defaults to `tls`.
    #[serde(default)]
    pub security: Security,
    /// Given together with `password`, or not at all.
    pub username: Option<String>,
    /// Given together with `username`, or not at all.
    pub password: Option<SecretString>,
    /// The sender, `reports@example.org` or `Recount <reports@example.org>`.
    pub from: String,
    /// What to say in EHLO; defaults to this machine's name.
    pub hello_name: Option<String>,
    /// See [`Timeouts`].
    #[serde(default)]
    pub timeouts: Timeouts,
    /// PEM file with certificates to trust in addition to the system's.
    pub extra_ca_file: Option<PathBuf>,
    /// The e-mail header by which the service behind this server recognises a message that it was given before, such as
    /// `Resend-Idempotency-Key`; most servers have none.
    pub idempotency_header: Option<String>,
    /// How long it does, in hours; defaults to 24.
    pub idempotency_hours: Option<u16>,
    /// Who gets a copy of every message, as a second recipient of the envelope that no header names.
    pub archive: Option<String>,
    /// Whether to ask for delivery reports (RFC 3461) where the server offers them. They come to `from`'s mailbox. When not
    /// said, they are asked for if there is a bounce mailbox to look for them in.
    pub dsn: Option<bool>,
}

/// What is wrong with the settings, in words for the administrator.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingsError {
    /// `host` is not a host name or IP address.
    #[error("\"{0}\" is not a host name. Give the mail server's name, such as mail.example.org.")]
    Host(String),
    /// `port` is 0.
    #[error("Port 0 cannot be connected to. Use 465 for tls or 587 for starttls, or leave the port out.")]
    Port,
    /// `plain` to another machine.
    #[error(
        "Without encryption, mail may only go to a server on this machine, and \"{0}\" is another one. \
         Use security = \"tls\" or \"starttls\"."
    )]
    PlainToOtherMachine(String),
    /// Only one of `username` and `password`.
    #[error("Signing in needs both username and password: give both, or neither.")]
    HalfCredentials,
    /// `from` is not an address.
    #[error("\"{0}\" is not a sender's e-mail address, such as Recount <reports@example.org>.")]
    From(String),
    /// `archive` is not an address.
    #[error("\"{0}\" is not the archive's e-mail address in ASCII, such as archive@example.org.")]
    Archive(String),
    /// `hello_name` cannot stand in EHLO.
    #[error("\"{0}\" cannot be said in EHLO. Use this machine's full name, such as app.example.org.")]
    HelloName(String),
    /// `idempotency_header` is no header's name, or that of a header which every message has.
    #[error(
        "\"{0}\" cannot be the header for a key. Give the name from the mail service's documentation, such as Resend-Idempotency-Key."
    )]
    IdempotencyHeader(String),
    /// `idempotency_hours` makes no sense.
    #[error("A key is recognised for 1 to 720 hours, and only where idempotency_header names its header.")]
    IdempotencyHours,
    /// A time-out of nothing.
    #[error("The time-out {0} is 0 seconds, so no message could ever be sent. Give at least 1.")]
    ZeroTimeout(&'static str),
    /// TLS could not be set up on this machine, or the extra CA file cannot be used.
    #[error("TLS cannot be set up: {0}.")]
    Tls(String),
}

impl SmtpSettings {
    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.security {
            Security::Tls => 465,
            Security::StartTls => 587,
            Security::Plain => 25,
        })
    }

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

    /// The archive's address.
    ///
    /// # Errors
    /// [`SettingsError::Archive`] when it is not one address, or one that some servers cannot take: it must not hinder the
    /// message.
    pub fn archive(&self) -> Result<Option<Address>, SettingsError> {
        let Some(text) = &self.archive else { return Ok(None) };
        match text.parse() {
            Ok(address) if text.is_ascii() => Ok(Some(address)),
            _ => Err(SettingsError::Archive(text.clone())),
        }
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
        if self.username.is_some() != self.password.is_some() {
            return Err(SettingsError::HalfCredentials);
        }
        self.sender()?;
        self.archive()?;
        if let Some(name) = &self.hello_name
            && (name.is_empty() || !name.chars().all(|c| c.is_ascii_graphic()))
        {
            return Err(SettingsError::HelloName(name.clone()));
        }
        if let Some(name) = self.idempotency_header.as_ref().filter(|name| !is_free_header(name)) {
            return Err(SettingsError::IdempotencyHeader(name.clone()));
        }
        if self.idempotency_hours.is_some_and(|hours| self.idempotency_header.is_none() || !(1..=720).contains(&hours)) {
            return Err(SettingsError::IdempotencyHours);
        }
        let limits = &self.timeouts;
        for (name, limit) in [
            ("connect", limits.connect),
            ("command", limits.command),
            ("data", limits.data),
            ("block", limits.block),
            ("final_dot", limits.final_dot),
        ] {
            if limit.is_zero() {
                return Err(SettingsError::ZeroTimeout(name));
            }
        }
        Ok(())
    }
}

/// Whether this is a host name or an IP address.
pub(crate) fn is_host(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
        || (!host.is_empty()
            && host.len() <= 253
            && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')))
}

/// RFC 5322 3.6.8, no longer than a line takes, and none of the headers that a message has anyway.
fn is_free_header(name: &str) -> bool {
    let taken = ["from", "to", "cc", "bcc", "sender", "reply-to", "subject", "date", "message-id", "in-reply-to", "references"];
    let lower = name.to_ascii_lowercase();
    let prefixed = ["mime-", "content-", "auto-submitted", "x-recount-"].iter().any(|prefix| lower.starts_with(prefix));
    (1..=76).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_graphic() && c != ':')
        && !prefixed
        && !taken.contains(&lower.as_str())
}

/// A name other than `localhost` could resolve to another machine tomorrow, so it never counts.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> SmtpSettings {
        serde_json::from_str(json).expect("settings")
    }

    #[test]
    fn the_least_that_must_be_written_is_host_and_sender() {
        let s = settings(r#"{"host":"mail.example.org","from":"Recount <r@example.org>"}"#);
        assert_eq!(s.validate(), Ok(()));
        assert_eq!((s.security, s.port()), (Security::Tls, 465));
        assert_eq!(s.timeouts.final_dot, Duration::from_mins(10));
        assert_eq!(s.sender().map(|m| m.email.to_string()), Ok("r@example.org".to_owned()));
    }

    #[test]
    fn time_outs_are_seconds_and_a_typing_error_is_found() {
        let s = settings(r#"{"host":"mx","from":"r@e.org","security":"starttls","timeouts":{"final_dot":900}}"#);
        assert_eq!(s.timeouts.final_dot, Duration::from_mins(15));
        assert_eq!(s.port(), 587);
        let typo = serde_json::from_str::<SmtpSettings>(r#"{"hots":"mx","from":"r@e.org"}"#);
        assert!(typo.is_err_and(|e| e.to_string().contains("hots")));
    }

    #[test]
    fn plain_is_only_for_this_machine() {
        for (host, allowed) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("mail.example.org", false),
            ("10.0.0.1", false),
            ("localhost.example.org", false),
        ] {
            let s = settings(&format!(r#"{{"host":"{host}","from":"r@e.org","security":"plain"}}"#));
            assert_eq!(s.validate().is_ok(), allowed, "{host}");
        }
    }

    #[test]
    fn each_wrong_setting_is_named() {
        let good = settings(r#"{"host":"mx.example.org","from":"r@e.org"}"#);
        let wrong = |change: fn(&mut SmtpSettings)| {
            let mut s = good.clone();
            change(&mut s);
            s.validate().expect_err("must be refused").to_string()
        };
        assert!(wrong(|s| s.host = "mx example".into()).contains("mx example"));
        assert!(wrong(|s| s.host = String::new()).contains("host name"));
        assert!(wrong(|s| s.port = Some(0)).contains("Port 0"));
        assert!(wrong(|s| s.username = Some("u".into())).contains("both"));
        assert!(wrong(|s| s.from = "reports".into()).contains("sender"));
        assert!(wrong(|s| s.from = "r@e.org\r\nBcc: x@e.org".into()).contains("sender"));
        assert!(wrong(|s| s.archive = Some("archive".into())).contains("archive's"));
        assert!(wrong(|s| s.archive = Some("a@e.org>\r\nRCPT TO:<b@e.org".into())).contains("archive's"));
        assert!(wrong(|s| s.archive = Some("ünal@e.org".into())).contains("ASCII"));
        assert!(wrong(|s| s.hello_name = Some("a b".into())).contains("EHLO"));
        assert!(wrong(|s| s.timeouts.block = Duration::ZERO).contains("block"));
        assert!(wrong(|s| s.idempotency_hours = Some(24)).contains("idempotency_header"));
        for hours in [0, 721] {
            let s = keyed("X-EE-Idempotency-Key", Some(hours));
            assert_eq!(s.validate(), Err(SettingsError::IdempotencyHours), "{hours}");
        }
    }

    fn keyed(header: &str, hours: Option<u16>) -> SmtpSettings {
        let settings = settings(r#"{"host":"mx.example.org","from":"r@e.org"}"#);
        SmtpSettings { idempotency_header: Some(header.to_owned()), idempotency_hours: hours, ..settings }
    }

    #[test]
    fn the_key_has_a_header_of_its_own() {
        for good in ["Resend-Idempotency-Key", "X-EE-Idempotency-Key", "x!#$%&'*+-^_`|~"] {
            assert_eq!(keyed(good, None).validate(), Ok(()), "{good}");
        }
        let long = "X".repeat(77);
        for wrong in ["", "X Key", "X-Key:", "X-Schlüssel", "X\r\nBcc", "Message-ID", "content-type", "X-Recount-Job", &long] {
            assert_eq!(keyed(wrong, None).validate(), Err(SettingsError::IdempotencyHeader(wrong.to_owned())));
        }
        assert_eq!(keyed("X-Key", Some(720)).validate(), Ok(()));
    }

    #[test]
    fn the_password_is_in_no_debug_text() {
        let s = settings(r#"{"host":"mx","from":"r@e.org","username":"u","password":"correct horse"}"#);
        assert!(!format!("{s:?}").contains("horse"));
    }
}
