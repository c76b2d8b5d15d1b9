//! The other commands: what they print, and what they exit with.

use serde_json::json;

use crate::support::{
    program::{Home, Ran, argument},
    smtp_server::{
        Act::{Close, Hang},
        Script, Server,
    },
};

/// Runs `recount report` for June 2026.
async fn report(home: &Home, more: &[&str]) -> Ran {
    let documents = home.documents();
    let mut arguments = vec!["report", "--month", "2026-06", "--source", argument(&documents), "--to", "anna@example.org"];
    arguments.extend(more);
    home.run(&arguments).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_finishes_exits_with_0() {
    let home = Home::new();
    let ran = report(&home, &["bert@example.org", "--title", "Minutes"]).await;
    let printed = ran.succeeded();
    assert!(
        printed.starts_with("Report saved; written to the outbox folder, no e-mail was sent\nDocuments: 2 read\n"),
        "{printed}"
    );
    assert!(printed.contains("Report: http://127.0.0.1:3000/reports/"), "{printed}");
    assert_eq!(home.messages(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_job_is_told_as_json_and_a_key_finds_it_again() {
    let home = Home::new();
    let key = "0192f3c4-7d1e-7a55-8000-000000000001";
    let ran = report(&home, &["--json", "--key", key]).await;
    ran.succeeded();
    let job = ran.json();
    assert_eq!((&job["phase"], &job["documents"][0]["state"]), (&json!("finished"), &json!("read")));
    assert_eq!(job["effects"][1]["what"], "E-mail to anna@example.org");
    assert!(job["effects"][1]["evidence"].as_str().unwrap().contains(".eml"), "{job}");
    assert!(job["report_path"].as_str().unwrap().starts_with("/reports/"));

    let again = report(&home, &["--json", "--key", key]).await;
    again.succeeded();
    assert_eq!(again.json()["id"], job["id"]);
    assert_eq!(home.messages(), 1);
    let late = home.run(&["cancel", job["id"].as_str().unwrap()]).await;
    assert_eq!(
        late.succeeded(),
        "The cancel came too late: the job had already finished. Report saved; written to the outbox folder, no e-mail was sent\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_fails_exits_with_1_and_the_reason() {
    let home = Home::new();
    let documents = home.documents();
    let arguments = ["report", "--month", "2025-09", "--source", argument(&documents), "--to", "anna@example.org"];
    let ran = home.run(&arguments).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected =
        "Failed while collecting documents. Nothing was saved or sent\nNo documents for September 2025 in documents.\n";
    assert!(ran.out.starts_with(expected), "{}", ran.out);
    assert_eq!(home.messages(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_with_something_unconfirmed_exits_with_2() {
    let smtp = Server::start(Script { dot: Close, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let ran = report(&home, &[]).await;
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.out.starts_with("Report saved; email outcome unconfirmed\n"), "{}", ran.out);
    assert_eq!(smtp.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_is_cancelled_exits_with_3() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let documents = home.documents();
    let arguments = ["report", "--month", "2026-06", "--source", argument(&documents), "--to", "anna@example.org", "--json"];
    let running = home.start(&arguments);
    smtp.reached().await;
    running.signal("INT");
    let ran = running.ended().await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(ran.json()["headline"], "Cancelled. Report saved; email not sent");
    smtp.closed().await;
    assert_eq!(smtp.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_report_is_handed_back_and_finished_by_the_same_key() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let documents = home.documents();
    let key = "0192f3c4-7d1e-7a55-8000-000000000002";
    let arguments =
        ["report", "--month", "2026-06", "--source", argument(&documents), "--to", "anna@example.org", "--json", "--key", key];
    let running = home.start(&arguments);
    smtp.reached().await;
    running.signal("TERM");
    let first = running.ended().await;
    assert_eq!((first.code, &first.json()["phase"]), (Some(4), &json!("running")), "{first:?}");
    let second = home.run(&arguments).await;
    second.succeeded();
    assert_eq!((&second.json()["id"], smtp.commits()), (&first.json()["id"], 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_report_is_refused_in_plain_words() {
    let home = Home::new();
    let documents = home.documents();
    let documents = argument(&documents);
    for (arguments, says) in [
        (vec!["--month", "2026-13", "--source", documents, "--to", "anna@example.org"], "months go from 01 to 12"),
        (vec!["--month", "2026-06", "--source", documents, "--to", "anna"], "anna"),
        (vec!["--month", "2026-06", "--source", documents, "--to", "a@example.org", "--zone", "Mars"], "Mars"),
        (vec!["--month", "2026-06", "--source", "/no/such/place", "--to", "a@example.org"], "/no/such/place cannot be read"),
    ] {
        let mut line = vec!["report"];
        line.extend(arguments);
        let ran = home.run(&line).await;
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.err.starts_with("recount: ") && ran.err.contains(says), "{ran:?}");
        assert_eq!(ran.out, "");
    }
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{documents}\"\n"));
    let outside = home.data();
    let ran = home.run(&["report", "--month", "2026-06", "--source", argument(&outside), "--to", "anna@example.org"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("outside the folders that the administrator allows"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_line_that_is_none_exits_with_64() {
    let home = Home::new();
    for line in [
        vec![],
        vec!["serve", "--listen", "nowhere"],
        vec!["report"],
        vec!["cancel"],
        vec!["user", "add", "--email", "a@example.org", "--role", "king"],
        vec!["token", "create", "--email", "a@example.org", "--scope", "everything"],
        vec!["report", "--month", "2026-06", "--source", "x", "--to", "a@example.org", "--key", "7"],
        vec!["dance"],
    ] {
        let ran = home.run(&line).await;
        assert_eq!(ran.code, Some(64), "{line:?}: {ran:?}");
        assert!(!ran.err.is_empty());
    }
    assert!(home.run(&["--help"]).await.succeeded().contains("monthly reports"));
    assert!(home.run(&["--version"]).await.succeeded().starts_with("recount "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_nothing_is_an_error() {
    let home = Home::new();
    let ran = home.run(&["cancel", "7"]).await;
    assert!(ran.code == Some(1) && ran.err.starts_with("recount: \"7\" is not the id of a job."), "{ran:?}");
    let id = "0192f3c4-7d1e-7a55-8000-000000000000";
    home.token("ada@example.org").await;
    let ran = home.run(&["cancel", id]).await;
    assert!(ran.code == Some(1) && ran.err.starts_with(&format!("recount: There is no job {id} in ")), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_added_with_a_password_from_standard_input() {
    let home = Home::new();
    let add = ["user", "add", "--email", "Ada@example.org", "--role", "admin", "--zone", "Europe/Lisbon"];
    let ran = home.run_with_input(&add, "correct horse battery\n").await;
    assert_eq!(ran.succeeded(), "Added ada@example.org as admin.\n");
    for (password, says) in
        [("correct horse battery\n", "has an account already"), ("short\n", "too short"), ("", "There is no password")]
    {
        let ran = home.run_with_input(&add, password).await;
        assert!(ran.code == Some(1) && ran.err.contains(says), "{ran:?}");
    }
    let token = home.run(&["token", "create", "--email", "ada@example.org"]).await;
    assert!(token.succeeded().starts_with("rct_") && token.out.lines().count() == 1, "{token:?}");
    let reader = home.run(&["token", "create", "--email", "ada@example.org", "--scope", "reports:read"]).await;
    assert!(reader.succeeded().starts_with("rct_"), "{reader:?}");
    let ran = home.run(&["token", "create", "--email", "bob@example.org"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("Nobody has the address bob@example.org."), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_work_are_named() {
    let home = Home::new();
    for (settings, says) in [
        ("[wroker]\n", "wroker"),
        ("[worker]\nlease_seconds = \"soon\"\n", "lease_seconds"),
        ("[mail]\nchannel = \"pigeon\"\n", "pigeon"),
        ("[mail]\nchannel = \"smtp\"\n", "no [mail.smtp]"),
        ("[mail]\nfrom = \"nobody\"\n", "nobody"),
        ("[[sources]]\nname = \" \"\npath = \"/tmp\"\n", "has no name"),
        ("[model]\nprovider = \"ollama\"\nmodel = \" \"\n", "No model is set"),
    ] {
        home.settings(settings);
        let ran = home.run(&["serve", "--listen", "127.0.0.1:0"]).await;
        assert!(ran.code == Some(1) && ran.err.contains(says), "{settings}: {ran:?}");
    }
    home.settings("");
    let ran = home.run(&["serve", "--listen", "0.0.0.0:0"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("set public_url in recount.toml"), "{ran:?}");
    home.settings("public_url = \"http://recount.test\"\n");
    let ran = home.run(&["serve", "--demo", "--listen", "0.0.0.0:0"]).await;
    assert!(ran.code == Some(1) && ran.err.contains("it only listens on this machine"), "{ran:?}");
}
