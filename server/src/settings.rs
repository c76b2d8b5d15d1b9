//! Settings: `recount.toml` in the data folder, overridden by environment variables (`RECOUNT__MAIL__CHANNEL=smtp`), so that
//! a key or a password need not stand in a file. An unknown name is an error: a misspelt setting must not be ignored.

use anyhow::{Context, bail};
use config::{Config, Environment, File, FileFormat};
use documents::{read::Limits, source::setting::SourceSetting};
use domain::clock::{SharedClock, SystemClock};
use lettre::message::Mailbox;
use mail::{
    channel::Channel,
    outbox::Outbox,
    probe::{Archive, Bounces, LogFile, LogSettings, MailboxSettings, Probe},
    resend::{Resend, ResendSettings},
    smtp::{Smtp, SmtpSettings},
};
use secrecy::{ExposeSecret, SecretString};

use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use store::{
    KEEP_FREE_MB,
    files::{Files, FilesSettings},
};
use summarize::{ModelSettings, Provider, SummarizerChoice};

/// The name of the settings file in the data folder.
pub const FILE: &str = "recount.toml";

/// All settings; every one has a default.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The data folder that they were read from; empty where they came from nowhere.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Where people reach the server, such as `https://recount.example.org`. Links in e-mails begin with it.
    pub public_url: Option<String>,
    /// `postgres://…` or the path of an SQLite file; without it the database is a file in the data folder.
    pub database: Option<String>,
    /// No new orders are taken while the disk of a database file has fewer megabytes (1,000,000 bytes) free.
    pub keep_free_mb: u32,
    /// Folders and MCP servers that reports may be made from.
    pub sources: Vec<SourceSetting>,
    pub mail: MailSettings,
    /// A model; without it the built-in summarizer is used.
    pub model: Option<ModelSetting>,
    pub uploads: UploadSettings,
    /// A file store for large uploads; without it all are in the database.
    pub files: Option<FilesSettings>,
    pub worker: WorkerSettings,
    pub server: ServerSettings,
    pub history: HistorySettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            folder: PathBuf::new(),
            public_url: None,
            database: None,
            keep_free_mb: KEEP_FREE_MB,
            sources: Vec::new(),
            mail: MailSettings::default(),
            model: None,
            uploads: UploadSettings::default(),
            files: None,
            worker: WorkerSettings::default(),
            server: ServerSettings::default(),
            history: HistorySettings::default(),
        }
    }
}

/// How messages leave.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MailSettings {
    pub channel: ChannelKind,
    /// The sender, `Recount <recount@example.org>`.
    pub from: String,
    /// The outbox folder; relative to the data folder.
    pub outbox: PathBuf,
    pub smtp: Option<SmtpSettings>,
    pub resend: Option<ResendSettings>,
    /// The mailbox that `smtp.archive` leads to.
    pub archive: Option<MailboxSettings>,
    /// The mailbox that bounces and delivery reports come to: that of `smtp.from`.
    pub bounces: Option<MailboxSettings>,
    /// The mail server's log, where it runs on this machine.
    pub log: Option<LogSettings>,
}

/// The kinds of channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelKind {
    /// Files in a folder.
    Outbox,
    /// A mail server.
    Smtp,
    /// Resend, over HTTP.
    Resend,
}

impl Default for MailSettings {
    fn default() -> Self {
        Self {
            channel: ChannelKind::Outbox,
            from: "Recount <recount@localhost.localdomain>".into(),
            outbox: "outbox".into(),
            smtp: None,
            resend: None,
            archive: None,
            bounces: None,
            log: None,
        }
    }
}

/// The model; times in seconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSetting {
    pub provider: Provider,
    pub model: String,
    pub base_url: Option<String>,
    pub api_key: Option<SecretString>,
    pub context_tokens: Option<u32>,
    pub max_output_tokens: Option<u32>,
    pub temperature: Option<f64>,
    pub idle_seconds: Option<u64>,
    pub max_seconds: Option<u64>,
    pub max_attempts: Option<u32>,
}

/// How much may be uploaded, in megabytes (1,000,000 bytes).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UploadSettings {
    pub max_file_mb: u32,
    pub max_total_mb: u32,
}

impl Default for UploadSettings {
    fn default() -> Self {
        Self { max_file_mb: 25, max_total_mb: 100 }
    }
}

/// How the worker works; times in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Jobs at once in one process.
    pub concurrency: usize,
    /// Jobs of one person at once, on all machines together.
    pub per_person: u32,
    pub lease_seconds: u32,
    pub grace_seconds: u32,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { concurrency: 4, per_person: 3, lease_seconds: 15, grace_seconds: 20 }
    }
}

/// How many connections the web server takes at once.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// In total; fewer where the system allows the process fewer open files.
    pub connections: usize,
    /// From one address other than this machine's.
    pub connections_per_address: usize,
}

impl Default for ServerSettings {
    /// Each page that shows a job holds one; an office may come from one address.
    fn default() -> Self {
        Self { connections: 4096, connections_per_address: 256 }
    }
}

/// How long the history of effects is kept.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistorySettings {
    /// Calendar months. Effects of jobs that are still there are kept in any case.
    pub keep_months: u32,
}

impl Default for HistorySettings {
    /// A year and the month in which it is looked back on.
    fn default() -> Self {
        Self { keep_months: 13 }
    }
}

/// For what depends on no time.
fn system_clock() -> SharedClock {
    Arc::new(SystemClock)
}

impl Settings {
    /// Reads the settings of a data folder.
    pub fn load(data: &Path) -> anyhow::Result<Self> {
        let path = data.join(FILE);
        let file = File::from(path.clone()).format(FileFormat::Toml).required(false);
        let environment = Environment::with_prefix("RECOUNT").prefix_separator("__").separator("__");
        let settings: Self = Config::builder()
            .add_source(file)
            .add_source(environment)
            .build()
            .and_then(Config::try_deserialize)
            .with_context(|| format!("{} (or a RECOUNT__ variable) cannot be understood", path.display()))?;
        Ok(Self { folder: data.to_owned(), ..settings })
    }

    /// The largest upload and the limits of reading.
    pub fn limits(&self) -> Limits {
        Limits { max_bytes: self.max_file_bytes(), ..Limits::default() }
    }

    /// The largest file that may be uploaded, in bytes.
    pub fn max_file_bytes(&self) -> u64 {
        u64::from(self.uploads.max_file_mb) * 1_000_000
    }

    /// The most that one form may hold, in bytes.
    pub fn max_total_bytes(&self) -> u64 {
        u64::from(self.uploads.max_total_mb) * 1_000_000
    }

    /// Opens the file store, if there is one.
    pub fn file_store(&self) -> anyhow::Result<Option<Files>> {
        let environment =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Ok(self.files.as_ref().map(|settings| Files::open(settings, environment)).transpose()?)
    }

    /// The sender of all messages.
    pub fn sender(&self) -> anyhow::Result<Mailbox> {
        let MailSettings { channel, from, smtp, resend, .. } = &self.mail;
        let from = match (channel, smtp, resend) {
            (ChannelKind::Smtp, Some(smtp), _) => &smtp.from,
            (ChannelKind::Resend, _, Some(resend)) => &resend.from,
            _ => from,
        };
        from.parse().with_context(|| format!("the sender \"{from}\" is not an e-mail address"))
    }

    /// Opens the channel that messages leave by.
    pub fn channel(&self, data: &Path) -> anyhow::Result<Arc<dyn Channel>> {
        let MailSettings { channel, outbox, smtp, resend, .. } = &self.mail;
        Ok(match channel {
            ChannelKind::Outbox => {
                let folder = data.join(outbox);
                Arc::new(Outbox::open(&folder).with_context(|| format!("the outbox {} cannot be made", folder.display()))?)
            }
            ChannelKind::Smtp => {
                let smtp = smtp.as_ref().context("mail.channel is \"smtp\", but there is no [mail.smtp] with a host.")?;
                // Reports that nobody reads would only fill a mailbox.
                let dsn = smtp.dsn.unwrap_or(self.mail.bounces.is_some());
                Arc::new(Smtp::new(&SmtpSettings { dsn: Some(dsn), ..smtp.clone() })?)
            }
            ChannelKind::Resend => {
                let resend = resend.as_ref();
                let resend = resend.context("mail.channel is \"resend\", but there is no [mail.resend] with an api_key.")?;
                Arc::new(Resend::new(resend)?)
            }
        })
    }

    /// The places to look for what became of an unconfirmed message, the surest first.
    pub fn probes(&self) -> anyhow::Result<Vec<Arc<dyn Probe>>> {
        let mut probes: Vec<Arc<dyn Probe>> = Vec::new();
        if let Some(settings) = &self.mail.log {
            probes.push(Arc::new(LogFile::new(settings).context("[mail.log] cannot work")?));
        }
        if let Some(settings) = &self.mail.archive {
            if self.mail.smtp.as_ref().is_none_or(|smtp| smtp.archive.is_none()) {
                bail!("[mail.archive] cannot work without mail.smtp.archive, the address that its copies are sent to.");
            }
            probes.push(Arc::new(Archive::new(settings).context("[mail.archive] cannot work")?));
        }
        if let Some(settings) = &self.mail.bounces {
            probes.push(Arc::new(Bounces::new(settings).context("[mail.bounces] cannot work")?));
        }
        Ok(probes)
    }

    /// The summarizer that is chosen, checked.
    pub fn summarizer(&self) -> anyhow::Result<SummarizerChoice> {
        let choice = match &self.model {
            None => SummarizerChoice::BuiltIn,
            Some(model) => SummarizerChoice::Model(model.settings()),
        };
        choice.open(&system_clock()).context("the model's settings cannot work")?;
        Ok(choice)
    }
}

impl ModelSetting {
    fn settings(&self) -> ModelSettings {
        let mut settings = ModelSettings::new(self.provider, self.model.clone());
        settings.base_url.clone_from(&self.base_url);
        settings.api_key = self.api_key.as_ref().map(|key| key.expose_secret().to_owned());
        settings.context_tokens = self.context_tokens.unwrap_or(settings.context_tokens);
        settings.max_output_tokens = self.max_output_tokens.unwrap_or(settings.max_output_tokens);
        settings.temperature = self.temperature.or(settings.temperature);
        settings.idle_timeout = self.idle_seconds.map_or(settings.idle_timeout, Duration::from_secs);
        settings.max_timeout = self.max_seconds.map_or(settings.max_timeout, Duration::from_secs);
        settings.max_attempts = self.max_attempts.unwrap_or(settings.max_attempts);
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> anyhow::Result<Settings> {
        let data = tempfile::tempdir()?;
        std::fs::write(data.path().join(FILE), text)?;
        Settings::load(data.path())
    }

    #[test]
    fn each_channel_has_its_own_sender_and_needs_its_own_section() {
        let text = "[mail]\nchannel = 'resend'\nfrom = 'box@e.org'\n[mail.resend]\napi_key = 're_1'\nfrom = 'r@e.org'\n";
        let settings = load(text).expect("settings");
        assert_eq!(settings.sender().expect("a sender").email.to_string(), "r@e.org");
        assert_eq!(settings.channel(Path::new("")).expect("a channel").name(), "Resend api.resend.com");

        let smtp = "[mail]\nchannel = 'smtp'\n[mail.smtp]\nhost = 'mx.e.org'\nfrom = 's@e.org'\nidempotency_header = 'X-Key'\n";
        let settings = load(smtp).expect("settings");
        assert_eq!(settings.sender().expect("a sender").email.to_string(), "s@e.org");
        let channel = settings.channel(Path::new("")).expect("a channel");
        assert_eq!(channel.key_header("<1@e.org>").map(|key| key.name), Some("X-Key".to_owned()));

        for (kind, what) in [("resend", "[mail.resend]"), ("smtp", "[mail.smtp]")] {
            let settings = load(&format!("mail.channel = '{kind}'")).expect("settings");
            let error = settings.channel(Path::new("")).err().expect("its section is missing");
            assert!(error.to_string().contains(what), "{error}");
        }
        let typo = load(&text.replace("api_key", "key")).expect_err("an unknown name");
        assert!(format!("{typo:#}").contains("key"), "{typo:#}");
    }

    const MAILBOX: &str = "host = \"imap.example.org\"\nusername = \"u\"\npassword = \"p\"\n";

    #[test]
    fn every_place_that_is_written_down_is_looked_at() {
        assert!(load("").expect("settings").probes().expect("probes").is_empty());
        let all = format!(
            "[mail.smtp]\nhost = \"mx.e.org\"\nfrom = \"s@e.org\"\narchive = \"archive@e.org\"\n[mail.archive]\n{MAILBOX}[mail.bounces]\n{MAILBOX}folder = \"Bounces\"\n\
             [mail.log]\npath = \"/var/log/mail.log\"\nformat = \"postfix\"\n"
        );
        let probes = load(&all).expect("settings").probes().expect("probes");
        let names: Vec<&str> = probes.iter().map(|look| look.name()).collect();
        let expected = [
            "Postfix log /var/log/mail.log",
            "archive mailbox u at imap.example.org:993, folder INBOX",
            "bounce mailbox u at imap.example.org:993, folder Bounces",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_place_that_cannot_work_is_named() {
        for (text, named) in [
            (format!("[mail.archive]\n{MAILBOX}fodler = \"x\"\n"), "fodler"),
            ("[mail.log]\npath = \"/var/log/mail.log\"\nformat = \"sendmail\"\n".into(), "sendmail"),
            ("[mail.log]\npath = \"mail.log\"\nformat = \"exim\"\n".into(), "[mail.log]"),
            (format!("[mail.archive]\n{MAILBOX}"), "mail.smtp.archive"),
            (format!("[mail.bounces]\n{MAILBOX}security = \"plain\"\n"), "[mail.bounces]"),
        ] {
            let error = load(&text).and_then(|settings| settings.probes()).err().expect("must be refused");
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
    }

    #[test]
    fn a_file_store_is_an_address_of_a_kind_that_is_known() {
        assert_eq!(load("").expect("settings").files, None);
        let loaded = load("[files]\nstore = 's3://bucket/x'").expect("settings").files;
        assert_eq!(loaded, Some(FilesSettings { store: "s3://bucket/x".into(), in_database_up_to_mb: 1 }));
        for (text, named) in [("[files]\nstore = 's3://b'\nlimit = 1", "limit"), ("[files]\nin_database_up_to_mb = 3", "store")] {
            let error = load(text).expect_err("must be refused");
            assert!(format!("{error:#}").contains(named), "{error:#}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let azure = [("AZURE_STORAGE_ACCOUNT_NAME".to_owned(), "office".to_owned())];
        let azure_key = ("AZURE_STORAGE_ACCOUNT_KEY".to_owned(), "c2VjcmV0".to_owned());
        let open = |store: &str, environment: &[(String, String)]| {
            let settings = FilesSettings { store: store.into(), in_database_up_to_mb: 1 };
            Files::open(&settings, environment.iter().cloned()).map(|files| (files.takes(1_000_000), files.takes(1_000_001)))
        };
        for store in [format!("file://{}", folder.path().display()).as_str(), "s3://bucket", "gs://bucket/a/b"] {
            assert_eq!(open(store, &[]).unwrap_or_else(|error| panic!("{store}: {error}")), (false, true));
        }
        assert_eq!(open("az://container/x", &[azure[0].clone(), azure_key]).expect("a container"), (false, true));
        for (store, said) in [
            ("", "must be an address"),
            ("bucket/x", "must be an address"),
            ("ftp://host/x", "must be an address"),
            ("memory:///x", "must be an address"),
            ("s3:///x", "must be an address"),
            ("file://host/x", "must be an address"),
            ("az://container", "az://container cannot be set up"),
            ("file:///no/such/folder", "the folder /no/such/folder"),
            ("file:///dev/null", "the folder /dev/null"),
        ] {
            let error = open(store, &[]).expect_err(store).to_string();
            assert!(error.contains(said), "{store}: {error}");
        }
    }
}
