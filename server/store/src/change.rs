//! The one way to change a job.
//!
//! Every change goes through [`JobTx`]: it loads the record under the database's write lock, a transition of the contract is
//! applied to it, and `commit` stores what differs, with the history, under the condition that the record still has the
//! version that was read. Cancel and every commit of a worker are therefore transactions on the same row, and one of the two
//! comes first. On PostgreSQL the lock is the job's row, with that of the report's job for a mailing about it; the claim of a job that
//! was just announced does without, and gives way where the version is another one.

use super::{
    Store, StoreError,
    afterwards::{Decision, Ruling, add_decision},
    db::{Batch, Tx, Value},
    record::{JobRow, Record, load_one},
    relay::Announcer,
    text::storable,
};
use crate::notifications::JobChanged;
use chrono::{DateTime, TimeDelta, Utc};
use contract::wording::{self, Known};
use contract::{Change, Effect, EffectKind, Job, NotDone, Outcome, Phase, StepState, Unconfirmed, changes};
use domain::{
    fail_point::{self, Commit},
    hold::Hold,
    id::{JobId, UserId},
    spec::Spec,
};
use std::collections::HashMap;
use uuid::Uuid;

/// A change of one job under way.
pub struct JobTx {
    pub(super) tx: Tx,
    pub(super) before: Record,
    /// The record; apply the contract's transitions to it.
    pub job: Job,
    /// The instant that the change is stamped with.
    pub now: DateTime<Utc>,
    /// The same in the time that decides about leases and holds.
    pub(super) lease_now: DateTime<Utc>,
    pub(super) lease: Option<(String, DateTime<Utc>)>,
    /// When the hold ends that the job is in already.
    pub(super) hold_until: Option<DateTime<Utc>>,
    pub(super) cancel: Option<(DateTime<Utc>, String)>,
    targets: HashMap<u32, String>,
    /// Each with the number of the effect that it is about.
    notes: Vec<(Option<u32>, String)>,
    decisions: Vec<(u32, Decision)>,
    /// Jobs that are made in the same transaction.
    pub(super) new_jobs: Vec<JobChanged>,
    announcer: Announcer,
}

impl Store {
    /// Opens a change of a job; `None` if there is no such job.
    pub async fn change_job(&self, id: JobId) -> Result<Option<JobTx>, StoreError> {
        self.change_locked(self.db.begin_on_job(id).await?, id).await
    }

    /// Opens a change of a job that `tx` has locked, or that may be refused in the end because somebody else was first.
    pub(super) async fn change_locked(&self, mut tx: Tx, id: JobId) -> Result<Option<JobTx>, StoreError> {
        let record = load_one(&mut tx, id).await?;
        Ok(record.map(|before| self.change_within(tx, before)))
    }

    /// Like [`Store::change_job`], in a transaction in which the record was read and which the caller commits.
    pub(super) fn change_within(&self, tx: Tx, before: Record) -> JobTx {
        JobTx {
            tx,
            job: before.job.clone(),
            lease: before.row.lease_owner.clone().zip(before.row.lease_expires_at),
            cancel: before.row.cancel_requested_at.zip(before.row.cancel_requested_by.clone()),
            hold_until: before.row.hold_until,
            lease_now: self.lease_time_of(before.row.database_time),
            before,
            now: self.clock.now(),
            targets: HashMap::new(),
            notes: Vec::new(),
            decisions: Vec::new(),
            new_jobs: Vec::new(),
            announcer: self.announcer.clone(),
        }
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
        self.notes.push((None, sentence));
    }

    /// Adds a sentence to the history of an effect.
    pub fn note_on(&mut self, number: u32, sentence: String) {
        self.notes.push((Some(number), sentence));
    }

    /// Writes down who decides what about an effect, and why.
    pub(super) fn decide(&mut self, number: u32, ruling: Ruling, by: &str, reason: &str) {
        self.note_on(number, format!("{by} decided: {}. {reason}", ruling.words()));
        self.decisions.push((number, Decision { at: self.now, by: by.to_owned(), ruling, reason: reason.to_owned() }));
    }

    /// Stores what differs and tells the notifications. Returns the new version, or the old one where nothing differs.
    pub async fn commit(mut self) -> Result<i64, StoreError> {
        let version = self.write().await?;
        self.end(version).await
    }

    /// Commits what [`JobTx::write`] has written, and what the caller has added to it.
    pub(super) async fn end(self, version: i64) -> Result<i64, StoreError> {
        let commit = Commit(&self.before.job, &self.job);
        fail_point::reach("before", commit).await;
        let mut news = self.new_jobs;
        if version != self.before.row.version {
            news.push(JobChanged::of(self.before.row.id, self.before.row.owner_id, version, &self.job));
        }
        self.announcer.commit(self.tx, &news).await?;
        fail_point::reach("after", commit).await;
        Ok(version)
    }

    /// Stores what differs, inside the transaction.
    pub(super) async fn write(&mut self) -> Result<i64, StoreError> {
        let found = changes(&self.before.job, &self.job);
        let row = &self.before.row;
        if self.job == self.before.job && self.notes.is_empty() && self.lease_unchanged() {
            return Ok(row.version);
        }
        let (id, version, now) = (row.id, row.version, self.now);
        let lease = self.lease.take().filter(|_| self.job.leased);
        let started = row.started_at.or_else(|| (self.job.phase == Phase::Running).then_some(now));
        let finished = row.finished_at.or_else(|| self.job.phase.is_final().then_some(now));
        let hold_until = match row.spec.hold {
            _ if !self.job.is_held() => None,
            _ if self.before.job.is_held() => self.hold_until,
            Hold::Countdown(seconds) => Some(self.lease_now + TimeDelta::seconds(seconds.into())),
            Hold::None | Hold::Approval => None,
        };
        let (cancel_at, cancel_by) = self.cancel.clone().unzip();
        let (lease_owner, lease_until) = lease.unzip();
        let (failed_step, failure) = self.job.failure.as_ref().map(|f| (f.step.name(), f.reason.clone())).unzip();
        let mut batch = Batch::default();
        batch.update_one(
            "update of a job",
            "update jobs set phase = $3, version = $2 + 1, epoch = $4, lease_owner = $5, lease_expires_at = $6, lost_claims = $7,
                    failed_step = $8, failure = $9, started_at = $10, finished_at = $11,
                    cancel_requested_at = $12, cancel_requested_by = $13, hold_until = $14
             where id = $1 and version = $2",
            [
                id.into(),
                version.into(),
                self.job.phase.name().into(),
                self.job.epoch.into(),
                lease_owner.into(),
                lease_until.into(),
                self.job.lost_claims.into(),
                failed_step.into(),
                failure.as_deref().map(storable).into(),
                started.into(),
                finished.into(),
                cancel_at.into(),
                cancel_by.into(),
                hold_until.into(),
            ],
        );
        self.add_steps(&mut batch);
        self.add_effects(&mut batch);
        let mut entries = Vec::with_capacity(found.len() + self.notes.len());
        for change in &found {
            let effect = match change {
                Change::Effect { number, .. } => Some(*number),
                Change::Phase(_) | Change::CancelRequested | Change::Step(..) => None,
            };
            entries.push((effect, self.describe(*change)));
        }
        entries.append(&mut self.notes);
        add_entries(&mut batch, id, now, &entries);
        for (number, decision) in std::mem::take(&mut self.decisions) {
            add_decision(&mut batch, id, number, &decision);
        }
        self.tx.write(batch).await?;
        Ok(version + 1)
    }

    fn lease_unchanged(&self) -> bool {
        self.lease.as_ref().map(|(_, until)| *until) == self.before.row.lease_expires_at
    }

    fn add_steps(&self, batch: &mut Batch) {
        for (earlier, step) in self.before.job.steps.iter().zip(&self.job.steps) {
            if earlier == step {
                continue;
            }
            let begins = step.state == StepState::Running && earlier.state != StepState::Running;
            let ends =
                matches!(step.state, StepState::Done | StepState::Failed | StepState::Stopped) && earlier.state != step.state;
            batch.update_one(
                "update of a step",
                "update steps set state = $3, done = $4, total = $5,
                        started_at = coalesce(started_at, $6), ended_at = coalesce($7, ended_at)
                 where job_id = $1 and kind = $2",
                [
                    self.before.row.id.into(),
                    step.kind.name().into(),
                    step.state.name().into(),
                    step.done.into(),
                    step.total.into(),
                    begins.then_some(self.now).into(),
                    ends.then_some(self.now).into(),
                ],
            );
        }
    }

    fn add_effects(&self, batch: &mut Batch) {
        let row = &self.before.row;
        for effect in &self.job.effects {
            let earlier = self.before.job.effect(effect.number);
            match earlier {
                None => {
                    let target = self.targets.get(&effect.number).cloned().unwrap_or_default();
                    let new = NewEffect { effect, target, message_id: None };
                    add_new_effects(batch, row.id, [new], &row.spec, row.owner_id, self.now);
                }
                Some(earlier) if earlier == effect => continue,
                Some(earlier) if earlier.contradiction != effect.contradiction => {
                    // Of what a person has settled nothing else changes.
                    batch.update_one(
                        "contradiction of an effect",
                        "update effects set contradiction = $3 where job_id = $1 and number = $2",
                        [row.id.into(), effect.number.into(), effect.contradiction.as_deref().map(storable).into()],
                    );
                    continue;
                }
                Some(_) => batch.update_one(
                    "update of an effect",
                    "update effects set outcome = $3, not_done = $4, attempts = $5, epoch = $6, evidence = $7, changed_at = $8,
                            via = $9, unconfirmed = $10, attested = $11
                     where job_id = $1 and number = $2",
                    [
                        self.before.row.id.into(),
                        effect.number.into(),
                        effect.outcome.name().into(),
                        effect.not_done.map(NotDone::name).into(),
                        effect.attempts.into(),
                        effect.epoch.into(),
                        effect.evidence.as_deref().map(storable).into(),
                        self.now.into(),
                        effect.via.name().into(),
                        effect.unconfirmed.map(Unconfirmed::name).into(),
                        u32::from(effect.attested).into(),
                    ],
                ),
            }
            let attempted_before = earlier.map_or(0, |earlier| earlier.attempts);
            let was_open = earlier.is_some_and(|earlier| earlier.outcome.is_open());
            if effect.attempts > attempted_before {
                self.add_new_attempt(batch, effect);
            } else if effect.is_copied() && !was_open {
                // No attempt of this copy is in doubt: it has made none, or what became of it is known.
            } else if earlier.is_some_and(|earlier| earlier.outcome == Outcome::Unconfirmed) {
                self.add_settled_attempt(batch, effect, earlier.is_some_and(Effect::is_copied));
            } else {
                self.add_attempt(batch, effect);
            }
        }
    }

    fn add_new_attempt(&self, batch: &mut Batch, effect: &Effect) {
        let [job, number, attempt, epoch, outcome, evidence, doubted, ended] = self.attempt(effect);
        let envelope_id = (effect.kind == EffectKind::Email).then(Uuid::new_v4);
        batch.insert(
            "attempts (job_id, number, attempt, epoch, outcome, evidence, in_doubt_at, ended_at, began_at, envelope_id)",
            [[job, number, attempt, epoch, outcome, evidence, doubted, ended, self.now.into(), envelope_id.into()]],
        );
    }

    fn add_attempt(&self, batch: &mut Batch, effect: &Effect) {
        batch.update(
            "update attempts set epoch = $4, outcome = $5, evidence = $6, in_doubt_at = coalesce($7, in_doubt_at), ended_at = $8
             where job_id = $1 and number = $2 and attempt = $3",
            self.attempt(effect),
        );
    }

    /// The columns of the attempt that an effect is at, but for when it began.
    fn attempt(&self, effect: &Effect) -> [Value; 8] {
        [
            self.before.row.id.into(),
            effect.number.into(),
            effect.attempts.into(),
            effect.epoch.into(),
            effect.outcome.name().into(),
            effect.evidence.as_deref().map(storable).into(),
            (effect.outcome == Outcome::InDoubt).then_some(self.now).into(),
            (!effect.outcome.is_open()).then_some(self.now).into(),
        ]
    }

    /// What was found out later stands beside what the attempt itself has seen. What the original may have done may have been
    /// another attempt than the last one of this copy.
    fn add_settled_attempt(&self, batch: &mut Batch, effect: &Effect, was_copied: bool) {
        let values = [
            self.before.row.id.into(),
            effect.number.into(),
            effect.attempts.into(),
            effect.outcome.name().into(),
            self.now.into(),
            storable(effect.evidence.as_deref().unwrap_or_default()).into(),
        ];
        let text = "update attempts set outcome = $4, settled_at = $5, settled_by = $6
                    where job_id = $1 and number = $2 and attempt = $3 and outcome = 'unconfirmed'";
        if was_copied {
            batch.update(text, values);
        } else {
            batch.update_one("settling of an attempt", text, values);
        }
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
                let what = wording::effect_name(self.job.kind, kind, number, target.map_or("", String::as_str));
                let effect = self.job.effect(number);
                // A person's word is no proof.
                let attested = effect.and_then(|effect| effect.not_done).filter(|why| *why == NotDone::Attested);
                let via = effect.map(|effect| effect.via).unwrap_or_default();
                let known = Known { kind, outcome, not_done: attested, via, contradicted: false, phase: None };
                format!("{what}: {}", known.outcome())
            }
        }
    }

    fn cancel_by(&self) -> String {
        self.cancel.as_ref().map(|(_, by)| by.clone()).unwrap_or_default()
    }
}

/// An effect that has no row yet.
pub(super) struct NewEffect<'a> {
    pub(super) effect: &'a Effect,
    /// What it is aimed at.
    pub(super) target: String,
    /// For e-mails.
    pub(super) message_id: Option<String>,
}

/// Adds the rows of new effects. They say about their job what is needed to understand them when it is deleted.
pub(super) fn add_new_effects<'a>(
    batch: &mut Batch,
    job: JobId,
    effects: impl IntoIterator<Item = NewEffect<'a>>,
    spec: &Spec,
    owner: UserId,
    now: DateTime<Utc>,
) {
    batch.insert(
        "effects (job_id, number, kind, outcome, not_done, attempts, epoch, evidence, target, message_id,
                  job_kind, job_title, job_month, owner_email, created_at, changed_at)",
        effects.into_iter().map(|NewEffect { effect, target, message_id }| {
            [
                job.into(),
                effect.number.into(),
                effect.kind.name().into(),
                effect.outcome.name().into(),
                effect.not_done.map(NotDone::name).into(),
                effect.attempts.into(),
                effect.epoch.into(),
                effect.evidence.as_deref().map(storable).into(),
                storable(&target).into(),
                message_id.into(),
                spec.task.kind().name().into(),
                storable(&spec.title).into(),
                spec.month.to_string().into(),
                Value::EmailOf(owner),
                now.into(),
                now.into(),
            ]
        }),
    );
}

/// Adds entries to the history of a job, each with the number of the effect that it is about.
pub(super) fn add_entries(batch: &mut Batch, job: JobId, at: DateTime<Utc>, entries: &[(Option<u32>, String)]) {
    let rows = entries.iter().map(|(effect, entry)| [job.into(), (*effect).into(), at.into(), storable(entry).into()]);
    batch.insert("history (job_id, effect, at, entry)", rows);
}
