//! The words for effects, the same on every screen, in the history, the API and the command line.

use crate::{
    CancelAnswer, Effect, EffectKind, Job, JobKind, Mark, NotDone, Outcome, Phase, StepState, Unconfirmed, Via, contradiction,
};

const WAITING: &str = "Waiting until the ";

/// What an effect is called: "E-mail to anna@example.org".
pub fn effect_name(job: JobKind, kind: EffectKind, number: u32, target: &str) -> String {
    match kind {
        EffectKind::Email => match job {
            JobKind::Report => format!("E-mail to {target}"),
            JobKind::Correction => format!("Correction to {target}"),
            JobKind::SecondCopy => format!("Second copy to {target}"),
        },
        EffectKind::Report => "Report".into(),
        EffectKind::Withdrawal => "Withdrawal of the report".into(),
        EffectKind::Deletion => "Deletion of the job".into(),
        EffectKind::ModelCall if target.is_empty() => format!("Model call {number}"),
        EffectKind::ModelCall => target.to_owned(),
    }
}

/// What kind of thing an effect is.
pub fn effect_kind(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::ModelCall => "a call to a model",
        EffectKind::Report => "a saved report",
        EffectKind::Email => "an e-mail",
        EffectKind::Withdrawal => "the withdrawal of a report",
        EffectKind::Deletion => "the deletion of a job",
    }
}

/// What the form for a report says about its messages; `name` is what the channel is called.
pub fn sent_through(via: Via, name: &str) -> String {
    match via {
        Via::MailService => format!("Sent through: {name}."),
        Via::Outbox => "Messages are written to a folder on the server; no e-mail is sent.".into(),
    }
}

/// The word for an outcome. For e-mail, `done` reads "accepted by the mail service", never more than that, and less where it went
/// into the outbox folder.
pub fn outcome(kind: EffectKind, outcome: Outcome, via: Via) -> &'static str {
    match (kind, outcome) {
        (_, Outcome::NotStarted) => "not started",
        (_, Outcome::InFlight) => "in flight",
        (_, Outcome::InDoubt) if via == Via::Outbox => "being written",
        (_, Outcome::InDoubt) => "handed over, no answer yet",
        (EffectKind::Email, Outcome::Done) if via == Via::Outbox => "written to the outbox folder, no e-mail was sent",
        (EffectKind::Email, Outcome::Done) => "accepted by the mail service",
        (EffectKind::Report, Outcome::Done) => "saved",
        (EffectKind::ModelCall, Outcome::Done) => "answered",
        (EffectKind::Withdrawal, Outcome::Done) => "withdrawn",
        (EffectKind::Deletion, Outcome::Done) => "deleted",
        (EffectKind::Report, Outcome::NotDone) => "not saved",
        (EffectKind::Email, Outcome::NotDone) => "not sent",
        (EffectKind::ModelCall, Outcome::NotDone) => "not answered",
        (EffectKind::Withdrawal | EffectKind::Deletion, Outcome::NotDone) => "not done",
        (_, Outcome::Unconfirmed) => "unconfirmed",
    }
}

/// What is known about an effect, as far as its words and its mark depend on it.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub kind: EffectKind,
    pub outcome: Outcome,
    pub not_done: Option<NotDone>,
    pub via: Via,
    /// Evidence came after a person's word and says otherwise.
    pub contradicted: bool,
    /// Of the effect's job; `None` where that is deleted.
    pub phase: Option<Phase>,
}

impl Known {
    /// What is known about an effect of a job in this phase.
    pub fn of(effect: &Effect, phase: Phase) -> Self {
        let Effect { kind, outcome, not_done, via, .. } = *effect;
        Self { kind, outcome, not_done, via, contradicted: effect.contradiction.is_some(), phase: Some(phase) }
    }

    fn goes_on(self) -> bool {
        self.phase.is_some_and(Phase::lets_start)
    }

    /// The word for the outcome, with why it was not done and what may still come of it, or with both words where evidence
    /// contradicts a person's.
    pub fn outcome(self) -> &'static str {
        let Self { kind, outcome: is, not_done, via, contradicted, .. } = self;
        let goes_on = self.goes_on();
        match not_done {
            _ if contradicted => contradiction(is, via),
            Some(NotDone::BrokenOff) if goes_on && kind == EffectKind::Email => "broken off, to be tried again",
            Some(NotDone::Unreached) if goes_on && kind == EffectKind::Email => "not handed over yet",
            Some(NotDone::Refused) => "refused",
            Some(NotDone::BrokenOff) => "broken off",
            Some(NotDone::GaveUp) => "given up",
            Some(NotDone::Attested) => "not accepted, as a person attests",
            Some(NotDone::Unreached) if kind == EffectKind::ModelCall => "not answered",
            Some(NotDone::Unreached) => "not handed over",
            None if is != Outcome::NotStarted => outcome(kind, is, via),
            None if goes_on => "planned",
            None => match kind {
                EffectKind::Email => "will not be sent",
                EffectKind::Report => "will not be saved",
                EffectKind::ModelCall | EffectKind::Withdrawal | EffectKind::Deletion => "will not happen",
            },
        }
    }

    /// The mark beside it, which says no more than the word.
    pub fn mark(self) -> Mark {
        match self.outcome {
            _ if self.contradicted => Mark::Doubt,
            Outcome::NotStarted if !self.goes_on() => Mark::Skipped,
            Outcome::NotDone if self.not_done == Some(NotDone::BrokenOff) => Mark::Stopped,
            outcome => outcome_mark(outcome),
        }
    }
}

/// What is known about an effect, and what came after a person's word and says otherwise.
pub fn evidence(known: Option<String>, contradiction: Option<&str>) -> Option<String> {
    match (known, contradiction) {
        (Some(known), Some(later)) => Some(format!("{known}; later: {later}")),
        (known, _) => known,
    }
}

/// What a Cancel is answered, for a job that is now in this phase: on the page, in the API, on the command line and over MCP.
pub fn cancel_answer(answer: CancelAnswer, phase: Phase) -> &'static str {
    match answer {
        CancelAnswer::Accepted => "Cancel accepted.",
        CancelAnswer::AlreadyRequested => "Cancel had been asked for before.",
        CancelAnswer::TooLate if phase == Phase::Failed => "The cancel came too late: the job had already failed.",
        CancelAnswer::TooLate => "The cancel came too late: the job had already finished.",
    }
}

/// What it means that an e-mail is unconfirmed, for whoever has to find out.
pub fn unconfirmed(why: Option<Unconfirmed>) -> &'static str {
    match why {
        Some(Unconfirmed::Copied) => {
            "This is a restored copy. Here the message was not handed over, but the original may have sent it since the copy was made."
        }
        Some(Unconfirmed::Unattended) => {
            "Unconfirmed means that the whole message may have been handed over and that the wait for its answer ended without its worker: the mail service may have accepted it, or not."
        }
        Some(Unconfirmed::Unanswered) | None => {
            "Unconfirmed means that the whole message was handed over and no answer came: the mail service may have accepted it, or not."
        }
    }
}

/// What to know before saying what became of an e-mail whose worker may be alive.
pub const ANSWER_MAY_COME: &str = "An answer may still come: the worker that handed it over may still be connected to the mail \
                                   server. If it comes and says otherwise, it is shown beside your word.";

/// The history's entry about an operation that a stopping job waits for.
pub fn waiting_until_ended(operation: &str) -> String {
    format!("{WAITING}{operation} has ended; it cannot be interrupted")
}

/// The history's entry while a server's task was asked to stop, and is waited for.
pub fn waiting_for_task(source: &str) -> String {
    format!("{WAITING}task of {source} has ended; it was asked to cancel it (tasks/cancel)")
}

/// What a stopping job waits for, where this entry of the history says it.
pub fn waits_for(entry: &str) -> Option<String> {
    entry.starts_with(WAITING).then(|| format!("{entry}."))
}

/// The history's entry about an operation that could not be interrupted.
pub fn ended_after_the_cancel(operation: &str) -> String {
    format!("The {operation} ended after the cancel; its result was discarded")
}

/// The mark beside an outcome.
pub fn outcome_mark(outcome: Outcome) -> Mark {
    match outcome {
        Outcome::NotStarted => Mark::Waiting,
        Outcome::InFlight => Mark::Running,
        Outcome::InDoubt | Outcome::Unconfirmed => Mark::Doubt,
        Outcome::Done => Mark::Done,
        Outcome::NotDone => Mark::Failed,
    }
}

/// The mark beside a step that brings about one thing.
pub fn step_mark(state: StepState, phase: Phase) -> Mark {
    match state {
        StepState::Pending if phase.lets_start() => Mark::Waiting,
        StepState::Pending | StepState::Skipped => Mark::Skipped,
        StepState::Running if phase == Phase::Stopping => Mark::Stopping,
        StepState::Running => Mark::Running,
        StepState::Done => Mark::Done,
        StepState::Failed => Mark::Failed,
        StepState::Stopped => Mark::Stopped,
    }
}

/// Whether nobody knows what became of an e-mail, or two say different things.
fn is_in_doubt(email: &Effect) -> bool {
    matches!(email.outcome, Outcome::Unconfirmed | Outcome::InDoubt) || email.contradiction.is_some()
}

/// The mark beside the step that sends the messages: it is no better than the worst of them.
pub fn email_step_mark(job: &Job, state: StepState) -> Mark {
    let is_known = job.emails().any(|email| email.attempts > 0 || is_in_doubt(email));
    if state == StepState::Running || !is_known {
        return step_mark(state, job.phase);
    }
    if job.emails().any(is_in_doubt) {
        Mark::Doubt
    } else if job.emails().all(|email| email.outcome == Outcome::Done) {
        Mark::Done
    } else if state == StepState::Pending && job.phase.lets_start() {
        Mark::Waiting
    } else if state == StepState::Failed || job.emails().any(|email| email.outcome == Outcome::NotDone && email.is_settled()) {
        Mark::Failed
    } else {
        Mark::Stopped
    }
}

/// What became of a job's messages, in numbers: "1 accepted, 2 refused".
pub fn email_result(job: &Job) -> String {
    let mut numbers = [
        (0, "accepted"),
        (0, "written to the outbox folder"),
        (0, "unconfirmed"),
        (0, "contradictory"),
        (0, "refused"),
        (0, "not sent"),
        (0, "planned"),
    ];
    for email in job.emails() {
        let word = match email.outcome {
            _ if email.contradiction.is_some() => "contradictory",
            Outcome::Done if email.via == Via::Outbox => "written to the outbox folder",
            Outcome::Done => "accepted",
            Outcome::Unconfirmed | Outcome::InDoubt => "unconfirmed",
            Outcome::NotDone if email.not_done == Some(NotDone::Refused) => "refused",
            _ if job.phase.lets_start() && email.may_begin() => "planned",
            _ => "not sent",
        };
        numbers.iter_mut().filter(|(_, of)| *of == word).for_each(|(number, _)| *number += 1);
    }
    let parts: Vec<String> = numbers.into_iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    parts.join(", ")
}

/// The mark beside a job: doubt about an e-mail outweighs how the job ended.
pub fn job_mark(job: &Job) -> Mark {
    if job.phase.is_final() && job.emails().any(is_in_doubt) {
        return Mark::Doubt;
    }
    match job.phase {
        Phase::Queued => Mark::Waiting,
        Phase::Running if job.is_held() => Mark::Waiting,
        Phase::Running => Mark::Running,
        Phase::Stopping => Mark::Stopping,
        Phase::Cancelled => Mark::Stopped,
        Phase::Finished if job.emails().any(|email| email.outcome == Outcome::NotDone) => Mark::Failed,
        Phase::Finished if job.cancel_requested => Mark::Late,
        Phase::Finished => Mark::Done,
        Phase::Failed => Mark::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StepKind, Verdict};

    #[test]
    fn what_has_not_begun_is_planned_until_nothing_may_start_any_more() {
        for &phase in Phase::ALL {
            for &kind in EffectKind::ALL {
                let known = known(kind, Outcome::NotStarted, None, Some(phase));
                let (said, mark) = (known.outcome(), known.mark());
                if matches!(phase, Phase::Queued | Phase::Running) {
                    assert_eq!((said, mark), ("planned", Mark::Waiting));
                } else {
                    assert!(said.starts_with("will not "), "{phase:?}: {said}");
                    assert_eq!(mark, Mark::Skipped);
                }
            }
        }
        assert_eq!(known(EffectKind::Email, Outcome::NotStarted, None, None).outcome(), "will not be sent");
    }

    #[test]
    fn only_what_may_be_tried_again_sounds_as_if_it_were() {
        for why in [NotDone::Unreached, NotDone::BrokenOff] {
            let said = |phase| known(EffectKind::Email, Outcome::NotDone, Some(why), Some(phase)).outcome();
            let hopes = |said: &str| said.contains("yet") || said.contains("again");
            assert!(hopes(said(Phase::Running)));
            for phase in [Phase::Stopping, Phase::Cancelled, Phase::Finished, Phase::Failed] {
                assert!(!hopes(said(phase)), "{phase:?}: {}", said(phase));
            }
        }
    }

    fn known(kind: EffectKind, outcome: Outcome, not_done: Option<NotDone>, phase: Option<Phase>) -> Known {
        Known { kind, outcome, not_done, via: Via::MailService, contradicted: false, phase }
    }

    /// A job whose messages came to this, in each way that it can end after that.
    fn mailed(verdicts: &[Verdict]) -> Vec<Job> {
        let mut job = Job::create(u32::try_from(verdicts.len()).unwrap(), false);
        let epoch = job.claim().unwrap();
        for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
            job.complete_step(epoch, kind).unwrap();
        }
        for (number, verdict) in (2..).zip(verdicts) {
            job.begin_effect(epoch, number).unwrap();
            if !matches!(verdict, Verdict::NotDone(NotDone::BrokenOff | NotDone::Unreached, _)) {
                job.doubt(epoch, number).unwrap();
            }
            job.settle(epoch, number, verdict.clone()).unwrap();
        }
        let mut ends = Vec::new();
        let mut finished = job.clone();
        if finished.complete_step(epoch, StepKind::Email).is_ok() {
            ends.push(finished);
        }
        let mut cancelled = job.clone();
        cancelled.cancel();
        cancelled.account(epoch).unwrap();
        ends.push(cancelled);
        let mut put_back = job;
        if put_back.release(epoch).is_ok() {
            put_back.cancel();
            ends.push(put_back);
        }
        ends
    }

    #[test]
    fn a_mark_never_says_more_than_the_sentence_beside_it() {
        let verdicts = [
            Verdict::Done("250 ok".into()),
            Verdict::NotDone(NotDone::Refused, "550 no".into()),
            Verdict::NotDone(NotDone::BrokenOff, "before the dot".into()),
            Verdict::Unconfirmed("no answer".into()),
        ];
        for first in &verdicts {
            for second in &verdicts {
                for job in mailed(&[first.clone(), second.clone()]) {
                    let said = email_result(&job);
                    let mark = email_step_mark(&job, job.step(StepKind::Email).unwrap().state);
                    let expected = match said.as_str() {
                        "2 accepted" => Mark::Done,
                        said if said.contains("unconfirmed") => Mark::Doubt,
                        said if said.contains("refused") => Mark::Failed,
                        _ => Mark::Stopped,
                    };
                    assert_eq!(mark, expected, "{said}, {:?}", job.phase);
                    assert!(!said.contains("planned"), "{said}, {:?}", job.phase);
                    // A tick is for what was wanted and has happened, whole.
                    let sentence = crate::headline(&job);
                    assert_eq!(
                        job_mark(&job) == Mark::Done,
                        sentence == "Report saved; email accepted by the mail service",
                        "{sentence}"
                    );
                    assert_eq!(
                        job_mark(&job) == Mark::Late,
                        sentence.starts_with("The cancel came too late") && said == "2 accepted"
                    );
                }
            }
        }
    }
}
