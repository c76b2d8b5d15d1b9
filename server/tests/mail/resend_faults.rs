//! Every way in which a mail service over HTTP can fail, at every point: what Recount says about it, compared with what the
//! service really took, and what handing the message over again under its key brings to light.
//!
//! A hang is not waited for: once the service hangs, the clock is moved past every time-out.

use std::{
    fmt::Write as _,
    io::{Write as _, stdout},
    time::Duration,
};

use mail::{
    channel::{Channel, Delivery, DeliveryPhase, Reconciled, Retry, Stop},
    resend::Resend,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::support::{
    mail::{Record, on_one_thread, rendered_for},
    resend_server::{
        Act::{self, Begun, Dropped, Serve, Taken},
        Api,
        Ending::{Close, Hang, Hold, Raw, RawThenHang, Reset, Say},
        account, listener,
    },
};

/// What a case must come to.
enum Expected {
    Accepted,
    NotAccepted(DeliveryPhase, Retry),
    Unconfirmed,
}
use Expected::{Accepted, NotAccepted, Unconfirmed};

struct Case {
    name: String,
    act: Act,
    expected: Expected,
    taken: usize,
}

fn case(name: impl Into<String>, expected: Expected, taken: usize, act: Act) -> Case {
    Case { name: name.into(), act, expected, taken }
}

/// Cases in which the service has the message, or a part of it, and nobody learns what became of it.
fn without_an_answer() -> Vec<Case> {
    let mut cases = vec![
        case("message begun: close", Unconfirmed, 0, Begun(Close)),
        case("message begun: reset", Unconfirmed, 0, Begun(Reset)),
        case("message begun: hang", Unconfirmed, 0, Begun(Hang)),
    ];
    for (taken, truth) in [(0, "dropped"), (1, "taken")] {
        let endings = [
            ("close", Close),
            ("reset", Reset),
            ("hang", Hang),
            ("half a status line", Raw("HTTP/1.1 20")),
            ("half a head", Raw("HTTP/1.1 200 OK\r\ncontent-le")),
            ("200 and half a text", Raw("HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"id\":\"4")),
            ("200 and half a text, hang", RawThenHang("HTTP/1.1 200 OK\r\ncontent-length: 40\r\n\r\n{\"id\":\"4")),
            ("200 without a text", Say(200, "")),
            ("200 without an id", Say(200, r#"{"object":"email"}"#)),
            ("200 and garbage", Say(200, "<html>welcome</html>")),
            ("204", Raw("HTTP/1.1 204 x\r\n\r\n")),
            ("not HTTP", Raw("220 mx.test ESMTP\r\n")),
            ("303", Say(303, "")),
            ("308", Say(308, "")),
            ("500", Say(500, r#"{"statusCode":500,"name":"application_error","message":"unexpected"}"#)),
            ("502", Say(502, "<html>bad gateway</html>")),
            ("503", Say(503, "")),
            ("504", Say(504, "")),
        ];
        for (name, ending) in endings {
            let act = if taken == 1 { Taken(ending) } else { Dropped(ending) };
            cases.push(case(format!("{truth}: {name}"), Unconfirmed, taken, act));
        }
    }
    cases
}

/// Every 4xx. Only the documented refusals are proof.
fn refusals() -> Vec<Case> {
    let named = |name: &'static str| match name {
        "invalid_idempotent_request" => r#"{"statusCode":409,"name":"invalid_idempotent_request","message":"other payload"}"#,
        "concurrent_idempotent_requests" => r#"{"statusCode":409,"name":"concurrent_idempotent_requests","message":"busy"}"#,
        "invalid_api_key" => r#"{"statusCode":403,"name":"invalid_api_key","message":"API key is invalid"}"#,
        _ => "",
    };
    let mut cases: Vec<Case> = (400..500)
        .map(|status| {
            let expected = match status {
                401 => NotAccepted(DeliveryPhase::Auth, Retry::NeedsPerson),
                400 | 403 | 404 | 405 | 413 | 422 | 451 => NotAccepted(DeliveryPhase::Answer, Retry::NeedsPerson),
                429 => NotAccepted(DeliveryPhase::Answer, Retry::Later),
                _ => Unconfirmed,
            };
            case(status.to_string(), expected, 0, Dropped(Say(status, "")))
        })
        .collect();
    cases.extend([
        case(
            "403 invalid_api_key",
            NotAccepted(DeliveryPhase::Auth, Retry::NeedsPerson),
            0,
            Dropped(Say(403, named("invalid_api_key"))),
        ),
        case("409 invalid_idempotent_request", Unconfirmed, 0, Dropped(Say(409, named("invalid_idempotent_request")))),
        case("409 concurrent_idempotent_requests", Unconfirmed, 0, Dropped(Say(409, named("concurrent_idempotent_requests")))),
        case("taken: 408", Unconfirmed, 1, Taken(Say(408, ""))),
        case("taken: 409", Unconfirmed, 1, Taken(Say(409, ""))),
    ]);
    cases
}

fn accepted() -> Vec<Case> {
    vec![
        case("all well", Accepted, 1, Serve),
        case("taken: 201", Accepted, 1, Taken(Say(201, r#"{"id":"4"}"#))),
        case(
            "taken: 200 and close instead of a length",
            Accepted,
            1,
            Taken(Raw("HTTP/1.1 200 OK\r\n\r\n{\"id\":\"00000000-0000-4000-8000-000000000001\"}")),
        ),
    ]
}

/// Where there is no service at all. Nothing is in doubt then, and the failure is proof.
fn without_a_connection() -> Vec<(&'static str, Delivery, usize)> {
    let deliver = async |base_url: String| {
        let channel = Resend::new(&account(&base_url)).expect("settings");
        let record = Record::allowing();
        let delivery = channel.deliver(&rendered_for(&channel, "t"), &record, &Stop::default()).await;
        (delivery, record.asked())
    };
    on_one_thread(async {
        let free = {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
            listener.local_addr().expect("bound").port()
        };
        let closing = listener(|socket| async move { drop(socket) }).await;
        let without_tls = listener(|mut socket| async move {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = socket.read(&mut [0; 1024]).await;
        });
        let mut seen = Vec::new();
        for (name, base_url) in [
            // A name with so long a part is asked of no name server.
            ("connect: no such host", format!("https://{}.invalid", "a".repeat(64))),
            ("connect: refused", format!("http://127.0.0.1:{free}")),
            ("connect: close instead of TLS", format!("https://127.0.0.1:{closing}")),
            ("connect: no TLS there", format!("https://127.0.0.1:{}", without_tls.await)),
        ] {
            let (delivery, asked) = deliver(base_url).await;
            seen.push((name, delivery, asked));
        }
        seen
    })
}

/// One attempt, and where its outcome is open, the question under the key.
fn run(act: Act) -> (Delivery, usize, Option<Reconciled>, usize) {
    on_one_thread(async {
        let api = Api::start(vec![act]).await;
        let channel = api.channel();
        let message = rendered_for(&channel, "Team month");
        let (record, stop) = (Record::allowing(), Stop::default());
        let delivery = {
            let mut delivery = std::pin::pin!(channel.deliver(&message, &record, &stop));
            tokio::select! {
                delivery = &mut delivery => delivery,
                () = api.reached() => {
                    tokio::time::pause();
                    tokio::time::advance(Duration::from_hours(1)).await;
                    let delivery = delivery.await;
                    tokio::time::resume();
                    delivery
                }
            }
        };
        api.closed().await;
        let taken = api.taken().len();
        assert_eq!(record.asked(), 1, "the record says in_doubt before the message goes");
        let asked = match &delivery {
            Delivery::Unconfirmed { .. } => Some(channel.ask_again(&message).await),
            _ => None,
        };
        api.finished().await;
        (delivery, taken, asked, api.taken().len())
    })
}

fn matches(expected: &Expected, delivery: &Delivery) -> bool {
    match (expected, delivery) {
        (Accepted, Delivery::Accepted { evidence, peer }) => evidence.contains(", id ") && peer.starts_with("127.0.0.1:"),
        (NotAccepted(phase, retry), Delivery::NotAccepted { phase: seen, retry: who, evidence }) => {
            phase == seen && retry == who && !evidence.is_empty()
        }
        (Unconfirmed, Delivery::Unconfirmed { evidence }) => !evidence.is_empty(),
        _ => false,
    }
}

#[test]
fn the_outcome_is_never_better_or_worse_than_the_proof() {
    let mut table = format!("{:<42} {:<6} {:<13} {:<13} taken then\n", "Resend: case", "taken", "outcome", "asked again");
    let mut wrong = Vec::new();
    let (mut count, mut undocumented) = (0, 0);
    for (name, delivery, asked) in without_a_connection() {
        let _ = writeln!(table, "{name:<42} {:<6} {:<13} {:<13} 0", 0, "not accepted", "–");
        let who = if name.contains("no TLS") { Retry::NeedsPerson } else { Retry::Later };
        if !matches(&NotAccepted(DeliveryPhase::Connect, who), &delivery) || asked != 0 {
            wrong.push(format!("{name}: {delivery:?}, in doubt {asked} times"));
        }
    }
    for case in [without_an_answer(), refusals(), accepted()].into_iter().flatten() {
        count += 1;
        let (delivery, taken, asked, then) = run(case.act);
        let outcome = match &delivery {
            Delivery::Accepted { .. } => "accepted",
            Delivery::NotAccepted { .. } => "not accepted",
            Delivery::BrokenOff { .. } => "broken off",
            Delivery::Unconfirmed { .. } => "unconfirmed",
        };
        let answer = match &asked {
            None => "–",
            Some(Reconciled::Accepted { .. }) => "accepted",
            Some(Reconciled::NotAccepted { .. }) => "not accepted",
            Some(Reconciled::NotKnown { .. }) => "not known",
            Some(Reconciled::NotAsked { .. }) => "not asked",
        };
        if case.name.parse::<u16>().is_ok_and(|status| !matches!(case.expected, NotAccepted(..)) && !matches!(status, 408 | 409))
        {
            undocumented += 1;
        } else {
            let _ = writeln!(table, "{:<42} {taken:<6} {outcome:<13} {answer:<13} {then}", case.name);
        }
        // The question is answered with the first message's id, or makes the first message now.
        let settled = match &asked {
            None => then == taken,
            Some(Reconciled::Accepted { evidence }) => {
                evidence.starts_with("200, id 00000000-0000-4000-8000-000000000001") && then == 1
            }
            Some(_) => false,
        };
        if !matches(&case.expected, &delivery) || taken != case.taken || !settled {
            wrong.push(format!("{}: {delivery:?}, then {asked:?}", case.name));
        }
    }
    let name = format!("each of the {undocumented} other 4xx");
    let _ = writeln!(table, "{name:<42} {:<6} {:<13} {:<13} 1", 0, "unconfirmed", "accepted");
    stdout().lock().write_all(table.as_bytes()).expect("standard output");
    assert!(wrong.is_empty(), "wrong: {wrong:#?}");
    assert!(count >= 147, "{count}");
}

#[tokio::test]
async fn two_at_once_under_one_key_make_one_message() {
    let api = Api::start(vec![Taken(Hold)]).await;
    let channel = api.channel();
    let message = rendered_for(&channel, "Team month");
    let (record, stop) = (Record::allowing(), Stop::default());
    let (first, ()) = tokio::join!(channel.deliver(&message, &record, &stop), async {
        api.reached().await;
        let second = channel.deliver(&message, &record, &stop).await;
        assert!(matches!(&second, Delivery::Unconfirmed { evidence } if evidence.contains("concurrent")), "{second:?}");
        let asked = channel.ask_again(&message).await;
        assert!(matches!(&asked, Reconciled::NotKnown { evidence } if evidence.contains("concurrent")), "{asked:?}");
        api.release();
    });
    assert!(matches!(first, Delivery::Accepted { .. }), "{first:?}");
    let asked = channel.ask_again(&message).await;
    assert!(
        matches!(&asked, Reconciled::Accepted { evidence } if evidence.starts_with(&format!("200, id {}", api.taken()[0].id)))
    );
    assert_eq!(api.taken().len(), 1);
}

#[tokio::test]
async fn other_text_under_the_same_key_is_no_answer_about_either() {
    let api = Api::start(Vec::new()).await;
    let channel = api.channel();
    let (first, other) = (rendered_for(&channel, "Team month"), rendered_for(&channel, "Other month"));
    assert_eq!(first.message_id, other.message_id);
    let (record, stop) = (Record::allowing(), Stop::default());
    assert!(matches!(channel.deliver(&first, &record, &stop).await, Delivery::Accepted { .. }));
    let delivery = channel.deliver(&other, &record, &stop).await;
    assert!(
        matches!(&delivery, Delivery::Unconfirmed { evidence } if evidence.contains("invalid_idempotent_request")),
        "{delivery:?}"
    );
    assert!(matches!(channel.ask_again(&other).await, Reconciled::NotKnown { .. }));
    assert_eq!(api.taken().len(), 1);
}
