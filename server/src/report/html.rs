//! The report as an HTML fragment, for the report's page. Its headings begin at `h2`: the title belongs to the page.

use super::{DOCUMENT_COLUMNS, NO_SOURCE, NOT_FOUND, PROVENANCE, ReportContent, passage_address};
use ammonia::{Builder, UrlRelative};
use domain::text::escaped;
use std::collections::{HashMap, HashSet};
use summarize::{Citation, Statement};

/// Renders the report. `base` is the report's address, below which its documents are shown; it begins with `/`.
pub fn render_html(content: &ReportContent, base: &str) -> String {
    let mut html = String::new();
    for section in &content.draft.sections {
        html.extend(["<h2>", &escaped(&section.heading), "</h2>\n<ul class=\"statements\">\n"]);
        html.extend(section.statements.iter().map(|statement| item(content, statement, base)));
        html.push_str("</ul>\n");
    }
    html.extend(["<section class=\"provenance\">\n<h2>", PROVENANCE, "</h2>\n<dl>\n"]);
    for (name, value) in content.provenance() {
        html.extend(["<dt>", &escaped(&name), "</dt><dd>", &escaped(&value), "</dd>\n"]);
    }
    html.push_str("</dl>\n");
    if !content.draft.notes.is_empty() {
        html.push_str("<h3>Notes</h3>\n<ul class=\"notes\">\n");
        for note in &content.draft.notes {
            html.extend(["<li>", &escaped(note), "</li>\n"]);
        }
        html.push_str("</ul>\n");
    }
    html.push_str(&documents(content));
    html.push_str("</section>\n");
    sanitizer().clean(&html).to_string()
}

fn item(content: &ReportContent, statement: &Statement, base: &str) -> String {
    let text = marked(&statement.text, &statement.unsupported);
    if statement.citations.is_empty() {
        return format!("<li>{text} <span class=\"no-source\">({NO_SOURCE})</span></li>\n");
    }
    let link = |citation: &Citation| {
        let (address, number) = (escaped(&passage_address(base, citation)), citation.document);
        let name = escaped(content.document_name(number));
        format!("<a href=\"{address}\" title=\"{name}\" aria-label=\"Source {number}: {name}\">[{number}]</a>")
    };
    let links: Vec<String> = statement.citations.iter().map(link).collect();
    format!("<li>{text} <sup class=\"citations\">{}</sup></li>\n", links.join(" "))
}

/// The text with each unsupported figure marked where it stands. One that cannot be found there is named at the end, so
/// that none goes unmarked.
fn marked(text: &str, unsupported: &[String]) -> String {
    let mark = |figure: &str| format!("<mark class=\"unsupported\" title=\"{NOT_FOUND}\">{}</mark>", escaped(figure));
    let mut html = String::new();
    let mut found: HashSet<&str> = HashSet::new();
    let mut rest = text;
    while let Some((at, figure)) = first_figure(text, rest, unsupported) {
        let (before, from) = rest.split_at(at);
        html.extend([escaped(before), mark(figure)]);
        found.insert(figure);
        rest = from.get(figure.len()..).unwrap_or_default();
    }
    html.push_str(&escaped(rest));
    for figure in unsupported.iter().filter(|figure| !found.contains(figure.as_str())) {
        html.extend([" (", NOT_FOUND, ": ", &mark(figure), ")"]);
    }
    html
}

/// The first of the figures in `rest`, the tail of `text`, that is no part of a longer one. Of two at one place, the
/// longer.
fn first_figure<'a>(text: &str, rest: &str, figures: &'a [String]) -> Option<(usize, &'a str)> {
    let offset = text.len() - rest.len();
    let stands_alone = |at: usize, figure: &str| {
        let before = text.get(..offset + at).and_then(|head| head.chars().next_back());
        let after = rest.get(at + figure.len()..).and_then(|tail| tail.chars().next());
        !before.is_some_and(|c| c.is_ascii_digit()) && !after.is_some_and(|c| c.is_ascii_digit())
    };
    let places = figures.iter().map(String::as_str).filter(|figure| !figure.is_empty());
    let first = |figure: &'a str| {
        rest.match_indices(figure).map(|(at, _)| at).find(|&at| stands_alone(at, figure)).map(|at| (at, figure))
    };
    places.filter_map(first).min_by_key(|&(at, figure)| (at, std::cmp::Reverse(figure.len())))
}

fn documents(content: &ReportContent) -> String {
    let mut html = "<h3>Documents</h3>\n<table class=\"documents\">\n<thead><tr>".to_owned();
    for column in DOCUMENT_COLUMNS {
        html.extend(["<th scope=\"col\">", column, "</th>"]);
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for document in &content.documents {
        html.push_str("<tr>");
        for cell in document.cells() {
            html.extend(["<td>", &escaped(&cell), "</td>"]);
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n"
}

/// Knows the elements and attributes of a report and nothing else. No scheme is allowed, so links stay on this server.
fn sanitizer() -> Builder<'static> {
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from([
            "h2", "h3", "ul", "li", "sup", "a", "mark", "span", "section", "dl", "dt", "dd", "table", "thead", "tbody", "tr",
            "th", "td",
        ]))
        .tag_attributes(HashMap::from([
            ("a", HashSet::from(["href", "title", "aria-label"])),
            ("mark", HashSet::from(["class", "title"])),
            ("ul", HashSet::from(["class"])),
            ("sup", HashSet::from(["class"])),
            ("span", HashSet::from(["class"])),
            ("section", HashSet::from(["class"])),
            ("table", HashSet::from(["class"])),
            ("th", HashSet::from(["scope"])),
        ]))
        .url_relative(UrlRelative::PassThrough)
        .link_rel(None);
    builder
}
