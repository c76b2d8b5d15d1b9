//! What a query costs must not depend on how much has happened before: every statement that the program makes, as its log tells
//! it, is held against a database with thousands of finished jobs, and must find its rows by an index.

use std::{collections::BTreeSet, io::Write};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Row, query, query_scalar, raw_sql};

use crate::support::{
    program::{Home, Served},
    raw::{Raw, on},
};

/// Finished jobs that are added to the real one.
const JOBS: usize = 3_000;
/// The tables that grow with the number of jobs.
const TABLES: [&str; 10] =
    ["jobs", "steps", "effects", "attempts", "history", "documents", "summaries", "messages", "reports", "probes"];
/// Indexes that hold only what is open, due, at work, or about another job.
const SHORT: [&str; 6] = ["jobs_open", "jobs_about", "jobs_at_work", "jobs_leases", "jobs_holds", "effects_open"];

#[tokio::test(flavor = "multi_thread")]
async fn no_query_reads_a_table_that_grows() {
    let home = Home::new();
    home.settings(&format!("[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n", home.documents().display()));
    home.run_with_input(&["user", "add", "--email", "ada@example.org", "--role", "admin"], "correct horse battery\n")
        .await
        .succeeded();
    let token = home.run(&["token", "create", "--email", "ada@example.org"]).await.succeeded().trim().to_owned();
    let served = home.serve(&[]).await;
    let first = served.order(&token, "first", &["anna@example.org"]).await;
    served.end_of(&token, &first).await;
    served.terminate().await;
    let mut raw = Raw::open(home.database()).await;
    grow(&mut raw).await;

    let served = Served::start(home.command(&["serve", "--listen", "127.0.0.1:0"]).env("RECOUNT_LOG", "sqlx::query=debug")).await;
    let job = served.order(&token, "second", &["anna@example.org"]).await;
    served.end_of(&token, &job).await;
    let held = served.order_held(&token, "third", &["anna@example.org"], "approval").await;
    served.settled(&token, &held, |job| job["steps"][3]["state"] == "running").await;
    served.cancel(&token, &held).await;
    served.end_of(&token, &held).await;
    served.newest_job(&token).await.expect("there are jobs");
    served.headline_on_page(&token, &job).await;
    for path in ["/api/v1/effects", "/api/v1/effects?outcome=unconfirmed", "/api/v1/effects?kind=email", "/jobs", "/"] {
        served.get(&token, path).await;
    }
    let statements = statements(&served.log());
    served.terminate().await;
    let mut wrong = Vec::new();
    for statement in &statements {
        wrong.extend(scans(&mut raw, statement).await.into_iter().map(|scan| format!("{scan}\n    {statement}")));
    }
    writeln!(std::io::stdout().lock(), "{} statements were held against {JOBS} finished jobs", statements.len()).unwrap();
    assert!(statements.len() > 40, "the log tells the statements: {statements:#?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Copies the finished job, with all that it has left behind.
async fn grow(raw: &mut Raw) {
    let id =
        raw.either("unhex('00' || hex(randomblob(15)))", "('00' || substr(md5(random()::text || numbers.n::text), 3))::uuid");
    let another = raw.either("randomblob(16)", "gen_random_uuid()");
    raw.run(&format!(
        "create table numbers (n bigint); create table originals (id {blob}); insert into originals select id from jobs;
         insert into numbers with recursive count (n) as (select 1 union all select n + 1 from count where n < {JOBS}) select n from count;",
        blob = raw.either("blob", "uuid"),
    ))
    .await;
    for table in TABLES {
        let columns = columns(raw, table).await;
        let values: Vec<String> = columns
            .iter()
            .map(|column| match (table, column.as_str()) {
                ("jobs", "id") => id.to_owned(),
                ("jobs", "request_key") | ("reports", "id") => another.to_owned(),
                ("jobs", _) => format!("old.{column}"),
                (_, "job_id") => "jobs.id".to_owned(),
                _ => format!("old.{column}"),
            })
            .collect();
        let from = match table {
            "jobs" => "jobs as old cross join numbers".to_owned(),
            _ => format!("{table} as old cross join jobs where jobs.id not in (select id from originals)"),
        };
        raw.run(&format!("insert into {table} ({}) select {} from {from}", columns.join(", "), values.join(", "))).await;
    }
    raw.run("drop table numbers; drop table originals").await;
    // PostgreSQL gathers statistics by itself; SQLite has none unless somebody asks for them, and Recount does not.
    raw.run(raw.either("", "analyze")).await;
}

/// The columns that are given when a row is made.
async fn columns(raw: &mut Raw, table: &str) -> Vec<String> {
    let text = raw.either(
        "select name from pragma_table_info($1) where not (name = 'id' and $1 = 'history') order by cid",
        "select column_name::text from information_schema.columns where table_name = $1 and is_identity = 'NO' order by ordinal_position",
    );
    on!(*raw, connection => query_scalar(text).bind(table).fetch_all(connection).await).expect("the table exists")
}

/// The texts of the statements in a log.
fn statements(log: &[String]) -> BTreeSet<String> {
    let told = log
        .iter()
        .filter_map(|line| value(line, "db.statement=").filter(|text| !text.is_empty()).or_else(|| value(line, "summary=")));
    let texts = told.map(|text| text.trim().to_owned());
    texts.filter(|text| ["select", "with", "insert", "update", "delete"].iter().any(|word| text.starts_with(word))).collect()
}

/// The text that a line has after `name`, between quotation marks.
fn value(line: &str, name: &str) -> Option<String> {
    let (_, from) = line.split_once(name)?;
    serde_json::Deserializer::from_str(from).into_iter::<String>().next()?.ok()
}

/// How a statement reads a growing table from its beginning to its end.
async fn scans(raw: &mut Raw, statement: &str) -> Vec<String> {
    // The database's sign of life, which reads one row.
    if statement == "select 1 from jobs limit 1" {
        return Vec::new();
    }
    let is_limited = statement.contains(" limit ");
    let found = match raw {
        Raw::Sqlite(_) => sqlite_plan(raw, statement).await,
        Raw::Postgres(_) => postgres_plan(raw, statement).await,
    };
    let whole = found.into_iter().filter(|(table, index)| {
        let is_short = index.as_deref().is_some_and(|index| SHORT.contains(&index) || is_limited);
        TABLES.contains(&table.as_str()) && !is_short
    });
    whole
        .map(|(table, index)| format!("reads the whole of {table}, {}", index.unwrap_or_else(|| "without an index".into())))
        .collect()
}

/// The tables that SQLite reads from beginning to end for a statement, each with the index that it follows.
async fn sqlite_plan(raw: &mut Raw, statement: &str) -> Vec<(String, Option<String>)> {
    let Raw::Sqlite(connection) = raw else { return Vec::new() };
    let rows = query(AssertSqlSafe(format!("explain query plan {statement}"))).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{error} in {statement}"));
    let details = rows.iter().map(|row| row.get::<String, _>("detail"));
    // "SCAN jobs", "SCAN jobs USING COVERING INDEX jobs_open"
    let scans = details
        .filter_map(|detail| detail.strip_prefix("SCAN ").map(|scan| scan.split(' ').map(str::to_owned).collect::<Vec<_>>()));
    scans.map(|words| (words[0].clone(), words.iter().skip_while(|word| *word != "INDEX").nth(1).cloned())).collect()
}

/// The same for PostgreSQL, for a plan that knows no values, as it makes for statements that come often.
async fn postgres_plan(raw: &mut Raw, statement: &str) -> Vec<(String, Option<String>)> {
    let Raw::Postgres(connection) = raw else { return Vec::new() };
    let mut types = Vec::new();
    for number in (1..).take_while(|number| statement.contains(&format!("${number}"))) {
        let column = compared_with(statement, number).unwrap_or_default();
        let found: Option<String> = query_scalar("select data_type::text from information_schema.columns where column_name = $1")
            .bind(column)
            .fetch_optional(&mut *connection)
            .await
            .expect("the database tells its columns");
        types.push(found.unwrap_or_else(|| "unknown".into()));
    }
    let (types, values) = if types.is_empty() {
        (String::new(), String::new())
    } else {
        (format!("({})", types.join(", ")), format!("({})", vec!["null"; types.len()].join(", ")))
    };
    // As the program's own sessions have it. Tables of this size may be read as a whole; the question is whether they have to be.
    let prepared = format!(
        "set enable_bitmapscan = off; set enable_seqscan = off; set plan_cache_mode = force_generic_plan; prepare asked{types} as {statement}"
    );
    raw_sql(AssertSqlSafe(prepared)).execute(&mut *connection).await.unwrap_or_else(|error| panic!("{error} in {statement}"));
    let plan: Value = query_scalar(AssertSqlSafe(format!("explain (format json) execute asked{values}")))
        .fetch_one(&mut *connection)
        .await
        .unwrap_or_else(|error| panic!("{error} in {statement}"));
    raw_sql("deallocate asked").execute(&mut *connection).await.expect("it was prepared");
    let mut scans = Vec::new();
    collect_scans(&plan, &mut scans);
    scans
}

/// The column that a parameter is compared with, by itself or as one of several, which has its type.
fn compared_with(statement: &str, number: usize) -> Option<&str> {
    let name = format!("${number}");
    statement.match_indices(&name).find_map(|(at, _)| {
        if statement[at + name.len()..].starts_with(|next: char| next.is_ascii_digit()) {
            return None;
        }
        let before = statement[..at].trim_end();
        let (before, place) = match before.rsplit_once('(') {
            Some((outside, inside)) if inside.chars().all(|c| c.is_ascii_digit() || [' ', ',', '$'].contains(&c)) => {
                (outside.trim_end(), inside.matches(',').count())
            }
            _ => (before, 0),
        };
        let compared = before.strip_suffix(['<', '>', '='])?.trim_end_matches(['<', '>']);
        let column = match compared.trim_end().strip_suffix(')').and_then(|list| list.rsplit_once('(')) {
            Some((_, list)) => list.split(',').nth(place)?,
            None => compared.trim_end().rsplit([' ', '(', '\n']).next()?,
        };
        column.trim().rsplit('.').next()
    })
}

fn collect_scans(plan: &Value, scans: &mut Vec<(String, Option<String>)>) {
    match plan {
        Value::Array(parts) => parts.iter().for_each(|part| collect_scans(part, scans)),
        Value::Object(node) => {
            let text = |name: &str| node.get(name).and_then(Value::as_str).map(str::to_owned);
            if let (Some(kind), Some(table)) = (text("Node Type"), text("Relation Name"))
                && kind.ends_with("Scan")
                && !node.contains_key("Index Cond")
            {
                scans.push((table, text("Index Name")));
            }
            node.values().for_each(|part| collect_scans(part, scans));
        }
        _ => {}
    }
}
