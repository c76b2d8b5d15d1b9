//! Effects: what the outside can see. The intent is committed before the act, the outcome after it, and only evidence
//! moves an outcome to `done` or `not_done`.

use super::{Epoch, named};
use serde::{Deserialize, Serialize};

/// What kind of thing the outside can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// One request to a model.
    ModelCall,
    /// The saved report.
    Report,
    /// One message to one recipient.
    Email,
    /// The saved report was taken back; decided by one transaction.
    Withdrawal,
    /// The job was deleted with everything it had made; decided by one transaction.
    Deletion,
}

named!(EffectKind {
    ModelCall => "model_call", Report => "report", Email => "email", Withdrawal => "withdrawal", Deletion => "deletion",
});

/// What is known about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Intended, nothing done yet.
    NotStarted,
    /// Under way, and still before the point of no return.
    InFlight,
    /// E-mail only: the next bytes may commit it.
    InDoubt,
    /// It happened, and there is evidence.
    Done,
    /// Proved not to have happened: refused, or broken off before the point of no return.
    NotDone,
    /// It may have happened; there is no proof either way.
    Unconfirmed,
}

named!(Outcome {
    NotStarted => "not_started", InFlight => "in_flight", InDoubt => "in_doubt", Done => "done", NotDone => "not_done",
    Unconfirmed => "unconfirmed",
});

impl Outcome {
    /// Whether somebody is still at it.
    pub fn is_open(self) -> bool {
        matches!(self, Self::InFlight | Self::InDoubt)
    }
}

/// Why an effect did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotDone {
    /// The other side said no, and a repetition would not help.
    Refused,
    /// It could not be handed over (no connection, a temporary refusal); it may be tried again while no cancel is requested.
    Unreached,
    /// The attempts are used up, or a person has to change something first.
    GaveUp,
    /// We broke it off: a cancel, a shutdown or a lost lease.
    BrokenOff,
    /// A person looked into it and answers for it.
    Attested,
}

named!(NotDone {
    Refused => "refused", Unreached => "unreached", GaveUp => "gave_up", BrokenOff => "broken_off", Attested => "attested",
});

/// Why nobody can tell whether an effect has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unconfirmed {
    /// The worker that handed it over got no answer.
    Unanswered,
    /// It was accounted for without its worker, which may live and still get an answer.
    Unattended,
    /// Here it has not happened, but this is a restored copy: the original may have gone on with it since.
    Copied,
}

named!(Unconfirmed { Unanswered => "unanswered", Unattended => "unattended", Copied => "copied" });

/// What a message is handed over to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A mail server, or a service over HTTP, that sends it on.
    #[default]
    MailService,
    /// A folder of the server's: nobody is sent anything.
    Outbox,
}

named!(Via { MailService => "mail_service", Outbox => "outbox" });

/// What a worker or a look-up found out about an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It happened; the text is the proof (a reply, a committed row, a provider's id).
    Done(String),
    /// It did not happen; the text says how we know.
    NotDone(NotDone, String),
    /// Nobody can tell; the text says what was seen last.
    Unconfirmed(String),
}

/// One effect of a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// Its place among the job's effects, from 1; never reused.
    pub number: u32,
    pub kind: EffectKind,
    pub outcome: Outcome,
    /// Set exactly when the outcome is `not_done`.
    pub not_done: Option<NotDone>,
    /// Set only while the outcome is `unconfirmed`.
    pub unconfirmed: Option<Unconfirmed>,
    /// How often it was begun.
    pub attempts: u32,
    /// The claim under which the latest attempt began: only its holder may bring evidence for it.
    pub epoch: Epoch,
    /// What the latest attempt hands the message over to.
    pub via: Via,
    /// The proof of `done`, or what is known about any other outcome.
    pub evidence: Option<String>,
    /// Whether a person's word is all that has settled it.
    pub attested: bool,
    /// Evidence that came after that word and says otherwise. Both stand: neither takes the other back.
    pub contradiction: Option<String>,
}

impl Effect {
    pub(super) fn not_started(number: u32, kind: EffectKind) -> Self {
        Self {
            number,
            kind,
            outcome: Outcome::NotStarted,
            not_done: None,
            unconfirmed: None,
            attempts: 0,
            epoch: 0,
            via: Via::default(),
            evidence: None,
            attested: false,
            contradiction: None,
        }
    }

    /// Whether a worker may (still, or again) begin it.
    pub fn may_begin(&self) -> bool {
        self.outcome == Outcome::NotStarted
            || (self.outcome == Outcome::NotDone && matches!(self.not_done, Some(NotDone::Unreached | NotDone::BrokenOff)))
    }

    /// Whether its course is run: nothing that the program does by itself can change it any more.
    pub fn is_settled(&self) -> bool {
        match self.outcome {
            Outcome::Done | Outcome::Unconfirmed => true,
            Outcome::NotDone => matches!(self.not_done, Some(NotDone::Refused | NotDone::GaveUp | NotDone::Attested)),
            Outcome::NotStarted | Outcome::InFlight | Outcome::InDoubt => false,
        }
    }

    /// Whether it is unconfirmed only because this is a copy.
    pub fn is_copied(&self) -> bool {
        self.outcome == Outcome::Unconfirmed && self.unconfirmed == Some(Unconfirmed::Copied)
    }

    /// Whether it may have happened without proof of it. A person's word that it did not is no proof either.
    pub fn may_have_happened(&self) -> bool {
        self.outcome == Outcome::Unconfirmed || self.not_done == Some(NotDone::Attested)
    }

    pub(super) fn begin(&mut self, epoch: Epoch, via: Via) {
        self.outcome = Outcome::InFlight;
        (self.not_done, self.unconfirmed) = (None, None);
        self.attempts += 1;
        self.epoch = epoch;
        self.via = via;
        self.evidence = None;
    }

    pub(super) fn conclude(&mut self, verdict: Verdict) {
        let (outcome, not_done, evidence) = match verdict {
            Verdict::Done(evidence) => (Outcome::Done, None, evidence),
            Verdict::NotDone(why, evidence) => (Outcome::NotDone, Some(why), evidence),
            Verdict::Unconfirmed(evidence) => (Outcome::Unconfirmed, None, evidence),
        };
        self.outcome = outcome;
        self.not_done = not_done;
        self.unconfirmed = (outcome == Outcome::Unconfirmed).then_some(Unconfirmed::Unanswered);
        self.evidence = Some(evidence);
    }
    /// This is a copy `of` something, and the original may have gone on with it.
    pub(super) fn doubt_original(&mut self, of: &str) {
        self.conclude(Verdict::Unconfirmed(format!("restored from {of}; the original may have sent it since")));
        self.unconfirmed = Some(Unconfirmed::Copied);
    }

    /// A person says that the original did not go on with it: it stands where it stood when the copy was made.
    pub(super) fn trust_copy(&mut self, word: &str) {
        if self.attempts == 0 {
            *self = Self { via: self.via, ..Self::not_started(self.number, self.kind) };
        } else {
            self.conclude(Verdict::NotDone(NotDone::Unreached, word.to_owned()));
        }
    }
}
