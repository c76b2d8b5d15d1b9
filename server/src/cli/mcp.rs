//! `recount mcp`: an assistant on standard input and output, for one person. Its reports are made by this process as well, so
//! that they get done where no server runs.

use super::{
    DataFolder,
    background::{Background, Signals},
    in_use::InUse,
    open_desk,
};
use crate::{
    http::session::viewer,
    mcp::server::{Principal, stdio},
    people::{EmailAddress, Scopes},
    store::Store,
};
use anyhow::{Context, bail};
use std::{process::ExitCode, time::Duration};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Arguments of `recount mcp`.
#[derive(Debug, clap::Args)]
pub struct Mcp {
    #[command(flatten)]
    data: DataFolder,
    /// Whose assistant it is: the address that the person signs in with
    #[arg(long, value_name = "EMAIL")]
    user: String,
}

/// How long the worker may take to hand its jobs back. Clients kill a server that they have left after about six seconds; a
/// lease that is not handed back by then expires, and the job is accounted for as after a power cut.
const HAND_BACK: Duration = Duration::from_secs(4);

impl Mcp {
    /// Serves until the end of the input, SIGTERM or Ctrl-C. Jobs under way are then handed back, never lost.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut signals = Signals::catch()?;
        let _in_use = InUse::together(&self.data.path)?;
        let settings = self.data.settings()?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| "http://127.0.0.1:3000".into());
        let desk = open_desk(&self.data, settings, &public_url).await?;
        let store = desk.store().clone();
        let caller = self.caller(&store).await?;

        let shutdown = CancellationToken::new();
        let mut background = Background::start(&desk, true, &desk.settings, &shutdown);
        let serving = tokio::spawn(stdio::serve(desk, caller, shutdown.clone()));
        tokio::pin!(serving);
        let served = tokio::select! {
            served = &mut serving => Some(served?),
            () = signals.asked_to_stop() => None,
            ended = background.worker_ended() => {
                ended?;
                bail!("the worker has ended by itself; start it again");
            }
        };
        tracing::info!("stopping: jobs under way are finished or handed back");
        shutdown.cancel();
        let (handed_back, served) = tokio::join!(timeout(HAND_BACK, background.ended()), async {
            match served {
                Some(served) => served,
                None => serving.await?,
            }
        });
        // What is not handed back in time is accounted for when its lease expires.
        if let Ok(ended) = handed_back {
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
