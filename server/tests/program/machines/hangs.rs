//! Processes and databases that are there and do nothing: whoever waits for them stops waiting.

use serde_json::json;
use tokio::time::{Instant, timeout};

use super::messages::{Two, pages_of, print};
use crate::support::{
    gate::Gate,
    instance::PATIENCE,
    machine::{Machine, Role},
    smtp_server::{
        Act::{Hang, Hold},
        Script,
    },
};

/// A process falls asleep with a job's row locked. The database takes the lock from it after five seconds.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_process_that_falls_asleep_in_a_transaction_holds_nobody_up() {
    let Some(two) = Two::new("asleep in a transaction", Script { rcpt: Hold(b"250 2.1.5 ok\r\n"), ..Script::default() }).await
    else {
        return;
    };
    let gate = Gate::open(two.home.data().join("points"));
    let socket = gate.socket.to_str().expect("UTF-8").to_owned();
    let asleep = Machine::start_with(&two.home, Role::Pages, &[("RECOUNT_FAIL_POINTS", &socket)]).await;
    let worker = two.start(Role::Worker).await;
    let standing = gate.hold_only("before commit of cancel requested, job stopping");
    let pages = pages_of(&asleep);
    let id = pages.order(&two.token, "june", &["anna@example.org"]).await;
    timeout(PATIENCE, two.smtp.reached()).await.expect("the worker is at the mail server");
    let cancel = tokio::spawn({
        let url = format!("{}/api/v1/jobs/{id}/cancellation", pages.url);
        let request = reqwest::Client::builder().tls_certs_only([]).build().expect("a client").put(url).bearer_auth(&two.token);
        async move { request.timeout(PATIENCE).send().await.expect("an answer").status() }
    });
    let standing = timeout(PATIENCE, standing).await.expect("it comes there").expect("the gate is open");
    asleep.signal("STOP");
    let since = Instant::now();
    two.smtp.release();
    let other = two.start(Role::Pages).await;
    let job = pages_of(&other).end_of(&two.token, &id).await;
    // What was never committed has not happened.
    assert_eq!(
        (job["headline"].as_str(), &job["cancel"]),
        (Some("Report saved; email accepted by the mail service"), &json!(null))
    );
    print("With a process asleep in a transaction on it, the job ended after", &[since.elapsed()]);
    asleep.signal("CONT");
    standing.go();
    assert!(cancel.await.expect("no panic").is_server_error(), "nobody was told that it was accepted");
    for machine in [worker, other, asleep] {
        assert_eq!(machine.stops().await.code, Some(0));
    }
    assert_eq!(two.smtp.commits(), 1);
}

/// A process whose database has vanished is asked to stop: it does, though it can hand nothing back.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_its_database_stops_all_the_same() {
    let Some(two) = Two::new("a stop without a database", Script { data: Hang, ..Script::default() }).await else { return };
    let (machine, worker) = (two.start(Role::Pages).await, two.start(Role::Worker).await);
    let pages = pages_of(&machine);
    let id = pages.order(&two.token, "june", &["anna@example.org"]).await;
    timeout(PATIENCE, two.smtp.reached()).await.expect("the worker is at the mail server");
    worker.line.goes_silent();
    let asked = Instant::now();
    let ran = worker.stops().await;
    print("Without a database a process has stopped after", &[asked.elapsed()]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Its lease holds for a minute; what is sure by then is that nothing was sent.
    assert_eq!(pages.cancel(&two.token, &id).await["job"]["phase"], "stopping");
    assert_eq!(machine.stops().await.code, Some(0));
    assert_eq!(two.smtp.commits(), 0);
}
