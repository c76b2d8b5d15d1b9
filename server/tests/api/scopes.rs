//! What a token may do: every route of the API that the documentation lists, with every kind of token.

use axum::body::Body;
use domain::{
    id::JobId,
    people::{Role, Scope, Scopes},
};
use http::{
    Method,
    header::{CONTENT_TYPE, WWW_AUTHENTICATE},
};

use crate::support::site::{KEY, Site};

/// Every method and path of docs/api.md, and what pages ask besides, about this job.
fn routes(job: JobId) -> Vec<(Method, String)> {
    let rows = include_str!("../../../docs/api.md").lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let documented: Vec<_> = rows
        .flat_map(|(requests, _)| requests.split('`'))
        .filter_map(|request| request.split_once(" /"))
        .map(|(method, path)| (method, format!("/{}", path.split('?').next().unwrap_or_default())))
        .filter(|(_, path)| path.starts_with("/api/v1/") || path.starts_with("/admin/"))
        .collect();
    assert!(documented.len() >= 18, "the table is read wrongly: {documented:?}");
    let others = [
        ("POST", "/jobs/{id}/cancellation"),
        ("POST", "/jobs/{id}/deletion"),
        ("POST", "/account/tokens"),
        ("POST", "/api/jobs/cancel"),
        ("DELETE", "/api/v1/nothing"),
        ("HEAD", "/api/v1/jobs/{id}"),
        ("GET", "/jobs/{id}"),
        ("GET", "/reports/{id}/report.md"),
        ("GET", "/nothing"),
    ];
    let all = documented.into_iter().chain(others.map(|(method, path)| (method, path.to_owned())));
    all.map(|(method, path)| {
        let path = path.replace("{id}", &job.to_string()).replace("{job}", &job.to_string()).replace("{number}", "2");
        (method.parse().expect("a method"), path)
    })
    .collect()
}

#[tokio::test]
async fn every_route_asks_for_the_scope_of_its_method() {
    for scopes in [Scopes::ALL, Scopes::READ, [Scope::Write].into_iter().collect(), [].into_iter().collect()] {
        let site = Site::new().await;
        let admin = site.instance.person("admin@example.org", Role::Admin).await;
        let job = site.instance.job(&["anna@example.org"]).await;
        let created = site.instance.record(job).await.row.version;
        let caller = site.limited_program(admin, scopes).await;
        for (method, path) in routes(job) {
            let what = format!("{method} {path} with \"{scopes}\"");
            let request = caller.request(method.as_str(), &path).header(CONTENT_TYPE, "application/json");
            let request = request.header("idempotency-key", KEY).body(Body::from("{}")).expect("a request");
            let needed = if [Method::GET, Method::HEAD].contains(&method) { Scope::Read } else { Scope::Write };
            if scopes.contains(needed) {
                // Its body may go on until the job ends.
                let answer = site.ask(request).await;
                assert!(!answer.headers().contains_key(WWW_AUTHENTICATE), "{what}: {answer:?}");
                continue;
            }
            let answer = site.send(request).await;
            assert_eq!(answer.status, 403, "{what}: {answer:?}");
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{needed}\"");
            assert_eq!(answer.headers[WWW_AUTHENTICATE], challenge.as_str(), "{what}");
            if method != Method::HEAD {
                let problem = answer.problem(403);
                assert_eq!(problem["type"], "/problems/insufficient-scope", "{what}");
                let detail = problem["detail"].as_str().expect("a sentence");
                assert!(detail.contains("recount token create") && detail.contains(needed.name()), "{what}: {detail}");
            }
        }
        let changed = site.instance.record(job).await.row.version != created;
        assert_eq!(changed, scopes.contains(Scope::Write), "\"{scopes}\": {:?}", site.instance.history(job).await);
    }
}

#[tokio::test]
async fn a_token_of_the_account_page_may_only_look_where_that_was_chosen() {
    let site = Site::new().await;
    let ada = site.instance.owner;
    let browser = site.browser(ada).await;
    for (form, scopes) in
        [("name=reader&may=look", Scopes::READ), ("name=writer&may=act", Scopes::ALL), ("name=old", Scopes::ALL)]
    {
        let made = browser.fill_in("/account/tokens", form).await;
        made.page(200, "New token");
        let newest = site.instance.store.tokens_of(ada).await.unwrap().remove(0);
        assert_eq!(newest.scopes, scopes, "{form}");
    }
    assert_eq!(browser.fill_in("/account/tokens", "name=x&may=rule").await.status, 400);
    let account = browser.get("/account").await.text;
    assert_eq!(account.matches(">may only look, ").count(), 1, "{account}");
}

#[tokio::test]
async fn a_scope_gives_no_more_than_the_person_may_do() {
    let site = Site::new().await;
    let ada = site.limited_program(site.instance.owner, Scopes::ALL).await;
    let problem = ada.get("/api/v1/effects").await.problem(403);
    assert_eq!(problem["type"], "about:blank", "it is not for lack of a scope");
}
