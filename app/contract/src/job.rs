//! A job and its transitions.
//!
//! A transition either changes the record or refuses and leaves it untouched. Those that let something start carry the claim
//! of their caller and meet two guards, in this order: the lease is still theirs, and no cancel is requested.

use super::{Effect, EffectKind, NotDone, Outcome, Step, StepKind, StepState, Unconfirmed, Verdict, Via, named};
use serde::{Deserialize, Serialize};

/// Counts the claims of a job. A worker carries the epoch of its claim in everything it commits.
pub type Epoch = u32;

/// How many claims may end in a dead worker before the job fails.
pub const MAX_CLAIMS: u32 = 3;

/// What a job is for. The two that only mail come after a report's job has ended, which never changes any more: so each has
/// a record, a Cancel and an end of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Makes a report and e-mails its link.
    #[default]
    Report,
    /// Writes to those who may have got the link that something in the report is wrong.
    Correction,
    /// Sends a message again, on a person's word, whose first copy is unconfirmed or did not go out.
    SecondCopy,
}

named!(JobKind { Report => "report", Correction => "correction", SecondCopy => "second_copy" });

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Created; a worker moves it to `running` by claiming it, a cancel to `cancelled`.
    Queued,
    /// Claimed, or between two claims. Its worker moves it to `finished` or `failed`, a cancel to `stopping`.
    Running,
    /// A cancel was accepted while a worker was at it. The worker, or recovery after it died, moves it to a final phase.
    Stopping,
    /// Final: stopped by a cancel.
    Cancelled,
    /// Final: every step is done.
    Finished,
    /// Final: a step gave up.
    Failed,
}

named!(Phase {
    Queued => "queued", Running => "running", Stopping => "stopping", Cancelled => "cancelled", Finished => "finished",
    Failed => "failed",
});

impl Phase {
    /// Final phases never change.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Cancelled | Self::Finished | Self::Failed)
    }

    /// Whether anything may still start: after a cancel, and after the end, what has not begun never will.
    pub fn lets_start(self) -> bool {
        matches!(self, Self::Queued | Self::Running)
    }
}

/// Why a transition did not take place. The record is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Somebody else holds the job now, or it has ended.
    #[error("the lease is lost")]
    LeaseLost,
    /// A cancel is requested: nothing may start, and no step may complete.
    #[error("a cancel is requested")]
    CancelRequested,
    /// The record does not allow this here; the caller has a bug.
    #[error("not possible in this state: {0}")]
    OutOfOrder(&'static str),
}

/// What a Cancel met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// This request is the one that counts.
    Accepted,
    /// Somebody had asked before; nothing changed.
    AlreadyRequested,
    /// The job had already ended without a cancel.
    TooLate,
}

/// What recovery made of a job whose worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// It may be claimed again, and resumes at the first step that is not done.
    Resumable,
    /// It ended.
    Ended,
}

/// Why and where a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Failure {
    pub step: StepKind,
    /// In the user's words.
    pub reason: String,
}

/// The part of a job's record that the contract governs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    pub kind: JobKind,
    pub phase: Phase,
    /// The latest claim; 0 before the first.
    pub epoch: Epoch,
    /// Whether that claim still holds the job.
    pub leased: bool,
    /// Claims in a row that ended in a dead worker.
    pub lost_claims: u32,
    /// Written once; never taken back.
    pub cancel_requested: bool,
    /// In their order; a hold only where one was asked for.
    pub steps: Vec<Step>,
    pub effects: Vec<Effect>,
    pub failure: Option<Failure>,
    /// What this is a copy of, where it was restored and an e-mail in it was not proved: "a backup of 3 June, 14:02". What the
    /// original has done since is not known here, and stays so.
    pub copied: Option<String>,
}

impl Job {
    /// A new job: one effect for the report and one for each recipient, none of them started. With `hold` the e-mail waits
    /// until [`Job::end_hold`].
    pub fn create(recipients: u32, hold: bool) -> Self {
        let mut effects = vec![Effect::not_started(1, EffectKind::Report)];
        effects.extend((0..recipients).map(|n| Effect::not_started(n + 2, EffectKind::Email)));
        Self::queued(JobKind::Report, hold, effects)
    }

    /// A new job that only mails: one effect for each recipient. Its messages are known already, so nothing is collected.
    pub fn create_mailing(kind: JobKind, recipients: u32) -> Self {
        Self::queued(kind, false, (0..recipients).map(|n| Effect::not_started(n + 1, EffectKind::Email)).collect())
    }

    fn queued(kind: JobKind, hold: bool, effects: Vec<Effect>) -> Self {
        Self {
            kind,
            phase: Phase::Queued,
            epoch: 0,
            leased: false,
            lost_claims: 0,
            cancel_requested: false,
            steps: Self::course(kind, hold).map(Step::pending).collect(),
            effects,
            failure: None,
            copied: None,
        }
    }

    /// The steps of a job of this kind, in their order.
    pub fn course(kind: JobKind, hold: bool) -> impl Iterator<Item = StepKind> {
        StepKind::ALL.iter().copied().filter(move |step| match step {
            StepKind::Hold => hold,
            StepKind::Email => true,
            StepKind::Collect | StepKind::Summarize | StepKind::Save => kind == JobKind::Report,
        })
    }

    /// The step with this kind, if the job has one.
    pub fn step(&self, kind: StepKind) -> Option<&Step> {
        self.steps.iter().find(|step| step.kind == kind)
    }

    fn running_step(&mut self) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.state == StepState::Running)
    }

    fn next_step(&mut self) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.state == StepState::Pending)
    }

    /// The step that the job is at.
    pub fn current_step(&self) -> Option<StepKind> {
        self.steps.iter().find(|step| step.state == StepState::Running).map(|step| step.kind)
    }

    /// Whether the e-mail waits for its time or for an approval.
    pub fn is_held(&self) -> bool {
        self.phase == Phase::Running && self.current_step() == Some(StepKind::Hold)
    }

    /// The effect with this number.
    pub fn effect(&self, number: u32) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.number == number)
    }

    /// The e-mails of the job, in the order of its recipients.
    pub fn emails(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| effect.kind == EffectKind::Email)
    }

    /// Whether the report exists.
    pub fn report_saved(&self) -> bool {
        self.effects.iter().any(|effect| effect.kind == EffectKind::Report && effect.outcome == Outcome::Done)
    }

    /// A worker takes the job and starts its first step that is not done.
    ///
    /// The caller has made sure that no live lease stands in the way: a job with an expired lease goes through
    /// [`Job::recover`] first.
    pub fn claim(&mut self) -> Result<Epoch, Refusal> {
        if !matches!(self.phase, Phase::Queued | Phase::Running) || self.leased {
            return Err(Refusal::LeaseLost);
        }
        if self.is_held() {
            return Err(Refusal::OutOfOrder("a held job waits for the end of its hold"));
        }
        let Some(next) = self.next_step() else {
            return Err(Refusal::OutOfOrder("a claimable job has a pending step"));
        };
        next.state = StepState::Running;
        self.phase = Phase::Running;
        self.epoch += 1;
        self.leased = true;
        Ok(self.epoch)
    }

    fn holds(&self, epoch: Epoch) -> Result<(), Refusal> {
        if self.leased && self.epoch == epoch && !self.phase.is_final() { Ok(()) } else { Err(Refusal::LeaseLost) }
    }

    /// The condition of every commit of a worker that lets something start or completes a step.
    pub fn may_go_on(&self, epoch: Epoch) -> Result<(), Refusal> {
        self.holds(epoch)?;
        if self.cancel_requested { Err(Refusal::CancelRequested) } else { Ok(()) }
    }

    /// Reports progress of the running step; smaller numbers than the recorded ones are ignored.
    pub fn progress(&mut self, epoch: Epoch, done: u32, total: u32) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        let Some(step) = self.running_step() else { return Err(Refusal::OutOfOrder("no step is running")) };
        step.total = step.total.max(total);
        step.done = step.done.max(done).min(step.total);
        Ok(())
    }

    /// Begins an e-mail through a mail service: see [`Job::begin_email`].
    pub fn begin_effect(&mut self, epoch: Epoch, number: u32) -> Result<(), Refusal> {
        self.begin_email(epoch, number, Via::MailService)
    }

    /// Begins an e-mail: `not_started`, or `not_done` and worth another attempt, becomes `in_flight`.
    pub fn begin_email(&mut self, epoch: Epoch, number: u32, via: Via) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        let step = self.current_step();
        let Some(effect) = self.effects.iter_mut().find(|effect| effect.number == number) else {
            return Err(Refusal::OutOfOrder("no such effect"));
        };
        if effect.kind != EffectKind::Email || step != Some(StepKind::Email) || !effect.may_begin() {
            return Err(Refusal::OutOfOrder("the effect cannot begin here"));
        }
        effect.begin(epoch, via);
        Ok(())
    }

    /// Intends and begins one more model call; returns its number.
    pub fn begin_model_call(&mut self, epoch: Epoch) -> Result<u32, Refusal> {
        self.may_go_on(epoch)?;
        if self.current_step() != Some(StepKind::Summarize) {
            return Err(Refusal::OutOfOrder("models are called while summarizing"));
        }
        let number = self.next_number();
        let mut effect = Effect::not_started(number, EffectKind::ModelCall);
        effect.begin(epoch, Via::default());
        self.effects.push(effect);
        Ok(number)
    }

    pub(super) fn next_number(&self) -> u32 {
        self.effects.iter().map(|effect| effect.number).max().unwrap_or(0) + 1
    }

    /// The next bytes may commit this e-mail. After this commit only evidence can tell what became of it.
    pub fn doubt(&mut self, epoch: Epoch, number: u32) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        match self.effects.iter_mut().find(|effect| effect.number == number) {
            Some(effect) if effect.kind == EffectKind::Email && effect.outcome == Outcome::InFlight && effect.epoch == epoch => {
                effect.outcome = Outcome::InDoubt;
                Ok(())
            }
            _ => Err(Refusal::OutOfOrder("only an e-mail in flight can be in doubt")),
        }
    }

    /// Records what became of an effect that the claim `epoch` had begun.
    ///
    /// This is the one thing that a worker without its lease may still do, since it only says what has happened: it settles
    /// an open or unconfirmed effect and starts nothing. What recovery has proved meanwhile stays.
    pub fn settle(&mut self, epoch: Epoch, number: u32, verdict: Verdict) -> Result<(), Refusal> {
        if matches!(&verdict, Verdict::Done(evidence) if evidence.trim().is_empty()) {
            return Err(Refusal::OutOfOrder("done needs evidence"));
        }
        let Some(effect) = self.effects.iter_mut().find(|effect| effect.number == number && effect.epoch == epoch) else {
            return Err(Refusal::LeaseLost);
        };
        match (effect.outcome, &verdict) {
            (Outcome::InFlight, Verdict::Done(_) | Verdict::Unconfirmed(_)) if effect.kind == EffectKind::Email => {
                Err(Refusal::OutOfOrder("an e-mail is in doubt before it can be accepted"))
            }
            (Outcome::InFlight | Outcome::InDoubt, _) | (Outcome::Unconfirmed, Verdict::Done(_) | Verdict::NotDone(..)) => {
                effect.conclude(verdict);
                Ok(())
            }
            (Outcome::Unconfirmed, Verdict::Unconfirmed(_)) => Ok(()),
            _ => Err(Refusal::LeaseLost),
        }
    }

    /// The running step is done: its result is committed with this. The next step starts, or the job is finished. Before a
    /// hold the worker gives the job back.
    ///
    /// Completing the save is what makes the report exist; the caller inserts its row in the same transaction.
    pub fn complete_step(&mut self, epoch: Epoch, kind: StepKind) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        if self.current_step() != Some(kind) {
            return Err(Refusal::OutOfOrder("only the running step can complete"));
        }
        if self.effects.iter().any(|effect| effect.outcome.is_open()) {
            return Err(Refusal::OutOfOrder("an effect is still open"));
        }
        if kind == StepKind::Email && !self.emails().all(Effect::is_settled) {
            return Err(Refusal::OutOfOrder("an e-mail is not settled"));
        }
        if kind == StepKind::Save {
            for effect in self.effects.iter_mut().filter(|effect| effect.kind == EffectKind::Report) {
                effect.begin(epoch, Via::default());
                effect.conclude(Verdict::Done("the report's row is committed".into()));
            }
        }
        self.lost_claims = 0;
        self.finish_running_step();
        match self.next_step() {
            Some(next) => {
                next.state = StepState::Running;
                self.leased = next.kind != StepKind::Hold;
            }
            None => self.end(Phase::Finished),
        }
        Ok(())
    }

    /// The hold is over, by the clock or by a person: the job may be claimed again, for its e-mail.
    pub fn end_hold(&mut self) -> Result<(), Refusal> {
        if self.cancel_requested {
            return Err(Refusal::CancelRequested);
        }
        if !self.is_held() {
            return Err(Refusal::OutOfOrder("only a held job's hold can end"));
        }
        self.finish_running_step();
        Ok(())
    }

    fn finish_running_step(&mut self) {
        if let Some(step) = self.running_step() {
            step.state = StepState::Done;
            step.done = step.total;
        }
    }

    /// The running step gives up for good.
    pub fn fail(&mut self, epoch: Epoch, reason: &str) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        if self.effects.iter().any(|effect| effect.outcome.is_open()) {
            return Err(Refusal::OutOfOrder("an effect is still open"));
        }
        self.fail_at_current_step(reason);
        Ok(())
    }

    fn fail_at_current_step(&mut self, reason: &str) {
        if let Some(step) = self.running_step() {
            step.state = StepState::Failed;
            self.failure = Some(Failure { step: step.kind, reason: reason.to_owned() });
        }
        self.end(Phase::Failed);
    }

    /// Somebody presses Cancel. Always answers; changes at most the first time.
    pub fn cancel(&mut self) -> CancelAnswer {
        if self.cancel_requested {
            return CancelAnswer::AlreadyRequested;
        }
        if self.phase.is_final() {
            return CancelAnswer::TooLate;
        }
        self.cancel_requested = true;
        if self.leased {
            self.phase = Phase::Stopping;
        } else {
            self.end_stopped();
        }
        CancelAnswer::Accepted
    }

    /// The worker of a stopping job has stopped everything it ran and settled every effect it had begun.
    pub fn account(&mut self, epoch: Epoch) -> Result<(), Refusal> {
        self.holds(epoch)?;
        if self.phase != Phase::Stopping {
            return Err(Refusal::OutOfOrder("only a stopping job is accounted for"));
        }
        if self.effects.iter().any(|effect| effect.outcome.is_open()) {
            return Err(Refusal::OutOfOrder("an effect is still open"));
        }
        self.end_stopped();
        Ok(())
    }

    /// A worker that shuts down hands the job back; the unfinished step will be done again by the next claim.
    pub fn release(&mut self, epoch: Epoch) -> Result<(), Refusal> {
        self.may_go_on(epoch)?;
        if self.effects.iter().any(|effect| effect.outcome.is_open()) {
            return Err(Refusal::OutOfOrder("an effect is still open"));
        }
        self.put_back();
        Ok(())
    }

    /// The lease has expired: accounts for what the dead worker left open.
    ///
    /// An e-mail in doubt becomes `unconfirmed`; one in flight is `not_done`, since its final dot cannot have been sent; a
    /// model call is abandoned. A stopping job ends; any other may be claimed again, [`MAX_CLAIMS`] times in a row.
    pub fn recover(&mut self) -> Result<Recovery, Refusal> {
        self.account_without_worker("the worker died")
    }

    /// Like [`Job::recover`]; `gone` says what has become of the worker.
    pub(super) fn account_without_worker(&mut self, gone: &str) -> Result<Recovery, Refusal> {
        if !self.leased || self.phase.is_final() {
            return Err(Refusal::OutOfOrder("only a leased job is recovered"));
        }
        for effect in self.effects.iter_mut().filter(|effect| effect.outcome.is_open()) {
            let verdict = match (effect.kind, effect.outcome) {
                (EffectKind::Email, Outcome::InDoubt) => {
                    Verdict::Unconfirmed(format!("{gone} after the message may have been handed over"))
                }
                (EffectKind::Email, _) => {
                    Verdict::NotDone(NotDone::Unreached, format!("{gone} before the message was handed over"))
                }
                _ => Verdict::NotDone(NotDone::BrokenOff, format!("abandoned when {gone}; the provider may have gone on")),
            };
            effect.conclude(verdict);
            if effect.outcome == Outcome::Unconfirmed {
                effect.unconfirmed = Some(Unconfirmed::Unattended);
            }
        }
        if self.cancel_requested {
            self.end_stopped();
            return Ok(Recovery::Ended);
        }
        self.lost_claims += 1;
        if self.lost_claims >= MAX_CLAIMS {
            let step = self.kind.gerund(self.current_step());
            self.fail_at_current_step(&format!("The program stopped {MAX_CLAIMS} times while {step}."));
            return Ok(Recovery::Ended);
        }
        self.put_back();
        Ok(Recovery::Resumable)
    }

    fn put_back(&mut self) {
        self.leased = false;
        if let Some(step) = self.running_step() {
            step.state = StepState::Pending;
        }
    }

    /// Ends a job that was asked to stop: `cancelled`, or `finished` where the cancel prevented nothing.
    fn end_stopped(&mut self) {
        let nothing_prevented = self.steps.iter().all(|step| {
            step.state == StepState::Done
                || (step.kind == StepKind::Email
                    && self.emails().all(|email| email.is_settled() && email.outcome != Outcome::Unconfirmed))
        });
        if nothing_prevented {
            self.finish_running_step();
            self.end(Phase::Finished);
        } else {
            if let Some(step) = self.running_step() {
                step.state = StepState::Stopped;
            }
            self.end(Phase::Cancelled);
        }
    }

    fn end(&mut self, phase: Phase) {
        for step in self.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
            step.state = StepState::Skipped;
        }
        self.phase = phase;
        self.leased = false;
        // That the original did not go on is a person's word, which lets this copy go on. It proves nothing about what it did not do.
        self.doubt_original();
    }
}
