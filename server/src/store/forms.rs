//! Forms on their way to a job: what was typed, and the files that were uploaded. Both are kept under the request's key, so
//! a mistake in one field costs nothing, and a job reads its files under the key that made it.

use super::{
    Store, StoreError,
    db::{read, within},
    text::storable,
};
use crate::id::{RequestKey, UploadId, UserId};
use chrono::{DateTime, Utc};
use sqlx::FromRow;
use std::collections::HashMap;

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
        let now = self.clock.now();
        let mut tx = self.db.begin().await?;
        tx.lock(key.0).await?;
        let known: Option<UploadId> = within!(tx, conn => {
            sqlx::query_scalar("select id from uploads where owner_id = $1 and request_key = $2 and name = $3 and sha256 = $4")
                .bind(owner).bind(key).bind(storable(upload.name)).bind(upload.sha256.as_slice())
                .fetch_optional(conn)
                .await
        })?;
        let settled: bool = within!(tx, conn => {
            sqlx::query_scalar("select exists (select 1 from jobs where owner_id = $1 and request_key = $2)")
                .bind(owner).bind(key).fetch_one(conn).await
        })?;
        if known.is_some() || settled {
            return Ok(known);
        }
        let id = UploadId::new();
        let size = i64::try_from(upload.bytes.len()).unwrap_or(i64::MAX);
        within!(tx, conn => {
            sqlx::query(
                "insert into uploads (id, owner_id, request_key, name, size, sha256, created_at, bytes)
                 values ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .bind(id).bind(owner).bind(key).bind(storable(upload.name)).bind(size).bind(upload.sha256.as_slice()).bind(now).bind(upload.bytes)
            .execute(conn)
            .await
            .map(drop)
        })?;
        tx.commit().await?;
        Ok(Some(id))
    }

    /// The files under a key, in the order of their arrival.
    pub async fn uploads(&self, owner: UserId, key: RequestKey) -> Result<Vec<Upload>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "select id, name, size, sha256, by_hand, created_at from uploads
                 where owner_id = $1 and request_key = $2 order by id",
            )
            .bind(owner).bind(key)
            .fetch_all(conn)
            .await
        })?)
    }

    /// The bytes of a file.
    pub async fn upload_bytes(&self, id: UploadId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_scalar("select bytes from uploads where id = $1").bind(id).fetch_optional(conn).await
        })?)
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
        within!(tx, conn => {
            sqlx::query(
                "delete from uploads where id = $1 and owner_id = $2 and request_key = $3 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)",
            )
            .bind(id).bind(owner).bind(key).execute(conn).await.map(drop)
        })?;
        Ok(tx.commit().await?)
    }

    /// Gives a form the files of another one. Returns which file became which. Repeating it does no harm.
    pub async fn copy_uploads(
        &self,
        from_owner: UserId,
        from: RequestKey,
        to_owner: UserId,
        to: RequestKey,
    ) -> Result<HashMap<UploadId, UploadId>, StoreError> {
        let mut copies = HashMap::new();
        for upload in self.uploads(from_owner, from).await? {
            let Some(bytes) = self.upload_bytes(upload.id).await? else { continue };
            let Ok(sha256) = <[u8; 32]>::try_from(upload.sha256.as_slice()) else { continue };
            let copy = self.save_upload(to_owner, to, &NewUpload { name: &upload.name, sha256, bytes: &bytes }).await?;
            let Some(copy) = copy else { continue };
            if upload.by_hand.is_some() {
                self.date_upload(to_owner, copy, upload.by_hand.as_deref()).await?;
            }
            copies.insert(upload.id, copy);
        }
        Ok(copies)
    }

    /// Forgets forms, and the files of forms, that were left lying since before `before` and never became a job.
    pub async fn clean_drafts(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut tx = self.db.begin().await?;
        let uploads = within!(tx, conn => {
            sqlx::query(
                "delete from uploads where created_at < $1 and not exists
                 (select 1 from jobs where jobs.owner_id = uploads.owner_id and jobs.request_key = uploads.request_key)",
            )
            .bind(before).execute(conn).await.map(|done| done.rows_affected())
        })?;
        let drafts = within!(tx, conn => {
            sqlx::query("delete from drafts where updated_at < $1").bind(before).execute(conn).await.map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(uploads + drafts)
    }
}
