//! The mail server's own log, where it runs on this machine: what is read there is what the lost answer would have said.
//!
//! exim writes `<=` when it has taken a message. Postfix writes a message's id while it still arrives, before it is taken, so
//! there only the queue manager's line for the same queue id counts. A log grows while it is read and is rotated at any
//! moment: the rotated file is read first, both up to a bound, and a last line without its end is left for the next look.

mod exim;
mod postfix;

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use tokio::task::spawn_blocking;

use self::{exim::Exim, postfix::Postfix};
use super::{Finding, LogFormat, LogSettings, Probe, SettingsError, Wanted, run};

/// How much of each file is read, from its end, in bytes.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A longer line is no line of a mail server (exim's end at 8 kB).
const MAX_LINE: u64 = 64 * 1024;

/// The longest look: a file on a file system that hangs must not hold up the others.
const MAX_TIME: Duration = Duration::from_mins(3);

/// Probes for the line that says that a message was taken.
pub struct LogFile {
    name: String,
    path: PathBuf,
    format: LogFormat,
}

/// Reads a log line by line.
trait Scan {
    /// The proof, once this line completes it.
    fn line(&mut self, line: &[u8]) -> Option<String>;
}

impl LogFile {
    /// Checks the settings; reads nothing.
    ///
    /// # Errors
    /// [`SettingsError::RelativePath`].
    pub fn new(settings: &LogSettings) -> Result<Self, SettingsError> {
        if settings.path.is_relative() {
            return Err(SettingsError::RelativePath(settings.path.clone()));
        }
        let server = match settings.format {
            LogFormat::Exim => "exim",
            LogFormat::Postfix => "Postfix",
        };
        Ok(Self {
            name: format!("{server} log {}", settings.path.display()),
            path: settings.path.clone(),
            format: settings.format,
        })
    }
}

#[async_trait]
impl Probe for LogFile {
    fn name(&self) -> &str {
        &self.name
    }

    async fn look(&self, wanted: &Wanted) -> Finding {
        let id = match wanted.searchable_id() {
            Ok(id) => id.to_owned(),
            Err(reason) => return Finding::Failed { reason },
        };
        let (name, path, format) = (self.name.clone(), self.path.clone(), self.format);
        let search = move || {
            let mut scan: Box<dyn Scan> = match format {
                LogFormat::Exim => Box::new(Exim::new(&id)),
                LogFormat::Postfix => Box::new(Postfix::new(&id)),
            };
            search(&name, &path, &id, scan.as_mut())
        };
        run(MAX_TIME, async { spawn_blocking(search).await.map_err(|_| "the log could not be read".to_owned())? }).await
    }
}

fn search(name: &str, path: &Path, id: &str, scan: &mut dyn Scan) -> Result<Finding, String> {
    let mut rotated = path.as_os_str().to_owned();
    rotated.push(".1");
    let mut bytes = 0;
    let mut failed = None;
    for path in [Path::new(&rotated), path] {
        match read(path, MAX_BYTES, scan) {
            Ok(Outcome::Proof(line)) => return Ok(Finding::Accepted { evidence: format!("{name}: {line}") }),
            Ok(Outcome::Nothing(read)) => bytes += read,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path == Path::new(&rotated) => {}
            Err(error) => failed = Some(format!("{} cannot be read: {error}", path.display())),
        }
    }
    match failed {
        Some(reason) => Err(reason),
        None => Ok(Finding::Nothing { asked: format!("{name}: no line of the last {bytes} bytes says that {id} was accepted") }),
    }
}

/// What one file came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Proof(String),
    /// So many bytes were read.
    Nothing(u64),
}

/// Reads the last `limit` bytes that the file has now.
fn read(path: &Path, limit: u64, scan: &mut dyn Scan) -> io::Result<Outcome> {
    // Asked before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    // One byte more: if it is a line's end, the first line is whole.
    let start = length.saturating_sub(limit.saturating_add(1));
    file.seek(SeekFrom::Start(start))?;
    let mut lines = BufReader::new(file.take(length - start));
    let mut whole = start == 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let count = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(Outcome::Nothing(length - start));
        }
        let ended = line.pop_if(|last| *last == b'\n').is_some();
        // An unfinished id could be the beginning of a longer one.
        if whole
            && ended
            && let Some(proof) = scan.line(&line)
        {
            return Ok(Outcome::Proof(proof));
        }
        whole = ended;
    }
}

#[cfg(test)]
mod tests;
