//! The stored message as the JSON that the API takes.
//!
//! A pure function of the stored bytes and the recipient: the fields have a fixed order and the headers are sorted, so the
//! same message gives the same JSON on every attempt, and a repetition under its key is recognised as one.

use std::collections::BTreeMap;

use lettre::{Address, message::Mailbox};
use mail_parser::{Message, MessageParser, PartType};
use serde::Serialize;
use thiserror::Error;

use super::KEY_HEADER;
use crate::channel::Outgoing;

/// Headers that the service writes by itself, from the other fields of the JSON or from the clock.
const NOT_OURS: [&str; 6] = ["From", "To", "Subject", "Date", "MIME-Version", KEY_HEADER];

/// Why a stored message cannot be said in JSON. Recount renders no such message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum PayloadError {
    #[error("the stored message cannot be read")]
    Unreadable,
    #[error("the stored message has no {0}")]
    Missing(&'static str),
    #[error("the stored message has the header {0} twice, which this mail service cannot be given")]
    Twice(String),
    #[error("the stored message could not be written as JSON: {0}")]
    Json(String),
}

#[derive(Serialize)]
struct Email<'a> {
    from: String,
    to: [&'a str; 1],
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    headers: BTreeMap<&'a str, String>,
}

/// The body of the request.
pub(super) fn json(outgoing: &Outgoing) -> Result<Vec<u8>, PayloadError> {
    let message = MessageParser::default().parse(&*outgoing.bytes).ok_or(PayloadError::Unreadable)?;
    let html = message.html_body.iter().find_map(|part| match &message.part(*part)?.body {
        PartType::Html(html) => Some(&**html),
        _ => None,
    });
    let text = message.text_body.iter().find_map(|part| match &message.part(*part)?.body {
        PartType::Text(text) => Some(&**text),
        _ => None,
    });
    if html.is_none() && text.is_none() {
        return Err(PayloadError::Missing("text"));
    }
    let email = Email {
        from: sender(&message)?,
        to: [outgoing.to.as_ref()],
        subject: message.subject().ok_or(PayloadError::Missing("subject"))?,
        html,
        text,
        headers: headers(&message)?,
    };
    serde_json::to_vec(&email).map_err(|error| PayloadError::Json(error.to_string()))
}

fn sender(message: &Message<'_>) -> Result<String, PayloadError> {
    let missing = PayloadError::Missing("sender");
    let Some(from) = message.from().and_then(|from| from.first()) else { return Err(missing) };
    let address: Option<Address> = from.address().and_then(|address| address.parse().ok());
    let address = address.ok_or(missing)?;
    Ok(Mailbox::new(from.name().map(str::to_owned), address).to_string())
}

/// Everything that a reader of the message may look for, Message-ID included. Sorted, because JSON leaves the order open.
fn headers<'a>(message: &'a Message<'_>) -> Result<BTreeMap<&'a str, String>, PayloadError> {
    let mut headers = BTreeMap::new();
    for (name, raw) in message.headers_raw() {
        let ours =
            !NOT_OURS.iter().any(|other| other.eq_ignore_ascii_case(name)) && !name.to_ascii_lowercase().starts_with("content-");
        if ours && headers.insert(name, unfolded(raw)).is_some() {
            return Err(PayloadError::Twice(name.to_owned()));
        }
    }
    Ok(headers)
}

/// RFC 5322 2.2.3: a line break before white space only folds the line.
fn unfolded(raw: &str) -> String {
    raw.replace("\r\n", "").trim().to_owned()
}
