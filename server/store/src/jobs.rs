//! Jobs: finding, claiming, cancelling and recovering them. How one is changed is in [`super::change`].

use super::{
    Store, StoreError,
    db::{Lock, Patience, Tx, read, within},
    record::{Record, load, load_one},
};
use crate::notifications::JobChanged;
use chrono::{DateTime, TimeDelta, Utc};
use contract::{CancelAnswer, Epoch, Phase, Recovery, Refusal, StepKind, StepState};
use domain::{
    hold::Hold,
    id::{JobId, RequestKey, UserId},
    spec::Spec,
};

/// How many holds are looked at together.
const AT_ONCE: i64 = 200;

/// What a worker holds after claiming a job.
#[derive(Debug, Clone)]
pub struct Claim {
    pub id: JobId,
    pub epoch: Epoch,
    pub owner: UserId,
    pub request_key: RequestKey,
    pub spec: Spec,
    /// The step that the claim started.
    pub step: StepKind,
}

/// On which terms a worker takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimTerms {
    /// How long a claim holds without a sign of life.
    pub lease: TimeDelta,
    /// How many jobs of one person may be at work at the same time, on all machines together, so that one person's many jobs
    /// do not starve others; `None` for no limit.
    pub per_person: Option<u32>,
    /// Only this job.
    pub only: Option<JobId>,
}

impl ClaimTerms {
    fn per_person(self) -> i64 {
        self.per_person.map_or(i64::MAX, i64::from)
    }
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

impl Heartbeat {
    /// What the row of a held claim says, `None` where there is no such row: `cancel_requested_at`.
    fn of(row: Option<(Option<DateTime<Utc>>,)>) -> Self {
        match row {
            None => Self::Lost,
            Some((None,)) => Self::GoOn,
            Some((Some(_),)) => Self::Stop,
        }
    }
}

impl Store {
    /// One job with its steps and effects.
    pub async fn job(&self, id: JobId) -> Result<Option<Record>, StoreError> {
        load_one(&mut self.db.snapshot().await?, id).await
    }

    /// The version of a job's record, and whether it has ended.
    pub async fn job_version(&self, id: JobId) -> Result<Option<(i64, bool)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select version, finished_at is not null from jobs where id = $1").bind(id).fetch_optional(conn).await
        })?)
    }

    /// The newest jobs with their versions: somebody's, or everybody's.
    pub async fn newest_versions(&self, owner: Option<UserId>, limit: u32) -> Result<Vec<(JobId, i64)>, StoreError> {
        let limit = i64::from(limit);
        Ok(read!(self.db, conn => match owner {
            Some(owner) => {
                sqlx::query_as("select id, version from jobs where owner_id = $1 order by id desc limit $2")
                    .bind(owner).bind(limit).fetch_all(conn).await
            }
            None => {
                sqlx::query_as("select id, version from jobs order by id desc limit $1").bind(limit).fetch_all(conn).await
            }
        })?)
    }

    /// The job that a request has made, if it has made one.
    pub async fn job_of_request(&self, owner: UserId, key: RequestKey) -> Result<Option<JobId>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where owner_id = $1 and request_key = $2")
                .bind(owner).bind(key).fetch_optional(conn).await
        })?)
    }

    /// The open jobs and the newest ones, as changes.
    pub(super) async fn newest(&self) -> Result<Vec<JobChanged>, StoreError> {
        let rows: Vec<(JobId, UserId, i64, bool)> = read!(self.db, conn => {
            sqlx::query_as(
                "select id, owner_id, version, finished_at is null and lease_owner is null from jobs where finished_at is null
                 union select * from
                     (select id, owner_id, version, finished_at is null and lease_owner is null from jobs order by id desc limit 50) as newest",
            )
            .fetch_all(conn)
            .await
        })?;
        // Whether one goes on is not known here: its worker looks for itself.
        Ok(rows.into_iter().map(|(id, owner, version, waits)| JobChanged { id, owner, version, waits, goes_on: false }).collect())
    }

    /// The newest jobs before `before`: of `owner`, or of everybody.
    pub async fn jobs(
        &self,
        owner: Option<UserId>,
        phase: Option<Phase>,
        before: Option<JobId>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let mut tx = self.db.snapshot().await?;
        let mut records = load!(
            tx,
            "in (select id from jobs
                 where ($1 is null or owner_id = $1) and ($2 is null or phase = $2) and ($3 is null or id < $3)
                 order by id desc limit $4)",
            owner,
            phase.map(Phase::name),
            before,
            i64::from(limit)
        )
        .await?;
        records.reverse();
        Ok(records)
    }

    /// The history of a job, oldest first.
    pub async fn history(&self, id: JobId) -> Result<Vec<(DateTime<Utc>, String)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select at, entry from history where job_id = $1 order by id").bind(id).fetch_all(conn).await
        })?)
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

    /// Takes a job that was just announced as waiting, while nothing else waited, as far as the worker knows; `None` if it is
    /// not to be had.
    pub async fn claim_announced(&self, job: JobChanged, worker: &str, terms: ClaimTerms) -> Result<Option<Claim>, StoreError> {
        let JobChanged { id, owner, .. } = job;
        if terms.only.is_some_and(|only| only != id) {
            return Ok(None);
        }
        let tx = match terms.per_person {
            Some(_) => self.db.begin_with_lock(Lock::AtWork(owner)).await?,
            None => self.db.begin().await?,
        };
        // The record is not locked, which is quicker: if somebody changes it just now, its version says so in the end.
        match self.claim_within(tx, id, owner, worker, terms).await {
            Err(StoreError::Affected { .. }) => Ok(None),
            claim => claim,
        }
    }

    /// Takes the oldest job that waits for a worker, and whose owner has fewer than [`ClaimTerms::per_person`] jobs at work. A
    /// job whose rows cannot be understood is passed over, so that it does not keep the others waiting.
    pub async fn claim_job(&self, worker: &str, terms: ClaimTerms) -> Result<Option<Claim>, StoreError> {
        let (mut after, mut passed_over) = (None, Vec::new());
        // A look without a lock first: most of the time there is nothing to take.
        while let Some((id, owner)) = self.next_waiting(terms, after).await? {
            if let Some(tx) = self.begin_claim(id, owner, terms, Patience::None).await? {
                if let Some(claim) = self.claim_within(tx, id, owner, worker, terms).await? {
                    return Ok(Some(claim));
                }
            } else {
                passed_over.push((id, owner));
            }
            after = Some(id);
        }
        // Nothing else is left, so that there is time to wait for those that somebody was at, who may leave them as they were.
        for (id, owner) in passed_over {
            let Some(tx) = self.begin_claim(id, owner, terms, Patience::Some).await? else { continue };
            if let Some(claim) = self.claim_within(tx, id, owner, worker, terms).await? {
                return Ok(Some(claim));
            }
        }
        Ok(None)
    }

    /// Begins to claim a job, while nobody else claims one of the same person.
    async fn begin_claim(
        &self,
        id: JobId,
        owner: UserId,
        terms: ClaimTerms,
        patience: Patience,
    ) -> Result<Option<Tx>, sqlx::Error> {
        let lock = terms.per_person.map(|_| Lock::AtWork(owner));
        self.db.begin_on_free_job(id, lock, patience).await
    }

    /// The oldest job that waits, as long as nobody is at the limit; whoever is may have any number of jobs in front of the
    /// others, so that the next one is then looked for from person to person.
    async fn next_waiting(&self, terms: ClaimTerms, after: Option<JobId>) -> Result<Option<(JobId, UserId)>, StoreError> {
        let oldest: Option<(JobId, UserId, i64)> = read!(self.db, conn => {
            sqlx::query_as(
                "select id, owner_id,
                        (select count(*) from jobs as others where others.owner_id = jobs.owner_id and others.lease_owner is not null)
                 from jobs
                 where finished_at is null and set_aside_at is null and (phase = 'queued' or (phase = 'running' and lease_owner is null))
                   and ($1 is null or id = $1) and ($2 is null or id > $2)
                   and not exists (select 1 from steps where steps.job_id = jobs.id and steps.kind = 'hold' and steps.state = 'running')
                 order by id limit 1",
            )
            .bind(terms.only).bind(after)
            .fetch_optional(conn)
            .await
        })?;
        match oldest {
            Some((id, owner, at_work)) if at_work < terms.per_person() => Ok(Some((id, owner))),
            Some(_) => self.next_waiting_of_others(terms, after).await,
            None => Ok(None),
        }
    }

    /// The oldest job of those who are not at the limit.
    async fn next_waiting_of_others(
        &self,
        terms: ClaimTerms,
        after: Option<JobId>,
    ) -> Result<Option<(JobId, UserId)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "with recursive people (owner_id) as (
                     select (select owner_id from jobs where finished_at is null and lease_owner is null order by owner_id limit 1)
                     union all
                     select (select jobs.owner_id from jobs
                             where finished_at is null and lease_owner is null and jobs.owner_id > people.owner_id
                             order by jobs.owner_id limit 1)
                     from people where people.owner_id is not null
                 )
                 select id, owner_id from (
                     select owner_id,
                            (select id from jobs
                             where jobs.owner_id = people.owner_id and finished_at is null and lease_owner is null
                               and set_aside_at is null and phase in ('queued', 'running')
                               and ($1 is null or id = $1) and ($2 is null or id > $2)
                               and not exists
                                   (select 1 from steps where steps.job_id = jobs.id and steps.kind = 'hold' and steps.state = 'running')
                             order by id limit 1) as id
                     from people
                     where owner_id is not null
                       and (select count(*) from jobs where jobs.owner_id = people.owner_id and lease_owner is not null) < $3
                 ) as heads
                 where id is not null order by id limit 1",
            )
            .bind(terms.only).bind(after).bind(terms.per_person())
            .fetch_optional(conn)
            .await
        })?)
    }

    /// `None` where the job can no longer be taken.
    async fn claim_within(
        &self,
        mut tx: Tx,
        id: JobId,
        owner: UserId,
        worker: &str,
        terms: ClaimTerms,
    ) -> Result<Option<Claim>, StoreError> {
        if terms.per_person.is_some() {
            // Again, now that nobody else takes a job of the same person.
            let at_work: i64 = within!(tx, conn => {
                sqlx::query_scalar("select count(*) from jobs where owner_id = $1 and lease_owner is not null")
                    .bind(owner).fetch_one(conn).await
            })?;
            if at_work >= terms.per_person() {
                return Ok(None);
            }
        }
        let mut change = match self.change_locked(tx, id).await {
            Ok(Some(change)) => change,
            Ok(None) => return Ok(None),
            Err(error @ StoreError::Inconsistent { .. }) => {
                tracing::error!(job = %id, %error, "job {id} cannot be understood and is passed over");
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if change.row().set_aside_at.is_some() {
            return Ok(None);
        }
        let Ok(epoch) = change.job.claim() else { return Ok(None) };
        let step = change.job.current_step().unwrap_or(StepKind::Collect);
        change.lease = Some((worker.to_owned(), change.lease_now + terms.lease));
        change.note(format!("Taken by worker {worker}"));
        let (spec, request_key) = (change.before.row.spec.clone(), change.before.row.request_key);
        change.commit().await?;
        Ok(Some(Claim { id, epoch, owner, request_key, spec, step }))
    }

    /// Prolongs a lease and tells whether to go on. Does not change the record's version: nothing that a page shows changed.
    pub async fn heartbeat(&self, id: JobId, epoch: Epoch, lease: TimeDelta) -> Result<Heartbeat, StoreError> {
        let until = self.lease_time().await? + lease;
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
        Ok(Heartbeat::of(row))
    }

    /// Whether the claim still holds and may go on; reads only.
    pub async fn look(&self, id: JobId, epoch: Epoch) -> Result<Heartbeat, StoreError> {
        let row: Option<(Option<DateTime<Utc>>,)> = read!(self.db, conn => {
            sqlx::query_as("select cancel_requested_at from jobs where id = $1 and epoch = $2 and lease_owner is not null")
                .bind(id).bind(i64::from(epoch)).fetch_optional(conn).await
        })?;
        Ok(Heartbeat::of(row))
    }

    /// Jobs whose lease has expired.
    pub async fn expired_leases(&self) -> Result<Vec<JobId>, StoreError> {
        let now = self.lease_time().await?;
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where lease_expires_at < $1 order by lease_expires_at")
                .bind(now).fetch_all(conn).await
        })?)
    }

    /// Accounts for a job whose lease has expired; `None` if it has not, after all.
    pub async fn recover_job(&self, id: JobId) -> Result<Option<Recovery>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        // Read again under the lock: the worker may have prolonged its lease in between.
        if change.lease.as_ref().is_none_or(|(_, until)| *until >= change.lease_now) {
            return Ok(None);
        }
        let recovery = change.job.recover()?;
        change.note("The worker has not been heard of; what it had open was accounted for".into());
        change.abandon_calls().await?;
        change.commit().await?;
        Ok(Some(recovery))
    }

    /// How long it takes until the next lease expires or the next hold ends; negative where that is past.
    pub async fn next_due(&self) -> Result<Option<TimeDelta>, StoreError> {
        let (lease, hold): (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = read!(self.db, conn => {
            sqlx::query_as(
                "select (select min(lease_expires_at) from jobs where lease_expires_at is not null),
                        (select min(hold_until) from jobs where hold_until is not null and finished_at is null and set_aside_at is null)",
            )
            .fetch_one(conn)
            .await
        })?;
        match lease.into_iter().chain(hold).min() {
            Some(due) => Ok(Some(due - self.lease_time().await?)),
            None => Ok(None),
        }
    }

    /// Ends the holds whose time has come. A job whose rows cannot be understood must not keep the others waiting.
    pub async fn end_due_holds(&self) -> Result<(), StoreError> {
        let now = self.lease_time().await?;
        self.shorten_holds(now).await?;
        let ids: Vec<JobId> = read!(self.db, conn => {
            sqlx::query_scalar("select id from jobs where hold_until <= $1 and finished_at is null and set_aside_at is null order by hold_until")
                .bind(now).fetch_all(conn).await
        })?;
        for id in ids {
            let mut change = match self.change_job(id).await {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(error @ StoreError::Inconsistent { .. }) => {
                    tracing::error!(job = %id, %error, "job {id} cannot be understood; its hold goes on");
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Read again under the lock: somebody may have cancelled or sent meanwhile.
            let waits = change.job.is_held() && change.row().set_aside_at.is_none();
            if waits && change.before.row.hold_until.is_some_and(|until| until <= change.lease_now) {
                change.job.end_hold()?;
                change.commit().await?;
            }
        }
        Ok(())
    }

    /// Shortens the holds that would go on for longer than they are long: the clock that decides about them has been set back, which
    /// that of a server can be, and that of a machine between two of its starts.
    async fn shorten_holds(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        let furthest: Vec<(JobId, String, DateTime<Utc>)> = read!(self.db, conn => {
            sqlx::query_as(
                "select id, spec, hold_until from jobs
                 where hold_until > $1 and finished_at is null and set_aside_at is null order by hold_until desc limit $2",
            )
            .bind(now).bind(AT_ONCE).fetch_all(conn).await
        })?;
        for (id, spec, until) in furthest {
            let Ok(Spec { hold: Hold::Countdown(seconds), .. }) = serde_json::from_str(&spec) else { continue };
            let length = TimeDelta::seconds(seconds.into());
            if until - now <= length {
                continue;
            }
            let Some(mut change) = self.change_job(id).await? else { continue };
            if change.job.is_held() && change.hold_until.is_some_and(|until| until - change.lease_now > length) {
                change.hold_until = Some(change.lease_now + length);
                change.note(format!("The clock was set back; the e-mail goes out in {seconds} s"));
                change.commit().await?;
            }
        }
        Ok(())
    }

    /// Somebody says that the e-mail goes out now. Returns whether that ended a hold; a repetition ends nothing. Refused before
    /// the hold has begun, since it would then be waited for all the same, and while the job is set aside: whoever presses this
    /// may not have read what is not known about it ([`Store::go_on`]).
    pub async fn send_now(&self, id: JobId, by: &str) -> Result<Option<bool>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        if change.job.is_held() && change.row().set_aside_at.is_some() {
            return Err(Refusal::OutOfOrder("the job is set aside").into());
        }
        if change.job.step(StepKind::Hold).is_some_and(|hold| hold.state == StepState::Pending) {
            return Err(Refusal::OutOfOrder("the hold has not begun").into());
        }
        let ended = change.job.end_hold().is_ok();
        change.note(if ended { format!("Sent now by {by}") } else { format!("Send now pressed by {by}; nothing was held") });
        change.commit().await?;
        Ok(Some(ended))
    }
}
