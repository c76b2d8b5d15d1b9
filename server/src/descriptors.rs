//! File descriptors: how many this process may have, and how many of them are kept back.
//!
//! Whoever holds connections to the web server holds descriptors. Database, mail, models, documents and signals need some too,
//! so the web server never gets all of them; and an attempt that could not even begin for want of one is no attempt.

use rustix::{
    fd::OwnedFd,
    io::{Errno, dup},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use std::io;

/// What is kept back for everything but the web server's connections.
const KEPT_BACK: usize = 256;
/// What one attempt outside may need at once: name look-up, connection, database.
const NEEDED: usize = 8;

/// Raises the limit of this process as far as it may by itself, and returns it.
pub fn raise_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: maximum, maximum };
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "the limit of open files cannot be raised; it stays at {current:?}");
    }
    getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// How many of `limit` descriptors the web server's connections may have.
pub fn for_connections(limit: usize) -> usize {
    limit.saturating_sub(KEPT_BACK).max(limit / 2)
}

/// Whether there are too few for an attempt outside just now.
pub fn are_short() -> bool {
    let spare: Result<Vec<OwnedFd>, Errno> = (0..NEEDED).map(|_| dup(io::stderr())).collect();
    matches!(spare, Err(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_back_whatever_the_limit() {
        assert_eq!(for_connections(1024), 768);
        assert_eq!(for_connections(1_048_576), 1_048_320);
        assert_eq!(for_connections(256), 128);
    }
}
