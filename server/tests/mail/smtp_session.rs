//! One session with a server that behaves, or nearly: what is said, in which order, for how long.

use std::time::Duration;

use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Refused, Retry, Stop},
    smtp::Smtp,
};

use crate::support::{
    mail::{Record, message, message_with, on_one_thread, settings},
    smtp_run::{
        Expected::{Accepted, NotAccepted},
        later, matches, person, run,
    },
    smtp_server::{
        Act::{Close, Drip, Hang, Hold, Say},
        Script, Server,
    },
};

/// Moves the clock while the server thinks about the message, then lets it reply.
fn thinking_for(time: Duration, final_dot: Duration) -> (Delivery, Duration) {
    let script = Script { dot: Hold(b"250 2.0.0 ok\r\n"), ..Script::default() };
    on_one_thread(async {
        let server = Server::start(script);
        let mut settings = settings(server.port);
        settings.timeouts.final_dot = final_dot;
        let smtp = Smtp::new(&settings).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let mut delivery = std::pin::pin!(smtp.deliver(&message, &record, &stop));
        tokio::select! {
            early = &mut delivery => panic!("{early:?}"),
            () = server.reached() => tokio::time::pause(),
        }
        let asked = tokio::time::Instant::now();
        tokio::select! {
            biased;
            early = &mut delivery => return (early, asked.elapsed()),
            () = tokio::time::sleep(time) => server.release(),
        }
        (delivery.await, asked.elapsed())
    })
}

#[test]
fn the_reply_to_the_dot_has_its_own_time_out_longer_or_shorter_than_the_others() {
    let s = Duration::from_secs;
    let (delivery, _) = thinking_for(s(599), s(600));
    assert!(matches(&Accepted, &delivery), "{delivery:?}");
    for limit in [s(600), s(1)] {
        let (delivery, waited) = thinking_for(s(7200), limit);
        let evidence = format!("no answer within {} s", limit.as_secs());
        assert_eq!(delivery, Delivery::Unconfirmed { evidence });
        assert!(waited < limit + s(1), "{waited:?}");
    }
}

/// Each line is a sign of life, and none of them is progress.
#[test]
fn a_reply_that_never_ends_does_not_prolong_the_wait_for_it() {
    let script = Script { dot: Drip(b"250-still thinking\r\n"), ..Script::default() };
    on_one_thread(async {
        let server = Server::start(script);
        let smtp = Smtp::new(&settings(server.port)).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let mut delivery = std::pin::pin!(smtp.deliver(&message, &record, &stop));
        tokio::select! {
            early = &mut delivery => panic!("{early:?}"),
            () = server.reached() => tokio::time::pause(),
        }
        let asked = tokio::time::Instant::now();
        let delivery = delivery.await;
        assert_eq!(delivery, Delivery::Unconfirmed { evidence: "no answer within 600 s".into() });
        assert!(asked.elapsed() < Duration::from_secs(601), "{:?}", asked.elapsed());
    });
}

#[test]
fn a_quit_without_a_reply_does_not_delay_the_outcome() {
    let script = Script { quit: Hang, ..Script::default() };
    on_one_thread(async {
        let server = Server::start(script);
        let smtp = Smtp::new(&settings(server.port)).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let delivery = smtp.deliver(&message, &record, &stop).await;
        // Only after the outcome is known does the server even get to its hang.
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
        server.reached().await;
        server.finished().await;
        assert_eq!(server.commits(), 1);
    });
}

#[test]
fn the_message_arrives_byte_for_byte_with_its_dots_stuffed() {
    on_one_thread(async {
        let server = Server::start(Script::default());
        let smtp = Smtp::new(&settings(server.port)).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let delivery = smtp.deliver(&message, &record, &stop).await;
        server.finished().await;
        assert_eq!(
            delivery,
            Delivery::Accepted {
                evidence: "250 2.0.0 Ok: queued as ABC123".to_owned(),
                peer: format!("127.0.0.1:{}", server.port),
            }
        );
        assert_eq!(record.asked(), 1);
        let mut wire = String::from_utf8(message.bytes.to_vec()).expect("ASCII");
        wire = wire.replace("\r\n.", "\r\n..") + "\r\n.\r\n";
        assert_eq!(server.bodies(), [wire.into_bytes()]);
        let size = message.bytes.len();
        let expected = [
            "EHLO client.example.org".to_owned(),
            "EHLO client.example.org".to_owned(),
            format!("MAIL FROM:<r@example.org> SIZE={size}"),
            "RCPT TO:<anna@example.org>".to_owned(),
            "DATA".to_owned(),
            "QUIT".to_owned(),
        ];
        assert_eq!(server.lines(), expected);
    });
}

#[test]
fn a_refused_sign_in_needs_a_person_and_a_busy_server_does_not() {
    let auth = |act| Script { auth: act, ..Script::default() };
    for (act, retry) in [
        (Say(b"535 5.7.8 wrong password\r\n" as &[u8]), Retry::NeedsPerson),
        (Say(b"454 4.7.0 later\r\n"), Retry::Later),
        (Say(b"250 ok\r\n"), Retry::Later),
        (Close, Retry::Later),
        (Hang, Retry::Later),
    ] {
        let (delivery, commits, _) = run(auth(act), &message(), true);
        assert!(matches(&NotAccepted(DeliveryPhase::Auth, Some(retry)), &delivery), "{delivery:?}");
        assert_eq!(commits, 0);
    }
    let no_auth = Script { ehlo: Say(b"250 mx\r\n"), ..Script::default() };
    let (delivery, _, _) = run(no_auth, &message(), true);
    assert!(matches(&person(DeliveryPhase::Auth), &delivery), "{delivery:?}");
    let (delivery, commits, lines) = run(Script::default(), &message(), true);
    assert!(matches(&Accepted, &delivery), "{delivery:?}");
    assert_eq!(commits, 1);
    assert!(lines.iter().any(|line| line.starts_with("AUTH PLAIN ")));
}

#[test]
fn a_refusal_ends_with_quit_and_a_server_out_of_step_is_left() {
    for (rcpt, last) in [
        (Say(b"550 5.1.1 nobody\r\n" as &[u8]), "QUIT"),
        (Say(b"354 what\r\n"), "RCPT TO:<anna@example.org>"),
        (Say(b"421 4.3.2 going\r\n"), "RCPT TO:<anna@example.org>"),
    ] {
        let script = Script { rcpt, ..Script::default() };
        let (_, commits, lines) = run(script, &message(), false);
        assert_eq!(lines.last().map(String::as_str), Some(last));
        assert_eq!(commits, 0);
    }
}

#[test]
fn letters_outside_ascii_need_a_server_that_takes_them() {
    let mut message = message_with("grüße");
    message.to = "ünal@example.org".parse().expect("address");
    let plain = Script { ehlo: Say(b"250 mx\r\n"), ehlo_again: Say(b"250 mx\r\n"), ..Script::default() };
    let (delivery, commits, _) = run(plain, &message, false);
    assert!(matches(&person(DeliveryPhase::MailFrom), &delivery), "{delivery:?}");
    assert_eq!(commits, 0);
    let (delivery, _, lines) = run(Script::default(), &message, false);
    assert!(matches(&Accepted, &delivery), "{delivery:?}");
    assert!(lines.iter().any(|l| l.contains(" SMTPUTF8 BODY=8BITMIME SIZE=")), "{lines:?}");
}

#[test]
fn a_refusal_by_the_record_lets_nothing_out() {
    for refused in [Refused::Cancelled, Refused::LeaseLost, Refused::Storage("disk full".into())] {
        on_one_thread(async {
            let server = Server::start(Script::default());
            let smtp = Smtp::new(&settings(server.port)).expect("settings");
            let (record, stop) = (Record::refusing(refused.clone()), Stop::default());
            let message = message();
            let delivery = smtp.deliver(&message, &record, &stop).await;
            server.closed().await;
            let (phase, cause) = (DeliveryPhase::Journal, Cause::Refused(refused));
            assert_eq!(delivery, Delivery::BrokenOff { phase, cause });
            assert_eq!((server.commits(), record.asked()), (0, 1));
            assert_eq!(server.lines().last().map(String::as_str), Some("DATA"));
        });
    }
}

#[test]
fn a_message_that_changed_in_storage_is_not_sent() {
    let mut changed = message();
    changed.sha256[0] ^= 1;
    let (delivery, commits, lines) = run(Script::default(), &changed, false);
    assert!(matches(&person(DeliveryPhase::Prepare), &delivery), "{delivery:?}");
    assert_eq!((commits, lines.len()), (0, 0));
}

#[test]
fn a_server_that_is_not_there_is_tried_later() {
    on_one_thread(async {
        // Bound, so that nobody else gets the port, but not listening
        let socket = tokio::net::TcpSocket::new_v4().expect("socket");
        socket.bind("127.0.0.1:0".parse().expect("address")).expect("port");
        let port = socket.local_addr().expect("bound").port();
        let smtp = Smtp::new(&settings(port)).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let delivery = smtp.deliver(&message, &record, &stop).await;
        assert!(matches(&later(DeliveryPhase::Connect), &delivery), "{delivery:?}");
        assert_eq!(record.asked(), 0);
    });
}
