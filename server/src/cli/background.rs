//! What runs beside the pages, or without them: the worker, the relay of changes between processes, and the cleaner.

use crate::{
    service::Service,
    settings::Settings,
    worker::{Worker, WorkerOptions},
};
use chrono::{DateTime, Months, TimeDelta};
use std::time::Duration;
use store::{Store, complain};
use tokio::{
    task::{JoinError, JoinHandle},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How long a form that was not sent is kept.
const KEEP_DRAFTS: TimeDelta = TimeDelta::days(7);
/// How long an object that no row names stays in the file store: no upload takes that long, nor do clocks differ so much.
const KEEP_UNNAMED_FILES: TimeDelta = TimeDelta::days(1);
const CLEAN_EVERY: Duration = Duration::from_hours(6);
/// How long a shutdown waits for what nothing depends on.
const LINGER: Duration = Duration::from_secs(5);

/// The tasks in the background.
pub struct Background {
    /// `None`: this process serves pages only.
    worker: Option<JoinHandle<()>>,
    relay: JoinHandle<()>,
    cleaner: JoinHandle<()>,
}

/// How every worker of the program works, whichever command has started it.
pub fn worker_options(settings: &Settings) -> WorkerOptions {
    WorkerOptions {
        concurrency: settings.worker.concurrency.max(1),
        per_person: Some(settings.worker.per_person.max(1)),
        lease: TimeDelta::seconds(settings.worker.lease_seconds.max(3).into()),
        grace: Duration::from_secs(settings.worker.grace_seconds.into()),
        ..WorkerOptions::default()
    }
}

impl Background {
    /// Starts them; they end at `shutdown`.
    pub fn start(service: &Service, works: bool, settings: &Settings, shutdown: &CancellationToken) -> Self {
        let options = worker_options(settings);
        let keep_effects = Months::new(settings.history.keep_months.max(1));
        let store = service.store().clone();
        let relay = tokio::spawn({
            let (store, shutdown) = (store.clone(), shutdown.clone());
            async move { store.relay_foreign_changes(shutdown).await }
        });
        let worker = works.then(|| tokio::spawn(Worker::new(service.dependencies.clone(), options).run(shutdown.clone())));
        Self { worker, relay, cleaner: tokio::spawn(clean(store, keep_effects, shutdown.clone())) }
    }

    /// Waits until the worker ends, which it never does by itself.
    pub async fn worker_ended(&mut self) -> Result<(), JoinError> {
        match &mut self.worker {
            Some(worker) => worker.await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the worker has handed back what it had, and a little for the rest. `shutdown` must have fired.
    pub async fn ended(self) -> Result<(), JoinError> {
        if let Some(worker) = self.worker {
            worker.await?;
        }
        let rest = async {
            self.relay.await?;
            self.cleaner.await
        };
        timeout(LINGER, rest).await.unwrap_or_else(|_| {
            tracing::warn!("the relay of changes, or the cleaner, does not end; nobody waits for them");
            Ok(())
        })
    }
}

/// Forgets forms that were left lying, effects of deleted jobs that are old enough, and files that nothing belongs to, at the
/// start and every few hours, until `stop`.
async fn clean(store: Store, keep_effects: Months, stop: CancellationToken) {
    loop {
        let horizon = store.clock().now().checked_sub_months(keep_effects);
        match store.forget_effects(horizon.unwrap_or(DateTime::UNIX_EPOCH)).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot {count} old effects of deleted jobs"),
            Err(error) => complain("old effects could not be forgotten", &error),
        }
        match store.clean_drafts(store.clock().now() - KEEP_DRAFTS).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot {count} forms and files that never became a job"),
            Err(error) => complain("forms that were left lying could not be removed", &error),
        }
        match store.clean_files(store.clock().now() - KEEP_UNNAMED_FILES).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "removed {count} files that nothing belongs to from the file store"),
            Err(error) => tracing::warn!(%error, "the file store could not be tidied up"),
        }
        if stop.run_until_cancelled(tokio::time::sleep(CLEAN_EVERY)).await.is_none() {
            return;
        }
    }
}
