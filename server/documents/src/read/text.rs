//! Plain text and Markdown, and what all text has in common: its encoding and its tidy form.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::draft::Draft;
use super::{Format, front_matter};

/// A title is cut after this many characters.
const TITLE_CHARS: usize = 200;

/// Decodes text: by its byte order mark, else as UTF-16 or UTF-8 if it is that, else as `declared`, else by a guess.
pub(super) fn decode<'a>(bytes: &'a [u8], declared: Option<&'static Encoding>) -> Cow<'a, str> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[mark..]).0;
    }
    // Asked before UTF-8, because the zeros of UTF-16 are valid there.
    if let Some(encoding) = utf_16_without_mark(bytes) {
        return encoding.decode_without_bom_handling(bytes).0;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let encoding = declared.unwrap_or_else(|| guess(bytes));
    encoding.decode_without_bom_handling(bytes).0
}

fn guess(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    detector.guess(None, Utf8Detection::Allow)
}

/// UTF-16 of mostly Latin text shows itself by a zero in every second byte.
pub(super) fn utf_16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(4096)];
    let zeros = |offset| head.iter().skip(offset).step_by(2).filter(|byte| **byte == 0).count();
    let half = head.len() / 2;
    match (zeros(0), zeros(1)) {
        _ if half < 8 => None,
        (even, odd) if odd * 10 > half * 7 && even * 10 < half => Some(UTF_16LE),
        (even, odd) if even * 10 > half * 7 && odd * 10 < half => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether bytes are text in some encoding, rather than a program's own data.
pub(super) fn looks_like_text(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(64 << 10)];
    if Encoding::for_bom(head).is_some_and(|(encoding, _)| encoding != UTF_8) || utf_16_without_mark(head).is_some() {
        return true;
    }
    let control = head.iter().filter(|byte| byte.is_ascii_control() && !b"\t\n\r\x0c\x1b".contains(byte)).count();
    let zeros = head.split(|byte| *byte == 0).count() - 1;
    // A few stray ones, such as the colours of a terminal, make no text a program's data.
    zeros * 1000 <= head.len() && control.saturating_sub(4) * 50 <= head.len()
}

/// Reads plain text or Markdown as it stands.
pub(super) fn read(text: &str, format: Format, draft: &mut Draft) {
    let front = front_matter::read(text);
    draft.date = front.date;
    if let Some(title) = front.title {
        draft.set_title(&title);
    }
    if format == Format::Markdown {
        let heading = text.lines().take(200).find_map(|line| line.strip_prefix("# "));
        draft.set_title(heading.unwrap_or_default());
    }
    draft.push(text);
}

/// The tidy form of text that [`super::Extraction::text`] promises.
pub(super) fn normalise(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut blank = 0_usize;
    let mut line = String::new();
    // A form feed ends a page, which is a line end at least.
    for raw in text.split(['\n', '\u{0c}', '\u{0b}', '\u{2028}', '\u{2029}']) {
        for (index, part) in raw.strip_suffix('\r').unwrap_or(raw).split('\r').enumerate() {
            if index > 0 {
                finish_line(&mut tidy, &mut line, &mut blank);
            }
            line.extend(part.chars().filter(|c| *c == '\t' || !is_noise(*c)));
        }
        finish_line(&mut tidy, &mut line, &mut blank);
    }
    tidy.truncate(tidy.trim_end().len());
    tidy
}

fn finish_line(tidy: &mut String, line: &mut String, blank: &mut usize) {
    let text = line.trim_end();
    if text.is_empty() {
        *blank += 1;
    } else {
        if !tidy.is_empty() {
            tidy.push_str(if *blank > 0 { "\n\n" } else { "\n" });
        }
        tidy.push_str(text);
        *blank = 0;
    }
    line.clear();
}

/// Control characters, and invisible ones that can make text read differently from what it is (bidirectional overrides).
fn is_noise(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{feff}' | '\u{ad}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}')
}

/// A text in one line, without noise and of bounded length; `None` if nothing is left.
pub(super) fn one_line(text: &str) -> Option<String> {
    let words: Vec<String> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .map(|word| word.chars().filter(|c| !is_noise(*c)).collect::<String>())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(TITLE_CHARS) {
        _ if line.is_empty() => None,
        Some((end, _)) => Some(format!("{}…", line[..end].trim_end())),
        None => Some(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_tidied_without_losing_words() {
        assert_eq!(normalise("\u{feff}a  \r\nb\rc\0d\u{7}\n\n\n\ne\tf \u{202e}g\n\n"), "a\nb\ncd\n\ne\tf g");
        assert_eq!(normalise(" \n\n"), "");
        assert_eq!(normalise("one\u{0c}two"), "one\ntwo");
        assert_eq!(normalise("a\r\r\nb"), "a\n\nb");
    }

    #[test]
    fn encodings_are_found_by_mark_by_validity_or_by_guess() {
        assert_eq!(decode(b"\xef\xbb\xbfK\xc3\xbcche", None), "Küche");
        assert_eq!(decode(b"\xff\xfeK\0\xfc\0", None), "Kü");
        assert_eq!(decode(b"\xfe\xff\0K\0\xfc", None), "Kü");
        assert_eq!(decode("Küche".as_bytes(), None), "Küche");
        let latin = b"Die K\xfcche schlie\xdft im M\xe4rz f\xfcr \xdcbungen.";
        assert_eq!(decode(latin, None), "Die Küche schließt im März für Übungen.");
        let bare: Vec<u8> = "Gruß an alle, K".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decode(&bare, None), "Gruß an alle, K");
    }

    #[test]
    fn a_title_is_one_bounded_line() {
        assert_eq!(one_line(" a\n b\0c "), Some("a b c".to_owned()));
        assert_eq!(one_line("\u{202e} \t"), None);
        assert_eq!(one_line(&"x".repeat(500)).unwrap().chars().count(), TITLE_CHARS + 1);
    }
}
