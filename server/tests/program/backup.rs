//! `recount backup`, `recount restore` and `recount set-aside`: the copy sends nothing old by itself, and nothing is overwritten.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use crate::support::{
    mcp::http::Http,
    program::{Home, Ran, argument},
    smtp_server::{
        Act::{Hang, Hold},
        Script, Server,
    },
};

const ONE: &[&str] = &["anna@example.org"];

/// Runs a command that must fail, and say this.
fn refused(ran: &Ran, says: &str) {
    assert!(ran.code == Some(1) && ran.err.starts_with("recount: ") && ran.err.contains(says), "\"{says}\": {ran:?}");
    assert_eq!(ran.out, "");
}

async fn raw(file: &std::path::Path) -> SqliteConnection {
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap()
}

/// The names in a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_copy_waits_for_a_word_and_then_sends_once() {
    // The original's first message hangs before it is handed over, its second one after that.
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default(), Script::default()]);
    let home = Home::with_smtp(smtp.port).on_file();
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    let held = served.order_held(&token, "held", ONE, "1").await;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("monday.sqlite3");
    let ran = home.run(&["backup", argument(&file)]).await;
    assert!(ran.succeeded().contains("In it: 2 jobs (2 not ended)"), "{ran:?}");
    assert!(ran.out.contains("Not in it: recount.toml, the outbox, and the folders"), "{ran:?}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(folder.path()), ["monday.sqlite3"], "nothing else is left");
    refused(&home.run(&["backup", argument(&file)]).await, "exists already");
    served.kill().await;

    let copy = Home::with_smtp(smtp.port).on_file();
    let ran = copy.run(&["restore", argument(&file)]).await;
    assert!(ran.succeeded().contains("2 jobs had not ended. They wait for a person"), "{ran:?}");
    assert_eq!(names(&copy.data()), ["recount.sqlite3", "recount.toml"]);
    let served = copy.serve(&[]).await;
    // A job of the copy's own ends, which the worker takes after all that it could take before. Sign-ins are as they were.
    let new = served.order(&token, "new", &["new@example.org"]).await;
    served.end_of(&token, &new).await;
    for id in [&id, &held] {
        let job = served.job(&token, id).await;
        assert!(job["set_aside"].is_object() && job["finished_at"].is_null(), "{job}");
        assert!(job["reason"].as_str().unwrap().starts_with("It waits for a person. This is a restored copy."), "{job}");
    }
    assert_eq!(smtp.commits(), 1);

    let job = served.go_on(&token, &id).await;
    assert_eq!(job["set_aside"], json!(null));
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    assert_eq!(smtp.commits(), 2);
    assert!(served.job(&token, &held).await["set_aside"].is_object());
    served.terminate().await;
}

/// Whoever copies the file by hand has forgotten nothing: the backup itself knows that it is one.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_is_put_in_its_place_by_hand_waits_as_well() {
    let smtp =
        Server::start_each(vec![Script { dot: Hold(b"250 ok\r\n"), commit: false, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port).on_file();
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", &["anna@example.org", "bert@example.org"]).await;
    smtp.reached().await;
    let copy = Home::with_smtp(smtp.port).on_file();
    home.run(&["backup", argument(&copy.file())]).await.succeeded();
    served.kill().await;

    let served = copy.serve(&[]).await;
    let new = served.order(&token, "new", ONE).await;
    served.end_of(&token, &new).await;
    let job = served.job(&token, &id).await;
    assert!(job["set_aside"].is_object(), "{job}");
    let outcomes: Vec<_> = job["effects"].as_array().unwrap().iter().map(|effect| effect["outcome"].clone()).collect();
    assert_eq!(outcomes, ["done", "unconfirmed", "unconfirmed"]);
    assert_eq!(smtp.commits(), 1);
    served.terminate().await;
}

/// Page, lists, API, assistant and command line have one sentence for what a copy cannot know, and a Cancel does not lose it.
#[tokio::test(flavor = "multi_thread")]
async fn every_face_of_a_copy_says_what_it_cannot_know() {
    // In flight when the backup is made; the second one is for a job of the copy's own.
    let smtp = Server::start_each(vec![Script { rcpt: Hold(b"250 ok\r\n"), ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port).on_file();
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let flying = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    let held = served.order_held(&token, "held", ONE, "approval").await;
    served.settled(&token, &held, |job| job["hold"].is_object()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("monday.sqlite3");
    home.run(&["backup", argument(&file)]).await.succeeded();
    // The original goes on: it sends the one, and the other on somebody's word.
    smtp.release();
    assert_eq!(served.end_of(&token, &flying).await["phase"], "finished");
    served.approve(&token, &held).await;
    assert_eq!(served.end_of(&token, &held).await["phase"], "finished");
    served.terminate().await;
    assert_eq!(smtp.commits(), 2);

    let copy = Home::with_smtp(smtp.port).on_file();
    copy.run(&["restore", argument(&file)]).await.succeeded();
    let served = copy.serve(&[]).await;
    let http = Http::at(&served.url, &token);
    let said = |text: &str| {
        let (beginning, end) =
            ("Report saved; email outcome unconfirmed (restored from a backup of ", "; the original may have sent it since)");
        assert!(text.starts_with(beginning) && text.ends_with(end), "{text}");
    };
    for id in [&flying, &held] {
        for cancelled in [false, true] {
            let job = served.job(&token, id).await;
            let headline = job["headline"].as_str().unwrap().to_owned();
            said(if cancelled { headline.strip_prefix("Cancelled. ").unwrap_or(&headline) } else { &headline });
            let email = job["effects"].as_array().unwrap().last().unwrap();
            assert_eq!((&email["outcome"], &email["outcome_text"]), (&json!("unconfirmed"), &json!("unconfirmed")), "{job}");
            assert!(email["evidence"].as_str().unwrap().starts_with("restored from a backup of "), "{job}");
            assert_eq!(served.headline_on_page(&token, id).await, headline);
            let listed = served.jobs(&token).await;
            let listed = listed.as_array().unwrap().iter().find(|job| job["id"] == id.as_str()).unwrap();
            assert_eq!(listed["headline"], headline);
            let status = http.tool("get_report_status", &json!({"job_id": id})).await;
            assert_eq!(status["structuredContent"]["headline"], headline);
            // The first one cancels, the second one repeats it.
            let ran = copy.run(&["cancel", id]).await;
            assert!(
                ran.succeeded().contains("Cancelled. Report saved; email outcome unconfirmed (restored from a backup of "),
                "{ran:?}"
            );
        }
    }
    served.terminate().await;
    assert_eq!(smtp.commits(), 2);
}

/// A copy of the files of a stopped server has no mark, and is one all the same once it is restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_plain_copy_that_is_restored_waits_as_well() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::with_smtp(smtp.port).on_file();
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    served.terminate().await;
    let copy = Home::with_smtp(smtp.port).on_file();
    let ran = copy.run(&["restore", argument(&home.file())]).await;
    assert!(ran.succeeded().contains("1 job had not ended. It waits for a person"), "{ran:?}");
    let served = copy.serve(&[]).await;
    assert!(served.job(&token, &id).await["set_aside"].is_object());
    served.terminate().await;
    assert_eq!(smtp.commits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_backup_is_not_restored() {
    let home = Home::new().on_file();
    home.token("ada@example.org").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    home.run(&["backup", argument(&file)]).await.succeeded();
    let whole = fs::read(&file).unwrap();

    let text = folder.path().join("text");
    fs::write(&text, "Dear diary, today I have backed up nothing.").unwrap();
    let other = folder.path().join("other");
    let mut database =
        SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&other).create_if_missing(true)).await.unwrap();
    sqlx::query("create table songs (name text)").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    let damaged = folder.path().join("damaged");
    fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let newer = folder.path().join("newer");
    fs::write(&newer, &whole).unwrap();
    let mut database = raw(&newer).await;
    sqlx::query(
        "insert into _sqlx_migrations select 9999, 'later', installed_on, true, checksum, 0 from _sqlx_migrations limit 1",
    )
    .execute(&mut database)
    .await
    .unwrap();
    sqlx::query("update compatibility set oldest_migration = 9999").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    let live = folder.path().join("live");
    fs::write(&live, &whole).unwrap();
    fs::write(folder.path().join("live-wal"), "changes").unwrap();

    let target = Home::new().on_file();
    for (file, says) in [
        (&text, "it is no database of Recount"),
        (&other, "it is no database of Recount"),
        (&damaged, "it is damaged"),
        (&newer, "is of a newer version of Recount"),
        (&live, "has changes in a file beside it"),
        (&folder.path().join("nowhere"), "There is no file"),
    ] {
        refused(&target.run(&["restore", argument(file)]).await, says);
        assert_eq!(names(&target.data()), Vec::<String>::new(), "{says}");
    }
    target.run(&["restore", argument(&file)]).await.succeeded();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_there_is_overwritten_or_changed_under_a_running_server() {
    let home = Home::new().on_file();
    home.token("ada@example.org").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    home.run(&["backup", argument(&file)]).await.succeeded();
    let before = fs::read(home.file()).unwrap();
    refused(&home.run(&["restore", argument(&file)]).await, "recount.sqlite3 exists. Stop Recount, move it away");
    assert_eq!(fs::read(home.file()).unwrap(), before);

    let served = home.serve(&[]).await;
    for command in [vec!["restore", argument(&file)], vec!["set-aside"]] {
        refused(&home.run(&command).await, "Recount is running in");
    }
    served.terminate().await;

    let empty = Home::new().on_file();
    refused(&empty.run(&["backup", argument(&folder.path().join("none"))]).await, "There is no database in");
    fs::write(empty.data().join("recount.sqlite3-wal"), "changes of another one").unwrap();
    refused(&empty.run(&["restore", argument(&file)]).await, "recount.sqlite3-wal is left of another database");
    refused(&empty.run(&["backup", argument(&folder.path().join("no/such/folder"))]).await, "There is no database in");
    refused(&home.run(&["backup", argument(&folder.path().join("no/such/folder"))]).await, "no file can be made in");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_restored_by_other_means_is_set_aside_on_demand() {
    let home = Home::new();
    let documents = home.documents();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", documents.display()));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = served.order_held(&token, "june", ONE, "approval").await;
    served.settled(&token, &id, |job| job["hold"].is_object()).await;
    served.terminate().await;
    let says = "1 job had not ended. It waits for a person: what happened to it after the copy was made is not known.";
    for _ in 0..2 {
        let ran = home.run(&["set-aside"]).await;
        assert!(ran.succeeded().starts_with(says), "{ran:?}");
    }
    let served = home.serve(&[]).await;
    let job = served.job(&token, &id).await;
    assert!(job["set_aside"].is_object() && job["hold"].is_null(), "{job}");
    served.cancel(&token, &id).await;
    served.terminate().await;
    assert!(home.run(&["set-aside"]).await.succeeded().starts_with("No job waits"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_does_not_wait_for_a_job_that_waits_for_a_person() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let documents = home.documents();
    let key = "0192f3c4-7d1e-7a55-8000-000000000003";
    let line = ["report", "--month", "2026-06", "--source", argument(&documents), "--to", "anna@example.org", "--key", key];
    let running = home.start(&line);
    smtp.reached().await;
    running.signal("TERM");
    running.ended().await;
    home.run(&["set-aside"]).await.succeeded();
    let ran = home.run(&line).await;
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.out.contains("It waits for a person. This is a restored copy."), "{ran:?}");
    assert_eq!(smtp.commits(), 0);
}
