//! What an assistant is told while the database cannot be used: the truth, and no acknowledgement of what was not recorded.

use serde_json::{Value, json};

use super::program::{Fault, serve, until_ready};
use crate::support::{
    mcp::{Declared, PROGRESS, TASKS, http::Http, june, request, text},
    program::Home,
    smtp_server::{Act::Hang, Script, Server},
};

/// A program that is told that its token is wrong would throw it away.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_called_wrong_while_nobody_can_look() {
    let home = Home::new();
    let (served, fault) = serve(&home).await;
    let token = home.token("ada@example.org").await;
    let http = Http::at(&served.url, &token);
    let list = request(1, "tools/list", json!({}), Declared::default());
    fault.happen();
    until_ready(&served, (503, fault.sentence())).await;
    for token in [token.as_str(), "rct_wrong"] {
        let answer = Http::at(&served.url, token).post(&list).await.answer().await;
        match fault {
            // What is there can be read.
            Fault::Disk { .. } => assert_eq!(answer.status, if token == "rct_wrong" { 401 } else { 200 }, "{answer:?}"),
            Fault::Way(_) => {
                assert_eq!(answer.status, 503, "{answer:?}");
                assert!(answer.body["detail"].as_str().unwrap().starts_with(fault.sentence()), "{answer:?}");
                assert!(!answer.head.contains("www-authenticate"), "{answer:?}");
            }
        }
    }
    fault.pass();
    until_ready(&served, (200, "ready")).await;
    assert_eq!(http.post(&list).await.answer().await.status, 200);
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_was_not_recorded_is_not_acknowledged() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }]);
    let home = Home::with_smtp(smtp.port);
    let (served, fault) = serve(&home).await;
    let token = home.token("ada@example.org").await;
    let http = Http::at(&served.url, &token);
    let started = http.begin("start_report", &june("one"), TASKS).await.answer().await;
    let id = started.body["result"]["taskId"].as_str().unwrap().to_owned();
    smtp.reached().await;
    fault.happen();
    until_ready(&served, (503, fault.sentence())).await;
    let answer = http.cancel_task(&id).await;
    assert_eq!(answer.get("result"), None, "{answer}");
    if let Fault::Disk { .. } = fault {
        assert_eq!(answer["error"]["code"], -32603);
        assert!(answer["error"]["message"].as_str().unwrap().starts_with(fault.sentence()), "{answer}");
        let tool = http.tool("cancel_report", &json!({"job_id": id})).await;
        assert!(tool["isError"] == true && text(&tool).starts_with(fault.sentence()), "{tool}");
    }
    fault.pass();
    until_ready(&served, (200, "ready")).await;
    assert_eq!(http.cancel_task(&id).await["result"], json!({"resultType": "complete"}));
    assert_eq!(http.end_of_task(&id).await["status"], "cancelled");
    served.terminate().await;
}

/// Whoever takes a request back has gone, and cannot press again: the program does it until it is recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_taken_back_meanwhile_is_cancelled_afterwards() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }]);
    let home = Home::with_smtp(smtp.port);
    let (served, fault) = serve(&home).await;
    let token = home.token("ada@example.org").await;
    let http = Http::at(&served.url, &token);
    let exchange = http.begin("generate_report", &june("one"), PROGRESS).await;
    smtp.reached().await;
    let id = served.newest_job(&token).await.unwrap();
    fault.happen();
    until_ready(&served, (503, fault.sentence())).await;
    drop(exchange);
    until_ready(&served, (503, fault.sentence())).await;
    fault.pass();
    until_ready(&served, (200, "ready")).await;
    let job = served.settled(&token, &id, |job| job["phase"] == "cancelled").await;
    assert_eq!(job["cancel"]["by"], "ada@example.org (the request was cancelled)");
    assert_ne!(job["headline"], Value::Null);
    assert_eq!(smtp.commits(), 0);
    served.terminate().await;
}
