//! A process that is stopped (SIGSTOP) between the final dot and the reply, for longer than its lease and longer than it would
//! wait for that reply. Another one accounts for it meanwhile. When it goes on, every time-out has elapsed and the reply lies in
//! its socket: that is the evidence, and it counts.

use std::{fs, sync::Arc, time::Duration};

use contract::Outcome;
use domain::{clock::SystemClock, id::JobId};
use serde_json::Value;
use store::Store;
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    instance::PATIENCE,
    program::{Home, Served},
    smtp_server::{Act::Hold, Script, Server},
};

/// How long the program waits for the reply to the dot. Until then it must have been stopped, however slow the machine is.
const LIMIT: Duration = Duration::from_secs(15);

/// What else happens while it is asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    /// Somebody presses Cancel.
    Cancel,
    /// It is asked to stop (SIGTERM).
    Terminate,
}

/// Whether every thread of this process is stopped.
fn is_stopped(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

/// Accounts for the job as the next worker would, once its lease is over.
async fn recover(store: &Store, id: JobId) {
    let deadline = Instant::now() + PATIENCE;
    while store.recover_job(id).await.expect("the database works").is_none() {
        assert!(Instant::now() < deadline, "the lease never expires");
        sleep(Duration::from_millis(100)).await;
    }
}

async fn emails(store: &Store, id: JobId) -> Vec<(Outcome, Option<String>)> {
    let record = store.job(id).await.expect("the database works").expect("the job");
    record.job.emails().map(|email| (email.outcome, email.evidence.clone())).collect()
}

/// Returns the record's e-mail in the end, and the job where the program still answers.
async fn asleep_at_the_dot(reply: &'static [u8], commit: bool, meanwhile: Meanwhile) -> (Outcome, String, Option<Value>) {
    let smtp = Server::start(Script { dot: Hold(reply), commit, ..Script::default() });
    let home = Home::with_smtp(smtp.port);
    let file = home.data().join("recount.toml");
    let settings = fs::read_to_string(&file).expect("settings");
    home.settings(&format!("{settings}timeouts = {{ final_dot = {} }}\n", LIMIT.as_secs()));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let order = served.order(&token, "june", &["anna@example.org"]).await;
    let id: JobId = order.parse().expect("an id");
    timeout(PATIENCE, smtp.reached()).await.expect("it is between the dot and the reply");
    let handed_over = Instant::now();
    stop(&served).await;

    let store = Store::open(home.database(), Arc::new(SystemClock), "recount.test").await.expect("the database");
    smtp.release();
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::Cancel => drop(store.cancel_job(id, "ada@example.org").await.expect("the database works")),
        Meanwhile::Terminate => served.signal("TERM"),
    }
    recover(&store, id).await;
    assert_eq!(emails(&store, id).await[0].0, Outcome::Unconfirmed, "nobody else has heard the reply");
    sleep((handed_over + LIMIT + Duration::from_secs(1)).saturating_duration_since(Instant::now())).await;

    served.signal("CONT");
    let told = if meanwhile == Meanwhile::Terminate {
        served.stopped().await;
        None
    } else {
        let settled =
            |job: &Value| job["effects"].as_array().is_some_and(|all| all.iter().all(|one| one["outcome"] != "unconfirmed"));
        served.settled(&token, &order, settled).await;
        let told = served.end_of(&token, &order).await;
        served.terminate().await;
        Some(told)
    };
    let found = emails(&store, id).await;
    store.close().await;
    smtp.finished().await;
    assert_eq!(smtp.commits(), usize::from(commit), "{meanwhile:?}");
    let [(outcome, evidence)] = found.try_into().expect("one e-mail");
    (outcome, evidence.unwrap_or_default(), told)
}

/// Stops it, and waits until that has happened.
async fn stop(served: &Served) {
    served.signal("STOP");
    let deadline = Instant::now() + PATIENCE;
    while !is_stopped(served.process()) {
        assert!(Instant::now() < deadline, "it does not stop");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_came_while_the_process_was_stopped_is_evidence_whatever_happened_meanwhile() {
    const OK: &[u8] = b"250 2.0.0 Ok: queued as LATE\r\n";
    let cases = [
        (OK, true, Meanwhile::Nothing, "Report saved; email accepted by the mail service"),
        (OK, true, Meanwhile::Cancel, "Cancelled. Report saved; email accepted for 1 of 1"),
        (OK, true, Meanwhile::Terminate, ""),
        (b"550 5.7.1 no\r\n", false, Meanwhile::Nothing, "Report saved; email refused for 1 of 1"),
    ];
    let running = cases.map(|(reply, commit, meanwhile, headline)| {
        tokio::spawn(async move {
            let (outcome, evidence, told) = asleep_at_the_dot(reply, commit, meanwhile).await;
            let expected = if commit { Outcome::Done } else { Outcome::NotDone };
            assert_eq!(outcome, expected, "{meanwhile:?}: {evidence}");
            assert!(evidence.starts_with(if commit { "250 2.0.0 Ok: queued as LATE" } else { "550 5.7.1 no" }), "{evidence}");
            if let Some(told) = told {
                assert_eq!(told["headline"], headline);
            }
        })
    });
    for case in running {
        case.await.expect("as it should be");
    }
}
