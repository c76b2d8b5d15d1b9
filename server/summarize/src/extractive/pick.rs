//! Chooses among ranked sentences: much said, little said twice.
//!
//! Maximal marginal relevance (Carbonell and Goldstein 1998): take the best sentence, then again and again the one whose
//! score most outweighs its likeness to those already taken. Parts and documents already heard from must do better, so
//! that a summary covers its sources.

use super::rank::{Vector, vectors};
use super::{Analysis, Candidate, FINALISTS, float};

/// Weight of what a sentence says against how much of it was said.
const RELEVANCE: f64 = 0.65;
/// A sentence this alike to one taken says the same.
const SAME: f64 = 0.6;
/// Sentences scoring below this share of the best one are not worth their line.
const WORTH: f64 = 0.2;

/// Indexes into the candidates of each document.
#[derive(Debug, Default)]
pub(super) struct Picked {
    overall: Vec<(usize, usize)>,
    by_document: Vec<Vec<usize>>,
}

impl Picked {
    pub(super) fn overall<'a>(&self, analyses: &'a [Analysis]) -> Vec<&'a Candidate> {
        self.overall.iter().filter_map(|&(document, index)| analyses.get(document)?.candidates.get(index)).collect()
    }

    pub(super) fn of_document<'a>(&self, analyses: &'a [Analysis], document: usize) -> Vec<&'a Candidate> {
        let chosen = self.by_document.get(document).map(Vec::as_slice).unwrap_or_default();
        chosen.iter().filter_map(|&index| analyses.get(document)?.candidates.get(index)).collect()
    }
}

/// Picks 3 to 7 sentences overall and 1 to 4 more of each document. A document whose sentences all went to the overall
/// part is shown with those, because an empty section would look like a document without content.
pub(super) fn pick(analyses: &[Analysis], stop: &dyn Fn() -> bool) -> Option<Picked> {
    let mut finalists: Vec<(usize, usize)> = Vec::new();
    for (document, analysis) in analyses.iter().enumerate() {
        if stop() {
            return None;
        }
        let best = choose(&analysis.candidates.iter().collect::<Vec<_>>(), FINALISTS, |candidate| candidate.sentence.part);
        finalists.extend(best.into_iter().map(|index| (document, index)));
    }
    let candidates: Vec<&Candidate> =
        finalists.iter().filter_map(|&(document, index)| analyses.get(document)?.candidates.get(index)).collect();
    let overall_count = (analyses.len() + 2).clamp(3, 7);
    let mut overall: Vec<(usize, usize)> = choose(&candidates, overall_count, |candidate| candidate.document)
        .into_iter()
        .filter_map(|index| finalists.get(index).copied())
        .collect();
    overall.sort_unstable();
    let mut by_document = Vec::with_capacity(analyses.len());
    for (document, analysis) in analyses.iter().enumerate() {
        if stop() {
            return None;
        }
        let count = budget(analysis, analyses.len());
        // Measured against the document's best sentence, which may already stand in the overall part.
        let worth = WORTH * best_score(&analysis.candidates.iter().collect::<Vec<_>>());
        let rest: Vec<usize> = (0..)
            .zip(&analysis.candidates)
            .filter(|(index, candidate)| candidate.score >= worth && !overall.contains(&(document, *index)))
            .map(|(index, _)| index)
            .collect();
        let open: Vec<&Candidate> = rest.iter().filter_map(|&index| analysis.candidates.get(index)).collect();
        let mut chosen: Vec<usize> = choose(&open, count, |candidate| candidate.sentence.part)
            .into_iter()
            .filter_map(|at| rest.get(at).copied())
            .collect();
        if chosen.is_empty() {
            chosen = overall.iter().filter(|(of, _)| *of == document).map(|&(_, index)| index).collect();
        }
        chosen.sort_unstable();
        by_document.push(chosen);
    }
    Some(Picked { overall, by_document })
}

/// How many sentences a document gets: more for longer ones, fewer when there are many documents.
fn budget(analysis: &Analysis, documents: usize) -> usize {
    let by_length = match analysis.candidates.len() {
        0..=3 => 1,
        4..=9 => 2,
        10..=24 => 3,
        _ => 4,
    };
    let by_documents = match documents {
        0..=8 => 4,
        9..=20 => 2,
        _ => 1,
    };
    by_length.min(by_documents)
}

/// Picks up to `count` of the candidates, best first. `group` tells what they should be spread over.
fn choose(candidates: &[&Candidate], count: usize, group: impl Fn(&Candidate) -> usize) -> Vec<usize> {
    let terms: Vec<Vec<String>> = candidates.iter().map(|candidate| candidate.terms.clone()).collect();
    let vectors = vectors(&terms);
    let best = best_score(candidates);
    let mut chosen: Vec<usize> = Vec::new();
    while chosen.len() < count {
        let next = (0..candidates.len())
            .filter(|index| !chosen.contains(index))
            .filter_map(|index| Some((index, gain(candidates, &vectors, &chosen, index, best, &group)?)))
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        let Some((index, _)) = next else { break };
        chosen.push(index);
    }
    chosen
}

fn best_score(candidates: &[&Candidate]) -> f64 {
    candidates.iter().map(|candidate| candidate.score).fold(f64::MIN_POSITIVE, f64::max)
}

fn gain(
    candidates: &[&Candidate],
    vectors: &[Vector],
    chosen: &[usize],
    index: usize,
    best: f64,
    group: &impl Fn(&Candidate) -> usize,
) -> Option<f64> {
    let candidate = candidates.get(index)?;
    let vector = vectors.get(index)?;
    let likeness = chosen.iter().filter_map(|&taken| Some(vectors.get(taken)?.similarity(vector))).fold(0.0, f64::max);
    let heard =
        chosen.iter().filter(|&&taken| candidates.get(taken).is_some_and(|taken| group(taken) == group(candidate))).count();
    let relevance = candidate.score / best;
    if likeness > SAME || relevance < WORTH {
        return None;
    }
    Some(RELEVANCE * relevance / (1.0 + 0.6 * float(heard)) - (1.0 - RELEVANCE) * likeness)
}
