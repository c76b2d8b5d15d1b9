//! `recount report` at a terminal that is left: by signals, by whoever read what it prints, and by an order that is given again.

use std::{
    io::{BufRead, BufReader, pipe},
    process::Stdio,
    sync::{Arc, mpsc::Receiver},
};

use chrono::{TimeDelta, Timelike};
use domain::clock::{Clock, SystemClock};
use serde_json::json;
use store::Store;
use tokio::task::spawn_blocking;

use crate::support::{
    instance::PATIENCE,
    program::{Home, Ran, Running, SERVE, argument},
    raw::Raw,
    smtp_server::{
        Act::{Hang, Say},
        Script, Server,
    },
};

/// A shutdown that waits for a silent mail server would outlast every test.
const PATIENT: &str = "lease_seconds = 3\ngrace_seconds = 3600\n";

/// The arguments of a report for June 2026.
fn report<'a>(documents: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["report", "--month", "2026-06", "--source", documents, "--to", "anna@example.org"];
    arguments.extend(more);
    arguments
}

/// A line that begins like this, and what it goes on with. Lines before it are passed over.
async fn line(lines: Receiver<String>, beginning: &'static str) -> (String, Receiver<String>) {
    spawn_blocking(move || {
        loop {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}: no \"{beginning}\""));
            if let Some(rest) = line.strip_prefix(beginning) {
                return (rest.to_owned(), lines);
            }
        }
    })
    .await
    .expect("no panic")
}

/// The id of the job in "… Job ID continues …".
fn id_in(rest: &str) -> String {
    rest.split(' ').next().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_has_to_go_says_what_goes_on_and_is_resumed() {
    for signal in ["TERM", "HUP"] {
        let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()]);
        let home = Home::with_smtp(smtp.port);
        let documents = home.documents();
        let running = home.start(&report(argument(&documents), &[]));
        smtp.reached().await;
        running.signal(signal);
        let left = running.ended().await;
        assert_eq!(left.code, Some(4), "{left:?}");
        assert!(left.err.contains("Handing the job back. Ctrl-C leaves without waiting.\nHanded back. Job "), "{left:?}");
        let (_, id) = left.out.rsplit_once("Job: ").expect("the job's id");
        let id = id.trim();
        let goes_on = format!("Job {id} continues when a server or `recount report --resume {id}` runs.\n");
        assert!(left.err.ends_with(&goes_on), "{left:?}");
        assert!(!format!("{}{}", left.out, left.err).to_lowercase().contains("fail"), "{left:?}");
        assert!(!left.err.contains('\u{1b}') && smtp.commits() == 0, "{left:?}");

        let resumed = home.run(&["report", "--resume", id, "--json"]).await;
        resumed.succeeded();
        assert_eq!((&resumed.json()["id"], &resumed.json()["phase"]), (&json!(id), &json!("finished")));
        // Now it is only shown.
        let shown = home.run(&["report", "--resume", id]).await;
        assert!(shown.succeeded().starts_with("Report saved; email accepted by the mail service\n"), "{shown:?}");
        assert_eq!(smtp.commits(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_resumed_is_named() {
    let home = Home::new();
    let id = "0192f3c4-7d1e-7a55-8000-000000000000";
    home.token("ada@example.org").await;
    let ran = home.run(&["report", "--resume", id]).await;
    assert!(ran.code == Some(1) && ran.err.starts_with(&format!("recount: There is no job {id} in ")), "{ran:?}");
    for line in [vec!["report", "--resume", "7"], vec!["report", "--resume", id, "--month", "2026-06"]] {
        let ran = home.run(&line).await;
        assert_eq!(ran.code, Some(64), "{ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ctrl_c_leaves_at_once_and_the_cancel_stands() {
    let smtp = Server::start(Script { dot: Hang, ..Script::default() });
    let home = Home::new();
    home.mails_through(smtp.port, PATIENT);
    let documents = home.documents();
    let mut running = home.start(&report(argument(&documents), &["--json"]));
    let notes = running.notes();
    smtp.reached().await;
    running.signal("INT");
    let (_, notes) = line(notes, "Cancelling. Ctrl-C again leaves without waiting.").await;
    let (_, notes) = line(notes, "Cancel accepted.").await;
    running.signal("INT");
    let (rest, _) = line(notes, "Left without waiting. The cancel stands; job ").await;
    let left = running.ended().await;
    assert_eq!((left.code, &left.json()["phase"]), (Some(4), &json!("stopping")), "{left:?}");

    // Nobody handed it back, so its lease has to run out first.
    let ended = home.run(&["report", "--resume", &id_in(&rest), "--json"]).await;
    assert_eq!((ended.code, &ended.json()["phase"]), (Some(2), &json!("cancelled")), "{ended:?}");
    assert_eq!(ended.json()["headline"], "Cancelled. Report saved; email outcome unconfirmed");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_while_the_job_is_handed_back() {
    let smtp = Server::start(Script { dot: Hang, ..Script::default() });
    let home = Home::new();
    home.mails_through(smtp.port, PATIENT);
    let documents = home.documents();
    let mut running = home.start(&report(argument(&documents), &[]));
    let notes = running.notes();
    smtp.reached().await;
    running.signal("TERM");
    let (_, notes) = line(notes, "Handing the job back. Ctrl-C leaves without waiting.").await;
    running.signal("INT");
    let (rest, _) = line(notes, "Left without waiting. Job ").await;
    assert_eq!(running.ended().await.code, Some(4));
    let ended = home.run(&["report", "--resume", &id_in(&rest)]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert_eq!(smtp.commits(), 1);
}

/// The database takes no writes from anybody, so the cancel cannot be recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_ctrl_c_leaves_also_while_the_first_is_not_recorded() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::new();
    home.mails_through(smtp.port, "lease_seconds = 3600\ngrace_seconds = 3600\n");
    let documents = home.documents();
    let mut running = home.start(&report(argument(&documents), &[]));
    let notes = running.notes();
    smtp.reached().await;
    let mut raw = Raw::open(home.database()).await;
    raw.run(raw.either("begin immediate", "begin; select 1 from jobs for update")).await;
    running.signal("INT");
    let (_, notes) = line(notes, "Cancelling. ").await;
    running.signal("INT");
    let (rest, _) = line(notes, "Left without waiting. The cancel was not confirmed: `recount cancel ").await;
    assert_eq!(running.ended().await.code, Some(4));
    raw.run("rollback").await;
    let id = rest.split('`').next().expect("an id").to_owned();
    let cancelled = home.run(&["cancel", &id]).await;
    assert!(cancelled.succeeded().starts_with("Cancel accepted. "), "{cancelled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_works_by_the_settings_of_the_worker() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::new();
    home.mails_through(smtp.port, "lease_seconds = 86400\n");
    let documents = home.documents();
    let running = home.start(&report(argument(&documents), &[]));
    smtp.reached().await;
    let store = Store::open(home.database(), Arc::new(SystemClock), "recount.test").await.unwrap();
    let record = store.jobs(None, None, None, 1).await.unwrap().remove(0);
    let left = record.row.lease_expires_at.expect("it is at work") - SystemClock.now();
    assert!(left > TimeDelta::hours(20), "{left}");
    running.signal("TERM");
    assert_eq!(running.ended().await.code, Some(4));
}

/// A zone in which it is about noon, so that no midnight comes between two orders.
fn zone_at_noon() -> String {
    match 12 - i64::from(SystemClock.now().hour()) {
        0 => "Etc/GMT".into(),
        ahead if ahead > 0 => format!("Etc/GMT-{ahead}"),
        behind => format!("Etc/GMT+{}", -behind),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_order_on_the_same_day_finds_its_job_unless_another_is_asked_for() {
    const AGAIN: &str = "This order was given before today; showing its job. --new makes another.\n";
    let home = Home::new();
    let (documents, zone) = (home.documents(), zone_at_noon());
    let order = async |more: &[&str]| {
        let ran = home.run(&report(argument(&documents), &[&["--json", "--zone", &zone][..], more].concat())).await;
        ran.succeeded();
        (ran.json()["id"].clone(), ran.err.contains(AGAIN))
    };
    let (first, is_known) = order(&[]).await;
    assert!(!is_known);
    assert_eq!(order(&[]).await, (first.clone(), true));
    assert_eq!(home.messages(), 1);

    let mut known = vec![first];
    for other in [
        vec!["--new"],
        vec!["--title", "Minutes"],
        vec!["--instructions", "Look for money."],
        vec!["--hold", "1"],
        vec!["--to", "bert@example.org"],
    ] {
        let (id, is_known) = order(&other).await;
        assert!(!is_known && !known.contains(&id), "{other:?}");
        known.push(id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_exits_with_1_though_the_report_is_finished() {
    const NO: &[u8] = b"550 5.1.1 nobody here\r\n";
    for (scripts, says) in [
        (vec![Script { rcpt: Say(NO), rcpt_again: Say(NO), ..Script::default() }], "Report saved; email refused for 2 of 2\n"),
        (
            vec![Script { dot: Say(NO), commit: false, ..Script::default() }, Script::default()],
            "Report saved; email refused for 1 of 2\n",
        ),
    ] {
        let smtp = Server::start_each(scripts);
        let home = Home::with_smtp(smtp.port);
        let documents = home.documents();
        let ran = home.run(&report(argument(&documents), &["--to", "bert@example.org"])).await;
        assert!(ran.code == Some(1) && ran.out.starts_with(says), "{ran:?}");
        let (_, id) = ran.out.rsplit_once("Job: ").expect("the job's id");
        let shown = home.run(&["report", "--resume", id.trim(), "--json"]).await;
        assert_eq!((shown.code, &shown.json()["phase"]), (Some(1), &json!("finished")), "{shown:?}");
    }
}

/// Runs a command to its end whose output nobody reads.
async fn unread(home: &Home, arguments: &[&str]) -> Ran {
    started_unread(home, arguments).ended().await
}

fn started_unread(home: &Home, arguments: &[&str]) -> Running {
    // Their other ends are closed, as those of `| head` are.
    let closed = || Stdio::from(pipe().expect("a pipe").1);
    let mut command = home.command(arguments);
    Running::of(command.stdin(Stdio::null()).stdout(closed()).stderr(closed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_nobody_reads_stops_no_command() {
    let home = Home::new();
    let documents = home.documents();
    let documents = argument(&documents);
    let copy = home.data().join("copy");
    let restored = home.data().join("restored");
    for (arguments, code) in [
        (vec!["--help"], 0),
        (vec!["dance"], 64),
        (report(documents, &["--json"]), 0),
        (report(documents, &["--new"]), 0),
        (vec!["report", "--month", "2025-09", "--source", documents, "--to", "anna@example.org"], 1),
        (vec!["cancel", "7"], 1),
        (vec!["set-aside"], 0),
        (vec!["user", "add", "--email", "ada@example.org", "--role", "user"], 1),
        (vec!["serve", "--listen", "nowhere:0"], 64),
        (vec!["mcp", "--user", "nobody@example.org"], 1),
        // It has no public_url.
        (vec!["worker"], 1),
    ] {
        assert_eq!(unread(&home, &arguments).await.code, Some(code), "{arguments:?}");
    }
    assert_eq!(home.messages(), 2);

    if home.file().exists() {
        assert_eq!(unread(&home, &["backup", argument(&copy)]).await.code, Some(0));
        assert_eq!(unread(&home, &["restore", argument(&copy), "--data", argument(&restored)]).await.code, Some(0));
    }
    home.token("ada@example.org").await;
    // Nobody has got it.
    assert_eq!(unread(&home, &["token", "create", "--email", "ada@example.org"]).await.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_reads_serves_and_stops_in_order() {
    let home = Home::new();
    let (reader, log) = pipe().expect("a pipe");
    let mut command = home.command(SERVE);
    let running = Running::of(command.stdout(Stdio::from(pipe().expect("a pipe").1)).stderr(Stdio::from(log)));
    let listening = spawn_blocking(move || {
        let mut lines = BufReader::new(reader).lines().map(|line| line.expect("UTF-8"));
        lines.find_map(|line| line.split_once("listening on ").map(|(_, address)| address.trim().to_owned()))
    });
    // The end that was read is closed now.
    let address = tokio::time::timeout(PATIENCE, listening).await.expect("it listens").unwrap();
    let answer = reqwest::get(format!("http://{}/readyz", address.expect("an address"))).await.unwrap();
    assert_eq!(answer.status(), 200);
    running.signal("HUP");
    assert_eq!(running.ended().await.code, Some(0));
}
