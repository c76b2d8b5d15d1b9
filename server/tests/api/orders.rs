//! Ordering reports over the JSON API, and what is wrong with an order.

use chrono::{DateTime, TimeDelta, Utc};
use domain::{clock::Clock, people::Role};
use serde_json::{Value, json};

use crate::support::site::Site;

fn order() -> Value {
    json!({"month": "2026-06", "sources": ["Minutes"], "recipients": ["anna@example.org"], "title": "Minutes"})
}

#[tokio::test]
async fn a_key_makes_one_job_however_often_the_order_comes() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let first = ada.order("october-1", &order()).await;
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(first.headers["location"], format!("/api/v1/jobs/{id}"));

    let again = ada.order("october-1", &order()).await;
    assert_eq!((again.status.as_u16(), again.json()["id"].as_str().unwrap()), (200, id.as_str()));
    // The key names one order; another one under it is a mistake of the caller's and makes nothing.
    let mut other = order();
    other["month"] = "2026-05".into();
    let problem = ada.order("october-1", &other).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("was used for another report"), "{problem}");

    let fresh = ada.order("october-2", &order()).await;
    assert_eq!(fresh.status, 201);
    assert_ne!(fresh.json()["id"], id.as_str());
    let bob = site.instance.person("bob@example.org", Role::User).await;
    let bobs = site.program(bob).await.order("october-1", &order()).await;
    assert_eq!(bobs.status, 201);
    assert_ne!(bobs.json()["id"], id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_over_the_api_makes_one_job() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let order = order();
    let answers = futures_util::future::join_all((0..10).map(|_| ada.order("once", &order))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1, "{answers:?}");
    let ids: std::collections::HashSet<_> = answers.iter().map(|answer| answer.json()["id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn an_order_needs_a_key() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    for key in ["", "  ", &"k".repeat(256)] {
        let problem = ada.order(key, &order()).await.problem(400);
        assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
    }
    assert_eq!(ada.order(&"k".repeat(255), &order()).await.status, 201);
}

/// The fields that are wrong with an order, and the sentences about them.
async fn mistakes(site: &Site, order: &Value) -> Vec<(String, String)> {
    let ada = site.program(site.instance.owner).await;
    let problem = ada.order("key", order).await.problem(400);
    assert_eq!(problem["type"], "/problems/invalid", "{problem}");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    problem["errors"].as_array().unwrap().iter().map(|error| (text(&error["field"]), text(&error["detail"]))).collect()
}

#[tokio::test]
async fn every_mistake_comes_back_with_its_field() {
    let site = Site::new().await;
    std::fs::create_dir(site.instance.folder().join("private")).unwrap();
    let private = site.instance.folder().join("minutes/../private");
    let thousand: Vec<String> = (0..1_000).map(|n| format!("p{n}@example.org")).collect();
    for (name, value, says) in [
        ("month", json!("2026-13"), "\"2026-13\" is not a month: months go from 01 to 12."),
        ("month", json!("2026-2"), "Write the month as YYYY-MM, for example 2026-02."),
        ("month", json!(""), "Write the month as YYYY-MM"),
        ("zone", json!("Mars/Olympus"), "Mars/Olympus"),
        ("sources", json!(["Secrets"]), "outside the folders that the administrator allows"),
        ("sources", json!(["/etc/passwd"]), "outside the folders that the administrator allows"),
        ("sources", json!([private]), "outside the folders that the administrator allows"),
        ("sources", json!([]), "Choose a folder or add files"),
        ("recipients", json!([]), "at least one e-mail address"),
        ("recipients", json!(["anna@"]), "anna@"),
        ("recipients", json!(thousand), "recipients"),
        ("recipients", json!(["anna@example.org\r\nBcc: eve@example.org"]), "Bcc: eve@example.org"),
        ("title", json!("Minutes\r\nBcc: eve@example.org"), "line break"),
        ("title", json!("x".repeat(151)), "longer than 150 characters"),
        ("instructions", json!("x".repeat(4_001)), "longer than 4000 characters"),
    ] {
        let mut wrong = order();
        wrong[name] = value.clone();
        let found = mistakes(&site, &wrong).await;
        assert!(found.iter().all(|(field, _)| field == name) && !found.is_empty(), "{name} {value}: {found:?}");
        assert!(found.iter().any(|(_, detail)| detail.contains(says)), "{name}: {found:?}");
    }
    let listed = site.program(site.instance.owner).await.get("/api/v1/jobs").await.json();
    assert_eq!(listed["jobs"], json!([]), "nothing was created");
}

#[tokio::test]
async fn all_mistakes_come_back_together() {
    let site = Site::new().await;
    let wrong = json!({"month": "June", "zone": "Mars", "sources": [], "recipients": ["anna"]});
    let fields: Vec<String> = mistakes(&site, &wrong).await.into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["month", "zone", "sources", "recipients"]);
}

#[tokio::test]
async fn a_body_that_is_no_order_is_refused_with_the_reason() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    for body in [json!([]), json!({"month": "2026-06"}), json!({"month": 6, "sources": [], "recipients": []})] {
        let problem = ada.order("key", &body).await.problem(400);
        assert!(!problem["detail"].as_str().unwrap().is_empty());
    }
    let mut misspelt = order();
    misspelt["recipient"] = "anna@example.org".into();
    let problem = ada.order("key", &misspelt).await.problem(400);
    assert!(problem["detail"].as_str().unwrap().contains("recipient"), "{problem}");
}

#[tokio::test]
async fn an_order_takes_the_zone_of_its_sender_and_paths_inside_the_folders() {
    let site = Site::new().await;
    let inside = site.instance.folder().join("minutes/2026");
    std::fs::create_dir(&inside).unwrap();
    let ada = site.program(site.instance.owner).await;
    let mut narrow = order();
    narrow["sources"] = json!([inside]);
    let made = ada.order("key", &narrow).await.json();
    let id = made["id"].as_str().unwrap().parse().unwrap();
    let spec = site.instance.record(id).await.row.spec;
    assert_eq!((spec.zone.as_str(), spec.sources[0].name.as_str()), ("Europe/Berlin", "Minutes/2026"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_e_mail_is_shown_and_goes_out_on_approval() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    site.instance.two_documents();
    let mut order = order();
    order["hold"] = "soon".into();
    let problem = ada.order("held", &order).await.problem(400);
    assert_eq!(problem["errors"][0]["field"], "hold", "{problem}");
    order["hold"] = "approval".into();
    let made = ada.order("held", &order).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    // A program that was answered with 200 would take it for approved, and the e-mail would wait for ever.
    ada.put(&format!("/api/v1/jobs/{id}/approval")).await.problem(409);

    let worker = crate::support::worker::Running::start(site.instance.dependencies());
    let job = id.parse().unwrap();
    site.instance.wait(job, "the hold", |record| record.job.is_held()).await;
    let shown = ada.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(shown["hold"]["subject"], "Report for June 2026: Minutes");
    assert!(shown["hold"]["message"].as_str().unwrap().contains("/reports/"), "{shown}");
    assert!(shown["report_path"].is_string() && shown["hold"]["until"].is_null(), "{shown}");

    assert_eq!(ada.put(&format!("/api/v1/jobs/{id}/approval")).await.status, 200);
    let record = site.instance.wait_for_end(job).await;
    assert_eq!(contract::headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    // Late is no error, and changes nothing.
    assert_eq!(ada.put(&format!("/api/v1/jobs/{id}/approval")).await.status, 200);
    worker.stop().await;
    assert_eq!(site.instance.messages().len(), 1);
    let bob = site.instance.person("bob@example.org", Role::User).await;
    site.program(bob).await.put(&format!("/api/v1/jobs/{id}/approval")).await.problem(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_held_e_mail_goes_out_is_said_as_the_clock_shows_it_now() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    site.instance.two_documents();
    let mut order = order();
    order["hold"] = "60".into();
    let made = ada.order("held", &order).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let worker = crate::support::worker::Running::start(site.instance.dependencies());
    site.instance.wait(id.parse().unwrap(), "the hold", |record| record.job.is_held()).await;
    let clock = &site.instance.clock;
    for (set, passes, left) in [(0, 0, 60), (-3_600, 10, 50), (86_400, 10, 40)] {
        clock.jump(TimeDelta::seconds(set));
        clock.advance(TimeDelta::seconds(passes));
        let hold = ada.get(&format!("/api/v1/jobs/{id}")).await.json()["hold"].clone();
        assert_eq!(hold["seconds_left"], left, "{hold}");
        let until: DateTime<Utc> = hold["until"]["iso"].as_str().unwrap().parse().unwrap();
        assert_eq!(until, clock.now() + TimeDelta::seconds(left), "{hold}");
    }
    worker.stop().await;
}

#[tokio::test]
async fn what_names_nothing_is_a_problem_document_everywhere() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    for path in ["/api/v1/jobs/x", "/api/v1/nothing", "/api/v1/jobs/x/events", "/api/v1/reports/x"] {
        ada.get(path).await.problem(404);
    }
    for path in ["/api/v1/jobs/x/cancellation", "/api/v1/jobs/x/approval"] {
        ada.put(path).await.problem(404);
    }
}
