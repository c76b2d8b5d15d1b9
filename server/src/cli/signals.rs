//! The signals that end the program, caught before anything is begun so that none of them cuts off a job.

use std::{fs, io};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// SIGTERM, or SIGHUP because the terminal is gone.
    Terminate,
}

/// The signals, caught.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` where whoever started the program wants it ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    /// Catches them from now on.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if is_hang_up_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) -> Asked {
        let Self { terminate, interrupt, hang_up } = self;
        let hung_up = async {
            match hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => Asked::Interrupt,
            _ = terminate.recv() => Asked::Terminate,
            _ = hung_up => Asked::Terminate,
        }
    }
}

/// Whether the program was started to outlive its terminal (`nohup`), which catching the signal would undo.
fn is_hang_up_ignored() -> bool {
    // SIGHUP is number 1, and so the lowest bit (proc(5)). Where there is no such file, nobody can be asked.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
