//! Cancel and the worker's commits are transactions on the same row: one of the two comes first, and the record says which.

use std::sync::Arc;

use chrono::TimeDelta;
use contract::{CancelAnswer, Job, Outcome, Phase, Refusal, StepKind, StepState, Verdict, headline};
use store::{Claim, CollectedDocument, StoreError};

use crate::support::instance::{Instance, refusal};

const ANNA: &[&str] = &["anna@example.org"];

#[tokio::test]
async fn a_cancelled_queued_job_never_starts() {
    let instance = Instance::new().await;
    let id = instance.job(ANNA).await;
    let (answer, record) = instance.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
    assert_eq!((answer, record.job.phase), (CancelAnswer::Accepted, Phase::Cancelled));
    assert!(record.job.steps.iter().all(|step| step.state == StepState::Skipped));
    assert_eq!(headline(&record.job), "Cancelled. Nothing was saved or sent");
    assert_eq!(record.row.finished_at, record.row.cancel_requested_at);
    assert!(instance.claim("worker-1").await.is_none());
}

type Commit = fn(&mut Job) -> Result<(), Refusal>;

/// Everything that a worker of epoch 1 commits under the guard, with the step at which it does.
const GUARDED: &[(&str, StepKind, Commit)] = &[
    ("progress while collecting", StepKind::Collect, |job| job.progress(1, 1, 2)),
    ("the end of collecting", StepKind::Collect, |job| job.complete_step(1, StepKind::Collect)),
    ("a failure", StepKind::Collect, |job| job.fail(1, "no documents")),
    ("handing the job back", StepKind::Collect, |job| job.release(1)),
    ("progress while summarizing", StepKind::Summarize, |job| job.progress(1, 1, 2)),
    ("a model call", StepKind::Summarize, |job| job.begin_model_call(1).map(drop)),
    ("the end of summarizing", StepKind::Summarize, |job| job.complete_step(1, StepKind::Summarize)),
    ("the end of the save", StepKind::Save, |job| job.complete_step(1, StepKind::Save)),
    ("progress while mailing", StepKind::Email, |job| job.progress(1, 1, 2)),
    ("the begin of an e-mail", StepKind::Email, |job| job.begin_effect(1, 2)),
    ("the end of mailing", StepKind::Email, |job| job.complete_step(1, StepKind::Email)),
];

#[tokio::test]
async fn after_a_cancel_no_commit_of_the_worker_passes() {
    for (what, step, commit) in GUARDED {
        let instance = Instance::new().await;
        let claim = instance.job_at(*step, ANNA).await;
        instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
        let before = instance.record(claim.id).await;
        assert_eq!(before.job.phase, Phase::Stopping, "{what}");
        let history = instance.history(claim.id).await;

        assert_eq!(refusal(instance.change(claim.id, commit).await), Refusal::CancelRequested, "{what}");
        let after = instance.record(claim.id).await;
        assert_eq!((after.row.version, after.job), (before.row.version, before.job), "{what}");
        assert_eq!(instance.history(claim.id).await, history, "{what}");
        assert!(instance.claim("worker-2").await.is_none(), "{what}: a stopping job is nobody else's");
    }
}

/// Brings the job's first e-mail into flight.
async fn in_flight(instance: &Instance, recipients: &[&str]) -> Claim {
    let claim = instance.job_at(StepKind::Email, recipients).await;
    instance.change(claim.id, |job| job.begin_effect(1, 2)).await.unwrap();
    claim
}

#[tokio::test]
async fn after_a_cancel_no_message_gets_into_doubt() {
    let instance = Instance::new().await;
    let claim = in_flight(&instance, ANNA).await;
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    assert_eq!(refusal(instance.change(claim.id, |job| job.doubt(1, 2)).await), Refusal::CancelRequested);
    assert_eq!(instance.record(claim.id).await.job.effect(2).unwrap().outcome, Outcome::InFlight);
    assert!(refusal(instance.change(claim.id, |job| job.account(1)).await) == Refusal::OutOfOrder("an effect is still open"));
}

#[tokio::test]
async fn what_is_inserted_beside_a_refused_commit_does_not_stay() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Collect, ANNA).await;
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    let mut change = instance.store.change_job(claim.id).await.unwrap().unwrap();
    change.insert_documents(0, &[document()]).await.unwrap();
    change.insert_summary("{}").await.unwrap();
    assert_eq!(change.job.complete_step(1, StepKind::Collect), Err(Refusal::CancelRequested));
    drop(change);
    assert!(instance.store.documents(claim.id).await.unwrap().is_empty());
    assert_eq!(instance.store.summary(claim.id).await.unwrap(), None);
}

fn document() -> CollectedDocument {
    CollectedDocument {
        number: Some(1),
        source: "Minutes".into(),
        name: "a.md".into(),
        title: None,
        sha256: None,
        date: None,
        dated_by: None,
        coverage: domain::coverage::DocumentOutcome::Read.into(),
        text: Some("Text.".into()),
    }
}

#[tokio::test]
async fn cancel_first_then_there_is_no_report() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Save, ANNA).await;
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    assert_eq!(refusal(instance.complete(&claim, StepKind::Save).await), Refusal::CancelRequested);
    assert!(!instance.report_exists(claim.id).await);
    instance.change(claim.id, |job| job.account(1)).await.unwrap();
    let job = instance.record(claim.id).await.job;
    assert_eq!((job.phase, job.step(StepKind::Save).unwrap().state), (Phase::Cancelled, StepState::Stopped));
    assert_eq!(headline(&job), "Cancelled. Nothing was saved or sent");
}

#[tokio::test]
async fn save_first_then_the_report_stays_and_the_headline_says_so() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Email, ANNA).await;
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    assert_eq!(refusal(instance.change(claim.id, |job| job.begin_effect(1, 2)).await), Refusal::CancelRequested);
    instance.change(claim.id, |job| job.account(1)).await.unwrap();
    assert!(instance.report_exists(claim.id).await);
    let job = instance.record(claim.id).await.job;
    assert_eq!(headline(&job), "Cancelled. Report saved; email not started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_and_a_cancel_at_once_agree_on_who_was_first() {
    let instance = Arc::new(Instance::new().await);
    let mut saved = 0;
    for _ in 0..40 {
        let claim = instance.job_at(StepKind::Save, ANNA).await;
        let (worker, person) = (instance.clone(), instance.clone());
        let saving = tokio::spawn({
            let claim = claim.clone();
            async move { worker.complete(&claim, StepKind::Save).await }
        });
        let id = claim.id;
        let cancelling = tokio::spawn(async move { person.store.cancel_job(id, "ada@example.org").await });
        let (answer, _) = cancelling.await.unwrap().unwrap().unwrap();
        assert_eq!(answer, CancelAnswer::Accepted);
        let won = match saving.await.unwrap() {
            Ok(()) => true,
            Err(StoreError::Refused(Refusal::CancelRequested)) => false,
            Err(other) => panic!("{other}"),
        };
        saved += usize::from(won);
        instance.change(id, |job| job.account(1)).await.unwrap();
        assert_eq!(instance.report_exists(id).await, won);
        let expected = if won { "Report saved; email not started" } else { "Nothing was saved or sent" };
        assert_eq!(headline(&instance.record(id).await.job), format!("Cancelled. {expected}"));
    }
    println!("the save came first in {saved} of 40 rounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_and_a_cancel_at_once_agree_on_who_was_first() {
    let instance = Arc::new(Instance::new().await);
    let mut claimed = 0;
    for _ in 0..40 {
        let id = instance.job(ANNA).await;
        let (worker, person) = (instance.clone(), instance.clone());
        let claiming = tokio::spawn(async move { worker.claim("worker-1").await });
        let cancelling = tokio::spawn(async move { person.store.cancel_job(id, "ada@example.org").await });
        let (answer, told) = cancelling.await.unwrap().unwrap().unwrap();
        assert_eq!(answer, CancelAnswer::Accepted);
        if let Some(claim) = claiming.await.unwrap() {
            claimed += 1;
            assert_eq!(told.job.phase, Phase::Stopping);
            assert_eq!(refusal(instance.complete(&claim, StepKind::Collect).await), Refusal::CancelRequested);
            instance.change(id, |job| job.account(claim.epoch)).await.unwrap();
        } else {
            assert_eq!((told.job.phase, told.job.epoch), (Phase::Cancelled, 0));
        }
        assert_eq!(headline(&instance.record(id).await.job), "Cancelled. Nothing was saved or sent");
    }
    println!("the claim came first in {claimed} of 40 rounds");
}

#[tokio::test]
async fn the_end_is_when_the_work_stopped_and_not_when_cancel_was_pressed() {
    for is_dead in [false, true] {
        let instance = Instance::new().await;
        let claim = in_flight(&instance, ANNA).await;
        instance.change(claim.id, |job| job.doubt(1, 2)).await.unwrap();
        let pressed = instance.store.clock().now();
        instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
        instance.clock.advance(TimeDelta::seconds(40));
        let stopping = instance.record(claim.id).await;
        assert_eq!((stopping.row.cancel_requested_at, stopping.row.finished_at), (Some(pressed), None));
        if is_dead {
            instance.expire().await;
        } else {
            instance.change(claim.id, |job| job.settle(1, 2, Verdict::Unconfirmed("no answer".into()))).await.unwrap();
            instance.change(claim.id, |job| job.account(1)).await.unwrap();
        }
        let ended = Some(instance.store.clock().now());
        assert!(ended >= Some(pressed + TimeDelta::seconds(40)));
        // What comes later does not move it.
        instance.clock.advance(TimeDelta::hours(3));
        instance.store.cancel_job(claim.id, "bob@example.org").await.unwrap();
        instance.change(claim.id, |job| job.settle(1, 2, Verdict::Done("250 ok".into()))).await.unwrap();
        let record = instance.record(claim.id).await;
        assert_eq!((record.job.phase, record.row.finished_at), (Phase::Cancelled, ended));
        assert_eq!(record.times.last().unwrap().ended_at, ended);
    }
}

#[tokio::test]
async fn the_first_cancel_counts_and_every_other_one_is_remembered() {
    let instance = Instance::new().await;
    let claim = in_flight(&instance, ANNA).await;
    let asked = |by: &'static str| instance.store.cancel_job(claim.id, by);
    let (first, accepted) = asked("ada@example.org").await.unwrap().unwrap();
    instance.clock.advance(TimeDelta::seconds(1));
    let (second, again) = asked("bob@example.org").await.unwrap().unwrap();
    assert_eq!((first, second), (CancelAnswer::Accepted, CancelAnswer::AlreadyRequested));
    assert_eq!(again.row.cancel_requested_at, accepted.row.cancel_requested_at);
    assert_eq!(again.row.cancel_requested_by.as_deref(), Some("ada@example.org"));
    assert_eq!(again.job, accepted.job);
    assert_eq!(instance.history(claim.id).await.last().unwrap(), "Cancel pressed again by bob@example.org");

    let broken_off = Verdict::NotDone(contract::NotDone::BrokenOff, "before the message".into());
    instance.change(claim.id, |job| job.settle(1, 2, broken_off)).await.unwrap();
    instance.change(claim.id, |job| job.account(1)).await.unwrap();
    let (third, record) = asked("ada@example.org").await.unwrap().unwrap();
    assert_eq!((third, record.job.phase), (CancelAnswer::AlreadyRequested, Phase::Cancelled));
    assert_eq!(headline(&record.job), "Cancelled. Report saved; email not sent");
}

#[tokio::test]
async fn a_late_cancel_changes_nothing_and_is_remembered() {
    let instance = Instance::new().await;
    let finished = in_flight(&instance, ANNA).await;
    instance.change(finished.id, |job| job.doubt(1, 2)).await.unwrap();
    instance.change(finished.id, |job| job.settle(1, 2, Verdict::Done("250 ok".into()))).await.unwrap();
    instance.complete(&finished, StepKind::Email).await.unwrap();
    let failed = instance.job_at(StepKind::Collect, ANNA).await;
    instance.change(failed.id, |job| job.fail(1, "No documents.")).await.unwrap();

    for (claim, phase) in [(finished, Phase::Finished), (failed, Phase::Failed)] {
        let before = instance.record(claim.id).await;
        let (answer, after) = instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap().unwrap();
        assert_eq!((answer, after.job.phase), (CancelAnswer::TooLate, phase));
        assert_eq!(after.job, before.job);
        assert_eq!((after.row.cancel_requested_at, after.row.finished_at), (None, before.row.finished_at));
        let last = instance.history(claim.id).await.pop().unwrap();
        assert_eq!(last, "Cancel by ada@example.org arrived late; the job had already ended");
    }
    assert!(instance.store.cancel_job(domain::id::JobId::new(), "ada@example.org").await.unwrap().is_none());
}

#[tokio::test]
async fn a_job_between_two_claims_is_cancelled_at_once() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Summarize, ANNA).await;
    instance.change(claim.id, |job| job.release(1)).await.unwrap();
    let (answer, record) = instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap().unwrap();
    assert_eq!((answer, record.job.phase), (CancelAnswer::Accepted, Phase::Cancelled));
    let states: Vec<_> = record.job.steps.iter().map(|step| step.state).collect();
    assert_eq!(states, [StepState::Done, StepState::Skipped, StepState::Skipped, StepState::Skipped]);
    assert!(instance.claim("worker-2").await.is_none());
}
