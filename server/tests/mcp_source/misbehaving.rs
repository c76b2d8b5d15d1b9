//! Servers that do not keep to the protocol, or to no reasonable time: a line in the coverage list each, and the other documents
//! are read all the same.

use std::time::{Duration, Instant};

use documents::mcp::ServerSource;
use serde_json::json;
use store::CallState;

use super::{dependencies, wiki_job};
use crate::support::{
    instance::Instance,
    mcp_server::{BOTH, McpServer, Transport, within},
    worker::Running,
};

/// Long enough for the good answer of a busy machine.
const IDLE: Duration = Duration::from_secs(2);
const MAX: Duration = Duration::from_secs(7);

/// What became of the first tool, where the second always answers.
async fn first_line(instance: &Instance, source: ServerSource) -> (String, Vec<CallState>) {
    let id = wiki_job(instance).await;
    let worker = Running::start(dependencies(instance, source));
    instance.wait_for_end(id).await;
    worker.stop().await;
    let documents = instance.store.coverage(id).await.unwrap();
    let given = documents.iter().find(|document| document.name == "give").expect("the second call");
    assert!(given.coverage.is_usable(), "{documents:#?}");
    let first = documents.iter().find(|document| document.name != "give").map(|document| document.coverage.label());
    let states = instance.store.mcp_calls(id).await.unwrap().into_iter().map(|call| call.state).collect();
    (first.expect("a line for the first call"), states)
}

/// The call is broken off with the signal of its transport, and the next one goes over a new connection.
#[tokio::test(flavor = "multi_thread")]
async fn silence_ends_a_call_and_only_growing_progress_ends_silence() {
    for transport in BOTH {
        for (tool, said) in [
            ("hold", "Unreadable: it gave no sign of progress for 2 s"),
            ("keep_alive", "Unreadable: it gave no sign of progress for 2 s"),
            ("same_progress", "Unreadable: it gave no sign of progress for 2 s"),
            ("progress", "Unreadable: it took longer than 7 s"),
        ] {
            let instance = Instance::new().await;
            let server = McpServer::start(transport).await;
            let begun = Instant::now();
            let (line, states) = first_line(&instance, within(server.source(&[tool, "give"]), IDLE, MAX)).await;
            assert_eq!(line, said, "{transport:?} {tool}");
            assert!(begun.elapsed() >= if tool == "progress" { MAX } else { IDLE });
            assert_eq!(states, [CallState::TimedOut, CallState::Answered], "{transport:?} {tool}");
            match transport {
                Transport::Stdio => {
                    assert_eq!(server.received("notifications/cancelled").len(), 1);
                    assert_eq!(server.received("server/discover").len(), 2, "another program for the next call");
                }
                Transport::Http => {
                    server.until(|event| event["kind"] == "closed").await;
                    assert_eq!(server.received("notifications/cancelled").len(), 0);
                }
            }
            assert_eq!(server.received("tools/call").len(), 2, "a call that timed out is not made again");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_keeps_a_call_alive_beyond_the_longest_silence() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let source = within(server.source(&["few_steps"]), IDLE, Duration::from_secs(40));
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, source));
        instance.wait_for_end(id).await;
        worker.stop().await;
        assert_eq!(instance.store.coverage(id).await.unwrap()[0].coverage.label(), "Read", "{transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_or_floods_leaves_the_next_call_unharmed() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Stdio).await;
    let (line, states) = first_line(&instance, server.source(&["die", "give"])).await;
    assert_eq!(line, "Unreadable: it ended the connection before it had answered");
    assert_eq!(states, [CallState::Failed, CallState::Answered]);

    let (line, states) = first_line(&instance, server.source(&["flood", "give"])).await;
    assert_eq!(line, "Read");
    assert_eq!(states, [CallState::Answered, CallState::Answered]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_is_not_asked_for_again() {
    for (tool, said, state) in [
        ("drop", "Unreadable: it ended the connection before it had answered", CallState::Failed),
        // "202 Accepted" is no answer to a request.
        ("accepted", "Unreadable: it gave no sign of progress for 2 s", CallState::TimedOut),
    ] {
        let instance = Instance::new().await;
        let server = McpServer::start(Transport::Http).await;
        let (line, states) = first_line(&instance, within(server.source(&[tool, "give"]), IDLE, MAX)).await;
        assert_eq!(line, said);
        assert_eq!(states, [state, CallState::Answered]);
        let calls = server.received("tools/call");
        assert_eq!(calls.iter().filter(|call| call["params"]["name"] == tool).count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_begins_to_speak_is_given_up() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Stdio, json!({ "kind": "silent" })).await;
    let id = wiki_job(&instance).await;
    let source = within(server.source(&["give", "hold"]), IDLE, MAX);
    let worker = Running::start(dependencies(&instance, source));
    instance.wait_for_end(id).await;
    worker.stop().await;
    let documents = instance.store.coverage(id).await.unwrap();
    let said = "Unreadable: it did not begin to speak the protocol within 7 s";
    assert!(documents.len() == 2 && documents.iter().all(|document| document.coverage.label() == said), "{documents:#?}");
    let started = server.until(|event| event["kind"] == "started").await;
    server.gone(&started).await;
    let programs = server.events().iter().filter(|event| event["kind"] == "started").count();
    assert_eq!(programs, 1, "another wait would tell nothing new");
}
