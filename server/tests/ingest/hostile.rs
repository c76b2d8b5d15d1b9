//! Broken and hostile files: each ends in a reason, none in a panic, and none takes more than its share.

use std::sync::LazyLock;

use documents::read::{Limits, Readability, embedded_date, extract};
use proptest::prelude::*;

use super::files::*;

#[test]
fn a_pdf_page_that_is_broken_is_named_and_the_others_are_read() {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [4 0 R 5 0 R] /Count 2 /MediaBox [0 0 600 800] >>".to_owned(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    let page = "/Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >>";
    objects.push(format!("<< {page} /Contents 6 0 R >>"));
    objects.push(format!("<< {page} /Contents 7 0 R >>"));
    objects.push(stream("", "BT /F1 12 Tf 50 700 Td (Good) Tj ET"));
    objects.push(stream("", "BT /Missing 12 Tf 50 700 Td (Bad) Tj ET /Nothing Do"));
    let found = read("a.pdf", &pdf_of(&objects, ""));
    assert_eq!((found.text.as_str(), found.coverage), ("Good", in_part("page 2 could not be read")));
}

#[test]
fn a_pdf_that_contains_itself_ends() {
    let page = |resources: &str| format!("<< /Type /Page /Parent 2 0 R /Resources << {resources} >> /Contents 4 0 R >>");
    let head = || vec!["<< /Type /Catalog /Pages 2 0 R >>".to_owned()];
    let pages = "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>".to_owned();
    // A form that draws itself.
    let mut objects = head();
    objects.extend([pages.clone(), page("/XObject << /X 5 0 R >>"), stream("", "/X Do")]);
    objects.push(stream("/Type /XObject /Subtype /Form /Resources << /XObject << /X 5 0 R >> >>", "/X Do"));
    assert!(matches!(read("a.pdf", &pdf_of(&objects, "")).coverage, Readability::NoText { .. }));
    // A form without resources, which uses those of its page.
    objects.pop();
    objects.push(stream("/Type /XObject /Subtype /Form", "/X Do"));
    assert!(matches!(read("a.pdf", &pdf_of(&objects, "")).coverage, Readability::NoText { .. }));
    // A chain of forms, each of which draws the next one twice: 2^40 draws.
    objects.truncate(3);
    objects.push(stream("", "/X Do"));
    for form in 5..45 {
        let next = form + 1;
        let dictionary = format!("/Subtype /Form /Resources << /XObject << /X {next} 0 R >> >>");
        objects.push(stream(&dictionary, "/X Do /X Do"));
    }
    objects.push(stream("/Subtype /Form", ""));
    read("a.pdf", &pdf_of(&objects, ""));
    // The same with more draws and fewer levels: 8^8 draws.
    objects.truncate(4);
    for form in 5..13 {
        let dictionary = format!("/Subtype /Form /Resources << /XObject << /X {} 0 R >> >>", form + 1);
        objects.push(stream(&dictionary, &"/X Do ".repeat(8)));
    }
    objects.push(stream("/Subtype /Form", ""));
    read("a.pdf", &pdf_of(&objects, ""));
    // Pages without a size whose ancestors go in a circle.
    let mut objects = head();
    objects.extend(["<< /Type /Pages /Kids [3 0 R] /Count 1 /Parent 2 0 R >>".to_owned(), page(""), stream("", "")]);
    let found = read("a.pdf", &pdf_of(&objects, ""));
    assert_eq!(found.coverage, Readability::Unreadable { why: "its pages contain themselves".to_owned() });
}

#[test]
fn a_pdf_stream_that_inflates_without_end_is_refused() {
    use std::io::Write;

    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&vec![b' '; 3 << 20]).unwrap();
    let packed = encoder.finish().unwrap();
    let mut bytes = b"%PDF-1.5\n1 0 obj\n<< /Type /ObjStm /Filter /FlateDecode >>\nstream\n".to_vec();
    bytes.extend(packed);
    bytes.extend(b"\nendstream\nendobj\n");
    let limits = Limits { max_inflated: 1 << 20, ..Limits::default() };
    let why = "it unpacks to more than 1 MiB, as a zip bomb does".to_owned();
    assert_eq!(extract("a.pdf", &bytes, &limits).coverage, Readability::TooLarge { why });
}

#[test]
fn a_zip_bomb_is_too_large_before_it_has_inflated() {
    let bomb = docx(&format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", " ".repeat(3 << 20)));
    let limits = Limits { max_inflated: 1 << 20, ..Limits::default() };
    let found = extract("a.docx", &bomb, &limits);
    assert!(matches!(&found.coverage, Readability::TooLarge { why } if why.contains("zip bomb")), "{found:?}");
    assert_eq!(found.text, "");
    // By its ratio alone, long before the default limit of bytes.
    let bomb = package(&[("xl/workbook.xml", &" ".repeat(17 << 20))]);
    assert!(matches!(read("a.xlsx", &bomb).coverage, Readability::TooLarge { .. }));
}

#[test]
fn entities_are_not_expanded_and_nesting_is_bounded() {
    let laughs = package(&[(
        "word/document.xml",
        r#"<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><d><w:p><w:r><w:t>x&b;y</w:t></w:r></w:p></d>"#,
    )]);
    assert_eq!(read("a.docx", &laughs).text, "xy");
    let deep = read("a.docx", &docx(&"<a>".repeat(100_000)));
    assert_eq!(deep.coverage, Readability::Unreadable { why: "its elements are nested too deep".to_owned() });
}

#[test]
fn a_file_or_a_text_over_the_limit_says_by_how_much() {
    let limits = Limits { max_bytes: 1000, max_text: 10, ..Limits::default() };
    let found = extract("a.txt", &[b'x'; 1001], &limits);
    let why = "1001 bytes is over the limit of 1000 bytes".to_owned();
    assert_eq!(found.coverage, Readability::TooLarge { why });
    let found = extract("a.txt", "0123456789äöü".as_bytes(), &limits);
    assert_eq!(found.text, "0123456789");
    let why = "only the first 10 bytes of its text were read, 6 bytes are left out";
    assert_eq!(found.coverage, in_part(why));
    // A cut never splits a character.
    assert_eq!(extract("a.txt", "012345678ä".as_bytes(), &limits).text, "012345678");
}

#[test]
fn mails_inside_mails_without_end_are_refused() {
    let deep = "Content-Type: message/rfc822\r\n\r\n".repeat(200_000);
    let why = "it has too many mails inside mails".to_owned();
    assert_eq!(read("a.eml", deep.as_bytes()).coverage, Readability::Unreadable { why });
    let parts: Vec<String> =
        (0..5_000).map(|level| format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n")).collect();
    read("a.eml", parts.concat().as_bytes());
}

#[test]
fn what_a_file_says_never_carries_control_characters_into_names_or_text() {
    let found = read("a.html", b"<title>a\x1b[31m\xe2\x80\xaeb</title><p>x\x07y\x1b[0m");
    assert_eq!(found.title.as_deref(), Some("a [31mb"));
    assert_eq!(found.text, "xy[0m");
}

/// One small valid file of each format.
static SAMPLES: LazyLock<[(&str, Vec<u8>); 7]> = LazyLock::new(|| {
    [
        ("a.docx", docx("<w:p><w:r><w:t>Text</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>")),
        ("a.xlsx", xlsx()),
        ("a.pdf", pdf(&["First", "", "Third"])),
        ("a.eml", mail(&["Content-Type: text/html\r\n\r\n<p>Hello"]).into_bytes()),
        ("a.html", b"<title>T</title><p>Hello<table><tr><td>1<td>2</table><pre>x</pre>".to_vec()),
        ("a.csv", b"a;b\n\"1\";2\n".to_vec()),
        ("a.md", b"---\ndate: 2026-06-03\n---\n# T\n".to_vec()),
    ]
});

fn check(name: &str, bytes: &[u8]) {
    let found = read(name, bytes);
    let readable = matches!(found.coverage, Readability::Read | Readability::ReadInPart { .. });
    assert_eq!(readable, !found.text.is_empty(), "{found:?}");
    assert!(!found.text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    assert!(!found.text.contains("\n\n\n") && !found.text.contains(" \n"));
    assert!(found.coverage.why().is_none_or(|why| !why.is_empty()));
    embedded_date(name, bytes, &Limits::default());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_ends_in_a_reason_and_never_in_a_panic(
        sample in 0..7_usize, cut in 0.0..=1.0_f64, flips in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..8)
    ) {
        let (name, mut bytes) = SAMPLES[sample].clone();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
        let place = |share: f64, length: usize| (share * length as f64) as usize;
        for (at, value) in flips {
            let at = place(at, bytes.len()).min(bytes.len() - 1);
            bytes[at] = value;
        }
        bytes.truncate(place(cut, bytes.len()));
        check(name, &bytes);
    }

    #[test]
    fn bytes_of_any_kind_under_any_name_are_survived(
        extension in prop::sample::select(vec!["md", "html", "eml", "pdf", "docx", "xlsx", "csv", "", "bin"]),
        bytes in prop::collection::vec(any::<u8>(), 0..400)
    ) {
        check(&format!("a.{extension}"), &bytes);
    }

    #[test]
    fn any_text_keeps_its_letters(text in "\\PC{0,80}") {
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let found = read("a.txt", text.as_bytes());
        prop_assert_eq!(letters(&found.text), letters(&text));
    }
}
