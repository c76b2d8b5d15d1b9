//! People's accounts.

use super::{
    Store, StoreError,
    db::{Lock, read, within},
    error::one_row,
};
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use domain::{
    id::UserId,
    people::{
        EmailAddress, Role,
        password::{PasswordHash, UNUSABLE},
    },
};
use sqlx::FromRow;

/// A person. The password's hash is not part of it; only [`Store::credentials`] reads that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub email: String,
    pub role: Role,
    /// The zone that the person's months are cut in.
    pub zone: Tz,
    pub created_at: DateTime<Utc>,
}

/// What became of a new account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewUser {
    /// It exists now.
    Created(UserId),
    /// Somebody has this address already; nothing was changed.
    EmailTaken,
}

/// A user's columns, as every query of this folder selects them.
#[derive(FromRow)]
pub(super) struct UserColumns {
    user_id: UserId,
    email: String,
    role: String,
    zone: String,
    created_at: DateTime<Utc>,
}

impl TryFrom<UserColumns> for User {
    type Error = StoreError;

    fn try_from(columns: UserColumns) -> Result<Self, StoreError> {
        let row = columns.user_id;
        let inconsistent = |column| StoreError::Inconsistent { table: "users", column, row: row.to_string() };
        Ok(Self {
            id: columns.user_id,
            email: columns.email,
            role: Role::from_name(&columns.role).ok_or_else(|| inconsistent("role"))?,
            zone: columns.zone.parse().map_err(|_| inconsistent("zone"))?,
            created_at: columns.created_at,
        })
    }
}

impl Store {
    /// Makes an account.
    pub async fn create_user(
        &self,
        email: &EmailAddress,
        role: Role,
        password: &PasswordHash,
        zone: Tz,
    ) -> Result<NewUser, StoreError> {
        let (id, now) = (UserId::new(), self.clock.now());
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query(
                "insert into users (id, email, role, password_hash, zone, created_at) values ($1, $2, $3, $4, $5, $6)
                 on conflict (email) do nothing",
            )
            .bind(id).bind(email.as_str()).bind(role.name()).bind(password.as_str()).bind(zone.name()).bind(now)
            .execute(conn)
            .await
            .map(|done| done.rows_affected())
        })?;
        tx.commit().await?;
        Ok(if rows == 0 { NewUser::EmailTaken } else { NewUser::Created(id) })
    }

    /// Makes the first admin, in UTC until they choose a zone; `None` if somebody exists already.
    pub async fn create_first_user(&self, email: &EmailAddress, password: &PasswordHash) -> Result<Option<UserId>, StoreError> {
        let (id, now) = (UserId::new(), self.clock.now());
        let mut tx = self.db.begin_with_lock(Lock::FirstUser).await?;
        let users: i64 = within!(tx, conn => sqlx::query_scalar("select count(*) from users where password_hash <> $1").bind(UNUSABLE).fetch_one(conn).await)?;
        if users > 0 {
            return Ok(None);
        }
        within!(tx, conn => {
            sqlx::query("insert into users (id, email, role, password_hash, zone, created_at) values ($1, $2, $3, $4, $5, $6)")
                .bind(id).bind(email.as_str()).bind(Role::Admin.name()).bind(password.as_str()).bind(Tz::UTC.name()).bind(now)
                .execute(conn)
                .await
                .map(drop)
        })?;
        tx.commit().await?;
        Ok(Some(id))
    }

    /// The person with this address.
    pub async fn user_by_email(&self, email: &EmailAddress) -> Result<Option<User>, StoreError> {
        let columns: Option<UserColumns> = read!(self.db, conn => {
            sqlx::query_as("select id as user_id, email, role, zone, created_at from users where email = $1")
                .bind(email.as_str()).fetch_optional(conn).await
        })?;
        columns.map(User::try_from).transpose()
    }

    /// The person with this id.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        let columns: Option<UserColumns> = read!(self.db, conn => {
            sqlx::query_as("select id as user_id, email, role, zone, created_at from users where id = $1")
                .bind(id).fetch_optional(conn).await
        })?;
        columns.map(User::try_from).transpose()
    }

    /// Whose address it is and what their password must fit.
    pub async fn credentials(&self, email: &EmailAddress) -> Result<Option<(UserId, PasswordHash)>, StoreError> {
        let row: Option<(UserId, String)> = read!(self.db, conn => {
            sqlx::query_as("select id, password_hash from users where email = $1").bind(email.as_str()).fetch_optional(conn).await
        })?;
        Ok(row.map(|(id, hash)| (id, PasswordHash::stored(hash))))
    }

    /// Whether anybody has an account.
    pub async fn users_exist(&self) -> Result<bool, StoreError> {
        let users: i64 = read!(self.db, conn => sqlx::query_scalar("select count(*) from users where password_hash <> $1").bind(UNUSABLE).fetch_one(conn).await)?;
        Ok(users > 0)
    }

    /// Changes the zone that a person's months are cut in.
    pub async fn set_zone(&self, id: UserId, zone: Tz) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query("update users set zone = $2 where id = $1")
                .bind(id).bind(zone.name()).execute(conn).await.map(|done| done.rows_affected())
        })?;
        one_row("update of a zone", rows)?;
        Ok(tx.commit().await?)
    }

    /// Changes a password, and signs the person out everywhere: a password is changed because somebody may know it.
    pub async fn set_password(&self, id: UserId, password: &PasswordHash) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        let rows = within!(tx, conn => {
            sqlx::query("update users set password_hash = $2 where id = $1")
                .bind(id).bind(password.as_str()).execute(conn).await.map(|done| done.rows_affected())
        })?;
        one_row("update of a password", rows)?;
        within!(tx, conn => sqlx::query("delete from sessions where user_id = $1").bind(id).execute(conn).await.map(drop))?;
        Ok(tx.commit().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Instance;
    use domain::people::password::NewPassword;

    #[tokio::test]
    async fn an_address_belongs_to_one_person() {
        let instance = Instance::new().await;
        assert!(!instance.store.users_exist().await.unwrap());
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        assert!(instance.store.users_exist().await.unwrap());
        let email = EmailAddress::parse("ADA@example.org").unwrap();
        let hash = PasswordHash::stored("another".into());
        assert_eq!(instance.store.create_user(&email, Role::Admin, &hash, Tz::UTC).await.unwrap(), NewUser::EmailTaken);
        let user = instance.store.user_by_email(&email).await.unwrap().unwrap();
        assert_eq!((user.id, user.role), (ada, Role::User));
        assert_ne!(instance.store.credentials(&email).await.unwrap().unwrap().1, hash);
    }

    #[tokio::test]
    async fn a_zone_is_kept() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        instance.store.set_zone(ada, Tz::Europe__Lisbon).await.unwrap();
        assert_eq!(instance.store.user(ada).await.unwrap().unwrap().zone, Tz::Europe__Lisbon);
        assert!(matches!(instance.store.set_zone(UserId::new(), Tz::UTC).await, Err(StoreError::Affected { .. })));
    }

    #[tokio::test]
    async fn a_new_password_ends_every_session() {
        let instance = Instance::new().await;
        let ada = instance.person("ada@example.org", "correct horse", Role::User).await;
        let secret = instance.store.create_session(ada, "Test", None).await.unwrap();
        let email = EmailAddress::parse("ada@example.org").unwrap();
        let hash = NewPassword::check("battery staple".into(), &email).unwrap().hash().await.unwrap();
        instance.store.set_password(ada, &hash).await.unwrap();
        assert!(instance.store.session_by_secret(&secret).await.unwrap().is_none());
        assert_eq!(instance.store.credentials(&email).await.unwrap().unwrap().1, hash);
    }
}
