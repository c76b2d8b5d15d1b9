//! Uploads in an object store, over HTTP: what is signed, in which order things are written, and what an outage leaves.

use chrono::TimeDelta;
use domain::id::{RequestKey, UploadId};
use sha2::{Digest, Sha256};
use store::{
    NewUpload, StoreError,
    files::{FilesError, OpenError},
};

use crate::support::{
    instance::Instance,
    s3_server::{Mood, S3},
};

async fn instance() -> (Instance, S3) {
    let mut instance = Instance::new().await;
    let s3 = S3::start(instance.store.clock().now()).await;
    instance.store = instance.store.clone().with_files(s3.files());
    (instance, s3)
}

async fn save(instance: &Instance, key: RequestKey, bytes: &[u8]) -> Result<Option<UploadId>, StoreError> {
    let upload = NewUpload { name: "geheim.md", sha256: Sha256::digest(bytes).into(), bytes };
    instance.store.save_upload(instance.owner, key, &upload).await
}

fn unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>, says: &str) {
    match result {
        Err(StoreError::Files(error @ FilesError::Unavailable { .. })) => {
            assert!(error.may_pass() && error.to_string().contains(says), "{error}");
            assert!(error.to_string().contains("s3://bucket/office"), "{error} names no place");
        }
        other => panic!("it should be unavailable, but: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_is_stored_read_and_deleted_by_signed_requests() {
    let (instance, s3) = instance().await;
    let key = RequestKey::new();
    // The fake refuses what is not signed for this body.
    let id = save(&instance, key, b"over the wire").await.unwrap().unwrap();
    let objects = s3.objects();
    let (name, object) = objects.first_key_value().unwrap();
    assert_eq!((objects.len(), object.bytes.as_ref()), (1, b"over the wire".as_slice()));
    let unguessable = name.strip_prefix("office/uploads/").unwrap();
    assert!(unguessable.len() == 32 && !name.contains("geheim"), "{name}");
    assert_eq!(instance.store.upload_bytes(id).await.unwrap().unwrap(), b"over the wire");
    instance.store.delete_upload(instance.owner, key, id).await.unwrap();
    assert!(s3.objects().is_empty());
    assert_eq!(s3.requests(), [format!("PUT /bucket/{name}"), format!("GET /bucket/{name}"), "POST /bucket".into()]);
}

#[tokio::test]
async fn a_row_is_there_only_after_its_object() {
    let (instance, s3) = instance().await;
    let key = RequestKey::new();
    s3.set(Mood::HoldUploads);
    let watching = async {
        s3.reached().await;
        assert!(instance.store.uploads(instance.owner, key).await.unwrap().is_empty());
        // Nobody waits for the file store with the database's write lock.
        instance.store.save_draft(instance.owner, key, "{}").await.unwrap();
        s3.release();
    };
    let (saved, ()) = tokio::join!(save(&instance, key, b"slow"), watching);
    assert_eq!(instance.store.uploads(instance.owner, key).await.unwrap()[0].id, saved.unwrap().unwrap());
}

#[tokio::test]
async fn a_form_that_becomes_a_job_during_an_upload_does_not_get_the_file() {
    let (instance, s3) = instance().await;
    let key = RequestKey::new();
    s3.set(Mood::HoldUploads);
    let ordering = async {
        s3.reached().await;
        instance.store.create_job(instance.owner, key, &instance.spec(&["anna@example.org"])).await.unwrap();
        s3.release();
    };
    let (saved, ()) = tokio::join!(save(&instance, key, b"too late"), ordering);
    assert_eq!(saved.unwrap(), None);
    assert!(s3.objects().is_empty(), "and nothing is left of it");
}

#[tokio::test]
async fn an_upload_that_is_broken_off_leaves_no_row_and_the_cleaner_takes_the_rest() {
    let (instance, s3) = instance().await;
    let key = RequestKey::new();
    s3.set(Mood::HoldUploads);
    tokio::select! {
        saved = save(&instance, key, b"broken off") => panic!("{saved:?}"),
        () = s3.reached() => {}
    }
    s3.set(Mood::Serve);
    assert!(instance.store.uploads(instance.owner, key).await.unwrap().is_empty());
    let id = save(&instance, key, b"whole").await.unwrap().unwrap();
    let now = instance.store.clock().now();
    s3.put("office/uploads/0123456789abcdef0123456789abcdef", b"broken off", now - TimeDelta::hours(25));
    s3.put("office/uploads/1123456789abcdef0123456789abcdef", b"under way", now - TimeDelta::hours(23));
    s3.put("office/uploads/other", b"of somebody else", now - TimeDelta::days(99));
    s3.put("elsewhere/0123456789abcdef0123456789abcdef", b"of somebody else", now - TimeDelta::days(99));
    instance.clock.advance(TimeDelta::minutes(30));
    assert_eq!(instance.store.clean_files(instance.store.clock().now() - TimeDelta::days(1)).await.unwrap(), 1);
    assert!(!s3.objects().contains_key("office/uploads/0123456789abcdef0123456789abcdef"));
    assert_eq!(s3.objects().len(), 4);
    instance.clock.advance(TimeDelta::days(30));
    assert_eq!(instance.store.clean_files(instance.store.clock().now() - TimeDelta::days(1)).await.unwrap(), 1);
    assert_eq!(instance.store.upload_bytes(id).await.unwrap().unwrap(), b"whole");
}

#[tokio::test]
async fn an_outage_is_told_and_loses_nothing() {
    let (instance, mut s3) = instance().await;
    let key = RequestKey::new();
    let id = save(&instance, key, b"before").await.unwrap().unwrap();
    for (status, code) in [(503, "SlowDown"), (500, "InternalError"), (403, "AccessDenied"), (404, "NoSuchBucket")] {
        s3.set(Mood::Say(status, code));
        unavailable(save(&instance, key, b"during").await, code);
        unavailable(instance.store.upload_bytes(id).await, code);
        unavailable(instance.store.clean_files(instance.store.clock().now()).await, code);
    }
    // What people delete is gone for them, whatever the file store says.
    let other = RequestKey::new();
    s3.set(Mood::Serve);
    let deleted = save(&instance, other, b"deleted").await.unwrap().unwrap();
    s3.set(Mood::Say(503, "SlowDown"));
    instance.store.delete_upload(instance.owner, other, deleted).await.unwrap();
    assert_eq!((instance.store.upload_bytes(deleted).await.unwrap(), s3.objects().len()), (None, 2));

    s3.set(Mood::Serve);
    assert_eq!(instance.store.upload_bytes(id).await.unwrap().unwrap(), b"before");
    assert_eq!(instance.store.uploads(instance.owner, key).await.unwrap().len(), 1);
    instance.clock.advance(TimeDelta::days(2));
    assert_eq!(instance.store.clean_files(instance.store.clock().now() - TimeDelta::days(1)).await.unwrap(), 1);
    s3.stop().await;
    unavailable(save(&instance, key, b"after").await, "");
    unavailable(instance.store.upload_bytes(id).await, "");
}

#[tokio::test]
async fn a_short_outage_is_not_noticed() {
    let (instance, s3) = instance().await;
    s3.set(Mood::Say(503, "SlowDown"));
    let recovering = async {
        s3.request_after(1).await;
        s3.set(Mood::Serve);
    };
    let (saved, ()) = tokio::join!(save(&instance, RequestKey::new(), b"after all"), recovering);
    assert_eq!(instance.store.upload_bytes(saved.unwrap().unwrap()).await.unwrap().unwrap(), b"after all");
}

#[tokio::test]
async fn an_object_that_is_missing_or_changed_is_not_taken_for_the_file() {
    let (instance, s3) = instance().await;
    let id = save(&instance, RequestKey::new(), b"as it was").await.unwrap().unwrap();
    let name = s3.objects().into_keys().next().unwrap();
    s3.put(&name, b"as it is!", instance.store.clock().now());
    let changed = instance.store.upload_bytes(id).await;
    assert!(matches!(changed, Err(StoreError::Files(FilesError::Changed { .. }))), "{changed:?}");
    s3.remove(&name);
    let missing = instance.store.upload_bytes(id).await;
    assert!(matches!(missing, Err(StoreError::Files(FilesError::Missing { .. }))), "{missing:?}");
}

/// Time goes by itself here, so the silence ends at once.
#[tokio::test(start_paused = true)]
async fn a_service_that_says_nothing_is_not_waited_for_for_ever() {
    let s3 = S3::start("2026-07-01T08:00:00Z".parse().unwrap()).await;
    s3.set(Mood::Hang);
    let files = s3.files();
    for result in [files.put(b"x".to_vec()).await, files.get("x", 1, b"").await.map(|_| String::new())] {
        assert!(matches!(&result, Err(FilesError::Unavailable { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn an_address_with_a_secret_in_it_is_refused_without_repeating_it() {
    let s3 = S3::start("2026-07-01T08:00:00Z".parse().unwrap()).await;
    for address in ["s3://AKIA:hunter2@bucket/x", "s3://bucket/x?key=hunter2", "s3://bucket#hunter2"] {
        let error = s3.files_at(address).unwrap_err();
        assert!(matches!(error, OpenError::Credentials) && !error.to_string().contains("hunter2"), "{error}");
    }
}
