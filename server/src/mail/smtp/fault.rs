//! What went wrong in one step of a session, in words, and who may try again.

use std::{error::Error as _, io, time::Duration};

use lettre::transport::smtp::{Error as SmtpError, response::Response};

use crate::mail::{channel::Retry, evidence::one_line};

/// Why a step ended without the reply that was wanted.
#[derive(Debug)]
pub(super) enum Fault {
    /// A complete reply with another code than the wanted one.
    Reply { code: u16, text: String },
    /// Our own clock ran out.
    TimedOut(Duration),
    /// End of file, reset, no route.
    Link(String),
    /// Something came, but no reply of the protocol.
    Unreadable(String),
    /// TLS could not be agreed on: a certificate, a version, or no TLS at all at that port.
    Tls(String),
    /// The server lacks something that this message or these settings need.
    Unable(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Link(error.to_string())
    }
}

impl From<SmtpError> for Fault {
    /// lettre keeps the kind of its error to itself, so this looks at what it lets through.
    fn from(error: SmtpError) -> Self {
        if let Some(code) = error.status() {
            // A negative reply: its text is the error's source
            return Self::Reply { code: code.into(), text: error.source().map(ToString::to_string).unwrap_or_default() };
        }
        if is_tls(&error) {
            return Self::Tls(innermost(&error));
        }
        if error.is_client() {
            return Self::Unable(innermost(&error));
        }
        let what = innermost(&error);
        // lettre's own words for an end of file and for what its parser did not understand
        match what.strip_prefix("error Tag at:") {
            Some(reply) => Self::Unreadable(reply.trim().to_owned()),
            None if what == "incomplete response" => Self::Link("it was closed before a complete reply".to_owned()),
            None => Self::Link(what),
        }
    }
}

impl Fault {
    /// A positive reply that is not the one the protocol asks for here.
    pub(super) fn from_reply(reply: &Response) -> Self {
        Self::Reply { code: reply.code().into(), text: lines(reply) }
    }

    /// Who may try again when this happened before the server took the message.
    pub(super) fn retry(&self) -> Retry {
        match self {
            // RFC 5321 4.2.1: 5yz, do not repeat the same request
            Self::Reply { code, .. } if *code >= 500 => Retry::NeedsPerson,
            Self::Tls(_) | Self::Unable(_) => Retry::NeedsPerson,
            Self::Reply { .. } | Self::TimedOut(_) | Self::Link(_) | Self::Unreadable(_) => Retry::Later,
        }
    }

    /// The sentence that is stored and shown.
    pub(super) fn evidence(&self) -> String {
        match self {
            Self::Reply { code, text } => {
                let reply = evidence(*code, text);
                if *code < 400 { format!("unexpected reply: {reply}") } else { reply }
            }
            Self::TimedOut(limit) => format!("no answer within {} s", limit.as_secs_f64().round()),
            Self::Unreadable(what) if what.is_empty() => "a reply without text".to_owned(),
            Self::Unreadable(what) => one_line(&format!("an unreadable reply: \"{what}\"")),
            Self::Link(what) => one_line(&format!("the connection failed: {what}")),
            Self::Tls(what) => one_line(&format!("no trusted TLS connection: {what}")),
            Self::Unable(what) => one_line(what),
        }
    }

    /// Whether both sides still agree on where they stand, so that the session may end with QUIT.
    /// 421 says that the server has left already.
    pub(super) fn leaves_in_step(&self) -> bool {
        match self {
            Self::Reply { code, .. } => *code != 421,
            Self::Unable(_) => true,
            Self::TimedOut(_) | Self::Link(_) | Self::Unreadable(_) | Self::Tls(_) => false,
        }
    }
}

/// A reply as evidence: its code and text on one line.
pub(super) fn reply_evidence(reply: &Response) -> String {
    evidence(reply.code().into(), &lines(reply))
}

fn lines(reply: &Response) -> String {
    reply.message().collect::<Vec<_>>().join(" ")
}

fn evidence(code: u16, text: &str) -> String {
    one_line(&format!("{code} {text}"))
}

/// The last error of the chain; the outer ones only repeat its text.
fn innermost(error: &SmtpError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

fn is_tls(error: &SmtpError) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        let cause = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(cause) = cause
            && cause.is::<rustls::Error>()
        {
            return true;
        }
        source = inner.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::evidence;

    #[test]
    fn evidence_is_one_bounded_line() {
        let long = "x".repeat(5000);
        let fault = Fault::Reply { code: 550, text: format!("5.1.1 no\r\nsuch\u{7} user {long}") };
        let text = fault.evidence();
        assert!(text.starts_with("550 5.1.1 no such user x"));
        assert_eq!(text.chars().count(), evidence::LIMIT + 1);
    }

    #[test]
    fn only_what_a_person_must_mend_needs_a_person() {
        let reply = |code| Fault::Reply { code, text: String::new() }.retry();
        assert_eq!(reply(421), Retry::Later);
        assert_eq!(reply(452), Retry::Later);
        assert_eq!(reply(535), Retry::NeedsPerson);
        assert_eq!(reply(550), Retry::NeedsPerson);
        assert_eq!(Fault::TimedOut(Duration::from_secs(1)).retry(), Retry::Later);
        assert_eq!(Fault::Tls("expired".into()).retry(), Retry::NeedsPerson);
    }
}
