//! API tokens. As with sessions, only the digest of the secret is stored.

use super::{
    Store, StoreError,
    availability::complain,
    db::{read, within},
    error::one_row,
    text::storable,
    users::{User, UserColumns},
};
use chrono::{DateTime, TimeDelta, Utc};
use domain::{
    id::{TokenId, UserId},
    people::{Scopes, bearer::BearerSecret},
};
use sqlx::FromRow;

/// Use is written down at most this often: a program that polls must not cost a write each time.
const USED_EVERY: TimeDelta = TimeDelta::minutes(1);

/// A token in the list of a person's tokens.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct TokenLine {
    pub id: TokenId,
    pub name: String,
    #[sqlx(try_from = "String")]
    pub scopes: Scopes,
    pub created_at: DateTime<Utc>,
    /// To the minute.
    pub used_at: Option<DateTime<Utc>>,
}

/// What a token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whom it acts for.
    pub user: User,
    pub scopes: Scopes,
}

#[derive(FromRow)]
struct TokenColumns {
    id: TokenId,
    #[sqlx(try_from = "String")]
    scopes: Scopes,
    used_at: Option<DateTime<Utc>>,
    #[sqlx(flatten)]
    user: UserColumns,
}

impl Store {
    /// Makes a token and returns its secret, which cannot be had again.
    pub async fn create_token(&self, user: UserId, name: &str, scopes: Scopes) -> Result<BearerSecret, StoreError> {
        let (secret, rows) = self.insert_token(TokenId::new(), user, name, scopes).await?;
        one_row("a new token", rows)?;
        Ok(secret)
    }

    /// Makes the token with this id, unless it exists: whoever asks again gets no second one, and the secret of the first is gone.
    pub async fn create_token_once(
        &self,
        id: TokenId,
        user: UserId,
        name: &str,
        scopes: Scopes,
    ) -> Result<Option<BearerSecret>, StoreError> {
        let (secret, rows) = self.insert_token(id, user, name, scopes).await?;
        Ok((rows > 0).then_some(secret))
    }

    /// The secret, and how many rows are new.
    async fn insert_token(
        &self,
        id: TokenId,
        user: UserId,
        name: &str,
        scopes: Scopes,
    ) -> Result<(BearerSecret, u64), StoreError> {
        let (secret, now) = (BearerSecret::for_token(), self.clock.now());
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query(
                "insert into tokens (id, token_hash, user_id, name, created_at, scopes) values ($1, $2, $3, $4, $5, $6)
                 on conflict (id) do nothing",
            )
            .bind(id).bind(secret.digest()).bind(user).bind(storable(name)).bind(now).bind(scopes.to_string())
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok((secret, rows))
    }

    /// Whose token it is, and what it may do.
    pub async fn token_by_secret(&self, secret: &BearerSecret) -> Result<Option<Grant>, StoreError> {
        let now = self.clock.now();
        let columns: Option<TokenColumns> = read!(self.db, conn => {
            sqlx::query_as(
                "select tokens.id, tokens.scopes, tokens.used_at,
                     users.id as user_id, users.email, users.role, users.zone, users.created_at
                 from tokens join users on users.id = tokens.user_id
                 where tokens.token_hash = $1",
            )
            .bind(secret.digest()).fetch_optional(conn).await
        })?;
        let Some(columns) = columns else { return Ok(None) };
        // Whoever only looks must be able to do so while nothing can be written.
        if columns.used_at.is_none_or(|used_at| now - used_at >= USED_EVERY)
            && let Err(error) = self.mark_token(columns.id, now).await
        {
            complain("the use of a token could not be written down", &error);
        }
        Ok(Some(Grant { user: columns.user.try_into()?, scopes: columns.scopes }))
    }

    async fn mark_token(&self, id: TokenId, now: DateTime<Utc>) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        within!(tx, conn => {
            sqlx::query("update tokens set used_at = $2 where id = $1").bind(id).bind(now).execute(conn).await.map(drop)
        })?;
        Ok(tx.commit().await?)
    }

    /// A person's tokens, the newest first.
    pub async fn tokens_of(&self, user: UserId) -> Result<Vec<TokenLine>, StoreError> {
        Ok(read!(self.db, conn => {
            sqlx::query_as("select id, name, scopes, created_at, used_at from tokens where user_id = $1 order by created_at desc, id desc")
                .bind(user).fetch_all(conn).await
        })?)
    }

    /// Revokes a token of this person; `false` if it is not theirs or already gone.
    pub async fn delete_token(&self, user: UserId, id: TokenId) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query("delete from tokens where id = $1 and user_id = $2")
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

    #[tokio::test]
    async fn a_token_names_its_owner_until_it_is_revoked() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        let bob = instance.person("bob@example.org", "correct horse", Role::User).await;
        let secret = instance.store.create_token(ada, "nightly", Scopes::ALL).await.unwrap();
        assert!(secret.expose().starts_with("rct_"));
        assert_eq!(instance.store.token_by_secret(&secret).await.unwrap().unwrap().user.id, ada);
        assert!(instance.store.token_by_secret(&BearerSecret::for_token()).await.unwrap().is_none());

        let line = instance.store.tokens_of(ada).await.unwrap().remove(0);
        assert_eq!(line.name, "nightly");
        assert!(instance.store.tokens_of(bob).await.unwrap().is_empty());
        assert!(!instance.store.delete_token(bob, line.id).await.unwrap());
        assert!(instance.store.delete_token(ada, line.id).await.unwrap());
        assert!(instance.store.token_by_secret(&secret).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_token_with_an_id_is_made_once() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        let bob = instance.person("bob@example.org", "correct horse", Role::User).await;
        let id = TokenId::new();
        let secret = instance.store.create_token_once(id, ada, "assistant", Scopes::READ).await.unwrap().unwrap();
        for (user, name) in [(ada, "assistant"), (bob, "another")] {
            assert!(instance.store.create_token_once(id, user, name, Scopes::ALL).await.unwrap().is_none());
        }
        let grant = instance.store.token_by_secret(&secret).await.unwrap().unwrap();
        assert_eq!((grant.user.id, grant.scopes), (ada, Scopes::READ));
        assert!(instance.store.tokens_of(bob).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn use_is_written_once_a_minute() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        let secret = instance.store.create_token(ada, "nightly", Scopes::ALL).await.unwrap();
        assert_eq!(instance.store.tokens_of(ada).await.unwrap()[0].used_at, None);
        let first = instance.clock_now();
        for (seconds, expected) in [(0, first), (59, first), (1, first + USED_EVERY)] {
            instance.clock.advance(TimeDelta::seconds(seconds));
            instance.store.token_by_secret(&secret).await.unwrap();
            assert_eq!(instance.store.tokens_of(ada).await.unwrap()[0].used_at, Some(expected));
        }
    }
}
