//! A request that is taken back on standard streams: by `notifications/cancelled`, and then not another byte about it.

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    program::proof::{
        moments::stands,
        world::{Channel, People, World},
    },
    support::{
        instance::PATIENCE,
        mcp::{
            Declared, PROGRESS, call, june,
            stdio::{Stdio, answers},
        },
        program::Home,
        raw::Raw,
        smtp_server::{
            Act::{Hang, Hold},
            Script, Server,
        },
    },
};

const ADA: &str = "ada@example.org";

/// Ada's program, whose messages go to this server.
async fn with_mail(smtp: &Server) -> Home {
    let home = Home::with_smtp(smtp.port);
    home.token(ADA).await;
    home
}

fn progress(seen: &[Value]) -> Vec<&Value> {
    seen.iter().filter(|message| message["method"] == "notifications/progress").map(|message| &message["params"]).collect()
}

/// T1
#[tokio::test(flavor = "multi_thread")]
async fn after_the_cancel_of_a_request_neither_its_answer_nor_progress_comes() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = with_mail(&smtp).await;
    let mut stdio = Stdio::start(&home, ADA);
    let id = stdio.begin("generate_report", &june("one"), PROGRESS);
    stdio.progress("E-mailing").await;
    smtp.reached().await;
    stdio.cancel(id);
    let job = stdio.newest().await;
    let told = progress(&stdio.seen()).len();
    // The job goes on to change: it stops, and ends. The connection goes on as well.
    let status = stdio.end_of(&job).await;
    assert_eq!(status["headline"], "Cancelled. Report saved; email not sent");
    assert_eq!(status["cancelled_by"], "ada@example.org (the request was cancelled)");
    smtp.closed().await;
    assert_eq!(smtp.commits(), 0);
    stdio.leave();
    let (code, seen, _) = stdio.ended().await;
    assert_eq!(code, Some(0));
    assert_eq!(answers(&seen, id).count(), 0, "a request that was taken back is not answered");
    let numbers: Vec<f64> = progress(&seen).iter().map(|params| params["progress"].as_f64().unwrap()).collect();
    assert_eq!(numbers.len(), told, "no progress after the cancel");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    assert!(seen.iter().all(|message| message["method"] != "notifications/cancelled"), "a server cancels no request of a client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_taken_back_is_answered_with_the_end_of_its_report() {
    let smtp = Server::start(Script::default());
    let home = with_mail(&smtp).await;
    let mut stdio = Stdio::start(&home, ADA);
    let id = stdio.begin("generate_report", &june("one"), PROGRESS);
    let answer = stdio.answer(id).await;
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    assert_eq!(answer["result"]["structuredContent"]["headline"], "Report saved; email accepted by the mail service");
    let seen = stdio.seen();
    let sentences: Vec<&str> = progress(&seen).iter().map(|params| params["message"].as_str().unwrap()).collect();
    assert!(
        !sentences.is_empty() && progress(&seen).iter().all(|params| params["progressToken"] == "progress-7"),
        "{sentences:?}"
    );

    // Commit first: the answer has gone out, and the cancel that comes late changes nothing at all.
    let job = answer["result"]["structuredContent"].clone();
    stdio.cancel(id);
    let after = stdio.tool("get_report_status", &json!({"job_id": job["job_id"]})).await;
    assert_eq!(after["structuredContent"], job);
    // The same request again finds its report.
    let again = stdio.tool("generate_report", &june("one")).await;
    assert_eq!(again["structuredContent"], job);
    stdio.leave();
    assert_eq!(stdio.ended().await.0, Some(0));
    assert_eq!(smtp.commits(), 2);
}

/// T3
#[tokio::test(flavor = "multi_thread")]
async fn cancels_that_name_nothing_are_ignored() {
    let home = Home::new();
    home.token(ADA).await;
    let mut stdio = Stdio::start(&home, ADA);
    stdio.tool("list_sources", &json!({})).await;
    for params in [
        json!({"requestId": 4711}),
        json!({"requestId": "no such"}),
        json!({"requestId": 1}),
        json!({"requestId": null}),
        json!({"requestId": {"id": 1}}),
        json!({"requestId": [1]}),
        json!({"requestId": 1.5}),
        json!({"requestId": true, "reason": 7}),
        json!({}),
        Value::Null,
        json!("text"),
    ] {
        stdio.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        assert_eq!(stdio.tool("list_sources", &json!({})).await["isError"], false, "after {params}");
    }
    stdio.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
    assert_eq!(stdio.tool("list_sources", &json!({})).await["isError"], false);
    stdio.leave();
    let (code, seen, _) = stdio.ended().await;
    assert_eq!(code, Some(0));
    let unasked: Vec<&Value> = seen.iter().filter(|message| message.get("result").is_none()).collect();
    assert!(unasked.iter().all(|message| message.get("error").is_some()), "{unasked:?}");
}

/// T3
#[tokio::test(flavor = "multi_thread")]
async fn a_second_cancel_of_a_request_changes_nothing() {
    let smtp = Server::start(Script { rcpt: Hang, ..Script::default() });
    let home = with_mail(&smtp).await;
    let mut stdio = Stdio::start(&home, ADA);
    let id = stdio.begin("generate_report", &june("one"), Declared::default());
    smtp.reached().await;
    for _ in 0..3 {
        stdio.cancel(id);
    }
    let job = stdio.newest().await;
    let first = stdio.end_of(&job).await;
    stdio.cancel(id);
    let later = stdio.tool("get_report_status", &json!({"job_id": job})).await;
    assert_eq!(later["structuredContent"], first);
    stdio.leave();
    assert_eq!(answers(&stdio.ended().await.1, id).count(), 0);
}

/// T3
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_a_thousand_cancels_leaves_nothing_behind() {
    const STORM: u64 = 1_000;
    let home = Home::new();
    home.token(ADA).await;
    let mut stdio = Stdio::start(&home, ADA);
    stdio.tool("list_sources", &json!({})).await;
    let mut ids = Vec::new();
    for n in 0..STORM {
        // Most name no folder that exists, so that there are not a thousand jobs; all are taken back at once.
        let mut arguments = june(&format!("storm {n}"));
        if n % 100 != 0 {
            arguments["sources"] = json!(["nowhere"]);
        }
        let id = stdio.begin("generate_report", &arguments, PROGRESS);
        stdio.cancel(id);
        ids.push(id);
    }
    let listed = stdio.tool("list_reports", &json!({})).await["structuredContent"]["reports"].clone();
    for report in listed.as_array().unwrap() {
        stdio.end_of(report["job_id"].as_str().unwrap()).await;
    }
    assert_eq!(stdio.tool("list_sources", &json!({})).await["isError"], false, "it still answers");
    stdio.leave();
    let (code, seen, _) = stdio.ended().await;
    assert_eq!(code, Some(0));
    // Those that were quicker than their cancel are answered; none twice, and none by another's answer.
    for id in ids {
        assert!(answers(&seen, id).count() <= 1, "{id}");
    }
    let mut raw = Raw::open(home.database()).await;
    assert_eq!(raw.number("select count(*) from jobs where lease_owner is not null or finished_at is null").await, 0);
}

/// The answer to a request that was taken back must not be taken for the one to a later request with the same id.
#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_used_again_gets_its_own_answer() {
    let smtp = Server::start_each(vec![
        Script { rcpt: Hang, ..Script::default() },
        Script { dot: Hold(b"250 ok\r\n"), ..Script::default() },
    ]);
    let home = with_mail(&smtp).await;
    let mut stdio = Stdio::start(&home, ADA);
    let id = stdio.begin("generate_report", &june("one"), PROGRESS);
    smtp.reached().await;
    let first = stdio.newest().await;
    stdio.cancel(id);
    let mut arguments = june("two");
    arguments["recipients"] = json!(["anna@example.org"]);
    stdio.write(&call(id, "generate_report", &arguments, PROGRESS));
    // The first call comes to its end while the second one is open.
    assert_eq!(stdio.end_of(&first).await["phase"], "cancelled");
    timeout(PATIENCE, smtp.reached()).await.expect("the second report goes on to its e-mail");
    assert_eq!(answers(&stdio.seen(), id).count(), 0);
    smtp.release();
    let answer = stdio.answer(id).await;
    let report = &answer["result"]["structuredContent"];
    assert_ne!(report["job_id"], first.as_str(), "{answer}");
    assert_eq!(report["headline"], "Report saved; email accepted by the mail service", "{answer}");
    stdio.leave();
    assert_eq!(answers(&stdio.ended().await.1, id).count(), 1);
}

/// The other order of the race: the cancel is recorded before the last commit, so that there is no answer, and the record says
/// what had happened by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_comes_before_the_last_commit_suppresses_the_answer() {
    let smtp = Server::start(Script { dot: Hold(b"250 ok\r\n"), ..Script::default() });
    let home = with_mail(&smtp).await;
    let mut stdio = Stdio::start(&home, ADA);
    let mut arguments = june("one");
    arguments["recipients"] = json!(["anna@example.org"]);
    let id = stdio.begin("generate_report", &arguments, PROGRESS);
    smtp.reached().await;
    stdio.cancel(id);
    let job = stdio.newest().await;
    // The cancel is recorded. Only then the mail server says that it has the message.
    stdio.status(&job, |status| status["phase"] == "stopping").await;
    smtp.release();
    let status = stdio.end_of(&job).await;
    assert_eq!(status["headline"], "The cancel came too late. Report saved; email accepted by the mail service");
    stdio.leave();
    assert_eq!(answers(&stdio.ended().await.1, id).count(), 0);
    assert_eq!(smtp.commits(), 1);
}

/// A call that was taken back while its order was being committed: the job is there, and is cancelled as well.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_cancel_while_the_order_commits_is_not_lost() {
    let people = People::new().await;
    let World { home, gate, .. } = World::new(&people, Channel::Outbox).await;
    let mut command = home.command(&["mcp", "--user", ADA]);
    let mut stdio = Stdio::spawn(command.env("RECOUNT_FAIL_POINTS", &gate.socket));
    let standing = gate.hold_only("before commit of job queued");
    let id = stdio.begin("generate_report", &june("one"), PROGRESS);
    let standing = stands(standing).await;
    stdio.cancel(id);
    // What comes after the cancel is answered after it was taken in.
    stdio.tool("list_sources", &json!({})).await;
    standing.go();
    let job = stdio.newest().await;
    let status = stdio.end_of(&job).await;
    assert_eq!(status["headline"], "Cancelled. Nothing was saved or sent");
    stdio.leave();
    assert_eq!(answers(&stdio.ended().await.1, id).count(), 0);
}
