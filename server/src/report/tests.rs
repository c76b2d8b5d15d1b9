use super::*;
use summarize::{Identity, Section, Statement};

/// What a Markdown renderer that lets raw HTML through makes of `markdown`.
pub(super) fn html_of(markdown: &str) -> String {
    let options = pulldown_cmark::Options::all();
    let mut html = String::new();
    pulldown_cmark::html::push_html(
        &mut html,
        pulldown_cmark::Parser::new_ext(markdown, options.difference(pulldown_cmark::Options::ENABLE_SMART_PUNCTUATION)),
    );
    html
}

fn content() -> ReportContent {
    let citation = |document| Citation { document, start: 10, end: 42, quote: "A passage.".to_owned() };
    let statement = |text: &str, citations, unsupported: &[&str]| Statement {
        text: text.to_owned(),
        citations,
        unsupported: unsupported.iter().map(|&figure| figure.to_owned()).collect(),
    };
    ReportContent {
        title: "Report for June 2026".to_owned(),
        month: "June 2026".to_owned(),
        zone: "Europe/Berlin".to_owned(),
        interval: "from 2026-06-01 00:00 up to, not including, 2026-07-01 00:00".to_owned(),
        instructions: None,
        draft: Draft {
            sections: vec![Section {
                heading: "In short".to_owned(),
                statements: vec![
                    statement("Costs rose by 42 % to 142 dollars.", vec![citation(1), citation(2)], &["42 %"]),
                    statement("All is well.", vec![], &[]),
                ],
            }],
            summarizer: Identity { name: "Built-in summarizer (picks sentences, writes nothing itself)".to_owned() },
            parameters: serde_json::json!({"max_output_tokens": 4096, "method": "TextRank"}),
            notes: vec!["One thing to know.".to_owned()],
        },
        documents: vec![
            DocumentLine {
                number: Some(1),
                name: "2026-06-10_minutes.md".to_owned(),
                date: Some("2026-06-10".to_owned()),
                rule: Some("file name".to_owned()),
                sha256: Some("ab".repeat(32)),
                coverage: "read".to_owned(),
                reason: None,
            },
            DocumentLine {
                number: None,
                name: "locked.pdf".to_owned(),
                date: None,
                rule: None,
                sha256: None,
                coverage: "locked".to_owned(),
                reason: Some("it needs a password".to_owned()),
            },
        ],
        times: vec![TimeLine { what: "Report saved".to_owned(), when: "2026-07-01 09:00 CEST".to_owned() }],
        job_id: "0197-job".to_owned(),
    }
}

/// The report with `text` wherever text from outside may stand.
fn hostile(text: &str) -> ReportContent {
    let mut content = content();
    content.title = text.to_owned();
    content.instructions = Some(text.to_owned());
    content.job_id = text.to_owned();
    content.draft.summarizer.name = text.to_owned();
    content.draft.parameters = serde_json::json!({ text: text });
    content.draft.notes = vec![text.to_owned()];
    for section in &mut content.draft.sections {
        section.heading = text.to_owned();
        for statement in &mut section.statements {
            statement.text = text.to_owned();
            statement.unsupported = vec![text.to_owned()];
        }
    }
    for document in &mut content.documents {
        (document.name, document.coverage) = (text.to_owned(), text.to_owned());
        (document.date, document.rule, document.sha256, document.reason) =
            (Some(text.to_owned()), Some(text.to_owned()), Some(text.to_owned()), Some(text.to_owned()));
    }
    content
}

#[test]
fn the_markdown_says_everything() {
    let markdown = render_markdown(&content(), "/reports/r1");
    assert_eq!(
        markdown,
        format!(
            "# Report for June 2026\n\n## In short\n\n\
             - Costs rose by 42 % to 142 dollars. [\\[1\\]](</reports/r1/documents/1?from=10&to=42#passage>) [\\[2\\]](</reports/r1/documents/2?from=10&to=42#passage>) (not found in the sources: 42 %)\n\
             - All is well. (no source given)\n\n\
             ## How this report was made\n\n\
             - Month: June 2026\n- Interval: from 2026-06-01 00:00 up to, not including, 2026-07-01 00:00\n- Time zone: Europe/Berlin\n\
             - Summarizer: Built-in summarizer (picks sentences, writes nothing itself)\n- Parameters: max output tokens: 4096; method: TextRank\n\
             - Report saved: 2026-07-01 09:00 CEST\n- Job: 0197-job\n\n\
             ### Notes\n\n- One thing to know.\n\n### Documents\n\n\
             | No. | Document | Date | Dated by | Coverage | SHA-256 |\n| --- | --- | --- | --- | --- | --- |\n\
             | 1 | 2026-06-10\\_minutes.md | 2026-06-10 | file name | read | {} |\n\
             | – | locked.pdf | – | – | locked: it needs a password | – |\n",
            "ab".repeat(32)
        )
    );
}

#[test]
fn the_html_says_everything() {
    let html = render_html(&content(), "/reports/r1/");
    assert!(html.starts_with("<h2>In short</h2>"));
    assert!(!html.contains("<h1"));
    assert!(html.contains(
        "<li>Costs rose by <mark class=\"unsupported\" title=\"not found in the sources\">42 %</mark> to 142 dollars. <sup class=\"citations\">\
         <a href=\"/reports/r1/documents/1?from=10&amp;to=42#passage\" title=\"2026-06-10_minutes.md\" aria-label=\"Source 1: 2026-06-10_minutes.md\">[1]</a> "
    ), "{html}");
    assert!(html.contains("<li>All is well. <span class=\"no-source\">(no source given)</span></li>"));
    for text in [
        "<h2>How this report was made</h2>",
        "<dt>Time zone</dt><dd>Europe/Berlin</dd>",
        "<dd>max output tokens: 4096; method: TextRank</dd>",
        "<td>locked: it needs a password</td>",
        &"ab".repeat(32),
        "<th scope=\"col\">SHA-256</th>",
        "<li>One thing to know.</li>",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

#[test]
fn text_from_outside_never_becomes_an_element_or_a_link() {
    for text in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](https://evil.test/x.png)",
        "<https://evil.test>",
        "\"><svg onload=alert(1)>",
        "' onmouseover='alert(1)",
        "a|b\n\n# c\n\n<iframe src=//evil.test>",
        "[ref]: https://evil.test",
        "`</code><script>`",
        "</li></ul><form action=//evil.test>",
    ] {
        let content = hostile(text);
        let from_markdown = html_of(&render_markdown(&content, "/reports/r1"));
        for html in [render_html(&content, "/reports/r1"), from_markdown] {
            let lowered = html.to_lowercase();
            for element in ["<script", "<img", "<svg", "<iframe", "<form", "<code", "<object"] {
                assert!(!lowered.contains(element), "{text}: {html}");
            }
            let links: Vec<&str> = lowered.split("href=\"").skip(1).collect();
            assert_eq!(links.len(), 2, "{text}: {html}");
            assert!(links.iter().all(|link| link.starts_with("/reports/r1/documents/")), "{text}: {html}");
            let tags = lowered.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default());
            let mut outside_values = tags.flat_map(|tag| tag.split('"').step_by(2).map(str::to_owned).collect::<Vec<_>>());
            assert!(
                !outside_values.any(|part| part.contains("onmouseover") || part.contains("onerror") || part.contains("onload")),
                "{text}: {html}"
            );
        }
    }
}

#[test]
fn markup_in_text_from_outside_is_shown_as_written() {
    let html = render_html(&hostile("<b>5 < 6</b> & \"so\""), "/reports/r1");
    assert!(html.contains("<h2>&lt;b&gt;5 &lt; 6&lt;/b&gt; &amp; \"so\"</h2>"), "{html}");
    assert!(!html.contains("<b>"));
}

#[test]
fn unsupported_figures_are_marked_where_they_stand() {
    let mut content = content();
    content.draft.sections[0].statements[0].text = "In 2142 there were 42 of 142 and 42.".to_owned();
    content.draft.sections[0].statements[0].unsupported = vec!["42".to_owned(), "77".to_owned()];
    let html = render_html(&content, "/reports/r1");
    let mark = |figure: &str| format!("<mark class=\"unsupported\" title=\"not found in the sources\">{figure}</mark>");
    assert!(
        html.contains(&format!("In 2142 there were {0} of 142 and {0}. (not found in the sources: {1})", mark("42"), mark("77"))),
        "{html}"
    );
}
