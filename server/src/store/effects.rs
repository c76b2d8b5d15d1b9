//! The effect history across all jobs, for administrators.

use super::{Store, StoreError, db::read};
use crate::{id::JobId, job::full_title};
use app::contract::{EffectKind, NotDone, Outcome};
use chrono::{DateTime, Utc};
use sqlx::FromRow;

/// Which effects to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct EffectFilter {
    pub outcome: Option<Outcome>,
    pub kind: Option<EffectKind>,
    /// Leaves out those of [`Store::open_effects`].
    pub settled: bool,
    /// Only those before this place in the list.
    pub before: Option<(DateTime<Utc>, JobId, u32)>,
}

/// One effect with the job that it belongs to.
#[derive(Debug, Clone)]
pub struct EffectEntry {
    pub job_id: JobId,
    pub number: u32,
    pub kind: EffectKind,
    pub outcome: Outcome,
    pub not_done: Option<NotDone>,
    pub evidence: Option<String>,
    pub target: String,
    pub message_id: Option<String>,
    pub changed_at: DateTime<Utc>,
    pub job_title: String,
    pub owner_email: String,
}

#[derive(FromRow)]
struct Columns {
    job_id: JobId,
    number: i64,
    kind: String,
    outcome: String,
    not_done: Option<String>,
    evidence: Option<String>,
    target: String,
    message_id: Option<String>,
    changed_at: DateTime<Utc>,
    job_title: Option<String>,
    job_month: Option<String>,
    owner_email: Option<String>,
}

impl Store {
    /// The newest effects first. Intents that were never begun are not listed: nobody outside can have seen them.
    pub async fn effects(&self, filter: EffectFilter, limit: u32) -> Result<Vec<EffectEntry>, StoreError> {
        let (at, job, number) = match filter.before {
            Some((at, job, number)) => (Some(at), Some(job), Some(i64::from(number))),
            None => (None, None, None),
        };
        let rows: Vec<Columns> = read!(self.db, conn => {
            sqlx::query_as(
                "select effects.job_id, number, kind, outcome, not_done, evidence, target, message_id, changed_at,
                        jobs.title as job_title, jobs.month as job_month, users.email as owner_email
                 from effects left join jobs on jobs.id = effects.job_id left join users on users.id = jobs.owner_id
                 where outcome <> 'not_started' and ($1 is null or outcome = $1) and ($2 is null or kind = $2)
                   and ($3 is null or (changed_at, effects.job_id, number) < ($3, $4, $5))
                   and (not $7 or outcome not in ('in_flight', 'in_doubt', 'unconfirmed'))
                 order by changed_at desc, effects.job_id desc, number desc limit $6",
            )
            .bind(filter.outcome.map(Outcome::name)).bind(filter.kind.map(EffectKind::name))
            .bind(at).bind(job).bind(number).bind(i64::from(limit)).bind(filter.settled)
            .fetch_all(conn)
            .await
        })?;
        rows.into_iter().map(entry).collect()
    }

    /// The effects that are unconfirmed or under way, newest first.
    pub async fn open_effects(&self) -> Result<Vec<EffectEntry>, StoreError> {
        let rows: Vec<Columns> = read!(self.db, conn => {
            sqlx::query_as(
                "select effects.job_id, number, kind, outcome, not_done, evidence, target, message_id, changed_at,
                        jobs.title as job_title, jobs.month as job_month, users.email as owner_email
                 from effects left join jobs on jobs.id = effects.job_id left join users on users.id = jobs.owner_id
                 where outcome in ('in_flight', 'in_doubt', 'unconfirmed')
                 order by changed_at desc, effects.job_id desc, number desc",
            )
            .fetch_all(conn)
            .await
        })?;
        rows.into_iter().map(entry).collect()
    }

    /// How many effects are unconfirmed or under way.
    pub async fn count_open_effects(&self) -> Result<u32, StoreError> {
        let count: i64 = read!(self.db, conn => {
            sqlx::query_scalar("select count(*) from effects where outcome in ('in_flight', 'in_doubt', 'unconfirmed')")
                .fetch_one(conn)
                .await
        })?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Unfinished jobs with their versions.
    pub(super) async fn open_versions(&self) -> Result<Vec<(JobId, i64)>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "select id, version from jobs where finished_at is null
                 union all select id, version from (select id, version from jobs order by id desc limit 50)",
            )
            .fetch_all(conn)
            .await
        })?)
    }
}

fn entry(row: Columns) -> Result<EffectEntry, StoreError> {
    let wrong = |column| StoreError::Inconsistent { table: "effects", column, row: format!("{}/{}", row.job_id, row.number) };
    let not_done = match row.not_done.as_deref() {
        None => None,
        Some(name) => Some(NotDone::from_name(name).ok_or_else(|| wrong("not_done"))?),
    };
    Ok(EffectEntry {
        number: u32::try_from(row.number).map_err(|_| wrong("number"))?,
        kind: EffectKind::from_name(&row.kind).ok_or_else(|| wrong("kind"))?,
        outcome: Outcome::from_name(&row.outcome).ok_or_else(|| wrong("outcome"))?,
        job_id: row.job_id,
        not_done,
        evidence: row.evidence,
        target: row.target,
        message_id: row.message_id,
        changed_at: row.changed_at,
        job_title: match (row.job_title, row.job_month) {
            (Some(title), Some(month)) => full_title(&title, month.parse().map_err(|_| wrong("job_month"))?),
            _ => "a deleted job".into(),
        },
        owner_email: row.owner_email.unwrap_or_default(),
    })
}
