//! Places at which a test can hold the program: before and after every commit of a job, and around every outside act.
//!
//! Built with the feature `fail-points` and started with `RECOUNT_FAIL_POINTS` set to the path of a Unix socket, the program
//! connects there at each place, writes the place's name as one line, and goes on when it has read one line. So a test decides
//! what happens at exactly that moment: nothing, a Cancel, or a SIGKILL. Without the feature, as in releases, a place costs
//! nothing and its name is never even written out.

use contract::{Change, Job, StepState, changes};
use std::fmt;

/// The commit that turns the first record into the second, as a name: `commit of email 2 in_doubt`.
#[derive(Debug, Clone, Copy)]
pub struct Commit<'a>(pub &'a Job, pub &'a Job);

impl fmt::Display for Commit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(before, after) = self;
        let mut parts: Vec<String> = changes(before, after)
            .into_iter()
            .filter_map(|change| match change {
                Change::Phase(phase) => Some(format!("job {}", phase.name())),
                Change::CancelRequested => Some("cancel requested".into()),
                // It follows from the end of the job.
                Change::Step(_, StepState::Skipped) => None,
                Change::Step(kind, state) => Some(format!("{} {}", kind.name(), state.name())),
                Change::Effect { number, kind, outcome } => Some(format!("{} {number} {}", kind.name(), outcome.name())),
            })
            .collect();
        if parts.is_empty() {
            let moved = before.steps.iter().zip(&after.steps).find(|(earlier, step)| earlier != step);
            parts.push(
                moved.map_or_else(
                    || "a note".into(),
                    |(_, step)| format!("{} at {} of {}", step.kind.name(), step.done, step.total),
                ),
            );
        }
        write!(f, "commit of {}", parts.join(", "))
    }
}

#[cfg(not(feature = "fail-points"))]
mod inert {
    use std::{
        fmt::Display,
        future::{Ready, ready},
    };

    /// Does nothing in this build.
    pub fn reach(_when: &str, _what: impl Display) -> Ready<()> {
        ready(())
    }

    /// Does nothing in this build.
    pub fn reach_blocking(_when: &str, _what: impl Display) {}
}

#[cfg(feature = "fail-points")]
mod live {
    use std::{
        fmt::Display,
        future::Future,
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixStream,
        path::{Path, PathBuf},
        sync::OnceLock,
    };
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

    /// Where the test listens, if one does.
    fn socket() -> Option<&'static Path> {
        static SOCKET: OnceLock<Option<PathBuf>> = OnceLock::new();
        SOCKET.get_or_init(|| std::env::var_os("RECOUNT_FAIL_POINTS").map(PathBuf::from)).as_deref()
    }

    /// Stands at this place until the test lets it go on. A test that has gone away holds nobody.
    pub fn reach<D: Display>(when: &str, what: D) -> impl Future<Output = ()> + Send + use<D> {
        let held = socket().map(|socket| (socket, format!("{when} {what}\n")));
        async move {
            let Some((socket, line)) = held else { return };
            let Ok(mut stream) = tokio::net::UnixStream::connect(socket).await else { return };
            if stream.write_all(line.as_bytes()).await.is_ok() {
                let _ = tokio::io::BufReader::new(stream).read_line(&mut String::new()).await;
            }
        }
    }

    /// Like [`reach`], for code that is not async. On a thread of the runtime, its other tasks move to another thread.
    pub fn reach_blocking(when: &str, what: impl Display) {
        let Some(socket) = socket() else { return };
        let line = format!("{when} {what}\n");
        tokio::task::block_in_place(|| {
            let Ok(mut stream) = UnixStream::connect(socket) else { return };
            if stream.write_all(line.as_bytes()).is_ok() {
                let _ = BufReader::new(stream).read_line(&mut String::new());
            }
        });
    }
}

#[cfg(not(feature = "fail-points"))]
pub use inert::{reach, reach_blocking};
#[cfg(feature = "fail-points")]
pub use live::{reach, reach_blocking};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_named_after_what_it_changes() {
        let before = Job::create(1, false);
        let mut after = before.clone();
        assert_eq!(Commit(&before, &after).to_string(), "commit of a note");
        let epoch = after.claim().unwrap();
        assert_eq!(Commit(&before, &after).to_string(), "commit of collect running, job running");
        let claimed = after.clone();
        after.progress(epoch, 1, 2).unwrap();
        assert_eq!(Commit(&claimed, &after).to_string(), "commit of collect at 1 of 2");
    }
}
