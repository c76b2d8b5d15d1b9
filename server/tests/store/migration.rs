//! A database of the first version, with something in every table, opened by this one.

use std::{collections::HashMap, path::Path, sync::Arc};

use chrono::{DateTime, Utc};
use contract::{JobKind, NotDone, Outcome, Phase, Verdict};
use domain::{
    clock::ManualClock,
    id::{JobId, RequestKey, UserId},
    people::Scopes,
};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection, migrate::Migrator, query_scalar, raw_sql, sqlite::SqliteConnectOptions};
use store::{EffectFilter, EffectPart, Place, Store};
use uuid::Uuid;

use crate::support::instance::{PATIENCE, terms};

const MIGRATIONS: Migrator = sqlx::migrate!("../migrations/sqlite");

/// ada's job has ended with an unconfirmed and a refused e-mail; a second one of hers waits. An effect with an attempt and a
/// message is left of a job that somebody has deleted by hand.
const ROWS: &str = r#"
insert into users values (x'00000000000000000000000000000001', 'ada@example.org', 'admin', 'hash', 'Europe/Berlin', '2026-06-01T08:00:00+00:00');
insert into sessions values (x'00000000000000000000000000000002', x'02', x'00000000000000000000000000000001', 'Test', '2026-06-01T08:00:00+00:00',
    '2026-06-01T08:00:00+00:00', '2026-09-01T08:00:00+00:00');
insert into tokens values (x'00000000000000000000000000000003', x'03', x'00000000000000000000000000000001', 'script', '2026-06-01T08:00:00+00:00', null);
insert into sign_in_failures values ('ada@example.org', '2026-06-01T08:00:00+00:00');
insert into drafts values (x'00000000000000000000000000000001', x'00000000000000000000000000000004', '{}', '2026-06-01T08:00:00+00:00');
insert into uploads values (x'00000000000000000000000000000005', x'00000000000000000000000000000001', x'00000000000000000000000000000011',
    'minutes.md', 3, x'05', null, null, '2026-06-01T08:00:00+00:00', x'616263');
insert into jobs values (x'00000000000000000000000000000010', x'00000000000000000000000000000001', x'00000000000000000000000000000011', 'Minutes',
    '2026-05', '{"title":"Minutes","month":"2026-05","start":"2026-04-30T22:00:00Z","end":"2026-05-31T22:00:00Z","zone":"Europe/Berlin","sources":[],"recipients":["anna@example.org","bert@example.org"],"instructions":null}',
    'finished', 9, 1, null, null, 0, null, null, null, '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:01+00:00', '2026-06-01T08:00:09+00:00', null, null);
insert into jobs values (x'00000000000000000000000000000020', x'00000000000000000000000000000001', x'00000000000000000000000000000021', '',
    '2026-05', '{"title":"","month":"2026-05","start":"2026-04-30T22:00:00Z","end":"2026-05-31T22:00:00Z","zone":"Europe/Berlin","sources":[],"recipients":["anna@example.org"],"instructions":"Sums","hold":"30"}',
    'queued', 1, 0, null, null, 0, null, null, null, '2026-06-02T08:00:00+00:00', null, null, null, null);
insert into steps values (x'00000000000000000000000000000010', 0, 'collect', 'done', 2, 2, '2026-06-01T08:00:01+00:00', '2026-06-01T08:00:02+00:00');
insert into steps values (x'00000000000000000000000000000010', 1, 'summarize', 'done', 1, 1, '2026-06-01T08:00:02+00:00', '2026-06-01T08:00:03+00:00');
insert into steps values (x'00000000000000000000000000000010', 2, 'save', 'done', 0, 0, '2026-06-01T08:00:03+00:00', '2026-06-01T08:00:04+00:00');
insert into steps values (x'00000000000000000000000000000010', 3, 'email', 'done', 2, 2, '2026-06-01T08:00:04+00:00', '2026-06-01T08:00:09+00:00');
insert into steps values (x'00000000000000000000000000000020', 0, 'collect', 'pending', 0, 0, null, null);
insert into steps values (x'00000000000000000000000000000020', 1, 'summarize', 'pending', 0, 0, null, null);
insert into steps values (x'00000000000000000000000000000020', 2, 'save', 'pending', 0, 0, null, null);
insert into steps values (x'00000000000000000000000000000020', 3, 'hold', 'pending', 0, 0, null, null);
insert into steps values (x'00000000000000000000000000000020', 4, 'email', 'pending', 0, 0, null, null);
insert into effects values (x'00000000000000000000000000000010', 1, 'report', 'done', null, 1, 1, 'saved', 'Minutes', null, '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:04+00:00');
insert into effects values (x'00000000000000000000000000000010', 2, 'email', 'unconfirmed', null, 1, 1, 'no answer', 'anna@example.org', '<2@r>', '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:08+00:00');
insert into effects values (x'00000000000000000000000000000010', 3, 'email', 'not_done', 'refused', 1, 1, '550', 'bert@example.org', '<3@r>', '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:09+00:00');
insert into effects values (x'00000000000000000000000000000020', 1, 'report', 'not_started', null, 0, 0, null, '', null, '2026-06-02T08:00:00+00:00', '2026-06-02T08:00:00+00:00');
insert into effects values (x'00000000000000000000000000000020', 2, 'email', 'not_started', null, 0, 0, null, 'anna@example.org', '<4@r>', '2026-06-02T08:00:00+00:00', '2026-06-02T08:00:00+00:00');
insert into effects values (x'00000000000000000000000000000030', 2, 'email', 'done', null, 1, 1, '250', 'carl@example.org', '<5@r>', '2026-01-31T23:00:00+00:00', '2026-02-01T08:00:00+00:00');
insert into attempts values (x'00000000000000000000000000000010', 1, 1, 1, 'done', 'saved', '2026-06-01T08:00:04+00:00', null, '2026-06-01T08:00:04+00:00');
insert into attempts values (x'00000000000000000000000000000010', 2, 1, 1, 'unconfirmed', 'no answer', '2026-06-01T08:00:05+00:00', '2026-06-01T08:00:06+00:00', '2026-06-01T08:00:08+00:00');
insert into attempts values (x'00000000000000000000000000000010', 3, 1, 1, 'not_done', '550', '2026-06-01T08:00:08+00:00', null, '2026-06-01T08:00:09+00:00');
insert into attempts values (x'00000000000000000000000000000030', 2, 1, 1, 'done', '250', '2026-02-01T08:00:00+00:00', '2026-02-01T08:00:00+00:00', '2026-02-01T08:00:00+00:00');
insert into history values (1, x'00000000000000000000000000000010', null, '2026-06-01T08:00:00+00:00', 'Created');
insert into history values (2, x'00000000000000000000000000000010', 2, '2026-06-01T08:00:08+00:00', 'E-mail to anna@example.org: unconfirmed');
insert into history values (3, x'00000000000000000000000000000030', 2, '2026-02-01T08:00:00+00:00', 'E-mail to carl@example.org: accepted');
insert into documents values (x'00000000000000000000000000000010', 1, 1, 'Minutes', 'a.md', null, x'0a', '1 May 2026', 'its name', 'read', null, 'text');
insert into summaries values (x'00000000000000000000000000000010', '{}');
insert into messages values (x'00000000000000000000000000000010', 2, 'r@example.org', 'anna@example.org', '<2@r>', x'02', x'6d', '2026-06-01T08:00:04+00:00');
insert into messages values (x'00000000000000000000000000000010', 3, 'r@example.org', 'bert@example.org', '<3@r>', x'03', x'6d', '2026-06-01T08:00:04+00:00');
insert into messages values (x'00000000000000000000000000000030', 2, 'r@example.org', 'carl@example.org', '<5@r>', x'05', x'6d', '2026-02-01T08:00:00+00:00');
insert into reports values (x'00000000000000000000000000000040', x'00000000000000000000000000000010', 'Minutes, May 2026', '# m', '<h1>m</h1>', '{}', '2026-06-01T08:00:04+00:00');
"#;

const ENDED: JobId = JobId(Uuid::from_u128(0x10));
const WAITING: JobId = JobId(Uuid::from_u128(0x20));
const DELETED: JobId = JobId(Uuid::from_u128(0x30));

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true).foreign_keys(true).busy_timeout(PATIENCE);
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// The rows of every table as text, column by column.
async fn dump(raw: &mut SqliteConnection, columns: &HashMap<String, Vec<String>>) -> HashMap<String, Vec<String>> {
    let mut tables = HashMap::new();
    for (table, columns) in columns {
        let row = columns.iter().map(|column| format!("quote({column})")).collect::<Vec<_>>().join("||'|'||");
        let rows = query_scalar(AssertSqlSafe(format!("select {row} from {table} order by 1"))).fetch_all(&mut *raw).await;
        tables.insert(table.clone(), rows.unwrap());
    }
    tables
}

async fn columns(raw: &mut SqliteConnection) -> HashMap<String, Vec<String>> {
    let tables: Vec<String> = query_scalar("select name from sqlite_master where type = 'table' and name not like '%sqlx%'")
        .fetch_all(&mut *raw)
        .await
        .unwrap();
    let mut found = HashMap::new();
    for table in tables {
        let names = query_scalar("select name from pragma_table_info($1)").bind(&table).fetch_all(&mut *raw).await.unwrap();
        found.insert(table, names);
    }
    found
}

/// Names of everything of a kind that the schema has.
async fn names(raw: &mut SqliteConnection, kind: &str) -> Vec<String> {
    let query = query_scalar("select name from sqlite_master where type = $1 and name not like 'sqlite_%' order by name");
    query.bind(kind).fetch_all(raw).await.unwrap()
}

/// A store on a database of the first version with these rows; and what was in it before.
async fn migrated(rows: &'static str) -> (tempfile::TempDir, Store, SqliteConnection, HashMap<String, Vec<String>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recount.sqlite3");
    let mut raw = connect(&path).await;
    let first = MIGRATIONS.iter().find(|migration| migration.version == 1).unwrap().clone();
    Migrator::with_migrations(vec![first]).run(&mut raw).await.unwrap();
    raw_sql(rows).execute(&mut raw).await.unwrap();
    let old = columns(&mut raw).await;
    let before = dump(&mut raw, &old).await;
    raw.close().await.unwrap();

    let now: DateTime<Utc> = "2026-07-01T08:00:00Z".parse().unwrap();
    let store = Store::open(&Place::Sqlite(path.clone()), Arc::new(ManualClock::new(now)), "recount.test").await.unwrap();
    let mut raw = connect(&path).await;
    assert_eq!(dump(&mut raw, &old).await, before, "everything is still there as it was");
    (folder, store, raw, before)
}

#[tokio::test]
async fn everything_is_still_there_and_can_be_used() {
    let (_folder, store, mut raw, before) = migrated(ROWS).await;
    assert!(before.values().all(|rows| !rows.is_empty()), "the test has forgotten a table: {before:?}");
    let broken: Vec<String> = query_scalar("select \"table\" from pragma_foreign_key_check").fetch_all(&mut raw).await.unwrap();
    assert_eq!(broken, [""; 0]);
    assert_eq!(query_scalar::<_, String>("pragma integrity_check").fetch_one(&mut raw).await.unwrap(), "ok");

    let ended = store.job(ENDED).await.unwrap().unwrap();
    assert_eq!((ended.job.kind, ended.job.phase, ended.row.version), (JobKind::Report, Phase::Finished, 9));
    assert_eq!(store.report_of_job(ENDED).await.unwrap().unwrap().withdrawn_at, None);
    assert!(store.mailings_about(ENDED).await.unwrap().is_empty());
    let waiting = store.claim_job("worker", terms(None)).await.unwrap().unwrap();
    assert_eq!(waiting.id, WAITING);

    // Its token may do what it could do before.
    let tokens = store.tokens_of(UserId(Uuid::from_u128(1))).await.unwrap();
    assert_eq!(tokens.iter().map(|token| (token.name.as_str(), token.scopes)).collect::<Vec<_>>(), [("script", Scopes::ALL)]);

    // The history of effects has learned whose they are.
    let all = store.effects(EffectPart::Settled, &EffectFilter::default(), None, 100).await.unwrap();
    let told: Vec<_> = all.iter().map(|one| (one.job_id, one.number, one.job_title.as_str(), one.owner_email.as_str())).collect();
    assert_eq!(
        told,
        [
            (ENDED, 3, "Minutes, May 2026", "ada@example.org"),
            (ENDED, 1, "Minutes, May 2026", "ada@example.org"),
            // What is known of a job that was gone already: the month in which it was asked for.
            (DELETED, 2, "January 2026", ""),
        ]
    );
    assert_eq!(all[2].job_phase, None);
    let attempts = store.effect(DELETED, 2).await.unwrap().unwrap().attempts;
    assert_eq!((attempts.len(), attempts[0].outcome), (1, Outcome::Done));
}

#[tokio::test]
async fn what_the_new_version_does_is_possible_with_old_rows() {
    let (_folder, store, mut raw, _) = migrated(ROWS).await;
    let due = store.due_probes().await.unwrap();
    assert_eq!(due.iter().map(|look| (look.job, look.number, look.round)).collect::<Vec<_>>(), [(ENDED, 2, 1)]);
    assert!(store.begin_look(&due[0], "archive").await.unwrap());
    store.settle_by_person(ENDED, 2, false, "ada@example.org", "nothing came").await.unwrap().unwrap();
    let settled = store.job(ENDED).await.unwrap().unwrap().job.effect(2).cloned().unwrap();
    assert_eq!((settled.outcome, settled.not_done), (Outcome::NotDone, Some(NotDone::Attested)));
    let task = domain::spec::Task::SecondCopy { about: ENDED, number: 2 };
    let copy = store.order_mailing(RequestKey::new(), task, "ada@example.org", "why", true).await.unwrap();
    assert!(matches!(copy, store::Mailing::Job(_)), "a message may be there twice: {copy:?}");
    store.withdraw_report(ENDED, "ada@example.org", "wrong").await.unwrap().unwrap();

    // The constraints and the triggers of both versions stand.
    for (statement, why) in [
        ("delete from effects", "effects are never deleted"),
        ("delete from attempts", "attempts are never deleted"),
        ("delete from looks", "looks are never deleted"),
        ("delete from decisions", "decisions are never deleted"),
        ("delete from history where effect is not null", "entries about effects are never deleted"),
        ("update history set entry = ''", "the history never changes"),
        ("update effects set target = '' where outcome <> 'done'", "the intent of an effect never changes"),
        ("update effects set job_title = 'x' where outcome <> 'done'", "the intent of an effect never changes"),
        ("update effects set evidence = 'x' where outcome = 'done'", "an effect that is done never changes"),
        ("update attempts set evidence = 'x' where outcome = 'not_done'", "an attempt that is settled never changes"),
        ("update effects set outcome = 'sent'", "CHECK constraint failed"),
        (
            "insert into attempts select job_id, number, 2, 1, 'done', '', '', null, '', null, null, null from attempts where outcome = 'done'",
            "UNIQUE",
        ),
        (
            "insert into attempts select job_id, 99, 1, 1, 'done', '', '', null, '', null, null, null from attempts limit 1",
            "FOREIGN KEY",
        ),
        ("insert into messages select job_id, 99, '', '', '', x'', x'', '' from messages limit 1", "FOREIGN KEY"),
        ("delete from users", "FOREIGN KEY"),
    ] {
        match raw_sql(statement).execute(&mut raw).await {
            Err(sqlx::Error::Database(error)) => assert!(error.message().contains(why), "\"{statement}\": {error}"),
            other => panic!("\"{statement}\" should have been refused, but: {other:?}"),
        }
    }
    let forgotten = store.forget_effects("2026-03-01T00:00:00Z".parse().unwrap()).await.unwrap();
    assert_eq!(forgotten, 1, "the one whose job is deleted, with its message");
    assert!(store.effect(DELETED, 2).await.unwrap().is_none());
}

#[tokio::test]
async fn an_old_database_gets_the_schema_of_a_new_one() {
    let (_folder, _store, mut raw, before) = migrated("").await;
    assert!(before.values().all(Vec::is_empty));
    let triggers = [
        "attempts_settled_stay",
        "attempts_stay",
        "decisions_never_change",
        "decisions_stay",
        "effects_contradiction_stays",
        "effects_done_stay",
        "effects_intent_stays",
        "effects_stay",
        "history_of_deleted_job",
        "history_of_effects_stays",
        "history_stays",
        "looks_ended_stay",
        "looks_stay",
    ];
    assert_eq!(names(&mut raw, "trigger").await, triggers);
    let tables = names(&mut raw, "table").await;
    assert!(!tables.iter().any(|name| name.starts_with("new_")), "{tables:?}");
    for index in
        ["attempts_one_live", "effects_one_message_per_recipient", "effects_one_withdrawal", "effects_open", "jobs_about"]
    {
        assert!(names(&mut raw, "index").await.contains(&index.to_owned()), "{index}");
    }
}

/// A worker of the first version may have died with a message in doubt; this one accounts for it.
#[tokio::test]
async fn what_was_under_way_is_accounted_for() {
    const UNDER_WAY: &str = "
        insert into users values (x'00000000000000000000000000000001', 'ada@example.org', 'admin', 'hash', 'UTC', '2026-06-01T08:00:00+00:00');
        insert into jobs values (x'00000000000000000000000000000010', x'00000000000000000000000000000001', x'00000000000000000000000000000011', 'Minutes', '2026-05',
            '{\"title\":\"Minutes\",\"month\":\"2026-05\",\"start\":\"2026-05-01T00:00:00Z\",\"end\":\"2026-06-01T00:00:00Z\",\"zone\":\"UTC\",\"sources\":[],\"recipients\":[\"anna@example.org\"],\"instructions\":null}',
            'running', 9, 1, 'worker', '2026-06-01T08:01:00+00:00', 0, null, null, null, '2026-06-01T08:00:00+00:00',
            '2026-06-01T08:00:01+00:00', null, null, null);
        insert into steps values (x'00000000000000000000000000000010', 0, 'collect', 'done', 2, 2, null, null);
        insert into steps values (x'00000000000000000000000000000010', 1, 'summarize', 'done', 1, 1, null, null);
        insert into steps values (x'00000000000000000000000000000010', 2, 'save', 'done', 0, 0, null, null);
        insert into steps values (x'00000000000000000000000000000010', 3, 'email', 'running', 0, 1, null, null);
        insert into effects values (x'00000000000000000000000000000010', 1, 'report', 'done', null, 1, 1, 'saved', 'Minutes', null,
            '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:04+00:00');
        insert into effects values (x'00000000000000000000000000000010', 2, 'email', 'in_doubt', null, 1, 1, null, 'anna@example.org', '<2@r>',
            '2026-06-01T08:00:00+00:00', '2026-06-01T08:00:08+00:00');
        insert into attempts values (x'00000000000000000000000000000010', 2, 1, 1, 'in_doubt', null, '2026-06-01T08:00:05+00:00', '2026-06-01T08:00:06+00:00', null);";
    let (_folder, store, _raw, _) = migrated(UNDER_WAY).await;
    assert_eq!(store.expired_leases().await.unwrap(), [ENDED]);
    store.recover_job(ENDED).await.unwrap().unwrap();
    assert_eq!(store.job(ENDED).await.unwrap().unwrap().job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
    assert!(store.settle_by_channel(ENDED, 2, Verdict::Done("found".into())).await.unwrap());
}
