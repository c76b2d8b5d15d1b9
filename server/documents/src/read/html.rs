//! Web pages: the text that a reader sees, in blocks, without scripts, styles and what is plainly hidden.
//!
//! Only the tokenizer of html5ever is used. It reads a page as browsers do and never fails, and without a tree no
//! nesting, however deep, costs memory or stack.

use std::cell::RefCell;

use encoding_rs::Encoding;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use super::date::{self, DateRule, When};
use super::draft::Draft;

/// Elements whose content is no text of the page.
const DROPPED: [&str; 11] =
    ["script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select", "noembed", "noframes"];
/// Elements that stand apart from what is before and after them.
const BLOCKS: [&str; 27] = [
    "p",
    "div",
    "section",
    "article",
    "main",
    "header",
    "footer",
    "nav",
    "aside",
    "blockquote",
    "pre",
    "ul",
    "ol",
    "dl",
    "table",
    "form",
    "fieldset",
    "figure",
    "figcaption",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "body",
];
/// Elements that begin a line.
const LINES: [&str; 7] = ["br", "li", "tr", "dt", "dd", "option", "caption"];
/// Elements that never have an end tag, so hiding them hides nothing else.
const VOID: [&str; 10] = ["br", "hr", "img", "input", "meta", "link", "wbr", "area", "col", "source"];
/// Elements that a sibling of the same name ends (HTML, 13.1.2.4), so that hiding one does not hide the next.
const ENDED_BY_SIBLING: [&str; 8] = ["p", "li", "tr", "td", "th", "dt", "dd", "option"];

pub(super) fn read(text: &str, draft: &mut Draft) {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(text));
    let tokenizer = Tokenizer::new(Page::default(), TokenizerOpts::default());
    // The tokenizer pauses only for scripts, and this sink never asks it to.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    let page = tokenizer.sink.0.into_inner();
    draft.set_title(&page.title);
    draft.set_date(page.meta_date.or(page.time_date), DateRule::Metadata);
    draft.push_block(&page.text);
}

/// The encoding that a page declares in its first bytes (`<meta charset=…>`).
pub(super) fn declared_encoding(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(2048)].to_ascii_lowercase();
    let label = b"charset=";
    let start = head.windows(label.len()).position(|window| window == label)? + label.len();
    let value = head[start..].trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let end = value.iter().position(|byte| b"\"'>; /".contains(byte))?;
    Encoding::for_label(&value[..end])
}

/// What the tokens have built so far. The tokenizer lends its sink immutably.
#[derive(Default)]
struct Page(RefCell<State>);

#[derive(Default)]
struct State {
    text: String,
    title: String,
    meta_date: Option<When>,
    time_date: Option<When>,
    in_title: bool,
    preformatted: usize,
    /// The element whose content is left out, and how many of the same name are open.
    dropping: Option<(String, usize)>,
    /// Line ends owed before the next word: 0, 1 or 2.
    breaks: usize,
    space: bool,
    /// What goes before the next word, such as the mark of a heading.
    mark: String,
}

impl TokenSink for Page {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) => state.text(&text),
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return state.start(&tag),
            Token::TagToken(tag) => state.end(&tag),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

impl State {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        self.begin(name, tag);
        match name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => TokenSinkResult::RawData(RawKind::Rawtext),
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }

    fn begin(&mut self, name: &str, tag: &Tag) {
        if let Some((dropped, open)) = &mut self.dropping {
            if dropped != name || tag.self_closing {
                return;
            }
            if !ENDED_BY_SIBLING.contains(&name) {
                *open += 1;
                return;
            }
            self.dropping = None;
        }
        match name {
            "title" => self.in_title = true,
            "meta" => self.meta(tag),
            "time" if self.time_date.is_none() => {
                self.time_date = attribute(tag, "datetime").and_then(date::parse);
            }
            _ => {}
        }
        if (DROPPED.contains(&name) && !tag.self_closing) || (is_hidden(tag) && !VOID.contains(&name)) {
            self.dropping = Some((name.to_owned(), 1));
            return;
        }
        self.lay_out(name);
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.mark = format!("{} ", "#".repeat(usize::from(name.as_bytes()[1] - b'0')));
            }
            "li" => "- ".clone_into(&mut self.mark),
            "td" | "th" if self.breaks == 0 && !self.text.is_empty() => {
                " | ".clone_into(&mut self.mark);
            }
            "pre" => self.preformatted += 1,
            _ => {}
        }
    }

    fn end(&mut self, tag: &Tag) {
        let name: &str = &tag.name;
        if let Some((dropped, open)) = &mut self.dropping {
            if dropped == name {
                *open -= 1;
                if *open == 0 {
                    self.dropping = None;
                }
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "pre" => self.preformatted = self.preformatted.saturating_sub(1),
            _ => {}
        }
        self.lay_out(name);
    }

    fn lay_out(&mut self, name: &str) {
        if BLOCKS.contains(&name) {
            self.breaks = 2;
        } else if LINES.contains(&name) {
            self.breaks = self.breaks.max(1);
        } else if matches!(name, "td" | "th") {
            self.space = true;
        }
    }

    fn meta(&mut self, tag: &Tag) {
        let key = attribute(tag, "name").or_else(|| attribute(tag, "property")).or_else(|| attribute(tag, "itemprop"));
        let key = key.unwrap_or_default().to_ascii_lowercase();
        let dates = ["date", "dc.date", "dcterms.date", "dcterms.created", "article:published_time", "datepublished"];
        if self.meta_date.is_none() && dates.contains(&key.as_str()) {
            self.meta_date = attribute(tag, "content").and_then(date::parse);
        }
    }

    fn text(&mut self, text: &str) {
        if self.dropping.is_some() {
            return;
        }
        if self.in_title {
            self.title.push_str(text);
            return;
        }
        if self.preformatted > 0 {
            if self.breaks > 0 || !self.mark.is_empty() {
                self.begin_word();
            }
            self.text.push_str(text);
            return;
        }
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                self.begin_word();
                self.text.push_str(word);
            }
            if word.len() < piece.len() {
                self.space = true;
            }
        }
    }

    fn begin_word(&mut self) {
        if self.text.is_empty() {
            self.breaks = 0;
        }
        if self.breaks > 0 {
            self.text.push_str(if self.breaks > 1 { "\n\n" } else { "\n" });
        } else if self.space && self.mark.is_empty() && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(&self.mark);
        self.mark.clear();
        self.breaks = 0;
        self.space = false;
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a str> {
    tag.attrs.iter().find(|attribute| &*attribute.name.local == name).map(|attribute| &*attribute.value)
}

/// Whether the element itself says that it is not shown. Style sheets are not followed.
fn is_hidden(tag: &Tag) -> bool {
    let style = attribute(tag, "style").unwrap_or_default();
    let style: String = style.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    attribute(tag, "hidden").is_some() || style.contains("display:none") || style.contains("visibility:hidden")
}

#[cfg(test)]
mod tests {
    use super::super::{Extraction, Format};
    use super::*;

    fn page(html: &str) -> Extraction {
        let mut draft = Draft::new(100_000);
        read(html, &mut draft);
        draft.finish(Format::Html, Ok(()))
    }

    #[test]
    fn blocks_are_set_apart_and_the_text_of_links_is_kept() {
        let text = page(
            "<html><head><title>Our\n minutes</title></head><body><h2>May</h2><p>We <b>met</b> at <a href=x>the\n office</a>.\
             <p>Two<br>lines<ul><li>One<li>Two</ul><table><tr><th>A<th>B<tr><td>1</td> <td>2</td></table>End",
        );
        assert_eq!(text.title.as_deref(), Some("Our minutes"));
        assert_eq!(text.text, "## May\n\nWe met at the office.\n\nTwo\nlines\n\n- One\n- Two\n\nA | B\n1 | 2\n\nEnd");
    }

    #[test]
    fn scripts_styles_and_hidden_parts_are_left_out() {
        let text = page(
            "<script>if (a < b) { alert('<p>no</p>') }</script><style>p { color: red }</style>Seen\
             <div hidden>no<div>no</div>no</div><p style='Display : none'>no<p>Also<span hidden>no</span> seen\
             <img hidden src=x> &lt;b&gt; &amp; &eacute;<!-- no --><noscript>no</noscript><template><p>no</template>",
        );
        assert_eq!(text.text, "Seen\n\nAlso seen <b> & é");
    }

    #[test]
    fn the_date_comes_from_the_head_before_it_comes_from_the_text() {
        let html = "<meta property='article:published_time' content='2026-06-03T10:00:00Z'><time datetime=2026-01-01>";
        assert_eq!(page(html).date, date::parse("2026-06-03T10:00:00Z").map(|when| (when, DateRule::Metadata)));
        assert_eq!(
            page("<time datetime=2026-06-03>June</time>").date,
            date::day(2026, 6, 3).map(|when| (when, DateRule::Metadata))
        );
    }

    #[test]
    fn preformatted_text_keeps_its_lines_and_deep_nesting_costs_nothing() {
        assert_eq!(page("A<pre>x\n  y</pre>B").text, "A\n\nx\n  y\n\nB");
        assert_eq!(page(&format!("{}deep", "<div>".repeat(200_000))).text, "deep");
    }

    #[test]
    fn the_encoding_is_the_one_that_the_page_declares() {
        assert_eq!(declared_encoding(b"<meta charset=\"iso-8859-2\">"), Some(encoding_rs::ISO_8859_2));
        assert_eq!(declared_encoding(b"<meta content='text/html; charset=koi8-r'>"), Some(encoding_rs::KOI8_R));
        assert_eq!(declared_encoding(b"<p>charset="), None);
    }
}
