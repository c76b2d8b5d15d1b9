//! Which sentences may stand in a summary, and how well they read there.
//!
//! `TextRank` knows what a document is about but not what a sentence is for: greetings, calls for help, half sentences
//! and lines of names can be very central. These rules throw out what cannot stand alone and weigh the rest.

use super::float;
use super::words::StopWords;
use crate::inline::is_address;
use crate::sentences::{BlockKind, Sentence};
use unicode_segmentation::UnicodeSegmentation;

const MIN_WORDS: usize = 7;
const MAX_WORDS: usize = 48;
const MAX_CHARACTERS: usize = 360;

/// Phrases by which a text speaks about itself or to its reader, not about its subject.
const HOUSEKEEPING: &[&str] = &[
    "welcome",
    "subscribe",
    "unsubscribe",
    "please ",
    "let us know",
    "tag us",
    "click ",
    "sign up",
    "follow us",
    "contact us",
    "submit ",
    "pull request to",
    "get involved",
    "thank you",
    "all rights reserved",
    "copyright",
    "newsletter",
    "inbox",
    "feel free",
    "reach out",
    "no calls for",
    "edited by",
    "sponsored by",
    "this section",
    "this list",
    "see the latest",
    "bitte ",
    "willkommen",
    "abmelden",
    "s'il vous plaît",
    "bienvenue",
    "por favor",
    "bienvenid",
    "viewed at",
    "hosted by",
    "the slides",
    "my slides",
    "next slide",
    "this slide",
    "on the screen",
    "share my screen",
    "can you hear",
    "the agenda is approved",
    "summarized by",
    "visit ",
    "for access",
    "more information",
    "see also",
    "take that",
    "done by",
    "no items",
];

/// Words that say that something came of it.
const OUTCOMES: &[&str] = &[
    "decide",
    "decision",
    "approve",
    "agreed",
    "consensus",
    "conclu",
    "resolv",
    "adopt",
    "reject",
    "announc",
    "released",
    "launch",
    "merged",
    "voted",
    "accept",
    "stage ",
    "budget",
    "regression",
    "improve",
    "increase",
    "decrease",
    "result",
    "recommend",
    "deadline",
    "plan to",
    "beschl",
    "beschloss",
    "entschied",
    "genehmigt",
    "einigt",
    "ergebnis",
    "vorgestellt",
    "décid",
    "approuv",
    "adopté",
    "conclu",
    "résultat",
    "decidi",
    "aprob",
    "acord",
    "acuerdo",
    "resultado",
];

/// First words that lean on a sentence before, or on the speaker.
const LEANING: &[&str] = &[
    "it",
    "this",
    "that",
    "these",
    "those",
    "they",
    "he",
    "she",
    "but",
    "and",
    "so",
    "also",
    "or",
    "then",
    "there",
    "here",
    "because",
    "however",
    "therefore",
    "such",
    "its",
    "their",
    "his",
    "her",
    "which",
    "both",
    "yes",
    "yeah",
    "no",
    "okay",
    "ok",
    "well",
    "oh",
    "right",
    "sure",
    "maybe",
    "like",
    "i",
    "i'm",
    "i've",
    "i'll",
    "i'd",
    "i’m",
    "i’ve",
    "i’ll",
    "i’d",
    "my",
    "me",
    "thanks",
    "sorry",
    "it’s",
    "it's",
    "that’s",
    "that's",
    "there’s",
    "there's",
    "you",
    "let’s",
    "let's",
    "what",
    "if",
    "er",
    "es",
    "sie",
    "das",
    "dies",
    "diese",
    "aber",
    "und",
    "also",
    "denn",
    "il",
    "elle",
    "cela",
    "mais",
    "et",
    "donc",
    "esto",
    "eso",
    "pero",
    "y",
    "e.g",
    "i.e",
    "let",
    "next",
    "above",
    "below",
    "second",
    "first",
    "another",
    "other",
];

/// Speech that carries no matter.
const FILLERS: &[&str] = &[
    "i",
    "you",
    "me",
    "my",
    "your",
    "yeah",
    "okay",
    "gonna",
    "stuff",
    "guess",
    "um",
    "uh",
    "kind",
    "basically",
    "actually",
    "sort",
    "really",
    "i'm",
    "i’m",
    "you're",
    "you’re",
    "i'd",
    "i’d",
    "i'll",
    "i’ll",
    "i've",
    "i’ve",
    "don’t",
    "don't",
    "something",
    "thing",
    "things",
    "we’re",
    "we're",
    "that’s",
    "that's",
    "it’s",
    "it's",
    "just",
    "let’s",
    "let's",
    "we’ll",
    "we'll",
    "going",
    "think",
    "want",
    "mean",
    "know",
];

/// How well a sentence stands alone, or `None` when it does not stand at all.
pub(super) fn quality(sentence: &Sentence, stop_words: StopWords) -> Option<f64> {
    let text = sentence.text.as_str();
    let spoken = without_speaker(text);
    let words: Vec<String> = spoken.unicode_words().map(str::to_lowercase).collect();
    let ended = text.trim_end_matches(['"', '”', '’', '\'', ')', '»', '“']).ends_with(['.', '!', '?', '。', '！', '？', '।']);
    let is_list_line = sentence.kind == BlockKind::Item && sentence.opens_block;
    // A quotation out of its place would read as if the report said it.
    if sentence.kind == BlockKind::Quotation
        || !(MIN_WORDS..=MAX_WORDS).contains(&words.len())
        || text.chars().count() > MAX_CHARACTERS
        || !(ended || is_list_line)
        || text.ends_with("...")
        || text.ends_with('…')
        || sentence.link_share > 0.6
        || !opens_cleanly(text)
        || !is_balanced(text)
        || text.split_whitespace().any(is_address)
        || is_mostly_signs(text)
        || !is_prose(&words, stop_words)
    {
        return None;
    }
    Some(weight(sentence, spoken, &words, ended))
}

fn weight(sentence: &Sentence, spoken: &str, words: &[String], ended: bool) -> f64 {
    let lowered = spoken.to_lowercase();
    let mut weight = 1.0;
    if !ended {
        weight *= 0.55;
    }
    if sentence.text.trim_end().ends_with('?') {
        weight *= 0.3;
    } else if sentence.text.trim_end().ends_with('!') {
        weight *= 0.5;
    }
    if lowered.starts_with("thank") || HOUSEKEEPING.iter().any(|phrase| lowered.contains(phrase)) {
        weight *= 0.08;
    }
    if leans(words) {
        weight *= if sentence.opens_block { 0.6 } else { 0.4 };
    }
    let fillers = words.iter().filter(|word| FILLERS.contains(&word.as_str())).count();
    weight *= 1.0 / (1.0 + 8.0 * float(fillers) / float(words.len().max(1)));
    if words.iter().any(|word| matches!(word.as_str(), "you" | "your" | "yourself")) {
        weight *= 0.5;
    }
    if OUTCOMES.iter().any(|stem| lowered.contains(stem)) {
        weight *= 1.3;
    }
    if words.iter().any(|word| word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')) {
        weight *= 1.1;
    }
    if sentence.opens_part {
        weight *= 1.15;
    } else if sentence.opens_block {
        weight *= 1.08;
    } else {
        weight *= 0.95;
    }
    // Very short and very long sentences read badly in a summary.
    if !(10..=34).contains(&words.len()) {
        weight *= 0.8;
    }
    weight * (1.0 - 0.5 * sentence.link_share)
}

/// `This` leans on what was said before, `This week` does not.
fn leans(words: &[String]) -> bool {
    let second = words.get(1).map(|word| word.trim_end_matches("'s").trim_end_matches("’s"));
    let names_time = matches!(
        second,
        Some("week" | "month" | "year" | "quarter" | "meeting" | "issue" | "report" | "woche" | "monat" | "jahr")
    );
    let opens = |first: &String| LEANING.contains(&first.as_str());
    second == Some("also") || (words.first().is_some_and(opens) && !names_time)
}

/// What follows a minute-taker's `TC:` or `Rob Palmer (RPR):`.
fn without_speaker(text: &str) -> &str {
    match text.split_once(": ") {
        Some((name, rest)) if name.len() <= 40 && name.split(' ').count() <= 4 && name.starts_with(char::is_uppercase) => rest,
        _ => text,
    }
}

/// A sentence opens with a capital letter, a digit or a quotation mark; scripts without capitals pass.
fn opens_cleanly(text: &str) -> bool {
    text.chars()
        .next()
        .is_some_and(|c| !c.is_lowercase() && (c.is_alphanumeric() || matches!(c, '"' | '“' | '„' | '«' | '¿' | '¡' | '‘')))
}

fn is_balanced(text: &str) -> bool {
    let count = |mark: char| text.matches(mark).count();
    [('(', ')'), ('[', ']'), ('“', '”'), ('«', '»'), ('{', '}')].iter().all(|&(open, close)| count(open) == count(close))
        || text.contains('„')
        || (count('"').is_multiple_of(2) && count('(') == count(')') && count('[') == count(']') && text.contains('“'))
}

fn is_mostly_signs(text: &str) -> bool {
    let solid = text.chars().filter(|c| !c.is_whitespace()).count();
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    letters * 10 < solid * 7
}

/// Prose has small words in it; lists of names and titles have not.
fn is_prose(words: &[String], stop_words: StopWords) -> bool {
    if !stop_words.is_known() {
        return true;
    }
    let small = words.iter().filter(|word| stop_words.contains(word)).count();
    let content = words.len() - small;
    small * 4 >= words.len() && content >= 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::outline;

    fn quality_of(text: &str) -> Option<f64> {
        let stop_words = StopWords::of("the and of to that is was for on it with as be by at this have from");
        quality(outline(text, &|| false).sentences.first().expect("there is a sentence"), stop_words)
    }

    #[test]
    fn what_cannot_stand_alone_is_out() {
        for text in [
            "Too short to be of use.",
            "Eric Huss, TC, Jakub Beránek, James Munns, Josh Stone, Mara Bos, oli.",
            "> The council is of the opinion that the budget of the town should be larger.",
            "* [Porting the backend of our site to Rust improved the use of it by 90%](https://x.test)",
            "The list of things that the committee has decided is as follows:",
            "and then the committee said that it would come back to the matter.",
            "The committee said (at the end of the meeting that it would come back to it.",
            "The notes of the meeting are at https://x.test for all of the members.",
        ] {
            assert_eq!(quality_of(text), None, "{text}");
        }
    }

    #[test]
    fn outcomes_read_better_than_greetings_and_questions() {
        let decision =
            quality_of("The council approved the budget of 140,000 dollars for the second half of the year.").expect("it stands");
        let greeting =
            quality_of("Hello and welcome to another issue of the letter about the work of the council!").expect("it stands");
        let question =
            quality_of("Is the council of the opinion that the budget for the year should be larger?").expect("it stands");
        assert!(decision > 4.0 * greeting && decision > 2.0 * question);
    }
}
