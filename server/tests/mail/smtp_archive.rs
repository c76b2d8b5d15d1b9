//! The archive's copy and delivery reports: what is said to the mail server, and that neither can keep a message.

use std::time::Duration;

use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Outgoing, Retry, Stop},
    smtp::{Smtp, SmtpSettings},
};

use crate::support::{
    mail::{Record, message, on_one_thread, settings},
    smtp_server::{
        Act::{self, Close, Hang, Reset, Say, SayAndClose},
        Script, Server,
    },
};

const EHLO_DSN: &[u8] = b"250-mx.test\r\n250-DSN\r\n250 8BITMIME\r\n";

/// Sends with an archive; the first session meets the script, later ones a server that behaves.
fn run(script: Script, change: impl FnOnce(&mut SmtpSettings)) -> (Delivery, Server) {
    send(script, change, &message())
}

fn send(script: Script, change: impl FnOnce(&mut SmtpSettings), message: &Outgoing) -> (Delivery, Server) {
    on_one_thread(async {
        let server = Server::start_each(vec![script, Script::default()]);
        let mut settings = settings(server.port);
        settings.archive = Some("archive@example.org".into());
        change(&mut settings);
        let smtp = Smtp::new(&settings).expect("settings");
        let (record, stop) = (Record::allowing(), Stop::default());
        let mut delivery = std::pin::pin!(smtp.deliver(message, &record, &stop));
        let delivery = tokio::select! {
            delivery = &mut delivery => delivery,
            () = server.reached() => {
                tokio::time::pause();
                tokio::time::advance(Duration::from_mins(6)).await;
                tokio::time::resume();
                delivery.await
            }
        };
        server.finished().await;
        (delivery, server)
    })
}

fn envelope(server: &Server) -> Vec<String> {
    let named = |line: &String| line.starts_with("MAIL") || line.starts_with("RCPT") || line == "DATA";
    server.lines().into_iter().filter(named).collect()
}

fn evidence(delivery: &Delivery) -> &str {
    match delivery {
        Delivery::Accepted { evidence, .. } | Delivery::Unconfirmed { evidence } => evidence,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_archive_is_the_second_recipient_of_the_same_transaction() {
    let (delivery, server) = run(Script::default(), |_| {});
    assert_eq!(evidence(&delivery), "250 2.0.0 Ok: queued as ABC123");
    assert_eq!(server.commits(), 1);
    let size = message().bytes.len();
    let expected = [
        &format!("MAIL FROM:<r@example.org> SIZE={size}"),
        "RCPT TO:<anna@example.org>",
        "RCPT TO:<archive@example.org>",
        "DATA",
    ];
    assert_eq!(envelope(&server), expected);
    // No header names it
    assert!(server.bodies().iter().all(|body| !String::from_utf8_lossy(body).contains("archive@")));
}

#[test]
fn a_refused_archive_is_noted_and_does_not_keep_the_message() {
    for (reply, noted) in [
        (Say(b"550 5.1.1 no such archive\r\n" as &[u8]), "550 5.1.1 no such archive"),
        (Say(b"450 4.2.1 busy\r\n"), "450 4.2.1 busy"),
        (Say(b"452 4.5.3 too many recipients\r\n"), "452 4.5.3 too many recipients"),
    ] {
        let (delivery, server) = run(Script { rcpt_again: reply.clone(), ..Script::default() }, |_| {});
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
        let expected = format!("250 2.0.0 Ok: queued as ABC123; the archive address was refused: {noted}");
        assert_eq!(evidence(&delivery), expected);
        assert_eq!(server.commits(), 1);
        // A look into the archive will be in vain, so an unconfirmed message says so too.
        let (delivery, _) = run(Script { rcpt_again: reply, dot: Close, ..Script::default() }, |_| {});
        assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");
        assert!(evidence(&delivery).ends_with(&format!("; the archive address was refused: {noted}")), "{delivery:?}");
    }
}

#[test]
fn where_the_session_breaks_at_the_archive_another_one_goes_without_it() {
    let broken: [Act; 7] = [
        Close,
        Reset,
        Hang,
        SayAndClose(b"421 4.3.2 going\r\n"),
        Say(b"421 4.3.2 going\r\n"),
        Say(b"354 what\r\n"),
        Say(b"hello\r\n"),
    ];
    for act in broken {
        let name = format!("{act:?}");
        let (delivery, server) = run(Script { rcpt_again: act, ..Script::default() }, |_| {});
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{name}: {delivery:?}");
        assert!(evidence(&delivery).contains("; the archive address was refused: "), "{name}: {delivery:?}");
        assert_eq!(server.commits(), 1, "{name}");
        let said = envelope(&server);
        let recipients: Vec<&str> = said.iter().filter(|l| !l.starts_with("MAIL")).map(String::as_str).collect();
        let (anna, archive) = ("RCPT TO:<anna@example.org>", "RCPT TO:<archive@example.org>");
        assert_eq!(recipients, [anna, archive, anna, "DATA"], "{name}");
    }
}

#[test]
fn a_refused_recipient_leaves_the_archive_without_a_copy() {
    let (delivery, server) = run(Script { rcpt: Say(b"550 5.1.1 nobody\r\n"), ..Script::default() }, |_| {});
    let refused = matches!(delivery, Delivery::NotAccepted { phase: DeliveryPhase::RcptTo, retry: Retry::NeedsPerson, .. });
    assert!(refused, "{delivery:?}");
    assert_eq!((server.commits(), envelope(&server).len()), (0, 2));
}

#[test]
fn a_message_to_the_archive_itself_names_it_once() {
    let to_archive = Outgoing { to: "Archive@Example.org".parse().expect("address"), ..message() };
    let (delivery, server) = send(Script::default(), |_| {}, &to_archive);
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    assert_eq!(envelope(&server).iter().filter(|line| line.starts_with("RCPT")).count(), 1);
}

#[test]
fn a_cancel_while_the_archive_is_named_breaks_off() {
    on_one_thread(async {
        let server = Server::start(Script { rcpt_again: Hang, ..Script::default() });
        let smtp = Smtp::new(&SmtpSettings { archive: Some("archive@example.org".into()), ..settings(server.port) });
        let (smtp, record, stop, message) = (smtp.expect("settings"), Record::allowing(), Stop::default(), message());
        let mut delivery = std::pin::pin!(smtp.deliver(&message, &record, &stop));
        tokio::select! {
            early = &mut delivery => panic!("{early:?}"),
            () = server.reached() => stop.cancel.cancel(),
        }
        let expected = Delivery::BrokenOff { phase: DeliveryPhase::RcptTo, cause: Cause::Cancelled };
        assert_eq!(delivery.await, expected);
        server.closed().await;
        assert_eq!((server.commits(), record.asked()), (0, 0));
    });
}

#[test]
fn reports_are_asked_for_only_where_they_are_wanted_and_offered() {
    let dsn = || Script { ehlo: Say(EHLO_DSN), ehlo_again: Say(EHLO_DSN), ..Script::default() };
    let (delivery, server) = run(dsn(), |s| s.dsn = Some(true));
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    let expected = [
        "MAIL FROM:<r@example.org> RET=HDRS ENVID=00000000-0000-0000-0000-000000000007",
        "RCPT TO:<anna@example.org> NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;anna@example.org",
        // The copy is looked for in its mailbox; a report about it would say nothing new.
        "RCPT TO:<archive@example.org> NOTIFY=NEVER",
        "DATA",
    ];
    assert_eq!(envelope(&server), expected);
    for (script, wanted) in [(dsn(), None), (dsn(), Some(false)), (Script::default(), Some(true))] {
        let (delivery, server) = run(script, |s| s.dsn = wanted);
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
        let said = envelope(&server).join(" ");
        assert!(!said.contains("ENVID") && !said.contains("NOTIFY") && !said.contains("RET"), "{said}");
    }
}
