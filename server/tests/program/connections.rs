//! Clients that only hold connections, and a server that may open no more files: nobody is kept out, and nothing is given up.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    instance::PATIENCE,
    program::{Home, SERVE, Served},
    smtp_server::{Act::Hang, Script, Server},
};

const ONE: &[&str] = &["anna@example.org"];
/// How many files the server may open, and with that how many connections it takes: half of them.
const FILES: usize = 256;
/// More connections than it takes.
const CROWD: usize = 300;
/// What is left of a request that never comes to its end.
const HEADS: [&str; 3] = [
    "",
    "GET / HTTP/1.1\r\nHost: recount\r\nX-Slow: ",
    "POST /sign-in HTTP/1.1\r\nHost: recount\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\nemail=",
];

/// A server that may have no more files open than this.
async fn serve_with(home: &Home, files: usize) -> Served {
    let program = home.command(SERVE);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n $0 && exec \"$@\"", &files.to_string()]).arg(program.get_program()).args(program.get_args());
    limited.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Served::start(limited.current_dir(home.data())).await
}

/// Connects so many times and sends no whole request.
async fn crowd(served: &Served, head: &str) -> Vec<TcpStream> {
    let address = served.url.strip_prefix("http://").expect("an address");
    let mut connections = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        let mut connection = TcpStream::connect(address).await.expect("the system takes it");
        // The server may have closed it by now.
        let _ = connection.write_all(head.as_bytes()).await;
        connections.push(connection);
    }
    connections
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_for_nothing_keep_nobody_out() {
    for head in HEADS {
        let smtp = Server::start_each(vec![Script::default(), Script { rcpt: Hang, ..Script::default() }]);
        let home = Home::with_smtp(smtp.port);
        let token = home.token("ada@example.org").await;
        let served = serve_with(&home, FILES).await;
        let held = crowd(&served, head).await;
        let sent = served.order(&token, "sent", ONE).await;
        assert_eq!(
            served.end_of(&token, &sent).await["headline"],
            "Report saved; email accepted by the mail service",
            "{head:?}"
        );
        let stopped = served.order(&token, "stopped", ONE).await;
        smtp.reached().await;
        assert_eq!(served.cancel(&token, &stopped).await["outcome"], "accepted", "{head:?}");
        let job = served.end_of(&token, &stopped).await;
        assert_eq!(job["headline"], "Cancelled. Report saved; email not sent", "{head:?}");
        drop(held);
        served.terminate().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn live_updates_make_room_for_a_cancel() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = serve_with(&home, FILES).await;
    let id = served.order(&token, "june", ONE).await;
    smtp.reached().await;
    let request = format!("GET /api/v1/jobs/{id}/events HTTP/1.1\r\nHost: recount\r\nAuthorization: Bearer {token}\r\n\r\n");
    let mut pages = crowd(&served, &request).await;
    // The last one listens, so those before it have been let in, or have made room.
    let mut answer = [0; 15];
    pages.last_mut().expect("a crowd").read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    assert_eq!(served.cancel(&token, &id).await["outcome"], "accepted");
    assert_eq!(served.end_of(&token, &id).await["headline"], "Cancelled. Report saved; email not sent");
    served.terminate().await;
}

/// Sets the most files that a running process may have open.
fn allow(process: u32, files: usize) {
    let limit = Command::new("prlimit").args([format!("--pid={process}"), format!("--nofile={files}:{FILES}")]).status();
    assert!(limit.expect("prlimit of util-linux").success());
}

/// The limit at which a process can open just so many more files.
fn limit_with(process: u32, spare: usize) -> usize {
    let open: Vec<usize> = fs::read_dir(format!("/proc/{process}/fd"))
        .expect("the files of a process")
        .filter_map(|entry| entry.expect("an entry").file_name().to_str()?.parse().ok())
        .collect();
    let mut free = (0..).filter(|number| !open.contains(number));
    free.nth(spare).expect("numbers do not end")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_cannot_open_a_connection_waits_and_does_not_count() {
    let smtp = Server::start(Script::default());
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = serve_with(&home, FILES).await;
    let id = served.order_held(&token, "june", ONE, "approval").await;
    served.settled(&token, &id, |job| job["hold"].is_object()).await;
    // Enough for the database to go on, too few for an attempt outside.
    allow(served.process(), limit_with(served.process(), 6));
    served.approve(&token, &id).await;
    let deadline = Instant::now() + PATIENCE;
    while !served.log().iter().any(|line| line.contains("too many files are open")) {
        assert!(Instant::now() < deadline, "it does not say that it waits: {:?}", served.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    allow(served.process(), FILES);
    let job = served.end_of(&token, &id).await;
    assert_eq!(job["headline"], "Report saved; email accepted by the mail service");
    assert_eq!(smtp.commits(), 1);
    let email = job["effects"]
        .as_array()
        .and_then(|effects| effects.iter().find(|effect| effect["what"] == "E-mail to anna@example.org"));
    assert_eq!(email.expect("an e-mail")["attempts"], 1, "{job}");
    served.terminate().await;
}
