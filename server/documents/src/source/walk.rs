//! Walking through a folder: bounded, sorted, and honest about what it did not look at.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, FileType, Metadata};
use chrono::{DateTime, Utc};

use super::{Entry, SourceError, leads_outside, shown};

/// How deep folders are followed.
const MAX_DEPTH: usize = 32;
/// How many documents one source may have.
const MAX_ENTRIES: usize = 20_000;

/// The documents of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The documents, sorted by name; those that cannot be read carry the reason.
    pub entries: Vec<Entry>,
    /// Why the listing is not complete, as a sentence, if it is not.
    pub incomplete: Option<String>,
    /// Whether it was stopped on request.
    pub stopped: bool,
}

pub(super) fn single(dir: &Dir, path: &Path) -> Listing {
    let entry = match dir.metadata(path) {
        Ok(metadata) => document(path.to_owned(), &metadata),
        Err(error) => trouble(path.to_owned(), why(error)),
    };
    // The folders above a single file say nothing to the person who chose the file, and nothing about its date.
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Listing { entries: vec![Entry { name: name.unwrap_or_default(), ..entry }], ..Listing::default() }
}

pub(super) fn folder(dir: &Dir, stop: &dyn Fn() -> bool) -> Listing {
    let mut listing = Listing::default();
    let mut open = vec![PathBuf::new()];
    // Folders are taken one after the other, so that only one is open at a time however deep they are.
    while let Some(path) = open.pop() {
        let here = if path.as_os_str().is_empty() { dir.try_clone() } else { dir.open_dir(&path) };
        let children = here.and_then(|here| here.entries());
        let children = match children {
            Ok(children) => children,
            Err(error) => {
                listing.entries.push(trouble(path, format!("the folder could not be opened: {}", why(error))));
                continue;
            }
        };
        for child in children {
            if stop() {
                listing.stopped = true;
                listing.incomplete = Some("The listing was stopped.".to_owned());
                break;
            }
            let Ok(child) = child else { continue };
            let name = child.file_name();
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            if listing.entries.len() + open.len() >= MAX_ENTRIES {
                listing.incomplete = Some(format!("Only the first {MAX_ENTRIES} documents were looked at."));
                break;
            }
            let child_path = path.join(&name);
            match child.file_type() {
                Ok(kind) if kind.is_dir() && child_path.components().count() > MAX_DEPTH => {
                    listing.incomplete = Some(format!("Folders more than {MAX_DEPTH} deep were not looked at."));
                }
                Ok(kind) if kind.is_dir() => open.push(child_path),
                kind => listing.entries.push(entry(dir, child_path, kind)),
            }
        }
        if listing.stopped || listing.entries.len() >= MAX_ENTRIES {
            break;
        }
    }
    listing.entries.sort_by(|a, b| a.name.cmp(&b.name));
    listing
}

fn entry(dir: &Dir, path: PathBuf, kind: io::Result<FileType>) -> Entry {
    let is_link = kind.is_ok_and(|kind| kind.is_symlink());
    match dir.metadata(&path) {
        Ok(metadata) if metadata.is_file() => document(path, &metadata),
        // Following links to folders could go in circles.
        Ok(metadata) if metadata.is_dir() => trouble(path, "it is a link to a folder, which is not followed".to_owned()),
        Ok(_) => trouble(path, "it is not a regular file".to_owned()),
        Err(error) if is_link && leads_outside(&error) => trouble(path, "it leads outside the folder".to_owned()),
        Err(error) if is_link && error.kind() == io::ErrorKind::NotFound => {
            trouble(path, "it is a link that leads nowhere".to_owned())
        }
        Err(error) => trouble(path, why(error)),
    }
}

fn document(path: PathBuf, metadata: &Metadata) -> Entry {
    let modified = metadata.modified().ok().map(|time| DateTime::<Utc>::from(time.into_std()));
    Entry { name: shown(&path), size: metadata.len(), modified, trouble: None, path }
}

fn trouble(path: PathBuf, why: String) -> Entry {
    Entry { name: shown(&path), size: 0, modified: None, trouble: Some(why), path }
}

fn why(error: io::Error) -> String {
    SourceError::new("", error).why()
}
