//! What the server offers, asked over both transports: they must not tell different stories.

use serde_json::{Value, json};

use crate::support::{
    mcp::{Declared, TASKS, call, http::Http, june, request, stdio::Stdio, text},
    program::{Home, SERVE, Served},
};

const ADA: &str = "ada@example.org";

/// A server with a folder "Minutes", ada and her token. Without a worker, where jobs shall wait.
async fn served(more: &[&str]) -> (Home, String, Served) {
    let home = Home::new();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", home.documents().display()));
    let token = home.token(ADA).await;
    let served = Served::start(home.command(SERVE).args(more)).await;
    (home, token, served)
}

/// The same requests over both transports; only results.
async fn over_both(home: &Home, http: &Http, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut stdio = Stdio::start(home, ADA);
    let mut results = Vec::new();
    for (method, params) in requests {
        let there = http.ask(method, params.clone(), Declared::default()).await.body;
        let here = stdio.ask(method, params.clone(), Declared::default()).await;
        for answer in [&there, &here] {
            assert!(answer.get("result").is_some(), "{method}: {answer}");
        }
        assert_eq!(there["result"], here["result"], "{method}");
        results.push(there["result"].clone());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn both_transports_offer_the_same() {
    let (home, token, served) = served(&[]).await;
    let http = Http::at(&served.url, &token);
    let requests = [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/list", json!({})),
        ("tools/call", json!({"name": "list_sources", "arguments": {}})),
        ("prompts/get", json!({"name": "monthly_report", "arguments": {"month": "2026-06"}})),
    ];
    let results = over_both(&home, &http, &requests).await;
    let [discovered, tools, prompts, templates, resources, sources, prompt] = &results[..] else { panic!("{results:?}") };
    assert_eq!(discovered["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&"2026-07-28".into()), "{discovered}");
    let named = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["start_report", "generate_report", "get_report_status", "cancel_report", "list_reports", "list_sources"];
    assert_eq!(named(&tools["tools"]), expected);
    let hints = |name: &str| {
        let all = tools["tools"].as_array().unwrap();
        all.iter().find(|tool| tool["name"] == name).unwrap()["annotations"].clone()
    };
    assert_eq!(hints("cancel_report")["destructiveHint"], true);
    assert_eq!(hints("cancel_report")["idempotentHint"], true);
    assert_eq!(hints("get_report_status")["readOnlyHint"], true);
    assert_eq!(hints("start_report")["readOnlyHint"], false);
    assert_eq!(named(&prompts["prompts"]), ["monthly_report", "explain_report_status"]);
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "report://{job_id}");
    assert_eq!((&resources["resources"], &resources["cacheScope"]), (&json!([]), &json!("private")));
    assert_eq!(sources["structuredContent"]["sources"], json!([{"id": "minutes", "name": "Minutes"}]));
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("June 2026 (2026-06)"), "{prompt}");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_started_followed_and_read() {
    let (home, token, served) = served(&[]).await;
    let http = Http::at(&served.url, &token);
    let started = http.tool("start_report", &june("one")).await;
    let handle = &started["structuredContent"];
    let id = handle["job_id"].as_str().unwrap();
    assert!(["queued", "running", "finished"].contains(&handle["phase"].as_str().unwrap()), "{handle}");
    assert_eq!(handle["url"], format!("{}/jobs/{id}", served.url));
    assert_eq!(started["content"][1]["type"], "resource_link");
    assert_eq!(started["content"][1]["uri"], format!("report://{id}"));
    // The same request finds the same report, over the other transport and after its end.
    let job = served.end_of(&token, id).await;
    let mut stdio = Stdio::start(&home, ADA);
    let again = stdio.tool("generate_report", &june("one")).await;
    assert_eq!((&again["structuredContent"]["job_id"], &again["isError"]), (&json!(id), &json!(false)));
    assert_eq!(again["structuredContent"]["headline"], job["headline"]);
    let other = http
        .tool("start_report", &json!({"month": "2026-05", "sources": ["Minutes"], "recipients": [ADA], "request_key": "one"}))
        .await;
    assert!(other["isError"] == true && text(&other).contains("was used for another report"), "{other}");

    let status = http.tool("get_report_status", &json!({"job_id": id})).await;
    assert_eq!(status["structuredContent"]["headline"], job["headline"]);
    assert_eq!(status["structuredContent"]["is_saved"], true);
    let read = stdio.ask("resources/read", json!({"uri": format!("report://{id}")}), Declared::default()).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!((&contents["mimeType"], &read["result"]["cacheScope"]), (&json!("text/markdown"), &json!("private")));
    assert!(contents["text"].as_str().unwrap().contains("140,000 dollars"), "{contents}");
    let listed = http.ask("resources/list", json!({}), Declared::default()).await.body;
    assert_eq!(listed["result"]["resources"][0]["uri"], format!("report://{id}"));
    let listed = http.tool("list_reports", &json!({"state": "finished"})).await;
    assert_eq!(listed["structuredContent"]["reports"][0]["job_id"], id);
    let none = http.tool("list_reports", &json!({"state": "failed"})).await;
    assert_eq!(none["structuredContent"]["reports"], json!([]));
    let explained = stdio
        .ask("prompts/get", json!({"name": "explain_report_status", "arguments": {"job_id": id}}), Declared::default())
        .await;
    let explained = explained["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(explained.contains(job["headline"].as_str().unwrap()), "{explained}");
    // A late Cancel is told so, in the button's words.
    let late = http.tool("cancel_report", &json!({"job_id": id})).await;
    assert_eq!(late["structuredContent"]["outcome"], "too_late");
    assert!(text(&late).starts_with("The cancel came too late: the job had already finished."), "{late}");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_told_one_by_one() {
    let (_home, token, served) = served(&["--no-worker"]).await;
    let http = Http::at(&served.url, &token);
    let wrong = http.tool("start_report", &json!({"month": "June", "sources": [], "recipients": "anna", "hold": "soon"})).await;
    assert_eq!(wrong["isError"], true);
    for field in ["month", "sources", "recipients", "hold"] {
        assert!(text(&wrong).contains(&format!("\n- {field}: ")), "{field} in {wrong}");
    }
    let nothing = http.tool("generate_report", &json!({})).await;
    assert!(nothing["isError"] == true && text(&nothing).contains("\n- month: "), "{nothing}");
    for (tool, arguments) in [
        ("get_report_status", json!({})),
        ("get_report_status", json!({"job_id": 7})),
        ("cancel_report", json!({"job_id": "none"})),
        ("list_reports", json!({"state": "gone", "cursor": "x"})),
        ("list_sources", json!({"everything": true})),
        ("start_report", json!({"month": "2026-06", "sources": ["Minutes"], "recipients": [ADA], "request_key": ""})),
    ] {
        assert_eq!(http.tool(tool, &arguments).await["isError"], true, "{tool} {arguments}");
    }
    let listed = http.tool("list_reports", &json!({})).await;
    assert_eq!(listed["structuredContent"]["reports"], json!([]), "nothing was started");
    let unknown = http.ask("tools/call", json!({"name": "format_disk"}), Declared::default()).await;
    assert_eq!(unknown.body["error"]["code"], -32602);
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_reports_follow_each_other() {
    let (_home, token, served) = served(&["--no-worker"]).await;
    let http = Http::at(&served.url, &token);
    for n in 0..51 {
        served.order(&token, &format!("report {n}"), &["anna@example.org"]).await;
    }
    let first = http.tool("list_reports", &json!({})).await["structuredContent"].clone();
    let second = http.tool("list_reports", &json!({"cursor": first["next_cursor"]})).await["structuredContent"].clone();
    let count = |page: &Value| page["reports"].as_array().unwrap().len();
    assert_eq!((count(&first), count(&second), second.get("next_cursor")), (50, 1, None));
    let resources = http.ask("resources/list", json!({}), Declared::default()).await.body;
    assert_eq!((&resources["result"]["resources"], &resources["result"]["nextCursor"]), (&json!([]), &first["next_cursor"]));
    served.terminate().await;
}

/// An older client that has declared tasks in its handshake cannot read them. (T7)
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_handshake_gets_no_task_whatever_it_has_declared() {
    let (home, token, served) = served(&["--no-worker"]).await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "clientInfo": {"name": "old", "version": "1"},
        "capabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }});
    let start =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "start_report", "arguments": june("old")}});
    let is_whole = |result: &Value| {
        assert_eq!(result["structuredContent"]["phase"], "queued", "{result}");
        assert_eq!(result.get("taskId"), None, "{result}");
    };

    let http = Http::at(&served.url, &token);
    let answer = http.post_with(&hello, &[("mcp-method", "")]).await.answer().await;
    assert_eq!(answer.body["result"]["protocolVersion"], "2025-11-25", "{answer:?}");
    assert!(!answer.head.contains("mcp-session-id"), "no session: a closed stream takes its request back");
    let old = [("mcp-method", ""), ("mcp-name", ""), ("mcp-protocol-version", "2025-11-25")];
    is_whole(&http.post_with(&start, &old).await.answer().await.body["result"]);
    // Nor does one of the new revision that does not declare them in the request itself.
    let plain = http.begin("start_report", &june("plain"), Declared::default()).await.answer().await;
    is_whole(&plain.body["result"]);
    let modern = http.begin("start_report", &june("modern"), TASKS).await.answer().await;
    assert_eq!(modern.body["result"]["resultType"], "task", "{modern:?}");

    let mut stdio = Stdio::start(&home, ADA);
    stdio.write(&hello);
    stdio.answer(1).await;
    stdio.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    stdio.write(&start);
    let answer = stdio.answer(2).await;
    assert_eq!(answer["result"].get("taskId"), None, "{answer}");
    assert!(answer["result"]["structuredContent"]["job_id"].is_string(), "{answer}");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_client_that_has_not_declared_them_are_refused() {
    let (_home, token, served) = served(&["--no-worker"]).await;
    let http = Http::at(&served.url, &token);
    let started = http.begin("start_report", &june("one"), TASKS).await.answer().await.body;
    let id = started["result"]["taskId"].as_str().unwrap().to_owned();
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let answer =
            http.post(&request(1, method, json!({"taskId": id, "inputResponses": {}}), Declared::default())).await.answer().await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (400, &json!(-32021)), "{method}: {answer:?}");
    }
    assert_eq!(http.task(&id).await["result"]["status"], "working");
    let thanked = http.ask("tasks/update", json!({"taskId": id, "inputResponses": {}}), TASKS).await;
    assert_eq!(thanked.body["result"], json!({"resultType": "complete"}));
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_theirs_is_not_there() {
    let (home, token, served) = served(&[]).await;
    let (ada, bob) = (Http::at(&served.url, &token), Http::at(&served.url, &home.token("bob@example.org").await));
    let started = ada.tool("start_report", &june("one")).await;
    let id = started["structuredContent"]["job_id"].as_str().unwrap().to_owned();
    served.end_of(&token, &id).await;
    let unknown = "019f3c4e-7d1e-7a55-8000-000000000000";
    for (method, params) in [
        ("resources/read", json!({"uri": format!("report://{id}")})),
        ("tasks/get", json!({"taskId": id})),
        ("tasks/cancel", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": id, "inputResponses": {}})),
        ("prompts/get", json!({"name": "explain_report_status", "arguments": {"job_id": id}})),
    ] {
        let foreign = bob.ask(method, params.clone(), TASKS).await.body;
        assert_eq!(foreign["error"]["code"], -32602, "{method}: {foreign}");
        for other in [unknown, "nonsense"] {
            // The address that was asked for is repeated, as it was sent.
            let as_if = |text: String| -> Value { serde_json::from_str(&text.replace(&id, other)).unwrap() };
            let answer = bob.ask(method, as_if(params.to_string()), TASKS).await.body;
            assert_eq!(answer["error"], as_if(foreign["error"].to_string()), "{method} {other}");
        }
    }
    for tool in ["get_report_status", "cancel_report"] {
        let foreign = bob.tool(tool, &json!({"job_id": id})).await;
        assert_eq!(foreign["isError"], true);
        assert_eq!(foreign, bob.tool(tool, &json!({"job_id": unknown})).await);
        assert_eq!(foreign, bob.tool(tool, &json!({"job_id": "nonsense"})).await);
    }
    assert_eq!(bob.tool("list_reports", &json!({})).await["structuredContent"]["reports"], json!([]));
    let listed = bob.post(&call(1, "list_reports", &json!({}), Declared::default())).await.answer().await;
    assert!(listed.head.contains("cache-control: no-"), "{listed:?}");
    served.terminate().await;
}
