//! A mail server whose service recognises messages by a header: asking again after a lost answer.

use mail::{
    channel::{Channel, Delivery, Outgoing, Reconciled, Stop},
    smtp::Smtp,
};

use crate::support::{
    mail::{Record, rendered_for, settings},
    smtp_server::{
        Act::{self, Close, Say},
        Script, Server,
    },
};

const HEADER: &str = "Resend-Idempotency-Key";

fn keyed(port: u16) -> Smtp {
    let mut settings = settings(port);
    settings.idempotency_header = Some(HEADER.into());
    Smtp::new(&settings).expect("settings")
}

/// A first attempt without an answer, and a second session.
async fn lost_answer(commit: bool, second: Script) -> (Server, Smtp, Outgoing) {
    let first = Script { dot: Close, commit, key_header: Some(HEADER), ..Script::default() };
    let server = Server::start_each(vec![first, Script { key_header: Some(HEADER), ..second }]);
    let smtp = keyed(server.port);
    let message = rendered_for(&smtp, "Team month");
    let delivery = smtp.deliver(&message, &Record::allowing(), &Stop::default()).await;
    assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");
    server.closed().await;
    assert_eq!(server.commits(), usize::from(commit));
    (server, smtp, message)
}

#[tokio::test]
async fn asking_again_gets_the_answer_and_makes_no_second_message() {
    for commit in [true, false] {
        let (server, smtp, message) = lost_answer(commit, Script::default()).await;
        let asked = smtp.ask_again(&message).await;
        assert!(matches!(&asked, Reconciled::Accepted { evidence } if evidence.starts_with("250 2.0.0 Ok")), "{asked:?}");
        server.finished().await;
        assert_eq!(server.commits(), 1, "kept at first: {commit}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_second_says_nothing_about_the_first() {
    let d = Script::default;
    let refuse = |act: Act| Script { rcpt: act, ..d() };
    for second in
        [refuse(Say(b"550 5.1.1 no\r\n")), Script { dot: Say(b"554 5.7.1 no\r\n"), ..d() }, Script { dot: Close, ..d() }]
    {
        let (server, smtp, message) = lost_answer(true, second).await;
        let asked = smtp.ask_again(&message).await;
        assert!(matches!(&asked, Reconciled::NotKnown { .. }), "{asked:?}");
        server.finished().await;
        assert_eq!(server.commits(), 1);
    }
}

#[tokio::test]
async fn a_message_without_the_key_of_these_settings_is_not_handed_over_again() {
    let server = Server::start(Script::default());
    let keyed_here = keyed(server.port);
    let plain = Smtp::new(&settings(server.port)).expect("settings");
    let mut others = settings(server.port);
    others.idempotency_header = Some("X-EE-Idempotency-Key".into());
    let other_header = Smtp::new(&others).expect("settings");
    let other_server = keyed(1);

    let message = rendered_for(&keyed_here, "Team month");
    assert_eq!(keyed_here.key_life(&message).map(|life| life.num_hours()), Some(24));
    for now in [&plain, &other_header, &other_server] {
        assert_eq!(now.key_life(&message), None);
        assert!(matches!(now.ask_again(&message).await, Reconciled::NotKnown { .. }));
    }
    for rendered_by in [&plain, &other_header, &other_server] {
        let message = rendered_for(rendered_by, "Team month");
        assert_eq!(keyed_here.key_life(&message), None);
        assert!(matches!(keyed_here.ask_again(&message).await, Reconciled::NotKnown { .. }));
    }
    server.finished().await;
    assert!(server.lines().is_empty(), "nobody has connected: {:?}", server.lines());
}

#[test]
fn the_header_is_all_that_the_setting_changes_in_the_message() {
    let (keyed, plain) = (keyed(1), Smtp::new(&settings(1)).expect("settings"));
    let text = |smtp: &Smtp| String::from_utf8(rendered_for(smtp, "Team month").bytes.to_vec()).expect("UTF-8");
    let key = keyed.key_header(&rendered_for(&keyed, "").message_id).expect("keys are on");
    let line = format!("{HEADER}: {}\r\n", key.value);
    let with = text(&keyed);
    assert_eq!(with.matches(&line).count(), 1, "{with}");
    assert_eq!(with.replace(&line, ""), text(&plain));
}
