//! The e-mails that Recount writes: "your report is there", with a link, and "something in it is wrong".
//!
//! Rendering is a pure function: the same [`Notice`] gives the same bytes, boundary and date
//! included. It runs once per message, and what it returned is what every attempt sends. The
//! report's text stays behind the link, so nothing that a model wrote can reach a mailbox.

use std::{fmt::Write as _, time::SystemTime};

use chrono::{DateTime, Utc};
use lettre::{
    Address, Message,
    message::{
        Mailbox, MultiPart, SinglePart,
        header::{HeaderName, HeaderValue},
    },
};
use sha2::{Digest, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::key::KeyHeader;
use domain::text::escaped;

/// What the message says, and to whom.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The sender from the settings.
    pub from: Mailbox,
    /// The one recipient.
    pub to: Address,
    /// The report's title as a person typed it.
    pub title: String,
    /// The month in words, e.g. `June 2026`.
    pub month: String,
    /// Address of the report's page, `https://…` or `http://…`.
    pub link: String,
    /// Who asked for the report, as people know them.
    pub requested_by: String,
    /// The job, for the `X-Recount-Job` header.
    pub job: Uuid,
    /// From [`message_id`], the same for every attempt.
    pub message_id: String,
    /// The message's Date.
    pub date: DateTime<Utc>,
    /// What was wrong, for a message that corrects an earlier one.
    pub correction: Option<Correction>,
    /// The header by which the channel's service recognises the message, from
    /// [`Channel::key_header`](super::channel::Channel::key_header).
    pub key: Option<KeyHeader>,
}

/// What a correction says, and which message it corrects.
#[derive(Debug, Clone)]
pub struct Correction {
    /// As a person typed it.
    pub text: String,
    /// Who sends it, as people know them.
    pub by: String,
    /// The Message-ID of the message that brought the link, so that mail programs show the two together (RFC 5322 3.6.4).
    /// `None` while that message is unconfirmed: who reads it here could make up the proof that it came.
    pub in_reply_to: Option<String>,
}

/// A rendered message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The message, RFC 5322.
    pub bytes: Vec<u8>,
    /// SHA-256 of `bytes`.
    pub sha256: [u8; 32],
    /// As in the notice, `<…@…>`.
    pub message_id: String,
    /// The subject in clear, for lists.
    pub subject: String,
}

/// Why a notice cannot be rendered. These are faults of the program or its settings, not of a form.
#[derive(Debug, Error)]
pub enum ComposeError {
    /// The Message-ID is not of the form `<…@…>` (RFC 5322 3.6.4).
    #[error("\"{0}\" is not a Message-ID.")]
    MessageId(String),
    /// The link is not an address that can be clicked.
    #[error("\"{0}\" is not a web address. Check the public address in the settings.")]
    Link(String),
    /// The key's header has a name that no header can have.
    #[error("\"{0}\" cannot be the name of a header. Check the settings of the mail channel.")]
    KeyHeader(String),
    /// The message could not be put together.
    #[error("The message could not be written: {0}.")]
    Message(#[from] lettre::error::Error),
}

/// Subject and text of the message as its recipient will read them, before it is rendered.
pub fn preview(notice: &Notice) -> (String, String) {
    let words = Words::new(notice);
    (words.subject.clone(), words.text())
}

/// Renders the message.
///
/// # Errors
/// See [`ComposeError`].
pub fn compose(notice: &Notice) -> Result<Composed, ComposeError> {
    if !is_message_id(&notice.message_id) {
        return Err(ComposeError::MessageId(notice.message_id.clone()));
    }
    if !is_link(&notice.link) {
        return Err(ComposeError::Link(notice.link.clone()));
    }
    let words = Words::new(notice);
    let mut message = Message::builder()
        .from(notice.from.clone())
        .to(Mailbox::new(None, notice.to.clone()))
        .subject(words.subject.clone())
        .date(SystemTime::from(notice.date))
        .message_id(Some(notice.message_id.clone()))
        .raw_header(raw("Auto-Submitted", "auto-generated"))
        .raw_header(raw("X-Recount-Job", &notice.job.to_string()));
    if let Some(Correction { in_reply_to: Some(in_reply_to), .. }) = &notice.correction {
        message = message.in_reply_to(in_reply_to.clone()).references(in_reply_to.clone());
    }
    if let Some(KeyHeader { name, value }) = &notice.key {
        let header = HeaderName::new_from_ascii(name.clone()).map_err(|_| ComposeError::KeyHeader(name.clone()))?;
        message = message.raw_header(HeaderValue::new(header, value.clone()));
    }
    let message = message.multipart(
        MultiPart::alternative()
            .boundary(boundary(&notice.message_id))
            .singlepart(SinglePart::plain(words.text()))
            .singlepart(SinglePart::html(words.html())),
    )?;
    let bytes = message.formatted();
    Ok(Composed { sha256: Sha256::digest(&bytes).into(), bytes, message_id: notice.message_id.clone(), subject: words.subject })
}

/// Both headers are our own ASCII, so nothing in them needs encoding.
fn raw(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// Derived, because a random boundary would make two renders differ. The Message-ID is unguessable,
/// so no title can contain the boundary.
fn boundary(message_id: &str) -> String {
    let mut text = "=_".to_owned();
    for byte in Sha256::digest(message_id).iter().take(16) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn is_message_id(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|t| t.strip_suffix('>'));
    let parts = inner.and_then(|t| t.split_once('@'));
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '@'));
    parts.is_some_and(|(left, right)| plain(left) && plain(right))
}

fn is_link(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && rest.chars().all(|c| !c.is_whitespace() && !c.is_control())
            && !rest.contains(['<', '>', '"'])
    })
}

/// The sentences, once for both parts.
struct Words<'a> {
    title: String,
    month: String,
    subject: String,
    link: &'a str,
    why: String,
    correction: Option<&'a Correction>,
}

impl<'a> Words<'a> {
    fn new(notice: &'a Notice) -> Self {
        let title = one_line(&notice.title);
        let month = one_line(&notice.month);
        let correction = notice.correction.as_ref();
        let report = if title.is_empty() { format!("Report for {month}") } else { format!("Report for {month}: {title}") };
        let subject = if correction.is_some() { format!("Correction: {report}") } else { report };
        let (who, what) = match correction {
            Some(correction) => (&correction.by, "this correction"),
            None => (&notice.requested_by, "the link"),
        };
        let why = format!("You get this message because {} asked Recount to send {what} to {}.", one_line(who), notice.to);
        Self { title, month, subject, link: &notice.link, why, correction }
    }

    fn text(&self) -> String {
        let Self { title, month, link, why, .. } = self;
        let heading = if title.is_empty() { String::new() } else { format!("{title}\n\n") };
        let body = match self.correction {
            None => format!("The report for {month} is ready:\n\n{link}"),
            Some(Correction { text, .. }) => {
                format!("A correction to the report for {month}:\n\n{}\n\nThe report:\n{link}", lines(text).join("\n"))
            }
        };
        format!("{heading}{body}\n\n-- \n{why}\n")
    }

    fn html(&self) -> String {
        let heading = if self.title.is_empty() {
            String::new()
        } else {
            // <bdi>: a title in a right-to-left script must not turn the sentence around it
            format!("<h1><bdi>{}</bdi></h1>\n", escaped(&self.title))
        };
        let (link, subject) = (escaped(self.link), escaped(&self.subject));
        let (month, why) = (escaped(&self.month), escaped(&self.why));
        let body = match self.correction {
            None => format!("<p>The report for {month} is ready:</p>"),
            Some(Correction { text, .. }) => {
                let said: Vec<String> = lines(text).iter().map(|line| escaped(line)).collect();
                format!(
                    "<p>A correction to the report for {month}:</p>\n<blockquote>{}</blockquote>\n<p>The report:</p>",
                    said.join("<br>\n")
                )
            }
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{subject}</title></head>\n\
             <body>\n{heading}{body}\n\
             <p><a href=\"{link}\">{link}</a></p>\n<hr>\n<p><small>{why}</small></p>\n</body>\n</html>\n"
        )
    }
}

/// A person's text line by line; a control character becomes a space.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()).collect()
}

/// A person's text on one line: line breaks and control characters become single spaces, so that
/// none of them can end a header.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
