//! The real program while its database cannot be used: a disk that is full (SQLite), a server that is gone (PostgreSQL).

use std::{process::Command, time::Duration};

use sqlx::ConnectOptions;
use store::Place;
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;
use crate::support::{
    instance::PATIENCE,
    pages::Browser,
    program::{Home, SERVE, Served},
    smtp_server::{Act::Hold, Script, Server},
};

const ONE: &[&str] = &["anna@example.org"];

/// How often something is asked that nobody announces.
const LOOK: Duration = Duration::from_millis(50);

/// What makes the database fail.
pub enum Fault {
    /// No file may be written; the limit is lifted again.
    Disk {
        process: u32,
    },
    Way(Proxy),
}

impl Fault {
    pub fn happen(&self) {
        match self {
            Self::Disk { process } => limit_files(*process, "0"),
            Self::Way(proxy) => proxy.cut(),
        }
    }

    pub fn pass(&self) {
        match self {
            Self::Disk { process } => limit_files(*process, "unlimited"),
            Self::Way(proxy) => proxy.mend(),
        }
    }

    pub fn sentence(&self) -> &'static str {
        match self {
            Self::Disk { .. } => "The database cannot store anything just now: its disk is full, or out of order.",
            Self::Way(_) => "The database cannot be reached just now.",
        }
    }
}

/// Sets the size that files of a process may have.
fn limit_files(process: u32, size: &str) {
    let status = Command::new("prlimit").args(["--pid", &process.to_string(), &format!("--fsize={size}:")]).status();
    assert!(status.expect("prlimit of util-linux").success());
}

/// A server whose database can be made to fail.
pub async fn serve(home: &Home) -> (Served, Fault) {
    match home.database() {
        Place::Sqlite(_) => {
            // The signal that comes with the limit would end the program; with a full disk there is none.
            let program = home.command(SERVE);
            let mut shell = Command::new("sh");
            shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(program.get_program()).args(program.get_args());
            let settings = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
            let folder = program.get_current_dir().expect("a folder");
            let served = Served::start(shell.envs(settings).current_dir(folder)).await;
            let fault = Fault::Disk { process: served.process() };
            (served, fault)
        }
        Place::Postgres(options) => {
            let address = format!("{}:{}", options.get_host(), options.get_port()).parse().expect("an address");
            let proxy = Proxy::to(address).await.expect("a port");
            let url = options.as_ref().clone().port(proxy.port).to_url_lossy();
            let served = Served::start(home.command(SERVE).env("RECOUNT_DATABASE", url.as_str())).await;
            (served, Fault::Way(proxy))
        }
    }
}

async fn ready(served: &Served) -> (u16, String) {
    let asked = Instant::now();
    let answer = reqwest::get(format!("{}/readyz", served.url)).await.expect("the server answers");
    assert!(asked.elapsed() < Duration::from_secs(8), "whatever the database does, there is an answer");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

pub async fn until_ready(served: &Served, expected: (u16, &str)) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, text) = ready(served).await;
        if (status, text.as_str()) == expected {
            return;
        }
        assert!(Instant::now() < deadline, "waited in vain for {expected:?}, it is {status} {text}");
        sleep(LOOK).await;
    }
}

/// What a browser is shown, with the status.
async fn page(served: &Served, browser: &Browser, method: reqwest::Method, path: &str) -> (u16, String) {
    let request = reqwest::Client::new().request(method, format!("{}{path}", served.url));
    let request = request.header("cookie", &browser.cookie).header("accept", "text/html");
    let answer = request.timeout(PATIENCE).send().await.expect("the server answers");
    (answer.status().as_u16(), answer.text().await.expect("a page"))
}

/// An acceptance that the mail server has given is kept until it can be written, however long that takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_meanwhile_is_recorded_afterwards() {
    let smtp = Server::start(Script { dot: Hold(b"250 2.0.0 Ok: queued as ABC123\r\n"), ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let (served, fault) = serve(&home).await;
    let token = home.token("ada@example.org").await;
    let browser = served.browser().await;
    until_ready(&served, (200, "ready")).await;
    let id = served.order(&token, "key", ONE).await;
    smtp.reached().await;

    let (began, logged) = (Instant::now(), served.log().len());
    fault.happen();
    until_ready(&served, (503, fault.sentence())).await;
    assert_eq!(reqwest::get(format!("{}/healthz", served.url)).await.unwrap().status(), 204, "the process lives");
    smtp.release();
    smtp.finished().await;

    let cancellation = format!("/jobs/{id}/cancellation");
    for _ in 0..5 {
        let (status, text) = page(&served, &browser, reqwest::Method::POST, &cancellation).await;
        assert_eq!(status, 503, "{text}");
        assert!(text.contains("It is not known whether your Cancel was recorded."), "{text}");
        let (status, text) = page(&served, &browser, reqwest::Method::GET, &format!("/jobs/{id}")).await;
        match fault {
            Fault::Disk { .. } => assert_eq!(status, 200, "what is there can be read"),
            Fault::Way(_) => {
                assert_eq!(status, 503);
                assert!(text.contains(fault.sentence()) && text.contains("http-equiv=\"refresh\""), "{text}");
            }
        }
    }
    assert_eq!(ready(&served).await, (503, fault.sentence().to_owned()));
    let lines = served.log().split_off(logged);
    let allowed = 2 + began.elapsed().as_secs() / 5;
    assert!(lines.len() as u64 <= allowed, "{} lines in {:?}: {lines:#?}", lines.len(), began.elapsed());

    goes_on(served, &fault, &token, &id, &smtp).await;
}

/// Ends the fault; the job then comes to its end by itself, with one message.
async fn goes_on(served: Served, fault: &Fault, token: &str, id: &str, smtp: &Server) {
    fault.pass();
    until_ready(&served, (200, "ready")).await;
    let job = served.settled(token, id, |job| job["phase"] == "finished").await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    assert_eq!(smtp.commits(), 1);
    served.terminate().await;
}

/// Nothing leaves without its intent on record; and what was not done is done when it can be recorded again.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_not_sent_until_it_can() {
    let smtp = Server::start_each(vec![Script { data: Hold(b"354 go on\r\n"), ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let (served, fault) = serve(&home).await;
    let token = home.token("ada@example.org").await;
    let id = served.order(&token, "key", ONE).await;
    smtp.reached().await;
    fault.happen();
    until_ready(&served, (503, fault.sentence())).await;
    smtp.release();
    smtp.closed().await;
    assert_eq!(smtp.commits(), 0);

    goes_on(served, &fault, &token, &id, &smtp).await;
}

/// Nobody is kept waiting for a server that has vanished without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_silent_is_noticed() {
    let smtp = Server::start_each(vec![Script { data: Hold(b"354 go on\r\n"), ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let Place::Postgres(_) = home.database() else { return };
    let (served, fault) = serve(&home).await;
    let Fault::Way(way) = &fault else { unreachable!() };
    let token = home.token("ada@example.org").await;
    let browser = served.browser().await;
    let id = served.order(&token, "key", ONE).await;
    smtp.reached().await;
    way.fall_silent();
    until_ready(&served, (503, fault.sentence())).await;
    smtp.release();
    let (status, text) = page(&served, &browser, reqwest::Method::GET, &format!("/jobs/{id}")).await;
    assert_eq!(status, 503, "{text}");
    smtp.closed().await;
    assert_eq!(smtp.commits(), 0);
    fault.pass();
    until_ready(&served, (200, "ready")).await;
    served.settled(&token, &id, |job| job["phase"] == "finished").await;
    assert_eq!(smtp.commits(), 1);
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_a_database_says_what_is_the_matter() {
    let home = Home::new();
    home.settings("public_url = \"http://recount.test\"\n");
    // A port that nobody listens on.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    for url in [format!("postgres://recount:hunter2@127.0.0.1:{port}/office"), "/proc/none/recount.sqlite3".into()] {
        for arguments in [SERVE, &["worker"], &["user", "add", "--email", "ada@example.org", "--role", "user"]] {
            let output =
                home.command(arguments).env("RECOUNT_DATABASE", &url).stdin(std::process::Stdio::null()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{text}");
            assert!(text.contains("cannot be opened") && !text.contains("hunter2") && !text.contains("panicked"), "{text}");
        }
    }
}
