//! The effect history across all jobs, for administrators.
//!
//! It is only ever added to: the schema's triggers refuse to delete an effect or an attempt, and to change one that is settled.
//! Nothing here depends on the job still being there.

use super::{
    Store, StoreError,
    db::{read, within},
};
use chrono::{DateTime, Utc};
use contract::{EffectKind, JobKind, Month, NotDone, Outcome, Phase, Unconfirmed, Via};
use domain::{id::JobId, spec::job_title};
use sqlx::FromRow;

/// Which effects to list. What is `None` filters nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectFilter {
    /// Intents that were never begun are listed only when they are asked for: nobody outside can have seen them.
    pub outcome: Option<Outcome>,
    pub kind: Option<EffectKind>,
    pub job: Option<JobId>,
    /// The address of the job's owner, in lower case as accounts have it.
    pub person: Option<String>,
    /// The address that an e-mail goes to, in lower case.
    pub recipient: Option<String>,
    /// The month that the job's report is about.
    pub month: Option<Month>,
    /// The latest change came at this instant or after it.
    pub from: Option<DateTime<Utc>>,
    /// The latest change came before this instant.
    pub to: Option<DateTime<Utc>>,
    /// With its angle brackets.
    pub message_id: Option<String>,
}

/// The two parts of the list; the open ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectPart {
    /// Unconfirmed, or under way.
    Open,
    /// All others.
    Settled,
}

/// A place in a part of the list, which is ordered by the latest change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectPlace {
    pub at: DateTime<Utc>,
    pub job: JobId,
    pub number: u32,
}

/// One effect with the job that it belongs to.
#[derive(Debug, Clone)]
pub struct EffectEntry {
    pub job_id: JobId,
    pub number: u32,
    pub kind: EffectKind,
    pub outcome: Outcome,
    pub not_done: Option<NotDone>,
    pub unconfirmed: Option<Unconfirmed>,
    pub attempts: u32,
    pub via: Via,
    pub evidence: Option<String>,
    /// What came after a person's word and says otherwise.
    pub contradiction: Option<String>,
    pub target: String,
    pub message_id: Option<String>,
    /// When it was intended.
    pub created_at: DateTime<Utc>,
    pub changed_at: DateTime<Utc>,
    pub job_kind: JobKind,
    /// What the job is called, with the month.
    pub job_title: String,
    /// The month that the report is about.
    pub month: Month,
    /// Whose job it is, or was.
    pub owner_email: String,
    /// Where the job stands; `None` once it is deleted.
    pub job_phase: Option<Phase>,
}

/// One effect with its attempts and what was recorded about it, oldest first.
#[derive(Debug, Clone)]
pub struct EffectRecord {
    pub entry: EffectEntry,
    pub attempts: Vec<Attempt>,
    pub history: Vec<(DateTime<Utc>, String)>,
}

/// One attempt to bring an effect about.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub number: u32,
    pub outcome: Outcome,
    pub evidence: Option<String>,
    pub began_at: DateTime<Utc>,
    pub in_doubt_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    /// When it was found out later what had become of it, and by what.
    pub settled: Option<(DateTime<Utc>, String)>,
}

#[derive(FromRow)]
struct Columns {
    job_id: JobId,
    number: i64,
    kind: String,
    outcome: String,
    not_done: Option<String>,
    attempts: i64,
    via: String,
    unconfirmed: Option<String>,
    contradiction: Option<String>,
    evidence: Option<String>,
    target: String,
    message_id: Option<String>,
    created_at: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    job_kind: String,
    job_title: String,
    job_month: String,
    owner_email: String,
    job_phase: Option<String>,
}

#[derive(FromRow)]
struct AttemptColumns {
    attempt: i64,
    outcome: String,
    evidence: Option<String>,
    began_at: DateTime<Utc>,
    in_doubt_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    settled_at: Option<DateTime<Utc>>,
    settled_by: Option<String>,
}

/// The text of a query for effects with their jobs, of which the rest is given.
macro_rules! select {
    ($($rest:literal),+) => {
        concat!(
            "select job_id, number, kind, outcome, not_done, attempts, via, unconfirmed, contradiction, evidence, target, message_id, created_at, changed_at,
                    job_kind, job_title, job_month, owner_email,
                    (select phase from jobs where jobs.id = effects.job_id) as job_phase
             from effects where ", $($rest),+
        )
    };
}

/// Such a query under the filter, whose values are `$1` to `$9`; `$10` is the limit, and what comes after it is the place.
macro_rules! filtered {
    ($condition:literal, $order:literal) => {
        select!(
            $condition,
            " and ($1 is null or outcome = $1) and ($2 is null or kind = $2) and ($3 is null or job_id = $3)
              and ($4 is null or owner_email = $4) and ($5 is null or (kind = 'email' and lower(target) = $5))
              and ($6 is null or job_month = $6) and ($7 is null or changed_at >= $7) and ($8 is null or changed_at < $8)
              and ($9 is null or message_id = $9)
              order by ",
            $order,
            " limit $10"
        )
    };
}

/// The query with the values of the filter and the limit.
macro_rules! bind {
    ($text:expr, $filter:expr, $limit:expr) => {
        sqlx::query_as($text)
            .bind($filter.outcome.map(Outcome::name))
            .bind($filter.kind.map(EffectKind::name))
            .bind($filter.job)
            .bind($filter.person.as_deref())
            .bind($filter.recipient.as_deref())
            .bind($filter.month.map(|month| month.to_string()))
            .bind($filter.from)
            .bind($filter.to)
            .bind($filter.message_id.as_deref())
            .bind(i64::from($limit))
    };
}

const OPEN: &str = filtered!(
    "outcome in ('in_flight', 'in_doubt', 'unconfirmed')
     and ($11 is null or (changed_at, job_id, number) < ($11, $12, $13))",
    "changed_at desc, job_id desc, number desc"
);
const SETTLED: &str = filtered!(
    "outcome in ('done', 'not_done', 'not_started') and (outcome <> 'not_started' or $1 is not null)
     and ($11 is null or (changed_at, job_id, number) < ($11, $12, $13))",
    "changed_at desc, job_id desc, number desc"
);
const BY_JOB: &str = filtered!(
    "(outcome <> 'not_started' or $1 is not null) and ($11 is null or (job_id, number) < ($11, $12))",
    "job_id desc, number desc"
);

impl Store {
    /// The effects of one part of the list, newest first, after a place in it.
    pub async fn effects(
        &self,
        part: EffectPart,
        filter: &EffectFilter,
        after: Option<EffectPlace>,
        limit: u32,
    ) -> Result<Vec<EffectEntry>, StoreError> {
        let text = match part {
            EffectPart::Open => OPEN,
            EffectPart::Settled => SETTLED,
        };
        let rows: Vec<Columns> = read!(self.db, conn => {
            bind!(text, filter, limit)
                .bind(after.map(|place| place.at)).bind(after.map(|place| place.job))
                .bind(after.map(|place| i64::from(place.number)))
                .fetch_all(conn)
                .await
        })?;
        rows.into_iter().map(entry).collect()
    }

    /// The effects of both parts, those of the newest job first, after the effect with this job and number.
    ///
    /// No change moves an effect in this order, so that someone who reads page after page meets each exactly once.
    pub async fn effects_by_job(
        &self,
        filter: &EffectFilter,
        after: Option<(JobId, u32)>,
        limit: u32,
    ) -> Result<Vec<EffectEntry>, StoreError> {
        let rows: Vec<Columns> = read!(self.db, conn => {
            bind!(BY_JOB, filter, limit)
                .bind(after.map(|(job, _)| job)).bind(after.map(|(_, number)| i64::from(number)))
                .fetch_all(conn)
                .await
        })?;
        rows.into_iter().map(entry).collect()
    }

    /// One effect, whole.
    pub async fn effect(&self, job: JobId, number: u32) -> Result<Option<EffectRecord>, StoreError> {
        let mut tx = self.db.snapshot().await?;
        let found: Option<Columns> = within!(tx, conn => {
            sqlx::query_as(select!("job_id = $1 and number = $2"))
                .bind(job).bind(i64::from(number)).fetch_optional(conn).await
        })?;
        let Some(found) = found else { return Ok(None) };
        let attempts: Vec<AttemptColumns> = within!(tx, conn => {
            sqlx::query_as(
                "select attempt, outcome, evidence, began_at, in_doubt_at, ended_at, settled_at, settled_by
                 from attempts where job_id = $1 and number = $2 order by attempt",
            )
            .bind(job).bind(i64::from(number))
            .fetch_all(conn)
            .await
        })?;
        let history = within!(tx, conn => {
            sqlx::query_as("select at, entry from history where job_id = $1 and effect = $2 order by id")
                .bind(job).bind(i64::from(number)).fetch_all(conn).await
        })?;
        let wrong = |column| StoreError::Inconsistent { table: "attempts", column, row: format!("{job}/{number}") };
        let attempts = attempts
            .into_iter()
            .map(|row| {
                Ok(Attempt {
                    number: u32::try_from(row.attempt).map_err(|_| wrong("attempt"))?,
                    outcome: Outcome::from_name(&row.outcome).ok_or_else(|| wrong("outcome"))?,
                    evidence: row.evidence,
                    began_at: row.began_at,
                    in_doubt_at: row.in_doubt_at,
                    ended_at: row.ended_at,
                    settled: row.settled_at.zip(row.settled_by),
                })
            })
            .collect::<Result<_, StoreError>>()?;
        Ok(Some(EffectRecord { entry: entry(found)?, attempts, history }))
    }

    /// How many effects are unconfirmed, so that a person has to look into them.
    pub async fn count_unconfirmed(&self) -> Result<u32, StoreError> {
        let count: i64 = read!(self.db, conn => {
            // The first condition is that of the index on what is open, which is short.
            sqlx::query_scalar(
                "select count(*) from effects
                 where outcome in ('in_flight', 'in_doubt', 'unconfirmed') and outcome = 'unconfirmed'",
            )
            .fetch_one(conn)
            .await
        })?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }
}

fn entry(row: Columns) -> Result<EffectEntry, StoreError> {
    let wrong = |column| StoreError::Inconsistent { table: "effects", column, row: format!("{}/{}", row.job_id, row.number) };
    let not_done = match row.not_done.as_deref() {
        None => None,
        Some(name) => Some(NotDone::from_name(name).ok_or_else(|| wrong("not_done"))?),
    };
    let job_phase = match row.job_phase.as_deref() {
        None => None,
        Some(name) => Some(Phase::from_name(name).ok_or_else(|| wrong("job_phase"))?),
    };
    let job_kind = JobKind::from_name(&row.job_kind).ok_or_else(|| wrong("job_kind"))?;
    let month: Month = row.job_month.parse().map_err(|_| wrong("job_month"))?;
    Ok(EffectEntry {
        number: u32::try_from(row.number).map_err(|_| wrong("number"))?,
        kind: EffectKind::from_name(&row.kind).ok_or_else(|| wrong("kind"))?,
        outcome: Outcome::from_name(&row.outcome).ok_or_else(|| wrong("outcome"))?,
        attempts: u32::try_from(row.attempts).map_err(|_| wrong("attempts"))?,
        job_id: row.job_id,
        not_done,
        via: Via::from_name(&row.via).ok_or_else(|| wrong("via"))?,
        unconfirmed: row.unconfirmed.as_deref().and_then(Unconfirmed::from_name),
        evidence: row.evidence,
        contradiction: row.contradiction,
        target: row.target,
        message_id: row.message_id,
        created_at: row.created_at,
        changed_at: row.changed_at,
        job_kind,
        job_title: job_title(job_kind, &row.job_title, month),
        month,
        owner_email: row.owner_email,
        job_phase,
    })
}
