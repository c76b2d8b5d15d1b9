//! The record of calls to MCP servers: each is written down before it begins and after it has ended, with the handle of the
//! server's own task where it has answered with one. A worker that has lost its job, or whose job is to stop, begins none.

use super::{
    JobTx, Store, StoreError,
    db::{Tx, read, within},
    text::storable,
};
use chrono::{DateTime, Utc};
use contract::{Epoch, Refusal};
use domain::id::JobId;
use sqlx::FromRow;

/// A call that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCall {
    /// The source's id in the settings, and the name that people see.
    pub source_id: String,
    pub source: String,
    /// `stdio` or `http`.
    pub transport: &'static str,
    pub method: &'static str,
    /// The tool, or the URI of the resource.
    pub target: String,
    /// Equal for equal calls.
    pub fingerprint: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    Running,
    Answered,
    Failed,
    TimedOut,
    Cancelled,
    /// Nobody knows: its worker is gone.
    Abandoned,
}

impl CallState {
    const ALL: [Self; 6] = [Self::Running, Self::Answered, Self::Failed, Self::TimedOut, Self::Cancelled, Self::Abandoned];

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    pub number: u32,
    pub state: CallState,
    /// In words; never what the server gave.
    pub detail: Option<String>,
}

/// A call as it is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    pub number: u32,
    pub source: String,
    pub transport: String,
    pub method: String,
    pub target: String,
    pub state: CallState,
    pub detail: Option<String>,
    pub task_id: Option<String>,
    pub task_status: Option<String>,
    pub task_ended: bool,
}

/// A server's task that has not been seen to end.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct OpenTask {
    pub job_id: JobId,
    pub number: i64,
    pub source_id: String,
    pub source: String,
    pub task_id: String,
    pub started_at: DateTime<Utc>,
}

#[derive(FromRow)]
struct CallColumns {
    number: i64,
    source: String,
    transport: String,
    method: String,
    target: String,
    state: String,
    detail: Option<String>,
    task_id: Option<String>,
    task_status: Option<String>,
    task_ended_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Writes down that a call begins, and first how the one before it has ended. Refused once the job is to stop, or is another
    /// worker's.
    pub async fn begin_call(&self, job: JobId, epoch: Epoch, ended: Option<&CallEnd>, call: &NewCall) -> Result<u32, StoreError> {
        let now = self.clock.now();
        let mut tx = self.db.begin_on_job(job).await?;
        if let Some(ended) = ended {
            end(&mut tx, job, epoch, ended, now).await?;
        }
        let number: Option<i64> = within!(tx, conn => {
            sqlx::query_scalar(
                "insert into mcp_calls (job_id, number, epoch, source_id, source, transport, method, target, fingerprint, state, started_at)
                 select id, (select coalesce(max(number), 0) + 1 from mcp_calls where job_id = $1), $2, $3, $4, $5, $6, $7, $8, 'running', $9
                 from jobs where id = $1 and epoch = $2 and lease_owner is not null and cancel_requested_at is null
                 returning number",
            )
            .bind(job).bind(i64::from(epoch)).bind(&call.source_id).bind(storable(&call.source)).bind(call.transport).bind(call.method)
            .bind(storable(&call.target)).bind(&call.fingerprint).bind(now)
            .fetch_optional(conn)
            .await
        })?;
        tx.commit().await?;
        number.and_then(|number| u32::try_from(number).ok()).ok_or(StoreError::Refused(Refusal::CancelRequested))
    }

    /// Writes down how a call ended. A call that was accounted for meanwhile stays as it is.
    pub async fn end_call(&self, job: JobId, epoch: Epoch, ended: &CallEnd) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        end(&mut tx, job, epoch, ended, self.clock.now()).await?;
        Ok(tx.commit().await?)
    }

    /// Writes down the handle of a server's task, before anything else is done with it. Returns whether this worker may go on
    /// with it.
    pub async fn keep_task(&self, job: JobId, epoch: Epoch, number: u32, task: &str, status: &str) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query("update mcp_calls set task_id = $4, task_status = $5 where job_id = $1 and epoch = $2 and number = $3")
                .bind(job).bind(i64::from(epoch)).bind(i64::from(number)).bind(storable(task)).bind(storable(status))
                .execute(conn)
                .await
                .map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(rows == 1)
    }

    /// Writes down the last status of a task that was seen, and whether nothing more is to be seen. Returns whether it had not
    /// been said before that it has ended.
    pub async fn task_seen(&self, job: JobId, number: u32, status: &str, ended: bool) -> Result<bool, StoreError> {
        let now = ended.then(|| self.clock.now());
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query(
                "update mcp_calls set task_status = $3, task_ended_at = $4
                 where job_id = $1 and number = $2 and task_id is not null and task_ended_at is null",
            )
            .bind(job).bind(i64::from(number)).bind(storable(status)).bind(now)
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(rows == 1)
    }

    /// Takes over the open task of the same call, which an earlier claim of this job has left behind.
    pub async fn adopt_task(&self, job: JobId, epoch: Epoch, call: &NewCall) -> Result<Option<(u32, String)>, StoreError> {
        let mut tx = self.db.begin_on_job(job).await?;
        let found: Option<(i64, String)> = within!(tx, conn => {
            sqlx::query_as(
                "update mcp_calls set epoch = $2, state = 'running', ended_at = null, detail = null
                 where job_id = $1 and number =
                         (select min(number) from mcp_calls
                          where job_id = $1 and epoch < $2 and source_id = $3 and fingerprint = $4 and transport = 'http' and state = 'abandoned'
                            and task_id is not null and task_ended_at is null)
                   and exists (select 1 from jobs where id = $1 and epoch = $2 and lease_owner is not null and cancel_requested_at is null)
                 returning number, task_id",
            )
            .bind(job).bind(i64::from(epoch)).bind(&call.source_id).bind(&call.fingerprint)
            .fetch_optional(conn)
            .await
        })?;
        tx.commit().await?;
        Ok(found.and_then(|(number, task)| Some((u32::try_from(number).ok()?, task))))
    }

    /// Tasks that were left open by jobs that have ended, the oldest first.
    pub async fn orphaned_tasks(&self) -> Result<Vec<OpenTask>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "select calls.job_id, calls.number, calls.source_id, calls.source, calls.task_id, calls.started_at
                 from mcp_calls calls join jobs on jobs.id = calls.job_id
                 where calls.task_id is not null and calls.task_ended_at is null and jobs.finished_at is not null
                 order by calls.started_at limit 100",
            )
            .fetch_all(conn)
            .await
        })?)
    }

    /// The calls of a job, in the order in which they began.
    pub async fn mcp_calls(&self, job: JobId) -> Result<Vec<CallRecord>, StoreError> {
        let rows: Vec<CallColumns> = read!(self.db, conn => {
            sqlx::query_as(
                "select number, source, transport, method, target, state, detail, task_id, task_status, task_ended_at
                 from mcp_calls where job_id = $1 order by number",
            )
            .bind(job)
            .fetch_all(conn)
            .await
        })?;
        rows.into_iter()
            .map(|row| {
                let wrong =
                    |column| StoreError::Inconsistent { table: "mcp_calls", column, row: format!("{job}/{}", row.number) };
                Ok(CallRecord {
                    number: u32::try_from(row.number).map_err(|_| wrong("number"))?,
                    state: CallState::ALL.into_iter().find(|state| state.name() == row.state).ok_or_else(|| wrong("state"))?,
                    source: row.source,
                    transport: row.transport,
                    method: row.method,
                    target: row.target,
                    detail: row.detail,
                    task_id: row.task_id,
                    task_status: row.task_status,
                    task_ended: row.task_ended_at.is_some(),
                })
            })
            .collect()
    }
}

impl JobTx {
    /// Like [`Store::end_call`], together with what the history says about it.
    pub async fn end_call(&mut self, epoch: Epoch, ended: &CallEnd) -> Result<(), StoreError> {
        let (id, now) = (self.row().id, self.now);
        end(&mut self.tx, id, epoch, ended, now).await
    }

    /// Accounts for the calls of a claim that has nothing under way any more, and whose ends could not be written.
    pub async fn leave_calls(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let (id, now) = (self.row().id, self.now);
        Ok(within!(self.tx, conn => {
            sqlx::query(
                "update mcp_calls
                 set state = 'abandoned', ended_at = $3, detail = 'the database was in trouble',
                     task_ended_at = case when task_id is not null and transport = 'stdio' then coalesce(task_ended_at, $3) else task_ended_at end
                 where job_id = $1 and epoch = $2 and state = 'running'",
            )
            .bind(id).bind(i64::from(epoch)).bind(now)
            .execute(conn)
            .await
            .map(drop)
        })?)
    }

    /// Accounts for the calls of a worker that is gone. A task of a program on its machine has gone with it; one of a server
    /// elsewhere may go on.
    pub(super) async fn abandon_calls(&mut self) -> Result<(), StoreError> {
        let (id, now) = (self.row().id, self.now);
        let abandoned: Vec<(String, Option<String>, String)> = within!(self.tx, conn => {
            sqlx::query_as(
                "update mcp_calls
                 set state = 'abandoned', ended_at = $2, detail = 'its worker was not heard of any more',
                     task_ended_at = case when task_id is not null and transport = 'stdio' then coalesce(task_ended_at, $2) else task_ended_at end
                 where job_id = $1 and state = 'running'
                 returning source, task_id, transport",
            )
            .bind(id).bind(now)
            .fetch_all(conn)
            .await
        })?;
        for (source, task, transport) in abandoned {
            self.note(match (task, transport.as_str()) {
                (None, _) => format!("The call to {source} was abandoned with it"),
                (Some(_), "stdio") => format!("The call to {source} was abandoned with it; its task ended with its program"),
                (Some(_), _) => format!("The call to {source} was abandoned with it; its task may go on there"),
            });
        }
        Ok(())
    }
}

async fn end(tx: &mut Tx, job: JobId, epoch: Epoch, ended: &CallEnd, now: DateTime<Utc>) -> Result<(), StoreError> {
    Ok(within!(*tx, conn => {
        sqlx::query(
            "update mcp_calls set state = $4, detail = $5, ended_at = $6 where job_id = $1 and epoch = $2 and number = $3 and state = 'running'",
        )
        .bind(job).bind(i64::from(epoch)).bind(i64::from(ended.number)).bind(ended.state.name())
        .bind(ended.detail.as_deref().map(storable)).bind(now)
        .execute(conn)
        .await
        .map(drop)
    })?)
}
