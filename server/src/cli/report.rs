//! `recount report`: one report from the terminal, by the same worker and the same record as on the pages.

use super::{
    DataFolder,
    follow::{NOT_ENDED, Seen, Terminal, follow},
    in_use::InUse,
    open_service,
    people::command_line_user,
    say::{note, say},
};
use crate::service::{Ordered, Service, ServiceError, check, with_ids};
use anyhow::{Context, bail};
use app::{
    error::AppError,
    model::{JobView, Viewer},
};
use documents::source::setting::{Reads, SourceSetting};
use domain::{
    id::{JobId, RequestKey},
    period::parse_zone,
    request::ReportRequest,
    spec::Spec,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

/// The arguments that are about an order.
const ORDER: [&str; 9] = ["month", "sources", "recipients", "zone", "title", "instructions", "hold", "key", "new"];

/// Arguments of `recount report`.
#[derive(Debug, clap::Args)]
pub struct Report {
    #[command(flatten)]
    data: DataFolder,
    /// The month, YYYY-MM.
    #[arg(long, required_unless_present = "resume")]
    month: Option<String>,
    /// A folder or a file with documents. Several may be given. Where recount.toml lists folders, it must lie in one of them.
    #[arg(long = "source", value_name = "PATH", required_unless_present = "resume", num_args = 1..)]
    sources: Vec<PathBuf>,
    /// Who gets the link. Several may be given.
    #[arg(long = "to", value_name = "ADDR", required_unless_present = "resume", num_args = 1..)]
    recipients: Vec<String>,
    /// The time zone that the month is meant in.
    #[arg(long, default_value = "UTC")]
    zone: String,
    /// The report's name.
    #[arg(long, default_value = "")]
    title: String,
    /// What to look for; models follow it.
    #[arg(long, default_value = "")]
    instructions: String,
    /// What happens before the e-mail: none, or a number of seconds in which it can still be cancelled.
    #[arg(long, default_value = "none")]
    hold: String,
    /// Names the request: a second run with the same key finds the first one's job instead of making another. Without it the
    /// same order finds its job of the same day.
    #[arg(long)]
    key: Option<RequestKey>,
    /// Make another job, even if the same order was given before today.
    #[arg(long, conflicts_with = "key")]
    new: bool,
    /// Order nothing, but show this job, and work on it where it has not ended.
    #[arg(long, value_name = "ID", conflicts_with_all = ORDER)]
    resume: Option<JobId>,
    /// Print the job as JSON at the end.
    #[arg(long)]
    json: bool,
}

impl Report {
    /// Makes the job, works on it, and shows it until it has ended.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let _in_use = InUse::together(&self.data.path)?;
        if self.resume.is_some() {
            self.data.has_database()?;
        }
        let settings = self.data.settings()?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| "http://127.0.0.1:3000".into());
        let mut service = open_service(&self.data, settings, &public_url).await?;
        let who = command_line_user(service.store(), &self.zone).await?;
        let mut terminal = Terminal::new(self.json)?;
        let (who, id) = match self.resume {
            Some(id) => {
                if service.store().job(id).await?.is_none() {
                    bail!("There is no job {id} in {}.", self.data.path.display());
                }
                // Whoever can write to the data folder is its administrator.
                (Viewer { is_admin: true, ..who }, id)
            }
            None => match self.order(&mut service, &who, &mut terminal).await? {
                Some(id) => (who, id),
                None => return Ok(ExitCode::from(NOT_ENDED)),
            },
        };
        let Some(Seen { view, code }) = follow(&service, &who, id, &mut terminal).await? else {
            return Ok(ExitCode::from(NOT_ENDED));
        };
        if self.json {
            say!("{}", serde_json::to_string_pretty(&view)?);
        } else {
            print_job(&view, &public_url);
        }
        Ok(ExitCode::from(code))
    }

    /// Gives the order; `None` where the command was asked to leave before it had an answer.
    async fn order(&self, service: &mut Service, who: &Viewer, terminal: &mut Terminal) -> anyhow::Result<Option<JobId>> {
        let sources: Vec<PathBuf> = self.sources.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
        if service.sources.iter().all(|known| known.folder().is_none()) {
            service.sources = Arc::new(with_ids(sources.iter().map(|path| folder(path)).collect()));
        }
        let request = ReportRequest {
            title: self.title.clone(),
            month: self.month.clone().unwrap_or_default(),
            zone: self.zone.clone(),
            sources: sources.iter().map(|path| path.display().to_string()).collect(),
            recipients: self.recipients.clone(),
            instructions: self.instructions.clone(),
            hold: self.hold.clone(),
        };
        let key = match (self.key, self.new) {
            (Some(key), _) => key,
            (None, true) => RequestKey::new(),
            (None, false) => match check(&request, false, &service.sources) {
                Ok(spec) => key_of_today(service, &spec)?,
                // It makes no job.
                Err(_) => RequestKey::new(),
            },
        };
        let ordered = async {
            // An answer may get lost (a busy database); the same key finds the job that it was about.
            match service.order(who, key, &request).await {
                Err(ServiceError(AppError::Internal)) => service.order(who, key, &request).await,
                other => other,
            }
        };
        let ordered = tokio::select! {
            ordered = ordered => ordered.map_err(|error| error.0)?,
            _ = terminal.asked_to_leave() => {
                note!("The order has had no answer. The same one with --key {key} finds its job, or makes it.");
                return Ok(None);
            }
        };
        match ordered {
            Ordered::Job { id, is_new } => {
                if !is_new && self.key.is_none() {
                    note!("This order was given before today; showing its job. --new makes another.");
                }
                Ok(Some(id))
            }
            Ordered::Conflict => bail!("The key {key} belongs to another report. Leave --key out, or use a new one."),
            Ordered::Wrong(errors) => {
                let sentences: Vec<String> = errors.into_iter().map(|error| error.text).collect();
                bail!("{}", sentences.join("\n"));
            }
        }
    }
}

/// The key of an order without one: the same for the same order on the same day, as the order's zone has it.
fn key_of_today(service: &Service, spec: &Spec) -> anyhow::Result<RequestKey> {
    let today = service.store().clock().now().with_timezone(&parse_zone(&spec.zone)?).date_naive();
    Ok(RequestKey::made_of(&format!("recount report on {today}: {}", serde_json::to_string(spec)?)))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} cannot be read", path.display()))
}

fn folder(path: &Path) -> SourceSetting {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    SourceSetting { name, reads: Reads::Folder(path.to_owned()) }
}

fn print_job(view: &JobView, public_url: &str) {
    say!("{}", view.headline);
    if let Some(reason) = &view.reason {
        say!("{reason}");
    }
    if let Some(summary) = &view.coverage_summary {
        say!("Documents: {summary}");
    }
    for effect in &view.effects {
        let evidence = effect.evidence.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        say!("  {}: {}{evidence}", effect.what, effect.outcome_text);
    }
    if let Some(path) = &view.report_path {
        say!("Report: {public_url}{path}");
    }
    say!("Job: {}", view.id);
}
