//! Inline Markdown to plain text, with the way back to the original bytes.
//!
//! Summaries show plain text, yet a citation must name bytes of the source. So every character that survives remembers
//! where it came from. The parser is tolerant: it is no Markdown renderer, and text that only looks like markup is kept.

use std::ops::Range;

/// A character of the plain text.
#[derive(Debug, Clone, Copy)]
struct Glyph {
    /// Its byte in the plain text.
    at: usize,
    /// Its bytes in the source.
    start: usize,
    end: usize,
    /// Whether it is the visible text of a link.
    link: bool,
}

/// Plain text of one block of a source.
#[derive(Debug, Default)]
pub(super) struct PlainText {
    text: String,
    glyphs: Vec<Glyph>,
}

impl PlainText {
    /// Cleans the given line ranges of `source`, joined by single spaces.
    pub(super) fn of_lines(source: &str, lines: &[Range<usize>]) -> Self {
        let mut chars = Vec::new();
        for line in lines {
            let Some(slice) = source.get(line.clone()) else {
                continue;
            };
            if let Some(&(_, end, _)) = chars.last() {
                chars.push((end, end, ' '));
            }
            chars.extend(slice.char_indices().map(|(i, c)| (line.start + i, line.start + i + c.len_utf8(), c)));
        }
        let mut cleaner = Cleaner { chars: &chars, out: Self::default() };
        cleaner.run(0..chars.len(), false);
        cleaner.out
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The source bytes behind `range` of the plain text.
    pub(super) fn origin(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let glyphs = self.glyphs_in(range);
        Some(glyphs.first()?.start..glyphs.last()?.end)
    }

    /// How much of `range` is the visible text of links, from 0 to 1.
    pub(super) fn link_share(&self, range: &Range<usize>) -> f64 {
        let glyphs = self.glyphs_in(range);
        let links = glyphs.iter().filter(|glyph| glyph.link).count();
        super::extractive::float(links) / super::extractive::float(glyphs.len().max(1))
    }

    fn glyphs_in(&self, range: &Range<usize>) -> &[Glyph] {
        let first = self.glyphs.partition_point(|glyph| glyph.at < range.start);
        let last = self.glyphs.partition_point(|glyph| glyph.at < range.end);
        self.glyphs.get(first..last).unwrap_or_default()
    }
}

/// Text that came from a model or a name, as plain text: no markup, no address, nothing invisible that reorders text.
pub(super) fn plain(text: &str) -> String {
    let lines: Vec<Range<usize>> = std::iter::once(0..text.len()).collect();
    without_addresses(PlainText::of_lines(text, &lines).as_str())
}

/// Whether a word is a web or mail address that a program might turn into a link.
pub(super) fn is_address(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '[', '<', '"', '\'']).to_lowercase();
    word.contains("://") || ["www.", "mailto:", "javascript:", "data:"].iter().any(|start| word.starts_with(start))
}

fn without_addresses(text: &str) -> String {
    text.split_whitespace().filter(|word| !is_address(word)).collect::<Vec<_>>().join(" ")
}

/// Controls, and marks that change the direction of text, have no place in a statement.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{AD}')
}

struct Cleaner<'a> {
    chars: &'a [(usize, usize, char)],
    out: PlainText,
}

impl Cleaner<'_> {
    fn at(&self, i: usize) -> Option<char> {
        self.chars.get(i).map(|&(_, _, c)| c)
    }

    fn before(&self, i: usize) -> Option<char> {
        i.checked_sub(1).and_then(|before| self.at(before))
    }

    fn emit(&mut self, i: usize, c: char, link: bool) {
        let Some(&(start, end, _)) = self.chars.get(i) else {
            return;
        };
        let c = if c.is_whitespace() { ' ' } else { c };
        if is_invisible(c) || (c == ' ' && (self.out.text.is_empty() || self.out.text.ends_with(' '))) {
            return;
        }
        self.out.glyphs.push(Glyph { at: self.out.text.len(), start, end, link });
        self.out.text.push(c);
    }

    fn run(&mut self, range: Range<usize>, link: bool) {
        let mut i = range.start;
        while i < range.end {
            let Some(c) = self.at(i) else { break };
            i = match c {
                '\\' if self.at(i + 1).is_some_and(|next| next.is_ascii_punctuation()) => {
                    self.emit(i + 1, self.at(i + 1).unwrap_or(c), link);
                    i + 2
                }
                '!' if self.at(i + 1) == Some('[') => self.image(i, range.end, link),
                '[' => self.link(i, range.end, link),
                '<' => self.angle(i, range.end, link),
                '`' => self.code(i, range.end, link),
                '&' => self.entity(i, range.end, link),
                '*' | '_' | '~' if self.is_emphasis(i, c) => i + 1,
                _ => {
                    self.emit(i, c, link);
                    i + 1
                }
            };
        }
    }

    /// Emphasis marks touch a word on at least one side; `2 * 3`, `2*3` and `snake_case` are text.
    fn is_emphasis(&self, i: usize, mark: char) -> bool {
        let (before, after) = (self.before(i), self.at(i + 1));
        let solid = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
        let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        match mark {
            '~' => before == Some('~') || after == Some('~'),
            '*' => {
                let digits = before.is_some_and(|c| c.is_ascii_digit()) && after.is_some_and(|c| c.is_ascii_digit());
                (solid(before) || solid(after)) && !digits
            }
            _ => (solid(before) || solid(after)) && !(word(before) && word(after)),
        }
    }

    /// The matching closing bracket of the opening one at `open`.
    fn closing(&self, open: usize, end: usize, (opening, closing): (char, char)) -> Option<usize> {
        let mut depth = 0_usize;
        let mut i = open;
        while i < end {
            match self.at(i)? {
                '\\' => i += 1,
                c if c == opening => depth += 1,
                c if c == closing => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(i);
                    }
                }
                _ => {}
            }
            i += 1;
        }
        None
    }

    /// The end of the target that follows a link text: `(address)` or `[reference]`.
    fn target_end(&self, after_text: usize, end: usize) -> Option<usize> {
        match self.at(after_text) {
            Some('(') => self.closing(after_text, end, ('(', ')')),
            Some('[') => self.closing(after_text, end, ('[', ']')),
            _ => None,
        }
        .map(|close| close + 1)
    }

    fn image(&mut self, i: usize, end: usize, link: bool) -> usize {
        let after = self.closing(i + 1, end, ('[', ']')).and_then(|close| self.target_end(close + 1, end));
        after.unwrap_or_else(|| {
            self.emit(i, '!', link);
            i + 1
        })
    }

    fn link(&mut self, i: usize, end: usize, link: bool) -> usize {
        if let Some(close) = self.closing(i, end, ('[', ']'))
            && let Some(after) = self.target_end(close + 1, end)
        {
            self.run(i + 1..close, true);
            return after;
        }
        self.emit(i, '[', link);
        i + 1
    }

    /// Tags, comments and `<addresses>` vanish; `a < b` stays.
    fn angle(&mut self, i: usize, end: usize, link: bool) -> usize {
        let starts_tag = self.at(i + 1).is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
        let close = (i + 1..end).find(|&at| self.at(at) == Some('>'));
        if let (true, Some(close)) = (starts_tag, close) {
            return close + 1;
        }
        self.emit(i, '<', link);
        i + 1
    }

    fn code(&mut self, i: usize, end: usize, link: bool) -> usize {
        let run = (i..end).take_while(|&at| self.at(at) == Some('`')).count();
        let mut at = i + run;
        while at < end {
            let ticks = (at..end).take_while(|&tick| self.at(tick) == Some('`')).count();
            if ticks == run {
                for inner in i + run..at {
                    self.emit(inner, self.at(inner).unwrap_or(' '), link);
                }
                return at + run;
            }
            at += ticks.max(1);
        }
        i + run
    }

    fn entity(&mut self, i: usize, end: usize, link: bool) -> usize {
        let name: String = (i + 1..end.min(i + 10)).map_while(|at| self.at(at)).take_while(|&c| c != ';').collect();
        let after = i + 1 + name.chars().count();
        if self.at(after) == Some(';')
            && let Some(c) = named_character(&name)
        {
            self.emit(i, c, link);
            if let (Some(glyph), Some(&(_, source_end, _))) = (self.out.glyphs.last_mut(), self.chars.get(after)) {
                glyph.end = source_end;
            }
            return after + 1;
        }
        self.emit(i, '&', link);
        i + 1
    }
}

fn named_character(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        let whole: Vec<Range<usize>> = std::iter::once(0..text.len()).collect();
        PlainText::of_lines(text, &whole).as_str().to_owned()
    }

    #[test]
    fn markup_goes_and_words_stay() {
        assert_eq!(
            clean("This is [rustion](https://x.test/a_(b)), a **fast** `server_name`."),
            "This is rustion, a fast server_name."
        );
        assert_eq!(clean("![logo](x.png) See [the *guide*][g] &amp; 2 * 3 = 2*3"), "See the guide & 2 * 3 = 2*3");
        assert_eq!(
            clean("a < b, <b>bold</b>, <https://x.test>, snake_case_name, _soft_"),
            "a < b, bold, , snake_case_name, soft"
        );
        assert_eq!(clean("An unclosed [bracket and `tick"), "An unclosed [bracket and tick");
        assert_eq!(clean(r"2020\. \*not emphasis\*"), "2020. *not emphasis*");
    }

    #[test]
    fn every_character_knows_its_origin() {
        let source = "One [two](x) thrée &amp; four.";
        let lines: Vec<Range<usize>> = std::iter::once(0..source.len()).collect();
        let plain = PlainText::of_lines(source, &lines);
        assert_eq!(plain.as_str(), "One two thrée & four.");
        let at = plain.as_str().find("two").expect("the word is there");
        let origin = plain.origin(&(at..at + "two thrée &".len())).expect("it has an origin");
        assert_eq!(&source[origin], "two](x) thrée &amp;");
        assert!(plain.link_share(&(at..at + 3)) > 0.99);
        assert!(plain.link_share(&(0..3)) < 0.01);
    }

    #[test]
    fn text_of_a_model_keeps_no_link_or_markup() {
        assert_eq!(plain("See [this](javascript:alert(1)) at https://evil.test/x now"), "See this at now");
        assert_eq!(plain("<img src=x onerror=alert(1)>Costs **rose**"), "Costs rose");
        assert_eq!(plain("abc\u{202E}def\u{0}"), "abcdef");
    }
}
