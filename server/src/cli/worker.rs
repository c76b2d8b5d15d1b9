//! `recount worker`: works on jobs without serving pages, for further machines on the same database.

use super::{DataFolder, background::Background, in_use::InUse, open_service, say::say, signals::Signals};
use crate::settings::FILE;
use anyhow::bail;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

/// Arguments of `recount worker`.
#[derive(Debug, clap::Args)]
pub struct Worker {
    #[command(flatten)]
    data: DataFolder,
}

impl Worker {
    /// Works until SIGTERM, SIGHUP or Ctrl-C. Jobs under way are then finished or handed back, never lost.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::catch()?;
        self.data.has_database()?;
        let _in_use = InUse::together(&self.data.path)?;
        let settings = self.data.settings()?;
        let Some(public_url) = settings.public_url.clone() else {
            bail!("Tell the worker where people reach Recount: set public_url in {FILE}. Links in e-mails begin with it.");
        };
        let service = open_service(&self.data, settings, &public_url).await?;
        let store = service.store().clone();
        let shutdown = CancellationToken::new();
        let mut background = Background::start(&service, true, &service.settings, &shutdown);
        say!("Recount works on the jobs of {public_url}");
        let ended_early = tokio::select! {
            _ = signals.next() => false,
            ended = background.worker_ended() => { ended?; true }
        };
        tracing::info!("stopping: jobs under way are finished or handed back");
        shutdown.cancel();
        if ended_early {
            bail!("the worker has ended by itself; start it again");
        }
        background.ended().await?;
        store.close().await;
        Ok(ExitCode::SUCCESS)
    }
}
