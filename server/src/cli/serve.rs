//! `recount serve`: pages, API and worker in one process.

use super::{DataFolder, demo, in_use::InUse, open_desk};
use crate::{
    http::{AppState, PeopleState, router},
    job::{Worker, WorkerOptions},
    people::first_admin::FirstAdmin,
    settings::{FILE, Settings},
    store::Store,
};
use anyhow::{Context, bail};
use chrono::{DateTime, Months, TimeDelta};
use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// Arguments of `recount serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    #[command(flatten)]
    data: DataFolder,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Add sample documents, an admin and a user, and print how to sign in. Only on this machine's own addresses.
    #[arg(long)]
    demo: bool,
}

/// How long open requests may take to end at a shutdown.
const LINGER: Duration = Duration::from_secs(5);
/// How long a form that was not sent is kept.
const KEEP_DRAFTS: TimeDelta = TimeDelta::days(7);
const CLEAN_EVERY: Duration = Duration::from_hours(6);

impl Serve {
    /// Serves until SIGTERM or Ctrl-C. Jobs under way are then finished or handed back, never lost.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::catch()?;
        let _in_use = InUse::together(&self.data.path)?;
        let mut settings = Settings::load(&self.data.path)?;
        if self.listen.ip().is_unspecified() && settings.public_url.is_none() {
            bail!("Tell Recount where people reach it: set public_url in {FILE}. Links in e-mails begin with it.");
        }
        if self.demo {
            if !self.listen.ip().is_loopback() {
                bail!(
                    "--demo has passwords that everybody knows, so it only listens on this machine: use --listen 127.0.0.1:3000."
                );
            }
            settings.sources.extend(demo::documents(&self.data.path)?);
        }
        let listener = TcpListener::bind(self.listen).await.with_context(|| format!("{} cannot be listened on", self.listen))?;
        let address = listener.local_addr()?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let options = WorkerOptions {
            concurrency: settings.worker.concurrency.max(1),
            lease: TimeDelta::seconds(settings.worker.lease_seconds.max(3).into()),
            grace: Duration::from_secs(settings.worker.grace_seconds.into()),
            only: None,
        };
        let keep_effects = Months::new(settings.history.keep_months.max(1));
        let desk = open_desk(&self.data.path, settings, &public_url).await?;
        let store = desk.store().clone();
        if self.demo {
            demo::people(&store).await?;
        } else {
            demo::refuse_people(&store).await?;
        }
        let first_admin = Arc::new(FirstAdmin::at_start(&store).await?);

        let shutdown = CancellationToken::new();
        let mut worker = tokio::spawn(Worker::new(desk.services.clone(), options).run(shutdown.clone()));
        let relay = tokio::spawn({
            let (store, shutdown) = (store.clone(), shutdown.clone());
            async move {
                if let Err(error) = store.relay_foreign_changes(shutdown).await {
                    tracing::error!(%error, "changes by other processes are no longer noticed at once");
                }
            }
        });

        let cleaner = tokio::spawn(clean(store.clone(), keep_effects, shutdown.clone()));

        println!("Recount is at {public_url}");
        if let Some(code) = first_admin.code() {
            println!("Nobody can sign in yet. Open {public_url}/sign-in and make the first admin with the code {code}");
        }
        if self.demo {
            demo::print_sign_in();
        }
        let people = PeopleState {
            store: store.clone(),
            flashes: desk.flashes.clone(),
            first_admin,
            secure: public_url.starts_with("https://"),
        };
        let app = router(AppState::new(desk, people, shutdown.clone()), &public_url)?;
        let serving = axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(shutdown.clone().cancelled_owned());
        let mut server = tokio::spawn(serving.into_future());

        let ended_early = tokio::select! {
            () = signals.asked_to_stop() => None,
            ended = &mut worker => { ended?; Some("the worker") }
            ended = &mut server => { ended??; Some("the web server") }
        };
        tracing::info!("stopping: jobs under way are finished or handed back");
        shutdown.cancel();
        if let Some(part) = ended_early {
            bail!("{part} has ended by itself; start Recount again");
        }
        worker.await?;
        let _ = tokio::time::timeout(LINGER, server).await;
        let _ = relay.await;
        let _ = cleaner.await;
        store.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

/// Forgets forms that were left lying, and effects of deleted jobs that are old enough, at the start and every few hours, until
/// `stop`.
async fn clean(store: Store, keep_effects: Months, stop: CancellationToken) {
    loop {
        let horizon = store.clock().now().checked_sub_months(keep_effects);
        match store.forget_effects(horizon.unwrap_or(DateTime::UNIX_EPOCH)).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot {count} old effects of deleted jobs"),
            Err(error) => tracing::warn!(%error, "old effects could not be forgotten"),
        }
        match store.clean_drafts(store.clock().now() - KEEP_DRAFTS).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot {count} forms and files that never became a job"),
            Err(error) => tracing::warn!(%error, "forms that were left lying could not be removed"),
        }
        if stop.run_until_cancelled(tokio::time::sleep(CLEAN_EVERY)).await.is_none() {
            return;
        }
    }
}

/// The signals that end the server, caught from the start so that none of them cuts off a job.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn asked_to_stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
