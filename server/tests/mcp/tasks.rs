//! The Cancel of a task: recorded like the button's, acknowledged as just that, at every moment of a job.

use std::io::Write;

use serde_json::{Value, json};

use crate::{
    program::proof::{
        moments::{AT_THE_DOT, stands},
        world::{Channel, People, World},
    },
    support::{
        mcp::{TASKS, http::Http, june, stdio::Stdio},
        program::{Home, Served},
        smtp_server::{Act::Hang, Script, Server},
    },
};

/// All that an acknowledgement says.
fn is_ack(answer: &Value) {
    assert_eq!(answer["result"], json!({"resultType": "complete"}), "{answer}");
}

/// Starts June's report as a task.
async fn started(http: &Http, key: &str) -> String {
    let answer = http.begin("start_report", &june(key), TASKS).await.answer().await.body["result"].clone();
    assert_eq!((&answer["resultType"], &answer["ttlMs"]), (&json!("task"), &Value::Null), "{answer}");
    answer["taskId"].as_str().unwrap().to_owned()
}

fn tell(moment: &str, task: &Value) {
    let (status, headline) = (task["status"].as_str().unwrap(), task["statusMessage"].as_str().unwrap());
    writeln!(std::io::stdout().lock(), "tasks/cancel {moment}: {status}, {headline}").unwrap();
}

async fn june_is_served(smtp: &Server) -> (Home, String, Served) {
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    (home, token, served)
}

/// T4
#[tokio::test(flavor = "multi_thread")]
async fn a_task_cancelled_while_queued_is_cancelled_at_once() {
    let home = Home::new();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", home.documents().display()));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&["--no-worker"]).await;
    let http = Http::at(&served.url, &token);
    let id = started(&http, "june").await;
    let task = http.task(&id).await["result"].clone();
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("working"), &json!("Waiting to start")));
    assert_eq!((&task["pollIntervalMs"], &task["createdAt"]), (&json!(1000), &task["lastUpdatedAt"]));
    is_ack(&http.cancel_task(&id).await);
    let task = http.task(&id).await["result"].clone();
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("cancelled"), &json!("Cancelled. Nothing was saved or sent")));
    assert!(task["createdAt"].as_str().unwrap() < task["lastUpdatedAt"].as_str().unwrap(), "{task}");
    tell("while queued", &task);
    // Again: acknowledged again, and nothing changes.
    is_ack(&http.cancel_task(&id).await);
    assert_eq!(http.task(&id).await["result"], task);
    assert_eq!(served.job(&token, &id).await["headline"], task["statusMessage"]);
    served.terminate().await;
}

/// T4: held in each stage, so that the acknowledgement is seen to be no stop.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_task_cancelled_in_a_stage_works_until_it_is_accounted_for() {
    const NOTHING: &str = "Cancelled. Nothing was saved or sent";
    let people = People::new().await;
    for (moment, point, status, headline) in [
        ("while collecting", "before reading 2026-06-03-meeting.md", "cancelled", NOTHING),
        ("before the save", "before the save takes the database", "cancelled", NOTHING),
        ("between the final dot and its reply", AT_THE_DOT, "cancelled", "Cancelled. Report saved; email accepted for 1 of 2"),
    ] {
        let World { home, token, gate, .. } = World::new(&people, Channel::Smtp).await;
        let served = home.serve_held(&gate.socket).await;
        let http = Http::at(&served.url, &token);
        let standing = gate.hold_only(point);
        let id = started(&http, "june").await;
        let standing = stands(standing).await;
        is_ack(&http.cancel_task(&id).await);
        let task = http.task(&id).await["result"].clone();
        assert_eq!((&task["status"], &task["statusMessage"]), (&json!("working"), &json!("Stopping…")), "{moment}");
        is_ack(&http.cancel_task(&id).await);
        standing.go();
        let task = http.end_of_task(&id).await;
        assert_eq!((&task["status"], &task["statusMessage"]), (&json!(status), &json!(headline)), "{moment}");
        assert_eq!(served.job(&token, &id).await["cancel"]["by"], "you");
        tell(moment, &task);
        served.terminate().await;
    }
}

/// T4
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_task_cancelled_while_a_model_writes_is_cancelled_without_waiting_for_it() {
    let people = People::new().await;
    let World { home, token, gate, .. } = World::new(&people, Channel::Smtp).await;
    let served = home.serve_held(&gate.socket).await;
    let http = Http::at(&served.url, &token);
    let standing = gate.hold_only("the model server has sent words");
    let id = started(&http, "june").await;
    let standing = stands(standing).await;
    is_ack(&http.cancel_task(&id).await);
    let task = http.end_of_task(&id).await;
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("cancelled"), &json!("Cancelled. Nothing was saved or sent")));
    tell("while a model writes", &task);
    standing.go();
    served.terminate().await;
}

/// T4: the Cancel waits behind the last commit, and comes too late.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_task_cancelled_during_its_last_commit_is_completed() {
    let people = People::new().await;
    let World { home, token, gate, .. } = World::new(&people, Channel::Outbox).await;
    let served = home.serve_held(&gate.socket).await;
    let http = Http::at(&served.url, &token);
    let standing = gate.hold_only("before commit of email done, job finished");
    let id = started(&http, "june").await;
    let standing = stands(standing).await;
    let cancel = tokio::spawn({
        let (http, id) = (http.clone(), id.clone());
        async move { http.cancel_task(&id).await }
    });
    standing.go();
    is_ack(&cancel.await.unwrap());
    let task = http.end_of_task(&id).await;
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(task["statusMessage"], "Report saved; written to the outbox folder, no e-mail was sent");
    tell("during the last commit", &task);
    served.terminate().await;
}

/// T4: a task that has ended stays as it is, with its result.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_ended_stays_as_it_is() {
    let smtp = Server::start(Script::default());
    let (_home, token, served) = june_is_served(&smtp).await;
    let http = Http::at(&served.url, &token);
    let id = started(&http, "june").await;
    let task = http.end_of_task(&id).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(false)), "{task}");
    assert_eq!(task["statusMessage"], "Report saved; email accepted by the mail service");
    let result = &task["result"];
    assert_eq!(result["structuredContent"]["headline"], task["statusMessage"]);
    assert_eq!(result["content"][1]["uri"], format!("report://{id}"));
    is_ack(&http.cancel_task(&id).await);
    let after = http.task(&id).await["result"].clone();
    assert_eq!((&after["status"], &after["statusMessage"]), (&task["status"], &task["statusMessage"]));
    tell("after the end", &after);
    // One that fails for a reason that people can do something about is completed, with an error of the tool.
    let mut arguments = june("empty");
    arguments["month"] = "2019-01".into();
    let started = http.begin("start_report", &arguments, TASKS).await.answer().await.body["result"].clone();
    let task = http.end_of_task(started["taskId"].as_str().unwrap()).await;
    assert_eq!((&task["status"], &task["result"]["isError"]), (&json!("completed"), &json!(true)), "{task}");
    assert!(task["statusMessage"].as_str().unwrap().starts_with("Failed while collecting"), "{task}");
    served.terminate().await;
}

/// T4
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_unknown_or_foreign_is_the_same_to_everybody() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let (home, token, served) = june_is_served(&smtp).await;
    let (ada, bob) = (Http::at(&served.url, &token), Http::at(&served.url, &home.token("bob@example.org").await));
    let id = started(&ada, "june").await;
    smtp.reached().await;
    let foreign = bob.cancel_task(&id).await["error"].clone();
    assert_eq!(foreign["code"], -32602, "{foreign}");
    for unknown in ["019f3c4e-7d1e-7a55-8000-000000000000", "nonsense", "'; drop table jobs; --"] {
        assert_eq!(bob.cancel_task(unknown).await["error"], foreign, "{unknown}");
        assert_eq!(bob.task(unknown).await["error"], foreign, "{unknown}");
    }
    assert_eq!(bob.task(&id).await["error"], foreign);
    assert_eq!(ada.task(&id).await["result"]["status"], "working");
    assert_eq!(served.job(&token, &id).await["cancel"], Value::Null);
    served.terminate().await;
}

/// T4: what was acknowledged is kept, though the process is killed before anything came of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_was_acknowledged_survives_a_kill() {
    let smtp = Server::start(Script { dot: Hang, ..Script::default() });
    let (home, token, served) = june_is_served(&smtp).await;
    let http = Http::at(&served.url, &token);
    let id = started(&http, "june").await;
    smtp.reached().await;
    is_ack(&http.cancel_task(&id).await);
    assert_eq!(http.task(&id).await["result"]["status"], "working");
    served.kill().await;
    let served = home.serve(&[]).await;
    let task = Http::at(&served.url, &token).end_of_task(&id).await;
    assert_eq!(task["status"], "cancelled");
    assert_eq!(task["statusMessage"], "Cancelled. Report saved; email outcome unconfirmed");
    tell("and the process killed", &task);
    served.terminate().await;
}

/// T5
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_after_its_handle_leaves_the_report_to_the_next_one() {
    let smtp = Server::start_each(vec![Script { rcpt: Hang, ..Script::default() }, Script::default()]);
    let home = Home::with_smtp(smtp.port);
    let token = home.token("ada@example.org").await;
    let mut vanishes = Stdio::start(&home, "ada@example.org");
    let id = vanishes.begin("start_report", &june("june"), TASKS);
    let answer = vanishes.answer(id).await;
    let task = answer["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    smtp.reached().await;
    vanishes.signal("KILL");
    assert_eq!(vanishes.ended().await.0, None);
    // Another client of the same person, at another process, by the record alone.
    let served = home.serve(&[]).await;
    let http = Http::at(&served.url, &token);
    assert_eq!(http.task(&task).await["result"]["status"], "working");
    let ended = http.end_of_task(&task).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["statusMessage"], "Report saved; email accepted by the mail service");
    // A handle that was lost altogether is found by the list, and by the same request.
    let listed = http.tool("list_reports", &json!({})).await;
    assert_eq!(listed["structuredContent"]["reports"][0]["job_id"], task);
    assert_eq!(started(&http, "june").await, task);
    served.terminate().await;
}

/// T6: the token of a request fires when it is answered; the job that it has started is none of its business.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_outlives_the_request_that_started_it_on_stdio() {
    let smtp = Server::start(Script::default());
    let home = Home::with_smtp(smtp.port);
    home.token("ada@example.org").await;
    let mut stdio = Stdio::start(&home, "ada@example.org");
    let id = stdio.begin("start_report", &june("june"), TASKS);
    let task = stdio.answer(id).await["result"]["taskId"].as_str().unwrap().to_owned();
    // Late, and the wrong message for a task: it names a request that is over.
    stdio.cancel(id);
    stdio.cancel(task.clone());
    let status = stdio.end_of(&task).await;
    assert_eq!((&status["phase"], status.get("cancelled_by")), (&json!("finished"), None), "{status}");
    let ended = stdio.ask("tasks/get", json!({"taskId": task}), TASKS).await;
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    stdio.leave();
    assert_eq!(stdio.ended().await.0, Some(0));
}
