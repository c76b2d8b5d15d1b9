//! What a file is. The content decides; the name only helps between formats that are all plain text.

use std::io::Cursor;

use zip::ZipArchive;

use super::draft::Refusal;
use super::{Format, text};

/// What the content of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Docx,
    Xlsx,
    Pdf,
    /// A format that is text throughout.
    Text(Format),
    /// Nothing that can be read, with the reason.
    Refused(Refusal),
}

impl Content {
    /// The format, if there is something to read.
    pub(super) fn format(&self) -> Option<Format> {
        match self {
            Self::Docx => Some(Format::Docx),
            Self::Xlsx => Some(Format::Xlsx),
            Self::Pdf => Some(Format::Pdf),
            Self::Text(format) => Some(*format),
            Self::Refused(_) => None,
        }
    }
}

/// Files that begin with these bytes are of a kind that holds no text for us.
const KNOWN_OTHERS: [(&[u8], &str); 13] = [
    (b"\x89PNG\r\n\x1a\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"II*\0", "a picture"),
    (b"MM\0*", "a picture"),
    (b"\x1f\x8b", "a compressed archive"),
    (b"7z\xbc\xaf\x27\x1c", "a compressed archive"),
    (b"Rar!\x1a\x07", "a compressed archive"),
    (b"ID3", "a sound recording"),
    (b"OggS", "a sound recording"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "a database"),
    (b"{\\rtf", "in Rich Text Format; save it as .docx to have it read"),
];

/// The format that the extension of a name promises.
pub(super) fn by_name(name: &str) -> Option<Format> {
    let (stem, extension) = name.rsplit(['/', '\\']).next()?.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    match extension.to_ascii_lowercase().as_str() {
        "md" | "markdown" | "mkd" => Some(Format::Markdown),
        "txt" | "text" | "log" => Some(Format::Text),
        "html" | "htm" | "xhtml" => Some(Format::Html),
        "eml" => Some(Format::Mail),
        "pdf" => Some(Format::Pdf),
        "docx" | "docm" | "dotx" => Some(Format::Docx),
        "xlsx" | "xlsm" | "xltx" => Some(Format::Xlsx),
        "csv" | "tsv" => Some(Format::Csv),
        _ => None,
    }
}

/// Probes at the content of a file, or at its beginning.
pub(super) fn content(name: &str, bytes: &[u8]) -> Content {
    let promised = by_name(name);
    if bytes.is_empty() {
        return Content::Refused(Refusal::NoText("the file is empty".to_owned()));
    }
    if is_pdf(bytes, promised) {
        return Content::Pdf;
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return zip(bytes, promised);
    }
    if bytes.starts_with(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1") {
        return Content::Refused(compound_file(bytes));
    }
    if let Some((_, what)) = KNOWN_OTHERS.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return unreadable(format!("it is {what}"));
    }
    if !text::looks_like_text(bytes) {
        return unreadable(match promised {
            Some(format @ (Format::Pdf | Format::Docx | Format::Xlsx)) => {
                format!("its content is not that of a {}", format.label())
            }
            Some(_) => "its content is not text".to_owned(),
            None => "it is not in a format that Recount reads".to_owned(),
        });
    }
    match promised {
        Some(format @ (Format::Markdown | Format::Text | Format::Html | Format::Mail | Format::Csv)) => Content::Text(format),
        _ => Content::Text(sniff(bytes)),
    }
}

/// Whether a file with this beginning must be there as a whole to say what it is.
pub(super) fn is_container(head: &[u8]) -> bool {
    head.starts_with(b"PK") || is_pdf(head, None)
}

/// The header may stand behind other bytes (ISO 32000-1, annex H.3.4.1), but a text that mentions it is no PDF.
fn is_pdf(bytes: &[u8], promised: Option<Format>) -> bool {
    let head = &bytes[..bytes.len().min(1024)];
    let marker = b"%PDF-";
    head.trim_ascii_start().starts_with(marker)
        || (promised == Some(Format::Pdf) && head.windows(marker.len()).any(|window| window == marker))
}

fn zip(bytes: &[u8], promised: Option<Format>) -> Content {
    let Ok(zip) = ZipArchive::new(Cursor::new(bytes)) else {
        return unreadable("its zip container is broken or cut off".to_owned());
    };
    let any = |prefix: &str| zip.file_names_raw().any(|name| name.starts_with(prefix.as_bytes()));
    if any("word/") {
        Content::Docx
    } else if any("xl/") {
        Content::Xlsx
    } else if any("ppt/") {
        unreadable("it is a PowerPoint presentation; save it as PDF to have it read".to_owned())
    } else if zip.index_for_name("mimetype").is_some() && any("META-INF/") {
        unreadable("it is an OpenDocument or EPUB file; save it as .docx, .xlsx or PDF to have it read".to_owned())
    } else if let Some(format @ (Format::Docx | Format::Xlsx)) = promised {
        unreadable(format!("its content is not that of a {}", format.label()))
    } else {
        unreadable("it is a zip archive; unpack it to have its files read".to_owned())
    }
}

/// Office wraps a file that is protected with a password into an OLE compound file (MS-OFFCRYPTO), the container that
/// the old formats used for everything. Its directory names streams in UTF-16.
fn compound_file(bytes: &[u8]) -> Refusal {
    let has = |stream: &str| {
        let name: Vec<u8> = stream.encode_utf16().flat_map(u16::to_le_bytes).collect();
        bytes.windows(name.len()).any(|window| window == name)
    };
    if has("EncryptedPackage") {
        Refusal::Locked("it is protected with a password".to_owned())
    } else if has("__properties_version1.0") {
        Refusal::Unreadable("it is an Outlook .msg file; save the mail as .eml to have it read".to_owned())
    } else {
        Refusal::Unreadable("it is in an old Office format; save it as .docx, .xlsx or PDF to have it read".to_owned())
    }
}

/// Tells apart texts whose name says nothing.
fn sniff(bytes: &[u8]) -> Format {
    let head = text::decode(&bytes[..bytes.len().min(4096)], None);
    let start = head.trim_start().to_ascii_lowercase();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        Format::Html
    } else if is_mail(&head) {
        Format::Mail
    } else {
        Format::Text
    }
}

/// A text is a mail if it begins with header fields (RFC 5322), among them one that only mails have and a sender or date.
fn is_mail(head: &str) -> bool {
    let mut of_mail = false;
    let mut of_origin = false;
    for (index, line) in head.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) || (index == 0 && line.starts_with("From ")) {
            continue;
        }
        let Some((field, _)) = line.split_once(':') else {
            return false;
        };
        if field.is_empty() || !field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return false;
        }
        match field.to_ascii_lowercase().as_str() {
            "received" | "message-id" | "mime-version" | "return-path" | "delivered-to" => {
                of_mail = true;
            }
            "from" | "date" => of_origin = true,
            _ => {}
        }
    }
    of_mail && of_origin
}

fn unreadable(why: String) -> Content {
    Content::Refused(Refusal::Unreadable(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_and_not_the_name() {
        assert_eq!(content("minutes.docx", b"%PDF-1.4\n"), Content::Pdf);
        assert_eq!(content("minutes.pdf", b"Plain words"), Content::Text(Format::Text));
        assert_eq!(content("photo.md", b"\x89PNG\r\n\x1a\n").format(), None);
        assert_eq!(content("README", b"A text that mentions %PDF-1.4"), Content::Text(Format::Text));
    }

    #[test]
    fn a_file_without_an_extension_is_recognised_by_what_it_says() {
        assert_eq!(content("notes", "Grüße".as_bytes()), Content::Text(Format::Text));
        assert_eq!(content("page", b"\n <!DOCTYPE html><p>Hi"), Content::Text(Format::Html));
        let mail = b"Received: from a\n\tby b\nFrom: a@example.org\nSubject: Hi\n\nText";
        assert_eq!(content("1718", mail), Content::Text(Format::Mail));
        assert_eq!(content("1718", b"Title: Minutes\nDate: 2026-06-03\n\nText"), Content::Text(Format::Text));
        assert_eq!(content(".eml", b"Text"), Content::Text(Format::Text));
    }

    #[test]
    fn what_is_not_read_is_refused_with_what_it_is() {
        let why = |name: &str, bytes: &[u8]| match content(name, bytes) {
            Content::Refused(Refusal::Unreadable(why) | Refusal::Locked(why) | Refusal::NoText(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why("a.md", b""), "the file is empty");
        assert_eq!(why("a.docx", b"PK\x03\x04 cut"), "its zip container is broken or cut off");
        assert_eq!(why("a.txt", &[0, 1, 2, 3, 4, 0, 0, 9]), "its content is not text");
        assert_eq!(why("a.pdf", &[0, 1, 2, 3, 4, 0, 0, 9]), "its content is not that of a PDF");
        let old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1W\0o\0r\0d\0";
        assert!(why("a.doc", old).starts_with("it is in an old Office format"));
    }
}
