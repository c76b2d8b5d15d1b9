//! Who is at work in a data folder. The operating system keeps this and forgets it with the process, however that ends, so no
//! file is left that says something untrue.

use super::make_folder;
use anyhow::{Context, bail};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{fs::File, path::Path};

/// A data folder that is in use, for as long as this lives.
#[derive(Debug)]
pub struct InUse(#[expect(dead_code, reason = "the lock lasts as long as the open folder")] File);

impl InUse {
    /// Works in the folder, which is made if it is missing, beside others that do.
    pub fn together(data: &Path) -> anyhow::Result<Self> {
        let Some(folder) = lock(data, FlockOperation::NonBlockingLockShared)? else {
            bail!("{} is being restored. Wait until that has ended.", data.display());
        };
        Ok(folder)
    }

    /// Works in the folder, which is made if it is missing, while nobody else does.
    pub fn alone(data: &Path) -> anyhow::Result<Self> {
        let Some(folder) = lock(data, FlockOperation::NonBlockingLockExclusive)? else {
            bail!("Recount is running in {}. Stop it first.", data.display());
        };
        Ok(folder)
    }
}

fn lock(data: &Path, operation: FlockOperation) -> anyhow::Result<Option<InUse>> {
    make_folder(data)?;
    let folder = File::open(data).with_context(|| format!("the data folder {} cannot be opened", data.display()))?;
    match flock(&folder, operation) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        // Some file systems have no locks (NFS, say). Then nobody is told, which is no reason not to work.
        Ok(()) | Err(_) => Ok(Some(InUse(folder))),
    }
}
