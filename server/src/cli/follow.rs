//! A job from the terminal: shown and worked on to its end, or as long as nobody asks the command to leave.

use super::{
    background::worker_options,
    say::note,
    signals::{Asked, Signals},
};
use crate::{
    service::Service,
    worker::{Worker, WorkerOptions},
};
use app::model::{JobView, Viewer};
use contract::{Job, Outcome, Phase};
use domain::id::JobId;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;
use store::notifications::changed;
use tokio::{
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// It did not come about as asked: the job failed, or a message was not accepted.
const NOT_AS_ASKED: u8 = 1;
/// Something is unconfirmed.
const UNCONFIRMED: u8 = 2;
/// The job was cancelled.
const CANCELLED: u8 = 3;
/// The job has not ended.
pub const NOT_ENDED: u8 = 4;

/// How the command is asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// SIGTERM or SIGHUP: what is under way is handed back.
    HandBack,
    /// Ctrl-C once more: nothing is waited for.
    AtOnce,
}

/// The signals while there is a job, and the terminal that they are answered on.
pub struct Terminal {
    signals: Signals,
    bar: ProgressBar,
    /// Fires at the first Ctrl-C.
    cancel: CancellationToken,
}

impl Terminal {
    /// Catches the signals from now on. A bar shows the progress unless it is `quiet`.
    pub fn new(quiet: bool) -> std::io::Result<Self> {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        Ok(Self { signals: Signals::catch()?, bar, cancel: CancellationToken::new() })
    }

    /// Waits until the command has to leave. The first Ctrl-C does not ask for that, but for a cancel.
    pub async fn asked_to_leave(&mut self) -> Leave {
        loop {
            match self.signals.next().await {
                Asked::Terminate => return Leave::HandBack,
                Asked::Interrupt if self.cancel.is_cancelled() => return Leave::AtOnce,
                Asked::Interrupt => {
                    self.bar.suspend(|| note!("Cancelling. Ctrl-C again leaves without waiting."));
                    self.cancel.cancel();
                }
            }
        }
    }

    /// Waits for a Ctrl-C while the command is leaving anyway.
    async fn insisted(&mut self) {
        while self.signals.next().await != Asked::Interrupt {}
    }
}

/// A job as it was seen last.
pub struct Seen {
    pub view: JobView,
    /// What the command exits with.
    pub code: u8,
}

/// A job that is worked on.
struct Followed<'a> {
    service: &'a Service,
    who: &'a Viewer,
    id: JobId,
    bar: ProgressBar,
    cancel: CancellationToken,
    seen: Option<Seen>,
    /// `None` as long as none is needed.
    worker: Option<JoinHandle<()>>,
    shutdown: CancellationToken,
}

/// Runs a worker for this one job until the job has ended, or waits for a person, or the command is asked to leave. Says what
/// goes on without it. Returns the job as it was seen last; `None` if the database has never answered.
pub async fn follow(service: &Service, who: &Viewer, id: JobId, terminal: &mut Terminal) -> anyhow::Result<Option<Seen>> {
    let (bar, cancel, shutdown) = (terminal.bar.clone(), terminal.cancel.clone(), CancellationToken::new());
    bar.enable_steady_tick(Duration::from_millis(120));
    let mut job = Followed { service, who, id, bar, cancel, seen: None, worker: None, shutdown };
    let mut leave = tokio::select! {
        () = job.see_through() => None,
        leave = terminal.asked_to_leave() => Some(leave),
    };
    job.bar.finish_and_clear();
    if leave != Some(Leave::AtOnce) {
        if leave == Some(Leave::HandBack) {
            note!("Handing the job back. Ctrl-C leaves without waiting.");
        }
        tokio::select! {
            ended = job.hand_back() => ended?,
            () = terminal.insisted() => leave = Some(Leave::AtOnce),
        }
    }
    if let Some(leave) = leave {
        job.say_what_goes_on(leave);
    }
    if leave != Some(Leave::AtOnce) {
        service.store().close().await;
    }
    Ok(job.seen)
}

impl Followed<'_> {
    /// Works on the job, shows it, and cancels it once that is asked for.
    async fn see_through(&mut self) {
        let mut notifications = self.service.store().notifications().subscribe();
        let mut is_recorded = false;
        loop {
            // A database that is busy for a while is asked again: leaving here would leave the job behind.
            self.look().await;
            // No worker takes one that waits for a person.
            if self.seen.as_ref().is_some_and(|Seen { view, .. }| view.phase.is_final() || view.set_aside.is_some()) {
                return;
            }
            self.work();
            if self.cancel.is_cancelled()
                && !is_recorded
                && let Ok(answer) = self.service.cancel_job(self.who, self.id).await
            {
                is_recorded = true;
                // Before it is said, since the command may be asked to leave as soon as it is.
                self.keep(answer.job).await;
                self.bar.suspend(|| note!("{}", answer.message));
                continue;
            }
            tokio::select! {
                // Another process may write too, so silence is not taken for rest.
                _ = timeout(Duration::from_secs(1), changed(&mut notifications, self.id)) => {}
                () = self.cancel.cancelled(), if !self.cancel.is_cancelled() => {}
            }
        }
    }

    /// Starts the worker, unless it is at work.
    fn work(&mut self) {
        self.worker.get_or_insert_with(|| {
            // Nobody's other jobs have to wait for one that is worked on here.
            let own =
                WorkerOptions { only: Some(self.id), concurrency: 1, per_person: None, ..worker_options(&self.service.settings) };
            tokio::spawn(Worker::new(self.service.dependencies.clone(), own).run(self.shutdown.clone()))
        });
    }

    async fn look(&mut self) {
        if let Ok(view) = self.service.show_job(self.who, self.id).await {
            self.keep(view).await;
        }
    }

    async fn keep(&mut self, view: JobView) {
        show_progress(&self.bar, &view);
        let code = if view.phase.is_final() {
            let Ok(record) = self.service.visible(self.who, self.id).await else { return };
            exit_code(&record.job)
        } else {
            NOT_ENDED
        };
        self.seen = Some(Seen { view, code });
    }

    /// Waits until the worker has handed back what it had, and sees what has become of the job.
    async fn hand_back(&mut self) -> Result<(), JoinError> {
        self.shutdown.cancel();
        if let Some(worker) = &mut self.worker {
            worker.await?;
        }
        self.look().await;
        Ok(())
    }

    /// Says what goes on without this command, where something does.
    fn say_what_goes_on(&self, leave: Leave) {
        let id = self.id;
        let (is_over, is_recorded) = match &self.seen {
            Some(Seen { view, .. }) => (view.phase.is_final(), view.cancel.is_some()),
            None => (false, false),
        };
        if is_over {
            return;
        }
        let next = format!("when a server or `recount report --resume {id}` runs");
        let left = match leave {
            Leave::HandBack => "Handed back",
            Leave::AtOnce => "Left without waiting",
        };
        if is_recorded {
            note!("{left}. The cancel stands; job {id} ends {next}.");
        } else if self.cancel.is_cancelled() {
            note!("{left}. The cancel was not confirmed: `recount cancel {id}` asks again. Otherwise the job continues {next}.");
        } else {
            note!("{left}. Job {id} continues {next}.");
        }
    }
}

fn show_progress(bar: &ProgressBar, view: &JobView) {
    bar.set_message(view.headline.clone());
    if let Some(step) = view.steps.iter().find(|step| step.state == contract::StepState::Running) {
        bar.set_length(step.total.into());
        bar.set_position(step.done.into());
    }
}

/// What the command exits with once a job has ended: 0 only where everything came about as it was asked for.
fn exit_code(job: &Job) -> u8 {
    if job.effects.iter().any(|effect| effect.outcome == Outcome::Unconfirmed) {
        return UNCONFIRMED;
    }
    match job.phase {
        Phase::Finished if job.emails().all(|email| email.outcome == Outcome::Done) => 0,
        Phase::Cancelled => CANCELLED,
        Phase::Finished | Phase::Failed | Phase::Queued | Phase::Running | Phase::Stopping => NOT_AS_ASKED,
    }
}
