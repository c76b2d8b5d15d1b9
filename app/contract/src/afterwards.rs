//! What may still happen to a job that a worker has done with, or that nobody will wait for: evidence, a withdrawal, a deletion.
//! None of it moves a final phase.

use super::{Effect, EffectKind, Job, NotDone, Outcome, Phase, Refusal, Verdict, Via};

impl Job {
    /// A look (at the outbox, an archive, a log) proved what became of an unconfirmed e-mail.
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

    /// A person says what became of an unconfirmed e-mail: their word, not proof.
    pub fn attest(&mut self, number: u32, accepted: bool, word: String) -> Result<(), Refusal> {
        self.reconcile(number, if accepted { Verdict::Done(word) } else { Verdict::NotDone(NotDone::Attested, word) })?;
        self.effects.iter_mut().filter(|effect| effect.number == number).for_each(|effect| effect.attested = true);
        Ok(())
    }

    /// Evidence came after a person had settled the e-mail, and says otherwise: it is kept beside their word, the first time.
    /// Returns whether it says otherwise.
    pub fn contradict(&mut self, number: u32, verdict: &Verdict) -> bool {
        let Some(effect) = self.effects.iter_mut().find(|effect| effect.number == number && effect.attested) else {
            return false;
        };
        let (Verdict::Done(evidence) | Verdict::NotDone(_, evidence)) = verdict else { return false };
        let otherwise = matches!(verdict, Verdict::Done(_)) != (effect.outcome == Outcome::Done);
        if otherwise {
            effect.contradiction.get_or_insert_with(|| evidence.clone());
        }
        otherwise
    }

    /// A person will not wait for the worker of a stopping job any longer: it is accounted for as if its lease had expired.
    /// The worker meets a lost lease; what it finds out about its effects still counts as evidence.
    pub fn account_now(&mut self) -> Result<(), Refusal> {
        if self.phase != Phase::Stopping {
            return Err(Refusal::OutOfOrder("only a stopping job is accounted for"));
        }
        self.account_without_worker("the wait for the worker was ended").map(|_| ())
    }

    /// The record is a copy `of` something ("a backup of 3 June, 14:02"), and the original may have gone on since it was made. So
    /// nothing here is proved by its absence: what the worker had open is accounted for as if its lease had expired, and every
    /// e-mail that could begin is unconfirmed. The worker has not died, so its claim does not count as lost.
    ///
    /// Only where a cancel was accepted before are those proved not to be sent that had not passed their point of no return: the
    /// same guard stops them in the original.
    pub fn recover_copy(&mut self, of: &str) {
        if self.leased {
            self.lost_claims = 0;
            // A leased job has not ended, which is all that it could be refused for.
            let _ = self.account_without_worker("this copy was made");
            self.lost_claims = 0;
        }
        if !self.phase.is_final() || self.emails().any(|email| email.outcome == Outcome::Unconfirmed) {
            self.copied.get_or_insert_with(|| of.to_owned());
        }
        if !self.phase.is_final() {
            self.doubt_original();
        }
    }

    /// In a copy: whatever has not happened here may have happened by the original.
    pub(super) fn doubt_original(&mut self) {
        let Some(of) = &self.copied else { return };
        let emails = self.effects.iter_mut().filter(|effect| effect.kind == EffectKind::Email && effect.may_begin());
        emails.for_each(|email| email.doubt_original(of));
    }

    /// A person takes it upon themselves that the original did not go on: what is unconfirmed for that reason may begin here.
    pub fn go_on(&mut self, word: &str) -> Result<(), Refusal> {
        if self.phase.is_final() {
            return Err(Refusal::OutOfOrder("a job that has ended does not go on"));
        }
        self.effects.iter_mut().filter(|effect| effect.is_copied()).for_each(|effect| effect.trust_copy(word));
        Ok(())
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
