//! Words of a sentence as terms that can be compared.
//!
//! Stop words come from one language's list, the one that explains most of the document, because the union of all
//! lists would throw away content words (`die`, `war`, `son`). Terms are cut to a stem of a few letters: crude, the
//! same for every language, and enough to see that `decision` and `decisions` are about the same thing.

use std::collections::HashSet;
use std::sync::LazyLock;
use unicode_segmentation::UnicodeSegmentation;

/// Letters of a word that count as its stem.
const STEM_LETTERS: usize = 7;
/// Words read to find a document's language.
const LANGUAGE_SAMPLE: usize = 3_000;

static LANGUAGES: LazyLock<Vec<HashSet<&'static str>>> = LazyLock::new(|| {
    ["en", "de", "fr", "es", "it", "nl", "pt"]
        .into_iter()
        .filter_map(stop_words::lookup)
        .map(|list| list.iter().copied().collect())
        .collect()
});

static NO_STOP_WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(HashSet::new);

/// The stop words of a document's language.
#[derive(Debug, Clone, Copy)]
pub(super) struct StopWords {
    list: &'static HashSet<&'static str>,
}

impl StopWords {
    /// Finds the language that explains most of `text`; none when no list fits, as for Korean.
    pub(super) fn of(text: &str) -> Self {
        let words: Vec<String> = text.unicode_words().take(LANGUAGE_SAMPLE).map(str::to_lowercase).collect();
        let hits = |list: &HashSet<&str>| words.iter().filter(|word| list.contains(word.as_str())).count();
        // Density, not hits alone: the lists differ in length, and the first of equals wins.
        let best = LANGUAGES.iter().map(|list| (hits(list), list)).reduce(|best, next| if next.0 > best.0 { next } else { best });
        let list = best.filter(|(hits, _)| hits * 8 >= words.len()).map_or(&*NO_STOP_WORDS, |(_, list)| list);
        Self { list }
    }

    /// Whether a language was found, so that the share of stop words says something.
    pub(super) fn is_known(self) -> bool {
        !self.list.is_empty()
    }

    pub(super) fn contains(self, lowercase: &str) -> bool {
        self.list.contains(lowercase)
    }
}

/// The stems of the content words of `text`, in order.
pub(super) fn terms(text: &str, stop_words: StopWords) -> Vec<String> {
    text.unicode_words()
        .map(str::to_lowercase)
        .filter(|word| !stop_words.contains(word) && word.chars().any(char::is_alphabetic))
        .filter(|word| word.chars().count() > 1 || !word.is_ascii())
        .map(|word| stem(&word))
        .collect()
}

fn stem(word: &str) -> String {
    let word = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let singular = word.strip_suffix('s').filter(|stem| stem.chars().count() >= 4 && !stem.ends_with('s')).unwrap_or(word);
    singular.chars().take(STEM_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_words_become_stems() {
        let stop_words =
            StopWords::of("The committee has decided that it will be done by the end of the year, and they said so.");
        assert!(stop_words.is_known());
        assert_eq!(terms("The committees and the committee's decisions", stop_words), ["committ", "committ", "decisio"]);
    }

    #[test]
    fn each_language_has_its_list() {
        let german =
            StopWords::of("Der Ausschuss hat beschlossen, dass die Sitzung im Juni nicht mehr in dem Haus ist, und das war es.");
        assert!(german.contains("der") && german.contains("nicht"));
        assert!(!StopWords::of("회의 결과 보고서").is_known());
    }
}
