//! `TextRank`: a sentence matters when it shares words with many sentences that matter.
//!
//! Sentences are vectors of TF-IDF weights; their cosines are the edges of a graph, and the power iteration of
//! `PageRank` gives each its weight (Mihalcea and Tarau 2004, with cosine instead of counted overlap as in `LexRank`).
//! An inverted index finds the edges, so that only sentences with a word in common are ever compared.

use super::float;
use std::collections::BTreeMap;

const DAMPING: f64 = 0.85;
const ITERATIONS: usize = 30;
/// Weaker ties are noise.
const MIN_SIMILARITY: f64 = 0.08;

/// A unit vector of term weights, sorted by term.
#[derive(Debug, Clone, Default)]
pub(super) struct Vector(Vec<(usize, f64)>);

impl Vector {
    /// The cosine of the angle between two sentences, from 0 to 1.
    pub(super) fn similarity(&self, other: &Self) -> f64 {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut sum = 0.0;
        while let (Some(&&(a, x)), Some(&&(b, y))) = (left.peek(), right.peek()) {
            match a.cmp(&b) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    sum += x * y;
                    left.next();
                    right.next();
                }
            }
        }
        sum
    }

    fn weigh(counts: &BTreeMap<usize, usize>, idf: &[f64]) -> Self {
        let weight =
            |(&term, &count): (&usize, &usize)| (term, (1.0 + float(count).ln()) * idf.get(term).copied().unwrap_or(0.0));
        let mut weights: Vec<(usize, f64)> = counts.iter().map(weight).filter(|&(_, weight)| weight > 0.0).collect();
        let norm = weights.iter().map(|(_, weight)| weight * weight).sum::<f64>().sqrt();
        if norm > 0.0 {
            for (_, weight) in &mut weights {
                *weight /= norm;
            }
        }
        Self(weights)
    }
}

/// Vectors of sentences, in one space, so that they can be compared with each other.
pub(super) fn vectors(sentences: &[Vec<String>]) -> Vec<Vector> {
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let mut document_frequency: Vec<usize> = Vec::new();
    let mut counted = Vec::with_capacity(sentences.len());
    for terms in sentences {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for term in terms {
            let next = ids.len();
            let id = *ids.entry(term.as_str()).or_insert(next);
            if id == document_frequency.len() {
                document_frequency.push(0);
            }
            *counts.entry(id).or_insert(0) += 1;
        }
        for &id in counts.keys() {
            if let Some(frequency) = document_frequency.get_mut(id) {
                *frequency += 1;
            }
        }
        counted.push(counts);
    }
    let total = float(sentences.len());
    let idf: Vec<f64> = document_frequency.iter().map(|&frequency| (1.0 + total / float(frequency)).ln()).collect();
    counted.iter().map(|counts| Vector::weigh(counts, &idf)).collect()
}

/// The rank of each sentence, the greatest being 1. Asks `stop` between rows and gives `None` once it says yes.
pub(super) fn text_rank(vectors: &[Vector], stop: &dyn Fn() -> bool) -> Option<Vec<f64>> {
    let edges = edges(vectors, stop)?;
    let strength: Vec<f64> = edges.iter().map(|row| row.iter().map(|(_, weight)| weight).sum()).collect();
    let mut rank = vec![1.0; vectors.len()];
    for _ in 0..ITERATIONS {
        if stop() {
            return None;
        }
        let share: Vec<f64> =
            rank.iter().zip(&strength).map(|(rank, strength)| if *strength > 0.0 { rank / strength } else { 0.0 }).collect();
        let incoming = |row: &Vec<(usize, f64)>| {
            row.iter().map(|&(from, weight)| share.get(from).copied().unwrap_or(0.0) * weight).sum::<f64>()
        };
        rank = edges.iter().map(|row| 1.0 - DAMPING + DAMPING * incoming(row)).collect();
    }
    let best = rank.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    Some(rank.into_iter().map(|rank| rank / best).collect())
}

fn edges(vectors: &[Vector], stop: &dyn Fn() -> bool) -> Option<Vec<Vec<(usize, f64)>>> {
    let mut postings: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
    for (sentence, vector) in vectors.iter().enumerate() {
        for &(term, weight) in &vector.0 {
            postings.entry(term).or_default().push((sentence, weight));
        }
    }
    let mut similarity = vec![0.0; vectors.len()];
    let mut edges = Vec::with_capacity(vectors.len());
    for (sentence, vector) in vectors.iter().enumerate() {
        if stop() {
            return None;
        }
        similarity.fill(0.0);
        for &(term, weight) in &vector.0 {
            for &(other, other_weight) in postings.get(&term).map(Vec::as_slice).unwrap_or_default() {
                if let Some(sum) = similarity.get_mut(other) {
                    *sum += weight * other_weight;
                }
            }
        }
        let ties = similarity.iter().copied().enumerate();
        edges.push(ties.filter(|&(other, tie)| other != sentence && tie >= MIN_SIMILARITY).collect());
    }
    Some(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(texts: &[&str]) -> Vec<Vec<String>> {
        texts.iter().map(|text| text.split(' ').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn the_sentence_that_ties_the_others_together_wins() {
        let vectors =
            vectors(&sentences(&["budget grows", "budget staff travel", "staff leaves", "travel costs", "weather fine"]));
        let ranks = text_rank(&vectors, &|| false).expect("nothing stops it");
        assert!((ranks[1] - 1.0).abs() < 1e-9, "{ranks:?}");
        assert!(ranks[4] < ranks[0]);
    }

    #[test]
    fn similarity_is_a_cosine() {
        let vectors = vectors(&sentences(&["a b c", "a b c", "d e"]));
        assert!((vectors[0].similarity(&vectors[1]) - 1.0).abs() < 1e-9);
        assert!(vectors[0].similarity(&vectors[2]).abs() < 1e-9);
    }

    #[test]
    fn a_stop_ends_the_ranking() {
        assert!(text_rank(&vectors(&sentences(&["a b", "b c"])), &|| true).is_none());
    }
}
