//! What is sent to Resend, when it is sent, and what stops it.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta};
use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Reconciled, Refused, Retry, Stop},
    key,
    resend::{Resend, ResendSettings},
    smtp::Smtp,
};
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use crate::support::{
    mail::{Record, message_with, rendered_for, settings},
    resend_server::{
        Account,
        Act::{self, Begun, Early, Taken},
        Api,
        Ending::{Close, Hang, Hold, RawThenHang, Reset, Say},
        account, header, listener,
    },
};

async fn deliver(channel: &Resend, message: &Outgoing) -> Delivery {
    channel.deliver(message, &Record::allowing(), &Stop::default()).await
}

#[tokio::test]
async fn the_request_is_the_message_in_json_with_the_key_beside_it() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let message = rendered_for(&channel, "Ünal \"quotes\" & <tags>");
    let delivery = deliver(&channel, &message).await;
    let Delivery::Accepted { evidence, peer } = delivery else { panic!("{delivery:?}") };
    assert_eq!(evidence, format!("200, id {}", api.taken()[0].id));
    assert_eq!(peer, format!("127.0.0.1:{}", api.port));

    let requests = api.requests();
    let [(head, body)] = &requests[..] else { panic!("{requests:?}") };
    assert!(head.starts_with("POST /emails HTTP/1.1\r\n"), "{head}");
    assert_eq!(header(head, "authorization"), Some("Bearer re_test"));
    assert_eq!(header(head, "content-type"), Some("application/json"));
    assert_eq!(header(head, "content-length"), Some(body.len().to_string().as_str()));
    let key = channel.key_header(&message.message_id).expect("it has keys").value;
    assert_eq!(header(head, "idempotency-key"), Some(key.as_str()));
    assert!(String::from_utf8_lossy(&message.bytes).contains(&format!("\r\nResend-Idempotency-Key: {key}\r\n")));

    let head = r#"{"from":"Recount <r@example.org>","to":["anna@example.org"],"subject":"Report for June 2026: Ünal \"quotes\" & <tags>","html":"<!doctype html>"#;
    assert!(body.starts_with(head), "{body}");
    let middle = r#","text":"Ünal \"quotes\" & <tags>\r\n\r\nThe report for June 2026 is ready:\r\n\r\nhttps://recount.example.org/reports/7?a=1&b=2\r\n"#;
    assert!(body.contains(middle), "{body}");
    let tail = concat!(
        r#","headers":{"Auto-Submitted":"auto-generated","Message-ID":"<0000000000000000000000000000feed@recount.example.org>","#,
        r#""X-Recount-Job":"00000000-0000-0000-0000-000000000007"}}"#
    );
    assert!(body.ends_with(tail), "{body}");
}

#[tokio::test]
async fn folded_headers_come_whole_and_what_cannot_be_said_in_json_is_not_sent() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let with = |head: &str, body: &str| {
        let bytes = format!("{head}\r\n\r\n{body}").into_bytes();
        Outgoing { sha256: Sha256::digest(&bytes).into(), bytes: bytes.into(), ..message_with("") }
    };
    let good =
        "From: r@example.org\r\nSubject: s\r\nReferences: <1@example.org>\r\n <2@example.org>\r\nIn-Reply-To: <2@example.org>";
    assert!(matches!(deliver(&channel, &with(good, "hi")).await, Delivery::Accepted { .. }));
    let payload = &api.taken()[0].payload;
    let headers = r#""headers":{"In-Reply-To":"<2@example.org>","References":"<1@example.org> <2@example.org>"}}"#;
    assert!(payload.contains(r#""from":"r@example.org""#) && payload.ends_with(headers), "{payload}");

    let twice = format!("{good}\r\nX-A: 1\r\nX-A: 2");
    for (head, why) in [("Subject: s", "no sender"), ("From: r@example.org", "no subject"), (twice.as_str(), "X-A twice")] {
        let delivery = deliver(&channel, &with(head, "hi")).await;
        let said = |evidence: &str| evidence.contains(why);
        assert!(
            matches!(&delivery, Delivery::NotAccepted { phase: DeliveryPhase::Prepare, retry: Retry::NeedsPerson, evidence } if said(evidence)),
            "{delivery:?}"
        );
    }
    let changed = Outgoing { sha256: [0; 32], ..message_with("hi") };
    assert!(matches!(deliver(&channel, &changed).await, Delivery::NotAccepted { phase: DeliveryPhase::Prepare, .. }));
    assert_eq!(api.requests().len(), 1);
}

/// A port where a TLS handshake never ends.
async fn mute() -> (u16, tokio::sync::mpsc::UnboundedReceiver<()>) {
    let (begun, sees_begun) = tokio::sync::mpsc::unbounded_channel();
    let port = listener(move |mut socket| {
        let begun = begun.clone();
        async move {
            let _ = socket.read(&mut [0; 1024]).await;
            let _ = begun.send(());
            while socket.read(&mut [0; 1024]).await.is_ok_and(|n| n > 0) {}
        }
    });
    (port.await, sees_begun)
}

#[tokio::test]
async fn a_connection_that_never_stands_ends_by_its_time_or_by_a_cancel() {
    for cancel in [true, false] {
        let (port, mut begun) = mute().await;
        let base_url = format!("https://127.0.0.1:{port}");
        let channel = Resend::new(&account(&base_url)).expect("settings");
        let (message, record, stop) = (rendered_for(&channel, "t"), Record::allowing(), Stop::default());
        let (delivery, ()) = tokio::join!(channel.deliver(&message, &record, &stop), async {
            begun.recv().await.expect("the listener lives");
            if cancel {
                stop.cancel.cancel();
            } else {
                tokio::time::pause();
                tokio::time::advance(Duration::from_secs(31)).await;
                tokio::time::resume();
            }
        });
        if cancel {
            assert_eq!(delivery, Delivery::BrokenOff { phase: DeliveryPhase::Connect, cause: Cause::Cancelled });
        } else {
            let evidence = "no answer within 30 s".to_owned();
            assert_eq!(delivery, Delivery::NotAccepted { phase: DeliveryPhase::Connect, evidence, retry: Retry::Later });
        }
        assert_eq!(record.asked(), 0);
    }
}

#[tokio::test]
async fn while_the_record_does_not_agree_no_byte_of_the_message_goes() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let message = rendered_for(&channel, "t");

    let stop = Stop::default();
    stop.cancel.cancel();
    let record = Record::allowing();
    let delivery = channel.deliver(&message, &record, &stop).await;
    assert_eq!(delivery, Delivery::BrokenOff { phase: DeliveryPhase::Prepare, cause: Cause::Cancelled });
    assert_eq!(record.asked(), 0);

    for why in [Refused::Cancelled, Refused::LeaseLost] {
        let record = Record::refusing(why.clone());
        let delivery = channel.deliver(&message, &record, &Stop::default()).await;
        assert_eq!(delivery, Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause: Cause::Refused(why) });
        assert_eq!(record.asked(), 1);
    }
    let stop = Stop::default();
    let record = Record::allowing_and_cancelling(stop.cancel.clone());
    let delivery = channel.deliver(&message, &record, &stop).await;
    assert_eq!(delivery, Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause: Cause::Cancelled });

    api.closed().await;
    assert_eq!((api.requests().len(), api.taken().len()), (0, 0));
}

/// A record that agrees only when the service has seen the head of the request, and perhaps has left.
struct Late<'a> {
    api: &'a Api,
    service_leaves: bool,
}

#[async_trait]
impl Journal for Late<'_> {
    async fn in_doubt(&self) -> Result<(), Refused> {
        self.api.head_seen().await;
        assert_eq!(self.api.without_body(), 1, "the head has come, and nothing of the message");
        if self.service_leaves {
            self.api.closed().await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn the_message_waits_behind_its_head_until_the_record_agrees() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let late = Late { api: &api, service_leaves: false };
    let delivery = channel.deliver(&rendered_for(&channel, "t"), &late, &Stop::default()).await;
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    assert_eq!((api.without_body(), api.taken().len()), (0, 1));
}

#[tokio::test]
async fn a_service_that_leaves_before_the_message_has_not_accepted_it() {
    for (ending, refused) in [(Say(401, ""), true), (Close, false), (Reset, false)] {
        let api = Api::start(vec![Early(ending)]).await;
        let channel = api.channel();
        let late = Late { api: &api, service_leaves: true };
        let delivery = channel.deliver(&rendered_for(&channel, "t"), &late, &Stop::default()).await;
        match &delivery {
            Delivery::NotAccepted { phase, .. } => assert!(!refused || *phase == DeliveryPhase::Auth, "{delivery:?}"),
            // The loss was noticed only when the message had been handed to the connection.
            Delivery::Unconfirmed { .. } => assert!(!refused, "{delivery:?}"),
            _ => panic!("{delivery:?}"),
        }
        assert_eq!(api.taken().len(), 0);
    }
}

#[tokio::test]
async fn after_the_message_a_cancel_waits_for_the_answer_and_giving_up_leaves_it_open() {
    for give_up in [false, true] {
        let api = Api::start(vec![Taken(Hold)]).await;
        let channel = api.channel();
        let (message, record, stop) = (rendered_for(&channel, "t"), Record::allowing(), Stop::default());
        let (delivery, ()) = tokio::join!(channel.deliver(&message, &record, &stop), async {
            api.reached().await;
            stop.cancel.cancel();
            if give_up {
                stop.give_up.cancel();
            } else {
                // The cancel has been seen by now if it is looked at: then the client is gone.
                tokio::task::yield_now().await;
                api.release();
            }
        });
        api.closed().await;
        if give_up {
            let evidence = "the program had to end before the mail service answered".to_owned();
            assert_eq!(delivery, Delivery::Unconfirmed { evidence });
        } else {
            assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
        }
        let asked = channel.ask_again(&message).await;
        assert!(matches!(asked, Reconciled::Accepted { .. }), "{asked:?}");
        assert_eq!(api.taken().len(), 1);
    }
}

#[tokio::test]
async fn silence_and_the_whole_wait_have_limits_of_their_own() {
    let half = RawThenHang("HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"id\"");
    for (act, idle, maximum, said) in [
        (Taken(Hang), 5, 600, "no answer within 5 s"),
        (Taken(half.clone()), 5, 600, "200, but its text could not be read: no answer within 5 s"),
        (Taken(Hang), 600, 7, "no answer within 7 s"),
        (Taken(half), 600, 7, "no answer within 7 s"),
    ] {
        let api = Api::start(vec![act]).await;
        let settings = ResendSettings { idle_seconds: idle, max_seconds: maximum, ..api.settings() };
        let channel = Resend::new(&settings).expect("settings");
        let (message, record, stop) = (rendered_for(&channel, "t"), Record::allowing(), Stop::default());
        let (delivery, ()) = tokio::join!(channel.deliver(&message, &record, &stop), async {
            api.reached().await;
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(8)).await;
            tokio::time::resume();
        });
        assert_eq!(delivery, Delivery::Unconfirmed { evidence: said.to_owned() });
    }
}

#[tokio::test]
async fn a_key_is_used_only_while_the_service_knows_it() {
    let api = Api::start(vec![Taken(Close)]).await;
    let channel = api.channel();
    let message = rendered_for(&channel, "t");
    assert!(matches!(deliver(&channel, &message).await, Delivery::Unconfirmed { .. }));
    let life = channel.key_life(&message).expect("it has the key");
    let first = DateTime::from_timestamp(1_782_900_000, 0).expect("a time");

    let hours = TimeDelta::hours(22);
    api.advance(hours);
    assert!(key::recognised(life, first, first + hours));
    assert!(matches!(channel.ask_again(&message).await, Reconciled::Accepted { .. }));
    assert_eq!(api.taken().len(), 1);

    assert!(!key::recognised(life, first, first + TimeDelta::hours(23)));
    // Why nobody may ask then: the service has forgotten, and takes it for a new message.
    api.advance(TimeDelta::hours(2));
    channel.ask_again(&message).await;
    assert_eq!(api.taken().len(), 2);
}

#[tokio::test]
async fn a_message_rendered_for_another_channel_or_account_is_not_handed_over_again() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let other = Resend::new(&ResendSettings { api_key: SecretString::from("re_other"), ..api.settings() }).expect("settings");
    let smtp = Smtp::new(&settings(1)).expect("settings");
    for rendered_by in [&other as &dyn Channel, &smtp] {
        let message = rendered_for(rendered_by, "t");
        assert_eq!(channel.key_life(&message), None);
        assert!(matches!(channel.ask_again(&message).await, Reconciled::NotKnown { .. }));
    }
    assert!(api.requests().is_empty());
    // A first attempt needs no such proof.
    assert!(matches!(deliver(&channel, &rendered_for(&smtp, "t")).await, Delivery::Accepted { .. }));
}

async fn listed(account: Account, acts: Vec<Act>, others: usize) -> Reconciled {
    let api = Api::start_for(acts, account).await;
    let channel = api.channel();
    let message = rendered_for(&channel, "t");
    deliver(&channel, &message).await;
    for number in 0..others {
        let id = format!("<{number}@example.org>");
        let other = crate::support::mail::message_with_id(&id, "hi");
        assert!(matches!(deliver(&channel, &other).await, Delivery::Accepted { .. }));
    }
    let before = api.taken().len();
    let reconciled = channel.reconcile(&message).await;
    assert_eq!(api.taken().len(), before, "looking changes nothing");
    reconciled
}

#[tokio::test]
async fn a_message_that_the_service_lists_was_accepted_and_not_finding_it_proves_nothing() {
    let usual = Account { keeps_message_ids: true, may_list: true };
    let found = |reconciled: Reconciled| match reconciled {
        Reconciled::Accepted { evidence } => evidence.ends_with("id 00000000-0000-4000-8000-000000000001"),
        Reconciled::NotKnown { .. } => false,
        Reconciled::NotAccepted { .. } => panic!("a list proves no absence"),
        Reconciled::NotAsked { reason } => panic!("the list can be read: {reason}"),
    };
    assert!(found(listed(usual, vec![Taken(Close)], 0).await));
    assert!(found(listed(usual, vec![Taken(Close)], 150).await), "on the second page");
    assert!(!found(listed(usual, vec![Begun(Close)], 1).await));
    assert!(!found(listed(Account { keeps_message_ids: false, ..usual }, vec![Taken(Close)], 1).await));
    let unread = listed(Account { may_list: false, ..usual }, vec![Taken(Close)], 1).await;
    assert!(matches!(&unread, Reconciled::NotAsked { reason } if reason.contains("401")), "{unread:?}");
}
