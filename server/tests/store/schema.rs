//! The two schemas are one: the same tables with the same columns. Which types they have is each database's own affair.

use std::collections::BTreeSet;

use sqlx::query_as;
use tempfile::TempDir;

use crate::support::{
    instance::Instance,
    raw::{Raw, on},
};

/// Every column, as table, name and whether it may be null.
async fn columns(raw: &mut Raw) -> BTreeSet<(String, String, bool)> {
    let text = raw.either(
        "select tables.name, columns.name, not (columns.\"notnull\" or columns.pk) from sqlite_schema tables, pragma_table_info(tables.name) columns
         where tables.type = 'table' and tables.name not like 'sqlite_%' and tables.name <> '_sqlx_migrations'",
        "select table_name::text, column_name::text, is_nullable = 'YES' from information_schema.columns
         where table_schema = 'public' and table_name <> '_sqlx_migrations'",
    );
    let rows: Vec<(String, String, bool)> = on!(*raw, connection => query_as(text).fetch_all(connection).await).unwrap();
    rows.into_iter().collect()
}

/// The names of all constraints and indexes that somebody has given them.
async fn names(raw: &mut Raw) -> BTreeSet<String> {
    let text = raw.either(
        "select name from sqlite_schema where type in ('index', 'trigger') and name not like 'sqlite_%'",
        "select indexname::text from pg_indexes where schemaname = 'public'
         union select tgname::text from pg_trigger where not tgisinternal
         except select conname::text from pg_constraint",
    );
    let rows: Vec<(String,)> = on!(*raw, connection => query_as(text).fetch_all(connection).await).unwrap();
    rows.into_iter().map(|(name,)| name).collect()
}

/// Compares SQLite with itself where there is no PostgreSQL.
#[tokio::test]
async fn both_databases_have_the_same_tables() {
    let folder = TempDir::new().unwrap();
    let place = store::Place::Sqlite(folder.path().join("recount.sqlite3"));
    let clock = std::sync::Arc::new(domain::clock::SystemClock);
    store::Store::open(&place, clock, "recount.test").await.unwrap().close().await;
    let instance = Instance::new().await;
    let (mut file, mut other) = (Raw::open(&place).await, instance.raw().await);
    let in_file = columns(&mut file).await;
    assert!(in_file.contains(&("jobs".into(), "set_aside_at".into(), true)), "{in_file:?}");
    let differing: Vec<_> = in_file.symmetric_difference(&columns(&mut other).await).cloned().collect();
    assert_eq!(differing, []);
    assert_eq!(names(&mut file).await, names(&mut other).await);
}
