//! The program itself with MCP servers in its settings: the form, a job, and SIGKILL in the middle of a call.

use serde_json::Value;

use crate::support::{
    mcp_server::{McpServer, Transport},
    program::{Home, Served},
};

/// Settings with the wiki as the source "Wiki" and one call.
fn settings(home: &Home, wiki: &McpServer, transport: Transport, tool: &str) {
    let link = match transport {
        Transport::Http => format!("url = {:?}\nbearer_token = \"s3cret\"\ntasks = true", wiki.url()),
        Transport::Stdio => {
            format!("command = {}\nenv = {{ WIKI_Token = \"s3cret\" }}", serde_json::to_string(&wiki.command()).unwrap())
        }
    };
    home.settings(&format!(
        "[[sources]]\nname = \"Wiki\"\n{link}\n[[sources.calls]]\ntool = \"{tool}\"\narguments = {{ month = \"{{month}}\" }}\n\
         [worker]\nlease_seconds = 3\n"
    ));
}

async fn order(served: &Served, token: &str, key: &str) -> String {
    let order = serde_json::json!({ "month": "2026-06", "zone": "UTC", "sources": ["Wiki"], "recipients": ["anna@example.org"] });
    let request =
        reqwest::Client::new().post(format!("{}/api/v1/jobs", served.url)).bearer_auth(token).header("Idempotency-Key", key);
    let answer = request.header("Content-Type", "application/json").body(order.to_string()).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
    let job: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    job["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_made_from_a_program_in_the_settings_and_nothing_shows_its_secret() {
    let home = Home::new();
    let wiki = McpServer::start(Transport::Stdio).await;
    settings(&home, &wiki, Transport::Stdio, "give");
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let browser = served.browser().await;
    let form = browser.page("/").await;
    assert!(form.contains("asked when the report is made") && form.contains("Wiki is asked when"), "{form}");
    assert!(!form.contains("The job would fail"));
    let id = order(&served, &token, "0198f0c0-0000-7000-8000-000000000001").await;
    let end = served.end_of(&token, &id).await;
    assert_eq!(end["phase"], "finished", "{end}");
    let started = wiki.until(|event| event["kind"] == "started").await;
    assert_eq!(started["environment"]["WIKI_Token"], "s3cret");
    wiki.gone(&started).await;
    assert!(!end.to_string().contains("s3cret") && !form.contains("s3cret"));
    assert!(!served.log().join("\n").contains("s3cret"));
    served.terminate().await;
}

/// A program that keeps to the protocol ends when its input does, whatever has become of Recount.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_does_not_outlive_a_killed_recount() {
    let home = Home::new();
    let wiki = McpServer::start(Transport::Stdio).await;
    settings(&home, &wiki, Transport::Stdio, "hold");
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    order(&served, &token, "0198f0c0-0000-7000-8000-000000000002").await;
    let call = wiki.until(|event| event["message"]["method"] == "tools/call").await;
    served.kill().await;
    wiki.gone(&call).await;
}

/// The task goes on elsewhere while nobody runs; the job takes it up again instead of asking twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_open_at_a_kill_is_taken_up_again() {
    let home = Home::new();
    let wiki = McpServer::start(Transport::Http).await;
    settings(&home, &wiki, Transport::Http, "task_waits");
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = order(&served, &token, "0198f0c0-0000-7000-8000-000000000003").await;
    // A look at the task comes after its handle is on record.
    wiki.asked("tasks/get").await;
    served.kill().await;
    wiki.release().await;
    let served = home.serve(&[]).await;
    let end = served.end_of(&token, &id).await;
    assert_eq!(end["phase"], "finished", "{end}");
    assert_eq!(wiki.received("tools/call").len(), 1);
    assert_eq!(wiki.received("tasks/cancel").len(), 0);
    served.terminate().await;
}

/// The cancel is accepted, and the program is killed before the task has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_job_ends_by_recovery_is_cancelled() {
    let home = Home::new();
    let wiki = McpServer::start(Transport::Http).await;
    settings(&home, &wiki, Transport::Http, "task_endless");
    let token = home.token("ada@example.org").await;
    let served = home.serve(&[]).await;
    let id = order(&served, &token, "0198f0c0-0000-7000-8000-000000000004").await;
    wiki.asked("tasks/get").await;
    served.cancel(&token, &id).await;
    wiki.asked("tasks/cancel").await;
    served.kill().await;
    let before = wiki.received("tasks/cancel").len();
    let served = home.serve(&[]).await;
    let end = served.end_of(&token, &id).await;
    assert_eq!(end["phase"], "cancelled", "{end}");
    wiki.asked_times("tasks/cancel", before + 1).await;
    assert_eq!(wiki.received("tools/call").len(), 1);
    served.terminate().await;
}
