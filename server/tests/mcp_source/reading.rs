//! What servers give becomes documents, and what they do not give becomes lines of the coverage list.

use contract::Phase;
use documents::mcp::ServerSource;
use domain::{coverage::DocumentOutcome, id::JobId};
use serde_json::json;
use store::{CallState, CollectedDocument};

use super::{MINUTES, dependencies, wiki_job};
use crate::support::{
    instance::Instance,
    mcp_server::{BOTH, McpServer, Transport},
    worker::Running,
};

/// Runs a job with one source to its end; gives the coverage list.
async fn run(instance: &Instance, source: ServerSource) -> (JobId, Vec<CollectedDocument>) {
    let id = wiki_job(instance).await;
    let worker = Running::start(dependencies(instance, source));
    instance.wait_for_end(id).await;
    worker.stop().await;
    (id, instance.store.coverage(id).await.unwrap())
}

fn labels(documents: &[CollectedDocument]) -> Vec<String> {
    documents.iter().map(|document| format!("{}: {}", document.name, document.coverage.label())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_asked_for_the_month_gives_documents_of_the_month() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::start(transport).await;
        let (id, documents) = run(&instance, server.source(&["give"])).await;
        assert_eq!(instance.record(id).await.job.phase, Phase::Finished, "{documents:#?}");
        assert_eq!(labels(&documents), ["give: Read"]);
        assert_eq!(documents[0].dated_by.as_deref(), Some("the source: it was asked for June 2026"));
        assert_eq!(server.received("tools/call")[0]["params"]["arguments"], json!({ "month": "2026-06" }));
        let calls = instance.store.mcp_calls(id).await.unwrap();
        assert_eq!((calls.len(), calls[0].state, calls[0].target.as_str()), (1, CallState::Answered, "give"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_read_page_by_page_and_dated_like_files() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let docs = json!({
            "a": { "uri": "file:///minutes/2026-06-03.md", "name": "a", "text": MINUTES },
            "b": { "uri": "file:///minutes/2026-05-03.csv", "name": "b", "text": "a,b" },
            "c": { "uri": "note://7", "name": "c", "title": "Budget", "mimeType": "text/plain", "text": MINUTES,
                   "annotations": { "lastModified": "2026-06-09T10:00:00Z" } },
            "d": { "uri": "note://8", "name": "d", "text": MINUTES },
            "e": { "uri": "file:///minutes/2026-06-04.txt", "name": "e", "blob": "VGhlIGNvdW5jaWwgbWV0Lg==" },
            "f": { "uri": "file:///minutes/2026-06-05.txt", "name": "f" },
            "g": { "uri": "other://2026-06-06.txt", "name": "g", "text": MINUTES },
        });
        let server = McpServer::with(transport, json!({ "docs": docs })).await;
        let mut source = server.resources("");
        let (_, documents) = run(&instance, source.clone()).await;
        assert_eq!(
            labels(&documents),
            [
                "minutes/2026-06-03.md: Read",
                "minutes/2026-06-04.txt: Read",
                "2026-06-06.txt: Read",
                "Budget.txt: Read",
                "d: Undated",
                "minutes/2026-06-05.txt: Unreadable: it says: there is no such resource (error -32602)",
                "minutes/2026-05-03.csv: Other month",
            ],
            "{transport:?}"
        );
        assert!(server.received("resources/read").iter().all(|read| read["params"]["uri"] != "file:///minutes/2026-05-03.csv"));

        source.settings.wanted.resources = Some("file:///minutes/{month}-*.md".into());
        let (_, documents) = run(&instance, source).await;
        assert_eq!(labels(&documents), ["minutes/2026-06-03.md: Read"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_tool_leads_to_is_read_and_what_it_does_not_give_is_said() {
    let docs = json!({ "a": { "uri": "file:///minutes/2026-06-03.md", "name": "a", "text": MINUTES } });
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::with(transport, json!({ "docs": docs })).await;
        let (_, documents) = run(&instance, server.source(&["links", "structured", "fails", "refuse", "nothing", "huge"])).await;
        let mut lines = labels(&documents);
        lines.sort();
        assert_eq!(
            lines,
            [
                "fails: Unreadable: the tool says: the wiki is closed for repairs",
                "gone: Unreadable: it says: there is no such resource (error -32602)",
                "gone.md: Unreadable: it says: there is no such resource (error -32602)",
                "huge: Too large: its answer is larger than 16 MiB",
                "links 4: Unreadable: it is a picture",
                "minutes/2026-06-03.md: Read",
                "minutes/plan.csv: Read",
                "nothing: No text: the tool gave nothing",
                "refuse: Unreadable: it says: no such tool (error -32602)",
                "structured: Read",
            ][..]
                .iter()
                .filter(|line| !line.starts_with("gone: "))
                .copied()
                .collect::<Vec<_>>(),
            "{transport:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_leads_back_ends() {
    let instance = Instance::new().await;
    let docs = json!({ "circle": { "uri": "file:///minutes/2026-06-03.md", "name": "a", "text": MINUTES } });
    let server = McpServer::with(Transport::Stdio, json!({ "docs": docs })).await;
    let (_, documents) = run(&instance, server.resources("")).await;
    let said = "(the list of resources): Read in part: its list does not end: it leads back to a page that was read";
    assert!(labels(&documents).contains(&said.to_owned()), "{documents:#?}");
    assert_eq!(server.received("resources/list").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_the_older_revision_are_asked_as_well() {
    for transport in BOTH {
        let instance = Instance::new().await;
        let server = McpServer::with(transport, json!({ "era": "legacy" })).await;
        let (_, documents) = run(&instance, server.source(&["give"])).await;
        assert_eq!(labels(&documents), ["give: Read"], "{transport:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_no_secrets_but_its_own() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Stdio).await;
    run(&instance, server.source(&["give"])).await;
    let started = server.until(|event| event["kind"] == "started").await;
    let environment = started["environment"].as_object().unwrap();
    assert_eq!(environment["WIKI_TOKEN"], "s3cret");
    assert!(environment.keys().all(|name| !name.starts_with("CARGO") && !name.starts_with("RECOUNT")), "{environment:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_the_door_and_its_lack_is_said() {
    let instance = Instance::new().await;
    let server = McpServer::with(Transport::Http, json!({ "token": "s3cret" })).await;
    let mut source = server.source(&["give"]);
    let (_, documents) = run(&instance, source.clone()).await;
    assert_eq!(labels(&documents), ["give: Read"]);
    if let documents::mcp::Link::Http { bearer, .. } = &mut source.settings.link {
        *bearer = None;
    }
    let (_, documents) = run(&instance, source).await;
    assert_eq!(labels(&documents), ["give: Unreadable: it does not let Recount in; check bearer_token in the settings"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_asked_leaves_a_line() {
    let instance = Instance::new().await;
    let server = McpServer::start(Transport::Stdio).await;
    let mut source = server.source(&["give"]);
    if let documents::mcp::Link::Stdio(program) = &mut source.settings.link {
        program.path = "/no/such/program".into();
    }
    let (_, documents) = run(&instance, source).await;
    assert!(labels(&documents)[0].contains("its program /no/such/program cannot be started"), "{documents:#?}");

    let mut source = server.source(&["give"]);
    if let documents::mcp::Link::Stdio(program) = &mut source.settings.link {
        program.path = "/bin/false".into();
    }
    let (_, documents) = run(&instance, source).await;
    assert!(labels(&documents)[0].contains("its program ended before it spoke the protocol"), "{documents:#?}");

    let elsewhere = McpServer::start(Transport::Http).await;
    let mut source = elsewhere.source(&["give"]);
    drop(elsewhere);
    if let documents::mcp::Link::Http { url, .. } = &mut source.settings.link {
        url.set_query(Some("key=s3cret"));
    }
    let (_, documents) = run(&instance, source).await;
    let line = labels(&documents).remove(0);
    assert!(line.starts_with("give: Unreadable: it cannot be reached: Connection refused"), "{line}");

    let id = wiki_job(&instance).await;
    let worker = Running::start(instance.dependencies());
    instance.wait_for_end(id).await;
    worker.stop().await;
    let documents = instance.store.coverage(id).await.unwrap();
    assert_eq!((documents[0].name.as_str(), documents[0].coverage.outcome), ("(the server)", DocumentOutcome::Unreadable));
    assert!(documents[0].coverage.label().contains("no longer in the settings"), "{documents:#?}");
}
