//! Every way in which a mail server can fail, at every point: what Recount says about it, compared
//! with what the server really kept, over each kind of connection.
//!
//! Each case has a runtime and a clock of its own. A hang is not waited for: once the server hangs,
//! the clock is moved past every time-out of RFC 5321, so a slow machine changes nothing.

use std::{fmt::Write as _, io::Write as _};

use mail::channel::{Delivery, DeliveryPhase, Retry};

use crate::support::{
    mail::{huge_message, message},
    smtp_run::{
        Expected::{self, Accepted, NotAccepted, Unconfirmed},
        Transport, later, matches, person, run_over,
    },
    smtp_server::{
        Act::{self, Close, Cut, Freeze, Hang, Hold, Reset, Say, SayAndClose},
        Script,
    },
};

struct Case {
    name: &'static str,
    script: Script,
    expected: Expected,
    commits: usize,
}

fn case(name: &'static str, expected: Expected, commits: usize, script: Script) -> Case {
    Case { name, script, expected, commits }
}

fn before_the_message() -> Vec<Case> {
    let d = Script::default;
    let greeting = |act: Act| Script { greeting: act, ..d() };
    let ehlo = |act: Act| Script { ehlo: act, ..d() };
    let again = |act: Act| Script { ehlo_again: act, ..d() };
    let mail = |act: Act| Script { mail: act, ..d() };
    let rcpt = |act: Act| Script { rcpt: act, ..d() };
    let data = |act: Act| Script { data: act, ..d() };
    vec![
        case("greeting: close", later(DeliveryPhase::Connect), 0, greeting(Close)),
        case("greeting: reset", later(DeliveryPhase::Connect), 0, greeting(Reset)),
        case("greeting: hang", later(DeliveryPhase::Connect), 0, greeting(Hang)),
        case("greeting: 554", person(DeliveryPhase::Connect), 0, greeting(Say(b"554 no\r\n"))),
        case("greeting: not SMTP", later(DeliveryPhase::Connect), 0, greeting(Say(b"HTTP/1.1 400 Bad Request\r\n"))),
        case("EHLO: 421 and close", later(DeliveryPhase::Connect), 0, ehlo(SayAndClose(b"421 busy\r\n"))),
        case("EHLO: hang", later(DeliveryPhase::Connect), 0, ehlo(Hang)),
        case("second EHLO: hang", later(DeliveryPhase::Hello), 0, again(Hang)),
        case("second EHLO: message too large", person(DeliveryPhase::MailFrom), 0, again(Say(b"250-mx\r\n250 SIZE 20\r\n"))),
        case("MAIL: 451", later(DeliveryPhase::MailFrom), 0, mail(Say(b"451 4.3.0 later\r\n"))),
        case("MAIL: 553", person(DeliveryPhase::MailFrom), 0, mail(Say(b"553 5.1.8 sender\r\n"))),
        case("MAIL: hang", later(DeliveryPhase::MailFrom), 0, mail(Hang)),
        case("MAIL: 354 (violation)", later(DeliveryPhase::MailFrom), 0, mail(Say(b"354 go\r\n"))),
        case("RCPT: 550", person(DeliveryPhase::RcptTo), 0, rcpt(Say(b"550 5.1.1 nobody\r\n"))),
        case("RCPT: 452", later(DeliveryPhase::RcptTo), 0, rcpt(Say(b"452 4.5.3 too many\r\n"))),
        case("RCPT: reset", later(DeliveryPhase::RcptTo), 0, rcpt(Reset)),
        case("RCPT: hang", later(DeliveryPhase::RcptTo), 0, rcpt(Hang)),
        case("DATA: 554", person(DeliveryPhase::Data), 0, data(Say(b"554 5.5.1 no\r\n"))),
        case("DATA: 250 (violation)", later(DeliveryPhase::Data), 0, data(Say(b"250 ok\r\n"))),
        case("DATA: close", later(DeliveryPhase::Data), 0, data(Close)),
        case("DATA: hang", later(DeliveryPhase::Data), 0, data(Hang)),
    ]
}

/// What was said before the question is no answer to it, and a second answer takes the first one's worth away.
fn unasked() -> Vec<Case> {
    let d = Script::default;
    let mut cases = vec![
        case("greeting: twice", later(DeliveryPhase::Connect), 0, Script { greeting: Say(b"220 mx\r\n220 mx\r\n"), ..d() }),
        case(
            "second EHLO: 250 behind it",
            later(DeliveryPhase::MailFrom),
            0,
            Script { ehlo_again: Say(b"250-mx\r\n250 SIZE 1000000\r\n250 ok\r\n"), ..d() },
        ),
        case("MAIL: 250 twice", later(DeliveryPhase::RcptTo), 0, Script { mail: Say(b"250 ok\r\n250 ok\r\n"), ..d() }),
        case("RCPT: 250 and 354", later(DeliveryPhase::Data), 0, Script { rcpt: Say(b"250 ok\r\n354 go on\r\n"), ..d() }),
    ];
    let with_354: [(&str, &'static [u8]); 4] = [
        ("DATA: 354 and 250", b"354 go on\r\n250 2.0.0 Ok: queued as STRAY\r\n"),
        ("DATA: 354 and 550", b"354 go on\r\n550 5.7.1 no\r\n"),
        ("DATA: 354 and half a 250", b"354 go on\r\n250 2.0"),
        ("DATA: 354 and noise", b"354 go on\r\n\r\n"),
    ];
    for (name, said) in with_354 {
        // Whatever it would do with the message, it never gets it.
        for (commit, dot) in [(false, Say(b"550 5.7.1 no\r\n")), (true, Say(b"250 2.0.0 ok\r\n"))] {
            cases.push(case(name, later(DeliveryPhase::Data), 0, Script { data: Say(said), commit, dot, ..d() }));
        }
    }
    for commit in [false, true] {
        let dot = |said: &'static [u8]| Script { dot: Say(said), commit, ..d() };
        let n = usize::from(commit);
        cases.extend([
            case("dot: 250 and 550", Unconfirmed, n, dot(b"250 2.0.0 ok\r\n550 5.7.1 no\r\n")),
            case("dot: 550 and 250", Unconfirmed, n, dot(b"550 5.7.1 no\r\n250 2.0.0 ok\r\n")),
            case("dot: 250 twice", Unconfirmed, n, dot(b"250 2.0.0 ok\r\n250 2.0.0 ok\r\n")),
            case("dot: 250 and half a reply", Unconfirmed, n, dot(b"250 2.0.0 ok\r\n55")),
        ]);
    }
    cases
}

fn reply_to_the_dot() -> Vec<Case> {
    let d = Script::default;
    let refusing = |act: Act| Script { dot: act, commit: false, ..d() };
    let mut cases = vec![
        case("dot: 451", later(DeliveryPhase::FinalDot), 0, refusing(Say(b"451 4.3.0 later\r\n"))),
        case("dot: 554", person(DeliveryPhase::FinalDot), 0, refusing(Say(b"554 5.7.1 spam\r\n"))),
        case("dot: 421 and close", later(DeliveryPhase::FinalDot), 0, refusing(SayAndClose(b"421 4.3.2 bye\r\n"))),
    ];
    for commit in [false, true] {
        let dot = |act: Act| Script { dot: act, commit, ..d() };
        let n = usize::from(commit);
        cases.extend([
            case("dot: close", Unconfirmed, n, dot(Close)),
            case("dot: close without farewell", Unconfirmed, n, dot(Cut)),
            case("dot: reset", Unconfirmed, n, dot(Reset)),
            case("dot: hang", Unconfirmed, n, dot(Hang)),
            case("dot: 250 after the time-out", Unconfirmed, n, dot(Hold(b"250 2.0.0 ok\r\n"))),
            case("dot: garbage", Unconfirmed, n, dot(Say(b"hello\r\n"))),
            case("dot: 354", Unconfirmed, n, dot(Say(b"354 again\r\n"))),
            case("dot: bare 250", Unconfirmed, n, dot(Say(b"250\r\n"))),
            case("dot: 250 in Latin-1", Unconfirmed, n, dot(Say(b"250 accept\xe9\r\n"))),
            case("dot: half a reply", Unconfirmed, n, dot(SayAndClose(b"25"))),
            case("dot: first line of two", Unconfirmed, n, dot(SayAndClose(b"250-x\r\n"))),
        ]);
    }
    cases
}

fn accepted() -> Vec<Case> {
    let d = Script::default;
    vec![
        case("all well", Accepted, 1, d()),
        case("RCPT: 251", Accepted, 1, Script { rcpt: Say(b"251 forwarding\r\n"), ..d() }),
        case("second EHLO: no SIZE", Accepted, 1, Script { ehlo_again: Say(b"250 mx\r\n"), ..d() }),
        case("QUIT: close", Accepted, 1, Script { quit: Close, ..d() }),
        case("QUIT: 500", Accepted, 1, Script { quit: Say(b"500 no\r\n"), ..d() }),
        case("dot: 250 and close", Accepted, 1, Script { dot: SayAndClose(b"250 q\r\n"), ..d() }),
        case("dot: 250 in two lines", Accepted, 1, Script { dot: Say(b"250-a\r\n250 b\r\n"), ..d() }),
    ]
}

fn body() -> Vec<Case> {
    let cut = |act: Act| Script { body: Some((100, act)), ..Script::default() };
    // A reset may overtake the reply that explains it, so who may try again is not fixed here.
    let anyone = || NotAccepted(DeliveryPhase::Body, None);
    let mut cases = vec![
        case("body: reset", anyone(), 0, cut(Reset)),
        case("body: close", anyone(), 0, cut(Close)),
        case("body: 552 and close", anyone(), 0, cut(SayAndClose(b"552 5.3.4 too big\r\n"))),
        case("body: server stops reading", later(DeliveryPhase::Body), 0, cut(Freeze)),
    ];
    // Said early, and read on to the dot and after it: no verdict on what has not been handed over.
    let early: [(&str, &'static [u8]); 4] = [
        ("body: early 250, then 550", b"250 2.0.0 Ok: queued as STRAY\r\n"),
        ("body: early 550, then 550", b"550 5.7.1 no\r\n"),
        ("body: early 354, then 550", b"354 go on\r\n"),
        ("body: early half, then 550", b"25"),
    ];
    for (name, said) in early {
        let refusing = Script { dot: Say(b"550 5.7.1 no\r\n"), commit: false, ..cut(Say(said)) };
        cases.push(case(name, later(DeliveryPhase::Body), 0, refusing));
    }
    cases.push(case("body: early 550, then committed", later(DeliveryPhase::Body), 0, cut(Say(b"550 5.7.1 no\r\n"))));
    cases
}

/// What a row of the table says about an outcome.
fn in_words(delivery: &Delivery) -> (String, &'static str) {
    match delivery {
        Delivery::Accepted { .. } => (DeliveryPhase::FinalDot.to_string(), "accepted"),
        Delivery::NotAccepted { phase, retry: Retry::Later, .. } => (phase.to_string(), "not accepted, later again"),
        Delivery::NotAccepted { phase, retry: Retry::NeedsPerson, .. } => (phase.to_string(), "not accepted, needs a person"),
        Delivery::BrokenOff { phase, .. } => (phase.to_string(), "broken off"),
        Delivery::Unconfirmed { .. } => (DeliveryPhase::FinalDot.to_string(), "unconfirmed"),
    }
}

#[test]
fn the_outcome_is_never_better_or_worse_than_the_proof() {
    let (small, large) = (message(), huge_message());
    let transports = Transport::all();
    let mut table =
        String::from("\nWhat Recount says when a mail server fails, and how many messages the server has committed\n");
    let _ = writeln!(table, "{:<32} {:<42} {:<30} plain STARTTLS TLS", "case", "where it ended", "outcome");
    let mut wrong = Vec::new();
    let mut count = 0;
    let groups = [
        (before_the_message(), &small),
        (unasked(), &small),
        (body(), &large),
        (reply_to_the_dot(), &small),
        (accepted(), &small),
    ];
    for (cases, message) in groups {
        for Case { name, script, expected, commits } in cases {
            let ends = transports.each_ref().map(|transport| run_over(transport, script.clone(), message, false));
            for (delivery, committed, _) in &ends {
                count += 1;
                if !matches(&expected, delivery) || *committed != commits {
                    wrong.push(format!("{name}: {delivery:?}, {committed} committed"));
                }
            }
            let (phase, outcome) = in_words(&ends[0].0);
            let [plain, upgraded, implicit] = ends.map(|(_, committed, _)| committed);
            let _ = writeln!(table, "{name:<32} {phase:<42} {outcome:<30} {plain:>5} {upgraded:>8} {implicit:>3}");
        }
    }
    let _ = writeln!(table, "{count} cases\n");
    std::io::stdout().lock().write_all(table.as_bytes()).expect("stdout can be written");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 3 * 82);
}
