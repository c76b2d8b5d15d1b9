//! `recount backup`, `recount restore` and `recount set-aside`: copies of everything, and what may go on in one that is put back.
//!
//! Nobody knows in a restored copy what the original did after the backup. So nothing of what was open goes on by itself, and
//! there is no moment in which the file is in its place and that is not so: all of it is done to a file beside, which then gets
//! the database's name.

use super::{DataFolder, in_use::InUse, open_store, say::say};
use crate::settings::{FILE, Settings};
use anyhow::{Context, bail};
use domain::clock::{Clock, SystemClock};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use store::{BackupContents, BackupError, Place, Store, StoreError, back_up, check_backup};

/// The files that SQLite puts beside a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Arguments of `recount backup`.
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// The file to make. It must not exist.
    file: PathBuf,
    #[command(flatten)]
    data: DataFolder,
}

/// Arguments of `recount restore`.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// A file that `recount backup` has made.
    file: PathBuf,
    #[command(flatten)]
    data: DataFolder,
}

/// Arguments of `recount set-aside`.
#[derive(Debug, clap::Args)]
pub struct SetAside {
    #[command(flatten)]
    data: DataFolder,
}

impl Backup {
    /// Makes the backup. Recount may be running.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (file, data) = (&self.file, &self.data.path);
        if file.try_exists()? {
            bail!("{} exists already. A backup never overwrites anything: choose another name.", file.display());
        }
        let database = file_of(&self.data, &self.data.settings()?)?;
        if !database.try_exists()? {
            bail!("There is no database in {}. Choose the data folder with --data.", data.display());
        }
        let part = Beside::of(file)?;
        let into = part.path.to_str().context("the name of the file is not UTF-8. Choose another one.")?;
        part.make()?;
        let now = SystemClock.now();
        let contents = match back_up(&database, into, now).await {
            Err(BackupError::Store(error)) => {
                return Err(anyhow::Error::new(error).context(format!("{} cannot be written", file.display())));
            }
            other => other.with_context(|| format!("{} cannot be backed up", database.display()))?,
        };
        part.name(file)?;
        say!("{} is a backup of {}, as of {}.", file.display(), database.display(), now.format("%-d %b %Y, %H:%M:%S UTC"));
        print_contents(contents);
        Ok(ExitCode::SUCCESS)
    }
}

fn print_contents(contents: BackupContents) {
    let BackupContents { jobs, open_jobs, reports, people, files_elsewhere } = contents;
    say!(
        "In it: {jobs} jobs ({open_jobs} not ended) with their effects, messages and uploads, {reports} reports, {people} people."
    );
    say!("Not in it: {FILE}, the outbox, and the folders that reports are made from. Copy them as well.");
    if files_elsewhere > 0 {
        say!("Not in it either: {files_elsewhere} uploaded files that are in the file store. Back that up on its own.");
    }
    say!("Keep it safe: it holds what people have uploaded and been sent, their sign-ins and their password hashes.");
}

impl Restore {
    /// Puts a backup into a data folder that has no database.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let (file, data) = (&self.file, &self.data.path);
        if !file.is_file() {
            bail!("There is no file {}.", file.display());
        }
        if companion(file, "-wal").metadata().is_ok_and(|wal| wal.len() > 0) {
            bail!(
                "{} has changes in a file beside it that are not in it: it was copied while Recount was running, or is in use. \
                 Restore a file that `recount backup` has made.",
                file.display()
            );
        }
        let _alone = InUse::alone(data)?;
        let settings = self.data.settings()?;
        let database = file_of(&self.data, &settings)?;
        refuse_what_is_there(&database)?;

        let part = Beside::of(&database)?;
        part.copy(file)?;
        let refused = || format!("{} cannot be restored", file.display());
        let marked = match check_backup(&part.path).await {
            Err(BackupError::Store(error)) => return Err(anyhow::Error::new(error).context(refused())),
            other => other.with_context(refused)?,
        };
        // Opening it migrates it, and sets aside what is open where it carries the mark of a backup. A plain copy has none.
        let domain = settings.sender()?;
        let store = match Store::open(&Place::Sqlite(part.path.clone()), Arc::new(SystemClock), domain.email.domain()).await {
            Err(StoreError::TooOld { .. }) => {
                bail!("{} is of a newer version of Recount. Restore it with that one.", file.display());
            }
            other => other.with_context(refused)?,
        };
        let waiting = if marked { store.jobs_set_aside().await? } else { store.set_aside_open_jobs().await? };
        store.close().await;
        if companion(&part.path, "-wal").try_exists()? {
            bail!("{} could not be written completely. Nothing was restored.", database.display());
        }
        part.name(&database)?;
        say!("{} is restored from {}.", database.display(), file.display());
        print_waiting(waiting);
        say!("Not in a backup: {FILE}, the outbox, and the folders that reports are made from. Put them back before you start.");
        say!("Sign-ins and tokens are as they were: those that were ended after the backup work again.");
        Ok(ExitCode::SUCCESS)
    }
}

impl SetAside {
    /// Sets aside what is open in a database that was restored by other means.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        self.data.has_database()?;
        let _alone = InUse::alone(&self.data.path)?;
        let store = open_store(&self.data, &self.data.settings()?).await?;
        print_waiting(store.set_aside_open_jobs().await?);
        store.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

fn print_waiting(jobs: i64) {
    let (which, them) = match jobs {
        0 => {
            say!("No job waits: all in this copy have ended. E-mails that were unconfirmed are looked for, and not sent again.");
            return;
        }
        1 => ("1 job had not ended. It waits for a person".to_owned(), "it"),
        n => (format!("{n} jobs had not ended. They wait for a person"), "each of them"),
    };
    say!("{which}: what happened to {them} after the copy was made is not known. Press Go on or Cancel on its page.");
}

/// The file that the database is in.
fn file_of(data: &DataFolder, settings: &Settings) -> anyhow::Result<PathBuf> {
    match data.database(settings)? {
        Place::Sqlite(file) => Ok(file),
        Place::Postgres(_) => bail!(
            "The database is on a PostgreSQL server. Back it up and restore it with PostgreSQL's own programs, and then run \
             `recount set-aside` on what was restored."
        ),
    }
}

/// Fails where the data folder has a database, or what is left of one.
fn refuse_what_is_there(database: &Path) -> anyhow::Result<()> {
    if database.try_exists()? {
        bail!(
            "{} exists. Stop Recount, move it away together with the files whose names begin like it, and try again. \
             Or restore into another folder, with --data.",
            database.display()
        );
    }
    for ending in COMPANIONS {
        let left = companion(database, ending);
        if left.try_exists()? {
            bail!("{} is left of another database, and would damage this one. Move it to where that one is.", left.display());
        }
    }
    Ok(())
}

fn companion(database: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(ending);
    name.into()
}

/// A file that is written beside the one that it will be, so that there is never half of that one. It goes when this does.
struct Beside {
    path: PathBuf,
    folder: PathBuf,
}

impl Beside {
    fn of(file: &Path) -> anyhow::Result<Self> {
        let name = file.file_name().with_context(|| format!("{} is not the name of a file", file.display()))?;
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut part = OsString::from(".");
        part.push(name);
        part.push(format!(".{}.part", std::process::id()));
        Ok(Self { path: folder.join(part), folder })
    }

    /// Makes it, empty and for nobody else to read.
    fn make(&self) -> anyhow::Result<File> {
        // Of a process that had the same number and died.
        self.remove();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path);
        file.with_context(|| format!("no file can be made in {}", self.folder.display()))
    }

    fn copy(&self, file: &Path) -> anyhow::Result<()> {
        let copied = File::open(file).and_then(|mut from| io::copy(&mut from, &mut self.make().map_err(io::Error::other)?));
        copied.with_context(|| format!("{} cannot be copied to {}", file.display(), self.folder.display()))?;
        Ok(())
    }

    /// Gives it its name, for good; nothing is overwritten.
    fn name(self, file: &Path) -> anyhow::Result<()> {
        let named = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            match renameat_with(CWD, &self.path, CWD, file, RenameFlags::NOREPLACE) {
                // NFS has no such rename. A second name replaces nothing either, and the first one goes with this.
                Err(Errno::INVAL) => fs::hard_link(&self.path, file)?,
                renamed => renamed?,
            }
            File::open(&self.folder)?.sync_all()
        };
        named().with_context(|| format!("{} cannot get its name", file.display()))
    }

    /// What is not there need not go, and what cannot go does no harm.
    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
        for ending in COMPANIONS {
            let _ = fs::remove_file(companion(&self.path, ending));
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.remove();
    }
}
