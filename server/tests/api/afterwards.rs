//! What follows a job, over the API and on pages: what everybody sees then.

use contract::{Outcome, Phase, StepKind, Verdict};
use domain::{id::JobId, people::Role};
use http::header::{CONTENT_TYPE, LOCATION};
use serde_json::json;

use crate::support::{
    ended::{accepted, refused, unanswered},
    site::{KEY, Site},
};

const ANNA: &str = "anna@example.org";
const BERT: &str = "bert@example.org";

/// A site with a job of ada's that has ended: anna's e-mail was accepted, bert's came to this verdict.
async fn ended(berts: Verdict) -> (Site, JobId) {
    let site = Site::new().await;
    let id = site.instance.ended(&[(ANNA, accepted()), (BERT, berts)]).await;
    (site, id)
}

/// A job of ada's that is stopping, with a message in doubt.
async fn stopping() -> (Site, JobId) {
    let site = Site::new().await;
    let claim = site.instance.job_at(StepKind::Email, &[ANNA]).await;
    site.instance.hand_over(claim.id, claim.epoch, 2).await;
    site.instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    (site, claim.id)
}

#[tokio::test]
async fn only_an_administrator_accounts_for_a_job_without_its_worker() {
    let (site, id) = stopping().await;
    let (ada, admin) = (
        site.program(site.instance.owner).await,
        site.program(site.instance.person("admin@example.org", Role::Admin).await).await,
    );
    let (path, body) = (format!("/api/v1/jobs/{id}/accounting"), r#"{"why": "the machine is gone"}"#);
    let told = ada.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&told["account_now"], &told["waiting_since"]["iso"]), (&json!(null), &json!("2026-07-01T08:00:00.000Z")));
    let told = admin.get(&format!("/api/v1/jobs/{id}")).await.json();
    let consequence = "The e-mail to anna@example.org would be unconfirmed: it may have been accepted, or not.";
    assert_eq!(told["account_now"]["consequence"], consequence);

    ada.send("PUT", &path, body).await.problem(403);
    site.stranger().send("PUT", &path, body).await.problem(401);
    admin.send("PUT", &path, r#"{"why": " "}"#).await.problem(400);
    assert_eq!(site.instance.record(id).await.job.phase, Phase::Stopping);
    let answer = admin.send("PUT", &path, body).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["headline"]),
        (200, &json!("Cancelled. Report saved; email outcome unconfirmed"))
    );
    let problem = admin.send("PUT", &path, body).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("does not allow this, or not any more"), "{problem}");
    admin.send("PUT", &format!("/api/v1/jobs/{}/accounting", JobId::new()), body).await.problem(404);

    let (site, id) = stopping().await;
    let admin = site.browser(site.instance.person("admin@example.org", Role::Admin).await).await;
    let answer = admin.fill_in(&format!("/jobs/{id}/accounting"), "why=gone").await;
    assert_eq!(answer.location(), format!("/jobs/{id}"));
    let answer = admin.fill_in(&format!("/jobs/{id}/accounting"), "why=gone").await;
    assert_eq!(answer.location(), format!("/jobs/{id}?said=moved_on"));
}

#[tokio::test]
async fn a_withdrawn_report_is_gone_for_everybody() {
    let (site, id) = ended(unanswered()).await;
    let mut raw = site.instance.raw().await;
    let document = "insert into documents (job_id, position, number, source, name, state, text)
                    values ($1, 1, 1, 'Minutes', 'a.md', 'read', 'the very text')";
    raw.tamper(document, id).await.unwrap();
    let report = site.instance.store.report_of_job(id).await.unwrap().unwrap().id;
    let pages = [
        format!("/reports/{report}"),
        format!("/reports/{report}/documents/1?from=0&to=3"),
        format!("/reports/{report}/report.md"),
    ];
    let api = format!("/api/v1/reports/{report}");
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let readers = [site.instance.owner, admin, site.instance.person(ANNA, Role::User).await];
    let other = site.instance.person("eve@example.org", Role::User).await;
    for reader in readers {
        for page in &pages {
            assert_eq!(site.browser(reader).await.get(page).await.status, 200, "{page}");
        }
        assert_eq!(site.program(reader).await.get(&api).await.status, 200);
    }
    let ada = site.program(site.instance.owner).await;
    let body = r#"{"why": "it names <script>alert(1)</script> Carl"}"#;
    let told = ada.send("PUT", &format!("/api/v1/jobs/{id}/withdrawal"), body).await.json();
    assert_eq!((&told["phase"], &told["report_path"]), (&json!("finished"), &json!(null)));
    assert_eq!(
        told["withdrawn"],
        json!({"at": {"iso": "2026-07-01T08:00:00.000Z", "text": "1 Jul 2026, 10:00:00"}, "by": "you",
               "why": "it names <script>alert(1)</script> Carl"})
    );
    for reader in readers {
        for page in &pages {
            let answer = site.browser(reader).await.get(page).await;
            assert_eq!(answer.status, 410, "{page}");
            assert!(answer.text.contains("it names") && answer.text.contains("1 Jul 2026"), "{page}: {}", answer.text);
            if answer.headers[CONTENT_TYPE].to_str().unwrap().starts_with("text/html") {
                assert!(!answer.text.contains("<script>alert(1)"), "{page}: {}", answer.text);
            }
            assert!(!answer.text.contains("the very text") && !answer.text.contains("# Minutes"), "{page}: {}", answer.text);
        }
        let problem = site.program(reader).await.get(&api).await.problem(410);
        let by = if reader == site.instance.owner { "you" } else { "ada@example.org" };
        assert_eq!(
            problem["detail"],
            format!("Withdrawn on 1 Jul 2026, 10:00:00 by {by}: it names <script>alert(1)</script> Carl")
        );
    }
    for page in &pages {
        assert_eq!(site.browser(other).await.get(page).await.status, 404, "{page}");
    }
    site.program(other).await.get(&api).await.problem(404);
    let rows = ada.get("/api/v1/jobs").await.json();
    assert_eq!(rows["jobs"][0]["report_path"], json!(null));
    let page = site.browser(site.instance.owner).await.get(&format!("/jobs/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(!page.text.contains(&format!("href=\"/reports/{report}\"")), "{}", page.text);
    ada.send("PUT", &format!("/api/v1/jobs/{id}/withdrawal"), body).await.problem(409);
}

#[tokio::test]
async fn a_mailing_is_a_job_of_its_own_and_the_same_request_makes_one() {
    let (site, id) = ended(unanswered()).await;
    let ada = site.program(site.instance.owner).await;
    let path = format!("/api/v1/jobs/{id}/corrections");
    let offer = &ada.get(&format!("/api/v1/jobs/{id}")).await.json()["afterwards"];
    assert_eq!((&offer["may_withdraw"], &offer["may_delete"]), (&json!(true), &json!(false)));
    assert_eq!(offer["correction"]["recipients"], json!([ANNA, BERT]));
    assert_eq!(offer["second_copies"][0]["number"], 3);
    assert_eq!((&offer["second_copies"][0]["to"], &offer["second_copies"][0]["may_duplicate"]), (&json!(BERT), &json!(true)));

    let first = ada.send("POST", &path, r#"{"text": "The sum is wrong."}"#).await;
    let job = first.json();
    assert_eq!(
        (first.status.as_u16(), &job["title"], &job["headline"]),
        (201, &json!("Correction: Minutes, June 2026"), &json!("Waiting to start"))
    );
    let mailing = job["id"].as_str().unwrap().to_owned();
    assert_eq!(first.headers[LOCATION], format!("/api/v1/jobs/{mailing}"));
    assert_eq!(job["about"], json!({"title": "Minutes, June 2026", "path": format!("/jobs/{id}"), "text": "The sum is wrong."}));
    assert_eq!(job["again_path"], format!("/?from={id}"), "what can be made again is the report");
    assert_eq!(job["if_cancelled_now"], "If you cancel now, the correction does not go out.");
    assert_eq!(
        (job["steps"].as_array().unwrap().len(), &job["effects"][0]["what"]),
        (1, &json!("Correction to anna@example.org"))
    );
    assert_eq!(job["afterwards"]["correction"], json!(null));
    let again = ada.send("POST", &path, r#"{"text": "The sum is wrong."}"#).await;
    assert_eq!((again.status.as_u16(), again.json()["id"].as_str()), (201, Some(mailing.as_str())));
    ada.send("POST", &path, r#"{"text": "Something else."}"#).await.problem(409);

    // The key is taken for an order as well, also where the order cannot be checked any more.
    for source in ["minutes", "a folder that is gone"] {
        let order = json!({"month": "2026-06", "zone": "Europe/Berlin", "title": "Minutes", "sources": [source],
                           "recipients": [ANNA, BERT]});
        ada.order(KEY, &order).await.problem(409);
    }
    let listed = ada.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(listed["mailings"].as_array().unwrap().len(), 1);
    assert_eq!(listed["mailings"][0]["what"], "Correction to anna@example.org, bert@example.org");
    assert_eq!(listed["mailings"][0]["path"], format!("/jobs/{mailing}"));
    assert_ne!(
        listed["afterwards"]["correction"]["request_key"], offer["correction"]["request_key"],
        "the next form is another one"
    );
    let cancelled = ada.put(&format!("/api/v1/jobs/{mailing}/cancellation")).await.json();
    assert_eq!(
        (&cancelled["outcome"], &cancelled["job"]["headline"]),
        (&json!("accepted"), &json!("Cancelled. Correction not started"))
    );
    let rows = ada.get("/api/v1/jobs").await.json();
    assert_eq!(rows["jobs"][0]["title"], "Correction: Minutes, June 2026");
    for path in [format!("/jobs/{id}"), format!("/jobs/{mailing}"), "/jobs".into()] {
        assert_eq!(site.browser(site.instance.owner).await.get(&path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn who_sends_again_must_be_sure_where_it_may_be_a_double() {
    let (site, id) = ended(unanswered()).await;
    let (ada, browser) = (site.program(site.instance.owner).await, site.browser(site.instance.owner).await);
    let path = format!("/api/v1/jobs/{id}/emails/3/second-copies");
    let unsure = ada.send("POST", &path, r#"{"why": "x"}"#).await.problem(400);
    assert!(unsure["detail"].as_str().unwrap().contains("may_duplicate"), "{unsure}");
    let form = format!("key={KEY}&why=x");
    let answer = browser.fill_in(&format!("/jobs/{id}/emails/3/second-copies"), &form).await;
    assert_eq!(answer.location(), format!("/jobs/{id}?said=not_sure"));
    let accepted = format!("/api/v1/jobs/{id}/emails/2/second-copies");
    let problem = ada.send("POST", &accepted, r#"{"why": "x", "may_duplicate": true}"#).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("has accepted the message"), "{problem}");

    let sure = ada.send("POST", &path, r#"{"why": "x", "may_duplicate": true}"#).await;
    assert_eq!((sure.status.as_u16(), &sure.json()["title"]), (201, &json!("Second copy: Minutes, June 2026")));
    let admin = site.program(site.instance.person("admin@example.org", Role::Admin).await).await;
    let other_key = admin.request("POST", &path).header(CONTENT_TYPE, "application/json").header("idempotency-key", "another");
    let problem = site.send(other_key.body(r#"{"why": "x", "may_duplicate": true}"#.into()).unwrap()).await.problem(409);
    assert!(problem["detail"].as_str().unwrap().contains("on its way already"), "{problem}");
    let told = admin.get(&format!("/api/v1/effects/{id}/3")).await.json();
    let decision = &told["decisions"][0];
    assert_eq!(
        (&decision["by"], &decision["decision"], &decision["reason"]),
        (&json!("ada@example.org"), &json!("Send again"), &json!("x"))
    );
    assert_eq!(told["second_copy"], json!(null), "one is on its way");
    assert_eq!(site.instance.record(id).await.job.effect(3).unwrap().outcome, Outcome::Unconfirmed);
}

#[tokio::test]
async fn an_effect_is_told_with_its_looks_and_decisions() {
    let (site, id) = ended(unanswered()).await;
    let instance = &site.instance;
    instance.clock.advance(chrono::TimeDelta::minutes(1));
    let look = instance.store.due_probes().await.unwrap()[0];
    assert!(instance.store.begin_look(&look, "archive").await.unwrap());
    let admin = site.program(instance.person("admin@example.org", Role::Admin).await).await;
    let path = format!("/api/v1/effects/{id}/3");
    let told = admin.get(&path).await.json();
    assert_eq!((&told["probes"][0]["result"], &told["probes"][0]["evidence"]), (&json!("not ended"), &json!(null)));
    assert_eq!(told["plan"], json!({"next": null, "places": []}), "no place is set up");
    instance.store.end_look(&look, "archive", store::ProbeResult::Nothing, "asked for it").await.unwrap();
    admin.send("PUT", &format!("{path}/decision"), r#"{"accepted": false, "seen": "bert has nothing"}"#).await;
    let told = admin.get(&path).await.json();
    assert_eq!((&told["outcome"], &told["outcome_text"]), (&json!("not_done"), &json!("not accepted, as a person attests")));
    assert_eq!(told["evidence"], "admin@example.org looked into it: bert has nothing");
    let line = &told["probes"][0];
    assert_eq!(
        (&line["place"], &line["result"], &line["evidence"]),
        (&json!("archive"), &json!("nothing found"), &json!("asked for it"))
    );
    assert_eq!(told["decisions"][0]["at"]["iso"], "2026-07-01T08:01:00.000Z");
    assert_eq!((&told["decisions"][0]["by"], &told["decisions"][0]["decision"]), (&json!("you"), &json!("It was not accepted")));
    assert_eq!(told["plan"], json!(null));
    assert_eq!(
        (&told["second_copy"]["may_duplicate"], &told["second_copy"]["to"]),
        (&json!(true), &json!(BERT)),
        "a word is no proof"
    );
    admin.send("PUT", &format!("{path}/decision"), r#"{"accepted": true, "seen": "x"}"#).await.problem(409);
    for text in
        [told.to_string(), admin.get(&format!("/api/v1/jobs/{id}")).await.text, admin.get("/admin/effects.csv").await.text]
    {
        assert!(!text.to_lowercase().contains("delivered"), "{text}");
    }
}

#[tokio::test]
async fn a_deleted_job_is_not_found_and_its_effects_stay() {
    let (site, id) = ended(refused()).await;
    let browser = site.browser(site.instance.owner).await;
    let report = site.instance.store.report_of_job(id).await.unwrap().unwrap().id;
    let answer = browser.fill_in(&format!("/jobs/{id}/deletion"), "why=not+needed").await;
    assert_eq!(answer.location(), "/jobs?said=deleted");
    for path in [
        format!("/jobs/{id}"),
        format!("/reports/{report}"),
        format!("/reports/{report}/report.md"),
        format!("/api/v1/jobs/{id}"),
    ] {
        assert_eq!(browser.get(&path).await.status, 404, "{path}");
    }
    let again = browser.fill_in(&format!("/jobs/{id}/deletion"), "why=again").await;
    assert_eq!(again.location(), "/jobs?said=deleted", "a form that was sent twice gets the same answer");
    let other = site.browser(site.instance.person("eve@example.org", Role::User).await).await;
    other.fill_in(&format!("/jobs/{id}/deletion"), "why=again").await.problem(404);
    let admin = site.program(site.instance.person("admin@example.org", Role::Admin).await).await;
    admin.send("PUT", &format!("/api/v1/jobs/{id}/deletion"), r#"{"why": "too late"}"#).await.problem(404);
    let told = admin.get(&format!("/api/v1/effects/{id}/4")).await.json();
    assert_eq!((&told["what"], &told["outcome_text"]), (&json!("Deletion of the job"), &json!("deleted")));
    assert_eq!(
        (&told["job_path"], &told["owner"], &told["job_title"]),
        (&json!(null), &json!("ada@example.org"), &json!("Minutes, June 2026"))
    );
    assert_eq!(told["decisions"][0]["reason"], "not needed");
    let listed = admin.get(&format!("/api/v1/effects?job={id}")).await.json();
    assert_eq!(listed["rows"].as_array().unwrap().len(), 4);
    let sent = admin.get(&format!("/api/v1/effects/{id}/2")).await.json();
    assert_eq!((&sent["second_copy"], &sent["outcome_text"]), (&json!(null), &json!("accepted by the mail service")));
    assert_eq!(
        site.browser(site.instance.person("boss@example.org", Role::Admin).await)
            .await
            .get(&format!("/admin/effects/{id}/2"))
            .await
            .status,
        200
    );
}

/// Whoever says what became of an e-mail while its worker may still get an answer is told so; both are said when it comes.
#[tokio::test]
async fn a_person_is_warned_of_an_answer_that_may_still_come_and_both_are_said_when_it_does() {
    const BOTH: &str = "a person said it was not accepted; the mail service says it was";
    const WARNING: &str = "An answer may still come";
    let (site, id) = stopping().await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let (admin, browser) = (site.program(admin).await, site.browser(admin).await);
    let ada = site.program(site.instance.owner).await;
    site.instance.store.account_now(id, "admin@example.org", "I do not wait").await.unwrap().unwrap();
    let (told, page) = (format!("/api/v1/effects/{id}/2"), format!("/admin/effects/{id}/2"));
    assert!(admin.get(&told).await.json()["warning"].as_str().is_some_and(|text| text.starts_with(WARNING)));
    assert!(browser.get(&page).await.text.contains(WARNING));
    let said = r#"{"accepted": false, "seen": "nothing came"}"#;
    assert_eq!(admin.send("PUT", &format!("{told}/decision"), said).await.status, 200);
    assert!(!browser.get(&page).await.text.contains(WARNING));

    // The answer, as its worker writes it.
    let mut change = site.instance.store.change_job(id).await.unwrap().unwrap();
    assert!(change.job.contradict(2, &accepted()));
    change.commit().await.unwrap();
    let effect = admin.get(&told).await.json();
    assert_eq!((&effect["outcome_text"], &effect["mark"]), (&json!(BOTH), &json!("doubt")));
    assert_eq!(effect["evidence"], "admin@example.org looked into it: nothing came; later: 250 2.0.0 queued as ABC123");
    let job = ada.get(&format!("/api/v1/jobs/{id}")).await.json();
    let headline = format!("Cancelled. Report saved; email: {BOTH}");
    assert_eq!((&job["headline"], &job["mark"]), (&json!(headline), &json!("doubt")));
    assert!(job["reason"].as_str().unwrap().contains("may have the message twice"), "{job}");
    assert_eq!(ada.get("/api/v1/jobs").await.json()["jobs"][0]["headline"], headline);
    let page = site.browser(site.instance.owner).await.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains(&headline) && !page.contains("not sent"), "{page}");

    // Anna may have the link, so a correction goes to her; a second copy still needs somebody who is sure.
    assert_eq!(job["afterwards"]["correction"]["recipients"], json!([ANNA]));
}
