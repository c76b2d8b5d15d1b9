//! A job of a restored copy, as pages and programs see it: what is not known about it, and the decision that it waits for.

use domain::{
    hold::Hold,
    id::{JobId, RequestKey},
    people::Role,
    spec::Spec,
};
use serde_json::json;

use crate::support::{instance::Instance, site::Site, worker::Running};

const ONE: &[&str] = &["anna@example.org"];
const HEADLINE: &str = "Report and email outcome unconfirmed (restored from a backup of 1 July, 10:00; the original may have saved \
                        and sent it since)";
const UNKNOWN: &str = "This is a restored copy. What happened to this report after the backup of 1 Jul 2026, 10:00:00 is not known \
                       here: it may have been finished and e-mailed already.";

/// The site over a restored copy, in which a job of ada's had not ended.
async fn restored() -> (Site, JobId) {
    let original = Instance::new().await;
    let id = original.job(ONE).await;
    let copy = original.restored().await;
    let dependencies = copy.dependencies();
    (Site::of(copy, dependencies).await, id)
}

#[tokio::test]
async fn it_says_what_is_not_known_and_waits_for_a_person() {
    let (site, id) = restored().await;
    let program = site.program(site.instance.owner).await;
    let job = program.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["headline"], &job["mark"]), (&json!(HEADLINE), &json!("waiting")));
    assert_eq!(job["reason"], format!("It waits for a person. {UNKNOWN}"));
    assert_eq!(job["set_aside"]["iso"], "2026-07-01T08:00:00.000Z");
    let list = program.get("/api/v1/jobs").await.json();
    assert_eq!((&list["jobs"][0]["set_aside"], &list["jobs"][0]["headline"]), (&json!(true), &json!(HEADLINE)));

    let browser = site.browser(site.instance.owner).await;
    let page = browser.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains(UNKNOWN) && page.contains(&format!("action=\"/jobs/{id}/resumption\"")), "{page}");
    assert!(!page.contains("http-equiv"), "the page would take away what somebody writes");
    assert!(browser.get("/jobs").await.text.contains("waits for a person"));
    assert!(browser.get("/").await.text.contains("waits for a person"));

    // What the original has done stays unknown when it ends here.
    let answer = program.put(&format!("/api/v1/jobs/{id}/cancellation")).await.json();
    assert_eq!((&answer["job"]["reason"], &answer["job"]["set_aside"]), (&json!(UNKNOWN), &json!(null)));
    assert_eq!(answer["job"]["headline"], format!("Cancelled. {HEADLINE}"));
    let list = program.get("/api/v1/jobs").await.json();
    assert_eq!(list["jobs"][0]["set_aside"], false);
    let late = program.send("PUT", &format!("/api/v1/jobs/{id}/resumption"), r#"{"why": "too late"}"#).await;
    late.problem(409);
}

#[tokio::test]
async fn its_owner_or_an_admin_lets_it_go_on_and_says_why() {
    for (who, api, form) in [("owner", 200, 303), ("admin", 200, 303), ("other", 404, 404), ("nobody", 401, 303)] {
        for by_form in [false, true] {
            let (site, id) = restored().await;
            let admin = site.instance.person("admin@example.org", Role::Admin).await;
            let other = site.instance.person("anna@example.org", Role::User).await;
            let caller = match (who, by_form) {
                ("nobody", _) => site.stranger(),
                ("owner", true) => site.browser(site.instance.owner).await,
                ("owner", false) => site.program(site.instance.owner).await,
                ("admin", true) => site.browser(admin).await,
                ("admin", false) => site.program(admin).await,
                (_, true) => site.browser(other).await,
                (_, false) => site.program(other).await,
            };
            let (page, path) = (format!("/jobs/{id}/resumption"), format!("/api/v1/jobs/{id}/resumption"));
            let answer = if by_form {
                caller.fill_in(&page, "why=Anna+has+nothing").await
            } else {
                caller.send("PUT", &path, &json!({"why": "Anna has nothing"}).to_string()).await
            };
            assert_eq!(answer.status.as_u16(), if by_form { form } else { api }, "{who}, form: {by_form}: {answer:?}");
            let record = site.instance.record(id).await;
            let goes_on = matches!(who, "owner" | "admin");
            assert_eq!(record.row.set_aside_at.is_none(), goes_on, "{who}, form: {by_form}");
            if goes_on {
                // A second press changes nothing.
                let again = if by_form {
                    caller.fill_in(&page, "why=again").await.location().to_owned()
                } else {
                    let job = caller.send("PUT", &path, r#"{"why": "again"}"#).await.json();
                    assert_eq!(job["set_aside"], json!(null));
                    format!("/jobs/{id}")
                };
                assert_eq!(again, format!("/jobs/{id}"));
                assert_eq!(site.instance.record(id).await.row.version, record.row.version);
            }
        }
    }
}

#[tokio::test]
async fn nothing_goes_on_without_a_reason() {
    let (site, id) = restored().await;
    let browser = site.browser(site.instance.owner).await;
    let answer = browser.fill_in(&format!("/jobs/{id}/resumption"), "why=+").await;
    assert_eq!(answer.location(), format!("/jobs/{id}?said=reason_missing"));
    let program = site.program(site.instance.owner).await;
    for body in ["{}", r#"{"why": " "}"#, r#"{"why": "a", "sure": true}"#] {
        program.send("PUT", &format!("/api/v1/jobs/{id}/resumption"), body).await.problem(400);
    }
    assert!(site.instance.record(id).await.row.set_aside_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_waits_for_the_decision() {
    let original = Instance::new().await;
    original.two_documents();
    let spec = Spec { hold: Hold::Approval, ..original.spec(ONE) };
    let (id, _) = original.store.create_job(original.owner, RequestKey::new(), &spec).await.unwrap();
    let worker = Running::start(original.dependencies());
    original.wait(id, "the hold", |record| record.job.is_held()).await;
    worker.stop().await;
    let copy = original.restored().await;
    let dependencies = copy.dependencies();
    let site = Site::of(copy, dependencies).await;

    let (program, browser) = (site.program(site.instance.owner).await, site.browser(site.instance.owner).await);
    let page = browser.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("Go on") && !page.contains("Send now"), "{page}");
    program.put(&format!("/api/v1/jobs/{id}/approval")).await.problem(409);
    let answer = browser.fill_in(&format!("/jobs/{id}/approval"), "").await;
    assert_eq!(answer.location(), format!("/jobs/{id}?said=moved_on"));
    assert!(site.instance.record(id).await.job.is_held());

    program.send("PUT", &format!("/api/v1/jobs/{id}/resumption"), r#"{"why": "Anna has nothing"}"#).await;
    let page = browser.get(&format!("/jobs/{id}")).await.text;
    assert!(page.contains("Send now"), "{page}");
    assert_eq!(browser.fill_in(&format!("/jobs/{id}/approval"), "").await.location(), format!("/jobs/{id}"));
    assert!(!site.instance.record(id).await.job.is_held());
}
