//! A request that is taken back on HTTP: by the end of its response stream, and by nothing else.

use serde_json::{Value, json};

use crate::{
    program::proof::{
        moments::stands,
        world::{Channel, People, World},
    },
    support::{
        mcp::{Declared, PROGRESS, http::Http, june, request},
        program::{Home, Served},
        smtp_server::{Act::Hang, Script, Server},
    },
};

const BY_THE_REQUEST: &str = "ada@example.org (the request was cancelled)";

/// A server whose messages hang at this mail server.
async fn served(smtp: &Server) -> (Home, String, Served, Http) {
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let http = Http::at(&served.url, &token);
    (home, token, served, http)
}

/// The end of the newest job.
async fn end_of_newest(served: &Served, token: &str) -> Value {
    let id = served.newest_job(token).await.expect("a job");
    served.end_of(token, &id).await
}

/// T2
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_closed_before_its_first_byte_takes_its_request_back() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let (_home, token, served, http) = served(&smtp).await;
    // Without a progress token nothing is said until the report has ended.
    let mut exchange = http.begin("generate_report", &june("one"), Declared::default()).await;
    smtp.reached().await;
    assert!(exchange.is_silent());
    drop(exchange);
    let job = end_of_newest(&served, &token).await;
    assert_eq!(
        (&job["headline"], &job["cancel"]["by"]),
        (&json!("Cancelled. Report saved; email not sent"), &json!(BY_THE_REQUEST))
    );
    assert_eq!(smtp.commits(), 0);
    served.terminate().await;
}

/// T2, T8: a call with a progress token is heard of at once, long before its end, so that nothing on the way takes it for dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_closed_in_the_middle_takes_its_request_back() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let (_home, token, served, http) = served(&smtp).await;
    let mut exchange = http.begin("generate_report", &june("one"), PROGRESS).await;
    let mut numbers = Vec::new();
    loop {
        let message = exchange.message().await.expect("progress");
        numbers.push(message["params"]["progress"].as_f64().unwrap());
        if message["params"]["message"].as_str().unwrap().starts_with("E-mailing") {
            break;
        }
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    smtp.reached().await;
    drop(exchange);
    let job = end_of_newest(&served, &token).await;
    assert_eq!((&job["phase"], &job["cancel"]["by"]), (&json!("cancelled"), &json!(BY_THE_REQUEST)));
    // The connection of one request is nothing to another.
    assert_eq!(http.tool("list_sources", &json!({})).await["isError"], false);
    served.terminate().await;
}

/// T2: whatever comes first, the record and the outside agree.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_closed_at_the_instant_of_its_result_leaves_a_whole_record() {
    let smtp = Server::start(Script::default());
    let (_home, token, served, http) = served(&smtp).await;
    let mut messages = 0;
    for n in 0..10 {
        let mut exchange = http.begin("generate_report", &june(&format!("report {n}")), PROGRESS).await;
        // The last progress that is sure to come before the result.
        exchange.progress("E-mailing").await;
        drop(exchange);
        let job = end_of_newest(&served, &token).await;
        let accepted =
            job["effects"].as_array().unwrap().iter().filter(|effect| effect["kind"] != "report" && effect["outcome"] == "done");
        messages += accepted.filter(|effect| effect["message_id"].is_string()).count();
        let headline = job["headline"].as_str().unwrap();
        match job["cancel"]["by"].as_str() {
            None => assert_eq!(headline, "Report saved; email accepted by the mail service"),
            Some(by) => {
                assert_eq!(by, BY_THE_REQUEST);
                assert!(headline.starts_with("Cancelled. ") || headline.starts_with("The cancel came too late. "), "{headline}");
            }
        }
    }
    served.terminate().await;
    smtp.finished().await;
    assert_eq!(smtp.commits(), messages);
}

/// The protocol has no message from a client for this: one that is sent all the same changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_posted_cancel_changes_nothing() {
    let smtp =
        Server::start_each(vec![Script { rcpt: crate::support::smtp_server::Act::Hold(b"250 ok\r\n"), ..Script::default() }]);
    let (_home, token, served, http) = served(&smtp).await;
    let mut arguments = june("one");
    arguments["recipients"] = json!(["anna@example.org"]);
    let exchange = http.begin("generate_report", &arguments, PROGRESS).await;
    smtp.reached().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "test"}});
    let answer = http.post(&cancel).await.answer().await;
    assert_eq!((answer.status, &answer.body), (202, &Value::Null), "{answer:?}");
    let id = served.newest_job(&token).await.unwrap();
    assert_eq!(served.job(&token, &id).await["cancel"], Value::Null);
    smtp.release();
    let answer = exchange.answer().await;
    assert_eq!(answer.body["result"]["structuredContent"]["headline"], "Report saved; email accepted by the mail service");
    served.terminate().await;
}

/// The order is being committed while its call is taken back.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_stream_closed_while_the_order_commits_is_not_lost() {
    let people = People::new().await;
    let World { home, token, gate, .. } = World::new(&people, Channel::Outbox).await;
    let served = home.serve_held(&gate.socket).await;
    let standing = gate.hold_only("before commit of job queued");
    let exchange = Http::at(&served.url, &token).begin("generate_report", &june("one"), PROGRESS).await;
    let standing = stands(standing).await;
    drop(exchange);
    // Whether its end is noticed before the commit or after it: the job is cancelled. The same request finds it.
    standing.go();
    let http = Http::at(&served.url, &token);
    let again = http.tool("start_report", &june("one")).await;
    let job = served.end_of(&token, again["structuredContent"]["job_id"].as_str().unwrap()).await;
    assert_eq!((&job["phase"], &job["cancel"]["by"]), (&json!("cancelled"), &json!(BY_THE_REQUEST)), "{}", job["headline"]);
    served.terminate().await;
}

/// A call that only starts a report is over when it is answered, and its stream is nothing to the report.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_request_is_no_cancel_of_what_it_started() {
    let smtp = Server::start(Script::default());
    let (_home, token, served, http) = served(&smtp).await;
    for (key, declared) in [("plain", Declared::default()), ("task", crate::support::mcp::TASKS)] {
        let mut exchange = http.begin("start_report", &june(key), declared).await;
        let answer = exchange.message().await.expect("a handle")["result"].clone();
        drop(exchange);
        let id =
            [&answer["taskId"], &answer["structuredContent"]["job_id"]].into_iter().find_map(Value::as_str).unwrap().to_owned();
        let job = served.end_of(&token, &id).await;
        assert_eq!((&job["phase"], &job["cancel"]), (&json!("finished"), &Value::Null), "{key}");
    }
    // Nor is a closed stream that only looks.
    drop(http.post(&request(1, "tools/list", json!({}), Declared::default())).await);
    assert_eq!(http.tool("list_sources", &json!({})).await["isError"], false);
    served.terminate().await;
}
