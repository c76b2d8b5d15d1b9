//! Text from outside, made fit to be kept as evidence and shown.

/// Longest text kept, in characters; a server may send 100 kB.
pub(super) const LIMIT: usize = 1000;

/// One line without control characters, bounded.
pub(super) fn one_line(text: &str) -> String {
    let mut words = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if !word.is_empty() {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(word);
        }
    }
    match words.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
