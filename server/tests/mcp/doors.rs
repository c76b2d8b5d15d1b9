//! Who gets in at `/mcp`, and from where.

use serde_json::json;

use crate::support::{
    mcp::{Declared, TASKS, call, http::Http, june, request, text},
    program::{Home, Served},
};

async fn served() -> (Home, String, Served) {
    let home = Home::new();
    home.settings(&format!(
        "public_url = \"https://recount.example.org\"\n[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n",
        home.documents().display()
    ));
    let token = home.token("ada@example.org").await;
    let served = home.serve(&["--no-worker"]).await.directly().await;
    (home, token, served)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_bearer_token_gets_in() {
    let (_home, token, served) = served().await;
    let list = request(1, "tools/list", json!({}), Declared::default());
    for (what, headers) in [
        ("nothing", vec![("authorization", "")]),
        ("a wrong token", vec![("authorization", "Bearer rct_wrong")]),
        ("another scheme", vec![("authorization", "Basic YTpi")]),
        ("a cookie", vec![("authorization", ""), ("cookie", "session=x; __Host-session=x")]),
    ] {
        let answer = Http::at(&served.url, &token).post_with(&list, &headers).await.answer().await;
        assert_eq!(answer.status, 401, "{what}: {answer:?}");
        assert!(answer.head.contains("\r\nwww-authenticate: bearer"), "{what}: {answer:?}");
        assert!(answer.head.contains("\r\nx-content-type-options: nosniff"), "{what}: {answer:?}");
    }
    let in_address =
        format!("POST /mcp?token={token}&access_token={token} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}");
    let answer = Http::at(&served.url, &token).write(&in_address).await.answer().await;
    assert_eq!(answer.status, 401, "{answer:?}");
    // A browser that is signed in is nobody here: its cookie says nothing.
    let browser = served.browser().await;
    let headers = [("authorization", ""), ("cookie", browser.cookie.as_str())];
    let answer = Http::at(&served.url, &token).post_with(&list, &headers).await.answer().await;
    assert_eq!(answer.status, 401, "{answer:?}");
    let answer = Http::at(&served.url, &token).post(&list).await.answer().await;
    assert_eq!(answer.status, 200, "{answer:?}");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_and_origin_must_be_ours() {
    let (_home, token, served) = served().await;
    let http = Http::at(&served.url, &token);
    let list = request(1, "tools/list", json!({}), Declared::default());
    for (header, value, status) in [
        ("host", "recount.example.org", 200),
        ("host", "localhost:9999", 200),
        ("host", "evil.example.org", 403),
        ("host", "127.0.0.1.evil.example.org", 403),
        ("origin", "https://recount.example.org", 200),
        ("origin", "http://localhost:6274", 200),
        ("origin", "http://127.0.0.1:6274", 200),
        ("origin", "http://recount.example.org", 403),
        ("origin", "https://recount.example.org:8443", 403),
        ("origin", "https://evil.example.org", 403),
        ("origin", "null", 403),
    ] {
        let answer = http.post_with(&list, &[(header, value)]).await.answer().await;
        assert_eq!(answer.status, status, "{header}: {value}: {answer:?}");
    }
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_in_the_protocols_words() {
    let (_home, token, served) = served().await;
    let http = Http::at(&served.url, &token);
    let unknown = http.ask("reports/burn", json!({}), Declared::default()).await;
    assert_eq!((unknown.status, &unknown.body["error"]["code"]), (404, &json!(-32601)), "{unknown:?}");
    let listen = http.ask("subscriptions/listen", json!({"notifications": {"taskIds": ["x"]}}), TASKS).await;
    assert_eq!((listen.status, &listen.body["error"]["code"]), (404, &json!(-32601)), "{listen:?}");
    let mut bare = request(1, "tools/list", json!({}), Declared::default());
    bare["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let bare = http.post(&bare).await.answer().await;
    assert_eq!((bare.status, &bare.body["error"]["code"]), (400, &json!(-32602)), "{bare:?}");
    let list = request(1, "tools/list", json!({}), Declared::default());
    let differs = http.post_with(&list, &[("mcp-method", "tools/call")]).await.answer().await;
    assert_eq!((differs.status, &differs.body["error"]["code"]), (400, &json!(-32020)), "{differs:?}");
    for method in ["GET", "DELETE"] {
        let text = format!(
            "{method} /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\
             content-length: 0\r\n\r\n"
        );
        let answer = http.write(&text).await.answer().await;
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
    }
    let mut large = june("large");
    large["instructions"] = "x".repeat(2 << 20).into();
    let large = http.post(&call(1, "start_report", &large, Declared::default())).await.answer().await;
    assert_eq!(large.status, 413, "{large:?}");
    served.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_may_only_look_starts_and_cancels_nothing() {
    let (home, token, served) = served().await;
    let limited = async |scope: &str| {
        let made = home.run(&["token", "create", "--email", "ada@example.org", "--scope", scope]).await;
        Http::at(&served.url, made.succeeded().trim())
    };
    let (probes, writes) = (limited("reports:read").await, limited("reports:write").await);
    let started = writes.begin("start_report", &june("one"), TASKS).await.answer().await.body;
    let id = started["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();

    for (tool, arguments) in
        [("start_report", june("two")), ("generate_report", june("two")), ("cancel_report", json!({"job_id": id}))]
    {
        let refused = probes.tool(tool, &arguments).await;
        assert!(refused["isError"] == true && text(&refused).contains("reports:write"), "{tool}: {refused}");
    }
    let refused = probes.cancel_task(&id).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("reports:write"), "{refused}");
    assert_eq!(probes.task(&id).await["result"]["status"], "working");
    assert_eq!(probes.tool("list_reports", &json!({})).await["structuredContent"]["reports"].as_array().unwrap().len(), 1);

    for (tool, arguments) in
        [("get_report_status", json!({"job_id": id})), ("list_reports", json!({})), ("list_sources", json!({}))]
    {
        let refused = writes.tool(tool, &arguments).await;
        assert!(refused["isError"] == true && text(&refused).contains("reports:read"), "{tool}: {refused}");
    }
    for (method, params) in [
        ("tasks/get", json!({"taskId": id})),
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": format!("report://{id}")})),
        ("prompts/get", json!({"name": "explain_report_status", "arguments": {"job_id": id}})),
    ] {
        let refused = writes.ask(method, params, TASKS).await.body;
        assert!(refused["error"]["message"].as_str().unwrap().contains("reports:read"), "{method}: {refused}");
    }
    assert_eq!(writes.cancel_task(&id).await["result"], json!({"resultType": "complete"}));
    assert_eq!(Http::at(&served.url, &token).task(&id).await["result"]["status"], "cancelled");
    served.terminate().await;
}
