//! A cancel in the middle of a call: the signal that each transport has for it, and nothing else; what the record says; and that
//! nothing is left behind.

use contract::{Phase, headline};
use documents::mcp::ServerSource;
use domain::id::JobId;
use serde_json::json;
use store::CallState;

use tokio::time::timeout;

use super::{dependencies, wiki_job};
use crate::support::{
    instance::{Instance, PATIENCE},
    mcp_server::{BOTH, McpServer, Transport},
    worker::Running,
};

async fn cancel(instance: &Instance, id: JobId) {
    instance.store.cancel_job(id, "ada@example.org").await.expect("the database works");
}

/// Cancels a job in the middle of its call of `tool`, and waits for its end.
async fn cancel_within(instance: &Instance, server: &McpServer, source: ServerSource) -> JobId {
    let id = wiki_job(instance).await;
    let worker = Running::start(dependencies(instance, source));
    server.asked("tools/call").await;
    cancel(instance, id).await;
    let record = instance.wait_for_end(id).await;
    assert_eq!(record.job.phase, Phase::Cancelled);
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    worker.stop().await;
    id
}

async fn states(instance: &Instance, id: JobId) -> Vec<CallState> {
    instance.store.mcp_calls(id).await.unwrap().into_iter().map(|call| call.state).collect()
}

/// Whether a process exists that is not just waiting to be seen as ended.
fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn over_stdio_the_request_is_named_in_a_notification() {
    for tool in ["hold", "progress", "late"] {
        let instance = Instance::new().await;
        let server = McpServer::start(Transport::Stdio).await;
        let id = cancel_within(&instance, &server, server.source(&[tool, "give"])).await;
        let call = server.asked("tools/call").await;
        let told = server.received("notifications/cancelled");
        assert_eq!(told.len(), 1, "{tool}");
        assert_eq!(told[0]["params"]["requestId"], call["id"]);
        assert_eq!(server.received("tools/call").len(), 1, "a cancelled call is not made again, nor the next one");
        assert_eq!(states(&instance, id).await, [CallState::Cancelled]);
        let said = "Told Wiki to stop (notifications/cancelled); a late answer is ignored".to_owned();
        assert!(instance.history(id).await.contains(&said), "{:#?}", instance.history(id).await);
        server.gone(&server.until(|event| event["kind"] == "started").await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http_the_answer_is_closed_and_nothing_is_posted() {
    for tool in ["hold", "progress"] {
        let instance = Instance::new().await;
        let server = McpServer::start(Transport::Http).await;
        let id = cancel_within(&instance, &server, server.source(&[tool, "give"])).await;
        let call = server.asked("tools/call").await;
        server.until(|event| event["kind"] == "closed" && event["id"] == call["id"]).await;
        let methods: Vec<_> = server
            .events()
            .into_iter()
            .filter(|event| event["kind"] == "got")
            .map(|event| event["message"]["method"].clone())
            .collect();
        // The list of tools says which arguments a call repeats in its headers.
        assert_eq!(methods, ["server/discover", "tools/list", "tools/call"], "{tool}");
        assert_eq!(states(&instance, id).await, [CallState::Cancelled]);
        assert!(instance.history(id).await.contains(&"Closed the answer of Wiki".to_owned()));
    }
}

/// There the closed stream of an answer stops nothing; the notification is what that revision has for it.
#[tokio::test(flavor = "multi_thread")]
async fn over_http_a_server_of_the_older_revision_gets_the_notification() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Http, json!({ "era": "legacy" })).await;
    cancel_within(&instance, &server, server.source(&["hold"])).await;
    assert_eq!(server.received("notifications/cancelled").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_obeys_nothing_is_killed_with_all_that_it_has_started() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Stdio, json!({ "kind": "deaf" })).await;
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, server.source(&["grandchild"])));
    let grandchild = server.until(|event| event["kind"] == "grandchild").await;
    cancel(&instance, id).await;
    instance.wait_for_end(id).await;
    server.gone(&grandchild).await;
    assert!(!is_alive(grandchild["child"].as_u64().unwrap()));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_a_program_whose_calls_all_ended_well() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Stdio).await;
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, server.source(&["leaves_grandchild"])));
    assert_eq!(instance.wait_for_end(id).await.job.phase, Phase::Finished);
    let grandchild = server.until(|event| event["kind"] == "grandchild").await;
    assert!(!is_alive(grandchild["child"].as_u64().unwrap()));
    worker.stop().await;
}

/// The request to stop cannot even be written: 400 kB wait in front of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_reads_no_more_is_killed() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Stdio, json!({ "kind": "stuck" })).await;
    let mut source = server.source(&["give"]);
    source.settings.wanted.calls[0].arguments.insert("padding".into(), "x".repeat(400_000).into());
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, source));
    let started = server.until(|event| event["kind"] == "started").await;
    let begun = async {
        while instance.store.mcp_calls(id).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, begun).await.expect("the call begins");
    cancel(&instance, id).await;
    let record = instance.wait_for_end(id).await;
    assert_eq!(record.job.phase, Phase::Cancelled);
    server.gone(&started).await;
    let said = "Wiki does not even take the request to stop; the connection to it was ended".to_owned();
    assert!(instance.history(id).await.contains(&said), "{:#?}", instance.history(id).await);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_job_of_the_same_source_goes_on() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let worker = Running::start(dependencies(&instance, server.source(&["few_steps"])));
        let (cancelled, other) = (wiki_job(&instance).await, wiki_job(&instance).await);
        server.asked_times("tools/call", 2).await;
        cancel(&instance, cancelled).await;
        assert_eq!(instance.wait_for_end(other).await.job.phase, Phase::Finished, "{transport:?}");
        assert_eq!(instance.wait_for_end(cancelled).await.job.phase, Phase::Cancelled, "{transport:?}");
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_server_has_begun_to_speak_ends_its_program() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Stdio, json!({ "kind": "silent" })).await;
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, server.source(&["give"])));
    let started = server.until(|event| event["kind"] == "started").await;
    cancel(&instance, id).await;
    assert_eq!(instance.wait_for_end(id).await.job.phase, Phase::Cancelled);
    server.gone(&started).await;
    assert_eq!(states(&instance, id).await, [], "nothing was asked");
    worker.stop().await;
}

/// A shutdown does not wait for the server, and the job is made from the beginning by the next worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_the_call_and_the_job_resumes() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, server.source(&["hold"])));
        server.asked("tools/call").await;
        worker.stop().await;
        assert_eq!(instance.record(id).await.job.phase, Phase::Running);
        assert_eq!(states(&instance, id).await, [CallState::Cancelled]);
        let worker = Running::start(dependencies(&instance, server.source(&["give"])));
        assert_eq!(instance.wait_for_end(id).await.job.phase, Phase::Finished, "{transport:?}");
        worker.stop().await;
    }
}

/// A worker whose tasks are dropped, as by a panic: the program ends, and recovery says what is not known.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_leaves_no_program_and_its_calls_are_accounted_for() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::with(transport, json!({ "kind": "deaf" })).await;
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, server.source(&["hold"])));
        server.asked("tools/call").await;
        worker.kill().await;
        match transport {
            Transport::Stdio => server.gone(&server.until(|event| event["kind"] == "started").await).await,
            Transport::Http => drop(server.until(|event| event["kind"] == "closed").await),
        }
        instance.expire().await;
        let calls = instance.store.mcp_calls(id).await.unwrap();
        assert_eq!(calls.iter().map(|call| call.state).collect::<Vec<_>>(), [CallState::Abandoned]);
        assert!(instance.history(id).await.contains(&"The call to Wiki was abandoned with it".to_owned()));
    }
}

/// Another worker speaks for the job now. Here it is the same one, which takes it again: the first call is broken off, and what
/// recovery has said about it stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_job_breaks_its_call_off() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, server.source(&["hold"])));
        let first = server.asked("tools/call").await;
        instance.expire().await;
        match transport {
            Transport::Stdio => assert_eq!(server.asked("notifications/cancelled").await["params"]["requestId"], first["id"]),
            Transport::Http => drop(server.until(|event| event["kind"] == "closed" && event["id"] == first["id"]).await),
        }
        server.asked_times("tools/call", 2).await;
        cancel(&instance, id).await;
        assert_eq!(instance.wait_for_end(id).await.job.phase, Phase::Cancelled);
        assert_eq!(states(&instance, id).await, [CallState::Abandoned, CallState::Cancelled], "{transport:?}");
        worker.stop().await;
    }
}
