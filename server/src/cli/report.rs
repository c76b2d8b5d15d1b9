//! `recount report`: one report from the terminal, by the same worker and the same record as on the pages.

use super::{DataFolder, in_use::InUse, open_desk, people::command_line_user};
use crate::{
    bus::changed,
    desk::{Desk, DeskError, Order, Ordered, with_ids},
    id::{JobId, RequestKey},
    job::{Worker, WorkerOptions},
    source::setting::{Reads, SourceSetting},
};
use anyhow::{Context, bail};
use app::{
    contract::{Outcome, Phase},
    error::AppError,
    model::{JobView, Viewer},
};
use indicatif::{ProgressBar, ProgressStyle};
use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Arguments of `recount report`.
#[derive(Debug, clap::Args)]
pub struct Report {
    #[command(flatten)]
    data: DataFolder,
    /// The month, YYYY-MM.
    #[arg(long)]
    month: String,
    /// A folder or a file with documents. Several may be given. Where recount.toml lists folders, it must lie in one of them.
    #[arg(long = "source", value_name = "PATH", required = true, num_args = 1..)]
    sources: Vec<PathBuf>,
    /// Who gets the link. Several may be given.
    #[arg(long = "to", value_name = "ADDR", required = true, num_args = 1..)]
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
    /// Names the request: a second run with the same key finds the first one's job instead of making another.
    #[arg(long)]
    key: Option<RequestKey>,
    /// Print the job as JSON when it has ended.
    #[arg(long)]
    json: bool,
}

/// Something is unconfirmed.
const UNCONFIRMED: u8 = 2;
/// The job was cancelled.
const CANCELLED: u8 = 3;

impl Report {
    /// Makes the job, works on it, and shows it until it has ended.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let _in_use = InUse::together(&self.data.path)?;
        let settings = self.data.settings()?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| "http://127.0.0.1:3000".into());
        let mut desk = open_desk(&self.data, settings, &public_url).await?;
        let sources: Vec<PathBuf> = self.sources.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?;
        if desk.sources.iter().all(|known| known.folder().is_none()) {
            desk.sources = Arc::new(with_ids(sources.iter().map(|path| folder(path)).collect()));
        }
        let who = command_line_user(desk.store(), &self.zone).await?;
        let order = Order {
            title: self.title.clone(),
            month: self.month.clone(),
            zone: self.zone.clone(),
            sources: sources.iter().map(|path| path.display().to_string()).collect(),
            recipients: self.recipients.join(","),
            instructions: self.instructions.clone(),
            hold: self.hold.clone(),
            has_files: false,
        };
        let key = self.key.unwrap_or_else(RequestKey::new);
        let mut signals = Signals::catch()?;
        // An answer may get lost (a busy database); the same key finds the job that it was about.
        let ordered = match desk.order(&who, key, &order).await {
            Err(DeskError(AppError::Internal)) => desk.order(&who, key, &order).await,
            other => other,
        };
        let id = match ordered.map_err(|error| error.0)? {
            Ordered::Job { id, .. } => id,
            Ordered::Conflict => bail!("The key {key} belongs to another report. Leave --key out, or use a new one."),
            Ordered::Wrong(errors) => {
                let sentences: Vec<String> = errors.into_iter().map(|error| error.text).collect();
                bail!("{}", sentences.join("\n"));
            }
        };
        let view = work_on(&desk, &who, id, self.json, &mut signals).await?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&view)?);
        } else {
            print_end(&view, &public_url);
        }
        desk.store().close().await;
        Ok(exit_code(&view))
    }
}

fn absolute(path: &std::path::Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} cannot be read", path.display()))
}

fn folder(path: &std::path::Path) -> SourceSetting {
    let name = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    SourceSetting { name, reads: Reads::Folder(path.to_owned()) }
}

/// Runs a worker for this one job until the job has ended. The first Ctrl-C cancels it; a second one, or SIGTERM, hands it
/// back unfinished.
async fn work_on(desk: &Desk, who: &Viewer, id: JobId, quiet: bool, signals: &mut Signals) -> anyhow::Result<JobView> {
    let show = async || desk.show_job(who, id).await.map_err(|error| anyhow::Error::new(error.0));
    let mut bus = desk.store().bus().subscribe();
    let shutdown = CancellationToken::new();
    let options = WorkerOptions { only: Some(id), concurrency: 1, ..WorkerOptions::default() };
    let worker = tokio::spawn(Worker::new(desk.services.clone(), options).run(shutdown.clone()));
    let bar = progress_bar(quiet);
    let mut cancel = Cancel::NotPressed;
    loop {
        // A database that is busy for a while is asked again: leaving here would leave the job behind.
        if let Ok(view) = show().await {
            show_progress(&bar, &view);
            // No worker takes one that waits for a person.
            if view.phase.is_final() || view.set_aside.is_some() {
                break;
            }
        }
        if cancel == Cancel::Pressed
            && let Ok(answer) = desk.cancel_job(who, id).await
        {
            cancel = Cancel::Recorded;
            bar.println(format!("{} Ctrl-C again leaves without waiting.", answer.message));
            continue;
        }
        tokio::select! {
            // Another process may write too, so silence is not taken for rest.
            _ = timeout(Duration::from_secs(1), changed(&mut bus, id)) => {}
            _ = signals.interrupt.recv() => {
                if cancel == Cancel::Recorded {
                    break;
                }
                cancel = Cancel::Pressed;
            }
            _ = signals.terminate.recv() => break,
        }
    }
    bar.finish_and_clear();
    shutdown.cancel();
    worker.await?;
    show().await
}

/// What has become of Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    NotPressed,
    /// Not recorded yet.
    Pressed,
    Recorded,
}

/// The signals that end a report. They are caught from before the job exists, so that none of them can leave it behind.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }
}

fn progress_bar(quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

fn show_progress(bar: &ProgressBar, view: &JobView) {
    bar.set_message(view.headline.clone());
    if let Some(step) = view.steps.iter().find(|step| step.state == app::contract::StepState::Running) {
        bar.set_length(step.total.into());
        bar.set_position(step.done.into());
    }
}

fn print_end(view: &JobView, public_url: &str) {
    println!("{}", view.headline);
    if let Some(reason) = &view.reason {
        println!("{reason}");
    }
    if let Some(summary) = &view.coverage_summary {
        println!("Documents: {summary}");
    }
    for effect in &view.effects {
        let evidence = effect.evidence.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        println!("  {}: {}{evidence}", effect.what, effect.outcome_text);
    }
    if let Some(path) = &view.report_path {
        println!("Report: {public_url}{path}");
    }
    println!("Job: {}", view.id);
}

fn exit_code(view: &JobView) -> ExitCode {
    // What waits for a person in a restored copy is not at its end.
    if view.set_aside.is_none()
        && view.effects.iter().any(|effect| matches!(effect.outcome, Outcome::Unconfirmed | Outcome::InDoubt))
    {
        return ExitCode::from(UNCONFIRMED);
    }
    match view.phase {
        Phase::Finished => ExitCode::SUCCESS,
        Phase::Cancelled | Phase::Stopping => ExitCode::from(CANCELLED),
        Phase::Failed | Phase::Queued | Phase::Running => ExitCode::FAILURE,
    }
}
