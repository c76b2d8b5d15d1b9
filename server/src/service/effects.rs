//! The effect history in words, for administrators: the list, one effect, and what may be exported.

use super::{
    Service, ServiceError,
    afterwards::second_copy,
    effect_filter::{read_filter, read_start, write_start},
    view::{Reader, moment},
};
use crate::worker::reconcile::places;
use app::{
    error::AppError,
    model::{
        AttemptLine, DecisionLine, EffectQuery, EffectRow, EffectView, EffectsView, Fact, FieldError, HistoryLine, ProbeLine,
        ProbePlan, Viewer, effect_path,
    },
};
use contract::wording::{self, Known};
use contract::{EffectKind, Mark, Outcome, Unconfirmed, Via};
use domain::id::JobId;
use store::{
    Attempt, Decision, EffectEntry, EffectFilter, EffectPart, EffectPlace, EffectRecord, Message, ProbeRecord, ProbeResult,
};

/// Rows on one page of each part of the list.
const PAGE: u32 = 50;

fn admins_only(who: &Viewer) -> Result<(), AppError> {
    if who.is_admin { Ok(()) } else { Err(AppError::Forbidden) }
}

fn known(entry: &EffectEntry) -> Known {
    let EffectEntry { kind, outcome, not_done, via, .. } = *entry;
    Known { kind, outcome, not_done, via, contradicted: entry.contradiction.is_some(), phase: entry.job_phase }
}

fn effect_row(entry: EffectEntry, reader: &Reader) -> EffectRow {
    let job = entry.job_id.to_string();
    EffectRow {
        path: effect_path(&job, entry.number),
        job_path: entry.job_phase.is_some().then(|| format!("/jobs/{job}")),
        job,
        number: entry.number,
        at: moment(entry.changed_at, reader.zone),
        what: wording::effect_name(entry.job_kind, entry.kind, entry.number, &entry.target),
        kind: entry.kind,
        outcome: entry.outcome,
        mark: known(&entry).mark(),
        outcome_text: known(&entry).outcome().into(),
        evidence: wording::evidence(entry.evidence, entry.contradiction.as_deref()),
        message_id: entry.message_id,
        job_title: entry.job_title,
        owner: entry.owner_email,
    }
}

fn attempt_line(attempt: Attempt, kind: EffectKind, via: Via, reader: &Reader) -> AttemptLine {
    let in_words = |at| moment(at, reader.zone);
    let (settled, settled_by) = attempt.settled.map(|(at, by)| (in_words(at), by)).unzip();
    AttemptLine {
        number: attempt.number,
        outcome: attempt.outcome,
        mark: wording::outcome_mark(attempt.outcome),
        outcome_text: wording::outcome(kind, attempt.outcome, via).into(),
        began: in_words(attempt.began_at),
        in_doubt: attempt.in_doubt_at.map(in_words),
        ended: attempt.ended_at.map(in_words),
        reply: attempt.evidence,
        settled,
        settled_by,
    }
}

fn look_line(look: ProbeRecord, reader: &Reader) -> ProbeLine {
    let (mark, result, evidence) = match look.end {
        None => (Mark::Stopped, "not ended", None),
        Some((_, ProbeResult::Found, text)) => (Mark::Done, "found", Some(text)),
        Some((_, ProbeResult::Hint, text)) => (Mark::Doubt, "a hint, no proof", Some(text)),
        Some((_, ProbeResult::Nothing, text)) => (Mark::Waiting, "nothing found", Some(text)),
        Some((_, ProbeResult::Failed, text)) => (Mark::Failed, "could not look", Some(text)),
    };
    ProbeLine { at: moment(look.began_at, reader.zone), place: look.place, mark, result: result.into(), evidence }
}

fn decision_line(decision: Decision, reader: &Reader) -> DecisionLine {
    DecisionLine {
        at: moment(decision.at, reader.zone),
        by: reader.name(&decision.by).to_owned(),
        decision: decision.ruling.words().into(),
        reason: decision.reason,
    }
}

/// The intent, and whose it is.
fn facts(entry: &EffectEntry, message: Option<&Message>, reader: &Reader) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |term: &str, text: String| facts.push(Fact { term: term.into(), text });
    fact("Kind", wording::effect_kind(entry.kind).into());
    if !entry.target.is_empty() {
        fact(if entry.kind == EffectKind::Email { "To" } else { "Of" }, entry.target.clone());
    }
    if let Some(id) = &entry.message_id {
        fact("Message-ID", id.clone());
    }
    if let Some(message) = message {
        fact("From", message.sender.clone());
        fact("Message", format!("{} bytes, SHA-256 {}", message.bytes.len(), domain::text::hex(&message.sha256)));
    }
    fact("Intended", moment(entry.created_at, reader.zone).text);
    fact("Report", entry.job_title.clone());
    fact("Asked for by", reader.name(&entry.owner_email).into());
    let deleted = if entry.job_phase.is_some() { "" } else { ", deleted" };
    fact("Job", format!("{}{deleted}", entry.job_id));
    fact("Number in the job", entry.number.to_string());
    facts
}

impl Service {
    /// One page of the effect history. The first pages hold what is open, the others what is settled; the page on which the
    /// open ones end begins with the settled ones as well.
    pub(super) async fn list_effects(&self, who: &Viewer, query: EffectQuery) -> Result<EffectsView, ServiceError> {
        admins_only(who)?;
        let reader = Reader::new(&who.email, &who.zone);
        let as_of = moment(self.store().clock().now(), reader.zone);
        let (filter, (part, after)) = match (read_filter(&query, reader.zone), read_start(&query.before)) {
            (Ok(filter), Ok(start)) => (filter, start),
            (filter, start) => {
                let mut mistakes = filter.err().unwrap_or_default();
                mistakes.extend(start.err());
                return Ok(EffectsView { open: Vec::new(), rows: Vec::new(), older_path: None, query, mistakes, as_of });
            }
        };
        let (mut open, mut rows, mut last) = (Vec::new(), Vec::new(), None);
        if part == EffectPart::Open {
            (open, last) = self.effects_page(part, &filter, after).await?;
        }
        if last.is_none() {
            let after = after.filter(|_| part == EffectPart::Settled);
            (rows, last) = self.effects_page(EffectPart::Settled, &filter, after).await?;
        }
        let older_path = last.map(|before| EffectQuery { before, ..query.clone() }.path());
        let in_words = |entries: Vec<_>| entries.into_iter().map(|entry| effect_row(entry, &reader)).collect();
        Ok(EffectsView { open: in_words(open), rows: in_words(rows), older_path, query, mistakes: Vec::new(), as_of })
    }

    /// The effects on one page of a part, and where it ended if there are more.
    async fn effects_page(
        &self,
        part: EffectPart,
        filter: &EffectFilter,
        after: Option<EffectPlace>,
    ) -> Result<(Vec<EffectEntry>, Option<String>), ServiceError> {
        let mut entries = self.store().effects(part, filter, after, PAGE + 1).await?;
        let more = entries.len() > PAGE as usize;
        entries.truncate(PAGE as usize);
        let last = entries
            .last()
            .filter(|_| more)
            .map(|last| write_start(part, EffectPlace { at: last.changed_at, job: last.job_id, number: last.number }));
        Ok((entries, last))
    }

    /// One effect with its attempts and what was recorded about it.
    pub(super) async fn show_effect(&self, who: &Viewer, job: JobId, number: u32) -> Result<EffectView, ServiceError> {
        admins_only(who)?;
        let store = self.store();
        let EffectRecord { entry, attempts, history } = store.effect(job, number).await?.ok_or(AppError::NotFound)?;
        let message = store.message(job, number).await?;
        let reader = Reader::new(&who.email, &who.zone);
        let probes = store.probes(job, number).await?;
        let decisions = store.decisions(job, number).await?;
        let plan = match entry.outcome {
            Outcome::Unconfirmed => Some(self.look_plan(job, number, &reader).await?),
            _ => None,
        };
        let second_copy = match store.job(job).await? {
            Some(record) => {
                let mailings = store.mailings_about(job).await?;
                record
                    .job
                    .effect(number)
                    .filter(|effect| effect.kind == EffectKind::Email)
                    .and_then(|effect| second_copy(&record, effect, &mailings))
            }
            None => None,
        };
        let unconfirmed = entry.outcome == Outcome::Unconfirmed;
        Ok(EffectView {
            meaning: unconfirmed.then(|| wording::unconfirmed(entry.unconfirmed).into()),
            warning: (unconfirmed && entry.unconfirmed == Some(Unconfirmed::Unattended)).then(|| wording::ANSWER_MAY_COME.into()),
            facts: facts(&entry, message.as_ref(), &reader),
            attempts: attempts.into_iter().map(|attempt| attempt_line(attempt, entry.kind, entry.via, &reader)).collect(),
            history: history.into_iter().map(|(at, text)| HistoryLine { at: moment(at, reader.zone), text }).collect(),
            siblings_path: EffectQuery { job: job.to_string(), ..EffectQuery::default() }.path(),
            probes: probes.into_iter().map(|look| look_line(look, &reader)).collect(),
            plan,
            decisions: decisions.into_iter().map(|decision| decision_line(decision, &reader)).collect(),
            second_copy,
            row: effect_row(entry, &reader),
        })
    }

    async fn look_plan(&self, job: JobId, number: u32, reader: &Reader) -> Result<ProbePlan, ServiceError> {
        let places = places(&self.dependencies);
        let next = if places.is_empty() { None } else { self.store().next_look_for(job, number).await? };
        Ok(ProbePlan { next: next.map(|at| moment(at, reader.zone)), places })
    }

    /// The filters for an export, or what is wrong with them.
    pub fn effect_filter(
        &self,
        who: &Viewer,
        query: &EffectQuery,
    ) -> Result<Result<EffectFilter, Vec<FieldError>>, ServiceError> {
        admins_only(who)?;
        Ok(read_filter(query, Reader::new(&who.email, &who.zone).zone))
    }
}
