//! Where documents come from: folders that the administrator allows, read without ever leaving them.
//!
//! A folder is opened once as a capability (cap-std's `Dir`); every later path is resolved inside it by the operating
//! system or component by component, so neither `..` nor a symbolic link, however it changes meanwhile, leads outside.

pub mod count;
pub mod dating;
pub mod setting;
mod walk;

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use chrono::{DateTime, Utc};

pub use self::walk::Listing;
use crate::read::{Head, Readability, date_in_head};
use domain::{
    coverage::{Coverage, DocumentOutcome},
    place::{Folder, Place},
};

/// Front matter and the header of a mail end within this many bytes.
const HEAD_BYTES: u64 = 64 << 10;

/// Why a source cannot be used. Its `Display` is a sentence for the person who chose it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is nothing at the path.
    #[error("{0} does not exist. Check the path.")]
    Missing(String),
    /// The server's account has no right to read it.
    #[error("Recount may not read {0}. Give the account that runs Recount the right to read it.")]
    Forbidden(String),
    /// It is neither a folder nor a regular file.
    #[error("{0} is neither a folder nor a file. Choose a folder or a document.")]
    NeitherFolderNorFile(String),
    /// It lies in no allowed folder.
    #[error("{path} is outside the folders that the administrator allows: {allowed}.")]
    Outside {
        /// The path as it was given.
        path: String,
        /// The names of the allowed folders, or that there are none.
        allowed: String,
    },
    /// It leads outside its folder through a symbolic link or `..`.
    #[error("{0} leads outside the folder. Put the document itself there.")]
    LeadsOutside(String),
    /// The file is over the size limit.
    #[error("{name} is too large: {why}.")]
    TooLarge {
        /// The document.
        name: String,
        /// Its size and the limit.
        why: String,
    },
    /// Anything else that the operating system reports.
    #[error("{name} could not be read: {error}.")]
    Io {
        /// The folder or document.
        name: String,
        /// What the operating system says.
        error: io::Error,
    },
}

impl SourceError {
    fn new(name: impl Into<String>, error: io::Error) -> Self {
        let name = name.into();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(name),
            io::ErrorKind::PermissionDenied if leads_outside(&error) => Self::LeadsOutside(name),
            io::ErrorKind::PermissionDenied => Self::Forbidden(name),
            _ => Self::Io { name, error },
        }
    }

    /// The reason as a phrase for the coverage list.
    pub fn why(&self) -> String {
        match self {
            Self::Missing(_) => "it is no longer there".to_owned(),
            Self::Forbidden(_) => "Recount has no right to read it".to_owned(),
            Self::NeitherFolderNorFile(_) => "it is not a regular file".to_owned(),
            Self::Outside { .. } | Self::LeadsOutside(_) => "it leads outside the folder".to_owned(),
            Self::TooLarge { why, .. } => why.clone(),
            Self::Io { error, .. } => error.to_string(),
        }
    }
}

/// cap-std reports an escape as "permission denied" without an error number, which the system's own refusals have.
fn leads_outside(error: &io::Error) -> bool {
    error.raw_os_error().is_none()
}

/// One document of a source, not yet opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path inside the source, with `/` between its parts. For people; parts that are no UTF-8 are shown as best they can be.
    pub name: String,
    /// Its size in bytes when it was listed.
    pub size: u64,
    /// When it was last changed.
    pub modified: Option<DateTime<Utc>>,
    /// Why it cannot be read, if that shows without opening it.
    pub trouble: Option<String>,
    path: PathBuf,
}

/// An opened source: a folder with all below it, or a single file.
#[derive(Debug)]
pub struct Source {
    name: String,
    dir: Dir,
    only: Option<PathBuf>,
}

impl Source {
    /// Opens an allowed folder or file.
    pub fn open(folder: &Folder) -> Result<Self, SourceError> {
        let shown = folder.root.display().to_string();
        let fail = |error| SourceError::new(&shown, error);
        // The administrator's own path may lead anywhere, also through links; from here on nothing does.
        let root = folder.root.canonicalize().map_err(fail)?;
        let metadata = root.metadata().map_err(fail)?;
        if metadata.is_dir() {
            let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(fail)?;
            // Opening alone may succeed without the right to list.
            dir.entries().map_err(fail)?;
            return Ok(Self { name: folder.name.clone(), dir, only: None });
        }
        match (metadata.is_file(), root.parent(), root.file_name()) {
            (true, Some(parent), Some(file)) => {
                let dir = Dir::open_ambient_dir(parent, ambient_authority()).map_err(fail)?;
                dir.open(file).map_err(fail)?;
                Ok(Self { name: folder.name.clone(), dir, only: Some(PathBuf::from(file)) })
            }
            _ => Err(SourceError::NeitherFolderNorFile(shown)),
        }
    }

    /// Opens what [`allowed`] has found, through the allowed folder, so that it cannot have been exchanged since.
    pub fn open_place(place: &Place) -> Result<Self, SourceError> {
        let whole = Self::open(place.folder())?;
        if place.inside().as_os_str().is_empty() {
            return Ok(whole);
        }
        let shown = shown(place.inside());
        let fail = |error| SourceError::new(&shown, error);
        let metadata = whole.dir.metadata(place.inside()).map_err(fail)?;
        if metadata.is_dir() {
            let dir = whole.dir.open_dir(place.inside()).map_err(fail)?;
            Ok(Self { name: whole.name, dir, only: None })
        } else if metadata.is_file() {
            Ok(Self { only: Some(place.inside().to_owned()), ..whole })
        } else {
            Err(SourceError::NeitherFolderNorFile(shown))
        }
    }

    /// The same source under another name.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// What people call the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All documents of the source, sorted by name. `stop` is asked before every entry; once it answers `true`, the
    /// listing ends early and says so.
    pub fn list(&self, stop: &dyn Fn() -> bool) -> Listing {
        match &self.only {
            Some(path) => walk::single(&self.dir, path),
            None => walk::folder(&self.dir, stop),
        }
    }

    /// The whole of a document of at most `max_bytes` bytes.
    pub fn read(&self, entry: &Entry, max_bytes: u64) -> Result<Vec<u8>, SourceError> {
        let too_large = |size| SourceError::TooLarge { name: entry.name.clone(), why: crate::read::too_large(size, max_bytes) };
        if entry.size > max_bytes {
            return Err(too_large(entry.size));
        }
        let bytes = self.read_head(entry, max_bytes.saturating_add(1))?;
        match u64::try_from(bytes.len()) {
            // It has grown since it was listed.
            Ok(size) if size > max_bytes => Err(too_large(size)),
            _ => Ok(bytes),
        }
    }

    /// The date that a text or mail gives itself, by its first bytes alone.
    pub fn date_by_head(&self, entry: &Entry) -> Result<Head, SourceError> {
        Ok(date_in_head(&entry.name, &self.read_head(entry, HEAD_BYTES)?))
    }

    /// The first `length` bytes of a document, or all if it has fewer.
    pub fn read_head(&self, entry: &Entry, length: u64) -> Result<Vec<u8>, SourceError> {
        let fail = |error| SourceError::new(&entry.name, error);
        // Opening a pipe would wait for a writer, so the kind of file is asked first.
        if !self.dir.metadata(&entry.path).map_err(fail)?.is_file() {
            return Err(SourceError::NeitherFolderNorFile(entry.name.clone()));
        }
        let file = self.dir.open(&entry.path).map_err(fail)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }
}

/// Finds the allowed folder in which `path` really lies, after all links and `..` are resolved.
///
/// Of a path outside the allowed folders the error never says whether it exists.
pub fn allowed(path: &Path, folders: &[Folder]) -> Result<Place, SourceError> {
    let real = path.canonicalize();
    for folder in folders {
        let Ok(root) = folder.root.canonicalize() else {
            continue;
        };
        if let Ok(inside) = real.as_deref().unwrap_or(path).strip_prefix(&root)
            && inside.components().all(|part| matches!(part, Component::Normal(_)))
        {
            return match real {
                Ok(_) => Ok(Place::new(folder.clone(), inside.to_owned())),
                Err(error) => Err(SourceError::new(path.display().to_string(), error)),
            };
        }
    }
    let names: Vec<&str> = folders.iter().map(|folder| folder.name.as_str()).collect();
    let allowed = if names.is_empty() { "none so far".to_owned() } else { names.join(", ") };
    Err(SourceError::Outside { path: path.display().to_string(), allowed })
}

/// A path inside a source as people see it.
fn shown(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

impl From<&Readability> for Coverage {
    fn from(readability: &Readability) -> Self {
        let outcome = match readability {
            Readability::Read => DocumentOutcome::Read,
            Readability::ReadInPart { .. } => DocumentOutcome::ReadInPart,
            Readability::NoText { .. } => DocumentOutcome::NoText,
            Readability::Locked { .. } => DocumentOutcome::Locked,
            Readability::Unreadable { .. } => DocumentOutcome::Unreadable,
            Readability::TooLarge { .. } => DocumentOutcome::TooLarge,
        };
        Self { outcome, reason: readability.why().map(str::to_owned) }
    }
}

impl From<&SourceError> for Coverage {
    fn from(error: &SourceError) -> Self {
        let outcome =
            if matches!(error, SourceError::TooLarge { .. }) { DocumentOutcome::TooLarge } else { DocumentOutcome::Unreadable };
        Self::because(outcome, error.why())
    }
}

#[cfg(test)]
mod tests;
