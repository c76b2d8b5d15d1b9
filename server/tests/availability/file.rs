//! The file of an SQLite database that is deleted, replaced or damaged under the running program, or that is none at its start. All
//! of it with files, whatever database the others of this run have.

use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use sqlx::{Connection, Executor, SqliteConnection, sqlite::SqliteConnectOptions};
use store::Unavailable;

use super::program::until_ready;
use crate::support::{
    instance::PATIENCE,
    program::{Home, Ran, SERVE, Served, argument},
    smtp_server::{Act::Hold, Script, Server},
};

const ONE: &[&str] = &["anna@example.org"];

/// What can happen to a file.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Deleted,
    Renamed,
    /// A copy takes its place, as with a restore by hand.
    Replaced,
    FolderReplaced,
    LogDeleted,
    Emptied,
    CutShort,
}

impl Loss {
    const ALL: [Self; 7] =
        [Self::Deleted, Self::Renamed, Self::Replaced, Self::FolderReplaced, Self::LogDeleted, Self::Emptied, Self::CutShort];

    fn happen(self, home: &Home) {
        let file = home.file();
        let aside = file.with_extension("aside");
        let done = match self {
            Self::Deleted => fs::remove_file(&file),
            Self::Renamed => fs::rename(&file, aside),
            Self::Replaced => fs::copy(&file, &aside).and_then(|_| fs::rename(&aside, &file)),
            Self::FolderReplaced => {
                fs::rename(home.data(), home.data().with_extension("aside")).and_then(|()| fs::create_dir(home.data()))
            }
            Self::LogDeleted => fs::remove_file(log_of(&file)),
            Self::Emptied => cut(&file, 0),
            Self::CutShort => cut(&file, fs::metadata(&file).expect("it is there").size() / 2),
        };
        done.expect("the file is there");
    }
}

fn log_of(file: &Path) -> PathBuf {
    format!("{}-wal", argument(file)).into()
}

fn cut(file: &Path, size: u64) -> std::io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.set_len(size)
}

async fn ask(request: reqwest::RequestBuilder) -> (u16, String) {
    let answer = request.timeout(PATIENCE).send().await.expect("the server answers");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

async fn vanishes(loss: Loss) {
    let smtp = Server::start(Script { rcpt: Hold(b"250 2.1.5 ok\r\n"), ..Script::default() });
    let home = Home::new().on_file();
    home.mails_through(smtp.port, "lease_seconds = 3\ngrace_seconds = 1\n");
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let browser = served.browser().await;
    let id = served.order(&token, "key", ONE).await;
    smtp.reached().await;
    loss.happen(&home);

    let sentence = Unavailable::Replaced.sentence();
    until_ready(&served, (503, sentence)).await;
    smtp.release();
    smtp.closed().await;
    let client = reqwest::Client::new();
    let body = json!({"month": "2026-06", "sources": ["Minutes"], "recipients": ONE}).to_string();
    let api = format!("{}/api/v1/jobs", served.url);
    for request in [
        client
            .post(&api)
            .header("content-type", "application/json")
            .header("idempotency-key", "another")
            .body(body)
            .bearer_auth(&token),
        client.put(format!("{api}/{id}/cancellation")).bearer_auth(&token),
        client.get(format!("{api}/{id}")).bearer_auth(&token),
        client.get(format!("{}/jobs/{id}", served.url)).header("cookie", &browser.cookie).header("accept", "text/html"),
    ] {
        let (status, text) = ask(request).await;
        assert_eq!(status, 503, "{loss:?}: {text}");
        assert!(text.contains(sentence), "{loss:?}: {text}");
        assert!(!text.contains("revoked") && !text.contains("by itself afterwards"), "{loss:?}: {text}");
    }
    served.terminate().await;
    assert_eq!(smtp.commits(), 0, "{loss:?}: nothing is sent that is not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanishes_under_the_server_stops_its_work_and_says_so() {
    for loss in Loss::ALL {
        vanishes(loss).await;
    }
}

/// What is put back is what was open, so nothing was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_put_back_is_worked_with_again() {
    let home = Home::new().on_file();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", home.documents().display()));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    Loss::Renamed.happen(&home);
    until_ready(&served, (503, Unavailable::Replaced.sentence())).await;
    fs::rename(home.file().with_extension("aside"), home.file()).unwrap();
    until_ready(&served, (200, "ready")).await;
    let id = served.order(&token, "key", ONE).await;
    served.settled(&token, &id, |job| job["phase"] == "finished").await;
    served.terminate().await;
}

/// A program that is told that its token is wrong throws it away.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_is_called_that() {
    let home = Home::new().on_file();
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    // All but the first page, without which it would be no database at all. The server has read next to nothing of it so far.
    let size = usize::try_from(fs::metadata(home.file()).unwrap().size()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(home.file()).unwrap();
    file.write_all_at(&vec![0xa5; size - 4096], 4096).unwrap();
    let (status, text) = ask(reqwest::Client::new().get(format!("{}/api/v1/jobs", served.url)).bearer_auth(&token)).await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains(Unavailable::Damaged.sentence()), "{text}");
    assert_eq!(ask(reqwest::Client::new().get(format!("{}/readyz", served.url))).await.0, 503);
    served.kill().await;
    let ran = home.run(SERVE).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("cannot be opened: the file is no database, or one that is damaged"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_database_of_recount_is_left_as_it_is() {
    let home = Home::new().on_file();
    let file = home.file();
    let foreign = home.data().join("foreign");
    let options = SqliteConnectOptions::new().filename(&foreign).create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute("create table songs (title text)").await.unwrap();
    connection.close().await.unwrap();
    let foreign = fs::read(foreign).unwrap();
    for (content, says) in [
        (Vec::new(), "the file is empty"),
        (b"Dear Anna, this is no database at all.\n".repeat(500), "the file is no database"),
        (foreign, "the file is a database of something else"),
    ] {
        fs::write(&file, &content).unwrap();
        for arguments in [SERVE, &["cancel", "0192f3c4-7d1e-7a55-8000-000000000000"]] {
            let ran = home.run(arguments).await;
            assert_eq!(ran.code, Some(1), "{ran:?}");
            assert!(ran.err.contains(argument(&file)) && ran.err.contains(says), "{ran:?}");
            assert!(fs::read(&file).unwrap() == content, "{says}: it was changed");
        }
    }
}

/// Whoever mistypes the folder would be answered from a new database.
#[tokio::test(flavor = "multi_thread")]
async fn commands_about_what_is_there_make_no_database() {
    let home = Home::new().on_file();
    let elsewhere = home.data().join("mistyped");
    let id = "0192f3c4-7d1e-7a55-8000-000000000000";
    home.settings("public_url = \"http://recount.test\"\n");
    for arguments in [
        vec!["cancel", id],
        vec!["token", "create", "--email", "ada@example.org"],
        vec!["worker"],
        vec!["mcp", "--user", "ada@example.org"],
        vec!["set-aside"],
        vec!["backup", "copy"],
    ] {
        let ran = home.run(&[arguments.as_slice(), &["--data", argument(&elsewhere)]].concat()).await;
        assert!(ran.code != Some(0) && !elsewhere.exists(), "{arguments:?}: {ran:?}");
        let says = format!("There is no database in {}", elsewhere.display());
        assert!(ran.err.contains(&says), "{arguments:?}: {ran:?}");
    }
    // A folder with something in it may be a wrong one.
    let ran = add(&home, &home.documents()).await;
    assert!(ran.code == Some(1) && ran.err.contains("There is no database in"), "{ran:?}");
    assert_eq!(fs::read_dir(home.documents()).unwrap().count(), 2);
    let ran = add(&home, &elsewhere).await;
    ran.succeeded();
    let note = format!("there was no database in {}", elsewhere.display());
    assert!(ran.err.contains(&note), "{ran:?}");
    let again = home.run(&["token", "create", "--email", "ada@example.org", "--data", argument(&elsewhere)]).await;
    assert!(again.succeeded().starts_with("rct_") && again.err.is_empty(), "{again:?}");
    let documents = home.documents();
    let report = ["report", "--month", "2026-06", "--source", argument(&documents), "--to", "anna@example.org"];
    let ran = home.run(&report).await;
    ran.succeeded();
    assert!(ran.err.contains("there was no database in "), "{ran:?}");
}

async fn add(home: &Home, data: &Path) -> Ran {
    let arguments = ["user", "add", "--email", "ada@example.org", "--role", "user", "--data", argument(data)];
    home.run_with_input(&arguments, "correct horse battery\n").await
}

/// A disk of its own, where the machine lets the test have one.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf, options: &str) -> Option<Self> {
        let arguments = ["-t", "tmpfs", "-o", options, "recount-test", argument(&at)];
        let mounted = Command::new("mount").args(arguments).output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("No disk can be mounted here, so this is not tried");
        }
        mounted.then_some(Self(at))
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}"), argument(&self.0)]).status();
        assert!(status.expect("mount").success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", argument(&self.0)]).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_data_folder_is_named_at_the_start() {
    let home = Home::new().on_file();
    let Some(disk) = Disk::mount(home.data(), "size=8m") else { return };
    home.token("ada@example.org").await;
    disk.remount("ro");
    let ran = home.run(SERVE).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(&format!("the data folder {} is read-only", home.data().display())), "{ran:?}");
}

/// A small disk fills up: the job waits, and ends when there is room again, with the one claim that it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_a_full_disk_waits_for_room() {
    let home = Home::new().on_file();
    let Some(_disk) = Disk::mount(home.data(), "size=4m") else { return };
    let smtp = Server::start_each(vec![Script { rcpt: Hold(b"250 2.1.5 ok\r\n"), ..Script::default() }, Script::default()]);
    home.mails_through(smtp.port, "lease_seconds = 1\ngrace_seconds = 1\n");
    let settings = fs::read_to_string(home.data().join("recount.toml")).unwrap();
    home.settings(&format!("keep_free_mb = 0\n{settings}"));
    let token = home.token("ada@example.org").await;
    let served: Served = home.serve(&[]).await;
    let id = served.order(&token, "key", ONE).await;
    smtp.reached().await;
    let filler = home.data().join("filler");
    // Until nothing more fits.
    let _ = fs::write(&filler, vec![1; 8_000_000]);
    until_ready(&served, (503, Unavailable::Full.sentence())).await;
    smtp.release();
    smtp.closed().await;
    // Longer than three leases.
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    assert_eq!(smtp.commits(), 0);
    fs::remove_file(filler).unwrap();
    until_ready(&served, (200, "ready")).await;
    let job = served.settled(&token, &id, |job| job["phase"] != "running").await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    assert_eq!(smtp.commits(), 1);
    served.terminate().await;
}
