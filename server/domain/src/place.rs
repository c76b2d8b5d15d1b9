//! A place in the file system that an administrator allows documents to be read from.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A folder that the administrator allows, or a single file in the place of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// What people call it.
    pub name: String,
    /// Where it is on the server.
    pub root: PathBuf,
}

/// A path that lies in an allowed folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    folder: Folder,
    inside: PathBuf,
}

impl Place {
    /// The whole of an allowed folder.
    pub fn whole(folder: Folder) -> Self {
        Self { folder, inside: PathBuf::new() }
    }

    /// What lies at `inside`, relative to the folder.
    pub fn new(folder: Folder, inside: PathBuf) -> Self {
        Self { folder, inside }
    }

    /// The allowed folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The rest of the path inside it; empty for the folder itself.
    pub fn inside(&self) -> &Path {
        &self.inside
    }
}
