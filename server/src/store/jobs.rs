//! Jobs: creating, reading, and the one way to change them.
//!
//! Every change of a job goes through [`JobTx`]: it loads the record under the database's write lock, a transition of the
//! contract is applied to it, and `commit` stores what differs, with the history, under the condition that the record still
//! has the version that was read. Cancel and every commit of a worker are therefore transactions on the same row, and
//! one of the two comes first.

use super::{
    Store, StoreError,
    db::{Tx, read, within},
    error::one_row,
    record::{JobRow, Record, load},
};
use crate::{
    bus::JobChanged,
    id::{JobId, ReportId, RequestKey, UserId},
    job::{Hold, Spec},
};
use app::contract::{CancelAnswer, Change, EffectKind, Epoch, Job, Phase, Recovery, StepKind, StepState, changes};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashMap;

/// What a worker holds after claiming a job.
#[derive(Debug, Clone)]
pub struct Claim {
    pub id: JobId,
    pub epoch: Epoch,
    pub spec: Spec,
    /// The step that the claim started.
    pub step: StepKind,
}

/// What a heartbeat learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heartbeat {
    /// The lease is prolonged, and nobody has asked to stop.
    GoOn,
    /// The lease is prolonged, and a cancel is requested.
    Stop,
    /// The lease is somebody else's now, or the job has ended.
    Lost,
}

/// A change of one job under way.
#[derive(Debug)]
pub struct JobTx {
    pub(super) tx: Tx,
    before: Record,
    /// The record; apply the contract's transitions to it.
    pub job: Job,
    /// The instant that the change is stamped with.
    pub now: DateTime<Utc>,
    lease: Option<(String, DateTime<Utc>)>,
    cancel: Option<(DateTime<Utc>, String)>,
    targets: HashMap<u32, String>,
    notes: Vec<String>,
    bus: crate::bus::Bus,
}

impl Store {
    /// Creates a job, or finds the one that this request has already made.
    pub async fn create_job(&self, owner: UserId, key: RequestKey, spec: &Spec) -> Result<(JobId, bool), StoreError> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let existing: Option<JobId> = within!(tx, conn => {
            sqlx::query_scalar("select id from jobs where owner_id = $1 and request_key = $2")
                .bind(owner)
                .bind(key)
                .fetch_optional(conn)
                .await
        })?;
        if let Some(id) = existing {
            return Ok((id, false));
        }
        let id = JobId::new();
        let recipients = u32::try_from(spec.recipients.len()).unwrap_or(u32::MAX);
        let job = Job::create(recipients, spec.hold != Hold::None);
        let spec_json = serde_json::to_string(spec)?;
        within!(tx, conn => {
            sqlx::query(
                "insert into jobs (id, owner_id, request_key, title, month, spec, phase, version, epoch, lost_claims, created_at)
                 values ($1, $2, $3, $4, $5, $6, $7, 1, 0, 0, $8)",
            )
            .bind(id).bind(owner).bind(key).bind(&spec.title).bind(spec.month.to_string()).bind(spec_json)
            .bind(job.phase.name()).bind(now)
            .execute(conn)
            .await
        })?;
        for (position, step) in (0_i64..).zip(&job.steps) {
            within!(tx, conn => {
                sqlx::query("insert into steps (job_id, position, kind, state, done, total) values ($1, $2, $3, $4, 0, 0)")
                    .bind(id).bind(position).bind(step.kind.name()).bind(step.state.name())
                    .execute(conn)
                    .await
            })?;
        }
        let mut recipients = spec.recipients.iter();
        for effect in &job.effects {
            let (target, message_id) = match effect.kind {
                EffectKind::Email => (recipients.next().cloned().unwrap_or_default(), Some(self.new_message_id())),
                EffectKind::Report => (spec.title.clone(), None),
                EffectKind::ModelCall => (String::new(), None),
            };
            insert_effect(&mut tx, id, effect, &target, message_id, now).await?;
        }
        remember(&mut tx, id, now, None, "Created").await?;
        tx.commit().await?;
        self.bus.publish(JobChanged { id, version: 1 });
        Ok((id, true))
    }

    /// One job with its steps and effects.
    pub async fn job(&self, id: JobId) -> Result<Option<Record>, StoreError> {
        load(&mut self.db.snapshot().await?, id).await
    }

    /// The version of a job's record, and whether it has ended.
    pub async fn job_version(&self, id: JobId) -> Result<Option<(i64, bool)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select version, finished_at is not null from jobs where id = $1").bind(id).fetch_optional(conn).await
        })?)
    }

    /// The job that a request has made, if it has made one.
    pub async fn job_of_request(&self, owner: UserId, key: RequestKey) -> Result<Option<JobId>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where owner_id = $1 and request_key = $2")
                .bind(owner).bind(key).fetch_optional(conn).await
        })?)
    }

    /// The newest jobs before `before`: of `owner`, or of everybody.
    pub async fn jobs(
        &self,
        owner: Option<UserId>,
        phase: Option<Phase>,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let ids: Vec<JobId> = read!(self.db, conn => {
            sqlx::query_scalar(
                "select id from jobs
                 where ($1 is null or owner_id = $1) and ($2 is null or phase = $2) and ($3 is null or id < $3)
                 order by id desc limit $4",
            )
            .bind(owner).bind(phase.map(Phase::name)).bind(before).bind(i64::from(limit))
            .fetch_all(conn)
            .await
        })?;
        let mut records = Vec::with_capacity(ids.len());
        for id in ids {
            records.extend(self.job(id).await?);
        }
        Ok(records)
    }

    /// The history of a job, oldest first.
    pub async fn history(&self, id: JobId) -> Result<Vec<(DateTime<Utc>, String)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select at, entry from history where job_id = $1 order by id").bind(id).fetch_all(conn).await
        })?)
    }

    /// Opens a change of a job; `None` if there is no such job.
    pub async fn change_job(&self, id: JobId) -> Result<Option<JobTx>, StoreError> {
        let mut tx = self.db.begin().await?;
        let record = load(&mut tx, id).await?;
        Ok(record.map(|before| JobTx {
            tx,
            job: before.job.clone(),
            lease: before.row.lease_owner.clone().zip(before.row.lease_expires_at),
            cancel: before.row.cancel_requested_at.zip(before.row.cancel_requested_by.clone()),
            before,
            now: self.clock.now(),
            targets: HashMap::new(),
            notes: Vec::new(),
            bus: self.bus.clone(),
        }))
    }

    /// Somebody presses Cancel. Writes at most once per job; a repetition or a late one is recorded in the history.
    pub async fn cancel_job(&self, id: JobId, by: &str) -> Result<Option<(CancelAnswer, Record)>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        let answer = change.job.cancel();
        match answer {
            CancelAnswer::Accepted => change.cancel = Some((change.now, by.to_owned())),
            CancelAnswer::AlreadyRequested => change.note(format!("Cancel pressed again by {by}")),
            CancelAnswer::TooLate => change.note(format!("Cancel by {by} arrived late; the job had already ended")),
        }
        change.commit().await?;
        Ok(self.job(id).await?.map(|record| (answer, record)))
    }

    /// Takes the oldest job that waits for a worker; `only` restricts the search to one job. A job whose rows cannot be
    /// understood is passed over, so that it does not keep the others waiting.
    pub async fn claim_job(&self, worker: &str, lease: TimeDelta, only: Option<JobId>) -> Result<Option<Claim>, StoreError> {
        let mut after = None;
        // A look without the write lock first: most of the time there is nothing to take.
        while let Some(id) = self.next_waiting(only, after).await? {
            match self.claim_this(id, worker, lease).await {
                Ok(Some(claim)) => return Ok(Some(claim)),
                // Another worker was quicker.
                Ok(None) | Err(StoreError::Refused(_)) => {}
                Err(error @ StoreError::Inconsistent { .. }) => {
                    tracing::error!(job = %id, %error, "job {id} cannot be understood and is passed over");
                }
                Err(error) => return Err(error),
            }
            after = Some(id);
        }
        Ok(None)
    }

    async fn next_waiting(&self, only: Option<JobId>, after: Option<JobId>) -> Result<Option<JobId>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar(
                "select id from jobs
                 where finished_at is null and (phase = 'queued' or (phase = 'running' and lease_owner is null))
                   and ($1 is null or id = $1) and ($2 is null or id > $2)
                   and not exists (select 1 from steps where steps.job_id = jobs.id and steps.kind = 'hold' and steps.state = 'running')
                 order by id limit 1",
            )
            .bind(only).bind(after)
            .fetch_optional(conn)
            .await
        })?)
    }

    async fn claim_this(&self, id: JobId, worker: &str, lease: TimeDelta) -> Result<Option<Claim>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        let epoch = change.job.claim()?;
        let step = change.job.current_step().unwrap_or(StepKind::Collect);
        change.lease = Some((worker.to_owned(), change.now + lease));
        change.note(format!("Taken by worker {worker}"));
        let spec = change.before.row.spec.clone();
        change.commit().await?;
        Ok(Some(Claim { id, epoch, spec, step }))
    }

    /// Prolongs a lease and tells whether to go on. Does not change the record's version: nothing that a page shows changed.
    pub async fn heartbeat(&self, id: JobId, epoch: Epoch, lease: TimeDelta) -> Result<Heartbeat, StoreError> {
        let until = self.clock.now() + lease;
        let mut tx = self.db.begin().await?;
        let row: Option<(Option<DateTime<Utc>>,)> = within!(tx, conn => {
            sqlx::query_as(
                "update jobs set lease_expires_at = $3
                 where id = $1 and epoch = $2 and lease_owner is not null
                 returning cancel_requested_at",
            )
            .bind(id).bind(i64::from(epoch)).bind(until)
            .fetch_optional(conn)
            .await
        })?;
        tx.commit().await?;
        Ok(match row {
            None => Heartbeat::Lost,
            Some((None,)) => Heartbeat::GoOn,
            Some((Some(_),)) => Heartbeat::Stop,
        })
    }

    /// Whether the claim still holds and may go on; reads only.
    pub async fn look(&self, id: JobId, epoch: Epoch) -> Result<Heartbeat, StoreError> {
        let row: Option<(Option<DateTime<Utc>>,)> = read!(self.db, conn => {
            sqlx::query_as("select cancel_requested_at from jobs where id = $1 and epoch = $2 and lease_owner is not null")
                .bind(id).bind(i64::from(epoch)).fetch_optional(conn).await
        })?;
        Ok(match row {
            None => Heartbeat::Lost,
            Some((None,)) => Heartbeat::GoOn,
            Some((Some(_),)) => Heartbeat::Stop,
        })
    }

    /// Jobs whose lease has expired.
    pub async fn expired_leases(&self) -> Result<Vec<JobId>, StoreError> {
        let now = self.clock.now();
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where finished_at is null and lease_expires_at < $1 order by id")
                .bind(now).fetch_all(conn).await
        })?)
    }

    /// Accounts for a job whose lease has expired; `None` if it has not, after all.
    pub async fn recover_job(&self, id: JobId) -> Result<Option<Recovery>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        // Read again under the lock: the worker may have prolonged its lease in between.
        if change.lease.as_ref().is_none_or(|(_, until)| *until >= change.now) {
            return Ok(None);
        }
        let recovery = change.job.recover()?;
        change.note("The worker has not been heard of; what it had open was accounted for".into());
        change.commit().await?;
        Ok(Some(recovery))
    }

    /// When the next lease expires or the next hold ends.
    pub async fn next_due(&self) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar(
                "select min(at) from (
                     select lease_expires_at as at from jobs where finished_at is null
                     union all select hold_until from jobs where finished_at is null and lease_owner is null)",
            )
            .fetch_one(conn)
            .await
        })?)
    }

    /// Ends the holds whose time has come.
    pub async fn end_due_holds(&self) -> Result<(), StoreError> {
        let now = self.clock.now();
        let ids: Vec<JobId> = read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where finished_at is null and hold_until <= $1 order by id")
                .bind(now).fetch_all(conn).await
        })?;
        for id in ids {
            let Some(mut change) = self.change_job(id).await? else { continue };
            // Read again under the lock: somebody may have cancelled or sent meanwhile.
            if change.job.is_held() && change.before.row.hold_until.is_some_and(|until| until <= change.now) {
                change.job.end_hold()?;
                change.commit().await?;
            }
        }
        Ok(())
    }

    /// Somebody says that the e-mail goes out now. Returns whether that ended a hold; a repetition ends nothing.
    pub async fn send_now(&self, id: JobId, by: &str) -> Result<Option<bool>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        let ended = change.job.end_hold().is_ok();
        change.note(if ended { format!("Sent now by {by}") } else { format!("Send now pressed by {by}; nothing was held") });
        change.commit().await?;
        Ok(Some(ended))
    }
}

impl JobTx {
    /// The columns of the job as they were read.
    pub fn row(&self) -> &JobRow {
        &self.before.row
    }

    /// Names the target of an effect that this change begins.
    pub fn name_target(&mut self, number: u32, target: String) {
        self.targets.insert(number, target);
    }

    /// Adds a sentence to the history.
    pub fn note(&mut self, sentence: String) {
        self.notes.push(sentence);
    }

    /// The saved report's id, where the change has saved one.
    pub async fn insert_report(
        &mut self,
        id: ReportId,
        title: &str,
        markdown: &str,
        html: &str,
        provenance: &serde_json::Value,
    ) -> Result<(), StoreError> {
        let (job, now) = (self.before.row.id, self.now);
        let provenance = provenance.to_string();
        within!(self.tx, conn => {
            sqlx::query(
                "insert into reports (id, job_id, title, markdown, html, provenance, created_at) values ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(id).bind(job).bind(title).bind(markdown).bind(html).bind(provenance).bind(now)
            .execute(conn)
            .await
        })?;
        Ok(())
    }

    /// Stores what differs and tells the bus. Returns the new version, or the old one where nothing differs.
    pub async fn commit(mut self) -> Result<i64, StoreError> {
        let found = changes(&self.before.job, &self.job);
        let row = &self.before.row;
        if self.job == self.before.job && self.notes.is_empty() && self.lease_unchanged() {
            self.tx.commit().await?;
            return Ok(row.version);
        }
        let (id, version, now) = (row.id, row.version, self.now);
        let lease = self.lease.take().filter(|_| self.job.leased);
        let started = row.started_at.or_else(|| (self.job.phase == Phase::Running).then_some(now));
        let finished = row.finished_at.or_else(|| self.job.phase.is_final().then_some(now));
        let hold_until = match row.spec.hold {
            _ if !self.job.is_held() => None,
            _ if self.before.job.is_held() => row.hold_until,
            Hold::Countdown(seconds) => Some(now + TimeDelta::seconds(seconds.into())),
            Hold::None | Hold::Approval => None,
        };
        let (cancel_at, cancel_by) = self.cancel.clone().unzip();
        let (lease_owner, lease_until) = lease.unzip();
        let (failed_step, failure) = self.job.failure.as_ref().map(|f| (f.step.name(), f.reason.clone())).unzip();
        let rows = within!(self.tx, conn => {
            sqlx::query(
                "update jobs set phase = $3, version = $2 + 1, epoch = $4, lease_owner = $5, lease_expires_at = $6, lost_claims = $7,
                        failed_step = $8, failure = $9, started_at = $10, finished_at = $11,
                        cancel_requested_at = $12, cancel_requested_by = $13, hold_until = $14
                 where id = $1 and version = $2",
            )
            .bind(id).bind(version).bind(self.job.phase.name()).bind(i64::from(self.job.epoch))
            .bind(lease_owner).bind(lease_until).bind(i64::from(self.job.lost_claims))
            .bind(failed_step).bind(failure).bind(started).bind(finished).bind(cancel_at).bind(cancel_by).bind(hold_until)
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        one_row("update of a job", rows)?;
        self.store_steps().await?;
        self.store_effects().await?;
        for change in &found {
            let effect = match change {
                Change::Effect { number, .. } => Some(*number),
                Change::Phase(_) | Change::CancelRequested | Change::Step(..) => None,
            };
            let entry = self.describe(*change);
            remember(&mut self.tx, id, now, effect, &entry).await?;
        }
        for note in std::mem::take(&mut self.notes) {
            remember(&mut self.tx, id, now, None, &note).await?;
        }
        self.tx.commit().await?;
        self.bus.publish(JobChanged { id, version: version + 1 });
        Ok(version + 1)
    }

    fn lease_unchanged(&self) -> bool {
        self.lease.as_ref().map(|(_, until)| *until) == self.before.row.lease_expires_at
    }

    async fn store_steps(&mut self) -> Result<(), StoreError> {
        let id = self.before.row.id;
        for (earlier, step) in self.before.job.steps.iter().zip(&self.job.steps) {
            if earlier == step {
                continue;
            }
            let begins = step.state == StepState::Running && earlier.state != StepState::Running;
            let ends =
                matches!(step.state, StepState::Done | StepState::Failed | StepState::Stopped) && earlier.state != step.state;
            let (begun, ended) = (begins.then_some(self.now), ends.then_some(self.now));
            let rows = within!(self.tx, conn => {
                sqlx::query(
                    "update steps set state = $3, done = $4, total = $5,
                            started_at = coalesce(started_at, $6), ended_at = coalesce($7, ended_at)
                     where job_id = $1 and kind = $2",
                )
                .bind(id).bind(step.kind.name()).bind(step.state.name()).bind(i64::from(step.done)).bind(i64::from(step.total))
                .bind(begun).bind(ended)
                .execute(conn)
                .await
                .map(|done| done.rows_affected())
            })?;
            one_row("update of a step", rows)?;
        }
        Ok(())
    }

    async fn store_effects(&mut self) -> Result<(), StoreError> {
        let (id, now) = (self.before.row.id, self.now);
        for effect in self.job.effects.clone() {
            let earlier = self.before.job.effect(effect.number).cloned();
            match &earlier {
                None => {
                    let target = self.targets.get(&effect.number).cloned().unwrap_or_default();
                    insert_effect(&mut self.tx, id, &effect, &target, None, now).await?;
                }
                Some(earlier) if *earlier == effect => continue,
                Some(_) => {
                    let rows = within!(self.tx, conn => {
                        sqlx::query(
                            "update effects set outcome = $3, not_done = $4, attempts = $5, epoch = $6, evidence = $7, changed_at = $8
                             where job_id = $1 and number = $2",
                        )
                        .bind(id).bind(i64::from(effect.number)).bind(effect.outcome.name())
                        .bind(effect.not_done.map(app::contract::NotDone::name))
                        .bind(i64::from(effect.attempts)).bind(i64::from(effect.epoch)).bind(&effect.evidence).bind(now)
                        .execute(conn)
                        .await
                        .map(|done| done.rows_affected())
                    })?;
                    one_row("update of an effect", rows)?;
                }
            }
            let attempted_before = earlier.map_or(0, |earlier| earlier.attempts);
            self.store_attempt(&effect, effect.attempts > attempted_before).await?;
        }
        Ok(())
    }

    async fn store_attempt(&mut self, effect: &app::contract::Effect, is_new: bool) -> Result<(), StoreError> {
        use app::contract::Outcome;
        let (id, now) = (self.before.row.id, self.now);
        let doubted = (effect.outcome == Outcome::InDoubt).then_some(now);
        let ended = (!effect.outcome.is_open()).then_some(now);
        let sql = if is_new {
            "insert into attempts (job_id, number, attempt, epoch, outcome, evidence, in_doubt_at, ended_at, began_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        } else {
            "update attempts set epoch = $4, outcome = $5, evidence = $6, in_doubt_at = coalesce($7, in_doubt_at), ended_at = $8
             where job_id = $1 and number = $2 and attempt = $3"
        };
        within!(self.tx, conn => {
            let mut query = sqlx::query(sql)
                .bind(id).bind(i64::from(effect.number)).bind(i64::from(effect.attempts)).bind(i64::from(effect.epoch))
                .bind(effect.outcome.name()).bind(&effect.evidence).bind(doubted).bind(ended);
            if is_new {
                query = query.bind(now);
            }
            query.execute(conn).await
        })?;
        Ok(())
    }

    /// The history's sentence for a change.
    fn describe(&self, change: Change) -> String {
        match change {
            Change::CancelRequested => {
                format!("Cancel accepted, asked for by {}", self.cancel_by())
            }
            Change::Phase(phase) => match phase {
                Phase::Queued => "Waiting to start".into(),
                Phase::Running => "Running".into(),
                Phase::Stopping => "Stopping".into(),
                Phase::Cancelled => "Cancelled".into(),
                Phase::Finished => "Finished".into(),
                Phase::Failed => "Failed".into(),
            },
            Change::Step(kind, state) => match state {
                StepState::Pending => format!("{}: will be done again", kind.title()),
                StepState::Running => format!("{}: started", kind.title()),
                other => format!("{}: {}", kind.title(), other.name()),
            },
            Change::Effect { number, kind, outcome } => {
                let target = self.targets.get(&number).or_else(|| self.before.targets.get(&number));
                let what = crate::words::effect_name(kind, number, target.map_or("", String::as_str));
                format!("{what}: {}", crate::words::outcome(kind, outcome))
            }
        }
    }

    fn cancel_by(&self) -> String {
        self.cancel.as_ref().map(|(_, by)| by.clone()).unwrap_or_default()
    }
}

async fn insert_effect(
    tx: &mut Tx,
    job: JobId,
    effect: &app::contract::Effect,
    target: &str,
    message_id: Option<String>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    within!(*tx, conn => {
        sqlx::query(
            "insert into effects (job_id, number, kind, outcome, not_done, attempts, epoch, evidence, target, message_id, created_at, changed_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)",
        )
        .bind(job).bind(i64::from(effect.number)).bind(effect.kind.name()).bind(effect.outcome.name())
        .bind(effect.not_done.map(app::contract::NotDone::name)).bind(i64::from(effect.attempts)).bind(i64::from(effect.epoch))
        .bind(&effect.evidence).bind(target).bind(message_id).bind(now)
        .execute(conn)
        .await
    })?;
    Ok(())
}

/// Adds an entry to the history of a job, and of its effect with this number where the entry is about one.
async fn remember(tx: &mut Tx, job: JobId, at: DateTime<Utc>, effect: Option<u32>, entry: &str) -> Result<(), StoreError> {
    within!(*tx, conn => {
        sqlx::query("insert into history (job_id, effect, at, entry) values ($1, $2, $3, $4)")
            .bind(job).bind(effect.map(i64::from)).bind(at).bind(entry).execute(conn).await
    })?;
    Ok(())
}
