//! What came from outside, made fit to be stored and shown as evidence.

use std::{error::Error, io};

/// Longest evidence, in characters; a server may send any amount of text.
const LIMIT: usize = 1000;

/// Text from outside is data: one line, no control characters, bounded.
pub(super) fn clean(text: &str) -> String {
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

/// The last error of the chain; the outer ones only repeat its text.
pub(super) fn innermost(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

/// Whether TLS could not be agreed on: a certificate, a version, or no TLS at all at that port.
pub(super) fn is_tls(error: &dyn Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        // An I/O error hides what it wraps from `source`, and libraries wrap it more than once.
        let mut wrapped = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        while let Some(cause) = wrapped {
            if cause.is::<rustls::Error>() {
                return true;
            }
            wrapped = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        }
        source = inner.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_one_bounded_line() {
        let text = clean(&format!("550 5.1.1 no\r\nsuch\u{7} user {}", "x".repeat(5000)));
        assert!(text.starts_with("550 5.1.1 no such user x"));
        assert_eq!(text.chars().count(), LIMIT + 1);
    }

    #[test]
    fn tls_is_found_below_other_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("a request failed")]
        struct Failed(#[source] io::Error);

        let tls = || io::Error::other(rustls::Error::DecryptError);
        assert!(is_tls(&Failed(tls())));
        assert!(is_tls(&Failed(io::Error::other(tls()))));
        assert!(!is_tls(&Failed(io::Error::other("decrypt"))));
    }
}
