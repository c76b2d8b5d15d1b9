//! What may still happen to a job that a worker has done with, or that nobody will wait for: evidence, a withdrawal, a deletion.
//! None of it moves a final phase.

use super::{Effect, EffectKind, Job, Outcome, Phase, Recovery, Refusal, Verdict, Via};

impl Job {
    /// A look (at the outbox, an archive, a log) or a person proved what became of an unconfirmed e-mail.
    pub fn reconcile(&mut self, number: u32, verdict: Verdict) -> Result<(), Refusal> {
        if matches!(&verdict, Verdict::Done(evidence) if evidence.trim().is_empty()) {
            return Err(Refusal::OutOfOrder("done needs evidence"));
        }
        match self.effects.iter_mut().find(|effect| effect.number == number) {
            Some(effect) if effect.outcome == Outcome::Unconfirmed && !matches!(verdict, Verdict::Unconfirmed(_)) => {
                effect.conclude(verdict);
                Ok(())
            }
            _ => Err(Refusal::OutOfOrder("only an unconfirmed effect is reconciled, and only by proof")),
        }
    }

    /// A person will not wait for the worker of a stopping job any longer: it is accounted for as if its lease had expired.
    /// The worker meets a lost lease; what it finds out about its effects still counts as evidence.
    pub fn account_now(&mut self) -> Result<(), Refusal> {
        if self.phase != Phase::Stopping {
            return Err(Refusal::OutOfOrder("only a stopping job is accounted for"));
        }
        self.account_without_worker("the wait for the worker was ended").map(|_| ())
    }

    /// The record is of a copy (a backup that was restored), and the worker belongs to the original: what that had open when
    /// the copy was made is accounted for as if its lease had expired. It has not died, so its claim does not count as lost.
    pub fn recover_copy(&mut self) -> Result<Recovery, Refusal> {
        let mut accounted = Self { lost_claims: 0, ..self.clone() };
        let recovery = accounted.account_without_worker("this copy was made")?;
        *self = Self { lost_claims: 0, ..accounted };
        Ok(recovery)
    }

    /// Takes the saved report back; returns the number of this effect. The caller marks the report in the same transaction.
    pub fn withdraw(&mut self, evidence: String) -> Result<u32, Refusal> {
        if !self.phase.is_final() || !self.report_saved() {
            return Err(Refusal::OutOfOrder("only the report of a job that has ended is withdrawn"));
        }
        if self.is_withdrawn() {
            return Err(Refusal::OutOfOrder("the report is withdrawn already"));
        }
        Ok(self.add_done(EffectKind::Withdrawal, evidence))
    }

    /// Whether the report was taken back.
    pub fn is_withdrawn(&self) -> bool {
        self.effects.iter().any(|effect| effect.kind == EffectKind::Withdrawal && effect.outcome == Outcome::Done)
    }

    /// The last effect of a job: its deletion. The caller deletes the rows in the same transaction; the effects stay.
    ///
    /// While an e-mail is unconfirmed the record stays, so that somebody can still settle it.
    pub fn delete(&mut self, evidence: String) -> Result<u32, Refusal> {
        if !self.phase.is_final() {
            return Err(Refusal::OutOfOrder("only a job that has ended is deleted"));
        }
        if self.emails().any(|email| email.outcome == Outcome::Unconfirmed) {
            return Err(Refusal::OutOfOrder("an e-mail is unconfirmed"));
        }
        Ok(self.add_done(EffectKind::Deletion, evidence))
    }

    /// Adds an effect that the caller's own transaction brings about: intent, act and proof are one commit.
    fn add_done(&mut self, kind: EffectKind, evidence: String) -> u32 {
        let mut effect = Effect::not_started(self.next_number(), kind);
        effect.begin(self.epoch, Via::default());
        effect.conclude(Verdict::Done(evidence));
        let number = effect.number;
        self.effects.push(effect);
        number
    }
}
