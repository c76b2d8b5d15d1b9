//! Signed-in devices. The browser has the secret, the table has its digest; so a copy of the database opens no session.

use super::{
    Store, StoreError,
    availability::complain,
    db::{read, within},
    text::storable,
    users::{User, UserColumns},
};
use chrono::{DateTime, TimeDelta, Utc};
use domain::{
    id::{SessionId, UserId},
    people::bearer::BearerSecret,
};
use sqlx::FromRow;

/// A session ends when it has not been used for this long.
pub const SESSION_LIFETIME: TimeDelta = TimeDelta::days(14);

/// Use is written down at most this often: reading a page must not cost a write.
const SEEN_EVERY: TimeDelta = TimeDelta::hours(1);

/// A session and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedInSession {
    pub id: SessionId,
    pub user: User,
}

/// A session in the list of a person's devices.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct SessionLine {
    pub id: SessionId,
    pub device: String,
    pub created_at: DateTime<Utc>,
    /// To the hour.
    pub seen_at: DateTime<Utc>,
}

#[derive(FromRow)]
struct SessionColumns {
    id: SessionId,
    seen_at: DateTime<Utc>,
    #[sqlx(flatten)]
    user: UserColumns,
}

impl Store {
    /// Signs a device in and returns the secret that its browser keeps. The session `replaces`, if it exists, ends with it.
    pub async fn create_session(
        &self,
        user: UserId,
        device: &str,
        replaces: Option<&BearerSecret>,
    ) -> Result<BearerSecret, StoreError> {
        let (secret, now) = (BearerSecret::for_session(), self.clock.now());
        let mut tx = self.db.begin().await?;
        // Nobody asks for expired ones any more; this is when they go.
        within!(tx, conn => {
            sqlx::query("delete from sessions where expires_at <= $1 or token_hash = $2")
                .bind(now).bind(replaces.map(BearerSecret::digest)).execute(conn).await.map(drop)
        })?;
        within!(tx, conn => {
            sqlx::query(
                "insert into sessions (id, token_hash, user_id, device, created_at, seen_at, expires_at)
                 values ($1, $2, $3, $4, $5, $5, $6)",
            )
            .bind(SessionId::new()).bind(secret.digest()).bind(user).bind(storable(device)).bind(now).bind(now + SESSION_LIFETIME)
            .execute(conn)
            .await
            .map(drop)
        })?;
        tx.commit().await?;
        Ok(secret)
    }

    /// The session that a browser presents, while it lasts. Using it prolongs it.
    pub async fn session_by_secret(&self, secret: &BearerSecret) -> Result<Option<SignedInSession>, StoreError> {
        let now = self.clock.now();
        let columns: Option<SessionColumns> = read!(self.db, conn => {
            sqlx::query_as(
                "select sessions.id, sessions.seen_at, users.id as user_id, users.email, users.role, users.zone, users.created_at
                 from sessions join users on users.id = sessions.user_id
                 where sessions.token_hash = $1 and sessions.expires_at > $2",
            )
            .bind(secret.digest()).bind(now).fetch_optional(conn).await
        })?;
        let Some(columns) = columns else { return Ok(None) };
        // Whoever only looks must be able to do so while nothing can be written.
        if now - columns.seen_at >= SEEN_EVERY
            && let Err(error) = self.prolong_session(columns.id, now).await
        {
            complain("a session could not be prolonged", &error);
        }
        Ok(Some(SignedInSession { id: columns.id, user: columns.user.try_into()? }))
    }

    async fn prolong_session(&self, id: SessionId, now: DateTime<Utc>) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query("update sessions set seen_at = $2, expires_at = $3 where id = $1")
                .bind(id).bind(now).bind(now + SESSION_LIFETIME).execute(conn).await.map(drop)
        })?;
        Ok(tx.commit().await?)
    }

    /// A person's devices, the last used first.
    pub async fn sessions_of(&self, user: UserId) -> Result<Vec<SessionLine>, StoreError> {
        let now = self.clock.now();
        Ok(read!(self.db, conn => {
            sqlx::query_as(
                "select id, device, created_at, seen_at from sessions
                 where user_id = $1 and expires_at > $2 order by seen_at desc, id desc",
            )
            .bind(user).bind(now).fetch_all(conn).await
        })?)
    }

    /// Signs a device of this person out; `false` if it is not theirs or already gone.
    pub async fn delete_session(&self, user: UserId, id: SessionId) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query("delete from sessions where id = $1 and user_id = $2")
                .bind(id).bind(user).execute(conn).await.map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(rows > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Instance;
    use domain::people::Role;

    async fn ada() -> (Instance, UserId) {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        (instance, ada)
    }

    #[tokio::test]
    async fn the_secret_itself_is_not_stored() {
        let (instance, ada) = ada().await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        let stored: Vec<u8> = read!(instance.store.db, conn => {
            sqlx::query_scalar("select token_hash from sessions").fetch_one(conn).await
        })
        .unwrap();
        assert_eq!(stored, secret.digest());
        assert_ne!(stored, secret.expose().as_bytes());
    }

    #[tokio::test]
    async fn an_unused_session_expires() {
        let (instance, ada) = ada().await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        instance.clock.advance(SESSION_LIFETIME);
        assert!(instance.store.session_by_secret(&secret).await.unwrap().is_none());
        assert!(instance.store.sessions_of(ada).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn use_prolongs_a_session() {
        let (instance, ada) = ada().await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        for _ in 0..3 {
            instance.clock.advance(SESSION_LIFETIME - TimeDelta::seconds(1));
            assert!(instance.store.session_by_secret(&secret).await.unwrap().is_some());
        }
    }

    #[tokio::test]
    async fn use_is_written_once_an_hour() {
        let (instance, ada) = ada().await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        let begun = instance.clock_now();
        instance.clock.advance(SEEN_EVERY - TimeDelta::seconds(1));
        instance.store.session_by_secret(&secret).await.unwrap();
        assert_eq!(instance.store.sessions_of(ada).await.unwrap()[0].seen_at, begun);
        instance.clock.advance(TimeDelta::seconds(1));
        instance.store.session_by_secret(&secret).await.unwrap();
        assert_eq!(instance.store.sessions_of(ada).await.unwrap()[0].seen_at, begun + SEEN_EVERY);
    }

    #[tokio::test]
    async fn only_the_owner_signs_a_device_out() {
        let (instance, ada) = ada().await;
        let bob = instance.person("bob@example.org", "correct horse", Role::User).await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        let id = instance.store.session_by_secret(&secret).await.unwrap().unwrap().id;
        assert!(!instance.store.delete_session(bob, id).await.unwrap());
        assert!(instance.store.session_by_secret(&secret).await.unwrap().is_some());
        assert!(instance.store.delete_session(ada, id).await.unwrap());
        assert!(instance.store.session_by_secret(&secret).await.unwrap().is_none());
    }
}
