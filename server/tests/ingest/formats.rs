//! What each format gives: text, title, date and coverage.

use chrono::NaiveDate;
use documents::read::date::{DateRule, When};
use documents::read::{Format, Limits, Readability, embedded_date};

use super::files::*;

#[test]
fn a_word_document_gives_headings_lists_tables_and_its_properties() {
    let found = read(
        "minutes.docx",
        &docx(
            r#"<w:p><w:pPr><w:pStyle w:val="berschrift2"/></w:pPr><w:r><w:t>Agenda</w:t></w:r></w:p>
            <w:p><w:r><w:t xml:space="preserve">We agreed &amp; </w:t></w:r><w:del><w:r><w:delText>not</w:delText><w:t>gone</w:t></w:r></w:del>
            <w:ins><w:r><w:t>signed&#33;</w:t></w:r></w:ins><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r></w:p>
            <w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>One</w:t></w:r></w:p><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>Two</w:t></w:r></w:p>
            <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr>
            <w:tr><w:tc><w:p><w:r><w:t>1</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr></w:tbl><w:p><w:r><w:t>End</w:t></w:r></w:p>"#,
        ),
    );
    assert_eq!(found.kind, Format::Docx);
    assert_eq!(found.text, "## Agenda\n\nWe agreed & signed!\n- One\n- Two\n\na | b\n1\n\nEnd");
    assert_eq!(found.title.as_deref(), Some("Minutes"));
    assert_eq!(found.date, Some((When::Instant("2026-06-03T10:00:00Z".parse().unwrap()), DateRule::Metadata)));
    assert_eq!(found.coverage, Readability::Read);
}

#[test]
fn a_word_document_without_its_usual_main_part_or_extension_is_found_all_the_same() {
    let bytes = package(&[
        ("_rels/.rels", r#"<R><Relationship Type="http://x/officeDocument" Target="/word/document2.xml"/></R>"#),
        ("word/document2.xml", "<w:p><w:r><w:t>Text</w:t></w:r></w:p>"),
        ("word/footnotes.xml", "<w:p><w:r><w:t>A note</w:t></w:r></w:p>"),
        ("word/header1.xml", "<w:p><w:r><w:t>Head</w:t></w:r></w:p>"),
        ("word/header2.xml", "<w:p><w:r><w:t>Head</w:t></w:r></w:p>"),
    ]);
    let found = read("minutes", &bytes);
    assert_eq!((found.kind, found.text.as_str()), (Format::Docx, "Text\n\nA note\n\nHead"));
}

#[test]
fn a_workbook_gives_its_sheets_with_typed_values_and_never_a_dense_table() {
    let found = read("figures.xlsx", &xlsx());
    let far = format!("{}far away", " | ".repeat(32));
    assert_eq!(
        found.text,
        format!("## June\nDay |  | Visitors\n2026-06-03 |  | 12.5\ntrue\n{far}\n\n## Notes (hidden sheet)\naside")
    );
    assert_eq!(found.title.as_deref(), Some("Figures"));
    assert_eq!(found.date, embedded_date("figures.xlsx", &xlsx(), &Limits::default()));
    assert!(matches!(found.date, Some((When::Instant(_), DateRule::Metadata))));
}

#[test]
fn a_pdf_names_the_pages_that_have_no_text() {
    let found = read("minutes.pdf", &pdf(&["First page", "", "Third page", "", ""]));
    assert_eq!(found.text, "First page\n\nThird page");
    assert_eq!(found.coverage, in_part("pages 2, 4 and 5 have no text"));
    assert_eq!(found.title.as_deref(), Some("Minutes"));
    assert_eq!(found.date, Some((When::Instant("2026-05-31T23:00:00Z".parse().unwrap()), DateRule::Metadata)));
    let scan = read("minutes.pdf", &pdf(&["", ""]));
    assert_eq!(scan.coverage, Readability::NoText { why: "no text in it; it may be a scan".to_owned() });
}

#[test]
fn a_locked_office_file_is_told_from_an_old_one() {
    let mut compound = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    compound.extend("EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes));
    let why = "it is protected with a password".to_owned();
    assert_eq!(read("a.xlsx", &compound).coverage, Readability::Locked { why });
    assert_eq!(read("a.xlsx", &compound).kind, Format::Xlsx);
}

#[test]
fn front_matter_dates_a_text_and_stays_in_it() {
    let found = read("a.md", b"---\ndate: 2026-06-03\n---\n# Minutes\n\nText");
    let day = NaiveDate::from_ymd_opt(2026, 6, 3).map(When::Day);
    assert_eq!(found.date, day.map(|when| (when, DateRule::FrontMatter)));
    assert_eq!(found.title.as_deref(), Some("Minutes"));
    assert_eq!(found.text, "---\ndate: 2026-06-03\n---\n# Minutes\n\nText");
}

#[test]
fn a_mail_gives_its_header_its_text_and_its_readable_attachments() {
    let found = read(
        "a.eml",
        mail(&[
            "Content-Type: text/plain\r\n\r\nHello",
            "Content-Type: text/csv; name=\"t.csv\"\r\nContent-Disposition: attachment\r\n\r\na,b\r\n1,2",
            "Content-Type: image/png; name=\"p.png\"\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=",
        ])
        .as_bytes(),
    );
    assert_eq!(found.title.as_deref(), Some("Café"));
    assert_eq!(found.date, Some((When::Instant("2026-05-31T23:00:00Z".parse().unwrap()), DateRule::MailDate)));
    let header = "Subject: Café\nFrom: Ann <ann@example.org>\nTo: bob@example.org\nDate: 2026-06-01T01:00:00+02:00";
    assert_eq!(found.text, format!("{header}\n\nHello\n\n[attachment \"t.csv\"]\n\na | b\n1 | 2"));
    assert_eq!(found.coverage, in_part("attachment \"p.png\" was not read: it is a picture"));
}

#[test]
fn an_attached_mail_is_read_and_what_is_attached_to_it_is_named() {
    let inner = mail(&[
        "Content-Type: text/plain\r\n\r\nInner",
        "Content-Type: text/plain; name=x.txt\r\nContent-Disposition: attachment\r\n\r\nx",
    ]);
    let attached = format!("Content-Type: message/rfc822\r\n\r\n{}", inner.replace("=b\r", "=c\r").replace("--b", "--c"));
    let found = read("a.eml", mail(&["Content-Type: text/plain\r\n\r\nOuter", &attached]).as_bytes());
    assert!(found.text.contains("Outer") && found.text.contains("[attached mail \"Café\"]") && found.text.contains("Inner"));
    assert_eq!(found.coverage, in_part("attached mail \"Café\": attachment \"x.txt\" was not read"));
}

#[test]
fn an_encrypted_mail_is_locked_and_a_signed_one_is_not() {
    let locked = Readability::Locked { why: "the mail is encrypted".to_owned() };
    let pgp = MAIL.replace("multipart/mixed", "multipart/encrypted") + "--b\r\n\r\nx\r\n--b--\r\n";
    assert_eq!(read("a.eml", pgp.as_bytes()).coverage, locked);
    let smime = "From: a@example.org\r\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\r\n\r\nAAAA";
    assert_eq!(read("a.eml", smime.as_bytes()).coverage, locked);
    let inline = "From: a@example.org\r\n\r\n-----BEGIN PGP MESSAGE-----\r\nx";
    assert_eq!(read("a.eml", inline.as_bytes()).coverage, locked);
    let signed = mail(&["Content-Type: text/plain\r\n\r\nHello", "Content-Type: application/pgp-signature\r\n\r\nx"]);
    let signed = signed.replace("multipart/mixed", "multipart/signed");
    assert_eq!(read("a.eml", signed.as_bytes()).coverage, Readability::Read);
}

#[test]
fn text_that_a_pdf_page_draws_through_a_form_is_read() {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /Resources << /XObject << /X 5 0 R >> >> /Contents 4 0 R >>".to_owned(),
        stream("", "/X Do"),
        stream("/Subtype /Form /Resources << /Font << /F1 6 0 R >> >>", "BT /F1 12 Tf 50 700 Td (Stamp) Tj ET"),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    let found = read("a.pdf", &pdf_of(&objects, ""));
    assert_eq!((found.text.as_str(), found.coverage), ("Stamp", Readability::Read));
}
