//! A server's program, in a process group of its own, so that whatever it has started ends with it.
//!
//! Its end is asked for in the protocol's order: its input is closed, then SIGTERM, then SIGKILL, with a short wait between them.
//! Where this process cannot wait (its task is dropped), the group is killed at once.

use super::{fault::Fault, settings::Program};
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::{ExposeSecret, SecretString};
use std::{process::Stdio, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// How long each gentle means may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a program gets of Recount's environment. All else may be a secret, such as the password of the database.
const INHERITED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"];
/// How much of what a program complains about is logged; the rest is read and thrown away, so that no pipe fills up.
const MAX_LINES: usize = 200;
const MAX_LINE: usize = 500;

/// A program that runs.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// `None` once all of it is gone.
    group: Option<Pid>,
    _complaints: Option<AbortOnDropHandle<()>>,
}

impl Process {
    /// Starts a program for the source with this name.
    pub fn start(program: &Program, source: &str) -> Result<(Self, ChildStdout, ChildStdin), Fault> {
        let not_started = |why: String| Fault::NotStarted { program: program.path.display().to_string(), why };
        let mut command = Command::new(&program.path);
        command
            .args(program.arguments.iter().map(SecretString::expose_secret))
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(program.environment.iter().map(|(name, value)| (name, value.expose_secret())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = &program.folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| not_started(error.to_string()))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let complaints = child.stderr.take().map(|stderr| AbortOnDropHandle::new(tokio::spawn(drain(stderr, source.to_owned()))));
        let pipes = (child.stdout.take(), child.stdin.take());
        let process = Self { child, group, _complaints: complaints };
        match pipes {
            (Some(output), Some(input)) => Ok((process, output, input)),
            _ => Err(not_started("it has no pipes".into())),
        }
    }

    /// Waits until it is gone, with all that it has started. Its input is closed already if it is to end `gently`.
    pub async fn end(mut self, gently: bool) {
        if gently && timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = timeout(PATIENCE, self.child.wait()).await;
        }
        self.signal(Signal::KILL);
        self.group = None;
        if let Err(error) = self.child.wait().await {
            tracing::warn!(%error, "the end of an MCP server's program could not be seen");
        }
    }

    /// Signals the whole group. That it is gone already is no trouble.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Reads what a program complains about until it ends.
async fn drain(mut stderr: impl AsyncRead + Unpin, source: String) {
    let (mut buffer, mut line, mut lines) = (vec![0; 4096], Vec::new(), 0);
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        for &byte in buffer.iter().take(read) {
            match byte {
                _ if lines >= MAX_LINES => break,
                b'\n' => {
                    tracing::debug!(source, "{}", String::from_utf8_lossy(&line));
                    line.clear();
                    lines += 1;
                }
                _ if line.len() < MAX_LINE => line.push(byte),
                _ => {}
            }
        }
    }
}
