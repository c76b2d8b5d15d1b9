//! The worker: claims jobs, runs each in a task of its own, and accounts for jobs whose worker has died.
//!
//! It subscribes to changes before it looks for work, so that a job that is created in between is not missed, and looks
//! again when a lease may have expired. Its own end waits for nothing that may not end.

use super::{
    Dependencies,
    mcp_calls::orphans,
    reconcile,
    run::run_claim,
    watch::{Halt, Pulse},
};
use chrono::TimeDelta;
use domain::id::JobId;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use store::{
    ClaimTerms, StoreError, complain,
    notifications::{JobChanged, work_waits},
    waiting_at_most,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Jobs at once in this process.
    pub concurrency: usize,
    /// Jobs of one person at once, on all machines together; `None` for no limit.
    pub per_person: Option<u32>,
    /// How long a claim holds without a sign of life.
    pub lease: TimeDelta,
    /// How long a shutdown waits for an answer of the mail server.
    pub grace: Duration,
    /// How long the work on a claim may show no sign that it gets on, beyond the longest times of what it has begun. Then its
    /// lease is let go.
    pub silence: Duration,
    /// Only this job.
    pub only: Option<JobId>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: 4,
            per_person: None,
            lease: TimeDelta::seconds(15),
            grace: Duration::from_secs(20),
            silence: Duration::from_mins(10),
            only: None,
        }
    }
}

/// A worker in this process.
pub struct Worker {
    dependencies: Arc<Dependencies>,
    options: WorkerOptions,
    name: String,
}

/// How long the end waits, after it has given up on every answer, for what is left to be written.
const LAST: Duration = Duration::from_secs(10);
/// The longest time between two looks for expired leases.
const SWEEP: Duration = Duration::from_secs(5);
/// The pause before the next sweep where something is overdue: somebody else is at it, or nobody can do anything about it.
const AGAIN: Duration = Duration::from_secs(1);

/// The jobs that this worker has a task for.
#[derive(Debug, Clone, Default)]
struct Running(Arc<Mutex<HashSet<JobId>>>);

/// Takes a job off the list again, also when its task panics.
struct Mark {
    running: Running,
    id: JobId,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, id: JobId) -> bool {
        self.lock().contains(&id)
    }

    fn enter(&self, id: JobId) -> Mark {
        self.lock().insert(id);
        Mark { running: self.clone(), id }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

impl Worker {
    /// A worker with a name of its own.
    pub fn new(dependencies: Arc<Dependencies>, options: WorkerOptions) -> Self {
        let name = format!("{}-{}", std::process::id(), uuid::Uuid::now_v7().simple());
        Self { dependencies, options, name }
    }

    /// Works until `shutdown`, then hands back what it has and waits until that is written. What does not come to its end within
    /// the grace and [`LAST`] is left to the expiry of its lease.
    pub async fn run(self, shutdown: CancellationToken) {
        let (give_up, over) = (CancellationToken::new(), CancellationToken::new());
        // Also when this is dropped: nothing that was let go may outlive its worker.
        let _ends_what_was_let_go = over.clone().drop_guard();
        let mut jobs = JoinSet::new();
        let running = Running::default();
        let reconciling = AbortOnDropHandle::new(tokio::spawn(reconcile::run(self.dependencies.clone(), shutdown.clone())));
        let ending_tasks = AbortOnDropHandle::new(tokio::spawn(orphans::run(self.dependencies.clone(), shutdown.clone())));
        let mut notifications = self.dependencies.store.notifications().subscribe();
        let mut next_sweep = Instant::now();
        let mut lenient_until = next_sweep;
        let mut announced = None;
        while !shutdown.is_cancelled() {
            if next_sweep <= Instant::now() {
                // A database that does not answer must not keep the process from shutting down.
                let Some(next) = shutdown.run_until_cancelled(Box::pin(self.sweep(&running, &mut lenient_until))).await else {
                    break;
                };
                next_sweep = next;
            }
            // What was announced before is found by the look for work.
            notifications = notifications.resubscribe();
            if let Err(error) = self.take_work(announced.take(), &mut jobs, &running, [&shutdown, &give_up, &over]).await {
                complain("looking for work failed; trying again soon", &error);
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                Some(ended) = jobs.join_next() => {
                    report_panic(ended);
                    // It may have begun a hold.
                    next_sweep = self.next_sweep().await.min(next_sweep);
                }
                waiting = work_waits(&mut notifications), if jobs.len() < self.options.concurrency => announced = waiting,
                () = sleep_until(next_sweep) => {}
            }
        }
        let handing_back = async {
            while let Some(ended) = jobs.join_next().await {
                report_panic(ended);
            }
            if let Err(error) = reconciling.await {
                tracing::error!(%error, "the reconciliation ended abnormally");
            }
            if let Err(error) = ending_tasks.await {
                tracing::error!(%error, "the sweep of servers' tasks ended abnormally");
            }
        };
        let losing_patience = async {
            sleep(self.options.grace).await;
            give_up.cancel();
            sleep(LAST).await;
        };
        tokio::select! {
            biased;
            () = handing_back => {}
            () = losing_patience => {
                let left: Vec<String> = running.lock().iter().map(ToString::to_string).collect();
                tracing::warn!(jobs = left.join(" "), "not everything has come to its end; what is left goes on when its lease has expired");
            }
        }
    }

    /// Does what is due. Returns when to do so again.
    ///
    /// A lease that ran out while the database was in trouble says nothing about its worker, who could not prolong it either:
    /// nobody is taken for dead until that could be done again for as long as a lease lasts.
    async fn sweep(&self, running: &Running, lenient_until: &mut Instant) -> Instant {
        let is_lenient = Instant::now() < *lenient_until;
        if let Err(error) = self.end_overdue(running, is_lenient).await {
            complain("looking for dead workers and ended holds failed; trying again soon", &error);
            if error.unavailable().is_some() {
                *lenient_until = Instant::now() + self.options.lease.to_std().unwrap_or_default();
            }
        }
        self.next_sweep().await
    }

    /// Accounts for dead workers, and ends the holds whose time has come.
    async fn end_overdue(&self, running: &Running, is_lenient: bool) -> Result<(), StoreError> {
        let store = &self.dependencies.store;
        for id in store.expired_leases().await? {
            // A job of our own whose lease has run out (the machine slept) has a live task: its next heartbeat tells.
            if !is_lenient && !running.contains(id) {
                // Not behind others who write: one of them may be its worker.
                Box::pin(waiting_at_most(AGAIN, self.recover(id))).await?;
            }
        }
        store.end_due_holds().await
    }

    /// Takes jobs as long as there is room, and first the one that was announced: no look is needed for that.
    async fn take_work(
        &self,
        mut announced: Option<JobChanged>,
        jobs: &mut JoinSet<()>,
        running: &Running,
        [shutdown, give_up, over]: [&CancellationToken; 3],
    ) -> Result<(), StoreError> {
        let store = &self.dependencies.store;
        let WorkerOptions { lease, per_person, only, silence, .. } = self.options;
        let terms = ClaimTerms { lease, per_person, only };
        while jobs.len() < self.options.concurrency {
            let mut claim = match announced.take() {
                Some(job) => store.claim_announced(job, &self.name, terms).await?,
                None => None,
            };
            if claim.is_none() {
                claim = store.claim_job(&self.name, terms).await?;
            }
            let Some(claim) = claim else { break };
            let halt = Halt { stop: CancellationToken::new(), shutdown: shutdown.clone(), give_up: give_up.clone() };
            let (dependencies, mark) = (self.dependencies.clone(), running.enter(claim.id));
            let (pulse, over) = (Pulse::new(silence), over.clone());
            jobs.spawn(async move {
                run_claim(dependencies, claim, lease, halt, pulse, &over).await;
                drop(mark);
            });
        }
        Ok(())
    }

    /// Accounts for a job whose worker died. Unavailable with one job must not keep the others from being worked on.
    async fn recover(&self, id: JobId) -> Result<(), StoreError> {
        match self.dependencies.store.recover_job(id).await {
            Ok(Some(recovery)) => tracing::warn!(job = %id, ?recovery, "the worker of job {id} died; accounted for it"),
            Ok(None) => {}
            Err(error) if error.unavailable().is_some() => return Err(error),
            Err(error) => complain(format_args!("job {id} could not be accounted for"), &error),
        }
        Ok(())
    }

    /// When something may happen that nobody announces.
    async fn next_sweep(&self) -> Instant {
        let due = self.dependencies.store.next_due().await.ok().flatten();
        let pause = due.map(|left| (left + TimeDelta::milliseconds(50)).to_std().unwrap_or(AGAIN));
        Instant::now() + pause.unwrap_or(SWEEP).min(SWEEP)
    }
}

/// A panic ends the task of one job; its lease expires and recovery accounts for it, as for any worker that died.
fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a job's task ended abnormally");
    }
}
