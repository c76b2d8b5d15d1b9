//! What stands in the message, read as bytes.

use chrono::DateTime;
use domain::id::message_id;
use mail::compose::{ComposeError, Composed, Notice, compose};
use sha2::{Digest, Sha256};
use uuid::Uuid;

fn notice() -> Notice {
    Notice {
        from: "Recount <reports@example.org>".parse().expect("sender"),
        to: "anna@example.org".parse().expect("recipient"),
        title: "Team month".into(),
        month: "June 2026".into(),
        link: "https://recount.example.org/reports/7?a=1&b=2".into(),
        requested_by: "Bert O'Hara".into(),
        job: Uuid::from_u128(7),
        message_id: message_id(0xfeed, "recount.example.org"),
        correction: None,
        date: DateTime::from_timestamp(1_782_900_000, 0).expect("a time"),
        key: None,
    }
}

fn composed(notice: &Notice) -> (Composed, String) {
    let composed = compose(notice).expect("a good notice");
    let text = String::from_utf8(composed.bytes.clone()).expect("UTF-8");
    (composed, text)
}

/// Both parts with their quoted-printable undone: the plain one, and the HTML one.
fn parts(text: &str) -> (String, String) {
    let readable = text.replace("=\r\n", "").replace("=3D", "=");
    let (plain, html) = readable.split_once("Content-Type: text/html").expect("two parts");
    (plain.to_owned(), html.to_owned())
}

fn titled(title: &str) -> (Composed, String) {
    composed(&Notice { title: title.into(), ..notice() })
}

/// The header lines, unfolded.
fn headers(text: &str) -> Vec<String> {
    let head = text.split("\r\n\r\n").next().unwrap_or_default();
    head.replace("\r\n ", " ").split("\r\n").map(str::to_owned).collect()
}

fn header(text: &str, name: &str) -> Vec<String> {
    let prefix = format!("{name}: ");
    headers(text).iter().filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).collect()
}

#[test]
fn the_headers_say_who_what_and_that_a_program_wrote_it() {
    let (composed, text) = composed(&notice());
    assert_eq!(header(&text, "From"), ["Recount <reports@example.org>"]);
    assert_eq!(header(&text, "To"), ["anna@example.org"]);
    assert_eq!(header(&text, "Subject"), ["Report for June 2026: Team month"]);
    assert_eq!(header(&text, "Message-ID"), ["<0000000000000000000000000000feed@recount.example.org>"]);
    assert_eq!(header(&text, "Date"), ["Wed, 01 Jul 2026 10:00:00 +0000"]);
    assert_eq!(header(&text, "Auto-Submitted"), ["auto-generated"]);
    assert_eq!(header(&text, "X-Recount-Job"), ["00000000-0000-0000-0000-000000000007"]);
    assert_eq!(composed.subject, "Report for June 2026: Team month");
    assert_eq!(composed.message_id, notice().message_id);
    assert_eq!(Sha256::digest(&composed.bytes)[..], composed.sha256);
}

#[test]
fn both_parts_have_the_title_the_month_the_link_and_the_reason() {
    let (_, text) = composed(&notice());
    let (plain, html) = parts(&text);
    assert!(
        plain.contains("The report for June 2026 is ready:\r\n\r\nhttps://recount.example.org/reports/7?a=1&b=2\r\n"),
        "{text}"
    );
    assert!(plain.contains("because Bert O'Hara asked Recount"), "{text}");
    assert!(html.contains("<h1><bdi>Team month</bdi></h1>"), "{html}");
    assert!(html.contains("reports/7?a=1&amp;b=2\">"), "{html}");
    assert!(html.contains("Bert O&#39;Hara"), "{html}");
}

#[test]
fn two_renders_are_equal_and_two_messages_are_not() {
    assert_eq!(compose(&notice()).expect("good"), compose(&notice()).expect("good"));
    let other = Notice { message_id: message_id(0xbeef, "recount.example.org"), ..notice() };
    let boundary = |text: &str| header(text, "Content-Type");
    assert_ne!(boundary(&composed(&notice()).1), boundary(&composed(&other).1));
}

#[test]
fn a_title_cannot_add_a_header_or_a_tag() {
    let (composed, text) = titled("Hi\r\nBcc: x@example.org\r\n\r\n<script>alert(1)</script>\u{85}\u{0}end");
    assert_eq!(composed.subject, "Report for June 2026: Hi Bcc: x@example.org <script>alert(1)</script> end");
    assert!(header(&text, "Bcc").is_empty());
    assert_eq!(headers(&text).len(), headers(&titled("x").1).len());
    let (_, html) = parts(&text);
    assert!(!html.contains("<script"), "{html}");
    assert!(html.contains("&lt;script&gt;"), "{html}");
}

#[test]
fn titles_in_every_script_are_encoded_and_the_message_stays_ascii() {
    for title in ["六月報告 🎉", "تقرير الشهر", "דוח חודשי", "Übersicht – März", &"長".repeat(300)] {
        let (composed, text) = titled(title);
        assert!(composed.bytes.is_ascii(), "{title}");
        assert!(header(&text, "Subject")[0].contains("=?utf-8?"), "{text}");
        assert!(text.split("\r\n").all(|line| line.len() <= 998), "{title}");
        assert!(composed.subject.ends_with(title));
    }
}

#[test]
fn without_a_title_the_month_is_enough() {
    let (composed, text) = titled(" \r\n ");
    assert_eq!(composed.subject, "Report for June 2026");
    assert!(!text.contains("<h1>"));
}

#[test]
fn a_broken_link_or_message_id_is_refused() {
    for link in ["", "javascript:alert(1)", "https://", "https:///x", "https://a b", "https://a/\">", "http://a/\r\nx"] {
        let notice = Notice { link: link.into(), ..notice() };
        assert!(matches!(compose(&notice), Err(ComposeError::Link(_))), "{link}");
    }
    for id in ["", "<>", "a@b", "<a@>", "<@b>", "<a b@c>", "<a@b>\r\nX: y", "<a@b@c>", "<ä@b>"] {
        let notice = Notice { message_id: id.into(), ..notice() };
        assert!(matches!(compose(&notice), Err(ComposeError::MessageId(_))), "{id}");
    }
}

#[test]
fn names_and_addresses_outside_ascii_are_taken() {
    let notice = Notice {
        from: "Büro <reports@example.org>".parse().expect("sender"),
        to: "ünal@xn--mller-kva.example".parse().expect("recipient"),
        requested_by: "安娜 <b>".into(),
        ..notice()
    };
    let (_, text) = composed(&notice);
    assert!(header(&text, "From")[0].contains("=?utf-8?"), "{text}");
    assert_eq!(header(&text, "To"), ["ünal@xn--mller-kva.example"]);
    assert!(!parts(&text).1.contains("<b>"));
}
