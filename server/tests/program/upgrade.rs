//! Machines are brought up to date one after the other: what a newer version adds to the database does not disturb this one, which
//! works until the newer one says that it must not.

use crate::support::{
    program::Home,
    raw::Raw,
    smtp_server::{Script, Server},
};

/// A migration of a version to come: it only adds.
const NEWER: [(&str, &str); 2] = [
    (
        "alter table jobs add column colour text not null default 'red';
         create table colours (name text not null primary key) strict",
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'colours', true, x'00', 1)",
    ),
    (
        "alter table jobs add column colour text not null default 'red';
         create table colours (name text not null primary key)",
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
         values (9999, 'colours', true, '\\x00', 1)",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_that_only_adds_runs_beside_this_one_and_one_that_changes_does_not() {
    let server = Server::start(Script::default());
    let home = Home::with_smtp(server.port);
    let token = home.token("ada@example.org").await;
    let old = home.serve(&[]).await;
    let first = old.order(&token, "before", &["anna@example.org"]).await;
    assert_eq!(old.end_of(&token, &first).await["phase"], "finished");

    let mut raw = Raw::open(home.database()).await;
    let [sqlite, postgres] = NEWER;
    for (sqlite, postgres) in [(sqlite.0, postgres.0), (sqlite.1, postgres.1)] {
        let statement = raw.either(sqlite, postgres);
        raw.run(statement).await;
    }
    // Everything that it had prepared before is used again.
    let second = old.order(&token, "after", &["anna@example.org"]).await;
    assert_eq!(old.end_of(&token, &second).await["phase"], "finished");
    assert_eq!(old.headline_on_page(&token, &first).await, "Report saved; email accepted by the mail service");
    let third = old.order_held(&token, "held", &["anna@example.org"], "approval").await;
    old.settled(&token, &third, |job| !job["hold"].is_null()).await;
    old.terminate().await;

    let again = home.serve(&[]).await;
    assert_eq!(again.cancel(&token, &third).await["outcome"], "accepted");
    let fourth = again.order(&token, "again", &["anna@example.org"]).await;
    assert_eq!(again.end_of(&token, &fourth).await["phase"], "finished");
    assert_eq!(raw.number("select count(*) from jobs where colour = 'red'").await, 4);

    raw.run("update compatibility set oldest_migration = 9999").await;
    let refused = home.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let told = "A newer version of Recount has changed this database so that this one cannot work with it any more. \
                Start the newer version.";
    assert!(refused.err.contains(told), "{}", refused.err);
    // It is not stopped, but nothing is started beside it.
    let fifth = again.order(&token, "last", &["anna@example.org"]).await;
    assert_eq!(again.end_of(&token, &fifth).await["phase"], "finished");
    again.terminate().await;
}
