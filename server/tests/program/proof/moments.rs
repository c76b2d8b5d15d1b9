//! A Cancel at the moments that are no fail point: while queued, in the hold, in a back-off, twice, from another device.

use std::io::Write;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::world::{Act, Channel, People, TWO, World};
use crate::support::{
    gate::Arrival,
    instance::PATIENCE,
    smtp_server::{Act::Say, Script, Server},
};

/// Between the final dot and its reply: nothing can stop the message there, and nobody knows yet what became of it.
pub const AT_THE_DOT: &str = "smtp server has accepted the message and has not said so";

fn tell(moment: &str, sentence: &Value) {
    writeln!(std::io::stdout().lock(), "Cancel {moment}: {}", sentence.as_str().unwrap()).unwrap();
}

/// Waits until somebody stands at the point.
pub async fn stands(told: tokio::sync::oneshot::Receiver<Arrival>) -> Arrival {
    timeout(PATIENCE, told).await.expect("it comes there").expect("the gate is open")
}

fn named(server: &Server) -> usize {
    server.lines().iter().filter(|line| line.starts_with("RCPT")).count()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_cancel_while_queued_is_final_at_once_and_survives_a_kill() {
    let people = People::new().await;
    for is_killed in [false, true] {
        let World { home, token, gate, smtp, .. } = World::new(&people, Channel::Smtp).await;
        let mut served = home.serve_held(&gate.socket).await;
        // The only worker is busy with the first job for as long as the test likes.
        let standing = gate.hold_only("before reading 2026-06-03-meeting.md");
        let first = served.order(&token, "first", TWO).await;
        let busy = stands(standing).await;
        let second = served.order(&token, "second", TWO).await;
        assert_eq!(served.job(&token, &second).await["headline"], "Waiting to start");
        let answer = served.cancel(&token, &second).await;
        assert_eq!((&answer["outcome"], &answer["job"]["phase"]), (&json!("accepted"), &json!("cancelled")));
        if is_killed {
            served.kill().await;
            drop(busy);
            served = home.serve(&[]).await;
        } else {
            busy.go();
        }
        assert_eq!(served.end_of(&token, &first).await["phase"], "finished");
        let job = served.job(&token, &second).await;
        assert_eq!(job["headline"], "Cancelled. Nothing was saved or sent");
        assert_eq!(served.headline_on_page(&token, &second).await, job["headline"].as_str().unwrap());
        assert!(job["steps"].as_array().unwrap().iter().all(|step| step["state"] == "skipped"), "{job}");
        tell(if is_killed { "while queued, and killed" } else { "while queued" }, &job["headline"]);
        served.terminate().await;
        let smtp = smtp.unwrap();
        smtp.finished().await;
        assert_eq!((smtp.commits(), named(&smtp)), (2, 2), "only the first job has sent anything");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_hold_is_clean_whoever_was_killed_before_or_after() {
    let people = People::new().await;
    for hold in ["3600", "approval"] {
        let World { home, token, smtp, .. } = World::scripted(&people, Script::default()).await;
        let smtp = smtp.unwrap();
        let served = home.serve(&[]).await;
        let id = served.order_held(&token, "june", TWO, hold).await;
        served.settled(&token, &id, |job| !job["hold"].is_null()).await;
        served.kill().await;

        let served = home.serve(&[]).await;
        assert_eq!(served.job(&token, &id).await["headline"], "Report saved; email not sent yet");
        let answer = served.cancel(&token, &id).await;
        assert_eq!((&answer["outcome"], &answer["job"]["phase"]), (&json!("accepted"), &json!("cancelled")));
        served.kill().await;

        let served = home.serve(&[]).await;
        // Too late: there is nothing left that could be let go.
        let job = served.approve(&token, &id).await;
        assert_eq!(job["headline"], "Cancelled. Report saved; email not started");
        assert_eq!(served.headline_on_page(&token, &id).await, job["headline"].as_str().unwrap());
        tell(&format!("in the hold ({hold})"), &job["headline"]);
        served.terminate().await;
        smtp.finished().await;
        assert_eq!((smtp.commits(), named(&smtp)), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_a_back_off_ends_it_also_when_the_program_is_killed_then() {
    let people = People::new().await;
    for is_killed in [false, true] {
        let script = Script { rcpt: Say(b"451 4.3.0 later\r\n"), ..Script::default() };
        let World { home, token, smtp, .. } = World::scripted(&people, script).await;
        let smtp = smtp.unwrap();
        let mut served = home.serve(&[]).await;
        let id = served.order(&token, "june", TWO).await;
        let is_tried = |job: &Value| {
            let effects = job["effects"].as_array().unwrap();
            effects.iter().filter(|effect| effect["outcome"] == "not_done").count() == 2
        };
        served.settled(&token, &id, is_tried).await;
        let answer = served.cancel(&token, &id).await;
        assert_eq!(answer["outcome"], "accepted");
        if is_killed {
            served.kill().await;
            served = home.serve(&[]).await;
        }
        let job = served.end_of(&token, &id).await;
        assert_eq!(job["headline"], "Cancelled. Report saved; email not sent");
        assert_eq!(served.headline_on_page(&token, &id).await, job["headline"].as_str().unwrap());
        tell(if is_killed { "in a back-off, and killed" } else { "in a back-off" }, &job["headline"]);
        served.terminate().await;
        smtp.finished().await;
        let begun =
            |job: &Value| -> u64 { job["effects"].as_array().unwrap().iter().filter_map(|e| e["attempts"].as_u64()).sum() };
        assert_eq!(begun(&job), begun(&answer["job"]), "no attempt after the cancel");
        assert_eq!(smtp.commits(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_cancel_pressed_twice_by_a_page_that_is_closed_then_is_seen_by_another_device() {
    let people = People::new().await;
    let World { home, token, gate, smtp, .. } = World::new(&people, Channel::Smtp).await;
    let served = home.serve_held(&gate.socket).await;
    let standing = gate.hold_only(AT_THE_DOT);
    let id = served.order(&token, "june", TWO).await;
    let standing = stands(standing).await;
    let (desktop, phone) = (served.browser().await, served.browser().await);
    assert_ne!(desktop.cookie, phone.cookie);
    assert_eq!(phone.headline(&id).await, "E-mailing the link (0 of 2)");
    desktop.cancel(&id).await;
    drop(desktop);
    assert_eq!(phone.headline(&id).await, "Stopping…");
    let first = served.job(&token, &id).await["cancel"].clone();
    phone.cancel(&id).await;
    let again = served.cancel(&token, &id).await;
    assert_eq!((&again["outcome"], &again["job"]["cancel"]), (&json!("already_requested"), &first));
    assert_eq!(phone.headline(&id).await, "Stopping…");
    standing.go();
    let job = served.end_of(&token, &id).await;
    let laptop = served.browser().await;
    for page in [phone.headline(&id).await, laptop.headline(&id).await] {
        assert_eq!(page, "Cancelled. Report saved; email accepted for 1 of 2");
    }
    assert_eq!((&job["cancel"], job["headline"].as_str()), (&first, Some("Cancelled. Report saved; email accepted for 1 of 2")));
    tell("twice, the page closed, seen from another device", &job["headline"]);
    served.terminate().await;
    let smtp = smtp.unwrap();
    smtp.finished().await;
    assert_eq!((smtp.commits(), named(&smtp)), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_cancel_alongside_the_save_decides_whether_there_is_a_report() {
    let people = People::new().await;
    for (order, at, sentence) in [
        ("just before the save", "before the save takes the database", "Cancelled. Nothing was saved or sent"),
        (
            "while the save commits",
            "before commit of report 1 done, save done, email running",
            "Cancelled. Report saved; email not started",
        ),
    ] {
        let evidence = World::new(&people, Channel::Smtp).await.interrupt(at, &Act::Cancel).await.expect("every job saves");
        evidence.check(order);
        assert_eq!(evidence.sentence(), sentence);
        tell(order, &evidence.sentence().into());
    }
}
