//! A job's rows, turned into the contract's record. What the program never writes is an error that names its place.

use super::{StoreError, db::Tx};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use contract::{Effect, EffectKind, Failure, Job, NotDone, Outcome, Phase, Step, StepKind, StepState, Unconfirmed, Via};
use domain::{
    id::{JobId, ReportId, RequestKey, UserId},
    period::parse_zone,
    spec::Spec,
};
use sqlx::FromRow;
use std::collections::HashMap;

/// The columns of a job that the contract does not know.
#[derive(Debug, Clone)]
pub struct JobRow {
    pub id: JobId,
    pub owner_id: UserId,
    pub request_key: RequestKey,
    pub owner_email: String,
    pub spec: Spec,
    pub version: i64,
    pub lease_owner: Option<String>,
    pub lease_expires_at: Option<DateTime<Utc>>,
    /// When the hold ends by itself.
    pub hold_until: Option<DateTime<Utc>>,
    /// When it was set aside in a restored copy: nothing of it goes on until a person says so.
    pub set_aside_at: Option<DateTime<Utc>>,
    /// When the copy was restored in which an e-mail of it was not proved. That somebody let it go on since does not change it.
    pub restored_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub started_at: Option<DateTime<Utc>>,
    pub finished_at: Option<DateTime<Utc>>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub cancel_requested_by: Option<String>,
    pub report_id: Option<ReportId>,
    /// What the database's clock said when the transaction began in which this was read.
    pub(super) database_time: DateTime<Utc>,
}

/// When a step began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTimes {
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
}

/// One job, whole.
#[derive(Debug, Clone)]
pub struct Record {
    pub row: JobRow,
    pub job: Job,
    /// In the order of the steps.
    pub times: Vec<StepTimes>,
    /// What each effect is aimed at: a recipient, a model.
    pub targets: HashMap<u32, String>,
    pub message_ids: HashMap<u32, String>,
    pub effect_times: HashMap<u32, DateTime<Utc>>,
}

#[derive(FromRow)]
pub(crate) struct JobColumns {
    id: JobId,
    owner_id: UserId,
    request_key: RequestKey,
    owner_email: String,
    spec: String,
    phase: String,
    version: i64,
    epoch: i64,
    lease_owner: Option<String>,
    lease_expires_at: Option<DateTime<Utc>>,
    lost_claims: i64,
    failed_step: Option<String>,
    failure: Option<String>,
    hold_until: Option<DateTime<Utc>>,
    set_aside_at: Option<DateTime<Utc>>,
    restored_at: Option<DateTime<Utc>>,
    /// When the copy was made that was restored then; `None` where nobody knows.
    copied_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
    cancel_requested_at: Option<DateTime<Utc>>,
    cancel_requested_by: Option<String>,
    report_id: Option<ReportId>,
    database_time: DateTime<Utc>,
}

/// A step or an effect: they are read together, since each query costs a way to the database and back.
#[derive(FromRow)]
pub(crate) struct PartColumns {
    job_id: JobId,
    /// The place of a step, the number of an effect.
    number: i64,
    kind: String,
    /// The state of a step, the outcome of an effect.
    state: String,
    /// What is done of a step, the attempts at an effect.
    done: i64,
    /// What there is to do in a step, the epoch of an effect.
    total: i64,
    not_done: Option<String>,
    evidence: Option<String>,
    via: Option<String>,
    unconfirmed: Option<String>,
    attested: i64,
    contradiction: Option<String>,
    target: Option<String>,
    message_id: Option<String>,
    /// When a step began, or when an effect changed.
    at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
}

/// Reads the jobs whose id is what `$which` says, oldest first, in two queries however many they are. Inside a transaction, so that
/// the parts of each belong together; inside a write transaction nothing can be stale.
macro_rules! load {
    ($tx:expr, $which:expr $(, $value:expr)*) => {
        async {
            let jobs: Vec<$crate::record::JobColumns> = $crate::db::within!($tx, conn => sqlx::query_as(concat!(
                "select jobs.id, owner_id, request_key, users.email as owner_email, spec, phase, version, epoch, lease_owner,
                        lease_expires_at, lost_claims, failed_step, failure, hold_until, set_aside_at, restored_at,
                        (select min(copied_at) from restores where restores.restored_at = jobs.restored_at) as copied_at,
                        jobs.created_at, started_at, finished_at, cancel_requested_at, cancel_requested_by,
                        reports.id as report_id, current_timestamp as database_time
                 from jobs join users on users.id = jobs.owner_id left join reports on reports.job_id = jobs.id
                 where jobs.id ", $which,
            ))$(.bind($value))*.fetch_all(conn).await)?;
            let parts: Vec<$crate::record::PartColumns> = $crate::db::within!($tx, conn => sqlx::query_as(concat!(
                "select job_id, position as number, kind, state, done, total, null as not_done, null as evidence, null as via,
                        null as unconfirmed, 0 as attested, null as contradiction, null as target, null as message_id,
                        started_at as at, ended_at
                 from steps where job_id ", $which, "
                 union all
                 select job_id, number, kind, outcome, attempts, epoch, not_done, evidence, via, unconfirmed, attested, contradiction,
                        target, message_id, changed_at, null
                 from effects where job_id ", $which, "
                 order by number",
            ))$(.bind($value))*.fetch_all(conn).await)?;
            $crate::record::assemble(jobs, parts)
        }
    };
}
pub(crate) use load;

/// One job.
pub(super) async fn load_one(tx: &mut Tx, id: JobId) -> Result<Option<Record>, StoreError> {
    Ok(load!(*tx, "= $1", id).await?.pop())
}

/// Every job with its parts, by their ids.
pub(crate) fn assemble(mut jobs: Vec<JobColumns>, parts: Vec<PartColumns>) -> Result<Vec<Record>, StoreError> {
    let mut of_job: HashMap<JobId, Vec<PartColumns>> = HashMap::new();
    for part in parts {
        of_job.entry(part.job_id).or_default().push(part);
    }
    jobs.sort_by_key(|job| job.id);
    jobs.into_iter()
        .map(|job| {
            let parts = of_job.remove(&job.id).unwrap_or_default();
            assemble_one(job, parts)
        })
        .collect()
}

fn assemble_one(columns: JobColumns, parts: Vec<PartColumns>) -> Result<Record, StoreError> {
    let (effects, steps): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.target.is_some());
    let row_name = columns.id.to_string();
    let wrong = |table, column| StoreError::Inconsistent { table, column, row: row_name.clone() };
    let spec: Spec = serde_json::from_str(&columns.spec).map_err(|_| wrong("jobs", "spec"))?;
    let kind = spec.task.kind();
    let times = steps.iter().map(|step| StepTimes { started_at: step.at, ended_at: step.ended_at }).collect();
    let steps: Vec<Step> = steps
        .iter()
        .map(|step| {
            Ok(Step {
                kind: StepKind::from_name(&step.kind).ok_or_else(|| wrong("steps", "kind"))?,
                state: StepState::from_name(&step.state).ok_or_else(|| wrong("steps", "state"))?,
                done: small(step.done).ok_or_else(|| wrong("steps", "done"))?,
                total: small(step.total).ok_or_else(|| wrong("steps", "total"))?,
            })
        })
        .collect::<Result<_, StoreError>>()?;
    let has_hold = steps.iter().any(|step| step.kind == StepKind::Hold);
    if !steps.iter().map(|step| step.kind).eq(Job::course(kind, has_hold)) {
        return Err(wrong("steps", "position"));
    }

    let (mut targets, mut message_ids, mut effect_times) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut known = Vec::with_capacity(effects.len());
    for effect in effects {
        let number = small(effect.number).ok_or_else(|| wrong("effects", "number"))?;
        let not_done = match effect.not_done.as_deref() {
            None => None,
            Some(name) => Some(NotDone::from_name(name).ok_or_else(|| wrong("effects", "not_done"))?),
        };
        let unconfirmed = match effect.unconfirmed.as_deref() {
            None => None,
            Some(name) => Some(Unconfirmed::from_name(name).ok_or_else(|| wrong("effects", "unconfirmed"))?),
        };
        let outcome = Outcome::from_name(&effect.state).ok_or_else(|| wrong("effects", "outcome"))?;
        known.push(Effect {
            number,
            kind: EffectKind::from_name(&effect.kind).ok_or_else(|| wrong("effects", "kind"))?,
            outcome,
            unconfirmed,
            not_done,
            attempts: small(effect.done).ok_or_else(|| wrong("effects", "attempts"))?,
            epoch: small(effect.total).ok_or_else(|| wrong("effects", "epoch"))?,
            via: effect.via.as_deref().and_then(Via::from_name).ok_or_else(|| wrong("effects", "via"))?,
            evidence: effect.evidence,
            attested: effect.attested != 0,
            contradiction: effect.contradiction,
        });
        targets.extend(effect.target.map(|target| (number, target)));
        effect_times.extend(effect.at.map(|at| (number, at)));
        message_ids.extend(effect.message_id.map(|id| (number, id)));
    }

    let failure = match (columns.failed_step.as_deref(), columns.failure) {
        (Some(step), Some(reason)) => {
            Some(Failure { step: StepKind::from_name(step).ok_or_else(|| wrong("jobs", "failed_step"))?, reason })
        }
        (None, None) => None,
        _ => return Err(wrong("jobs", "failure")),
    };
    let job = Job {
        kind,
        phase: Phase::from_name(&columns.phase).ok_or_else(|| wrong("jobs", "phase"))?,
        epoch: small(columns.epoch).ok_or_else(|| wrong("jobs", "epoch"))?,
        leased: columns.lease_owner.is_some(),
        lost_claims: small(columns.lost_claims).ok_or_else(|| wrong("jobs", "lost_claims"))?,
        cancel_requested: columns.cancel_requested_at.is_some(),
        steps,
        effects: known,
        failure,
        copied: columns.restored_at.map(|_| copy_in_words(columns.copied_at, &spec)),
    };
    let row = JobRow {
        id: columns.id,
        owner_id: columns.owner_id,
        request_key: columns.request_key,
        owner_email: columns.owner_email,
        spec,
        version: columns.version,
        lease_owner: columns.lease_owner,
        lease_expires_at: columns.lease_expires_at,
        hold_until: columns.hold_until,
        set_aside_at: columns.set_aside_at,
        restored_at: columns.restored_at,
        created_at: columns.created_at,
        started_at: columns.started_at,
        finished_at: columns.finished_at,
        cancel_requested_at: columns.cancel_requested_at,
        cancel_requested_by: columns.cancel_requested_by,
        report_id: columns.report_id,
        database_time: columns.database_time,
    };
    Ok(Record { row, job, times, targets, message_ids, effect_times })
}

/// What a job was restored from, as sentences about it say it: in the zone of its month, since all who read it read the same.
pub(super) fn copy_in_words(copied_at: Option<DateTime<Utc>>, spec: &Spec) -> String {
    let zone = parse_zone(&spec.zone).unwrap_or(Tz::UTC);
    copied_at.map_or_else(|| "a copy".into(), |at| format!("a backup of {}", at.with_timezone(&zone).format("%-d %B, %H:%M")))
}

fn small(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}
