//! How the server ends, and what it leaves: reports that others go on with, and nothing else.

use std::{
    fs,
    io::Write,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    instance::PATIENCE,
    mcp::{Declared, PROGRESS, http::Http, june, request, stdio::Stdio},
    program::Home,
    raw::Raw,
    smtp_server::{Act::Hang, Script, Server},
};

const ADA: &str = "ada@example.org";
/// Clients kill a server that they have left after some seconds. Three times that, for machines under load; the mail server, which
/// hangs, would be waited for much longer.
const LIMIT: Duration = Duration::from_secs(20);

/// The first session hangs, the next ones are well.
fn hangs_once() -> Server {
    Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()])
}

/// T10: no lease, no process, no file that was not there before.
async fn is_tidy(home: &Home, process: u32) {
    let mut raw = Raw::open(home.database()).await;
    assert_eq!(raw.number("select count(*) from jobs where lease_owner is not null").await, 0);
    assert!(!fs::exists(format!("/proc/{process}")).unwrap(), "the process is gone");
    let known = ["recount.toml", "recount.sqlite3", "recount.sqlite3-wal", "recount.sqlite3-shm", "outbox"];
    for entry in fs::read_dir(home.data()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "{name} is left");
    }
}

/// Ends the program, by its input or by a signal: it must be gone in time, and leave nothing behind.
async fn ends_in_time(mut stdio: Stdio, end: &str, home: &Home) {
    let process = stdio.process();
    if end == "TERM" {
        stdio.signal("TERM");
    } else {
        stdio.leave();
    }
    let (code, _, took) = stdio.ended().await;
    assert_eq!(code, Some(0), "{end}");
    assert!(took < LIMIT, "{end}: {took:?}");
    is_tidy(home, process).await;
}

/// T11, T10
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_input_ends_the_program_in_time_and_its_report_is_resumed() {
    for end in ["the input", "TERM"] {
        let smtp = hangs_once();
        let home = Home::with_smtp(smtp.port);
        let token = home.token(ADA).await;
        let mut stdio = Stdio::start(&home, ADA);
        let id = stdio.tool("start_report", &june("june")).await["structuredContent"]["job_id"].as_str().unwrap().to_owned();
        smtp.reached().await;
        ends_in_time(stdio, end, &home).await;
        assert_eq!(smtp.commits(), 0);
        let served = home.serve(&[]).await;
        let job = served.end_of(&token, &id).await;
        assert_eq!(job["headline"], "Report saved; email accepted by the mail service", "{end}");
        assert_eq!(job["cancel"], Value::Null);
        served.terminate().await;
        assert_eq!(smtp.commits(), 2);
    }
}

/// A report that belongs to its call ends with the client; one whose server is stopped does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_takes_its_calls_back_and_a_stop_does_not() {
    for end in ["the input", "TERM"] {
        let smtp = hangs_once();
        let home = Home::with_smtp(smtp.port);
        let token = home.token(ADA).await;
        let mut stdio = Stdio::start(&home, ADA);
        stdio.begin("generate_report", &june("june"), PROGRESS);
        smtp.reached().await;
        ends_in_time(stdio, end, &home).await;
        let served = home.serve(&[]).await;
        let id = served.newest_job(&token).await.unwrap();
        let job = served.end_of(&token, &id).await;
        if end == "TERM" {
            assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
        } else {
            assert_eq!(job["headline"], "Cancelled. Report saved; email not sent");
            assert_eq!(job["cancel"]["by"], "ada@example.org (the request was cancelled)");
        }
        served.terminate().await;
    }
}

/// T11 on HTTP
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_hands_the_report_of_an_open_call_back() {
    let smtp = hangs_once();
    let home = Home::with_smtp(smtp.port);
    let token = home.token(ADA).await;
    let served = home.serve(&[]).await;
    let process = served.process();
    let mut calls = Vec::new();
    for declared in [PROGRESS, Declared::default()] {
        calls.push(Http::at(&served.url, &token).begin("generate_report", &june("june"), declared).await);
    }
    smtp.reached().await;
    let since = Instant::now();
    served.terminate().await;
    assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
    for mut call in calls {
        while let Some(message) = call.message().await {
            assert!(message.get("result").is_none(), "{message}");
        }
    }
    is_tidy(&home, process).await;
    let served = home.serve(&[]).await;
    let id = served.newest_job(&token).await.unwrap();
    let job = served.end_of(&token, &id).await;
    assert_eq!((&job["phase"], &job["cancel"]), (&json!("finished"), &Value::Null));
    // Whoever sends the call again gets its report.
    let again = Http::at(&served.url, &token).tool("generate_report", &june("june")).await;
    assert_eq!(again["structuredContent"]["job_id"], id);
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_the_protocol_is_on_the_output() {
    let home = Home::new();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", home.documents().display()));
    home.token(ADA).await;
    let mut command = home.command(&["mcp", "--user", ADA]);
    let mut stdio = Stdio::spawn(command.env("RECOUNT_LOG", "trace"));
    let done = stdio.tool("generate_report", &june("june")).await;
    assert_eq!(done["isError"], false, "{done}");
    stdio.leave();
    let (code, seen, _) = stdio.ended().await;
    assert_eq!(code, Some(0));
    assert!(seen.iter().all(|message| message["jsonrpc"] == "2.0"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_without_a_word_ends_the_program() {
    let home = Home::new();
    home.token(ADA).await;
    let mut stdio = Stdio::start(&home, ADA);
    stdio.leave();
    let (code, seen, took) = stdio.ended().await;
    assert_eq!((code, seen.len()), (Some(0), 0));
    assert!(took < LIMIT, "{took:?}");
}

/// A client that has stopped reading must not keep the program when it leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_cannot_hold_the_program() {
    let home = Home::new();
    home.token(ADA).await;
    let mut command = home.command(&["mcp", "--user", ADA]);
    let command = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Their answers fill the pipe several times over.
    for id in 0..100 {
        writeln!(input, "{}", request(id, "tools/list", json!({}), Declared::default())).unwrap();
    }
    drop(input);
    let since = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if since.elapsed() > PATIENCE {
            child.kill().unwrap();
            break None;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    // Its end of the pipe was there to the end.
    drop(child.stdout.take());
    assert_eq!(status.and_then(|status| status.code()), Some(0), "it does not end");
    assert!(since.elapsed() < LIMIT, "{:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_is_not_known_is_named() {
    let home = Home::new();
    home.token(ADA).await;
    for (email, said) in [
        (
            "bob@example.org",
            "Nobody has the address bob@example.org. Add the person first: recount user add --email bob@example.org",
        ),
        ("bob", "--user bob: That is not an e-mail address."),
    ] {
        let ran = home.run(&["mcp", "--user", email]).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.err.contains(said), "{ran:?}");
    }
}
