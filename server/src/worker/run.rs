//! One claim from its start to its end: the steps in order, and the accounting when it has to stop.

use super::{
    Dependencies,
    steps::{collect, email, save, summarize},
    watch::{Halt, Pulse, watch},
};
use crate::descriptors;
use chrono::TimeDelta;
use contract::{Effect, EffectKind, Epoch, Job, NotDone, Outcome, Phase, Refusal, StepKind, Verdict};
use domain::hold::Hold;
use domain::id::JobId;
use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{Claim, JobTx, StoreError, complain};
use tokio::{
    runtime::Handle,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Progress is written by itself at most this often: each time is a commit.
const PROGRESS_EVERY: Duration = Duration::from_millis(150);
/// The pause before the database is tried again that was in trouble.
const AGAIN: Duration = Duration::from_secs(1);

/// Why a step did not end with its result.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A cancel, a lost lease or a shutdown. Everything that the step had open is settled.
    #[error("stopped")]
    Stopped,
    /// It gives up for good; the sentence is for the user.
    #[error("{0}")]
    Failed(String),
    /// The database could not be asked.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for StepError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(Refusal::CancelRequested | Refusal::LeaseLost) => Self::Stopped,
            other => Self::Store(other),
        }
    }
}

impl From<Refusal> for StepError {
    fn from(refusal: Refusal) -> Self {
        StoreError::from(refusal).into()
    }
}

/// How far a step has come: so many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    step: StepKind,
    done: u32,
    total: u32,
}

impl Progress {
    fn of(step: StepKind, done: usize, total: usize) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { step, done: count(done), total: count(total) }
    }
}

/// What a step works with: the services, its claim, and the tokens that stop it.
pub struct Work {
    pub dependencies: Arc<Dependencies>,
    pub claim: Claim,
    pub halt: Halt,
    /// Tells the watcher that the work gets on.
    pub pulse: Pulse,
    reported: Mutex<Reported>,
}

/// The progress that was reported last.
struct Reported {
    at: Option<Progress>,
    /// When progress was last written.
    written: Instant,
}

impl Work {
    pub fn new(dependencies: Arc<Dependencies>, claim: Claim, halt: Halt, pulse: Pulse) -> Self {
        let reported = Mutex::new(Reported { at: None, written: Instant::now() });
        Self { dependencies, claim, halt, pulse, reported }
    }

    /// A checkpoint: fails once the work must stop.
    pub fn check(&self) -> Result<(), StepError> {
        self.pulse.beat();
        if self.halt.stop.is_cancelled() { Err(StepError::Stopped) } else { Ok(()) }
    }

    /// A checkpoint before something that opens files or connections: where this process has no more of them, it waits, since
    /// what cannot even begin must not count as an attempt that failed.
    pub async fn ready(&self) -> Result<(), StepError> {
        if !descriptors::are_short() {
            return Ok(());
        }
        tracing::warn!(job = %self.claim.id, "too many files are open; job {} waits until there are fewer", self.claim.id);
        while descriptors::are_short() {
            self.pause(AGAIN).await?;
        }
        Ok(())
    }

    /// Opens a change of the job's record, which the progress goes with.
    pub async fn change(&self) -> Result<JobTx, StepError> {
        self.pulse.beat();
        let mut change = self.dependencies.store.change_job(self.claim.id).await?.ok_or(StepError::Stopped)?;
        self.carry_progress(&mut change);
        Ok(change)
    }

    /// Opens a change in the middle of `step`; `None` if this claim has ended the step already, and only the answer to that
    /// commit was lost.
    pub async fn change_in(&self, step: StepKind) -> Result<Option<JobTx>, StepError> {
        let change = self.change().await?;
        change.job.may_go_on(self.claim.epoch)?;
        Ok((change.job.current_step() == Some(step)).then_some(change))
    }

    /// Does something with the database, again and again while that is in trouble, until the work must stop: a database that
    /// refuses is no reason to do anything else again, or to give up. `act` must bear that it was done the last time.
    pub async fn patiently<T, F>(&self, act: impl Fn() -> F) -> Result<T, StepError>
    where
        F: Future<Output = Result<T, StepError>>,
    {
        loop {
            match act().await {
                Err(StepError::Store(error)) if error.unavailable().is_some() => self.wait_for_database(&error).await?,
                done => return done,
            }
        }
    }

    async fn wait_for_database(&self, error: &StoreError) -> Result<(), StepError> {
        complain(format_args!("job {} waits for the database", self.claim.id), error);
        self.unless_stopped(sleep(AGAIN)).await
    }

    /// The step to go on with after the database was in trouble, in the middle of one or at the commit that ended it.
    async fn pick_up(&self) -> Result<StepKind, StepError> {
        let mut change = self.change().await?;
        change.job.may_go_on(self.claim.epoch)?;
        drop_unbegun(&mut change.job, self.claim.epoch)?;
        change.leave_calls(self.claim.epoch).await?;
        let step = change.job.current_step();
        // Also where nothing differs: whether the database takes changes again is seen by that.
        change.commit().await?;
        step.ok_or(StepError::Stopped)
    }

    fn carry_progress(&self, change: &mut JobTx) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.written = Instant::now();
        if let Some(Progress { done, total, .. }) = reported.at.filter(|at| change.job.current_step() == Some(at.step)) {
            // Where it is refused, the change itself is as well, or is of a kind that no cancel stands in the way of.
            let _ = change.job.progress(self.claim.epoch, done, total);
        }
    }

    /// Reports how far the step has come. That is written with the next change, or now, if the last time is a while ago. A
    /// database that cannot take it just now is no reason to give up.
    pub async fn progress(&self, step: StepKind, done: usize, total: usize) -> Result<(), StepError> {
        if !self.report(Progress::of(step, done, total)) {
            return Ok(());
        }
        match self.write_progress().await {
            Err(StepError::Store(error)) => {
                complain(format_args!("the progress of job {} could not be written", self.claim.id), &error);
                Ok(())
            }
            written => written,
        }
    }

    /// Returns whether it is to be written now.
    fn report(&self, at: Progress) -> bool {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.at = Some(at);
        reported.written.elapsed() >= PROGRESS_EVERY
    }

    async fn write_progress(&self) -> Result<(), StepError> {
        let change = self.change().await?;
        change.job.may_go_on(self.claim.epoch)?;
        change.commit().await?;
        Ok(())
    }

    /// Writes what became of an effect that this claim had begun. Evidence must not be lost, so it is written as often as it
    /// takes, until the process will not wait any longer; a cancel or a lost lease does not stand in its way.
    pub async fn settle(&self, number: u32, verdict: Verdict) -> Result<(), StepError> {
        loop {
            let error = match self.write_verdict(number, verdict.clone()).await {
                Err(StepError::Store(error)) if !matches!(error, StoreError::Refused(_)) => error,
                written => return written,
            };
            complain(
                format_args!("what became of an effect of job {} could not be written; trying again", self.claim.id),
                &error,
            );
            if self.halt.give_up.run_until_cancelled(sleep(AGAIN)).await.is_none() {
                return Err(StepError::Store(error));
            }
        }
    }

    async fn write_verdict(&self, number: u32, verdict: Verdict) -> Result<(), StepError> {
        let mut change = self.change().await?;
        if let Err(refusal) = change.job.settle(self.claim.epoch, number, verdict.clone()) {
            let effect = change.job.effect(number).filter(|effect| effect.epoch == self.claim.epoch);
            if effect.is_some_and(|effect| is_written(effect, &verdict)) {
                // It was written the last time; only the answer to that commit was lost.
                return Ok(());
            }
            // A person or a look has settled it meanwhile, and that stays. An answer that says otherwise stands beside it.
            let said = effect.map(|effect| effect.outcome);
            if let (Some(Outcome::Done | Outcome::NotDone), Verdict::Done(answer))
            | (Some(Outcome::Done), Verdict::NotDone(_, answer)) = (said, &verdict)
            {
                change.job.contradict(number, &verdict);
                change.note_on(number, format!("The worker's answer came late: {answer}"));
                change.commit().await?;
            }
            return Err(refusal.into());
        }
        if change.job.effect(number).is_some_and(|effect| effect.kind == EffectKind::Email) {
            let (done, total) = (change.job.emails().filter(|email| email.is_settled()).count(), change.job.emails().count());
            self.report(Progress::of(StepKind::Email, done, total));
            self.carry_progress(&mut change);
        }
        change.commit().await?;
        Ok(())
    }

    /// Lets a while pass, unless the job has to stop.
    pub async fn pause(&self, pause: Duration) -> Result<(), StepError> {
        self.pulse.allow(pause);
        self.unless_stopped(sleep(pause)).await
    }

    /// Waits for `work`, or drops it at once when the job has to stop.
    pub async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, StepError> {
        self.halt.unless_stopped(work).await.ok_or(StepError::Stopped)
    }
}

/// Accounts for what was to begin when the database fell into trouble: its beginning was committed, the answer to that was lost,
/// and so it never became an act. Nothing else of this claim may be under way.
pub fn drop_unbegun(job: &mut Job, epoch: Epoch) -> Result<(), Refusal> {
    let is_unbegun = |effect: &&Effect| effect.epoch == epoch && effect.outcome == Outcome::InFlight;
    let unbegun: Vec<(u32, EffectKind)> =
        job.effects.iter().filter(is_unbegun).map(|effect| (effect.number, effect.kind)).collect();
    for (number, kind) in unbegun {
        let why = if kind == EffectKind::Email { NotDone::Unreached } else { NotDone::BrokenOff };
        let evidence = "the database did not answer when this was to begin, and so it did not";
        job.settle(epoch, number, Verdict::NotDone(why, evidence.into()))?;
    }
    Ok(())
}

/// Whether the record says so already.
fn is_written(effect: &Effect, verdict: &Verdict) -> bool {
    let (outcome, not_done, evidence) = match verdict {
        Verdict::Done(evidence) => (Outcome::Done, None, evidence),
        Verdict::NotDone(why, evidence) => (Outcome::NotDone, Some(*why), evidence),
        Verdict::Unconfirmed(evidence) => (Outcome::Unconfirmed, None, evidence),
    };
    (effect.outcome, effect.not_done, effect.evidence.as_ref()) == (outcome, not_done, Some(evidence))
}

/// The work on a claim, on a thread of its own: whatever never gives way there keeps neither its watcher nor anybody else from
/// running. Dropping this drops the work when it rests next, and so does the end of its worker.
struct OnThread {
    ended: JoinHandle<()>,
    drops: DropGuard,
}

impl OnThread {
    fn begin(work: Work, worker: &CancellationToken) -> Self {
        let (dropped, runtime) = (worker.child_token(), Handle::current());
        let drops = dropped.clone().drop_guard();
        let run = dropped.run_until_cancelled_owned(Box::pin(run_to_the_end(work)));
        Self { ended: spawn_blocking(move || runtime.block_on(run).unwrap_or_default()), drops }
    }

    /// Leaves it to itself as long as its worker lives.
    fn leave(self) {
        self.drops.disarm();
    }
}

/// Runs a claimed job until it has ended, or until it is handed back or let go. `worker` fires when the worker is no more.
pub async fn run_claim(
    dependencies: Arc<Dependencies>,
    claim: Claim,
    lease: TimeDelta,
    halt: Halt,
    pulse: Pulse,
    worker: &CancellationToken,
) {
    let id = claim.id;
    let done = CancellationToken::new();
    // Also when this task panics or is dropped: a watcher left behind would keep the lease alive for ever, and nobody could
    // recover the job.
    let _ends_the_watcher = done.clone().drop_guard();
    let watching = watch(dependencies.store.clone(), claim.clone(), lease, halt.clone(), pulse.clone(), done.clone());
    let mut watcher = tokio::spawn(watching);
    let mut work = OnThread::begin(Work::new(dependencies, claim, halt, pulse), worker);
    tokio::select! {
        biased;
        ended = &mut work.ended => if let Err(error) = ended && error.is_panic() {
            resume_unwind(error.into_panic());
        },
        _ = &mut watcher => {
            tracing::error!(job = %id, "job {id} does not get on and does not give way; its lease is let go");
            // It cannot be ended. Should it come to itself, it can only add evidence for what it had begun.
            work.leave();
            return;
        }
    }
    done.cancel();
    let _ = watcher.await;
}

async fn run_to_the_end(work: Work) {
    let result = run_steps(&work).await;
    if let Err(error) = conclude(&work, result).await {
        // Nothing more can be written before the process ends; the lease expires and recovery accounts for the job.
        complain(format_args!("job {} could not be concluded", work.claim.id), &error);
    }
}

/// Goes on with the step that it was at whenever the database was in trouble.
async fn run_steps(work: &Work) -> Result<(), StepError> {
    let mut first = work.claim.step;
    loop {
        match run_from(work, first).await {
            Err(StepError::Store(error)) if error.unavailable().is_some() && !work.halt.give_up.is_cancelled() => {
                work.wait_for_database(&error).await?;
                first = work.patiently(|| work.pick_up()).await?;
            }
            ended => return ended,
        }
    }
}

async fn run_from(work: &Work, first: StepKind) -> Result<(), StepError> {
    for kind in StepKind::ALL.iter().copied().filter(|kind| *kind >= first) {
        work.check()?;
        match kind {
            StepKind::Collect => collect::run(work).await?,
            StepKind::Summarize => summarize::run(work).await?,
            StepKind::Save => save::run(work).await?,
            // Before a hold the save has given the job back; without one there is nothing to do here.
            StepKind::Hold if work.claim.spec.hold == Hold::None => {}
            StepKind::Hold => return Ok(()),
            StepKind::Email => email::run(work).await?,
        }
    }
    Ok(())
}

/// Writes how the claim ended. A cancel outweighs everything: a job that failed while it was asked to stop has stopped.
async fn conclude(work: &Work, result: Result<(), StepError>) -> Result<(), StoreError> {
    let reason = match result {
        Ok(()) => return Ok(()),
        Err(StepError::Failed(reason)) => Some(reason),
        Err(StepError::Stopped) => None,
        // There was no more time to wait for the database, or it says no to what the program asks: the lease expires, and recovery
        // counts this claim, so that this does not go on for ever.
        Err(StepError::Store(error @ StoreError::Driver(_))) => return Err(error),
        Err(StepError::Store(error)) => {
            tracing::error!(job = %work.claim.id, %error, "a step failed");
            Some("Something went wrong on our side. It has been written to the server's log.".into())
        }
    };
    loop {
        match write_end(work, reason.as_deref()).await {
            // The lease is kept alive meanwhile where that can be written, and nobody can recover the job where it cannot.
            Err(error) if error.unavailable().is_some() => {
                complain(format_args!("the end of a claim of job {} could not be written; trying again", work.claim.id), &error);
                if work.halt.give_up.run_until_cancelled(sleep(AGAIN)).await.is_none() {
                    return Err(error);
                }
            }
            written => return written,
        }
    }
}

async fn write_end(work: &Work, reason: Option<&str>) -> Result<(), StoreError> {
    let (id, epoch): (JobId, _) = (work.claim.id, work.claim.epoch);
    let Some(mut change) = work.dependencies.store.change_job(id).await? else { return Ok(()) };
    if change.job.leased && change.job.epoch == epoch {
        drop_unbegun(&mut change.job, epoch)?;
    }
    let refused = match (change.job.phase, reason) {
        (Phase::Stopping, _) => change.job.account(epoch),
        (Phase::Running, Some(reason)) => change.job.fail(epoch, reason),
        (Phase::Running, None) => change.job.release(epoch),
        _ => return Ok(()),
    };
    match refused {
        Ok(()) => {
            change.commit().await?;
            Ok(())
        }
        // Somebody else holds the job now: whatever is to be said about it, they say it.
        Err(Refusal::LeaseLost) => Ok(()),
        Err(other) => Err(other.into()),
    }
}
