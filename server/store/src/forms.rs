//! Forms on their way to a job: what was typed, and the files that were uploaded. Both are kept under the request's key, so
//! a mistake in one field costs nothing, and a job reads its files under the key that made it.
//!
//! The bytes of a file are in its row, or in the [file store](crate::files) where there is one and the file is large. No
//! transaction is open while the file store is waited for.

use super::{
    Store, StoreError,
    db::{Lock, Tx, read, within},
    text::storable,
};
use crate::files::FilesError;
use chrono::{DateTime, Utc};
use domain::id::{RequestKey, UploadId, UserId};
use sqlx::FromRow;
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::time::timeout;

/// How long somebody who deletes something waits for the file store. What is left there then, the cleaner removes.
const REMOVAL: Duration = Duration::from_secs(10);

/// A file as it arrives.
#[derive(Debug)]
pub struct NewUpload<'a> {
    pub name: &'a str,
    pub sha256: [u8; 32],
    pub bytes: &'a [u8],
}

/// A stored file, without its bytes.
#[derive(Debug, Clone, FromRow)]
pub struct Upload {
    pub id: UploadId,
    pub name: String,
    /// Bytes.
    pub size: i64,
    pub sha256: Vec<u8>,
    /// The month that a person gave it, `YYYY-MM`.
    pub by_hand: Option<String>,
    pub created_at: DateTime<Utc>,
    /// Its bytes are in the file store.
    pub in_file_store: bool,
}

/// What a form has got of the files of another one.
#[derive(Debug, Default)]
pub struct Copies {
    /// Which file became which.
    pub of: HashMap<UploadId, UploadId>,
    /// The names of those that it could not get, and why not, in words.
    pub left_out: Vec<(String, &'static str)>,
}

/// Whether a form takes a file.
enum Room {
    /// It has the same bytes under the same name already.
    Known(UploadId),
    /// The form has become a job.
    Settled,
    Free,
}

#[derive(FromRow)]
struct Content {
    bytes: Vec<u8>,
    stored_as: Option<String>,
    size: i64,
    sha256: Vec<u8>,
}

impl Store {
    /// Keeps a form as it was typed.
    pub async fn save_draft(&self, owner: UserId, key: RequestKey, form: &str) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query(
                "insert into drafts (owner_id, request_key, form, updated_at) values ($1, $2, $3, $4)
                 on conflict (owner_id, request_key) do update set form = excluded.form, updated_at = excluded.updated_at",
            )
            .bind(owner).bind(key).bind(form).bind(now)
            .execute(conn)
            .await
            .map(drop)
        })?;
        Ok(tx.commit().await?)
    }

    /// The form that was kept under this key.
    pub async fn draft(&self, owner: UserId, key: RequestKey) -> Result<Option<String>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select form from drafts where owner_id = $1 and request_key = $2")
                .bind(owner).bind(key).fetch_optional(conn).await
        })?)
    }

    /// Keeps a file; the same bytes under the same name in the same form are kept once. `None`: the form has become a job and
    /// takes no more files, since a job reads what it was made with.
    pub async fn save_upload(
        &self,
        owner: UserId,
        key: RequestKey,
        upload: &NewUpload<'_>,
    ) -> Result<Option<UploadId>, StoreError> {
        self.db.has_room()?;
        let mut stored_as = None;
        if let Some(files) = self.files.as_ref().filter(|files| files.takes(upload.bytes.len())) {
            match self.room(owner, key, upload.name, &upload.sha256).await? {
                Room::Known(id) => return Ok(Some(id)),
                Room::Settled => return Ok(None),
                Room::Free => stored_as = Some(files.put(upload.bytes.to_vec()).await?),
            }
        }
        let now = self.clock.now();
        let mut tx = self.db.begin_with_lock(Lock::Request(key)).await?;
        let known = match room(&mut tx, owner, key, upload.name, &upload.sha256).await? {
            Room::Free => None,
            Room::Known(id) => Some(Some(id)),
            Room::Settled => Some(None),
        };
        if let Some(known) = known {
            drop(tx);
            self.remove_objects(stored_as.into_iter().collect()).await;
            return Ok(known);
        }
        let id = UploadId::new();
        let size = i64::try_from(upload.bytes.len()).unwrap_or(i64::MAX);
        let in_row = if stored_as.is_some() { &[] } else { upload.bytes };
        within!(tx, conn => {
            sqlx::query(
                "insert into uploads (id, owner_id, request_key, name, size, sha256, created_at, bytes, stored_as)
                 values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            )
            .bind(id).bind(owner).bind(key).bind(storable(upload.name)).bind(size).bind(upload.sha256.as_slice()).bind(now)
            .bind(in_row).bind(&stored_as)
            .execute(conn)
            .await
            .map(drop)
        })?;
        // Whether a commit that fails has happened all the same nobody knows, so the object stays; the cleaner will know.
        tx.commit().await?;
        Ok(Some(id))
    }

    async fn room(&self, owner: UserId, key: RequestKey, name: &str, sha256: &[u8]) -> Result<Room, StoreError> {
        let mut tx = self.db.snapshot().await?;
        room(&mut tx, owner, key, name, sha256).await
    }

    /// The files under a key, in the order of their arrival.
    pub async fn uploads(&self, owner: UserId, key: RequestKey) -> Result<Vec<Upload>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "select id, name, size, sha256, by_hand, created_at, stored_as is not null as in_file_store from uploads
                 where owner_id = $1 and request_key = $2 order by id",
            )
            .bind(owner).bind(key)
            .fetch_all(conn)
            .await
        })?)
    }

    /// The bytes of a file. Those from the file store are what was put there, or there are none.
    pub async fn upload_bytes(&self, id: UploadId) -> Result<Option<Vec<u8>>, StoreError> {
        let content: Option<Content> = read!(self.db, conn => {
            sqlx::query_as("select bytes, stored_as, size, sha256 from uploads where id = $1").bind(id).fetch_optional(conn).await
        })?;
        let Some(Content { bytes, stored_as, size, sha256 }) = content else { return Ok(None) };
        let Some(name) = stored_as else { return Ok(Some(bytes)) };
        let files = self.files.as_ref().ok_or(FilesError::NotConfigured)?;
        Ok(Some(files.get(&name, size, &sha256).await?))
    }

    /// Says by hand which month a file belongs to; `None` lets the rules decide again. The files of a job stay as they are.
    pub async fn date_upload(&self, owner: UserId, id: UploadId, month: Option<&str>) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query(
                "update uploads set by_hand = $3 where id = $1 and owner_id = $2 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)",
            )
            .bind(id).bind(owner).bind(month).execute(conn).await.map(drop)
        })?;
        Ok(tx.commit().await?)
    }

    /// Takes a file out of a form. The files of a job stay.
    pub async fn delete_upload(&self, owner: UserId, key: RequestKey, id: UploadId) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let stored: Vec<Option<String>> = within!(tx, conn => {
            sqlx::query_scalar(
                "delete from uploads where id = $1 and owner_id = $2 and request_key = $3 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)
                 returning stored_as",
            )
            .bind(id).bind(owner).bind(key).fetch_all(conn).await
        })?;
        tx.commit().await?;
        self.remove_objects(stored.into_iter().flatten().collect()).await;
        Ok(())
    }

    /// Gives a form the files of another one, as copies that share nothing. Repeating it does no harm.
    pub async fn copy_uploads(
        &self,
        from_owner: UserId,
        from: RequestKey,
        to_owner: UserId,
        to: RequestKey,
    ) -> Result<Copies, StoreError> {
        let mut copies = Copies::default();
        // Somebody waits: the file store is not asked again for each file while it is out of reach.
        let mut out_of_reach = None;
        for upload in self.uploads(from_owner, from).await? {
            let copy = match self.room(to_owner, to, &upload.name, &upload.sha256).await? {
                Room::Known(copy) => Ok(Some(copy)),
                Room::Settled => Ok(None),
                Room::Free => match out_of_reach.filter(|_| upload.in_file_store) {
                    Some(why) => {
                        copies.left_out.push((upload.name, why));
                        continue;
                    }
                    None => self.copy_upload(&upload, to_owner, to).await,
                },
            };
            match copy {
                Ok(Some(copy)) => {
                    if upload.by_hand.is_some() {
                        self.date_upload(to_owner, copy, upload.by_hand.as_deref()).await?;
                    }
                    copies.of.insert(upload.id, copy);
                }
                Ok(None) => {}
                Err(StoreError::Files(error)) => {
                    tracing::warn!(%error, "an uploaded file could not be copied");
                    out_of_reach = error.may_pass().then_some(error.in_words());
                    copies.left_out.push((upload.name, error.in_words()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(copies)
    }

    async fn copy_upload(&self, upload: &Upload, owner: UserId, key: RequestKey) -> Result<Option<UploadId>, StoreError> {
        let Some(bytes) = self.upload_bytes(upload.id).await? else { return Ok(None) };
        let Ok(sha256) = <[u8; 32]>::try_from(upload.sha256.as_slice()) else { return Ok(None) };
        self.save_upload(owner, key, &NewUpload { name: &upload.name, sha256, bytes: &bytes }).await
    }

    /// Forgets forms, and the files of forms, that were left lying since before `before` and never became a job.
    pub async fn clean_drafts(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let requests: Vec<RequestKey> = read!(self.db, conn => {
            sqlx::query_scalar(
                "select distinct request_key from uploads where created_at < $1 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)",
            )
            .bind(before).fetch_all(conn).await
        })?;
        let mut uploads = 0;
        for request in requests {
            uploads += self.clean_uploads(request, before).await?;
        }
        let mut tx = self.db.begin().await?;
        let drafts = within!(tx, conn => {
            sqlx::query("delete from drafts where updated_at < $1").bind(before).execute(conn).await.map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(uploads + drafts)
    }

    async fn clean_uploads(&self, request: RequestKey, before: DateTime<Utc>) -> Result<u64, StoreError> {
        // Its form may be sent just now: the job then gets its files, or finds none of them.
        let mut tx = self.db.begin_with_lock(Lock::Request(request)).await?;
        let stored: Vec<Option<String>> = within!(tx, conn => {
            sqlx::query_scalar(
                "delete from uploads where request_key = $1 and created_at < $2 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)
                 returning stored_as",
            )
            .bind(request).bind(before).fetch_all(conn).await
        })?;
        tx.commit().await?;
        let count = u64::try_from(stored.len()).unwrap_or(u64::MAX);
        self.remove_objects(stored.into_iter().flatten().collect()).await;
        Ok(count)
    }

    /// Removes what no row names from the file store, if it is older than `before`. That must be so long ago that no upload
    /// under way, on any machine, can have begun then: its row is committed after its object is there. Returns how many.
    pub async fn clean_files(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let named = "select stored_as from uploads where stored_as is not null";
        let Some(files) = &self.files else {
            let one: Option<String> = read!(self.db, conn => sqlx::query_scalar(named).fetch_optional(conn).await)?;
            return if one.is_some() { Err(FilesError::NotConfigured.into()) } else { Ok(0) };
        };
        let torn = files.remove_torn(before).await?;
        let mut unnamed = files.older_than(before).await?;
        // Read after the list was made: what is on it and will ever be named is named by now.
        let named: Vec<String> = read!(self.db, conn => sqlx::query_scalar(named).fetch_all(conn).await)?;
        let named: HashSet<String> = named.into_iter().collect();
        unnamed.retain(|name| !named.contains(name));
        Ok(torn + files.delete(&unnamed).await?)
    }

    /// Removes objects whose rows are gone. Nothing depends on it, so a failure is only logged.
    pub(super) async fn remove_objects(&self, names: Vec<String>) {
        let Some(files) = self.files.as_ref().filter(|_| !names.is_empty()) else { return };
        match timeout(REMOVAL, files.delete(&names)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "deleted files are still in the file store; the cleaner tries again"),
            Err(_) => tracing::warn!("the file store is slow to delete files; the cleaner tries again"),
        }
    }
}

async fn room(tx: &mut Tx, owner: UserId, key: RequestKey, name: &str, sha256: &[u8]) -> Result<Room, StoreError> {
    let known: Option<UploadId> = within!(*tx, conn => {
        sqlx::query_scalar("select id from uploads where owner_id = $1 and request_key = $2 and name = $3 and sha256 = $4")
            .bind(owner).bind(key).bind(storable(name)).bind(sha256)
            .fetch_optional(conn)
            .await
    })?;
    if let Some(id) = known {
        return Ok(Room::Known(id));
    }
    let settled: bool = within!(*tx, conn => {
        sqlx::query_scalar("select exists (select 1 from jobs where owner_id = $1 and request_key = $2)")
            .bind(owner).bind(key).fetch_one(conn).await
    })?;
    Ok(if settled { Room::Settled } else { Room::Free })
}
