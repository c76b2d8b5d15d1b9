//! `recount serve`: pages, API and, unless told otherwise, a worker in one process.

use super::{DataFolder, background::Background, demo, in_use::InUse, open_service, say::say, signals::Signals};
use crate::{
    descriptors,
    http::{
        AppState, PeopleState,
        connections::{self, BODY, HEAD, Limits},
        router,
    },
    service::first_admin::FirstAdmin,
    settings::FILE,
};
use anyhow::{Context, bail};
use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Arguments of `recount serve`.
#[derive(Debug, clap::Args)]
pub struct Serve {
    #[command(flatten)]
    data: DataFolder,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Serve the pages only; other processes on the same database work on the jobs.
    #[arg(long)]
    no_worker: bool,
    /// Add sample documents, an admin and a user, and print how to sign in. Only on this machine's own addresses.
    #[arg(long)]
    demo: bool,
}

/// How long open requests may take to end at a shutdown.
const LINGER: Duration = Duration::from_secs(5);
impl Serve {
    /// Serves until SIGTERM, SIGHUP or Ctrl-C. Jobs under way are then finished or handed back, never lost.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::catch()?;
        let descriptors = descriptors::raise_limit();
        let _in_use = InUse::together(&self.data.path)?;
        let mut settings = self.data.settings()?;
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
        let service = open_service(&self.data, settings, &public_url).await?;
        let store = service.store().clone();
        let limits = Limits {
            total: service.settings.server.connections.min(descriptors::for_connections(descriptors)).max(1),
            per_address: service.settings.server.connections_per_address.max(1),
            head: HEAD,
            body: BODY,
        };
        if self.demo {
            demo::people(&store).await?;
        } else {
            demo::refuse_people(&store).await?;
        }
        let first_admin = Arc::new(FirstAdmin::at_start(&store).await?);

        let shutdown = CancellationToken::new();
        let mut background = Background::start(&service, !self.no_worker, &service.settings, &shutdown);

        tracing::info!("listening on {address}");
        say!("Recount is at {public_url}");
        if let Some(code) = first_admin.code() {
            say!("Nobody can sign in yet. Open {public_url}/sign-in and make the first admin with the code {code}");
        }
        if self.demo {
            demo::print_sign_in();
        }
        let people = PeopleState { store: store.clone(), first_admin, secure: public_url.starts_with("https://") };
        let app = router(AppState::new(service, people, shutdown.clone()).listening_on(address), &public_url)?;
        let mut server = tokio::spawn(connections::serve(listener, app, limits, shutdown.clone()));

        let ended_early = tokio::select! {
            _ = signals.next() => None,
            ended = background.worker_ended() => { ended?; Some("the worker") }
            ended = &mut server => { ended?; Some("the web server") }
        };
        tracing::info!("stopping: jobs under way are finished or handed back");
        shutdown.cancel();
        if let Some(part) = ended_early {
            bail!("{part} has ended by itself; start Recount again");
        }
        // Open pages end while the worker hands its jobs back.
        let (handed_back, _) = tokio::join!(background.ended(), tokio::time::timeout(LINGER, server));
        handed_back?;
        store.close().await;
        Ok(ExitCode::SUCCESS)
    }
}
