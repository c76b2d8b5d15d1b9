//! The sentences. One function makes the headline for every screen, the API, the command line and the mail log, so that no
//! two of them can tell different stories.

use super::{Effect, EffectKind, Job, JobKind, NotDone, Outcome, Phase, StepKind, StepState, Via};

impl JobKind {
    /// What the job's e-mails are called once it has ended: "Report saved; email …".
    fn subject(self) -> &'static str {
        match self {
            Self::Report => "Report saved; email",
            Self::Correction => "Correction",
            Self::SecondCopy => "Second copy",
        }
    }

    /// The same where the messages went into a folder: "Report saved; written to the outbox folder, …".
    fn written(self) -> &'static str {
        match self {
            Self::Report => "Report saved; written",
            Self::Correction => "Correction written",
            Self::SecondCopy => "Second copy written",
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
struct Emails<'a> {
    kind: JobKind,
    total: usize,
    /// By a mail service.
    accepted: usize,
    /// To the outbox folder, which sends nothing.
    written: usize,
    refused: usize,
    unconfirmed: usize,
    /// Settled by a person, and evidence says otherwise.
    contradicted: usize,
    both: Option<&'static str>,
    /// Begun at least once.
    started: usize,
    /// Handed over: accepted, in doubt or unconfirmed.
    handed_over: usize,
    /// Those of them that the outbox folder was to take.
    in_outbox: usize,
    /// In a copy: what it is a copy of.
    copied: Option<&'a str>,
}

impl<'a> Emails<'a> {
    fn of(job: &'a Job) -> Self {
        let count = |test: fn(&Effect) -> bool| job.emails().filter(|effect| test(effect)).count();
        let mut contradicted = job.emails().filter(|effect| effect.contradiction.is_some());
        Self {
            kind: job.kind,
            total: job.emails().count(),
            accepted: count(|effect| is_done(effect) && effect.via == Via::MailService),
            written: count(|effect| is_done(effect) && effect.via == Via::Outbox),
            refused: count(|effect| effect.not_done == Some(NotDone::Refused)),
            unconfirmed: count(|effect| effect.outcome == Outcome::Unconfirmed),
            contradicted: count(|effect| effect.contradiction.is_some()),
            both: contradicted.next().map(|effect| contradiction(effect.outcome, effect.via)),
            started: count(|effect| effect.attempts > 0),
            handed_over: count(is_handed_over),
            in_outbox: count(|effect| is_handed_over(effect) && effect.via == Via::Outbox),
            copied: job.copied.as_deref(),
        }
    }

    /// Where the messages are that were handed over.
    fn place(&self) -> &'static str {
        match self.in_outbox {
            0 => "with the mail server",
            n if n == self.handed_over => "in the outbox folder",
            _ => "with the mail server or in the outbox folder",
        }
    }

    /// "Report saved; email …" for a job that has ended, with what a person said and evidence contradicts.
    fn ending(&self, phase: Phase) -> String {
        let Self { total, contradicted, .. } = *self;
        let Some(both) = self.both else { return self.outcome(phase) };
        let subject = self.kind.subject();
        if total == 1 {
            format!("{subject}: {both}")
        } else if self.accepted + self.written + self.refused + self.unconfirmed == 0 {
            format!("{subject}: for {contradicted} of {total} {both}")
        } else {
            format!("{}; for {contradicted} of {total} {both}", self.outcome(Phase::Cancelled))
        }
    }

    /// In a copy: what the original may have done since, in brackets.
    fn since(&self, done: &str) -> String {
        self.copied.map_or_else(String::new, |of| format!(" (restored from {of}; the original may have {done} it since)"))
    }

    /// What became of the e-mails that nothing contradicts.
    fn outcome(&self, phase: Phase) -> String {
        let Self { kind, total, accepted, written, refused, .. } = *self;
        let subject = kind.subject();
        if self.unconfirmed > 0 {
            format!("{subject} outcome unconfirmed{}", self.since("sent"))
        } else if refused > 0 && refused + accepted == total {
            format!("{subject} refused for {refused} of {total}")
        } else if accepted == total && phase == Phase::Finished {
            format!("{subject} accepted by the mail service")
        } else if written > 0 && accepted + refused == 0 {
            let part =
                if written == total && phase == Phase::Finished { String::new() } else { format!(" for {written} of {total}") };
            format!("{} to the outbox folder{part}, no e-mail was sent", kind.written())
        } else if accepted + refused > 0 {
            // Not "refused for 1 of 3" where the others were not accepted either: it would read as if they were.
            let written = if written > 0 { format!("; {written} written to the outbox folder") } else { String::new() };
            format!("{subject} accepted for {accepted} of {total}{written}")
        } else if self.started > 0 {
            format!("{subject} not sent")
        } else {
            format!("{subject} not started")
        }
    }
}

/// Whether it happened, as far as anybody has said.
fn is_done(effect: &Effect) -> bool {
    effect.outcome == Outcome::Done && effect.contradiction.is_none()
}

fn is_handed_over(effect: &Effect) -> bool {
    matches!(effect.outcome, Outcome::Done | Outcome::InDoubt | Outcome::Unconfirmed)
}

/// What is said of an e-mail whose outcome is a person's word that later evidence contradicts. A find in an archive or a log is the
/// mail service's word as well.
pub fn contradiction(outcome: Outcome, via: Via) -> &'static str {
    match (outcome, via) {
        (Outcome::Done, Via::MailService) => "a person said it was accepted; the mail service says it was not",
        (_, Via::MailService) => "a person said it was not accepted; the mail service says it was",
        (Outcome::Done, Via::Outbox) => "a person said it was written; the outbox folder says it was not",
        (_, Via::Outbox) => "a person said it was not written; the outbox folder says it was",
    }
}

/// What the job's screens, answers and messages say about it.
pub fn headline(job: &Job) -> String {
    let said = said(job);
    if job.is_withdrawn() { format!("{said}. The report was withdrawn") } else { said }
}

fn said(job: &Job) -> String {
    let ending = |phase| match (job.kind, Emails::of(job)) {
        (JobKind::Report, emails) if !job.report_saved() && emails.unconfirmed > 0 => {
            format!("Report and email outcome unconfirmed{}", emails.since("saved and sent"))
        }
        // Proof that was found of what the original did, after a copy that has no report.
        (JobKind::Report, emails) if !job.report_saved() && emails.handed_over > 0 => {
            format!(
                "Report saved by the original only; email accepted for {} of {}",
                emails.accepted + emails.written,
                emails.total
            )
        }
        (JobKind::Report, _) if !job.report_saved() => "Nothing was saved or sent".into(),
        (_, emails) => emails.ending(phase),
    };
    match job.phase {
        phase if waits_in_a_copy(job) => ending(phase),
        Phase::Queued => "Waiting to start".into(),
        Phase::Running => match working_on(job) {
            StepKind::Collect => "Collecting documents".into(),
            StepKind::Summarize => "Summarizing".into(),
            StepKind::Save => "Saving the report".into(),
            // In a copy the original may have sent it.
            StepKind::Hold if job.emails().any(is_handed_over) => ending(job.phase),
            StepKind::Hold => "Report saved; email not sent yet".into(),
            StepKind::Email => {
                let emails = Emails::of(job);
                format!("E-mailing {} ({} of {})", job.kind.object(), emails.accepted + emails.written, emails.total)
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

/// Whether it has not ended in a restored copy, nobody is at it, and the original may have gone on with it.
fn waits_in_a_copy(job: &Job) -> bool {
    let unconfirmed = job.emails().any(|email| email.outcome == Outcome::Unconfirmed);
    job.copied.is_some() && unconfirmed && !job.leased && !job.phase.is_final()
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
    if job.emails().any(Effect::is_copied) {
        return Some(match job.kind {
            JobKind::Report if !job.report_saved() => {
                "If you cancel now, nothing will be saved or sent from here; the original may have saved and sent it already.".into()
            }
            JobKind::Report => {
                "If you cancel now, the report stays saved; no email goes out from here, but the original may have sent it already.".into()
            }
            JobKind::Correction | JobKind::SecondCopy => {
                let object = job.kind.object();
                format!("If you cancel now, {object} does not go out from here; the original may have sent it already.")
            }
        });
    }
    if job.kind == JobKind::Report && !job.report_saved() {
        return Some("If you cancel now, nothing will be saved or sent.".into());
    }
    let emails = Emails::of(job);
    let place = emails.place();
    Some(match (emails.handed_over, emails.total) {
        (0, _) => match job.kind {
            JobKind::Report => "If you cancel now, the report stays saved; no email goes out.".into(),
            JobKind::Correction | JobKind::SecondCopy => format!("If you cancel now, {} does not go out.", job.kind.object()),
        },
        (n, m) if n == m && job.kind == JobKind::Report => {
            format!("The report is saved and every message is already {place}; a cancel can stop nothing more.")
        }
        (n, m) if n == m => format!("Every message is already {place}; a cancel can stop nothing more."),
        (1, m) => format!("If you cancel now, 1 of {m} messages is already {place}; the others will not be sent."),
        (n, m) => format!("If you cancel now, {n} of {m} messages are already {place}; the others will not be sent."),
    })
}

/// What a stopping job is waiting for.
pub fn waiting_for(job: &Job) -> Option<String> {
    if job.phase != Phase::Stopping {
        return None;
    }
    let open = |kind| job.effects.iter().filter(|effect| effect.kind == kind && effect.outcome.is_open()).count();
    let is_written = |effect: &Effect| effect.via == Via::Outbox;
    if let Some(doubtful) = job.effects.iter().find(|effect| effect.outcome == Outcome::InDoubt) {
        let rest = job.emails().filter(|effect| effect.outcome == Outcome::NotStarted).count();
        let others = match rest {
            0 => String::new(),
            1 => " The other one will not be sent.".into(),
            n => format!(" The other {n} will not be sent."),
        };
        return Some(if is_written(doubtful) {
            format!("A message is being written to the outbox folder; waiting until it is there.{others}")
        } else {
            format!("A message has been handed to the mail server, which has not answered yet; waiting for its answer.{others}")
        });
    }
    Some(match working_on(job) {
        _ if job.emails().any(|email| email.outcome.is_open() && is_written(email)) => {
            "Putting the message's file away; it is not in the outbox folder yet.".into()
        }
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
