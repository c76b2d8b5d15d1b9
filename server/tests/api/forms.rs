//! The forms as browsers send them without a script: ordering, drafts, uploads, cancelling.

use contract::{Phase, StepKind, headline};
use domain::{
    id::{JobId, RequestKey},
    people::Role,
};
use http::header::{CONTENT_TYPE, ORIGIN};

use crate::support::{
    site::{Form, Site},
    worker::Running,
};

/// The form for June as ada fills it in.
fn form(key: RequestKey) -> Form {
    Form::default()
        .field("request_key", &key.to_string())
        .field("title", "Minutes")
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .field("source", "minutes")
        .field("recipients", "anna@example.org")
        .field("instructions", "")
}

fn job_of(location: &str) -> JobId {
    location.strip_prefix("/jobs/").unwrap_or_else(|| panic!("{location} is no job")).parse().expect("an id")
}

#[tokio::test]
async fn generate_makes_a_job_and_leads_to_it() {
    let site = Site::new().await;
    site.instance.two_documents();
    let ada = site.browser(site.instance.owner).await;
    let key = RequestKey::new();
    let sent = form(key).field("action", "generate");
    let answer = ada.submit("/jobs", &sent).await;
    let id = job_of(answer.location());
    // A double click, a reload, a way back: the same request.
    assert_eq!(job_of(ada.submit("/jobs", &sent).await.location()), id);
    // Changed after a way back it is another order, and sending that twice makes one job as well.
    let changed = form(key).field("month", "2026-05").field("action", "generate");
    let other = job_of(ada.submit("/jobs", &changed).await.location());
    assert_ne!(other, id);
    assert_eq!(job_of(ada.submit("/jobs", &changed).await.location()), other);

    let page = ada.get(&format!("/jobs/{id}")).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Waiting to start") && page.text.contains("Minutes, June 2026"), "{}", page.text);
    let spec = site.instance.record(id).await.row.spec;
    assert_eq!((spec.recipients, spec.instructions), (vec!["anna@example.org".to_owned()], None));
}

#[tokio::test]
async fn dropped_files_become_the_documents_of_the_job() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let key = RequestKey::new();
    let sent = Form::default()
        .field("request_key", &key.to_string())
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .file("C:\\papers\\2026-06-03-a.md", b"# A\n\nThe council approved 140,000 dollars for the library of the town.\n")
        .file("undated.md", b"# B\n\nThe library stays open until ten.\n")
        .field("recipients", "anna@example.org")
        .field("action", "generate");
    let id = job_of(ada.submit("/jobs", &sent).await.location());
    let worker = Running::start(site.instance.dependencies());
    let record = site.instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(record.job.phase, Phase::Finished, "{:?}", record.job.failure);
    let coverage = site.instance.store.coverage(id).await.unwrap();
    let lines: Vec<_> = coverage.iter().map(|d| (d.number, d.name.as_str(), d.coverage.outcome.label())).collect();
    assert_eq!(lines, [(Some(1), "2026-06-03-a.md", "Read"), (None, "undated.md", "Undated")]);
}

#[tokio::test]
async fn a_file_is_dated_by_hand_and_taken_out_again() {
    let site = Site::new().await;
    let (owner, store) = (site.instance.owner, &site.instance.store);
    let ada = site.browser(owner).await;
    let key = RequestKey::new();
    let upload = form(key).file("undated.md", b"# B\n").field("action", "check");
    let draft = format!("/?draft={key}");
    assert_eq!(ada.submit("/jobs", &upload).await.location(), draft);
    let id = store.uploads(owner, key).await.unwrap()[0].id;

    let dated = form(key).field(&format!("by_hand_{id}"), "2026-06").field("action", "check");
    assert_eq!(ada.submit("/jobs", &dated).await.location(), draft);
    assert_eq!(store.uploads(owner, key).await.unwrap()[0].by_hand.as_deref(), Some("2026-06"));
    assert!(ada.get(&draft).await.text.contains("1 document found."));

    let wrong = form(key).field(&format!("by_hand_{id}"), "June").field("action", "check");
    assert_eq!(ada.submit("/jobs", &wrong).await.location(), draft);
    assert!(ada.get(&draft).await.text.contains("Write the month as YYYY-MM"));

    // Nobody else can touch it.
    let eve = site.instance.person("eve@example.org", Role::User).await;
    let remove = form(key).field("remove", &id.to_string());
    site.browser(eve).await.submit("/jobs", &remove).await.location();
    assert_eq!(store.uploads(owner, key).await.unwrap().len(), 1);
    assert_eq!(ada.submit("/jobs", &remove).await.location(), draft);
    assert!(store.uploads(owner, key).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_mistake_keeps_what_was_typed() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let key = RequestKey::new();
    let sent = Form::default()
        .field("request_key", &key.to_string())
        .field("title", "A title to keep")
        .field("month", "2026-13")
        .field("zone", "Mars/Olympus")
        .field("source", "minutes")
        .field("recipients", "anna@example.org, bert")
        .field("instructions", "Look for money.")
        .field("action", "generate");
    assert_eq!(ada.submit("/jobs", &sent).await.location(), format!("/?draft={key}"));
    let page = ada.get(&format!("/?draft={key}")).await.text;
    for kept in ["A title to keep", "2026-13", "Mars/Olympus", "anna@example.org, bert", "Look for money."] {
        assert!(page.contains(kept), "{kept} is lost");
    }
    assert!(page.contains("months go from 01 to 12"), "{page}");
    let jobs = site.instance.store.jobs(None, None, None, 10).await.unwrap();
    assert!(jobs.is_empty());
    // Somebody else's draft is not theirs to see.
    let eve = site.instance.person("eve@example.org", Role::User).await;
    assert!(!site.browser(eve).await.get(&format!("/?draft={key}")).await.text.contains("A title to keep"));
}

#[tokio::test]
async fn the_recipients_that_were_typed_are_ordered_at_the_first_press() {
    let site = Site::new().await;
    site.instance.two_documents();
    let ada = site.browser(site.instance.owner).await;
    // The page that the form is on says "ada@example.org"; nobody has pressed "Check" since.
    let sent = Form::default()
        .field("request_key", &RequestKey::new().to_string())
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .field("source", "minutes")
        .field("recipients", "Anna@EXAMPLE.org, bert@example.org")
        .field("action", "generate");
    let id = job_of(ada.submit("/jobs", &sent).await.location());
    assert_eq!(site.instance.record(id).await.row.spec.recipients, ["Anna@example.org", "bert@example.org"]);
}

#[tokio::test]
async fn a_form_that_comes_back_says_why() {
    let site = Site::new().await;
    site.instance.two_documents();
    let ada = site.browser(site.instance.owner).await;
    for (recipients, action, said) in [
        ("", "generate", "Nothing has been started."),
        ("bert", "generate", "is not an e-mail address."),
        ("anna@example.org", "check", "Checked. Nothing has been started yet."),
    ] {
        let sent = Form::default()
            .field("request_key", &RequestKey::new().to_string())
            .field("month", "2026-06")
            .field("zone", "Europe/Berlin")
            .field("source", "minutes")
            .field("recipients", recipients)
            .field("action", action);
        let draft = ada.submit("/jobs", &sent).await.location().to_owned();
        let page = ada.get(&draft).await.text;
        assert!(page.contains(said), "{action} with \"{recipients}\" says nothing");
    }
}

#[tokio::test]
async fn a_file_over_the_limit_costs_nothing_else() {
    let site = Site::new().await;
    let owner = site.instance.owner;
    let ada = site.browser(owner).await;
    let key = RequestKey::new();
    let sent = form(key)
        .file("2026-06-01-huge.txt", &vec![b'x'; 1_200_000])
        .file("2026-06-02-small.txt", b"Small enough.")
        .file("2026-06-03-empty.txt", b"")
        .field("action", "generate");
    assert_eq!(ada.submit("/jobs", &sent).await.location(), format!("/?draft={key}"));
    let page = ada.get(&format!("/?draft={key}")).await.text;
    assert!(page.contains("has 2 MB; a file may have at most 1 MB. It was not added."), "{page}");
    assert!(page.contains("is empty. It was not added."), "{page}");
    assert!(page.contains("2026-06-02-small.txt") && page.contains("value=\"Minutes\""), "{page}");
    let names: Vec<_> = site.instance.store.uploads(owner, key).await.unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["2026-06-02-small.txt"]);

    // Together they may have two.
    let more =
        form(key).file("a.txt", &vec![b'a'; 990_000]).file("b.txt", &vec![b'b'; 999_000]).file("c.txt", &vec![b'c'; 90_000]);
    ada.submit("/jobs", &more.field("action", "check")).await.location();
    let page = ada.get(&format!("/?draft={key}")).await.text;
    assert!(page.contains("the files of one report may have 2 MB together"), "{page}");
}

#[tokio::test]
async fn a_job_keeps_the_files_that_it_was_made_with() {
    let site = Site::new().await;
    let owner = site.instance.owner;
    let ada = site.browser(owner).await;
    let key = RequestKey::new();
    let sent = form(key).file("2026-06-01-a.txt", b"A.").field("action", "generate");
    let id = job_of(ada.submit("/jobs", &sent).await.location());
    let file = site.instance.store.uploads(owner, key).await.unwrap()[0].id;
    let hand = format!("by_hand_{file}");
    for late in [
        form(key).file("2026-06-02-b.txt", b"B.").field("action", "generate"),
        form(key).field("remove", &file.to_string()),
        form(key).field(&hand, "2020-01").field("action", "check"),
    ] {
        ada.submit("/jobs", &late).await.location();
        let files = site.instance.store.uploads(owner, key).await.unwrap();
        let kept: Vec<_> = files.iter().map(|file| (file.name.as_str(), file.by_hand.as_deref())).collect();
        assert_eq!(kept, [("2026-06-01-a.txt", None)], "job {id}");
    }
}

#[tokio::test]
async fn a_cancelled_job_that_is_started_again_is_another_job() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let old = job_of(ada.submit("/jobs", &form(RequestKey::new()).field("action", "generate")).await.location());
    let (_, cancelled) = site.instance.store.cancel_job(old, "ada@example.org").await.unwrap().unwrap();
    assert_eq!(cancelled.job.phase, Phase::Cancelled);
    let page = ada.get(&format!("/jobs/{old}")).await.text;
    assert!(page.contains(&format!("href=\"/?from={old}\"")), "{page}");

    // The form that this leads to has a key of its own.
    let page = ada.get(&format!("/?from={old}")).await.text;
    let (_, rest) = page.split_once("name=\"request_key\"").expect("a key");
    let key = rest.split_once("value=\"").and_then(|(_, value)| value.split_once('"')).expect("its value").0;
    let new = job_of(ada.submit("/jobs", &form(key.parse().unwrap()).field("action", "generate")).await.location());
    assert_ne!(new, old);
    assert_eq!(site.instance.claim("worker-1").await.expect("the new one waits").id, new);
    assert!(site.instance.claim("worker-2").await.is_none());
    let record = site.instance.record(old).await;
    assert_eq!((record.row.version, record.job), (cancelled.row.version, cancelled.job));
}

#[tokio::test]
async fn forms_that_are_none_are_refused() {
    let site = Site::new().await;
    let ada = site.browser(site.instance.owner).await;
    let no_key = Form::default().field("month", "2026-06").field("action", "generate");
    ada.submit("/jobs", &no_key).await.page(400, "That could not be read");
    let file_first = Form::default().file("a.md", b"A.").field("request_key", &RequestKey::new().to_string());
    ada.submit("/jobs", &file_first).await.page(400, "That could not be read");
    let bad_key = Form::default().field("request_key", "7");
    ada.submit("/jobs", &bad_key).await.page(400, "That could not be read");
    let endless = form(RequestKey::new()).field("title", &"x".repeat(70_000));
    ada.submit("/jobs", &endless).await.page(400, "That could not be read");
    let plain = ada.request("POST", "/jobs").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    assert_eq!(site.send(plain.body("month=2026-06".into()).unwrap()).await.status, 400);

    let foreign = ada.request("POST", "/jobs").header(ORIGIN, "https://evil.example").header("sec-fetch-site", "cross-site");
    let foreign = foreign.header(CONTENT_TYPE, "multipart/form-data; boundary=x");
    site.send(foreign.body("".into()).unwrap()).await.problem(403);
}

#[tokio::test]
async fn the_cancel_button_needs_no_script() {
    let site = Site::new().await;
    let claim = site.instance.job_at(StepKind::Email, &["anna@example.org"]).await;
    let page = format!("/jobs/{}", claim.id);
    let cancel = format!("{page}/cancellation");
    let ada = site.browser(site.instance.owner).await;
    let before = ada.get(&page).await.text;
    assert!(before.contains(&format!("action=\"{cancel}\"")), "{before}");
    assert!(before.contains("If you cancel now, the report stays saved; no email goes out."), "{before}");
    assert!(before.contains("http-equiv=\"refresh\""), "without a script the page reloads itself");

    let eve = site.instance.person("eve@example.org", Role::User).await;
    site.browser(eve).await.submit(&cancel, &Form::default()).await.page(404, "Nothing here");
    assert_eq!(site.instance.record(claim.id).await.job.phase, Phase::Running);

    for said in ["", "?said=cancelled_before"] {
        assert_eq!(ada.submit(&cancel, &Form::default()).await.location(), format!("{page}{said}"));
    }
    assert!(ada.get(&page).await.text.contains("Stopping…"));
    site.instance.change(claim.id, |job| job.account(1)).await.unwrap();
    assert_eq!(ada.submit(&cancel, &Form::default()).await.location(), format!("{page}?said=cancelled_before"));
    let after = ada.get(&page).await.text;
    assert!(after.contains(&headline(&site.instance.record(claim.id).await.job)), "{after}");
    assert!(!after.contains("http-equiv=\"refresh\""), "nothing changes any more");
}

#[tokio::test]
async fn the_form_says_what_becomes_of_messages() {
    let says = "Messages are written to a folder on the server; no e-mail is sent.";
    let site = Site::new().await;
    assert!(site.browser(site.instance.owner).await.get("/").await.text.contains(says));
    let dependencies = site.instance.dependencies_with_smtp(9);
    let site = Site::of(site.instance, dependencies).await;
    let page = site.browser(site.instance.owner).await.get("/").await.text;
    assert!(page.contains("Sent through: SMTP") && !page.contains(says), "{page}");
}
