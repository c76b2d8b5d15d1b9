//! The report as Markdown (`CommonMark` with tables), to download and keep.

use super::{DOCUMENT_COLUMNS, NO_SOURCE, NOT_FOUND, PROVENANCE, ReportContent, passage_address};
use summarize::Statement;

/// Renders the report. `base` is the report's address, below which its documents are shown.
pub fn render_markdown(content: &ReportContent, base: &str) -> String {
    let mut blocks = vec![format!("# {}", escape(&content.title))];
    for section in &content.draft.sections {
        blocks.push(format!("## {}", escape(&section.heading)));
        let items: Vec<String> = section.statements.iter().map(|statement| item(statement, base)).collect();
        blocks.push(items.join("\n"));
    }
    blocks.push(format!("## {PROVENANCE}"));
    let lines = content.provenance().into_iter().map(|(name, value)| format!("- {}: {}", escape(&name), escape(&value)));
    blocks.push(lines.collect::<Vec<_>>().join("\n"));
    if !content.draft.notes.is_empty() {
        blocks.push("### Notes".to_owned());
        blocks.push(content.draft.notes.iter().map(|note| format!("- {}", escape(note))).collect::<Vec<_>>().join("\n"));
    }
    blocks.push("### Documents".to_owned());
    let mut rows = vec![row(&DOCUMENT_COLUMNS.map(str::to_owned)), row(&DOCUMENT_COLUMNS.map(|_| "---".to_owned()))];
    rows.extend(content.documents.iter().map(|document| row(&document.cells().map(|cell| escape(&cell)))));
    blocks.push(rows.join("\n"));
    blocks.join("\n\n") + "\n"
}

fn item(statement: &Statement, base: &str) -> String {
    let mut parts = vec![format!("- {}", escape(&statement.text))];
    parts.extend(statement.citations.iter().map(|citation| {
        let address = passage_address(base, citation).replace(['<', '>', '\n', '\\'], "");
        format!("[\\[{}\\]](<{address}>)", citation.document)
    }));
    if statement.citations.is_empty() {
        parts.push(format!("({NO_SOURCE})"));
    }
    if !statement.unsupported.is_empty() {
        parts.push(format!("({NOT_FOUND}: {})", escape(&statement.unsupported.join("; "))));
    }
    parts.join(" ")
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Text as Markdown that shows exactly that text, on one line: no markup, no HTML, no address that becomes a link.
fn escape(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::with_capacity(text.len() + 8);
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let mut chars = text.chars().enumerate().peekable();
    while let Some((index, c)) = chars.next() {
        let next = chars.peek().map(|&(_, next)| next);
        let is_markup = matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '&' | '|' | '~' | '$' | '^');
        let opens_block = index == 0 && matches!(c, '#' | '-' | '+' | '=');
        let numbers_list = index == digits && digits > 0 && matches!(c, '.' | ')');
        let is_address = (c == ':' && next == Some('/')) || (c == '.' && ends_with_www(&escaped)) || c == '@';
        if is_markup || opens_block || numbers_list || is_address {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// GitHub's Markdown makes a link of `www.` and what follows.
fn ends_with_www(text: &str) -> bool {
    text.len().checked_sub(3).and_then(|at| text.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case("www"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_shows_itself() {
        for text in [
            "# no heading",
            "1. no list",
            "2) nor here",
            "- nor here",
            "a *b* _c_ `d` ~~e~~",
            "<script>alert(1)</script>",
            "![i](x) [l](y)",
            "a | b",
            "back\\slash",
            "\\*not emphasis\\* \\[x](y)",
            "&lt; &amp;",
            "https://x.test/a www.x.test",
            "12",
            "=",
            "+ 3",
            "a_b_c",
            "Fine, 90 % of it (all)!",
        ] {
            let html = crate::report::tests::html_of(&escape(text));
            let shown = html
                .replace("<p>", "")
                .replace("</p>", "")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&amp;", "&");
            assert_eq!(shown.trim(), text);
        }
    }
}
