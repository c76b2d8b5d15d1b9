//! Cancel and shutdown at every point of a session: clean before the final dot, too late after it.

use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Stop},
    smtp::Smtp,
};
use secrecy::SecretString;

use crate::support::{
    mail::{Record, huge_message, message, settings},
    smtp_server::{
        Act::{Freeze, Hang, Hold},
        Script, Server,
    },
};

const ACCEPTANCE: &[u8] = b"250 2.0.0 Ok: queued as ABC123\r\n";

/// Stops when the server has come to where it hangs.
async fn stop_at(script: Script, phase: DeliveryPhase, shutdown: bool) {
    let server = Server::start(script);
    let mut settings = settings(server.port);
    settings.username = Some("u".into());
    settings.password = Some(SecretString::from("p"));
    let smtp = Smtp::new(&settings).expect("settings");
    let (record, stop) = (Record::allowing(), Stop::default());
    let message = if phase == DeliveryPhase::Body { huge_message() } else { message() };
    let (delivery, ()) = tokio::join!(smtp.deliver(&message, &record, &stop), async {
        server.reached().await;
        if shutdown { &stop.give_up } else { &stop.cancel }.cancel();
    });
    let cause = if shutdown { Cause::ShuttingDown } else { Cause::Cancelled };
    assert_eq!(delivery, Delivery::BrokenOff { phase, cause });
    if phase == DeliveryPhase::Body {
        server.finished().await;
    } else {
        // The server still hangs: this returns because the client has closed the connection.
        server.closed().await;
    }
    assert_eq!(server.commits(), 0, "{phase:?}");
    assert_eq!(record.asked(), usize::from(phase == DeliveryPhase::Body));
}

#[tokio::test]
async fn before_the_final_dot_a_stop_closes_the_connection_at_once() {
    let d = Script::default;
    let points = [
        (DeliveryPhase::Connect, Script { greeting: Hang, ..d() }),
        (DeliveryPhase::Connect, Script { ehlo: Hang, ..d() }),
        (DeliveryPhase::Auth, Script { auth: Hang, ..d() }),
        (DeliveryPhase::Hello, Script { ehlo_again: Hang, ..d() }),
        (DeliveryPhase::MailFrom, Script { mail: Hang, ..d() }),
        (DeliveryPhase::RcptTo, Script { rcpt: Hang, ..d() }),
        (DeliveryPhase::Data, Script { data: Hang, ..d() }),
        (DeliveryPhase::Body, Script { body: Some((100_000, Freeze)), ..d() }),
    ];
    for (phase, script) in points {
        stop_at(script.clone(), phase, false).await;
        stop_at(script, phase, true).await;
    }
}

#[tokio::test]
async fn a_cancel_before_the_start_touches_nothing() {
    let server = Server::start(Script::default());
    let smtp = Smtp::new(&settings(server.port)).expect("settings");
    let (record, stop, message) = (Record::allowing(), Stop::default(), message());
    stop.cancel.cancel();
    let delivery = smtp.deliver(&message, &record, &stop).await;
    let (phase, cause) = (DeliveryPhase::Connect, Cause::Cancelled);
    assert_eq!(delivery, Delivery::BrokenOff { phase, cause });
    server.closed().await;
    assert_eq!((server.commits(), server.lines().len(), record.asked()), (0, 0, 0));
}

#[tokio::test]
async fn a_cancel_while_the_record_is_written_keeps_the_message_back() {
    let server = Server::start(Script::default());
    let smtp = Smtp::new(&settings(server.port)).expect("settings");
    let (stop, message) = (Stop::default(), message());
    let record = Record::allowing_and_cancelling(stop.cancel.clone());
    let delivery = smtp.deliver(&message, &record, &stop).await;
    server.closed().await;
    let (phase, cause) = (DeliveryPhase::Body, Cause::Cancelled);
    assert_eq!(delivery, Delivery::BrokenOff { phase, cause });
    assert_eq!((server.commits(), record.asked()), (0, 1));
}

#[tokio::test]
async fn after_the_final_dot_a_cancel_waits_for_the_answer() {
    for (reply, accepted) in [(ACCEPTANCE, true), (b"554 5.7.1 no\r\n" as &[u8], false)] {
        let script = Script { dot: Hold(reply), commit: accepted, ..Script::default() };
        let server = Server::start(script);
        let smtp = Smtp::new(&settings(server.port)).expect("settings");
        let (record, stop) = (Record::allowing(), Stop::default());
        let message = message();
        let mut delivery = std::pin::pin!(smtp.deliver(&message, &record, &stop));
        tokio::select! {
            early = &mut delivery => panic!("no reply was given, but: {early:?}"),
            () = server.reached() => stop.cancel.cancel(),
        }
        for _ in 0..100 {
            tokio::select! {
                biased;
                early = &mut delivery => panic!("no reply was given, but: {early:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        server.release();
        let delivery = delivery.await;
        server.finished().await;
        match delivery {
            Delivery::Accepted { .. } => assert!(accepted),
            Delivery::NotAccepted { phase: DeliveryPhase::FinalDot, .. } => assert!(!accepted),
            other => panic!("{other:?}"),
        }
        assert_eq!(server.commits(), usize::from(accepted));
    }
}

#[tokio::test]
async fn after_the_final_dot_the_end_of_the_grace_leaves_it_unconfirmed() {
    for commit in [true, false] {
        let script = Script { dot: Hang, commit, ..Script::default() };
        let server = Server::start(script);
        let smtp = Smtp::new(&settings(server.port)).expect("settings");
        let (record, stop, message) = (Record::allowing(), Stop::default(), message());
        let (delivery, ()) = tokio::join!(smtp.deliver(&message, &record, &stop), async {
            server.reached().await;
            stop.cancel.cancel();
            stop.give_up.cancel();
        });
        server.closed().await;
        assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");
        assert_eq!(server.commits(), usize::from(commit));
    }
}
