//! What a server gives, as documents: bytes with a name that tells their kind, so that all formats are read as those of files.

use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use rmcp::model::{Annotations, CallToolResult, ContentBlock, Resource, ResourceContents};

/// The longest name, in characters.
const MAX_NAME: usize = 300;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    pub title: Option<String>,
    /// When it was last changed, as the server says.
    pub modified: Option<DateTime<Utc>>,
    /// Its bytes, or why there are none that could be read.
    pub bytes: Result<Vec<u8>, &'static str>,
}

/// A part of a tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Document(Given),
    /// A resource that the answer only names; it is to be read.
    Link(Box<Resource>),
}

/// The name, title and time of a resource as it is listed; its bytes are still to come.
pub fn described(resource: &Resource) -> Given {
    Given {
        name: name(&resource.uri, resource.title.as_deref().or(Some(&resource.name)), resource.mime_type.as_deref()),
        title: resource.title.clone(),
        modified: modified(resource.annotations.as_ref()),
        bytes: Err("it was not read"),
    }
}

/// The contents of a resource that was read, described as it was listed. Those of another URI are parts of it with their own.
pub fn contents(listed: &Resource, contents: Vec<ResourceContents>) -> Vec<Given> {
    contents
        .into_iter()
        .map(|content| {
            let (uri, mime_type, bytes) = bytes(content);
            if uri == listed.uri {
                let mut resource = listed.clone();
                resource.mime_type = mime_type.or(resource.mime_type);
                Given { bytes, ..described(&resource) }
            } else {
                Given {
                    name: name(&uri, None, mime_type.as_deref()),
                    title: None,
                    modified: modified(listed.annotations.as_ref()),
                    bytes,
                }
            }
        })
        .collect()
}

fn bytes(content: ResourceContents) -> (String, Option<String>, Result<Vec<u8>, &'static str>) {
    match content {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => (uri, mime_type, Ok(text.into_bytes())),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            (uri, mime_type, STANDARD.decode(blob).map_err(|_| "its content is not the base64 that it should be"))
        }
        _ => (String::new(), None, Err("it is of a kind that Recount does not read")),
    }
}

/// The parts of a tool's answer. Structured content counts only where there is nothing else: it repeats the rest.
pub fn parts(tool: &str, result: CallToolResult) -> Vec<Part> {
    let several = result.content.len() > 1;
    let mut parts: Vec<Part> = Vec::new();
    for (number, block) in (1..).zip(result.content) {
        let own = if several { format!("{tool} {number}") } else { tool.to_owned() };
        let document = |bytes, annotations: Option<&Annotations>| {
            Part::Document(Given { name: shortened(&own), title: None, modified: modified(annotations), bytes })
        };
        parts.push(match block {
            ContentBlock::Text(text) => document(Ok(text.text.into_bytes()), text.annotations.as_ref()),
            ContentBlock::Image(_) => document(Err("it is a picture"), None),
            ContentBlock::Audio(_) => document(Err("it is a sound recording"), None),
            ContentBlock::Resource(embedded) => {
                let (uri, mime_type, bytes) = bytes(embedded.resource);
                let name = name(&uri, Some(&own), mime_type.as_deref());
                Part::Document(Given { name, title: None, modified: modified(embedded.annotations.as_ref()), bytes })
            }
            ContentBlock::ResourceLink(link) => Part::Link(Box::new(link)),
            _ => document(Err("it is of a kind that Recount does not read"), None),
        });
    }
    if let (true, Some(structured)) = (parts.is_empty(), result.structured_content) {
        let bytes = serde_json::to_vec_pretty(&structured).map_err(|_| "it cannot be written as text");
        parts.push(Part::Document(Given { name: shortened(tool), title: None, modified: None, bytes }));
    }
    parts
}

fn modified(annotations: Option<&Annotations>) -> Option<DateTime<Utc>> {
    let text = annotations?.last_modified.as_deref()?;
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

/// A name that people recognise and that tells the kind: the path of the URI where it is one of a file, else what the server
/// calls the resource, with the ending that fits its media type.
fn name(uri: &str, called: Option<&str>, mime_type: Option<&str>) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    // Only those of the web have a host that is no part of what they name.
    let path = match scheme {
        "http" | "https" => path.split_once('/').map_or("", |(_, path)| path),
        _ => path,
    };
    let path = percent_decoded(path.trim_matches('/'));
    let called = called.map(str::trim).filter(|called| !called.is_empty());
    let base = match (has_ending(&path), called) {
        (false, Some(called)) => called.to_owned(),
        _ if path.is_empty() => uri.to_owned(),
        _ => path,
    };
    let ending = mime_type.and_then(ending).filter(|_| !has_ending(&base)).unwrap_or_default();
    format!("{}{ending}", shortened(&base))
}

fn has_ending(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    last.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty() && (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The ending for a media type (RFC 6838) that Recount reads.
fn ending(mime_type: &str) -> Option<&'static str> {
    Some(match mime_type.split(';').next()?.trim().to_ascii_lowercase().as_str() {
        "text/markdown" => ".md",
        "text/plain" => ".txt",
        "text/html" | "application/xhtml+xml" => ".html",
        "text/csv" => ".csv",
        "text/tab-separated-values" => ".tsv",
        "message/rfc822" => ".eml",
        "application/pdf" => ".pdf",
        "application/json" => ".json",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => ".docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => ".xlsx",
        _ => return None,
    })
}

fn percent_decoded(path: &str) -> String {
    // The decoder of forms also turns "+" into a space, which in a path is a plus.
    let escaped = path.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map_or_else(String::new, |(name, _)| name.into_owned())
}

/// In one line and not too long.
fn shortened(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_is_the_path_of_a_file_or_what_the_server_calls_it() {
        for (uri, called, mime_type, expected) in [
            ("file:///srv/minutes/2026-06-03.md", Some("June"), None, "srv/minutes/2026-06-03.md"),
            ("file:///a%20b%2Bc+d%2525.txt", None, None, "a b+c+d%25.txt"),
            ("https://wiki.example.org/pages/1.html?x=1#y", None, None, "pages/1.html"),
            (
                "https://wiki.example.org/pages/1",
                Some("Minutes of June"),
                Some("text/html; charset=utf-8"),
                "Minutes of June.html",
            ),
            ("note://42", Some("Team meeting"), Some("text/markdown"), "Team meeting.md"),
            ("note://42", None, Some("application/pdf"), "42.pdf"),
            ("note://2026/06/a", Some(" "), None, "2026/06/a"),
            ("urn:x", None, None, "urn:x"),
            ("", Some("search 2"), None, "search 2"),
        ] {
            assert_eq!(name(uri, called, mime_type), expected, "{uri}");
        }
    }

    fn result(value: serde_json::Value) -> Vec<Part> {
        parts("search", serde_json::from_value(value).unwrap())
    }

    #[test]
    fn every_part_of_an_answer_is_a_document_or_leads_to_one() {
        let all = result(json!({ "content": [
            { "type": "text", "text": "one", "annotations": { "lastModified": "2026-06-03T09:00:00Z" } },
            { "type": "image", "data": "", "mimeType": "image/png" },
            { "type": "resource", "resource": { "uri": "file:///a.bin", "blob": "YWJj" } },
            { "type": "resource", "resource": { "uri": "file:///b.bin", "blob": "?" } },
            { "type": "resource_link", "uri": "file:///c.md", "name": "c" },
        ], "structuredContent": { "ignored": true } }));
        let [Part::Document(text), Part::Document(image), Part::Document(blob), Part::Document(broken), Part::Link(link)] =
            &all[..]
        else {
            panic!("{all:?}")
        };
        assert_eq!((text.name.as_str(), text.bytes.as_deref()), ("search 1", Ok("one".as_bytes())));
        assert_eq!(text.modified, Some("2026-06-03T09:00:00Z".parse().unwrap()));
        assert_eq!((image.bytes.clone(), blob.bytes.as_deref()), (Err("it is a picture"), Ok("abc".as_bytes())));
        assert!(broken.bytes.is_err());
        assert_eq!(link.uri, "file:///c.md");
    }

    #[test]
    fn structured_content_counts_where_there_is_nothing_else() {
        let all = result(json!({ "content": [], "structuredContent": { "minutes": "The council met." } }));
        let [Part::Document(only)] = &all[..] else { panic!("{all:?}") };
        assert_eq!(only.name, "search");
        assert!(String::from_utf8_lossy(only.bytes.as_ref().unwrap()).contains("The council met."));
        assert_eq!(result(json!({ "content": [] })), []);
    }
}
