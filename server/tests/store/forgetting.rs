//! What a deletion takes away, what it leaves, and when that may be forgotten as well.

use chrono::TimeDelta;
use contract::{EffectKind, Outcome, StepKind};
use domain::id::{JobId, RequestKey, UploadId, UserId};
use sqlx::query;
use store::{EffectFilter, EffectPart, NewUpload, ProbeResult, Ruling};

use crate::support::{
    ended::{accepted, ordered, refused, unanswered},
    instance::{Instance, refusal},
    raw::{Raw, on},
};

const ANNA: &str = "anna@example.org";
const BERT: &str = "bert@example.org";
const ADA: &str = "ada@example.org";

/// How many rows each of these tables has of a job. `$1` is the job.
const OF_THE_JOB: &[(&str, &str)] = &[
    ("jobs", "select count(*) from jobs where id = $1"),
    ("steps", "select count(*) from steps where job_id = $1"),
    ("documents", "select count(*) from documents where job_id = $1"),
    ("summaries", "select count(*) from summaries where job_id = $1"),
    ("reports", "select count(*) from reports where job_id = $1"),
    ("messages", "select count(*) from messages where job_id = $1"),
    ("history", "select count(*) from history where job_id = $1 and effect is null"),
];
const OF_ITS_EFFECTS: &[(&str, &str)] = &[
    ("effects", "select count(*) from effects where job_id = $1"),
    ("attempts", "select count(*) from attempts where job_id = $1"),
    ("probes", "select count(*) from probes where job_id = $1"),
    ("decisions", "select count(*) from decisions where job_id = $1"),
    ("history of effects", "select count(*) from history where job_id = $1 and effect is not null"),
];

async fn count(raw: &mut Raw, tables: &[(&'static str, &'static str)], job: JobId) -> Vec<(&'static str, i64)> {
    let mut counts = Vec::new();
    for (table, text) in tables {
        counts.push((*table, raw.number_of(text, job).await));
    }
    counts
}

/// Adds a file to what a job was made from, which no form would take any more.
async fn add_upload(raw: &mut Raw, owner: UserId, key: RequestKey) {
    let text = "insert into uploads (id, owner_id, request_key, name, size, sha256, created_at, bytes)
                values ($1, $2, $3, 'a.md', 3, $4, '2026-07-01T08:00:00+00:00', $5)";
    on!(*raw, connection => {
        let upload = query(text).bind(UploadId::new()).bind(owner).bind(key).bind([0_u8; 32].as_slice()).bind(b"abc".as_slice());
        upload.execute(connection).await.map(drop)
    })
    .unwrap();
}

/// A job with rows in every table: anna's e-mail was unconfirmed, looked for and settled by a person; bert's was refused.
async fn whole(instance: &Instance) -> JobId {
    let id = instance.ended(&[(ANNA, unanswered()), (BERT, refused())]).await;
    let mut raw = instance.raw().await;
    for text in [
        "insert into documents (job_id, position, source, name, state, text) values ($1, 1, 'Minutes', 'a.md', 'read', 'secret')",
        "insert into summaries (job_id, draft) values ($1, '{}')",
    ] {
        raw.tamper(text, id).await.unwrap();
    }
    instance.clock.advance(TimeDelta::minutes(1));
    let due = instance.store.due_probes().await.unwrap();
    let look = due.iter().find(|look| look.job == id).unwrap();
    assert!(instance.store.begin_look(look, "archive").await.unwrap());
    instance.store.end_look(look, "archive", ProbeResult::Nothing, "asked for <2@r>").await.unwrap();
    instance.store.settle_by_person(id, 2, false, "admin@example.org", "nothing came").await.unwrap().unwrap();
    id
}

#[tokio::test]
async fn a_deletion_takes_what_the_job_has_made_and_leaves_what_it_has_done() {
    let instance = Instance::new().await;
    let (id, other) = (whole(&instance).await, whole(&instance).await);
    let key = instance.record(id).await.row.request_key;
    instance.store.save_draft(instance.owner, key, "{\"recipients\": \"secret\"}").await.unwrap();
    let mut raw = instance.raw().await;
    add_upload(&mut raw, instance.owner, key).await;
    let correction = {
        // Nobody has got the link by the first messages, so a second copy has to go out first.
        let copy = ordered(instance.second_copy(id, 3).await);
        instance.mail(copy, accepted()).await;
        ordered(instance.correction(id).await)
    };
    instance.mail(correction, refused()).await;
    let copy_of_correction = ordered(instance.second_copy(correction, 1).await);
    instance.mail(copy_of_correction, accepted()).await;
    instance.store.withdraw_report(id, ADA, "wrong").await.unwrap().unwrap();
    let left = count(&mut raw, OF_ITS_EFFECTS, id).await;
    assert!(count(&mut raw, OF_THE_JOB, id).await.iter().chain(&left).all(|(_, rows)| *rows > 0), "the test has a gap: {left:?}");
    let untouched = (count(&mut raw, OF_THE_JOB, other).await, count(&mut raw, OF_ITS_EFFECTS, other).await);

    assert_eq!(instance.store.delete_job(id, ADA, "asked for by anna").await.unwrap(), Some(()));
    for gone in [id, correction, copy_of_correction] {
        assert!(
            count(&mut raw, OF_THE_JOB, gone).await.iter().all(|(_, rows)| *rows == 0),
            "{:?}",
            count(&mut raw, OF_THE_JOB, gone).await
        );
        assert!(instance.store.job(gone).await.unwrap().is_none());
    }
    let kept: Vec<_> = left
        .iter()
        .map(|(table, rows)| (*table, rows + i64::from(matches!(*table, "effects" | "attempts" | "decisions"))))
        .collect();
    let now = count(&mut raw, OF_ITS_EFFECTS, id).await;
    assert_eq!(now[..4], kept[..4], "the deletion itself is one more");
    assert!(now[4].1 > kept[4].1);
    assert!(instance.store.uploads(instance.owner, key).await.unwrap().is_empty());
    assert_eq!(instance.store.draft(instance.owner, key).await.unwrap(), None);
    assert_eq!((count(&mut raw, OF_THE_JOB, other).await, count(&mut raw, OF_ITS_EFFECTS, other).await), untouched);

    // The history still tells whose it was and what about.
    for (job, title) in [
        (id, "Minutes, June 2026"),
        (correction, "Correction: Minutes, June 2026"),
        (copy_of_correction, "Second copy: Minutes, June 2026"),
    ] {
        let filter = EffectFilter { job: Some(job), ..EffectFilter::default() };
        for entry in instance.store.effects(EffectPart::Settled, &filter, None, 100).await.unwrap() {
            assert_eq!((entry.job_title.as_str(), entry.owner_email.as_str(), entry.job_phase), (title, ADA, None));
            assert_eq!(entry.month, "2026-06".parse().unwrap());
        }
    }
    let deletion = instance.store.effect(id, 5).await.unwrap().unwrap();
    assert_eq!((deletion.entry.kind, deletion.entry.outcome), (EffectKind::Deletion, Outcome::Done));
    assert_eq!(deletion.entry.evidence.as_deref(), Some("deleted by ada@example.org: asked for by anna"));
    let decisions = instance.store.decisions(id, 5).await.unwrap();
    assert_eq!((decisions[0].ruling, decisions[0].reason.as_str()), (Ruling::Delete, "asked for by anna"));
    assert_eq!(instance.store.probes(id, 2).await.unwrap().len(), 1);

    assert_eq!(instance.store.delete_job(id, ADA, "again").await.unwrap(), None);
    assert_eq!(instance.store.settle_by_person(id, 2, true, ADA, "too late").await.unwrap(), None);
    assert_eq!(instance.store.withdraw_report(id, ADA, "too late").await.unwrap(), None);
}

#[tokio::test]
async fn what_somebody_may_still_have_to_settle_is_not_deleted() {
    let instance = Instance::new().await;
    let running = instance.job_at(StepKind::Email, &[ANNA]).await;
    refusal(instance.store.delete_job(running.id, ADA, "why").await);
    instance.store.cancel_job(running.id, ADA).await.unwrap();
    refusal(instance.store.delete_job(running.id, ADA, "why").await);
    instance.change(running.id, |job| job.account(running.epoch)).await.unwrap();
    instance.store.delete_job(running.id, ADA, "why").await.unwrap().unwrap();

    let id = instance.ended(&[(ANNA, accepted()), (BERT, unanswered())]).await;
    refusal(instance.store.delete_job(id, ADA, "bert's is unconfirmed").await);
    instance.store.settle_by_person(id, 3, true, ADA, "bert has it").await.unwrap();
    let correction = ordered(instance.correction(id).await);
    refusal(instance.store.delete_job(id, ADA, "the correction waits").await);
    instance.mail(correction, unanswered()).await;
    refusal(instance.store.delete_job(id, ADA, "the correction is unconfirmed").await);
    let copy = ordered(instance.second_copy(correction, 1).await);
    for number in [1, 2] {
        instance.store.settle_by_person(correction, number, false, ADA, "nothing came").await.unwrap();
    }
    refusal(instance.store.delete_job(id, ADA, "a copy of the correction waits").await);
    instance.mail(copy, unanswered()).await;
    refusal(instance.store.delete_job(id, ADA, "a copy of the correction is unconfirmed").await);
    assert!(instance.store.job(id).await.unwrap().is_some());
    assert!(instance.report_exists(id).await);
    instance.store.settle_by_person(copy, 1, true, ADA, "there it is").await.unwrap();
    // Its report's page tells by it who has got what.
    refusal(instance.store.delete_job(copy, ADA, "a mailing by itself").await);
    instance.store.delete_job(id, ADA, "now").await.unwrap().unwrap();
    assert!(instance.store.job(copy).await.unwrap().is_none());
}

#[tokio::test]
async fn a_form_filled_in_from_a_deleted_job_keeps_its_own_copies_of_the_files() {
    let instance = Instance::new().await;
    let id = instance.ended(&[(ANNA, accepted())]).await;
    let (key, next) = (instance.record(id).await.row.request_key, RequestKey::new());
    let mut raw = instance.raw().await;
    add_upload(&mut raw, instance.owner, key).await;
    instance.store.copy_uploads(instance.owner, key, instance.owner, next).await.unwrap();
    let own = NewUpload { name: "b.md", sha256: [1; 32], bytes: b"b" };
    instance.store.save_upload(instance.owner, next, &own).await.unwrap();
    instance.store.delete_job(id, ADA, "why").await.unwrap().unwrap();
    let names: Vec<_> =
        instance.store.uploads(instance.owner, next).await.unwrap().into_iter().map(|upload| upload.name).collect();
    assert_eq!(names, ["a.md", "b.md"]);
}

const DELETIONS: &[(&str, &str)] = &[
    ("delete from effects where job_id = $1", "effects are never deleted"),
    ("delete from attempts where job_id = $1", "attempts are never deleted"),
    ("delete from probes where job_id = $1", "probes are never deleted"),
    ("delete from decisions where job_id = $1", "decisions are never deleted"),
    ("delete from history where job_id = $1 and effect is not null", "entries about effects are never deleted"),
];

async fn refuses(raw: &mut Raw, statements: &[(&'static str, &str)], job: JobId) {
    for (statement, why) in statements {
        assert_eq!(raw.refusal(statement, job).await, *why, "{statement}");
    }
}

#[tokio::test]
async fn what_is_written_about_an_effect_never_changes() {
    let instance = Instance::new().await;
    let id = whole(&instance).await;
    let mut raw = instance.raw().await;
    let changes = [
        ("update probes set evidence = 'x' where job_id = $1", "a probe that has ended never changes"),
        ("update probes set result = 'found' where job_id = $1", "a probe that has ended never changes"),
        ("update history set entry = '' where job_id = $1", "the history never changes"),
        ("update effects set evidence = 'x' where job_id = $1 and outcome = 'done'", "an effect that is done never changes"),
        (
            "update attempts set evidence = 'x' where job_id = $1 and outcome = 'not_done'",
            "an attempt that is settled never changes",
        ),
        ("update decisions set reason = 'x' where job_id = $1", "decisions never change"),
        ("update decisions set by_email = 'x' where job_id = $1", "decisions never change"),
        ("update effects set owner_email = 'x' where job_id = $1 and outcome <> 'done'", "the intent of an effect never changes"),
        ("update effects set job_month = 'x' where job_id = $1 and outcome <> 'done'", "the intent of an effect never changes"),
    ];
    refuses(&mut raw, &changes, id).await;
    refuses(&mut raw, DELETIONS, id).await;
    // The deletion of the job makes no difference while nobody has set a horizon.
    instance.store.delete_job(id, ADA, "why").await.unwrap().unwrap();
    refuses(&mut raw, &changes, id).await;
    refuses(&mut raw, DELETIONS, id).await;
}

#[tokio::test]
async fn only_old_effects_of_deleted_jobs_are_forgotten() {
    let instance = Instance::new().await;
    let (old, standing) = (whole(&instance).await, whole(&instance).await);
    let late = whole(&instance).await;
    instance.store.delete_job(old, ADA, "why").await.unwrap().unwrap();
    instance.clock.advance(TimeDelta::days(100));
    let young = whole(&instance).await;
    for id in [late, young] {
        instance.store.delete_job(id, ADA, "why").await.unwrap().unwrap();
    }
    let mut raw = instance.raw().await;
    let horizon = instance.store.clock().now() - TimeDelta::days(50);
    let kept = [count(&mut raw, OF_ITS_EFFECTS, standing).await, count(&mut raw, OF_ITS_EFFECTS, young).await];
    let standing_job = count(&mut raw, OF_THE_JOB, standing).await;

    // Four of the job that was deleted long ago, and three of the one whose own deletion is young.
    assert_eq!(instance.store.forget_effects(horizon).await.unwrap(), 7);
    assert!(count(&mut raw, OF_ITS_EFFECTS, old).await.iter().all(|(_, rows)| *rows == 0));
    let deletion = instance.store.effect(late, 4).await.unwrap().unwrap();
    assert_eq!((deletion.entry.kind, deletion.attempts.len()), (EffectKind::Deletion, 1));
    assert_eq!(instance.store.decisions(late, 4).await.unwrap().len(), 1);
    assert_eq!(instance.store.probes(late, 2).await.unwrap(), []);
    assert_eq!([count(&mut raw, OF_ITS_EFFECTS, standing).await, count(&mut raw, OF_ITS_EFFECTS, young).await], kept);
    assert_eq!(count(&mut raw, OF_THE_JOB, standing).await, standing_job);
    refuses(&mut raw, DELETIONS, standing).await;
    refuses(&mut raw, DELETIONS, young).await;

    assert_eq!(instance.store.forget_effects(horizon).await.unwrap(), 0);
    // What is exactly as old as the horizon stays: the deletions, and the e-mail that was settled at the same time.
    let exactly = deletion.entry.changed_at;
    assert_eq!(instance.store.forget_effects(exactly).await.unwrap(), 2);
    assert_eq!(instance.store.forget_effects(exactly + TimeDelta::microseconds(1)).await.unwrap(), 3);
    assert!(instance.store.effect(young, 1).await.unwrap().is_none());
    assert!(instance.store.effect(standing, 1).await.unwrap().is_some());
}
