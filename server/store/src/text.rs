//! Text from outside, as both databases can store it: PostgreSQL's text has no room for U+0000.

use std::borrow::Cow;

/// The text with U+FFFD, the replacement character, for each U+0000. Whatever a document, a model or a server has said passes
/// through here on its way into a column, so that a character that nobody sees stops no job and no request.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::storable;

    #[test]
    fn only_nul_is_replaced() {
        assert_eq!(storable("a\0b\0"), "a\u{fffd}b\u{fffd}");
        assert_eq!(storable("ä\t\n\u{1}"), "ä\t\n\u{1}");
    }
}
