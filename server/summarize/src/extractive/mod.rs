//! The built-in summarizer: picks the sentences that say most, and writes nothing itself.
//!
//! It needs no network and no key, gives the same result for the same documents, and every statement is a sentence of a
//! source with its place. Each document is ranked by itself (`TextRank`), because the documents of a month differ in
//! length by orders of magnitude and the longest would drown the others; then the best of each compete for "In short".

mod pick;
mod quality;
mod rank;
mod words;

use super::sentences::{self, Sentence};
use super::{
    Citation, Draft, Identity, LONGEST_COMPUTATION, Ledger, Section, SourceText, Statement, SummarizeError, Summarizer, Task,
    off_thread,
};
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Sentences of one document that enter its graph. Keeps the graph of a 300-page document as fast as that of a letter.
const GRAPH_LIMIT: usize = 400;
/// What a sentence counts that shares no word with others. In a short document few do, and they still say something.
const BASE: f64 = 0.35;
/// Best sentences of each document that compete for "In short".
const FINALISTS: usize = 6;

/// Picks sentences; needs neither network nor key.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtractiveSummarizer;

/// A sentence that may be picked.
#[derive(Debug, Clone)]
struct Candidate {
    document: usize,
    sentence: Sentence,
    terms: Vec<String>,
    /// Rank in its document times how well it reads, about 0 to 1.5.
    score: f64,
}

/// A document cut and weighed.
#[derive(Debug, Default)]
struct Analysis {
    heading: String,
    candidates: Vec<Candidate>,
}

/// A count as a number to reckon with. Counts here are far below 2³².
pub(super) fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[async_trait]
impl Summarizer for ExtractiveSummarizer {
    fn identity(&self) -> Identity {
        Identity { name: "Built-in summarizer (picks sentences, writes nothing itself)".to_owned() }
    }

    fn longest(&self) -> Duration {
        LONGEST_COMPUTATION
    }

    async fn summarize(&self, task: &Task, ledger: &dyn Ledger, cancel: &CancellationToken) -> Result<Draft, SummarizeError> {
        let total = u32::try_from(task.documents.len()).unwrap_or(u32::MAX);
        ledger.progress(0, total).await?;
        let documents = Arc::new(task.documents.clone());
        let fixed = Arc::new(
            off_thread(cancel, {
                let documents = Arc::clone(&documents);
                move |stop| fixed_wording(&documents, stop)
            })
            .await?,
        );
        let mut analyses = Vec::with_capacity(documents.len());
        for (index, done) in (0..documents.len()).zip(1..) {
            let (documents, fixed) = (Arc::clone(&documents), Arc::clone(&fixed));
            analyses.push(off_thread(cancel, move |stop| analyse(&documents, index, &fixed, stop)).await?);
            ledger.progress(done, total).await?;
        }
        let parameters = serde_json::json!({
            "method": "TextRank over TF-IDF cosines, redundancy removed by MMR",
            "sentences_per_graph": GRAPH_LIMIT,
            "documents": documents.len(),
        });
        let identity = self.identity();
        let instructed = task.instructions.as_ref().is_some_and(|text| !text.trim().is_empty());
        off_thread(cancel, move |stop| {
            let picked = pick::pick(&analyses, stop)?;
            let mut notes = notes(&documents, &analyses);
            if instructed {
                notes.push("The built-in summarizer picks sentences and cannot follow instructions; the instructions were not used.".to_owned());
            }
            Some((sections(&documents, &analyses, &picked), notes))
        })
        .await
        .and_then(|(sections, notes)| {
            if sections.iter().all(|section| section.statements.is_empty()) {
                return Err(SummarizeError::failed(
                    "The documents hold no full sentences to pick from. Choose other documents, or a summarizer that uses a model.",
                ));
            }
            Ok(Draft { sections, summarizer: identity, parameters, notes })
        })
    }
}

/// A sentence without what changes from issue to issue, to find fixed wording.
fn fingerprint(text: &str) -> String {
    text.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

/// The fixed wording of each document: sentences that also stand in others, as in every issue of a newsletter, and so
/// say nothing about the month. With two documents both must have it; with more, at least two and a third of them. A
/// near copy of another document has none: leaving all of its sentences out would hide it.
fn fixed_wording(documents: &[SourceText], stop: &dyn Fn() -> bool) -> Option<Vec<BTreeSet<String>>> {
    let mut prints: Vec<BTreeSet<String>> = Vec::with_capacity(documents.len());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for document in documents {
        if stop() {
            return None;
        }
        prints.push(
            sentences::outline(&document.text, stop).sentences.iter().map(|sentence| fingerprint(&sentence.text)).collect(),
        );
    }
    prints.iter().flatten().for_each(|print| *counts.entry(print).or_insert(0) += 1);
    let least = documents.len().div_ceil(3).max(2);
    let fixed = |own: &BTreeSet<String>| -> BTreeSet<String> {
        let repeated: BTreeSet<String> =
            own.iter().filter(|print| counts.get(print.as_str()).is_some_and(|count| *count >= least)).cloned().collect();
        let is_copy = repeated.len() * 5 > own.len() * 4;
        if is_copy { BTreeSet::new() } else { repeated }
    };
    Some(prints.iter().map(fixed).collect())
}

/// Parts of minutes where someone wrote down what came of it.
const SUMMARIES: &[&str] = &[
    "summary",
    "conclusion",
    "decision",
    "outcome",
    "resolution",
    "key points",
    "result",
    "zusammenfassung",
    "ergebnis",
    "beschl",
    "fazit",
    "conclusión",
    "résumé",
    "resumen",
    "décision",
    "decisi",
];

/// What a document is about, by its headings.
struct Topics {
    title: BTreeSet<String>,
    stop_words: words::StopWords,
}

impl Topics {
    /// A sentence counts more when it names its topic, so that it can be understood without the heading, and when it
    /// stands in a part that sums up.
    fn factor(&self, heading: &sentences::Heading, terms: &[String]) -> f64 {
        let lowered = heading.text.to_lowercase();
        let sums_up = SUMMARIES.iter().any(|word| lowered.contains(word));
        let inner = heading.above.iter().skip(1).chain(std::iter::once(&heading.text));
        let topic: BTreeSet<String> = inner.flat_map(|heading| words::terms(heading, self.stop_words)).collect();
        let named = terms.iter().filter(|term| topic.contains(*term)).count().min(3);
        let entitled = terms.iter().any(|term| self.title.contains(term));
        (if sums_up { 1.6 } else { 1.0 }) * (1.0 + 0.15 * float(named)) * if entitled { 1.05 } else { 1.0 }
    }
}

fn analyse(documents: &[SourceText], index: usize, fixed: &[BTreeSet<String>], stop: &dyn Fn() -> bool) -> Option<Analysis> {
    let (Some(document), Some(fixed)) = (documents.get(index), fixed.get(index)) else {
        return Some(Analysis::default());
    };
    let outline = sentences::outline(&document.text, stop);
    let stop_words = words::StopWords::of(&document.text);
    let topics = Topics { title: outline.title.iter().flat_map(|title| words::terms(title, stop_words)).collect(), stop_words };
    let mut candidates = Vec::new();
    let mut seen = BTreeSet::new();
    for sentence in outline.sentences {
        if stop() {
            return None;
        }
        let print = fingerprint(&sentence.text);
        let Some(score) = quality::quality(&sentence, stop_words) else {
            continue;
        };
        if fixed.contains(&print) || !seen.insert(print) {
            continue;
        }
        let terms = words::terms(&sentence.text, stop_words);
        let factor = outline.headings.get(sentence.part).map_or(1.0, |heading| topics.factor(heading, &terms));
        candidates.push(Candidate { document: index, sentence, terms, score: score * factor });
    }
    let candidates = ranked(shortened(candidates), stop)?;
    Some(Analysis { heading: outline.title.unwrap_or_else(|| document.name.clone()), candidates })
}

/// Keeps the [`GRAPH_LIMIT`] best readable sentences with the most content, in document order.
fn shortened(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    if candidates.len() > GRAPH_LIMIT {
        let mut frequency: BTreeMap<String, usize> = BTreeMap::new();
        candidates
            .iter()
            .flat_map(|candidate| &candidate.terms)
            .for_each(|term| *frequency.entry(term.clone()).or_insert(0) += 1);
        let weight = |candidate: &Candidate| {
            let common: f64 = candidate.terms.iter().map(|term| float(frequency.get(term).copied().unwrap_or(1)).ln()).sum();
            candidate.score * common / float(candidate.terms.len() + 4)
        };
        candidates.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.sentence.origin.start.cmp(&b.sentence.origin.start)));
        candidates.truncate(GRAPH_LIMIT);
        candidates.sort_by_key(|candidate| candidate.sentence.origin.start);
    }
    candidates
}

fn ranked(mut candidates: Vec<Candidate>, stop: &dyn Fn() -> bool) -> Option<Vec<Candidate>> {
    let terms: Vec<Vec<String>> = candidates.iter().map(|candidate| candidate.terms.clone()).collect();
    let ranks = rank::text_rank(&rank::vectors(&terms), stop)?;
    candidates.iter_mut().zip(ranks).for_each(|(candidate, rank)| candidate.score *= BASE + (1.0 - BASE) * rank);
    Some(candidates)
}

fn sections(documents: &[SourceText], analyses: &[Analysis], picked: &pick::Picked) -> Vec<Section> {
    let statements =
        |chosen: &[&Candidate]| chosen.iter().filter_map(|candidate| statement(documents, candidate)).collect::<Vec<_>>();
    let mut headings: BTreeMap<&str, usize> = BTreeMap::new();
    for analysis in analyses {
        *headings.entry(&analysis.heading).or_insert(0) += 1;
    }
    let mut sections = vec![Section { heading: "In short".to_owned(), statements: statements(&picked.overall(analyses)) }];
    for (index, (document, analysis)) in documents.iter().zip(analyses).enumerate() {
        let chosen = statements(&picked.of_document(analyses, index));
        if chosen.is_empty() {
            continue;
        }
        let is_unique = headings.get(analysis.heading.as_str()) == Some(&1);
        let heading = if is_unique { analysis.heading.clone() } else { format!("{} ({})", analysis.heading, document.name) };
        sections.push(Section { heading, statements: chosen });
    }
    sections
}

fn statement(documents: &[SourceText], candidate: &Candidate) -> Option<Statement> {
    let document = documents.get(candidate.document)?;
    let origin = candidate.sentence.origin.clone();
    let quote = document.text.get(origin.clone())?.to_owned();
    let citation = Citation { document: document.number, start: origin.start, end: origin.end, quote };
    Some(Statement { text: candidate.sentence.text.clone(), citations: vec![citation], unsupported: Vec::new() })
}

fn notes(documents: &[SourceText], analyses: &[Analysis]) -> Vec<String> {
    let empty = documents.iter().zip(analyses).filter(|(_, analysis)| analysis.candidates.is_empty());
    empty.map(|(document, _)| format!("“{}” holds no full sentences, so nothing was picked from it.", document.name)).collect()
}

#[cfg(test)]
mod tests;
