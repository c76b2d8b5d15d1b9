//! Servers that answer with a task: it is followed, cancelled, waited for, and never lost.

use std::time::{Duration, Instant};

use contract::Phase;
use domain::id::JobId;
use store::{CallRecord, CallState};

use tokio::time::timeout;

use super::{dependencies, wiki_job};
use crate::support::{
    instance::{Instance, PATIENCE},
    mcp_server::{BOTH, McpServer, Transport, taking_tasks, within},
    worker::Running,
};

async fn cancel(instance: &Instance, id: JobId) {
    instance.store.cancel_job(id, "ada@example.org").await.expect("the database works");
}

async fn only_call(instance: &Instance, id: JobId) -> CallRecord {
    let mut calls = instance.store.mcp_calls(id).await.unwrap();
    assert_eq!(calls.len(), 1, "{calls:#?}");
    calls.remove(0)
}

async fn created(server: &McpServer) -> String {
    server.until(|event| event["kind"] == "task created").await["task"].as_str().unwrap().to_owned()
}

/// Waits until the job's call has this task on record.
async fn kept(instance: &Instance, id: JobId) {
    let on_record = async {
        while instance.store.mcp_calls(id).await.unwrap().first().is_none_or(|call| call.task_id.is_none()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, on_record).await.expect("the handle is written down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_to_its_result() {
    for transport in BOTH {
        for (tool, said, state, status) in [
            ("task_completes", "Read", CallState::Answered, "completed"),
            ("task_fails", "Unreadable: it says: the index is broken (error -32603)", CallState::Failed, "failed"),
            ("task_asks", "Unreadable: it asks for input, which nobody can give it here", CallState::Failed, "cancelled"),
        ] {
            let instance = Instance::new().await;
            let server = McpServer::start(transport).await;
            let id = wiki_job(&instance).await;
            let worker = Running::start(dependencies(&instance, taking_tasks(server.source(&[tool]))));
            instance.wait_for_end(id).await;
            worker.stop().await;
            let documents = instance.store.coverage(id).await.unwrap();
            assert_eq!(documents[0].coverage.label(), said, "{transport:?}");
            let call = only_call(&instance, id).await;
            assert_eq!(
                (call.state, call.task_status.as_deref(), call.task_ended),
                (state, Some(status), true),
                "{transport:?} {tool}"
            );
            assert_eq!(server.received("tools/call").len(), 1);
            assert_eq!(server.received("tasks/cancel").len(), usize::from(tool == "task_asks"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_setting_no_task_is_declared() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Http).await;
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, server.source(&["task_works"])));
    instance.wait_for_end(id).await;
    worker.stop().await;
    let call = server.asked("tools/call").await.to_string();
    assert!(!call.contains("io.modelcontextprotocol/tasks"), "{call}");
    let documents = instance.store.coverage(id).await.unwrap();
    assert_eq!(documents[0].coverage.label(), "Unreadable: it answers with a task, which it was not asked for");
}

/// The acknowledgement of the cancel is not the end: the job is stopping until the task has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_is_carried_into_the_task_and_its_end_is_waited_for() {
    for transport in BOTH {
        for (tool, said, status) in [
            ("task_works", "The task of Wiki has ended: cancelled", "cancelled"),
            ("task_stubborn", "The task of Wiki was completed all the same; its result was discarded", "completed"),
            ("task_endless", "The task of Wiki was not seen to end; last status seen: working", "working"),
        ] {
            let instance = Instance::new().await;
            let server = McpServer::start(transport).await;
            let source = taking_tasks(within(server.source(&[tool]), Duration::from_secs(2), Duration::from_secs(3)));
            let id = wiki_job(&instance).await;
            let begun = Instant::now();
            let worker = Running::start(dependencies(&instance, source));
            let task = created(&server).await;
            kept(&instance, id).await;
            cancel(&instance, id).await;
            let record = instance.wait_for_end(id).await;
            assert_eq!(record.job.phase, Phase::Cancelled);
            if tool == "task_endless" {
                assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
            }
            let history = instance.history(id).await;
            let waiting = "Waiting until the task of Wiki has ended; it was asked to cancel it (tasks/cancel)";
            for entry in [waiting, said] {
                assert!(history.iter().any(|line| line == entry), "{transport:?} {tool}: {history:#?}");
            }
            let call = only_call(&instance, id).await;
            assert_eq!((call.state, call.task_id.as_deref()), (CallState::Cancelled, Some(task.as_str())));
            let expected =
                if (transport, tool) == (Transport::Stdio, "task_endless") { "ended with its program" } else { status };
            assert_eq!(call.task_status.as_deref(), Some(expected), "{transport:?} {tool}");
            assert_eq!(server.received("notifications/cancelled").len(), 0, "that is for requests, not for tasks");
            assert_eq!(server.received("tools/call").len(), 1);
            assert!(!server.received("tasks/cancel").is_empty());
            worker.stop().await;
        }
    }
}

/// Nobody could stop the task any more whose handle was thrown away.
#[tokio::test(flavor = "multi_thread")]
async fn a_handle_that_is_under_way_at_the_cancel_is_waited_for() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, taking_tasks(server.source(&["slow_task"]))));
        server.asked("tools/call").await;
        cancel(&instance, id).await;
        instance.wait_for_end(id).await;
        worker.stop().await;
        assert!(!server.received("tasks/cancel").is_empty(), "{transport:?}");
        let call = only_call(&instance, id).await;
        assert_eq!((call.state, call.task_status.as_deref()), (CallState::Cancelled, Some("cancelled")), "{transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_over_http_is_taken_up_again_after_a_shutdown_and_a_crash() {
    for crash in [false, true] {
        let instance = Instance::new().await;
        let server = McpServer::start(Transport::Http).await;
        let source = taking_tasks(server.source(&["task_waits"]));
        let id = wiki_job(&instance).await;
        let worker = Running::start(dependencies(&instance, source.clone()));
        created(&server).await;
        kept(&instance, id).await;
        if crash {
            worker.kill().await;
            instance.expire().await;
        } else {
            worker.stop().await;
        }
        assert_eq!(only_call(&instance, id).await.state, CallState::Abandoned);
        server.release().await;
        let worker = Running::start(dependencies(&instance, source));
        let record = instance.wait_for_end(id).await;
        assert_eq!(record.job.phase, Phase::Finished, "crash: {crash}");
        worker.stop().await;
        assert_eq!(server.received("tools/call").len(), 1, "crash: {crash}");
        assert_eq!(server.received("tasks/cancel").len(), 0);
        let call = only_call(&instance, id).await;
        assert_eq!((call.state, call.task_status.as_deref()), (CallState::Answered, Some("completed")));
        assert!(
            instance.history(id).await.contains(&"Waiting for the task of Wiki again, which it was asked for before".to_owned())
        );
    }
}

/// The job ends by recovery, without a worker that could ask: the sweep does.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_outlives_its_job_is_cancelled_by_the_sweep() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Http).await;
    let source = taking_tasks(server.source(&["task_works"]));
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, source.clone()));
    created(&server).await;
    kept(&instance, id).await;
    worker.kill().await;
    cancel(&instance, id).await;
    instance.expire().await;
    assert_eq!(instance.record(id).await.job.phase, Phase::Cancelled);
    assert_eq!(server.received("tasks/cancel").len(), 0);

    let worker = Running::start(dependencies(&instance, source));
    server.asked("tasks/cancel").await;
    let said = "The task that Wiki had been given: cancelled".to_owned();
    let mut notifications = instance.store.notifications().subscribe();
    let told = async {
        while !instance.history(id).await.contains(&said) {
            store::notifications::changed(&mut notifications, id).await;
        }
    };
    timeout(PATIENCE, told).await.expect("the sweep says what it saw");
    let call = only_call(&instance, id).await;
    assert_eq!((call.state, call.task_status.as_deref(), call.task_ended), (CallState::Abandoned, Some("cancelled"), true));
    worker.stop().await;
}

/// Over stdio the task has gone with its program.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_over_stdio_ends_with_the_worker() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Stdio).await;
    let id = wiki_job(&instance).await;
    let worker = Running::start(dependencies(&instance, taking_tasks(server.source(&["task_works"]))));
    created(&server).await;
    kept(&instance, id).await;
    worker.kill().await;
    instance.expire().await;
    let call = only_call(&instance, id).await;
    assert_eq!((call.state, call.task_ended), (CallState::Abandoned, true));
    let said = "The call to Wiki was abandoned with it; its task ended with its program".to_owned();
    assert!(instance.history(id).await.contains(&said), "{:#?}", instance.history(id).await);
}
