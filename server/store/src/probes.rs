//! Probes for unconfirmed e-mails: when the next one is due, and what each has found. A look is written down before it is made,
//! so that no two workers make the same one and a repetition under a provider's key has its intent on record.

use super::{
    Store, StoreError,
    afterwards::other_copies,
    db::{read, within},
    error::one_row,
    text::storable,
};
use chrono::{DateTime, TimeDelta, Utc};
use contract::{Outcome, Refusal, Verdict};
use domain::id::JobId;
use sqlx::FromRow;
use std::collections::HashMap;
use uuid::Uuid;

/// When looks are made, counted from the moment at which the e-mail became unconfirmed. The first ones catch a mail server that
/// was only slow to answer, the last ones a queue that is worked off over night.
pub const LOOK_AFTER: [TimeDelta; 5] =
    [TimeDelta::minutes(1), TimeDelta::minutes(5), TimeDelta::minutes(30), TimeDelta::hours(2), TimeDelta::hours(12)];

/// How many unconfirmed e-mails one round looks for, the oldest first. Those that all looks were made for are no longer counted:
/// they may stay unconfirmed for ever, and must not stand in the way of the others.
const AT_ONCE: i64 = 200;

/// A look that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueProbe {
    pub job: JobId,
    pub number: u32,
    /// Its place in the schedule, from 1.
    pub round: u32,
    /// Since when the e-mail is unconfirmed.
    pub since: DateTime<Utc>,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// Proof.
    Found,
    /// Something for a person to look at, which proves nothing.
    Hint,
    /// Nothing was seen, which proves nothing.
    Nothing,
    /// The place could not be looked at.
    Failed,
}

impl ProbeResult {
    /// The name under which it is stored.
    fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Hint => "hint",
            Self::Nothing => "nothing",
            Self::Failed => "failed",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Found, Self::Hint, Self::Nothing, Self::Failed].into_iter().find(|one| one.name() == name)
    }
}

/// One look at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRecord {
    pub round: u32,
    pub place: String,
    pub began_at: DateTime<Utc>,
    /// When it ended, with what, and what was seen; `None` while it is made, or when the program died in it.
    pub end: Option<(DateTime<Utc>, ProbeResult, String)>,
}

#[derive(FromRow)]
struct ProbeColumns {
    round: i64,
    place: String,
    began_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    result: Option<String>,
    evidence: Option<String>,
}

impl Store {
    /// The looks that are due now.
    pub async fn due_probes(&self) -> Result<Vec<DueProbe>, StoreError> {
        let now = self.clock.now();
        Ok(self.next_looks(None).await?.into_iter().filter(|(at, _)| *at <= now).map(|(_, look)| look).collect())
    }

    /// When the next look is due.
    pub async fn next_look(&self) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(self.next_looks(None).await?.into_iter().map(|(at, _)| at).min())
    }

    /// When the next look for this e-mail is due, if it is unconfirmed and looks are left.
    pub async fn next_look_for(&self, job: JobId, number: u32) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(self.next_looks(Some((job, number))).await?.pop().map(|(at, _)| at))
    }

    async fn next_looks(&self, only: Option<(JobId, u32)>) -> Result<Vec<(DateTime<Utc>, DueProbe)>, StoreError> {
        // The list of outcomes is that of an index: without it every round would read the whole history.
        let rows: Vec<(JobId, i64, DateTime<Utc>, i64)> = read!(self.db, conn => {
            sqlx::query_as(
                "select job_id, number, changed_at,
                        (select count(distinct round) from probes
                         where probes.job_id = effects.job_id and probes.number = effects.number) as rounds
                 from effects
                 where outcome in ('in_flight', 'in_doubt', 'unconfirmed') and outcome = 'unconfirmed' and kind = 'email'
                   and (select count(distinct round) from probes
                        where probes.job_id = effects.job_id and probes.number = effects.number) < $2
                   and ($3 is null or (job_id = $3 and number = $4))
                 order by changed_at limit $1",
            )
            .bind(AT_ONCE).bind(i64::try_from(LOOK_AFTER.len()).unwrap_or(i64::MAX))
            .bind(only.map(|(job, _)| job)).bind(only.map(|(_, number)| i64::from(number)))
            .fetch_all(conn)
            .await
        })?;
        let next = |(job, number, since, rounds): (JobId, i64, DateTime<Utc>, i64)| {
            let after = LOOK_AFTER.get(usize::try_from(rounds).ok()?)?;
            let (number, round) = (u32::try_from(number).ok()?, u32::try_from(rounds).ok()? + 1);
            Some((since + *after, DueProbe { job, number, round, since }))
        };
        Ok(rows.into_iter().filter_map(next).collect())
    }

    /// Writes down that a look is made. Says no where another worker makes it already, and where nothing is left to look for:
    /// a round of looks takes long, and what was due at its beginning may be settled by now.
    pub async fn begin_look(&self, look: &DueProbe, place: &str) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query(
                "insert into probes (job_id, number, round, place, began_at)
                 select job_id, number, $3, $4, $5 from effects where job_id = $1 and number = $2 and outcome = 'unconfirmed'
                 on conflict (job_id, number, round, place) do nothing",
            )
            .bind(look.job).bind(i64::from(look.number)).bind(i64::from(look.round)).bind(place).bind(now)
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(rows == 1)
    }

    /// Writes down what a look has found; proof settles the e-mail in the same transaction. Returns what the find counts for.
    ///
    /// A second copy has the Message-ID of the first. Where both may have been accepted, a trace of one says nothing about the
    /// other, so that it stays on record and settles neither.
    pub async fn end_look(
        &self,
        look: &DueProbe,
        place: &str,
        result: ProbeResult,
        evidence: &str,
    ) -> Result<ProbeResult, StoreError> {
        let Some(mut change) = self.change_job(look.job).await? else { return Ok(result) };
        let ambiguous =
            result == ProbeResult::Found && other_copies(&mut change.tx, look.job, look.number).await?.may_be_accepted;
        let (result, evidence) = if ambiguous {
            let doubt = "the message was sent more than once, and this may be another copy of it";
            (ProbeResult::Nothing, format!("{evidence}; {doubt}"))
        } else {
            (result, evidence.to_owned())
        };
        let (now, name) = (change.now, result.name());
        let rows = within!(change.tx, conn => {
            sqlx::query(
                "update probes set ended_at = $5, result = $6, evidence = $7
                 where job_id = $1 and number = $2 and round = $3 and place = $4 and result is null",
            )
            .bind(look.job).bind(i64::from(look.number)).bind(i64::from(look.round)).bind(place)
            .bind(now).bind(name).bind(storable(&evidence))
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        one_row("end of a look", rows)?;
        if result == ProbeResult::Found {
            let verdict = Verdict::Done(format!("{evidence} ({place})"));
            match change.job.reconcile(look.number, verdict.clone()) {
                Ok(()) => change.note_on(look.number, format!("Found by a look at the {place}")),
                // Somebody has settled it meanwhile, and that stays. Proof of the contrary stands beside it.
                Err(Refusal::OutOfOrder(_)) => {
                    change.job.contradict(look.number, &verdict);
                    if change.job.effect(look.number).is_some_and(|effect| effect.outcome == Outcome::NotDone) {
                        change.note_on(look.number, format!("A look at the {place} found it all the same: {evidence}"));
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        change.commit().await?;
        Ok(result)
    }

    /// Settles an unconfirmed e-mail by what its channel can prove. Says no where somebody else has settled it, and where the
    /// proof may be of another copy, as with looks.
    pub async fn settle_by_channel(&self, job: JobId, number: u32, verdict: Verdict) -> Result<bool, StoreError> {
        let Some(mut change) = self.change_job(job).await? else { return Ok(false) };
        let ambiguous = matches!(verdict, Verdict::Done(_)) && other_copies(&mut change.tx, job, number).await?.may_be_accepted;
        if ambiguous {
            return Ok(false);
        }
        if change.job.reconcile(number, verdict.clone()).is_err() {
            if let (true, Verdict::Done(answer) | Verdict::NotDone(_, answer)) =
                (change.job.contradict(number, &verdict), &verdict)
            {
                change.note_on(number, format!("The channel says otherwise: {answer}"));
                change.commit().await?;
            }
            return Ok(false);
        }
        change.commit().await?;
        Ok(true)
    }

    /// The envelope ids of the attempts at an e-mail, by their number.
    ///
    /// They are for the mail service and for what its reports are compared with, and for nobody's eyes: who knows one can make
    /// up a report.
    pub async fn envelope_ids(&self, job: JobId, number: u32) -> Result<HashMap<u32, Uuid>, StoreError> {
        let rows: Vec<(i64, Uuid)> = read!(self.db, conn => {
            sqlx::query_as("select attempt, envelope_id from attempts where job_id = $1 and number = $2 and envelope_id is not null")
                .bind(job).bind(i64::from(number)).fetch_all(conn).await
        })?;
        Ok(rows.into_iter().filter_map(|(attempt, id)| Some((u32::try_from(attempt).ok()?, id))).collect())
    }

    /// Whether an attempt at this message, in whatever copy, may have been accepted and nobody knows.
    pub async fn is_doubtful(&self, message_id: &str) -> Result<bool, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar(
                "select exists (select 1 from effects
                                where message_id = $1 and outcome in ('in_flight', 'in_doubt', 'unconfirmed'))",
            )
            .bind(message_id)
            .fetch_one(conn)
            .await
        })?)
    }

    /// When a message was first begun to be handed over, in whatever copy.
    pub async fn first_attempt_at(&self, message_id: &str) -> Result<Option<DateTime<Utc>>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar(
                "select min(began_at) from attempts join effects using (job_id, number) where message_id = $1",
            )
            .bind(message_id)
            .fetch_one(conn)
            .await
        })?)
    }

    /// The looks for an e-mail, oldest first.
    pub async fn probes(&self, job: JobId, number: u32) -> Result<Vec<ProbeRecord>, StoreError> {
        let rows: Vec<ProbeColumns> = read!(self.db, conn => {
            sqlx::query_as(
                "select round, place, began_at, ended_at, result, evidence from probes
                 where job_id = $1 and number = $2 order by began_at, place",
            )
            .bind(job).bind(i64::from(number))
            .fetch_all(conn)
            .await
        })?;
        rows.into_iter()
            .map(|row| {
                let wrong = |column| StoreError::Inconsistent { table: "probes", column, row: format!("{job}/{number}") };
                let end = match (row.ended_at, row.result, row.evidence) {
                    (Some(at), Some(result), Some(evidence)) => {
                        let result = ProbeResult::from_name(&result);
                        Some((at, result.ok_or_else(|| wrong("result"))?, evidence))
                    }
                    _ => None,
                };
                let round = u32::try_from(row.round).map_err(|_| wrong("round"))?;
                Ok(ProbeRecord { round, place: row.place, began_at: row.began_at, end })
            })
            .collect()
    }
}
