//! The database refuses by itself what the contract forbids, should the program ever have a bug.

use contract::StepKind;
use store::Claim;

use crate::support::{instance::Instance, raw::Raw};

/// A job whose first e-mail is in flight, and a connection for tampering with it.
async fn mailing() -> (Instance, Claim, Raw) {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Email, &["anna@example.org", "bert@example.org"]).await;
    instance.change(claim.id, |job| job.begin_effect(1, 2)).await.unwrap();
    let raw = instance.raw().await;
    (instance, claim, raw)
}

#[tokio::test]
async fn there_is_one_live_attempt_for_a_message() {
    let (_instance, claim, mut raw) = mailing().await;
    // The last, because what is done stays done.
    for outcome in ["in_flight", "in_doubt", "unconfirmed", "done"] {
        raw.tamper(&format!("update attempts set outcome = '{outcome}' where job_id = $1 and number = 2"), claim.id)
            .await
            .unwrap();
        let second = "insert into attempts (job_id, number, attempt, epoch, outcome, began_at)
                      values ($1, 2, 2, 1, 'in_flight', '2026-07-01T08:00:00+00:00')";
        let why = raw.refusal(second, claim.id).await;
        let expected = raw.either(
            "UNIQUE constraint failed: attempts.job_id, attempts.number",
            "duplicate key value violates unique constraint \"attempts_one_live\"",
        );
        assert_eq!(why, expected, "beside {outcome}");
    }

    let (_instance, claim, mut raw) = mailing().await;
    raw.tamper("update attempts set outcome = 'not_done' where job_id = $1 and number = 2", claim.id).await.unwrap();
    let second =
        "insert into attempts (job_id, number, attempt, epoch, outcome, began_at) values ($1, 2, 2, 1, 'in_flight', 'now')";
    raw.tamper(second, claim.id).await.unwrap();
}

#[tokio::test]
async fn there_is_one_message_for_a_recipient() {
    let (_instance, claim, mut raw) = mailing().await;
    let second = "insert into effects (job_id, number, kind, outcome, attempts, epoch, target, created_at, changed_at,
                                       job_kind, job_title, job_month, owner_email)
                  values ($1, 9, 'email', 'not_started', 0, 0, 'anna@example.org', 'now', 'now', 'report', '', '2026-06', 'ada@example.org')";
    assert_eq!(
        raw.refusal(second, claim.id).await,
        raw.either(
            "UNIQUE constraint failed: effects.job_id, effects.target",
            "duplicate key value violates unique constraint \"effects_one_message_per_recipient\"",
        )
    );
}

#[tokio::test]
async fn there_is_one_report_for_a_job() {
    let (_instance, claim, mut raw) = mailing().await;
    let some_id = raw.either("randomblob(16)", "gen_random_uuid()");
    let second = &format!(
        "insert into reports (id, job_id, title, markdown, html, provenance, created_at)
         values ({some_id}, $1, '', '', '', '{{}}', 'now')"
    );
    assert_eq!(
        raw.refusal(second, claim.id).await,
        raw.either(
            "UNIQUE constraint failed: reports.job_id",
            "duplicate key value violates unique constraint \"reports_job_id_key\""
        )
    );
}

/// Rows that no transition makes, with the constraint that refuses them.
const IMPOSSIBLE: &[(&str, &str)] = &[
    ("update jobs set phase = 'paused', lease_owner = null, lease_expires_at = null where id = $1", "phase in"),
    ("update jobs set phase = 'finished' where id = $1", "jobs_final_has_end"),
    ("update jobs set finished_at = 'now' where id = $1", "jobs_final_has_end"),
    ("update jobs set lease_expires_at = null where id = $1", "jobs_lease_whole"),
    ("update jobs set phase = 'queued' where id = $1", "jobs_lease_only_at_work"),
    ("update jobs set phase = 'stopping' where id = $1", "jobs_stopping_was_asked"),
    (
        "update jobs set phase = 'cancelled', finished_at = 'now', lease_owner = null, lease_expires_at = null where id = $1",
        "jobs_stopping_was_asked",
    ),
    ("update jobs set failure = 'why' where id = $1", "jobs_failure_has_reason"),
    (
        "update jobs set phase = 'failed', finished_at = 'now', lease_owner = null, lease_expires_at = null where id = $1",
        "jobs_failure_has_reason",
    ),
    ("update steps set state = 'paused' where job_id = $1", "state in"),
    ("update steps set kind = 'archive' where job_id = $1", "kind in"),
    ("update effects set outcome = 'sent' where job_id = $1 and number = 2", "outcome in"),
    ("update effects set outcome = 'done' where job_id = $1 and number = 2 and evidence is null", "effects_done_has_evidence"),
    ("update effects set outcome = 'done', evidence = '' where job_id = $1 and number = 2", "effects_done_has_evidence"),
    ("update effects set outcome = 'not_done' where job_id = $1 and number = 2", "effects_not_done_has_reason"),
    ("update effects set not_done = 'refused' where job_id = $1 and number = 2", "effects_not_done_has_reason"),
    ("update effects set outcome = 'not_done', not_done = 'lost' where job_id = $1 and number = 2", "not_done in"),
    ("update effects set outcome = 'in_doubt' where job_id = $1 and number = 1", "effects_doubt_is_email"),
    ("update attempts set outcome = 'not_started' where job_id = $1 and number = 2", "outcome in"),
];

/// Constraints without a name: SQLite quotes the condition, PostgreSQL names the column.
fn in_postgres(constraint: &str) -> &str {
    constraint.strip_suffix(" in").unwrap_or(constraint)
}

#[tokio::test]
async fn impossible_rows_are_refused() {
    let (instance, claim, mut raw) = mailing().await;
    let before = instance.record(claim.id).await;
    for (statement, constraint) in IMPOSSIBLE {
        let why = raw.refusal(statement, claim.id).await;
        let says_check = why.contains(raw.either("CHECK constraint failed", "violates check constraint"));
        let name = raw.either(constraint, in_postgres(constraint));
        assert!(says_check && why.contains(name), "\"{statement}\": {why}");
    }
    assert_eq!(instance.record(claim.id).await.job, before.job);
}

#[tokio::test]
async fn a_row_that_the_program_never_writes_is_named() {
    let (instance, claim, mut raw) = mailing().await;
    raw.tamper("update jobs set spec = '{}' where id = $1", claim.id).await.unwrap();
    let error = instance.store.job(claim.id).await.unwrap_err().to_string();
    assert_eq!(error, format!("inconsistent data in jobs.spec, row {}", claim.id));
}
