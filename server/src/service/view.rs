//! A job's record, put into words for one viewer.

use app::model::{
    AfterwardsView, CancelRecord, CoverageLine, EffectLine, Fact, HistoryLine, JobView, Moment, StepView, UnderWay,
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use chrono_tz::Tz;
use contract::wording::{self, Known};
use contract::{
    Effect, EffectKind, Job, JobKind, Mark, Outcome, Phase, Step, StepKind, StepState, headline, if_cancelled_now, waiting_for,
};
use domain::{
    coverage::DocumentOutcome as Found,
    period::{Period, parse_zone},
    spec::Spec,
};
use store::{CollectedDocument, Record};

/// Who looks, and from where.
#[derive(Debug, Clone)]
pub struct Reader {
    pub email: String,
    pub zone: Tz,
}

impl Reader {
    /// A reader; an unknown zone is shown in UTC.
    pub fn new(email: &str, zone: &str) -> Self {
        Self { email: email.to_owned(), zone: parse_zone(zone).unwrap_or(Tz::UTC) }
    }

    /// "you", or the address.
    pub fn name<'a>(&self, email: &'a str) -> &'a str {
        if email == self.email { "you" } else { email }
    }
}

/// An instant in the words of a time zone.
pub fn moment(at: DateTime<Utc>, zone: Tz) -> Moment {
    Moment {
        iso: at.to_rfc3339_opts(SecondsFormat::Millis, true),
        text: at.with_timezone(&zone).format("%-d %b %Y, %H:%M:%S").to_string(),
    }
}

/// A span of time in words: "under 0.1 s", "0.3 s", "1 min 12 s".
pub fn duration(span: TimeDelta) -> String {
    let tenths = span.num_milliseconds().max(0) / 100;
    if tenths == 0 {
        "under 0.1 s".into()
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} min {} s", tenths / 600, (tenths / 10) % 60)
    }
}

/// Everything about a job that its page, the API and the command line show.
pub fn job_view(
    record: &Record,
    coverage: &[CollectedDocument],
    history: &[(DateTime<Utc>, String)],
    reader: &Reader,
    now: DateTime<Utc>,
) -> JobView {
    let (row, job) = (&record.row, &record.job);
    JobView {
        id: row.id.to_string(),
        version: row.version,
        as_of: moment(now, reader.zone),
        title: row.spec.full_title(),
        month: row.spec.month.to_string(),
        phase: job.phase,
        mark: wording::job_mark(job),
        headline: headline(job),
        reason: reason(job),
        waiting_for: waiting_for(job).map(|general| named_wait(history).unwrap_or(general)),
        waiting_since: None,
        waiting_seconds: None,
        account_now: None,
        if_cancelled_now: if_cancelled_now(job),
        cancel: row
            .cancel_requested_at
            .zip(row.cancel_requested_by.as_deref())
            .map(|(at, by)| CancelRecord { at: moment(at, reader.zone), by: reader.name(by).to_owned() }),
        hold: None,
        set_aside: None,
        steps: job
            .steps
            .iter()
            .zip(&record.times)
            .map(|(step, times)| step_view(record, step, times.started_at.zip(times.ended_at)))
            .collect(),
        under_way: under_way(record, reader, now),
        effects: effects(record, reader.zone),
        coverage: coverage.iter().map(coverage_line).collect(),
        coverage_summary: coverage_summary(coverage),
        facts: facts(record, reader),
        history: history.iter().map(|(at, text)| HistoryLine { at: moment(*at, reader.zone), text: text.clone() }).collect(),
        report_path: row.report_id.map(|id| format!("/reports/{id}")),
        // A mailing has no documents of its own: what can be done again is the report that it is about.
        again_path: format!("/?from={}", row.spec.task.about().unwrap_or(row.id)),
        withdrawn: None,
        about: None,
        mailings: Vec::new(),
        afterwards: AfterwardsView::default(),
    }
}

/// Takes out of a view what only administrators may see: by its Message-ID an e-mail that nobody knows about is found, and whoever
/// knows it could write what is to be found. Until the e-mail is proved accepted each attempt may become such a one. Mail servers
/// repeat the id in their replies.
pub fn conceal_message_ids(record: &Record, view: &mut JobView) {
    for email in record.job.emails().filter(|email| email.outcome != Outcome::Done) {
        let Some(id) = record.message_ids.get(&email.number) else { continue };
        let id = id.trim_matches(['<', '>']);
        let evidence = view.effects.iter_mut().filter_map(|line| line.evidence.as_mut());
        let history = view.history.iter_mut().map(|line| &mut line.text);
        for text in evidence.chain(history).filter(|text| text.contains(id)) {
            *text = text.replace(id, "(Message-ID)");
        }
        for line in view.effects.iter_mut().filter(|line| line.number == email.number) {
            line.message_id = None;
        }
    }
}

/// What belongs under the headline: why it failed, what an unconfirmed e-mail means, and what two words about one mean.
fn reason(job: &Job) -> Option<String> {
    // What is unconfirmed only in a copy is explained with the copy.
    let unanswered = |email: &Effect| email.outcome == Outcome::Unconfirmed && !email.is_copied();
    let unconfirmed = (job.phase.is_final() && job.emails().any(unanswered)).then_some(
        "No answer came after the message was handed over. It may have been accepted, or not. Recount will not send it again by itself.",
    );
    let late = |email: &Effect| email.contradiction.is_some() && email.outcome == Outcome::NotDone;
    let twice = job.emails().any(late).then_some(
        "The mail service's answer came after the person's word. If a second copy was sent in between, the recipient may have the message twice.",
    );
    let failed = job.failure.as_ref().map(|failure| failure.reason.as_str());
    let parts: Vec<&str> = [failed, unconfirmed, twice].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// What a stopping job waits for, where its worker has named it.
fn named_wait(history: &[(DateTime<Utc>, String)]) -> Option<String> {
    history.iter().rev().find_map(|(_, entry)| wording::waits_for(entry))
}

fn step_view(record: &Record, step: &Step, times: Option<(DateTime<Utc>, DateTime<Utc>)>) -> StepView {
    let job = &record.job;
    let stopping = job.phase == Phase::Stopping;
    let Step { kind, state, done, total } = *step;
    let unit = match kind {
        StepKind::Collect => ("document", "documents"),
        StepKind::Summarize => ("part", "parts"),
        StepKind::Save | StepKind::Hold => ("", ""),
        StepKind::Email => ("message", "messages"),
    };
    let count = |n: u32| format!("{n} {}", if n == 1 { unit.0 } else { unit.1 });
    let emails = job.emails().count();
    let detail = match state {
        // What the original has done is not known here.
        StepState::Pending | StepState::Skipped if kind == StepKind::Email && job.emails().any(Effect::is_copied) => {
            wording::email_result(job)
        }
        StepState::Pending | StepState::Skipped if job.copied.is_some() => "not started here".into(),
        StepState::Pending | StepState::Skipped if kind == StepKind::Email && job.emails().any(|email| email.attempts > 0) => {
            wording::email_result(job)
        }
        StepState::Pending if kind == StepKind::Email && job.phase.lets_start() => {
            format!("not started, {}", if emails == 1 { "1 recipient".into() } else { format!("{emails} recipients") })
        }
        StepState::Pending if job.phase.lets_start() => "not started".into(),
        StepState::Pending | StepState::Skipped if kind == StepKind::Email => "will not be sent".into(),
        StepState::Pending | StepState::Skipped => "will not happen".into(),
        StepState::Running if kind == StepKind::Hold => "waiting".into(),
        // A part takes long: which one it is says more than how many are done.
        StepState::Running if total > 0 && kind == StepKind::Summarize => format!("part {} of {total}", (done + 1).min(total)),
        StepState::Running if total > 0 => format!("{done} of {}", count(total)),
        StepState::Running if stopping => "stopping".into(),
        StepState::Running => "started".into(),
        StepState::Done if kind == StepKind::Save => "saved".into(),
        StepState::Done | StepState::Stopped if kind == StepKind::Email => wording::email_result(job),
        StepState::Done if kind == StepKind::Collect => format!("{} looked at", count(total)),
        StepState::Done => "done".into(),
        StepState::Failed => "failed".into(),
        StepState::Stopped if total > 0 => format!("stopped at {done} of {}", count(total)),
        StepState::Stopped => "stopped".into(),
    };
    StepView {
        kind,
        state,
        mark: if kind == StepKind::Email { wording::email_step_mark(job, state) } else { wording::step_mark(state, job.phase) },
        title: kind.title().into(),
        detail,
        took: times.map(|(from, to)| duration(to - from)),
        done,
        total,
    }
}

/// The effect of a running job that has been under way for the longest.
fn under_way(record: &Record, reader: &Reader, now: DateTime<Utc>) -> Option<UnderWay> {
    if record.job.phase != Phase::Running {
        return None;
    }
    let began = |effect: &Effect| Some((*record.effect_times.get(&effect.number)?, effect.number));
    let effect = record.job.effects.iter().filter(|effect| effect.outcome.is_open()).min_by_key(|effect| began(effect))?;
    let (since, number) = began(effect)?;
    let target = record.targets.get(&number).map_or("", String::as_str);
    Some(UnderWay {
        what: wording::effect_name(record.job.kind, effect.kind, number, target),
        outcome_text: Known::of(effect, record.job.phase).outcome().into(),
        since: moment(since, reader.zone),
        seconds: u32::try_from((now - since).num_seconds().max(0)).unwrap_or(u32::MAX),
    })
}

fn effects(record: &Record, zone: Tz) -> Vec<EffectLine> {
    let mut effects: Vec<_> = record.job.effects.iter().collect();
    // As things happen: model calls, then the report, then the messages.
    effects.sort_by_key(|effect| (effect.kind, effect.number));
    effects
        .into_iter()
        .map(|effect| {
            let target = record.targets.get(&effect.number).map_or("", String::as_str);
            let begun = effect.outcome != Outcome::NotStarted;
            let known = Known::of(effect, record.job.phase);
            EffectLine {
                number: effect.number,
                kind: effect.kind,
                what: wording::effect_name(record.job.kind, effect.kind, effect.number, target),
                outcome: effect.outcome,
                mark: known.mark(),
                outcome_text: known.outcome().into(),
                evidence: wording::evidence(effect.evidence.clone(), effect.contradiction.as_deref()),
                attempts: effect.attempts,
                message_id: record.message_ids.get(&effect.number).filter(|_| effect.kind == EffectKind::Email).cloned(),
                at: record.effect_times.get(&effect.number).filter(|_| begun).map(|at| moment(*at, zone)),
                path: None,
            }
        })
        .collect()
}

fn coverage_line(document: &CollectedDocument) -> CoverageLine {
    CoverageLine {
        number: document.number,
        name: document.name.clone(),
        source: document.source.clone(),
        state: document.coverage.outcome.label().to_lowercase(),
        mark: match document.coverage.outcome {
            Found::Read => Mark::Done,
            Found::ReadInPart | Found::NoText | Found::Undated => Mark::Doubt,
            Found::Locked | Found::Unreadable | Found::TooLarge => Mark::Failed,
            Found::OtherMonth => Mark::Waiting,
        },
        reason: document.coverage.reason.clone(),
        date: document.date.clone(),
        dated_by: document.dated_by.clone(),
    }
}

/// "4 read, 1 no text, 9 other month".
pub fn coverage_summary(coverage: &[CollectedDocument]) -> Option<String> {
    let parts: Vec<String> = Found::ALL
        .into_iter()
        .filter_map(|outcome| {
            let n = coverage.iter().filter(|document| document.coverage.outcome == outcome).count();
            (n > 0).then(|| format!("{n} {}", outcome.label().to_lowercase()))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// "1 to 30 June 2026, Europe/Berlin".
pub fn interval(spec: &Spec) -> String {
    parse_zone(&spec.zone)
        .and_then(|zone| Period::new(spec.month, zone))
        .map_or_else(|_| spec.month.title(), |period| period.describe())
}

fn facts(record: &Record, reader: &Reader) -> Vec<Fact> {
    let row = &record.row;
    let spec = &row.spec;
    let mut facts = Vec::new();
    let mut fact = |term: &str, text: String| facts.push(Fact { term: term.into(), text });
    fact("Month", interval(spec));
    if record.job.kind == JobKind::Report {
        let sources: Vec<&str> = spec.sources.iter().map(|source| source.name.as_str()).collect();
        fact("Documents from", if sources.is_empty() { "uploaded files".into() } else { sources.join(", ") });
    }
    fact("Recipients", spec.recipients.join(", "));
    if let Some(hold) = spec.hold.describe() {
        fact("E-mail goes out", hold);
    }
    if let Some(instructions) = &spec.instructions {
        fact("What to look for", instructions.clone());
    }
    fact("Asked for by", format!("{}, {}", reader.name(&row.owner_email), moment(row.created_at, reader.zone).text));
    if let Some(at) = row.started_at {
        fact("Started", moment(at, reader.zone).text);
    }
    if let Some(at) = row.finished_at {
        fact("Ended", moment(at, reader.zone).text);
    }
    fact("Job", row.id.to_string());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_people_say_them() {
        assert_eq!(duration(TimeDelta::milliseconds(34)), "under 0.1 s");
        assert_eq!(duration(TimeDelta::milliseconds(340)), "0.3 s");
        assert_eq!(duration(TimeDelta::milliseconds(12_050)), "12.0 s");
        assert_eq!(duration(TimeDelta::seconds(72)), "1 min 12 s");
    }

    #[test]
    fn an_unconfirmed_e_mail_is_explained() {
        let mut job = Job::create(1, false);
        let epoch = job.claim().unwrap();
        for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
            job.complete_step(epoch, kind).unwrap();
        }
        job.begin_effect(epoch, 2).unwrap();
        job.doubt(epoch, 2).unwrap();
        job.settle(epoch, 2, contract::Verdict::Unconfirmed("no answer".into())).unwrap();
        assert_eq!(reason(&job), None, "it has not ended yet");
        job.complete_step(epoch, StepKind::Email).unwrap();
        assert!(reason(&job).is_some_and(|text| text.contains("will not send it again")));
    }

    #[test]
    fn a_wait_is_told_by_its_name() {
        let at = DateTime::UNIX_EPOCH;
        let waiting = wording::waiting_until_ended("reading of budget.pdf");
        let mut history = vec![(at, "Stopping".to_owned())];
        assert_eq!(named_wait(&history), None);
        history.extend([(at, waiting), (at, "Cancel pressed again by bob@example.org".to_owned())]);
        let told = "Waiting until the reading of budget.pdf has ended; it cannot be interrupted.";
        assert_eq!(named_wait(&history).as_deref(), Some(told));
    }
}
