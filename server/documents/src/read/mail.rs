//! Mails (RFC 5322, MIME): who, when and about what, then the text. Attachments that Recount can read are read, all
//! others are named, so that the coverage list does not claim more than was seen.

use std::borrow::Cow;

use chrono::DateTime;
use mail_parser::{Address, ContentType, Message, MessageParser, MessagePart, MimeHeaders, PartType};

use super::date::{self, DateRule, When};
use super::detect::Content;
use super::draft::{Draft, Refusal};
use super::{Attachments, Format, Limits, detect, guarded, html, text};

/// A mail with more mails inside mails than this is broken or hostile; dropping such a tree takes stack for each level.
const MAX_MAILS_INSIDE: usize = 100;

pub(super) fn read(bytes: &[u8], limits: &Limits, draft: &mut Draft, attachments: Attachments) -> Result<(), Refusal> {
    let bytes = as_bytes_of_mail(bytes);
    if count(&bytes, b"message/") > MAX_MAILS_INSIDE {
        return Err(Refusal::Unreadable("it has too many mails inside mails".to_owned()));
    }
    let Some(message) = MessageParser::default().parse(bytes.as_ref()) else {
        // A mail without any header is a text that someone named `.eml`.
        draft.push(&text::decode(&bytes, None));
        return Ok(());
    };
    draft.set_date(sent(&message), DateRule::MailDate);
    draft.set_title(message.subject().unwrap_or_default());
    read_message(&message, limits, draft, attachments)
}

/// The Date header of a mail of which `head` is the beginning.
pub(super) fn date(head: &[u8]) -> Option<(When, DateRule)> {
    let bytes = as_bytes_of_mail(head);
    let message = MessageParser::default().parse_headers(bytes.as_ref())?;
    Some((sent(&message)?, DateRule::MailDate))
}

/// Mail is bytes; some programs save it as UTF-16 all the same.
fn as_bytes_of_mail(bytes: &[u8]) -> Cow<'_, [u8]> {
    let marked = encoding_rs::Encoding::for_bom(bytes).is_some();
    if marked || text::utf_16_without_mark(bytes).is_some() {
        Cow::Owned(text::decode(bytes, None).into_owned().into_bytes())
    } else {
        Cow::Borrowed(bytes)
    }
}

fn sent(message: &Message<'_>) -> Option<When> {
    match message.date().filter(|date| date.is_valid()) {
        Some(date) => date::instant(DateTime::from_timestamp(date.to_timestamp(), 0)?),
        // Not every program writes the date as RFC 5322 wants it.
        None => date::parse(message.header_raw("Date")?),
    }
}

fn read_message(message: &Message<'_>, limits: &Limits, draft: &mut Draft, attachments: Attachments) -> Result<(), Refusal> {
    if message.parts.iter().any(is_encrypted) {
        return Err(Refusal::Locked("the mail is encrypted".to_owned()));
    }
    let mut body = draft.inner();
    for part in &message.text_body {
        match message.part(*part).map(|part| &part.body) {
            Some(PartType::Html(page)) => html::read(page, &mut body),
            Some(PartType::Text(words)) if words.trim_start().starts_with("-----BEGIN PGP MESSAGE-----") => {
                return Err(Refusal::Locked("the mail is encrypted".to_owned()));
            }
            Some(PartType::Text(words)) => body.push_block(words),
            _ => {}
        }
    }
    let count = u64::try_from(message.attachments.len()).unwrap_or(u64::MAX);
    // Together they may inflate no more than one file may.
    let share = Limits { max_inflated: limits.max_inflated / count.max(1), ..*limits };
    for part in &message.attachments {
        if let Some(part) = message.part(*part) {
            read_attachment(part, &share, &mut body, attachments);
        }
    }
    if body.has_text() {
        draft.push_block(&header(message));
    }
    draft.absorb(body, "");
    Ok(())
}

/// The header fields that a reader needs, one a line.
fn header(message: &Message<'_>) -> String {
    let fields = [
        ("Subject", message.subject().and_then(text::one_line)),
        ("From", message.from().and_then(people)),
        ("To", message.to().and_then(people)),
        ("Cc", message.cc().and_then(people)),
        ("Date", message.date().filter(|date| date.is_valid()).map(mail_parser::DateTime::to_rfc3339)),
    ];
    let lines = fields.into_iter().filter_map(|(name, value)| Some(format!("{name}: {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}

fn people(address: &Address<'_>) -> Option<String> {
    let people = address.iter().filter_map(|person| match (person.name(), person.address()) {
        (Some(name), Some(address)) if name != address => Some(format!("{name} <{address}>")),
        (name, address) => address.or(name).map(str::to_owned),
    });
    text::one_line(&people.collect::<Vec<_>>().join(", "))
}

/// S/MIME (RFC 8551) and OpenPGP/MIME (RFC 3156). A signed mail is readable and is not meant here.
fn is_encrypted(part: &MessagePart<'_>) -> bool {
    let Some(kind) = part.content_type() else {
        return false;
    };
    match (kind.ctype(), kind.subtype()) {
        (_, Some(sub)) if is(kind, "multipart") && sub.eq_ignore_ascii_case("encrypted") => true,
        (_, Some(sub)) if is(kind, "application") => {
            let smime = ["pkcs7-mime", "x-pkcs7-mime"].iter().any(|known| sub.eq_ignore_ascii_case(known));
            smime && !kind.attribute("smime-type").is_some_and(|kind| kind.eq_ignore_ascii_case("signed-data"))
        }
        _ => false,
    }
}

/// A signature is about the mail and has nothing to read.
fn is_signature(part: &MessagePart<'_>) -> bool {
    let subtype = part.content_type().and_then(ContentType::subtype).unwrap_or_default();
    ["pgp-signature", "pkcs7-signature", "x-pkcs7-signature"].iter().any(|known| subtype.eq_ignore_ascii_case(known))
}

/// The HTML of a mail that has its text in plain words too comes out as an attachment if its encoding is broken.
fn is_stray_page(part: &MessagePart<'_>) -> bool {
    let is_page = part.content_type().is_some_and(|kind| {
        let subtype = kind.subtype().unwrap_or_default();
        is(kind, "text") && subtype.eq_ignore_ascii_case("html")
    });
    is_page && part.attachment_name().is_none() && part.content_disposition().is_none()
}

fn is(kind: &ContentType<'_>, name: &str) -> bool {
    kind.ctype().eq_ignore_ascii_case(name)
}

fn read_attachment(part: &MessagePart<'_>, limits: &Limits, draft: &mut Draft, attachments: Attachments) {
    let file = part.attachment_name().and_then(text::one_line);
    let label = match (&file, &part.body) {
        (Some(file), _) => format!("attachment \"{file}\""),
        (None, PartType::Message(inner)) => match inner.subject().and_then(text::one_line) {
            Some(subject) => format!("attached mail \"{subject}\""),
            None => "an attached mail".to_owned(),
        },
        (None, _) => "an attachment without a name".to_owned(),
    };
    if is_signature(part) || (draft.has_text() && is_stray_page(part)) {
        return;
    }
    if attachments == Attachments::Name {
        draft.note(format!("{label} was not read"));
        return;
    }
    let mut inner = draft.inner();
    let name = file.unwrap_or_default();
    let outcome = guarded(|| match &part.body {
        PartType::Message(message) => read_message(message, limits, &mut inner, Attachments::Name),
        PartType::Html(page) => {
            html::read(page, &mut inner);
            Ok(())
        }
        PartType::Text(words) => read_file(&name, part, words.as_bytes(), limits, &mut inner),
        PartType::Binary(bytes) | PartType::InlineBinary(bytes) => read_file(&name, part, bytes, limits, &mut inner),
        PartType::Multipart(_) => Ok(()),
    });
    match outcome {
        Ok(()) if inner.has_text() => {
            draft.push_block(&format!("[{label}]"));
            draft.absorb(inner, &label);
        }
        Ok(()) => draft.note(format!("{label} has no text")),
        Err(Refusal::Unreadable(why) | Refusal::Locked(why) | Refusal::TooLarge(why) | Refusal::NoText(why)) => {
            draft.note(format!("{label} was not read: {why}"));
        }
    }
}

fn read_file(name: &str, part: &MessagePart<'_>, bytes: &[u8], limits: &Limits, draft: &mut Draft) -> Result<(), Refusal> {
    let content = detect::content(name, bytes);
    let promises_none =
        part.content_type().is_some_and(|kind| ["image", "audio", "video", "font"].iter().any(|other| is(kind, other)))
            || matches!(detect::by_name(name), Some(Format::Pdf | Format::Docx | Format::Xlsx));
    if promises_none && matches!(content, Content::Text(_)) {
        // A picture, say, that is text all the same is the remains of a broken encoding.
        let why = "it is not in a format that Recount reads";
        return Err(Refusal::Unreadable(why.to_owned()));
    }
    super::read(bytes, content, limits, draft, Attachments::Name)
}

/// How often `word`, in lower case, stands in `bytes`, in any case.
fn count(bytes: &[u8], word: &[u8]) -> usize {
    bytes.windows(word.len()).filter(|window| window.eq_ignore_ascii_case(word)).count()
}
