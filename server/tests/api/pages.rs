//! The pages: who may see them, and that nothing in a document becomes part of them.

use contract::Phase;
use domain::{
    id::{JobId, ReportId, RequestKey},
    people::Role,
};
use http::header::LOCATION;
use server::worker::Dependencies;

use crate::support::{
    instance::Instance,
    model_server::{ModelServer, Reaction::Answer},
    site::{Form, Site},
    worker::Running,
};

#[tokio::test]
async fn strangers_are_led_to_the_sign_in_page_and_back() {
    let site = Site::new().await;
    for (path, next) in [
        ("/".to_owned(), String::new()),
        ("/jobs".to_owned(), "?next=/jobs".to_owned()),
        (format!("/jobs/{}", JobId(uuid::Uuid::nil())), format!("?next=/jobs/{}", uuid::Uuid::nil())),
        (format!("/reports/{}", ReportId(uuid::Uuid::nil())), format!("?next=/reports/{}", uuid::Uuid::nil())),
        ("/admin/effects".to_owned(), "?next=/admin/effects".to_owned()),
        ("/account".to_owned(), "?next=/account".to_owned()),
    ] {
        let answer = site.stranger().get(&path).await;
        assert!(answer.status.is_redirection(), "{path}: {answer:?}");
        assert_eq!(answer.headers[LOCATION], format!("/sign-in{next}"), "{path}");
    }
    let sign_in = site.stranger().get("/sign-in").await;
    assert_eq!(sign_in.status, 200);
    assert!(sign_in.text.contains("name=\"password\""), "{}", sign_in.text);
    let submitted = site.stranger().submit("/jobs", &Form::default()).await;
    assert_eq!(submitted.location(), "/sign-in");
    site.stranger().put(&format!("/api/v1/jobs/{}/cancellation", JobId::new())).await.problem(401);
}

#[tokio::test]
async fn every_page_has_its_status() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let admin = site.browser(admin).await;
    for path in ["/", "/jobs", "/account"] {
        assert_eq!(ada.get(path).await.status, 200, "{path}");
    }
    assert_eq!(ada.get("/admin/effects").await.status, 403);
    assert_eq!(admin.get("/admin/effects").await.status, 200);
    let job = JobId::new();
    for path in [format!("/jobs/{job}"), "/jobs/nonsense".into(), format!("/reports/{job}"), "/no-such-page".into()] {
        assert_eq!(ada.get(&path).await.status, 404, "{path}");
    }
    assert_eq!(site.stranger().get("/healthz").await.status, 204);
    assert_eq!(site.stranger().get("/readyz").await.status, 200);
}

#[tokio::test]
async fn the_form_opens_on_the_month_that_has_just_ended() {
    let site = Site::new().await;
    site.instance.two_documents();
    let ada = site.browser(site.instance.owner).await;
    let page = ada.get("/").await.text;
    assert!(page.contains("Generate report") && page.contains("2 documents found."), "{page}");
    assert!(page.contains("2 in June") && page.contains("1 to 30 June 2026, Europe/Berlin"), "{page}");
    let under_way = ada.get("/?month=2026-07").await.text;
    assert!(under_way.contains("July 2026 is not over yet. The report will hold what there is so far."), "{under_way}");
    let future = ada.get("/?month=2026-08").await.text;
    assert!(future.contains("August 2026 has not begun yet."), "{future}");
    assert!(future.contains("No documents for August 2026 in the chosen folders and files. The job would fail."), "{future}");
}

#[tokio::test]
async fn a_job_can_be_started_again_with_its_files_for_another_month() {
    let site = Site::new().await;
    let owner = site.instance.owner;
    let ada = site.browser(owner).await;
    let sent = Form::default()
        .field("request_key", &RequestKey::new().to_string())
        .field("title", "A title to keep")
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .file("2026-05-01-a.txt", b"A.")
        .field("recipients", "anna@example.org")
        .field("action", "generate");
    let job = ada.submit("/jobs", &sent).await.location().strip_prefix("/jobs/").unwrap().to_owned();
    let page = ada.get(&format!("/?from={job}&month=2026-05")).await.text;
    for kept in ["A title to keep", "2026-05-01-a.txt", "anna@example.org", "1 to 31 May 2026"] {
        assert!(page.contains(kept), "{kept} is lost");
    }
    let eve = site.instance.person("eve@example.org", Role::User).await;
    assert_eq!(site.browser(eve).await.get(&format!("/?from={job}")).await.status, 404);
}

#[tokio::test]
async fn a_reload_repeats_nothing() {
    let site = Site::new().await;
    let instance = &site.instance;
    instance.two_documents();
    let ended = instance.job(&["anna@example.org"]).await;
    let worker = Running::start(instance.dependencies());
    instance.wait_for_end(ended).await;
    worker.stop().await;
    let waiting = instance.job(&["anna@example.org"]).await;
    let report = instance.record(ended).await.row.report_id.unwrap();
    let seen = async || {
        let mut seen = Vec::new();
        for record in instance.store.jobs(None, None, None, 10).await.unwrap() {
            seen.push((record.row.id, record.row.version, instance.history(record.row.id).await));
        }
        (seen, instance.messages())
    };
    let before = seen().await;
    let ada = site.browser(instance.owner).await;
    for path in [
        "/".to_owned(),
        "/jobs".to_owned(),
        format!("/?from={ended}"),
        format!("/jobs/{ended}"),
        format!("/jobs/{waiting}"),
        format!("/reports/{report}"),
        format!("/reports/{report}/report.md"),
        format!("/api/v1/jobs/{ended}"),
        format!("/api/v1/reports/{report}"),
    ] {
        for _ in 0..3 {
            assert_eq!(ada.get(&path).await.status, 200, "{path}");
        }
    }
    assert_eq!(seen().await, before);
}

const EVIL: &str = "<script>alert('evil')</script><img src=x onerror=alert('evil')>";

/// What must stand on no page: the evil text as markup. Quoted, it may stand anywhere.
fn assert_harmless(text: &str, place: &str) {
    let lower = text.to_lowercase();
    for markup in ["<script>alert", "<img src=x", "<img src=\"x\"", "<iframe", "href=\"javascript:"] {
        assert!(!lower.contains(markup), "{markup} on {place}: {text}");
    }
}

/// Makes a report of documents that are full of markup, and looks at everything that shows it.
async fn look_at_everything(dependencies: impl FnOnce(&Instance) -> Dependencies) {
    let instance = Instance::new().await;
    let name = "2026-06-02 <img src=x onerror=alert('evil')>.md";
    let text = format!(
        "# Meeting {EVIL}\n\nThe council approved 140,000 dollars. {EVIL}\n\n[The library](javascript:alert('evil')) stays open until \
         ten in the evening. <iframe src=https://evil.example></iframe>\n"
    );
    instance.document(name, &text);
    instance.document("2026-06-04-page.html", format!("<title>{EVIL}</title><p>The budget grew by 12 percent. {EVIL}</p>"));
    let dependencies = dependencies(&instance);
    let site = Site::of(instance, dependencies.clone()).await;
    let instance = &site.instance;
    let ada = site.browser(instance.owner).await;
    let key = RequestKey::new();
    let sent = Form::default()
        .field("request_key", &key.to_string())
        .field("title", EVIL)
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .field("source", "minutes")
        .file(name, text.as_bytes())
        .field("recipients", "anna@example.org")
        .field("instructions", EVIL);
    let draft = ada.submit("/jobs", &sent.clone().field("action", "check")).await.location().to_owned();
    assert_harmless(&ada.get(&draft).await.text, &draft);

    let job = ada.submit("/jobs", &sent.field("action", "generate")).await.location().to_owned();
    let id = job.strip_prefix("/jobs/").unwrap().parse().unwrap();
    let worker = Running::start(dependencies);
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(record.job.phase, Phase::Finished, "{:?}", record.job.failure);
    let report = format!("/reports/{}", record.row.report_id.unwrap());
    let again = format!("/?from={id}");
    for path in [&job, &report, &format!("{report}/documents/1"), &again, "/", "/jobs", &format!("{report}/documents/2")] {
        let page = ada.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_harmless(&page.text, path);
    }
    let html = ada.get(&format!("/api/v1{report}")).await.json()["html"].as_str().unwrap().to_owned();
    assert!(html.contains("The library stays open") || html.contains("The council approved"), "{html}");
    assert_harmless(&html, "the saved report");
    let messages = instance.messages();
    let (_, html) = messages[0].1.split_once("Content-Type: text/html").expect("a part for people");
    assert_harmless(html, "the message");
    let admin = instance.person("admin@example.org", Role::Admin).await;
    assert_harmless(&site.browser(admin).await.get("/admin/effects").await.text, "/admin/effects");
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_documents_and_names_stays_text() {
    look_at_everything(Instance::dependencies).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_from_a_model_stays_text() {
    const ANSWER: &str = "## <script>alert('evil')</script>\n\
        - The council approved 140,000 dollars. <script>alert('evil')</script><img src=x onerror=alert('evil')> [1:1]\n\
        - [Click](javascript:alert('evil')) and ![look](https://evil.example/x.png) <iframe src=//evil.example></iframe> [1:1]\n";
    let server = ModelServer::start(vec![Answer(ANSWER, "stop")]).await;
    look_at_everything(|instance| Dependencies { summarizer: server.summarizer(), ..instance.dependencies() }).await;
}
