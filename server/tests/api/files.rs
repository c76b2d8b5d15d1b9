//! The form where uploaded files are in a file store that cannot be reached or has lost them: it says so, and keeps the rest.

use domain::id::{JobId, RequestKey};

use crate::support::{
    instance::Instance,
    s3_server::{Mood, S3},
    site::{Form, Site},
};

const DOWN: Mood = Mood::Say(403, "AccessDenied");

async fn site() -> (Site, S3) {
    let mut instance = Instance::new().await;
    let s3 = S3::start(instance.store.clock().now()).await;
    instance.store = instance.store.clone().with_files(s3.files());
    let dependencies = instance.dependencies();
    (Site::of(instance, dependencies).await, s3)
}

fn form(key: RequestKey) -> Form {
    Form::default()
        .field("request_key", &key.to_string())
        .field("title", "What I have typed")
        .field("month", "2026-06")
        .field("zone", "Europe/Berlin")
        .field("recipients", "anna@example.org")
}

fn job_of(location: &str) -> JobId {
    location.strip_prefix("/jobs/").unwrap_or_else(|| panic!("{location} is no job")).parse().expect("an id")
}

#[tokio::test]
async fn an_outage_during_an_upload_costs_nothing_that_was_typed() {
    let (site, s3) = site().await;
    let owner = site.instance.owner;
    let ada = site.browser(owner).await;
    let key = RequestKey::new();
    let sent = form(key).file("2026-06-03-a.txt", b"A.").field("action", "generate");
    s3.set(DOWN);
    assert_eq!(ada.submit("/jobs", &sent).await.location(), format!("/?draft={key}"));
    let page = ada.get(&format!("/?draft={key}")).await.text;
    assert!(
        page.contains("was not added: the file store cannot be reached at the moment. Add it again in a few minutes."),
        "{page}"
    );
    assert!(page.contains("What I have typed"), "{page}");
    assert!(site.instance.store.uploads(owner, key).await.unwrap().is_empty());

    s3.set(Mood::Serve);
    job_of(ada.submit("/jobs", &sent).await.location());
    assert_eq!(site.instance.store.uploads(owner, key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_form_opens_during_an_outage_and_says_what_it_cannot_tell() {
    let (site, s3) = site().await;
    let ada = site.browser(site.instance.owner).await;
    let key = RequestKey::new();
    let sent = form(key).file("2026-06-03-a.txt", b"A.").file("2026-06-04-b.txt", b"B.").field("action", "check");
    ada.submit("/jobs", &sent).await.location();
    s3.set(DOWN);
    let asked = s3.requests().len();
    let page = ada.get(&format!("/?draft={key}")).await;
    assert_eq!(page.status, 200);
    let said = "Cannot be read: the file store cannot be reached at the moment";
    assert_eq!(page.text.matches(said).count(), 2, "{}", page.text);
    assert!(page.text.contains("2026-06-03-a.txt"), "{}", page.text);
    assert_eq!(s3.requests().len() - asked, 1, "one file is enough to know");

    s3.set(Mood::Serve);
    let page = ada.get(&format!("/?draft={key}")).await.text;
    assert!(page.contains("2 documents found.") && !page.contains(said), "{page}");
    // What was read once is known.
    s3.set(DOWN);
    let asked = s3.requests().len();
    assert!(ada.get(&format!("/?draft={key}")).await.text.contains("2 documents found."));
    assert_eq!(s3.requests().len(), asked);
}

#[tokio::test]
async fn a_file_that_is_lost_is_not_silently_left_out_of_the_next_report() {
    let (site, s3) = site().await;
    let owner = site.instance.owner;
    let ada = site.browser(owner).await;
    let sent =
        form(RequestKey::new()).file("2026-06-03-a.txt", b"A.").file("2026-06-04-b.txt", b"B.").field("action", "generate");
    let old = job_of(ada.submit("/jobs", &sent).await.location());
    s3.remove(&s3.objects().into_keys().next().unwrap());

    let key = RequestKey::new();
    let again = form(key).field("from", &old.to_string()).field("action", "generate");
    assert_eq!(ada.submit("/jobs", &again).await.location(), format!("/?draft={key}"));
    let page = ada.get(&format!("/?draft={key}")).await.text;
    assert!(page.contains("was not taken over: it is no longer in the file store. Add it again."), "{page}");
    assert_eq!(site.instance.store.uploads(owner, key).await.unwrap().len(), 1);
    // Having seen it, they may go on without it.
    job_of(ada.submit("/jobs", &form(key).field("action", "generate")).await.location());
}

#[tokio::test]
async fn a_changed_form_whose_files_are_out_of_reach_is_shown_again() {
    let (site, s3) = site().await;
    let ada = site.browser(site.instance.owner).await;
    let key = RequestKey::new();
    let sent = form(key).file("2026-06-03-a.txt", b"A.").file("2026-06-04-b.txt", b"B.").field("action", "generate");
    job_of(ada.submit("/jobs", &sent).await.location());
    s3.set(DOWN);
    // The way back, and another month.
    let next = server::service::next_key(key);
    let changed = form(key).field("month", "2026-05").field("action", "generate");
    assert_eq!(ada.submit("/jobs", &changed).await.location(), format!("/?draft={next}"));
    let page = ada.get(&format!("/?draft={next}")).await.text;
    for name in ["2026-06-03-a.txt", "2026-06-04-b.txt"] {
        let said = format!("\"{name}\" was not taken over: the file store cannot be reached at the moment. Add it again.");
        assert!(page.replace("&quot;", "\"").contains(&said), "{page}");
    }
    assert_eq!(s3.requests().iter().filter(|request| request.starts_with("GET")).count(), 1, "one file is enough to know");
}
