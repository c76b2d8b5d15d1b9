//! Looking at jobs, reports and effects over the JSON API, and cancelling.

use chrono::TimeDelta;
use contract::StepKind;
use domain::{id::JobId, people::Role};
use serde_json::json;

use crate::support::{ended::unanswered, site::Site, worker::Running};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

/// A site with one finished job of ada's.
async fn with_finished_job() -> (Site, JobId) {
    let site = Site::new().await;
    site.instance.two_documents();
    let id = site.instance.job(TWO).await;
    let worker = Running::start(site.instance.dependencies());
    site.instance.wait_for_end(id).await;
    worker.stop().await;
    (site, id)
}

#[tokio::test]
async fn a_job_is_told_whole() {
    let (site, id) = with_finished_job().await;
    let job = site.program(site.instance.owner).await.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(job["id"], id.to_string());
    assert_eq!(job["phase"], "finished");
    assert_eq!(job["headline"], "Report saved; written to the outbox folder, no e-mail was sent");
    assert_eq!(job["month"], "2026-06");
    assert_eq!(job["title"], "Minutes, June 2026");
    assert_eq!(job["version"], site.instance.record(id).await.row.version);
    assert_eq!(job["as_of"]["iso"], "2026-07-01T08:00:00.000Z");
    assert_eq!(job["if_cancelled_now"], json!(null));

    let steps: Vec<_> =
        job["steps"].as_array().unwrap().iter().map(|step| (step["kind"].clone(), step["state"].clone())).collect();
    let done = |kind: &str| (json!(kind), json!("done"));
    assert_eq!(steps, [done("collect"), done("summarize"), done("save"), done("email")]);

    let effects = job["effects"].as_array().unwrap();
    let what: Vec<_> = effects.iter().map(|effect| effect["what"].as_str().unwrap()).collect();
    assert_eq!(what, ["Report", "E-mail to anna@example.org", "E-mail to bert@example.org"]);
    for effect in effects {
        assert_eq!(effect["outcome"], "done");
        assert!(!effect["evidence"].as_str().unwrap().is_empty());
    }
    assert!(effects[1]["message_id"].as_str().unwrap().ends_with("@recount.test>"));

    let documents = job["documents"].as_array().unwrap();
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0]["name"], "2026-06-03-meeting.md");
    assert_eq!((&documents[0]["state"], &documents[0]["number"]), (&json!("read"), &json!(1)));
    assert!(documents[0]["dated_by"].as_str().is_some_and(|rule| rule.contains("name")), "{documents:?}");
    assert_eq!(job["history"][0]["text"], "Created");
    assert!(job["report_path"].as_str().unwrap().starts_with("/reports/"));
    assert_eq!(job["again_path"], format!("/?from={id}"));
}

#[tokio::test]
async fn a_report_is_told_with_its_provenance() {
    let (site, id) = with_finished_job().await;
    let report = site.instance.record(id).await.row.report_id.unwrap();
    let path = format!("/api/v1/reports/{report}");
    let told = site.program(site.instance.owner).await.get(&path).await.json();
    assert_eq!((told["id"].as_str(), told["job_id"].as_str()), (Some(&*report.to_string()), Some(&*id.to_string())));
    assert_eq!(told["title"], "Minutes, June 2026");
    assert!(told["markdown"].as_str().unwrap().contains("140,000 dollars"));
    assert!(told["html"].as_str().unwrap().contains("140,000 dollars"));
    let provenance = &told["provenance"];
    assert_eq!((&provenance["month"], &provenance["zone"]), (&json!("2026-06"), &json!("Europe/Berlin")));
    assert_eq!(provenance["documents"][0]["sha256"].as_str().unwrap().len(), 64);
    assert!(provenance["summarizer"].as_str().unwrap().contains("Built-in"), "{provenance}");

    // Those whom the link was sent to may read it, others may not.
    let anna = site.instance.person("anna@example.org", Role::User).await;
    assert_eq!(site.program(anna).await.get(&path).await.status, 200);
    let eve = site.instance.person("eve@example.org", Role::User).await;
    site.program(eve).await.get(&path).await.problem(404);
    site.stranger().get(&path).await.problem(401);
}

#[tokio::test]
async fn what_is_not_theirs_does_not_exist() {
    let (site, id) = with_finished_job().await;
    let eve = site.instance.person("eve@example.org", Role::User).await;
    let eve = site.program(eve).await;
    for path in [format!("/api/v1/jobs/{id}"), format!("/api/v1/jobs/{id}/events"), format!("/api/v1/jobs/{}", JobId::new())] {
        let problem = eve.get(&path).await.problem(404);
        assert_eq!(problem["detail"], "There is nothing here, or it is not yours to see.");
    }
    eve.get("/api/v1/jobs/nonsense").await.problem(404);
    eve.put(&format!("/api/v1/jobs/{id}/cancellation")).await.problem(404);
    assert_eq!(eve.get("/api/v1/jobs").await.json()["jobs"], json!([]));
    assert_eq!(site.instance.history(id).await.last().unwrap(), "Finished", "her cancel left no trace");

    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let admin = site.program(admin).await;
    assert_eq!(admin.get(&format!("/api/v1/jobs/{id}")).await.status, 200);
    let listed = admin.get("/api/v1/jobs").await.json();
    assert_eq!((listed["jobs"].as_array().unwrap().len(), &listed["of_everyone"]), (1, &json!(true)));
    assert_eq!(listed["jobs"][0]["owner"], "ada@example.org");
}

#[tokio::test]
async fn a_cancel_always_says_what_it_met() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let claim = site.instance.job_at(StepKind::Summarize, TWO).await;
    let path = format!("/api/v1/jobs/{}/cancellation", claim.id);
    let first = ada.put(&path).await;
    assert_eq!(first.status, 200);
    let first = first.json();
    assert_eq!((&first["outcome"], &first["won_by"]), (&json!("accepted"), &json!(null)));
    assert_eq!((&first["job"]["phase"], &first["requested_by"]), (&json!("stopping"), &json!("you")));
    assert_eq!(first["requested_at"]["iso"], "2026-07-01T08:00:00.000Z");

    site.instance.clock.advance(TimeDelta::seconds(5));
    let second = ada.put(&path).await;
    assert_eq!(second.status, 200);
    let second = second.json();
    assert_eq!((&second["outcome"], &second["requested_at"]), (&json!("already_requested"), &first["requested_at"]));

    let failed = site.instance.job_at(StepKind::Collect, TWO).await;
    site.instance.change(failed.id, |job| job.fail(1, "No documents.")).await.unwrap();
    let late = ada.put(&format!("/api/v1/jobs/{}/cancellation", failed.id)).await.json();
    assert_eq!((&late["outcome"], &late["won_by"]), (&json!("too_late"), &json!("failed")));
    assert_eq!((&late["requested_at"], &late["job"]["phase"]), (&json!(null), &json!("failed")));
}

/// A job of ada's whose only message is with the mail server, cancelled over the API.
async fn stopping(site: &Site) -> JobId {
    let claim = site.instance.job_at(StepKind::Email, &["anna@example.org"]).await;
    site.instance.hand_over(claim.id, claim.epoch, 2).await;
    let answer = site.program(site.instance.owner).await.put(&format!("/api/v1/jobs/{}/cancellation", claim.id)).await;
    assert_eq!(answer.json()["job"]["phase"], "stopping");
    claim.id
}

#[tokio::test]
async fn a_cancel_under_way_is_told_with_its_age_and_what_it_waits_for() {
    let site = Site::new().await;
    let id = stopping(&site).await;
    let (program, browser) = (site.program(site.instance.owner).await, site.browser(site.instance.owner).await);
    for (minutes, as_of) in [(0, "2026-07-01T08:00:00.000Z"), (9, "2026-07-01T08:09:00.000Z")] {
        site.instance.clock.advance(TimeDelta::minutes(minutes));
        let told = program.get(&format!("/api/v1/jobs/{id}")).await.json();
        let since = json!("2026-07-01T08:00:00.000Z");
        assert_eq!((&told["waiting_since"]["iso"], &told["as_of"]["iso"]), (&since, &json!(as_of)));
        assert_eq!((&told["cancel"]["at"]["iso"], &told["cancel"]["by"]), (&since, &json!("you")));
        let waiting = told["waiting_for"].as_str().expect("what it waits for");
        assert!(waiting.contains("has not answered yet"), "{waiting}");
        let page = browser.get(&format!("/jobs/{id}")).await.text;
        assert!(page.contains("Stopping…") && page.contains(waiting) && page.contains("1 Jul 2026, 10:00:00"), "{page}");
    }
    site.instance.change(id, |job| job.settle(1, 2, unanswered())).await.unwrap();
    site.instance.change(id, |job| job.account(1)).await.unwrap();
    let told = program.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&told["waiting_for"], &told["waiting_since"]), (&json!(null), &json!(null)));
    assert_eq!(told["headline"], "Cancelled. Report saved; email outcome unconfirmed");
}

#[tokio::test]
async fn the_clock_of_a_stopped_job_stands_still_at_its_end() {
    let site = Site::new().await;
    let id = stopping(&site).await;
    let ada = site.program(site.instance.owner).await;
    // Its worker has died, and somebody accounts for it two hours later.
    site.instance.clock.advance(TimeDelta::hours(2));
    site.instance.expire().await;
    for _ in 0..2 {
        let told = ada.get(&format!("/api/v1/jobs/{id}")).await.json();
        let ended = told["facts"].as_array().unwrap().iter().find(|fact| fact["term"] == "Ended").expect("it has ended");
        assert_eq!(ended["text"], "1 Jul 2026, 12:00:15");
        assert_eq!(told["steps"][3]["took"], "120 min 15 s");
        site.instance.clock.advance(TimeDelta::hours(5));
    }
}

#[tokio::test]
async fn who_cancelled_and_when_is_in_the_jobs_own_history() {
    let site = Site::new().await;
    let id = stopping(&site).await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    site.instance.clock.advance(TimeDelta::seconds(5));
    site.program(admin).await.put(&format!("/api/v1/jobs/{id}/cancellation")).await.json();
    let told = site.program(site.instance.owner).await.get(&format!("/api/v1/jobs/{id}")).await.json();
    let cancels: Vec<_> = told["history"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["text"].as_str().unwrap().starts_with("Cancel"))
        .map(|line| (line["at"]["iso"].as_str().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(
        cancels,
        [
            ("2026-07-01T08:00:00.000Z", "Cancel accepted, asked for by ada@example.org"),
            ("2026-07-01T08:00:05.000Z", "Cancel pressed again by admin@example.org"),
        ]
    );
}

#[tokio::test]
async fn a_cancel_of_a_finished_job_is_too_late() {
    let (site, id) = with_finished_job().await;
    let answer = site.program(site.instance.owner).await.put(&format!("/api/v1/jobs/{id}/cancellation")).await;
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    assert_eq!((&answer["outcome"], &answer["won_by"]), (&json!("too_late"), &json!("finished")));
    assert_eq!(answer["message"], "The cancel came too late: the job had already finished.");
    assert_eq!(answer["job"]["headline"], "Report saved; written to the outbox folder, no e-mail was sent");
}

#[tokio::test]
async fn the_effect_history_is_for_administrators() {
    let (site, id) = with_finished_job().await;
    site.program(site.instance.owner).await.get("/api/v1/effects").await.problem(403);
    site.stranger().get("/api/v1/effects").await.problem(401);
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let admin = site.program(admin).await;
    let all = admin.get("/api/v1/effects").await.json();
    assert_eq!((all["rows"].as_array().unwrap().len(), &all["open"]), (3, &json!([])));
    let emails = admin.get("/api/v1/effects?kind=email&outcome=done").await.json();
    let rows = emails["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((&row["job_path"], &row["owner"]), (&json!(format!("/jobs/{id}")), &json!("ada@example.org")));
        assert!(row["evidence"].as_str().unwrap().contains(".eml"), "{row}");
    }
    assert_eq!(admin.get("/api/v1/effects?outcome=unconfirmed").await.json()["rows"], json!([]));
}

#[tokio::test]
async fn lists_go_on_where_a_page_ended() {
    let site = Site::new().await;
    let mut ids = Vec::new();
    for _ in 0..53 {
        ids.push(site.instance.job(&["anna@example.org"]).await.to_string());
    }
    ids.reverse();
    let ada = site.program(site.instance.owner).await;
    let mut seen = Vec::new();
    let mut query = String::new();
    loop {
        let page = ada.get(&format!("/api/v1/jobs{query}")).await.json();
        seen.extend(page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()));
        let Some(older) = page["older_path"].as_str() else { break };
        query = older.strip_prefix("/jobs").unwrap().to_owned();
    }
    assert_eq!(seen, ids);
    assert_eq!(ada.get("/api/v1/jobs?state=finished").await.json()["jobs"], json!([]));
}
