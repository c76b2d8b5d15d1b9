//! The command line. Whoever can write to the data folder is its administrator, so these commands ask for no password.

mod background;
mod backup;
mod cancel;
mod demo;
mod follow;
mod in_use;
mod mcp;
mod people;
mod report;
mod say;
mod serve;
mod signals;
mod worker;

use crate::{
    service::{AllowedSource, Service, with_ids},
    settings::{FILE, Settings},
    worker::{Dependencies, FILE_PAUSES, MAIL_PAUSES},
};
use anyhow::{Context, anyhow, bail};
use clap::{Parser, Subcommand};
use domain::clock::{SharedClock, SystemClock};
use say::note;
use std::{
    fs::{self, DirBuilder, DirEntry},
    io::{self, IsTerminal},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};
use store::{Place, Store};
use tracing_subscriber::EnvFilter;

/// Recount: monthly reports that account for themselves.
#[derive(Debug, Parser)]
#[command(name = "recount", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the pages and the API, and work on jobs.
    Serve(serve::Serve),
    /// Work on jobs, without pages: for further machines on the same database.
    Worker(worker::Worker),
    /// Make one report and wait for it. Ctrl-C cancels.
    ///
    /// Exit: 0 everything as asked, each message accepted (or written to the outbox); 1 failed, or a message was not accepted;
    /// 2 something unconfirmed; 3 cancelled; 4 not ended: handed back by SIGTERM or SIGHUP, left by a second Ctrl-C, or it waits
    /// for a person.
    Report(report::Report),
    /// Cancel a job.
    Cancel(cancel::Cancel),
    /// Serve one person's assistant over standard input and output (Model Context Protocol), and work on jobs meanwhile.
    Mcp(mcp::Mcp),
    /// Copy the database into one file, while Recount runs.
    Backup(backup::Backup),
    /// Put a backup into a data folder. What had not ended in it waits for a person.
    Restore(backup::Restore),
    /// After a restore by other means (PostgreSQL): let every job that has not ended wait for a person.
    SetAside(backup::SetAside),
    /// People who may sign in.
    #[command(subcommand)]
    User(people::UserCommand),
    /// Tokens for the API.
    #[command(subcommand)]
    Token(people::TokenCommand),
}

/// Where everything is kept.
#[derive(Debug, Clone, clap::Args)]
pub struct DataFolder {
    /// The data folder: database, outbox and recount.toml.
    #[arg(long = "data", value_name = "DIR", default_value = "data", env = "RECOUNT_DATA")]
    pub path: PathBuf,
    /// The database, as <postgres://user:password@host/name> or as the path of an SQLite file [default: a file in the data folder].
    #[arg(long, value_name = "URL", env = "RECOUNT_DATABASE", hide_env_values = true)]
    database: Option<String>,
}

impl DataFolder {
    /// The settings in the folder.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        Settings::load(&self.path)
    }

    /// Where the database is: as the command says, or else the settings.
    pub fn database(&self, settings: &Settings) -> anyhow::Result<Place> {
        match self.database.as_ref().or(settings.database.as_ref()) {
            Some(text) => Ok(text.parse()?),
            None => Ok(Place::Sqlite(self.path.join(DATABASE))),
        }
    }

    /// Fails where there is no database: whoever mistypes `--data` must not be answered from a new one.
    pub fn has_database(&self) -> anyhow::Result<()> {
        let place = self.database(&self.settings()?)?;
        match missing(&place)? {
            None => Ok(()),
            Some(file) if file.parent() == Some(&self.path) => {
                bail!("There is no database in {}. Choose the data folder with --data.", self.path.display())
            }
            Some(file) => bail!("The database {} cannot be opened: there is no such file.", file.display()),
        }
    }

    /// Fails where there is no database, although the folder has something in it: it may be a wrong one.
    pub fn has_database_or_nothing(&self) -> anyhow::Result<()> {
        let is_other = |entry: io::Result<DirEntry>| entry.is_ok_and(|entry| entry.file_name() != FILE);
        // Where it cannot be read, the opening tells why.
        let has_others = fs::read_dir(&self.path).is_ok_and(|mut entries| entries.any(is_other));
        if has_others { self.has_database() } else { Ok(()) }
    }
}

impl Cli {
    /// Runs the command.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve(serve) => {
                log(LOG);
                serve.run().await
            }
            Command::Worker(worker) => {
                log(LOG);
                worker.run().await
            }
            Command::Report(report) => {
                log("error");
                report.run().await
            }
            Command::Cancel(cancel) => {
                log("error");
                cancel.run().await
            }
            Command::Mcp(mcp) => {
                log(LOG);
                mcp.run().await
            }
            Command::Backup(backup) => {
                log("error");
                backup.run().await
            }
            Command::Restore(restore) => {
                log("error");
                restore.run().await
            }
            Command::SetAside(set_aside) => {
                log("error");
                set_aside.run().await
            }
            Command::User(command) => {
                log("error");
                command.run().await
            }
            Command::Token(command) => {
                log("error");
                command.run().await
            }
        }
    }
}

/// What servers log. The pool would complain about each of its connections when the database goes; rmcp tells of each one that
/// begins or ends, and names addresses, which may hold secrets.
const LOG: &str = "info,sqlx_core::pool=error,sqlx::postgres::notice=warn,rmcp=off";

/// Logs to standard error; `RECOUNT_LOG` chooses what, in the syntax of `tracing-subscriber`.
fn log(default: &str) {
    let filter = EnvFilter::try_from_env("RECOUNT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let stderr = io::stderr;
    // Internal errors are those of writing to standard error, told there by a macro that panics.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(stderr().is_terminal()).log_internal_errors(false);
    // A second subscriber is refused in tests that run several commands; the first one then stays.
    let _ = log.with_writer(stderr).try_init();
}

/// The database's file in the data folder, unless it is somewhere else.
const DATABASE: &str = "recount.sqlite3";

/// The file of a database that is missing.
fn missing(place: &Place) -> io::Result<Option<&Path>> {
    match place {
        Place::Sqlite(file) => Ok((!file.try_exists()?).then_some(file)),
        Place::Postgres(_) => Ok(None),
    }
}

/// Makes the data folder where it is missing.
fn make_folder(data: &Path) -> anyhow::Result<()> {
    // Documents and messages are in it: nobody else on the machine needs to read them.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.with_context(|| format!("the data folder {} cannot be made", data.display()))
}

/// Makes the data folder and the database where they are missing, says so, and opens it; uploads in a file store are out of reach with it. So a Cancel, say, depends on
/// no other service.
pub async fn open_store(data: &DataFolder, settings: &Settings) -> anyhow::Result<Store> {
    make_folder(&data.path)?;
    let place = data.database(settings)?;
    let is_new = missing(&place).is_ok_and(|file| file.is_some());
    let clock: SharedClock = Arc::new(SystemClock);
    let sender = settings.sender()?;
    // Its text tells all that its sources would tell again.
    let store = Store::open(&place, clock, sender.email.domain())
        .await
        .map_err(|error| anyhow!("the database {place} cannot be opened: {error}"))?;
    if is_new {
        note!("recount: there was no database in {}; {place} is a new one", data.path.display());
    }
    Ok(store.keeping_free(u64::from(settings.keep_free_mb) * 1_000_000))
}

/// Opens everything that a service needs.
pub async fn open_service(data: &DataFolder, settings: Settings, public_url: &str) -> anyhow::Result<Service> {
    let mut store = open_store(data, &settings).await?;
    if let Some(files) = settings.file_store()? {
        store = store.with_files(files);
    }
    let dependencies = Dependencies {
        store,
        summarizer: settings.summarizer()?,
        channel: settings.channel(&data.path)?,
        sender: settings.sender()?,
        public_url: public_url.trim_end_matches('/').to_owned(),
        limits: settings.limits(),
        probes: settings.probes()?.into(),
        mail_pauses: MAIL_PAUSES,
        file_pauses: FILE_PAUSES,
        servers: with_ids(settings.sources.clone()).iter().filter_map(AllowedSource::server).collect(),
    };
    Ok(Service::new(Arc::new(dependencies), Arc::new(settings)))
}
