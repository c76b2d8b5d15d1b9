//! The words for effects, the same on every screen, in the history, the API and the command line.

use app::{
    contract::{Effect, EffectKind, JobKind, NotDone, Outcome, Phase, StepState, Unconfirmed, Via, contradiction},
    model::Mark,
};
use std::fmt::Write;

const WAITING: &str = "Waiting until the ";

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Text for the content of HTML elements and for quoted values of attributes.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            _ => html.push(c),
        }
    }
    html
}

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

/// The word for an outcome, with why it was not done, or with both words where evidence contradicts a person's.
pub fn outcome_in_full(kind: EffectKind, is: Outcome, not_done: Option<NotDone>, via: Via, contradicted: bool) -> &'static str {
    match not_done {
        _ if contradicted => contradiction(is, via),
        Some(NotDone::Refused) => "refused",
        Some(NotDone::BrokenOff) => "broken off",
        Some(NotDone::GaveUp) => "given up",
        Some(NotDone::Attested) => "not accepted, as a person attests",
        Some(NotDone::Unreached) if kind == EffectKind::ModelCall => "not answered",
        Some(NotDone::Unreached) => "not handed over",
        None => outcome(kind, is, via),
    }
}

/// What is known about an effect, and what came after a person's word and says otherwise.
pub fn evidence(known: Option<String>, contradiction: Option<&str>) -> Option<String> {
    match (known, contradiction) {
        (Some(known), Some(later)) => Some(format!("{known}; later: {later}")),
        (known, _) => known,
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
pub fn outcome_mark(outcome: Outcome, not_done: Option<NotDone>, contradicted: bool) -> Mark {
    match outcome {
        _ if contradicted => Mark::Doubt,
        Outcome::NotStarted => Mark::Waiting,
        Outcome::InFlight => Mark::Running,
        Outcome::InDoubt | Outcome::Unconfirmed => Mark::Doubt,
        Outcome::Done => Mark::Done,
        Outcome::NotDone if not_done == Some(NotDone::BrokenOff) => Mark::Stopped,
        Outcome::NotDone => Mark::Failed,
    }
}

/// The mark beside a step.
pub fn step_mark(state: StepState, stopping: bool) -> Mark {
    match state {
        StepState::Pending | StepState::Skipped => Mark::Waiting,
        StepState::Running if stopping => Mark::Stopping,
        StepState::Running => Mark::Running,
        StepState::Done => Mark::Done,
        StepState::Failed => Mark::Failed,
        StepState::Stopped => Mark::Stopped,
    }
}

/// The mark beside a job: doubt about an e-mail outweighs how the job ended.
pub fn job_mark(job: &app::contract::Job) -> Mark {
    let in_doubt = |email: &Effect| email.outcome == Outcome::Unconfirmed || email.contradiction.is_some();
    if job.phase.is_final() && job.emails().any(in_doubt) {
        return Mark::Doubt;
    }
    match job.phase {
        Phase::Queued => Mark::Waiting,
        Phase::Running if job.is_held() => Mark::Waiting,
        Phase::Running => Mark::Running,
        Phase::Stopping => Mark::Stopping,
        Phase::Cancelled => Mark::Stopped,
        Phase::Finished if job.emails().any(|email| email.outcome == Outcome::NotDone) => Mark::Failed,
        Phase::Finished => Mark::Done,
        Phase::Failed => Mark::Failed,
    }
}
