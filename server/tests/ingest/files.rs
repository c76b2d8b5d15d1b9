//! Small files of every format, built by hand.

use std::io::{Cursor, Write};

use documents::read::{Extraction, Limits, Readability, extract};
use zip::write::SimpleFileOptions;

pub fn read(name: &str, bytes: &[u8]) -> Extraction {
    extract(name, bytes, &Limits::default())
}

pub fn in_part(why: &str) -> Readability {
    Readability::ReadInPart { why: why.to_owned() }
}

pub fn package(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

pub const STYLES: &str = r#"<w:styles><w:style w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style></w:styles>"#;
pub const CORE: &str = r"<cp:coreProperties><dc:title>Minutes</dc:title><dcterms:created>2026-06-03T10:00:00Z</dcterms:created>
    <dcterms:modified>2026-07-01T10:00:00Z</dcterms:modified></cp:coreProperties>";

pub fn docx(body: &str) -> Vec<u8> {
    let document = format!("<?xml version=\"1.0\"?><w:document><w:body>{body}</w:body></w:document>");
    package(&[("word/document.xml", &document), ("word/styles.xml", STYLES), ("docProps/core.xml", CORE)])
}

pub fn xlsx() -> Vec<u8> {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    let created = rust_xlsxwriter::ExcelDateTime::from_ymd(2026, 6, 3).unwrap();
    workbook.set_properties(&rust_xlsxwriter::DocProperties::new().set_title("Figures").set_creation_datetime(&created));
    let sheet = workbook.add_worksheet().set_name("June").unwrap();
    sheet.write(0, 0, "Day").unwrap();
    sheet.write(0, 2, "Visitors").unwrap();
    let date = rust_xlsxwriter::Format::new().set_num_format("yyyy-mm-dd");
    sheet.write_with_format(1, 0, &created, &date).unwrap();
    sheet.write(1, 2, 12.5).unwrap();
    sheet.write(2, 0, true).unwrap();
    // A dense table up to this cell would hold 17 billion cells.
    sheet.write(1_048_575, 16_383, "far away").unwrap();
    workbook.add_worksheet().set_name("Notes").unwrap().set_hidden(true).write(0, 0, "aside").unwrap();
    workbook.save_to_buffer().unwrap()
}

/// A PDF of numbered objects, the first of which is the catalog; `trailer` is added to the trailer dictionary.
pub fn pdf_of(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let start = bytes.len();
    bytes.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        bytes.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let size = objects.len() + 1;
    bytes.extend(format!("trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n").bytes());
    bytes
}

pub fn stream(dictionary: &str, content: &str) -> String {
    format!("<< {dictionary} /Length {} >>\nstream\n{content}\nendstream", content.len())
}

/// A PDF with one page for each text.
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|page| format!("{} 0 R", 5 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} /MediaBox [0 0 600 800] >>", kids.join(" "), pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
        "<< /Title (Minutes) /CreationDate (D:20260601010000+02'00') >>".to_owned(),
    ];
    for (index, text) in pages.iter().enumerate() {
        let content = 6 + 2 * index;
        objects.push(format!("<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {content} 0 R >>"));
        let show = if text.is_empty() { String::new() } else { format!("BT /F1 12 Tf 50 700 Td ({text}) Tj ET") };
        objects.push(stream("", &show));
    }
    pdf_of(&objects, "/Info 4 0 R")
}

pub const MAIL: &str = "From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n\
    Date: Mon, 1 Jun 2026 01:00:00 +0200\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";

pub fn mail(parts: &[&str]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| format!("--b\r\n{part}\r\n")).collect();
    format!("{MAIL}{}--b--\r\n", parts.concat())
}
