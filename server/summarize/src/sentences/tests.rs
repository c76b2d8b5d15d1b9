use super::*;

fn outline(text: &str) -> Outline {
    super::outline(text, &|| false)
}

fn texts(text: &str) -> Vec<String> {
    outline(text).sentences.into_iter().map(|sentence| sentence.text).collect()
}

#[test]
fn abbreviations_initials_and_ordinals_do_not_end_a_sentence() {
    assert_eq!(
        texts(
            "Dr. Smith met J. Doe, e.g. on Monday. They agreed. Am 3. Juni kam z. B. Herr Maier. It cost 1.5 m, etc. Then it ended."
        ),
        [
            "Dr. Smith met J. Doe, e.g. on Monday.",
            "They agreed.",
            "Am 3. Juni kam z. B. Herr Maier.",
            "It cost 1.5 m, etc.",
            "Then it ended."
        ]
    );
}

#[test]
fn what_is_no_prose_is_left_out() {
    let text = "---\ntitle: \"A month\"\n---\n# Head\n\nFirst line\ngoes on here.\n\n| a | b |\n|---|---|\n```\ncode.\n```\n<!-- a\ncomment. -->\n[ref]: https://x.test\n\n* An item.\n  It goes on.\n* Another.\n> Quoted words.\n\nUnder\n-----\nLast one.\n";
    let outline = outline(text);
    assert_eq!(outline.title.as_deref(), Some("A month"));
    let headings: Vec<(&str, &[String])> = outline.headings.iter().map(|h| (h.text.as_str(), h.above.as_slice())).collect();
    assert_eq!(headings, [("", [].as_slice()), ("Head", &[]), ("Under", &["Head".to_owned()])]);
    let found: Vec<(&str, usize)> = outline.sentences.iter().map(|s| (s.text.as_str(), s.part)).collect();
    assert_eq!(
        found,
        [
            ("First line goes on here.", 1),
            ("An item.", 1),
            ("It goes on.", 1),
            ("Another.", 1),
            ("Quoted words.", 1),
            ("Last one.", 2)
        ]
    );
    let origin = outline.sentences.first().map(|s| s.origin.clone()).expect("there is a sentence");
    assert_eq!(&text[origin], "First line\ngoes on here.");
}

#[test]
fn key_value_lines_at_the_top_are_metadata() {
    let outline = outline("Title: This Week 655\nNumber: 655\nDate: 2026-06-10\n\nHello there.\n");
    assert_eq!(outline.title.as_deref(), Some("This Week 655"));
    assert_eq!(outline.sentences.len(), 1);
    assert_eq!(texts("Note: this is prose.\n\nMore.").len(), 2);
}

#[test]
fn odd_input_never_panics() {
    for text in [
        "",
        "\n",
        "---",
        "#",
        "[",
        "]:",
        "[]:",
        "`",
        "![",
        "<",
        "&#xFFFFFFFF;",
        "\\",
        "1. ",
        "- ",
        "é\u{301}. É",
        "\u{feff}# x\r\n\r\ny.",
    ] {
        let _ = outline(text);
    }
}
