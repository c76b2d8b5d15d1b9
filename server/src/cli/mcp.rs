//! `recount mcp`: an assistant on standard input and output, for one person. Its reports are made by this process as well, so
//! that they get done where no server runs.

use super::{DataFolder, background::Background, in_use::InUse, open_service, signals::Signals};
use crate::{
    http::session::viewer,
    mcp::{Ends, Principal, stdio},
};
use anyhow::{Context, bail};
use domain::people::{EmailAddress, Scopes};
use std::{process::ExitCode, time::Duration};
use store::Store;
use tokio::time::{sleep, timeout};

/// Arguments of `recount mcp`.
#[derive(Debug, clap::Args)]
pub struct Mcp {
    #[command(flatten)]
    data: DataFolder,
    /// Whose assistant it is: the address that the person signs in with
    #[arg(long, value_name = "EMAIL")]
    user: String,
}

/// How long a client that has closed its end may still take to read its answers. Clients kill a server that they have left
/// after about six seconds; that is for this and what follows.
const READ_ON: Duration = Duration::from_secs(1);
/// How long the worker may then take to hand its jobs back. What is not handed back is accounted for when its lease expires, as
/// after a power cut.
const HAND_BACK: Duration = Duration::from_secs(4);

impl Mcp {
    /// Serves until the end of the input, SIGTERM, SIGHUP or Ctrl-C. Jobs under way are then handed back, never lost.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::catch()?;
        self.data.has_database()?;
        let _in_use = InUse::together(&self.data.path)?;
        let settings = self.data.settings()?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| "http://127.0.0.1:3000".into());
        let service = open_service(&self.data, settings, &public_url).await?;
        let store = service.store().clone();
        let caller = self.caller(&store).await?;

        let ends = Ends::default();
        let mut background = Background::start(&service, true, &service.settings, &ends.shutdown);
        let mut serving = tokio::spawn(stdio::serve(service, caller, ends.clone()));
        let left = async {
            ends.left.cancelled().await;
            sleep(READ_ON).await;
        };
        let served = tokio::select! {
            served = &mut serving => served?,
            () = left => Ok(()),
            _ = signals.next() => Ok(()),
            ended = background.worker_ended() => {
                ended?;
                bail!("the worker has ended by itself; start it again");
            }
        };
        tracing::info!("stopping: jobs under way are finished or handed back");
        ends.shutdown.cancel();
        if let Ok(ended) = timeout(HAND_BACK, background.ended()).await {
            ended?;
        } else {
            tracing::warn!("jobs could not be handed back in time");
        }
        store.close().await;
        served?;
        Ok(ExitCode::SUCCESS)
    }

    async fn caller(&self, store: &Store) -> anyhow::Result<Principal> {
        let email = EmailAddress::parse(&self.user).with_context(|| format!("--user {}", self.user))?;
        let Some(user) = store.user_by_email(&email).await? else {
            bail!("Nobody has the address {email}. Add the person first: recount user add --email {email} --role user")
        };
        // Whoever can start this could read the database as well.
        Ok(Principal::new(viewer(user, None), Scopes::ALL))
    }
}
