//! The sentences. One function makes the headline for every screen, the API, the command line and the mail log, so that no
//! two of them can tell different stories.

use super::{Effect, EffectKind, Job, JobKind, NotDone, Outcome, Phase, StepKind, StepState};

impl JobKind {
    /// What the job's e-mails are called once it has ended: "Report saved; email …".
    fn subject(self) -> &'static str {
        match self {
            Self::Report => "Report saved; email",
            Self::Correction => "Correction",
            Self::SecondCopy => "Second copy",
        }
    }

    /// What is e-mailed, in the middle of a sentence: "E-mailing …".
    fn object(self) -> &'static str {
        match self {
            Self::Report => "the link",
            Self::Correction => "the correction",
            Self::SecondCopy => "the second copy",
        }
    }

    /// What a job of this kind does in a step: "Failed while …".
    pub(super) fn gerund(self, step: Option<StepKind>) -> String {
        match step {
            None => "working".into(),
            Some(StepKind::Email) => format!("e-mailing {}", self.object()),
            Some(step) => step.gerund().to_owned(),
        }
    }
}

/// How the e-mails of a job stand.
struct Emails {
    subject: &'static str,
    total: usize,
    accepted: usize,
    refused: usize,
    unconfirmed: usize,
    /// Begun at least once.
    started: usize,
    /// Handed over: accepted, in doubt or unconfirmed.
    with_server: usize,
}

impl Emails {
    fn of(job: &Job) -> Self {
        let count = |test: fn(&Effect) -> bool| job.emails().filter(|effect| test(effect)).count();
        Self {
            subject: job.kind.subject(),
            total: job.emails().count(),
            accepted: count(|effect| effect.outcome == Outcome::Done),
            refused: count(|effect| effect.not_done == Some(NotDone::Refused)),
            unconfirmed: count(|effect| effect.outcome == Outcome::Unconfirmed),
            started: count(|effect| effect.attempts > 0),
            with_server: count(|effect| matches!(effect.outcome, Outcome::Done | Outcome::InDoubt | Outcome::Unconfirmed)),
        }
    }

    /// "Report saved; email …" for a job that has ended.
    fn ending(&self, phase: Phase) -> String {
        let Self { subject, total, accepted, refused, .. } = *self;
        if self.unconfirmed > 0 {
            format!("{subject} outcome unconfirmed")
        } else if refused > 0 && refused + accepted == total {
            format!("{subject} refused for {refused} of {total}")
        } else if accepted == total && phase == Phase::Finished {
            format!("{subject} accepted by the mail service")
        } else if accepted + refused > 0 {
            // Not "refused for 1 of 3" where the others were not accepted either: it would read as if they were.
            format!("{subject} accepted for {accepted} of {total}")
        } else if self.started > 0 {
            format!("{subject} not sent")
        } else {
            format!("{subject} not started")
        }
    }
}

/// What the job's screens, answers and messages say about it.
pub fn headline(job: &Job) -> String {
    let said = said(job);
    if job.is_withdrawn() { format!("{said}. The report was withdrawn") } else { said }
}

fn said(job: &Job) -> String {
    let ending = |phase| match job.kind {
        JobKind::Report if !job.report_saved() => "Nothing was saved or sent".into(),
        _ => Emails::of(job).ending(phase),
    };
    match job.phase {
        Phase::Queued => "Waiting to start".into(),
        Phase::Running => match working_on(job) {
            StepKind::Collect => "Collecting documents".into(),
            StepKind::Summarize => "Summarizing".into(),
            StepKind::Save => "Saving the report".into(),
            StepKind::Hold => "Report saved; email not sent yet".into(),
            StepKind::Email => {
                let emails = Emails::of(job);
                format!("E-mailing {} ({} of {})", job.kind.object(), emails.accepted, emails.total)
            }
        },
        Phase::Stopping => "Stopping…".into(),
        Phase::Cancelled => format!("Cancelled. {}", ending(Phase::Cancelled)),
        Phase::Finished if job.cancel_requested => format!("The cancel came too late. {}", ending(Phase::Finished)),
        Phase::Finished => ending(Phase::Finished),
        Phase::Failed => {
            let step = job.kind.gerund(job.failure.as_ref().map(|failure| failure.step));
            format!("Failed while {step}. {}", ending(Phase::Failed))
        }
    }
}

/// The step that a running job is at, or will resume at.
fn working_on(job: &Job) -> StepKind {
    job.current_step()
        .or_else(|| job.steps.iter().find(|step| step.state == StepState::Pending).map(|step| step.kind))
        .unwrap_or(StepKind::Email)
}

/// What Cancel can still do; `None` where there is nothing left to cancel.
pub fn if_cancelled_now(job: &Job) -> Option<String> {
    if !job.phase.lets_start() {
        return None;
    }
    if job.kind == JobKind::Report && !job.report_saved() {
        return Some("If you cancel now, nothing will be saved or sent.".into());
    }
    let Emails { total, with_server, .. } = Emails::of(job);
    Some(match (with_server, total) {
        (0, _) => match job.kind {
            JobKind::Report => "If you cancel now, the report stays saved; no email goes out.".into(),
            JobKind::Correction | JobKind::SecondCopy => format!("If you cancel now, {} does not go out.", job.kind.object()),
        },
        (n, m) if n == m && job.kind == JobKind::Report => {
            "The report is saved and every message is already with the mail server; a cancel can stop nothing more.".into()
        }
        (n, m) if n == m => "Every message is already with the mail server; a cancel can stop nothing more.".into(),
        (1, m) => format!("If you cancel now, 1 of {m} messages is already with the mail server; the others will not be sent."),
        (n, m) => {
            format!("If you cancel now, {n} of {m} messages are already with the mail server; the others will not be sent.")
        }
    })
}

/// What a stopping job is waiting for.
pub fn waiting_for(job: &Job) -> Option<String> {
    if job.phase != Phase::Stopping {
        return None;
    }
    let open = |kind| job.effects.iter().filter(|effect| effect.kind == kind && effect.outcome.is_open()).count();
    if job.effects.iter().any(|effect| effect.outcome == Outcome::InDoubt) {
        let rest = job.emails().filter(|effect| effect.outcome == Outcome::NotStarted).count();
        let others = match rest {
            0 => String::new(),
            1 => " The other one will not be sent.".into(),
            n => format!(" The other {n} will not be sent."),
        };
        return Some(format!(
            "A message has been handed to the mail server, which has not answered yet; waiting for its answer.{others}"
        ));
    }
    Some(match working_on(job) {
        _ if open(EffectKind::Email) > 0 => {
            "Closing the connection to the mail server; the message has not been handed over.".into()
        }
        _ if open(EffectKind::ModelCall) > 0 => "Closing the stream from the model.".into(),
        StepKind::Collect => "Waiting until the document that is being read has been read; that cannot be interrupted.".into(),
        StepKind::Summarize => "Waiting until the summarizer has stopped.".into(),
        StepKind::Save | StepKind::Hold => "Waiting for the database: the report was being saved.".into(),
        StepKind::Email => "Waiting until the worker has put the mail away.".into(),
    })
}
