//! The effect history in words, for administrators: the list, one effect, and what may be exported.

use super::{
    Desk, DeskError,
    effect_filter::{read_filter, read_start, write_start},
    view::{Reader, moment},
};
use crate::{
    id::JobId,
    store::{Attempt, EffectEntry, EffectFilter, EffectPart, EffectPlace, EffectRecord, Message},
    words,
};
use app::{
    contract::EffectKind,
    error::AppError,
    model::{AttemptLine, EffectQuery, EffectRow, EffectView, EffectsView, Fact, FieldError, HistoryLine, Viewer, effect_path},
};

/// Rows on one page of each part of the list.
const PAGE: u32 = 50;

fn admins_only(who: &Viewer) -> Result<(), AppError> {
    if who.is_admin { Ok(()) } else { Err(AppError::Forbidden) }
}

fn effect_row(entry: EffectEntry, reader: &Reader) -> EffectRow {
    let job = entry.job_id.to_string();
    let job_path = entry.job.is_some().then(|| format!("/jobs/{job}"));
    let (job_title, owner) = entry.job.map(|job| (job.title, job.owner_email)).unzip();
    EffectRow {
        path: effect_path(&job, entry.number),
        job,
        number: entry.number,
        at: moment(entry.changed_at, reader.zone),
        what: words::effect_name(entry.kind, entry.number, &entry.target),
        kind: entry.kind,
        outcome: entry.outcome,
        mark: words::outcome_mark(entry.outcome, entry.not_done),
        outcome_text: words::outcome_in_full(entry.kind, entry.outcome, entry.not_done).into(),
        evidence: entry.evidence,
        message_id: entry.message_id,
        job_path,
        job_title: job_title.unwrap_or_else(|| "a deleted job".into()),
        owner,
    }
}

fn attempt_line(attempt: Attempt, kind: EffectKind, reader: &Reader) -> AttemptLine {
    let in_words = |at| moment(at, reader.zone);
    AttemptLine {
        number: attempt.number,
        outcome: attempt.outcome,
        mark: words::outcome_mark(attempt.outcome, None),
        outcome_text: words::outcome(kind, attempt.outcome).into(),
        began: in_words(attempt.began_at),
        in_doubt: attempt.in_doubt_at.map(in_words),
        ended: attempt.ended_at.map(in_words),
        reply: attempt.evidence,
    }
}

/// The intent, and whose it is.
fn facts(entry: &EffectEntry, message: Option<&Message>, reader: &Reader) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |term: &str, text: String| facts.push(Fact { term: term.into(), text });
    fact("Kind", words::effect_kind(entry.kind).into());
    if !entry.target.is_empty() {
        fact(if entry.kind == EffectKind::Email { "To" } else { "Of" }, entry.target.clone());
    }
    if let Some(id) = &entry.message_id {
        fact("Message-ID", id.clone());
    }
    if let Some(message) = message {
        fact("From", message.sender.clone());
        fact("Message", format!("{} bytes, SHA-256 {}", message.bytes.len(), words::hex(&message.sha256)));
    }
    fact("Intended", moment(entry.created_at, reader.zone).text);
    if let Some(job) = &entry.job {
        fact("Report", job.title.clone());
        fact("Asked for by", reader.name(&job.owner_email).into());
    }
    fact("Job", entry.job_id.to_string());
    fact("Number in the job", entry.number.to_string());
    facts
}

impl Desk {
    /// One page of the effect history. The first pages hold what is open, the others what is settled; the page on which the
    /// open ones end begins with the settled ones as well.
    pub(super) async fn list_effects(&self, who: &Viewer, query: EffectQuery) -> Result<EffectsView, DeskError> {
        admins_only(who)?;
        let reader = Reader::new(&who.email, &who.zone);
        let (filter, (part, after)) = match (read_filter(&query, reader.zone), read_start(&query.before)) {
            (Ok(filter), Ok(start)) => (filter, start),
            (filter, start) => {
                let mut mistakes = filter.err().unwrap_or_default();
                mistakes.extend(start.err());
                return Ok(EffectsView { open: Vec::new(), rows: Vec::new(), older_path: None, query, mistakes });
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
        Ok(EffectsView { open: in_words(open), rows: in_words(rows), older_path, query, mistakes: Vec::new() })
    }

    /// The effects on one page of a part, and where it ended if there are more.
    async fn effects_page(
        &self,
        part: EffectPart,
        filter: &EffectFilter,
        after: Option<EffectPlace>,
    ) -> Result<(Vec<EffectEntry>, Option<String>), DeskError> {
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
    pub(super) async fn show_effect(&self, who: &Viewer, job: JobId, number: u32) -> Result<EffectView, DeskError> {
        admins_only(who)?;
        let EffectRecord { entry, attempts, history } = self.store().effect(job, number).await?.ok_or(AppError::NotFound)?;
        let message = self.store().message(job, number).await?;
        let reader = Reader::new(&who.email, &who.zone);
        Ok(EffectView {
            facts: facts(&entry, message.as_ref(), &reader),
            attempts: attempts.into_iter().map(|attempt| attempt_line(attempt, entry.kind, &reader)).collect(),
            history: history.into_iter().map(|(at, text)| HistoryLine { at: moment(at, reader.zone), text }).collect(),
            siblings_path: EffectQuery { job: job.to_string(), ..EffectQuery::default() }.path(),
            row: effect_row(entry, &reader),
        })
    }

    /// The filters for an export, or what is wrong with them.
    pub fn effect_filter(&self, who: &Viewer, query: &EffectQuery) -> Result<Result<EffectFilter, Vec<FieldError>>, DeskError> {
        admins_only(who)?;
        Ok(read_filter(query, Reader::new(&who.email, &who.zone).zone))
    }
}
