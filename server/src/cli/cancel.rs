//! `recount cancel`: the Cancel button of the terminal.

use super::{DataFolder, open_store, say::say};
use anyhow::bail;
use contract::{headline, waiting_for, wording::cancel_answer};
use domain::id::JobId;
use std::process::ExitCode;

/// Arguments of `recount cancel`.
#[derive(Debug, clap::Args)]
pub struct Cancel {
    /// The job's id.
    id: String,
    #[command(flatten)]
    data: DataFolder,
}

impl Cancel {
    /// Records the cancel and says what it met. A repetition or a late one is no error.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Ok(id) = self.id.parse::<JobId>() else {
            bail!("\"{}\" is not the id of a job. It looks like 0192f3c4-7d1e-7a55-8000-000000000000.", self.id);
        };
        self.data.has_database()?;
        let store = open_store(&self.data, &self.data.settings()?).await?;
        let Some((answer, record)) = store.cancel_job(id, "the command line").await? else {
            bail!("There is no job {id} in {}.", self.data.path.display());
        };
        say!("{} {}", cancel_answer(answer, record.job.phase), headline(&record.job));
        if let Some(waiting) = waiting_for(&record.job) {
            say!("{waiting}");
        }
        Ok(ExitCode::SUCCESS)
    }
}
