//! Jobs whose uploaded files are in a file store: read, lost, and out of reach.

use contract::{Phase, headline};
use domain::id::{JobId, RequestKey};
use server::worker::Dependencies;
use sha2::{Digest, Sha256};
use store::NewUpload;
use tokio::time::Duration;

use crate::support::{
    instance::Instance,
    s3_server::{Mood, S3},
    worker::Running,
};

const LONG: &[Duration] = &[Duration::from_hours(1)];
const NOTE: &[u8] = b"# Note\n\nThe council approved 140,000 dollars for the library of the town.\n";

/// A job with two uploaded files, which are in the file store.
async fn ordered() -> (Instance, S3, JobId) {
    let mut instance = Instance::new().await;
    let s3 = S3::start(instance.store.clock().now()).await;
    instance.store = instance.store.clone().with_files(s3.files());
    let key = RequestKey::new();
    for name in ["2026-06-03-a.md", "2026-06-04-b.md"] {
        let upload = NewUpload { name, sha256: Sha256::digest(NOTE).into(), bytes: NOTE };
        instance.store.save_upload(instance.owner, key, &upload).await.unwrap().unwrap();
    }
    let (id, _) = instance.store.create_job(instance.owner, key, &instance.spec(&["anna@example.org"])).await.unwrap();
    (instance, s3, id)
}

/// How each document ended.
async fn coverage(instance: &Instance, id: JobId) -> Vec<(String, String)> {
    let documents = instance.store.coverage(id).await.unwrap();
    let ended = documents.into_iter().map(|document| {
        let reason = document.coverage.reason.unwrap_or_default();
        (document.name, format!("{}: {reason}", document.coverage.outcome.label()))
    });
    ended.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_file_is_listed_with_the_reason_and_the_others_are_read() {
    let (instance, s3, id) = ordered().await;
    let names: Vec<_> = s3.objects().into_keys().collect();
    s3.put(&names[0], b"something else", instance.store.clock().now());
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    assert_eq!(record.job.phase, Phase::Finished, "{:?}", record.job);
    let mut reasons: Vec<_> = coverage(&instance, id).await.into_iter().map(|(_, ended)| ended).collect();
    reasons.sort();
    assert_eq!(reasons, ["Read: ", "Unreadable: what the file store has is not what was uploaded"]);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_any_file_left_fails_and_says_why() {
    let (instance, s3, id) = ordered().await;
    for name in s3.objects().into_keys() {
        s3.remove(&name);
    }
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    assert_eq!(record.job.phase, Phase::Failed);
    let reason = record.job.failure.unwrap().reason;
    assert!(reason.ends_with("Not usable: 2 unreadable."), "{reason}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_a_file_store_and_does_not_make_half_a_report_without_it() {
    let (instance, s3, id) = ordered().await;
    s3.set(Mood::Say(403, "AccessDenied"));
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    assert_eq!(record.job.phase, Phase::Failed);
    let reason = record.job.failure.unwrap().reason;
    let said =
        "The uploaded files could not be read: the file store cannot be reached at the moment. Start the report again later.";
    assert_eq!(reason, said);
    assert!(!instance.report_exists(id).await);
    let gets = s3.requests().iter().filter(|request| request.starts_with("GET")).count();
    assert_eq!(gets, 3, "one look and two more");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_lets_go_of_a_file_store_at_once() {
    for (mood, pauses) in [(Mood::Hang, LONG), (Mood::Say(403, "AccessDenied"), LONG)] {
        let (instance, s3, id) = ordered().await;
        s3.set(mood);
        let before = s3.requests().len();
        let worker = Running::start(Dependencies { file_pauses: pauses, ..instance.dependencies() });
        if mood == Mood::Hang {
            s3.reached().await;
        } else {
            s3.request_after(before).await;
        }
        instance.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
        let record = instance.wait_for_end(id).await;
        assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
        worker.stop().await;
    }
}
