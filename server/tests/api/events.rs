//! The stream of events that keeps pages and programs up to date.

use std::time::Duration;

use contract::{Job, Refusal, StepKind};
use domain::{id::RequestKey, people::Role};
use tokio::time::Instant;

use crate::support::{
    ended::accepted,
    instance::refusal,
    site::{Event, Site},
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];

fn job_event(version: i64) -> Event {
    Event { name: "job".into(), id: Some(version), data: format!("{{\"version\":{version}}}") }
}

#[tokio::test]
async fn the_first_event_is_the_version_that_there_is() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let claim = site.instance.job_at(StepKind::Save, ONE).await;
    let version = site.instance.record(claim.id).await.row.version;
    assert!(version > 1);
    for path in [format!("/jobs/{}/events", claim.id), format!("/api/v1/jobs/{}/events", claim.id)] {
        assert_eq!(ada.follow(&path).await.next().await, Some(job_event(version)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_arrives_at_once_and_the_end_ends_the_stream() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let claim = site.instance.job_at(StepKind::Collect, ONE).await;
    let mut events = ada.follow(&format!("/jobs/{}/events", claim.id)).await;
    let mut seen = events.next().await.unwrap().id.unwrap();
    let mut longest = Duration::ZERO;
    for step in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        let changed = Instant::now();
        site.instance.complete(&claim, step).await.unwrap();
        assert_eq!(events.next().await, Some(job_event(seen + 1)));
        longest = longest.max(changed.elapsed());
        seen += 1;
    }
    println!("change to its event, the longest of three: {longest:?}");
    assert!(longest < Duration::from_secs(2));
    site.instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    site.instance.change(claim.id, |job| job.account(1)).await.unwrap();
    let last = site.instance.record(claim.id).await.row.version;
    // Versions that fell together are one event; none is older than the one before.
    while let Some(event) = events.next().await {
        assert!(event.id.unwrap() > seen);
        seen = event.id.unwrap();
    }
    assert_eq!(seen, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_job_can_be_followed_to_its_end() {
    let site = Site::new().await;
    site.instance.two_documents();
    let ada = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    let mut events = ada.follow(&format!("/jobs/{id}/events")).await;
    let worker = Running::start(site.instance.dependencies());
    let mut versions = Vec::new();
    while let Some(event) = events.next().await {
        versions.extend(event.id);
    }
    worker.stop().await;
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    let record = site.instance.record(id).await;
    assert!(record.job.phase.is_final());
    assert_eq!(versions.last(), Some(&record.row.version));
}

type Commit = fn(&mut Job) -> Result<(), Refusal>;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_once_on_its_stream_and_in_its_history() {
    const ENDS: [&str; 3] = ["Cancelled", "Finished", "Failed"];
    for end in ENDS {
        let site = Site::new().await;
        let instance = &site.instance;
        let ada = site.program(instance.owner).await;
        let claim = instance.job_at(StepKind::Save, ONE).await;
        let id = claim.id;
        let path = format!("/jobs/{id}/events");
        let mut events = ada.follow(&path).await;
        match end {
            "Cancelled" => {
                instance.store.cancel_job(id, "ada@example.org").await.unwrap();
                instance.change(id, |job| job.account(1)).await.unwrap();
            }
            "Failed" => instance.change(id, |job| job.fail(1, "The disk is full.")).await.unwrap(),
            _ => {
                instance.complete(&claim, StepKind::Save).await.unwrap();
                instance.hand_over(id, 1, 2).await;
                instance.change(id, |job| job.settle(1, 2, accepted())).await.unwrap();
                instance.complete(&claim, StepKind::Email).await.unwrap();
            }
        }
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            seen.extend(event.id);
        }
        let version = instance.record(id).await.row.version;
        assert!(seen.is_sorted_by(|a, b| a < b) && seen.last() == Some(&version), "{end}: {seen:?}");

        // Whoever wants to end it now comes too late.
        let again: [Commit; 3] = [|job| job.complete_step(1, StepKind::Email), |job| job.fail(1, "again"), |job| job.account(1)];
        for commit in again {
            assert_eq!(refusal(instance.change(id, commit).await), Refusal::LeaseLost, "{end}");
        }
        instance.expire().await;
        instance.store.cancel_job(id, "ada@example.org").await.unwrap();
        let history = instance.history(id).await;
        let ends: Vec<_> = history.iter().filter(|entry| ENDS.contains(&entry.as_str())).collect();
        assert_eq!(ends, [end], "{history:?}");
        let after = &history[history.iter().position(|entry| entry == end).unwrap() + 1..];
        assert!(matches!(after, [late] if late.starts_with("Cancel ")), "{end}: {after:?}");
        let mut events = ada.follow(&path).await;
        assert!(events.next().await.is_some() && events.next().await.is_none(), "{end}: nothing follows");
    }
}

#[tokio::test]
async fn a_job_that_has_ended_gives_one_event() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    site.instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    let mut events = ada.follow(&format!("/jobs/{id}/events")).await;
    assert_eq!(events.next().await, Some(job_event(2)));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_quiet_stream_gives_signs_of_life_and_ends_with_the_server() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    let mut events = ada.follow(&format!("/jobs/{id}/events")).await;
    assert_eq!(events.next().await, Some(job_event(1)));
    assert_eq!(events.next().await.unwrap().name, "alive");
    site.shutdown.cancel();
    assert_eq!(events.next().await, None);
}

/// The jobs of an event of the list, and their versions.
fn told(event: &Event) -> Vec<(String, i64)> {
    assert_eq!(event.name, "jobs");
    let jobs: Vec<serde_json::Value> = serde_json::from_str(&event.data).unwrap();
    jobs.iter().map(|job| (job["id"].as_str().unwrap().to_owned(), job["version"].as_i64().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_list_tells_of_new_jobs_and_of_their_changes() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let mut events = ada.follow("/jobs/news").await;
    assert_eq!(events.next().await.unwrap().name, "alive");
    let id = site.instance.job(ONE).await;
    assert_eq!(told(&events.next().await.unwrap()), [(id.to_string(), 1)]);
    site.instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    loop {
        let event = events.next().await.unwrap();
        // A look in between may find once more what was told already.
        if event.name == "jobs" && told(&event) == [(id.to_string(), 2)] {
            break;
        }
    }
    site.shutdown.cancel();
    while events.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_is_told_nothing_of_the_jobs_of_others_and_an_administrator_of_all() {
    let site = Site::new().await;
    let bob = site.instance.person("bob@example.org", Role::User).await;
    let admin = site.instance.person("admin@example.org", Role::Admin).await;
    let (bob_hears, admin_hears) = (site.program(bob).await, site.program(admin).await);
    let (mut to_bob, mut to_admin) = (bob_hears.follow("/jobs/news").await, admin_hears.follow("/jobs/news").await);
    assert_eq!(to_bob.next().await.unwrap().name, "alive");
    assert_eq!(to_admin.next().await.unwrap().name, "alive");
    let of_ada = site.instance.job(ONE).await;
    assert_eq!(told(&to_admin.next().await.unwrap()), [(of_ada.to_string(), 1)]);
    site.instance.store.cancel_job(of_ada, "ada@example.org").await.unwrap();
    // What bob hears next is of his own job, although ada's was first.
    let spec = site.instance.spec(ONE);
    let (of_bob, _) = site.instance.store.create_job(bob, RequestKey::new(), &spec).await.unwrap();
    loop {
        let event = to_bob.next().await.unwrap();
        if event.name == "jobs" {
            assert_eq!(told(&event), [(of_bob.to_string(), 1)]);
            break;
        }
        assert_eq!(event.name, "alive");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_finds_what_nobody_announced() {
    let site = Site::new().await;
    let ada = site.program(site.instance.owner).await;
    let id = site.instance.job(ONE).await;
    let mut events = ada.follow("/jobs/news").await;
    assert_eq!(events.next().await.unwrap().name, "alive");
    // As another process does whose word does not get here.
    site.instance.another_store().await.cancel_job(id, "ada@example.org").await.unwrap();
    loop {
        let event = events.next().await.unwrap();
        if event.name == "jobs" {
            assert_eq!(told(&event), [(id.to_string(), 2)]);
            break;
        }
    }
}
