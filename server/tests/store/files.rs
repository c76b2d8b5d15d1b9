//! Uploads in a file store that is a folder: where their bytes are, when they go, and what is said where they are not.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use chrono::TimeDelta;
use domain::id::{RequestKey, UploadId};
use sha2::{Digest, Sha256};
use sqlx::{query, query_as};
use store::{
    NewUpload, StoreError,
    files::{Files, FilesError, FilesSettings},
};

use crate::support::{ended::accepted, instance::Instance, raw::on};

const ADA: &str = "ada@example.org";

/// A folder store beside the database, for files of more than so many megabytes.
fn open(instance: &Instance, in_database_up_to_mb: u32) -> Files {
    let folder = instance.folder().join("files");
    fs::create_dir_all(&folder).unwrap();
    let store = format!("file://{}", folder.display());
    Files::open(&FilesSettings { store, in_database_up_to_mb }, []).unwrap()
}

async fn instance() -> Instance {
    let mut instance = Instance::new().await;
    instance.store = instance.store.clone().with_files(open(&instance, 0));
    instance
}

fn objects(instance: &Instance) -> Vec<PathBuf> {
    let entries = fs::read_dir(instance.folder().join("files/uploads")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

async fn save(instance: &Instance, key: RequestKey, name: &str, bytes: &[u8]) -> UploadId {
    let upload = NewUpload { name, sha256: Sha256::digest(bytes).into(), bytes };
    instance.store.save_upload(instance.owner, key, &upload).await.unwrap().unwrap()
}

/// The bytes in the row, and the name of the object.
async fn row(instance: &Instance, id: UploadId) -> (Vec<u8>, Option<String>) {
    let mut raw = instance.raw().await;
    let text = "select bytes, stored_as from uploads where id = $1";
    on!(raw, connection => query_as(text).bind(id).fetch_one(connection).await).unwrap()
}

fn set_modified(path: &Path, to: chrono::DateTime<chrono::Utc>) {
    fs::File::options().write(true).open(path).unwrap().set_modified(SystemTime::from(to)).unwrap();
}

fn trouble<T: std::fmt::Debug>(result: Result<T, StoreError>) -> FilesError {
    match result {
        Err(StoreError::Files(error)) => error,
        other => panic!("the file store should be in the way, but: {other:?}"),
    }
}

#[tokio::test]
async fn only_what_is_over_the_limit_leaves_the_database() {
    let mut instance = Instance::new().await;
    instance.store = instance.store.clone().with_files(open(&instance, 1));
    let key = RequestKey::new();
    let (at_limit, over) = (vec![b'a'; 1_000_000], vec![b'b'; 1_000_001]);
    let small = save(&instance, key, "secret plans.txt", &at_limit).await;
    let large = save(&instance, key, "secret plans.txt", &over).await;
    assert_eq!(row(&instance, small).await, (at_limit.clone(), None));
    let (in_row, name) = row(&instance, large).await;
    assert_eq!(in_row, b"");
    let name = name.unwrap();
    assert!(name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name} tells something");
    assert_eq!(objects(&instance), [instance.folder().join("files/uploads").join(&name)]);
    assert_eq!(fs::metadata(instance.folder().join("files/uploads")).unwrap().permissions().mode() & 0o777, 0o700);

    assert_eq!(instance.store.upload_bytes(small).await.unwrap().unwrap(), at_limit);
    assert_eq!(instance.store.upload_bytes(large).await.unwrap().unwrap(), over);
    let sizes: Vec<_> = instance.store.uploads(instance.owner, key).await.unwrap().iter().map(|upload| upload.size).collect();
    assert_eq!(sizes, [1_000_000, 1_000_001]);
    // The same file again is the same upload, and no second object.
    assert_eq!(save(&instance, key, "secret plans.txt", &over).await, large);
    assert_eq!(objects(&instance).len(), 1);
}

#[tokio::test]
async fn machines_on_one_database_and_one_file_store_see_each_others_files() {
    let instance = instance().await;
    let other = instance.another_store().await;
    let without = other.clone();
    let other = other.with_files(open(&instance, 5));
    let key = RequestKey::new();
    let id = save(&instance, key, "a.md", b"from here").await;
    assert_eq!(other.upload_bytes(id).await.unwrap().unwrap(), b"from here");
    let upload = NewUpload { name: "b.md", sha256: Sha256::digest(b"from there").into(), bytes: b"from there" };
    let there = other.save_upload(instance.owner, key, &upload).await.unwrap().unwrap();
    assert_eq!(instance.store.upload_bytes(there).await.unwrap().unwrap(), b"from there");
    assert_eq!((objects(&instance).len(), row(&instance, there).await.1), (1, None), "it has another limit");

    // A machine that has not been told where the files are says so, and takes nothing away.
    let error = trouble(without.upload_bytes(id).await);
    assert!(matches!(error, FilesError::NotConfigured) && error.to_string().contains("files.store"), "{error}");
    let error = trouble(without.clean_files(instance.store.clock().now()).await);
    assert!(matches!(error, FilesError::NotConfigured), "{error}");
    other.delete_upload(instance.owner, key, id).await.unwrap();
    assert_eq!(instance.store.upload_bytes(id).await.unwrap(), None);
    assert!(objects(&instance).is_empty());
    assert_eq!(without.clean_files(instance.store.clock().now()).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_deleted_leaves_nothing_behind() {
    let instance = instance().await;
    let id = instance.ended(&[("anna@example.org", accepted())]).await;
    let (of_job, next) = (instance.record(id).await.row.request_key, RequestKey::new());
    // Forms take no files once they are jobs, so they get theirs by the back door.
    let key = RequestKey::new();
    let first = save(&instance, key, "a.md", b"first").await;
    save(&instance, key, "b.md", b"second").await;
    let mut raw = instance.raw().await;
    let text = "update uploads set request_key = $2 where request_key = $1";
    on!(raw, connection => query(text).bind(key).bind(of_job).execute(connection).await.map(drop)).unwrap();

    let copies = instance.store.copy_uploads(instance.owner, of_job, instance.owner, next).await.unwrap();
    assert_eq!((copies.of.len(), copies.left_out.len(), objects(&instance).len()), (2, 0, 4));
    let again = instance.store.copy_uploads(instance.owner, of_job, instance.owner, next).await.unwrap();
    assert_eq!((again.of, objects(&instance).len()), (copies.of.clone(), 4));
    instance.store.delete_upload(instance.owner, of_job, first).await.unwrap();
    assert_eq!(objects(&instance).len(), 4, "the files of a job stay");
    instance.store.delete_job(id, ADA, "why").await.unwrap().unwrap();
    assert_eq!(objects(&instance).len(), 2);
    assert_eq!(instance.store.upload_bytes(copies.of[&first]).await.unwrap().unwrap(), b"first");

    instance.store.delete_upload(instance.owner, next, copies.of[&first]).await.unwrap();
    assert_eq!(objects(&instance).len(), 1);
    instance.clock.advance(TimeDelta::days(1));
    assert_eq!(instance.store.clean_drafts(instance.store.clock().now()).await.unwrap(), 1);
    assert!(objects(&instance).is_empty());
}

#[tokio::test]
async fn an_object_without_a_row_is_removed_when_no_upload_can_own_it_any_more() {
    let instance = instance().await;
    let key = RequestKey::new();
    let id = save(&instance, key, "a.md", b"named").await;
    let folder = instance.folder().join("files/uploads");
    let now = instance.store.clock().now();
    let (old, young) = (now - TimeDelta::hours(25), now - TimeDelta::hours(23));
    let unnamed = "0123456789abcdef0123456789abcdef";
    let under_way = "1123456789abcdef0123456789abcdef";
    let torn = format!("{unnamed}#1");
    let torn_under_way = format!("{under_way}#1");
    let foreign = ["README.txt", "0123456789abcdef", "0123456789ABCDEF0123456789ABCDEF", "notes#1"];
    for (name, modified) in [(unnamed, old), (under_way, young), (&torn, old), (&torn_under_way, young)] {
        fs::write(folder.join(name), "x").unwrap();
        set_modified(&folder.join(name), modified);
    }
    for name in foreign {
        fs::write(folder.join(name), "x").unwrap();
        set_modified(&folder.join(name), old);
    }
    fs::create_dir(folder.join("deeper")).unwrap();
    fs::write(folder.join("deeper").join(unnamed), "x").unwrap();
    set_modified(&folder.join("deeper").join(unnamed), old);
    let name = row(&instance, id).await.1.unwrap();
    set_modified(&folder.join(&name), old);

    let cleaned = instance.store.clean_files(now - TimeDelta::days(1)).await.unwrap();
    assert_eq!(cleaned, 2, "the one without a row, and the one that was torn");
    for gone in [unnamed, &torn] {
        assert!(!folder.join(gone).exists(), "{gone}");
    }
    for stays in foreign.into_iter().chain([under_way, &torn_under_way, &name]) {
        assert!(folder.join(stays).exists(), "{stays}");
    }
    assert!(folder.join("deeper").join(unnamed).exists());
    assert_eq!(instance.store.upload_bytes(id).await.unwrap().unwrap(), b"named");
    instance.clock.advance(TimeDelta::hours(2));
    let later = instance.store.clock().now() - TimeDelta::days(1);
    assert_eq!(instance.store.clean_files(later).await.unwrap(), 2);
}

#[tokio::test]
async fn a_file_that_is_missing_or_changed_is_told_from_one_that_is_whole() {
    let instance = instance().await;
    let key = RequestKey::new();
    let id = save(&instance, key, "a.md", b"as it was").await;
    let object = objects(&instance).remove(0);
    for changed in ["as it is!", "as it was, and more", "", "as"] {
        fs::write(&object, changed).unwrap();
        let error = trouble(instance.store.upload_bytes(id).await);
        assert!(matches!(error, FilesError::Changed { .. }) && !error.may_pass(), "{changed}: {error}");
    }
    let next = RequestKey::new();
    let copies = instance.store.copy_uploads(instance.owner, key, instance.owner, next).await.unwrap();
    assert_eq!((copies.of.len(), copies.left_out[0].0.as_str()), (0, "a.md"));
    fs::remove_file(&object).unwrap();
    let error = trouble(instance.store.upload_bytes(id).await);
    assert!(matches!(error, FilesError::Missing { .. }) && !error.may_pass(), "{error}");
    fs::write(&object, "as it was").unwrap();
    assert_eq!(instance.store.upload_bytes(id).await.unwrap().unwrap(), b"as it was");
}

#[tokio::test]
async fn a_folder_that_is_not_mounted_is_no_folder_without_files() {
    let instance = instance().await;
    let key = RequestKey::new();
    let id = save(&instance, key, "a.md", b"far away").await;
    let (mounted, away) = (instance.folder().join("files/uploads"), instance.folder().join("files/away"));
    fs::rename(&mounted, &away).unwrap();
    let upload = NewUpload { name: "b.md", sha256: [1; 32], bytes: b"b" };
    let error = trouble(instance.store.save_upload(instance.owner, key, &upload).await);
    assert!(error.may_pass() && error.to_string().contains("mounted"), "{error}");
    assert!(!mounted.exists(), "nothing may be written to the empty place");
    assert!(trouble(instance.store.upload_bytes(id).await).may_pass());
    assert!(trouble(instance.store.clean_files(instance.store.clock().now()).await).may_pass());
    assert_eq!(instance.store.uploads(instance.owner, key).await.unwrap().len(), 1, "no row without an object");
    // What is deleted meanwhile is gone for people at once, and from the store when that is back.
    instance.store.delete_upload(instance.owner, key, id).await.unwrap();
    fs::rename(&away, &mounted).unwrap();
    assert_eq!(objects(&instance).len(), 1);
    set_modified(&objects(&instance)[0], instance.store.clock().now() - TimeDelta::days(2));
    assert_eq!(instance.store.clean_files(instance.store.clock().now() - TimeDelta::days(1)).await.unwrap(), 1);
}
