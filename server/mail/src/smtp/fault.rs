//! What went wrong in one step of a session, in words, and who may try again.

use std::{io, time::Duration};

use lettre::transport::smtp::{Error as SmtpError, response::Response};

use crate::{
    channel::Retry,
    evidence::{clean, innermost},
};

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
    /// The server has said this before it was asked anything that it could be a reply to.
    Unasked(String),
    /// Two replies to the message, of which nobody can say which counts.
    TwoReplies { first: String, more: String },
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
    /// What lettre could not make of our settings or of what the server offers; it reads and writes nothing here.
    fn from(error: SmtpError) -> Self {
        Self::Unable(innermost(&error))
    }
}

impl Fault {
    /// A reply that is not the one the protocol asks for here.
    pub(super) fn from_reply(reply: &Response) -> Self {
        Self::Reply { code: reply.code().into(), text: lines(reply) }
    }

    /// Who may try again when this happened before the server took the message.
    pub(super) fn retry(&self) -> Retry {
        match self {
            // RFC 5321 4.2.1: 5yz, do not repeat the same request
            Self::Reply { code, .. } if *code >= 500 => Retry::NeedsPerson,
            Self::Tls(_) | Self::Unable(_) => Retry::NeedsPerson,
            Self::Reply { .. }
            | Self::TimedOut(_)
            | Self::Link(_)
            | Self::Unreadable(_)
            | Self::Unasked(_)
            | Self::TwoReplies { .. } => Retry::Later,
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
            Self::Unreadable(what) => clean(&format!("an unreadable reply: \"{what}\"")),
            Self::Unasked(what) => clean(&format!(
                "broken off before the message was handed over: the mail server spoke without being asked: \"{}\"",
                what.trim()
            )),
            Self::TwoReplies { first, more } => clean(&format!(
                "two replies to one message, and nobody can tell which counts: \"{first}\" and \"{}\"",
                more.trim()
            )),
            Self::Link(what) => clean(&format!("the connection failed: {what}")),
            Self::Tls(what) => clean(&format!("no trusted TLS connection: {what}")),
            Self::Unable(what) => clean(what),
        }
    }

    /// Whether both sides still agree on where they stand, so that the session may end with QUIT.
    /// 421 says that the server has left already.
    pub(super) fn leaves_in_step(&self) -> bool {
        match self {
            Self::Reply { code, .. } => *code != 421,
            Self::Unable(_) => true,
            Self::TimedOut(_)
            | Self::Link(_)
            | Self::Unreadable(_)
            | Self::Unasked(_)
            | Self::TwoReplies { .. }
            | Self::Tls(_) => false,
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
    clean(&format!("{code} {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_a_reply_is_its_code_and_its_text_on_one_line() {
        let fault = Fault::Reply { code: 550, text: "5.1.1 no\r\nsuch\u{7} user".to_owned() };
        assert_eq!(fault.evidence(), "550 5.1.1 no such user");
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
