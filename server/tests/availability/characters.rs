//! U+0000, which PostgreSQL's text cannot hold, at every place where text comes from outside.

use contract::{Outcome, Phase, StepKind, Verdict};
use domain::{id::ReportId, people::Role};
use serde_json::json;
use summarize::SummarizerChoice;

use crate::support::{
    site::{Form, Site},
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const NUL: &str = "a\u{0}b";

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_for_a_character() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let admin = site.browser(site.instance.person("root@example.org", Role::Admin).await).await;
    let program = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    for (path, form) in [
        ("/account/tokens".to_owned(), "name=a%00b"),
        ("/account/assistant".to_owned(), "id=6f9619ff-8b86-4011-b42d-00c04fc964ff&name=a%00b&may=look"),
        ("/account/assistant".to_owned(), "id=%00&name=%00&may=look"),
        ("/account/zone".to_owned(), "zone=a%00b"),
        ("/sign-in".to_owned(), "email=a%00b%40example.org&password=a%00b&next=%00"),
        ("/setup".to_owned(), "code=%00&email=a%00b&password=%00"),
        (format!("/jobs/{id}/withdrawal"), "why=a%00b"),
        (format!("/jobs/{id}/accounting"), "why=a%00b"),
        (format!("/jobs/{id}/corrections"), "key=a%00b&text=a%00b"),
        (format!("/admin/effects/{id}/2/decision"), "outcome=accepted&seen=a%00b"),
    ] {
        for browser in [&ada, &admin] {
            let answer = browser.fill_in(&path, form).await;
            assert!(!answer.status.is_server_error(), "{path}: {answer:?}");
        }
    }
    for path in
        ["/jobs?state=%00&before=%00", "/?draft=%00&month=%00", "/admin/effects?person=%00&recipient=a%00b%40c.org&before=%00"]
    {
        assert!(!admin.get(path).await.status.is_server_error(), "{path}");
    }
    let form = Form::default()
        .field("request_key", "6f9619ff-8b86-4011-b42d-00c04fc964ff")
        .field("title", NUL)
        .field("zone", NUL)
        .field("source", NUL)
        .field("recipients", NUL)
        .field("instructions", NUL)
        .field("action", "generate")
        .file("a.md", b"# A\0B");
    let draft = ada.submit("/jobs", &form).await;
    assert!(ada.get(draft.location()).await.status.is_success());
    let order = json!({"month": "2026-06", "sources": [NUL], "recipients": [NUL], "title": NUL, "instructions": NUL});
    program.order("wrong", &order).await.problem(400);
    let order = json!({"month": "2026-06", "sources": ["Minutes"], "recipients": ONE, "instructions": NUL});
    let made = program.order("right", &order).await;
    assert_eq!(made.status, 201, "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_documents_and_servers_say_is_stored_without_it() {
    let site = Site::new().await;
    let instance = &site.instance;
    let text = format!("# Mee\0ting\n\n{}", "The council approved 140,000 dollars for the library. ".repeat(50));
    instance.document("2026-06-03-meeting.md", text);
    let id = instance.job(ONE).await;
    let worker =
        Running::start(server::worker::Dependencies { summarizer: SummarizerChoice::BuiltIn, ..instance.dependencies() });
    assert_eq!(instance.wait_for_end(id).await.job.phase, Phase::Finished);
    worker.stop().await;

    let claim = instance.job_at(StepKind::Save, ONE).await;
    let mut change = instance.store.change_job(claim.id).await.unwrap().unwrap();
    change.insert_report(ReportId::new(), NUL, NUL, NUL, &json!({"a": NUL})).await.unwrap();
    change.job.complete_step(claim.epoch, StepKind::Save).unwrap();
    change.commit().await.unwrap();
    assert_eq!(instance.store.report_of_job(claim.id).await.unwrap().unwrap().markdown, "a\u{fffd}b");
    let number = instance.emails(claim.id).await[0];
    instance.change(claim.id, |job| job.begin_effect(claim.epoch, number)).await.unwrap();
    instance.change(claim.id, |job| job.doubt(claim.epoch, number)).await.unwrap();
    instance.change(claim.id, |job| job.settle(claim.epoch, number, Verdict::Done(NUL.into()))).await.unwrap();
    let record = instance.record(claim.id).await;
    let email = record.job.effect(number).unwrap();
    assert_eq!((email.outcome, email.evidence.as_deref()), (Outcome::Done, Some("a\u{fffd}b")));
    instance.change(claim.id, |job| job.fail(claim.epoch, NUL)).await.unwrap();
}
