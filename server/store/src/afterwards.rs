//! What people decide about a job that has ended or will not end: second copies, corrections, withdrawal, deletion, settling
//! what is unconfirmed, accounting for a stopping job.
//!
//! Each is one transaction: the contract's transition, the decision in the words of the person who took it, and the history.

use super::{
    JobTx, Store, StoreError,
    create::waiting,
    db::{Batch, Lock, Tx, read, within},
    record::{Record, load},
    text::storable,
};
use chrono::{DateTime, Utc};
use contract::{EffectKind, JobKind, Outcome, Refusal};
use domain::{
    id::{JobId, RequestKey},
    spec::{Spec, Task},
};
use sqlx::FromRow;

/// What a person decided about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// The mail service accepted the message.
    Accepted,
    /// It did not.
    NotAccepted,
    /// The message is sent a second time.
    SendAgain,
    /// Nobody waits for the worker any longer.
    AccountNow,
    /// The report is taken back.
    Withdraw,
    /// The job is deleted.
    Delete,
}

impl Ruling {
    const ALL: [Self; 6] = [Self::Accepted, Self::NotAccepted, Self::SendAgain, Self::AccountNow, Self::Withdraw, Self::Delete];

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::NotAccepted => "not_accepted",
            Self::SendAgain => "send_again",
            Self::AccountNow => "account_now",
            Self::Withdraw => "withdraw",
            Self::Delete => "delete",
        }
    }

    /// The decision as its button calls it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Accepted => "It was accepted",
            Self::NotAccepted => "It was not accepted",
            Self::SendAgain => "Send again",
            Self::AccountNow => "Account for it now",
            Self::Withdraw => "Withdraw the report",
            Self::Delete => "Delete the job",
        }
    }
}

/// A decision about an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub at: DateTime<Utc>,
    /// The address of the person who took it.
    pub by: String,
    pub ruling: Ruling,
    /// What they saw, or why.
    pub reason: String,
}

/// What became of the order for a mailing about another job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mailing {
    /// There is a job for it: a new one, or the one that the same request has made before.
    Job(JobId),
    /// There is no such job, or not such an e-mail.
    NotFound,
    /// The job has not ended yet.
    NotEnded,
    /// Nobody can have got the link.
    NobodyWasWrittenTo,
    /// The message was accepted already.
    Accepted,
    /// The message may have been accepted, and nobody has said that a second one is wanted all the same.
    MayDuplicate,
    /// Another second copy of this message is on its way.
    OnItsWay,
    /// The key belongs to something else.
    KeyInUse,
    /// The report is withdrawn: its link must not go out again.
    Withdrawn,
}

/// How many effects are forgotten in one transaction: nobody's Cancel should wait for a clean-up.
const FORGET_AT_ONCE: i64 = 200;

/// The beginning of a query that needs the job `$1` with the mailings about it, and about those. What follows says `cross join`,
/// which SQLite follows in the order in which it is written: it takes a family for as large as all jobs.
macro_rules! with_family {
    ($rest:literal) => {
        concat!(
            "with recursive family (id) as
                 (select id from jobs where id = $1 union select jobs.id from jobs join family on jobs.about_job = family.id) ",
            $rest
        )
    };
}

#[derive(FromRow)]
struct DecisionColumns {
    at: DateTime<Utc>,
    by_email: String,
    decision: String,
    reason: String,
}

impl JobTx {
    /// Whether the report of this job, or the one that this mailing is about, is taken back.
    pub async fn is_withdrawn(&mut self) -> Result<bool, StoreError> {
        let id = self.row().id;
        is_withdrawn(&mut self.tx, id).await
    }
}

impl Store {
    /// A person with the admin role says what became of an unconfirmed e-mail, and what they saw.
    ///
    /// `None` if there is no such effect; refused where it is not unconfirmed (any more).
    pub async fn settle_by_person(
        &self,
        id: JobId,
        number: u32,
        accepted: bool,
        by: &str,
        seen: &str,
    ) -> Result<Option<()>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        if change.job.effect(number).is_none() {
            return Ok(None);
        }
        let evidence = format!("{by} looked into it: {seen}");
        change.job.attest(number, accepted, evidence)?;
        change.decide(number, if accepted { Ruling::Accepted } else { Ruling::NotAccepted }, by, seen);
        change.commit().await?;
        Ok(Some(()))
    }

    /// A person with the admin role will not wait for a stopping job any longer. Refused where it is not stopping (any more).
    pub async fn account_now(&self, id: JobId, by: &str, why: &str) -> Result<Option<()>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        change.job.account_now()?;
        // What was unconfirmed before is so without this decision.
        let was_open = |number| change.before.job.effect(number).is_some_and(|effect| effect.outcome.is_open());
        let doubtful: Vec<u32> = change
            .job
            .emails()
            .filter(|email| email.outcome == Outcome::Unconfirmed && was_open(email.number))
            .map(|email| email.number)
            .collect();
        for number in &doubtful {
            change.decide(*number, Ruling::AccountNow, by, why);
        }
        let left = match doubtful.len() {
            0 => "nothing is unconfirmed by that".to_owned(),
            1 => "1 e-mail is unconfirmed by that".to_owned(),
            n => format!("{n} e-mails are unconfirmed by that"),
        };
        change.note(format!("Accounted for now by {by}, without waiting for the worker: {left}. {why}"));
        change.commit().await?;
        Ok(Some(()))
    }

    /// Takes a saved report back. Refused where there is none, or where it is withdrawn already.
    pub async fn withdraw_report(&self, id: JobId, by: &str, why: &str) -> Result<Option<()>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        let number = change.job.withdraw(format!("withdrawn by {by}: {why}"))?;
        change.name_target(number, change.row().spec.title.clone());
        change.decide(number, Ruling::Withdraw, by, why);
        let now = change.now;
        within!(change.tx, conn => {
            sqlx::query("update reports set withdrawn_at = $2, withdrawn_by = $3, withdrawn_why = $4 where job_id = $1")
                .bind(id).bind(now).bind(by).bind(storable(why)).execute(conn).await.map(drop)
        })?;
        change.commit().await?;
        Ok(Some(()))
    }

    /// Deletes a job with everything that it has made, and the mailings about it. Its effects stay in the history.
    ///
    /// Refused while it, or a mailing about it, has not ended or has an unconfirmed e-mail. A mailing is not deleted by itself:
    /// its report's page tells by it who has got what.
    pub async fn delete_job(&self, id: JobId, by: &str, why: &str) -> Result<Option<()>, StoreError> {
        let Some(mut change) = self.change_job(id).await? else { return Ok(None) };
        if change.row().spec.task.about().is_some() {
            return Err(Refusal::OutOfOrder("a mailing is deleted with its report").into());
        }
        let busy: bool = within!(change.tx, conn => {
            sqlx::query_scalar(with_family!(
                "select exists (select 1 from family cross join jobs where jobs.id = family.id and jobs.id <> $1 and finished_at is null)
                     or exists (select 1 from family cross join effects
                                where job_id = family.id and job_id <> $1 and outcome = 'unconfirmed')"
            ))
            .bind(id)
            .fetch_one(conn)
            .await
        })?;
        if busy {
            return Err(Refusal::OutOfOrder("a mailing about it is open").into());
        }
        let number = change.job.delete(format!("deleted by {by}: {why}"))?;
        change.name_target(number, change.row().spec.title.clone());
        change.decide(number, Ruling::Delete, by, why);
        let version = change.write().await?;
        // What was uploaded for it; a form that was filled in from it has copies of its own.
        let stored: Vec<Option<String>> = within!(change.tx, conn => {
            sqlx::query_scalar(
                "delete from uploads where (owner_id, request_key) in (select owner_id, request_key from jobs where id = $1)
                 returning stored_as",
            )
            .bind(id)
            .fetch_all(conn)
            .await
        })?;
        for text in [
            with_family!("delete from messages where job_id in (select id from family)"),
            "delete from reports where job_id = $1",
            "delete from drafts where (owner_id, request_key) in (select owner_id, request_key from jobs where id = $1)",
            "delete from jobs where id = $1",
        ] {
            within!(change.tx, conn => sqlx::query(text).bind(id).execute(conn).await.map(drop))?;
        }
        change.end(version).await?;
        self.remove_objects(stored.into_iter().flatten().collect()).await;
        Ok(Some(()))
    }

    /// Orders a mailing about a job that has ended, for its owner. The same key gives the same job. A second copy of what may
    /// have been accepted is only made for somebody who is `sure`.
    pub async fn order_mailing(
        &self,
        key: RequestKey,
        task: Task,
        by: &str,
        why: &str,
        sure: bool,
    ) -> Result<Mailing, StoreError> {
        let Some(about) = task.about() else { return Ok(Mailing::NotFound) };
        let Some(mut change) = self.change_job(about).await? else { return Ok(Mailing::NotFound) };
        let owner = change.row().owner_id;
        change.tx.lock(Lock::Request(key)).await?;
        let known: Option<(JobId, String)> = within!(change.tx, conn => {
            sqlx::query_as("select id, spec from jobs where owner_id = $1 and request_key = $2")
                .bind(owner).bind(key).fetch_optional(conn).await
        })?;
        if let Some((id, spec)) = known {
            let spec: Spec = serde_json::from_str(&spec)?;
            return Ok(if spec.task == task { Mailing::Job(id) } else { Mailing::KeyInUse });
        }
        self.db.has_room()?;
        let recipients = match mailing_recipients(&mut change.tx, &change.before, &task, sure).await? {
            Ok(recipients) => recipients,
            Err(answer) => return Ok(answer),
        };
        let spec = change.row().spec.mailing(task.clone(), recipients);
        let message_id = match &task {
            Task::SecondCopy { number, .. } => change.before.message_ids.get(number).map(String::as_str),
            Task::Correction { .. } | Task::Report => None,
        };
        let (id, mut batch) = (JobId::new(), Batch::default());
        self.add_job(&mut batch, id, owner, key, &spec, message_id)?;
        change.tx.write(batch).await?;
        change.new_jobs.push(waiting(id, owner));
        match &task {
            Task::SecondCopy { number, .. } => {
                copy_message(&mut change.tx, about, *number, id, change.now).await?;
                change.decide(*number, Ruling::SendAgain, by, why);
                change.note_on(*number, format!("The second copy is job {id}"));
            }
            Task::Correction { .. } | Task::Report => change.note(format!("{by} sends a correction: job {id}")),
        }
        change.commit().await?;
        Ok(Mailing::Job(id))
    }

    /// The mailings about a job, and those about them, oldest first.
    pub async fn mailings_about(&self, id: JobId) -> Result<Vec<Record>, StoreError> {
        let mut tx = self.db.snapshot().await?;
        load!(tx, concat!("in (", with_family!("select id from family where id <> $1"), ")"), id).await
    }

    /// The recipients of a job who have got its link, or may have: by its own e-mails or by second copies of them.
    pub async fn written_to(&self, record: &Record) -> Result<Vec<String>, StoreError> {
        written_to(&mut self.db.snapshot().await?, record).await
    }

    /// Whether the report of this job, or the one that this mailing is about, is taken back.
    pub async fn is_withdrawn(&self, id: JobId) -> Result<bool, StoreError> {
        is_withdrawn(&mut self.db.snapshot().await?, id).await
    }

    /// What people decided about an effect, oldest first.
    pub async fn decisions(&self, job: JobId, number: u32) -> Result<Vec<Decision>, StoreError> {
        let rows: Vec<DecisionColumns> = read!(self.db, conn => {
            sqlx::query_as("select at, by_email, decision, reason from decisions where job_id = $1 and number = $2 order by id")
                .bind(job).bind(i64::from(number)).fetch_all(conn).await
        })?;
        rows.into_iter()
            .map(|row| {
                let wrong =
                    || StoreError::Inconsistent { table: "decisions", column: "decision", row: format!("{job}/{number}") };
                let ruling = Ruling::ALL.into_iter().find(|one| one.name() == row.decision).ok_or_else(wrong)?;
                Ok(Decision { at: row.at, by: row.by_email, ruling, reason: row.reason })
            })
            .collect()
    }

    /// Forgets effects that nothing has happened to since `keep_from` and whose job is deleted. Returns how many.
    pub async fn forget_effects(&self, keep_from: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        loop {
            // Found without the database's write lock: among all that is old, most belongs to jobs that are still there.
            let found: Vec<(JobId, i64)> = read!(self.db, conn => {
                sqlx::query_as(
                    "select job_id, number from effects
                     where changed_at < $1 and not exists (select 1 from jobs where jobs.id = effects.job_id) limit $2",
                )
                .bind(keep_from).bind(FORGET_AT_ONCE)
                .fetch_all(conn)
                .await
            })?;
            if found.is_empty() {
                return Ok(forgotten);
            }
            let mut tx = self.db.begin().await?;
            within!(tx, conn => sqlx::query("update horizon set keep_from = $1").bind(keep_from).execute(conn).await.map(drop))?;
            for (job, number) in found {
                for text in [
                    "delete from messages where job_id = $1 and number = $2",
                    "delete from decisions where job_id = $1 and number = $2",
                    "delete from probes where job_id = $1 and number = $2",
                    "delete from attempts where job_id = $1 and number = $2",
                    "delete from history where job_id = $1 and effect = $2",
                ] {
                    within!(tx, conn => sqlx::query(text).bind(job).bind(number).execute(conn).await.map(drop))?;
                }
                forgotten += within!(tx, conn => {
                    sqlx::query("delete from effects where job_id = $1 and number = $2")
                        .bind(job).bind(number).execute(conn).await.map(|done| done.rows_affected())
                })?;
            }
            tx.commit().await?;
        }
    }
}

/// Who the mailing goes to, or why it cannot be sent.
async fn mailing_recipients(
    tx: &mut Tx,
    about: &Record,
    task: &Task,
    sure: bool,
) -> Result<Result<Vec<String>, Mailing>, StoreError> {
    let (id, job) = (about.row.id, &about.job);
    if !job.phase.is_final() {
        return Ok(Err(Mailing::NotEnded));
    }
    let Task::SecondCopy { number, .. } = task else {
        if job.kind != JobKind::Report {
            return Ok(Err(Mailing::NotFound));
        }
        let written_to = written_to(tx, about).await?;
        return Ok(if written_to.is_empty() { Err(Mailing::NobodyWasWrittenTo) } else { Ok(written_to) });
    };
    let Some(email) = job.effect(*number).filter(|effect| effect.kind == EffectKind::Email) else {
        return Ok(Err(Mailing::NotFound));
    };
    if is_withdrawn(tx, id).await? {
        return Ok(Err(Mailing::Withdrawn));
    }
    if email.outcome == Outcome::Done {
        return Ok(Err(Mailing::Accepted));
    }
    let copies = other_copies(tx, id, *number).await?;
    if copies.under_way {
        return Ok(Err(Mailing::OnItsWay));
    }
    if !sure && (email.may_have_happened() || copies.may_be_accepted) {
        return Ok(Err(Mailing::MayDuplicate));
    }
    // A message that was never rendered cannot be sent again byte for byte.
    let rendered: bool = within!(*tx, conn => {
        sqlx::query_scalar("select exists (select 1 from messages where job_id = $1 and number = $2)")
            .bind(id).bind(i64::from(*number)).fetch_one(conn).await
    })?;
    Ok(about.targets.get(number).filter(|_| rendered).map(|to| vec![to.clone()]).ok_or(Mailing::NotFound))
}

async fn written_to(tx: &mut Tx, record: &Record) -> Result<Vec<String>, StoreError> {
    let id = record.row.id;
    let reached: Vec<String> = within!(*tx, conn => {
        sqlx::query_scalar(with_family!(
            "select distinct target from family cross join effects
             where job_id = family.id and kind = 'email' and (outcome in ('in_doubt', 'done', 'unconfirmed') or contradiction is not null)
               and (job_id = $1 or job_kind = 'second_copy')"
        ))
        .bind(id)
        .fetch_all(conn)
        .await
    })?;
    let targets = record.job.emails().filter_map(|email| record.targets.get(&email.number));
    Ok(targets.filter(|target| reached.contains(target)).cloned().collect())
}

async fn is_withdrawn(tx: &mut Tx, id: JobId) -> Result<bool, StoreError> {
    Ok(within!(*tx, conn => {
        sqlx::query_scalar(
            "with recursive line (id) as
                 (select id from jobs where id = $1 union select about_job from jobs join line on line.id = jobs.id)
             select exists (select 1 from reports join line on line.id = job_id where withdrawn_at is not null)",
        )
        .bind(id)
        .fetch_one(conn)
        .await
    })?)
}

/// What there is of a message besides one effect: every copy has the same bytes, and so the same Message-ID.
#[derive(FromRow)]
pub(super) struct OtherCopies {
    /// Another job that has it to send has not ended.
    pub(super) under_way: bool,
    /// Another attempt at it may have been accepted, so what is found of the message may be of that one.
    pub(super) may_be_accepted: bool,
}

pub(super) async fn other_copies(tx: &mut Tx, job: JobId, number: u32) -> Result<OtherCopies, StoreError> {
    Ok(within!(*tx, conn => {
        sqlx::query_as(
            "with copies (job_id, outcome, contradiction) as
                 (select copy.job_id, copy.outcome, copy.contradiction from effects this join effects copy on copy.message_id = this.message_id
                  where this.job_id = $1 and this.number = $2 and copy.job_id <> this.job_id)
             select exists (select 1 from copies join jobs on jobs.id = copies.job_id where finished_at is null) as under_way,
                    exists (select 1 from copies
                            where outcome in ('in_doubt', 'done', 'unconfirmed') or contradiction is not null) as may_be_accepted",
        )
        .bind(job).bind(i64::from(number))
        .fetch_one(conn)
        .await
    })?)
}

async fn copy_message(tx: &mut Tx, from: JobId, number: u32, to: JobId, now: DateTime<Utc>) -> Result<(), StoreError> {
    let rows = within!(*tx, conn => {
        sqlx::query(
            "insert into messages (job_id, number, sender, recipient, message_id, sha256, bytes, created_at)
             select $3, 1, sender, recipient, message_id, sha256, bytes, $4 from messages where job_id = $1 and number = $2",
        )
        .bind(from).bind(i64::from(number)).bind(to).bind(now)
        .execute(conn)
        .await
        .map(|done| done.rows_affected())
    })?;
    super::error::one_row("copy of a message", rows)
}

/// Adds the row of a decision.
pub(super) fn add_decision(batch: &mut Batch, job: JobId, number: u32, decision: &Decision) {
    batch.insert(
        "decisions (job_id, number, at, by_email, decision, reason)",
        [[
            job.into(),
            number.into(),
            decision.at.into(),
            decision.by.clone().into(),
            decision.ruling.name().into(),
            storable(&decision.reason).into(),
        ]],
    );
}
