//! What people and programs are told while nothing can be written, and that everything works again afterwards.

use axum::body::Body;
use domain::id::RequestKey;
use http::{StatusCode, header::RETRY_AFTER};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::support::{
    instance::PATIENCE,
    raw::Raw,
    site::{Answer, Form, Site},
};

const ONE: &[&str] = &["anna@example.org"];
#[cfg(feature = "fail-points")]
const READ_ONLY: &str = "The database takes no changes just now; it can only be read.";
const FULL: &str = "The database cannot store anything just now: its disk is full, or out of order.";
/// Ends the other connections, so that they are made anew with the setting.
#[cfg(feature = "fail-points")]
const RECONNECT: &str =
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";

/// Asks until the answer has this text; connections that the server has ended come up first.
async fn eventually(text: &str, ask: impl AsyncFn() -> Answer) -> Answer {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask().await;
        if answer.text.contains(text) {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for \"{text}\": {answer:?}");
        sleep(Duration::from_millis(50)).await;
    }
}

// Only with this feature the store lets anybody reach its own connection.
#[cfg(feature = "fail-points")]
async fn set_read_only(site: &Site, raw: &mut Raw, on: bool) {
    let value = if on { "on" } else { "off" };
    match raw {
        Raw::Sqlite(_) => {
            let pragma = if on { "pragma query_only = on" } else { "pragma query_only = off" };
            site.instance.store.on_writer(pragma).await.unwrap();
        }
        Raw::Postgres(_) => {
            raw.run(&format!(
                "do $$ begin execute format('alter database %I set default_transaction_read_only = {value}', current_database());
                 end $$"
            ))
            .await;
            raw.run(RECONNECT).await;
        }
    }
}

#[cfg(feature = "fail-points")]
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_changes_is_readable_and_says_so() {
    let site = Site::new().await;
    let mut raw = site.instance.raw().await;
    check(&site, READ_ONLY, &mut raw, async |raw: &mut Raw, on| set_read_only(&site, raw, on).await).await;
}

/// Whatever a full disk hits: PostgreSQL says the same, and takes the transaction back.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_room_is_readable_and_says_so() {
    let site = Site::new().await;
    let mut raw = site.instance.raw().await;
    if let Raw::Sqlite(_) = raw {
        // The program's own test fills a disk.
        return;
    }
    raw.run(
        "create function disk_full() returns trigger language plpgsql as
         $$ begin raise exception 'no space left on device' using errcode = '53100'; end $$",
    )
    .await;
    check(&site, FULL, &mut raw, async |raw: &mut Raw, on| {
        for table in ["jobs", "sign_in_failures", "drafts", "uploads", "sessions", "tokens"] {
            if on {
                let make =
                    format!("create trigger a_full before insert or update on {table} for each row execute function disk_full()");
                raw.run(&make).await;
            } else {
                raw.run(&format!("drop trigger a_full on {table}")).await;
            }
        }
    })
    .await;
}

/// The same for every way in which nothing can be written.
async fn check(site: &Site, sentence: &str, raw: &mut Raw, set: impl AsyncFn(&mut Raw, bool)) {
    let ada = site.browser(site.instance.owner).await;
    let program = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    let (page, api) = (format!("/jobs/{id}"), format!("/api/v1/jobs/{id}"));
    let cancellation = format!("{page}/cancellation");
    let order = json!({"month": "2026-06", "sources": ["Minutes"], "recipients": ONE});
    eventually("ready", async || site.stranger().get("/readyz").await).await;
    // Time enough that the use of the session and the token would be written down.
    site.instance.clock.advance(chrono::TimeDelta::hours(2));

    set(raw, true).await;
    let unready = eventually(sentence, async || site.stranger().get("/readyz").await).await;
    assert_eq!(unready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(site.stranger().get("/healthz").await.status, StatusCode::NO_CONTENT);
    eventually("Waiting to start", async || ada.get(&page).await).await;
    eventually("Waiting to start", async || program.get(&api).await).await;

    let told = eventually(sentence, async || ada.submit(&cancellation, &Form::default()).await).await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(told.headers.contains_key(RETRY_AFTER));
    assert!(told.text.contains("It is not known whether your Cancel was recorded. Press Cancel again"), "{told:?}");
    let bodyless = ada.request("POST", &cancellation).header("accept", "text/html").header("sec-fetch-site", "same-origin");
    let told = site.send(bodyless.body(Body::empty()).unwrap()).await;
    assert!(told.text.contains(&format!("<form method=\"post\" action=\"{cancellation}\">")), "{told:?}");

    let form =
        Form::default().field("request_key", &RequestKey::new().to_string()).field("title", "Typed").field("action", "look");
    let form = form.field("month", "2026-06").file("a.md", b"# A");
    let told = eventually(sentence, async || ada.submit("/jobs", &form).await).await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(told.text.contains("Reload this page to send it again."), "{told:?}");

    let told = eventually(sentence, async || program.put(&format!("{api}/cancellation")).await).await.problem(503);
    assert_eq!(told["type"], "/problems/unavailable");
    assert!(told["detail"].as_str().unwrap().contains("not known whether your Cancel was recorded"), "{told}");
    eventually(sentence, async || program.order("later", &order).await).await.problem(503);

    set(raw, false).await;
    eventually("ready", async || site.stranger().get("/readyz").await).await;
    let unchanged = eventually("\"phase\":", async || program.get(&api).await).await;
    assert_eq!(unchanged.json()["phase"], "queued", "nothing was recorded by halves");
    let made = eventually("\"id\"", async || program.order("later", &order).await).await;
    assert!(made.status.is_success(), "{made:?}");
    let draft = ada.submit("/jobs", &form).await;
    let look = ada.get(draft.location()).await.text;
    assert!(look.contains("Typed") && look.contains("a.md"), "{look}");
    assert_eq!(ada.submit(&cancellation, &Form::default()).await.location(), page);
    assert_eq!(program.get(&api).await.json()["phase"], "cancelled");
}

/// The pages' scripts read errors in a form of their own.
#[tokio::test]
async fn a_script_is_told_in_its_own_form() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let events = format!("/jobs/{}/events", site.instance.job(ONE).await);
    let mut stream = ada.follow(&events).await;
    assert!(stream.next().await.is_some());
    site.instance.store.close().await;
    // A stream that can tell nothing ends, so that the page says what it is worth.
    while let Some(event) = stream.next().await {
        assert_eq!(event.name, "alive");
    }
    assert_eq!(ada.get(&events).await.status, StatusCode::SERVICE_UNAVAILABLE);
    let request =
        ada.request("POST", "/api/jobs/read").header("sec-fetch-site", "same-origin").header("accept", "application/json");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(Body::from("id=7")).unwrap();
    let told = site.send(request).await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
    let text = told.json()["Unavailable"].as_str().unwrap().to_owned();
    assert!(text.starts_with("The database cannot be reached just now."), "{text}");
    let told = ada.get("/jobs").await;
    assert_eq!(told.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(told.text.contains("http-equiv=\"refresh\"") && told.text.contains("cannot be reached"), "{told:?}");
}
