//! Workers that die, and workers that were only thought dead.

use chrono::TimeDelta;
use contract::{Job, MAX_CLAIMS, NotDone, Outcome, Phase, Recovery, Refusal, StepKind, StepState, Verdict, headline};
use store::{Claim, Heartbeat};

use crate::support::instance::{Instance, LEASE, refusal};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

#[tokio::test]
async fn a_lease_counts_until_its_last_moment() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Collect, TWO).await;
    instance.clock.advance(LEASE);
    assert!(instance.recover().await.is_empty());
    instance.clock.advance(TimeDelta::microseconds(1));
    // Nobody has recovered it yet, so its worker may still prolong it.
    assert_eq!(instance.store.heartbeat(claim.id, 1, LEASE).await.unwrap(), Heartbeat::GoOn);
    assert!(instance.recover().await.is_empty());
    assert_eq!(instance.store.next_due().await.unwrap(), Some(LEASE));
    instance.clock.advance(LEASE + TimeDelta::microseconds(1));
    assert_eq!(instance.recover().await, [(claim.id, Recovery::Resumable)]);
    assert_eq!(instance.store.heartbeat(claim.id, 1, LEASE).await.unwrap(), Heartbeat::Lost);
    assert!(instance.recover().await.is_empty());
    assert_eq!(instance.store.next_due().await.unwrap(), None);
}

/// What somebody has read about a lease may be old when they act on it.
#[tokio::test]
async fn a_stale_list_of_expired_leases_rescues_nobody() {
    for meanwhile in ["prolonged", "finished", "taken over"] {
        let instance = Instance::new().await;
        let claim = instance.job_at(StepKind::Email, TWO).await;
        for number in [2, 3] {
            send(&instance, 1, number).await.unwrap();
        }
        instance.clock.advance(LEASE + TimeDelta::microseconds(1));
        assert_eq!(instance.store.expired_leases().await.unwrap(), [claim.id]);
        match meanwhile {
            "prolonged" => drop(instance.store.heartbeat(claim.id, 1, LEASE).await.unwrap()),
            "finished" => instance.complete(&claim, StepKind::Email).await.unwrap(),
            _ => {
                instance.recover().await;
                instance.claim("worker-2").await.unwrap();
            }
        }
        let before = instance.record(claim.id).await;
        assert_eq!(instance.store.recover_job(claim.id).await.unwrap(), None, "{meanwhile}");
        let after = instance.record(claim.id).await;
        assert_eq!((after.row.version, after.job), (before.row.version, before.job), "{meanwhile}");
    }
}

#[tokio::test]
async fn recovery_leaves_live_leases_alone() {
    let instance = Instance::new().await;
    let dead = instance.job_at(StepKind::Collect, TWO).await;
    instance.clock.advance(TimeDelta::seconds(10));
    let alive = instance.job_at(StepKind::Email, TWO).await;
    instance.change(alive.id, |job| job.begin_effect(1, 2)).await.unwrap();
    instance.change(alive.id, |job| job.doubt(1, 2)).await.unwrap();
    let before = instance.record(alive.id).await;
    instance.clock.advance(LEASE - TimeDelta::seconds(5));
    assert_eq!(instance.recover().await, [(dead.id, Recovery::Resumable)]);
    let after = instance.record(alive.id).await;
    assert_eq!((after.row.version, after.row.lease_expires_at), (before.row.version, before.row.lease_expires_at));
    assert_eq!(after.job, before.job);
}

#[tokio::test]
async fn the_next_worker_resumes_at_the_first_step_that_is_not_done() {
    for &step in StepKind::ALL.iter().filter(|&&step| step != StepKind::Hold) {
        let instance = Instance::new().await;
        let claim = instance.job_at(step, TWO).await;
        instance.expire().await;
        let job = instance.record(claim.id).await.job;
        assert_eq!((job.phase, job.leased, job.step(step).unwrap().state), (Phase::Running, false, StepState::Pending));
        let next = instance.claim("worker-2").await.unwrap();
        assert_eq!((next.id, next.epoch, next.step), (claim.id, 2, step));
        assert_eq!(instance.report_exists(claim.id).await, step > StepKind::Save);
    }
}

#[tokio::test]
async fn what_was_stopping_ends_as_cancelled() {
    for &step in StepKind::ALL.iter().filter(|&&step| step != StepKind::Hold) {
        let instance = Instance::new().await;
        let claim = instance.job_at(step, TWO).await;
        instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
        instance.expire().await;
        let job = instance.record(claim.id).await.job;
        assert_eq!((job.phase, job.step(step).unwrap().state), (Phase::Cancelled, StepState::Stopped));
        let saved = if step == StepKind::Email { "Report saved; email not started" } else { "Nothing was saved or sent" };
        assert_eq!(headline(&job), format!("Cancelled. {saved}"));
        assert!(instance.claim("worker-2").await.is_none());
    }
}

/// A job at its e-mail step; anna's message is in flight, and in doubt where that is asked for.
async fn mailing(instance: &Instance, in_doubt: bool) -> Claim {
    let claim = instance.job_at(StepKind::Email, TWO).await;
    instance.change(claim.id, |job| job.begin_effect(1, 2)).await.unwrap();
    if in_doubt {
        instance.change(claim.id, |job| job.doubt(1, 2)).await.unwrap();
    }
    claim
}

#[tokio::test]
async fn a_message_in_flight_was_not_sent_and_may_be_sent_later() {
    let instance = Instance::new().await;
    let claim = mailing(&instance, false).await;
    instance.expire().await;
    let effect = instance.record(claim.id).await.job.effect(2).cloned().unwrap();
    assert_eq!((effect.outcome, effect.not_done), (Outcome::NotDone, Some(NotDone::Unreached)));
    instance.claim("worker-2").await.unwrap();
    instance.change(claim.id, |job| job.begin_effect(2, 2)).await.unwrap();
    assert_eq!(instance.record(claim.id).await.job.effect(2).unwrap().attempts, 2);
}

#[tokio::test]
async fn a_message_in_doubt_is_unconfirmed_and_never_sent_again() {
    let instance = Instance::new().await;
    let claim = mailing(&instance, true).await;
    instance.expire().await;
    assert_eq!(instance.record(claim.id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
    let next = instance.claim("worker-2").await.unwrap();
    let refused = refusal(instance.change(claim.id, |job| job.begin_effect(2, 2)).await);
    assert_eq!(refused, Refusal::OutOfOrder("the effect cannot begin here"));
    send(&instance, 2, 3).await.unwrap();
    instance.complete(&next, StepKind::Email).await.unwrap();
    let job = instance.record(claim.id).await.job;
    assert_eq!((job.phase, headline(&job).as_str()), (Phase::Finished, "Report saved; email outcome unconfirmed"));
}

/// Sends a message as the holder of `epoch`, to its acceptance.
async fn send(instance: &Instance, epoch: u32, number: u32) -> Result<(), store::StoreError> {
    let id = instance.store.jobs(None, None, None, 1).await?[0].row.id;
    instance.change(id, |job| job.begin_effect(epoch, number)).await?;
    instance.change(id, |job| job.doubt(epoch, number)).await?;
    instance.change(id, |job| job.settle(epoch, number, Verdict::Done("250 queued".into()))).await
}

#[tokio::test]
async fn a_stopping_job_with_a_message_in_doubt_says_so() {
    let instance = Instance::new().await;
    let claim = mailing(&instance, true).await;
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    instance.expire().await;
    let job = instance.record(claim.id).await.job;
    assert_eq!(headline(&job), "Cancelled. Report saved; email outcome unconfirmed");
    assert!(job.effects.iter().all(|effect| !effect.outcome.is_open()));
}

#[tokio::test]
async fn a_stopping_job_whose_messages_were_all_accepted_is_finished() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Email, TWO).await;
    send(&instance, 1, 2).await.unwrap();
    send(&instance, 1, 3).await.unwrap();
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    instance.expire().await;
    let job = instance.record(claim.id).await.job;
    let expected = "The cancel came too late. Report saved; email accepted by the mail service";
    assert_eq!((job.phase, headline(&job).as_str()), (Phase::Finished, expected));
}

#[tokio::test]
async fn a_model_call_is_abandoned() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Summarize, TWO).await;
    let number = instance.change(claim.id, |job| job.begin_model_call(1)).await.unwrap();
    instance.expire().await;
    let effect = instance.record(claim.id).await.job.effect(number).cloned().unwrap();
    assert_eq!((effect.outcome, effect.not_done), (Outcome::NotDone, Some(NotDone::BrokenOff)));
    assert_eq!(effect.evidence.as_deref(), Some("abandoned when the worker died; the provider may have gone on"));
}

#[tokio::test]
async fn a_job_that_kills_every_worker_fails_with_the_reason() {
    let instance = Instance::new().await;
    let id = instance.job(TWO).await;
    for claim in 1..=MAX_CLAIMS {
        assert_eq!(instance.claim("worker").await.unwrap().epoch, claim);
        instance.expire().await;
    }
    let job = instance.record(id).await.job;
    assert_eq!(
        (job.phase, headline(&job).as_str()),
        (Phase::Failed, "Failed while collecting documents. Nothing was saved or sent")
    );
    assert_eq!(job.failure.unwrap().reason, "The program stopped 3 times while collecting documents.");
    assert!(instance.claim("worker").await.is_none());
}

#[tokio::test]
async fn a_step_that_was_done_proves_that_the_job_gets_on() {
    let instance = Instance::new().await;
    let id = instance.job(TWO).await;
    for step in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        for _ in 1..MAX_CLAIMS {
            instance.claim("worker").await.unwrap();
            instance.expire().await;
        }
        let claim = instance.claim("worker").await.unwrap();
        instance.complete(&claim, step).await.unwrap();
        instance.change(id, |job| job.release(claim.epoch)).await.unwrap();
    }
    assert_eq!(instance.record(id).await.job.phase, Phase::Running);
}

type Commit = fn(&mut Job) -> Result<(), Refusal>;

/// Everything that the worker of epoch 1 could still try.
const ATTEMPTS: &[(&str, Commit)] = &[
    ("progress", |job| job.progress(1, 9, 9)),
    ("the begin of an e-mail", |job| job.begin_effect(1, 3)),
    ("doubt", |job| job.doubt(1, 2)),
    ("the end of the step", |job| job.complete_step(1, StepKind::Email)),
    ("a failure", |job| job.fail(1, "reason")),
    ("handing back", |job| job.release(1)),
    ("accounting", |job| job.account(1)),
];

/// Each attempt of the worker of epoch 1 is refused and leaves the record as it is.
async fn refuses_everything(instance: &Instance, claim: &Claim, when: &str) {
    let before = instance.record(claim.id).await;
    for (what, attempt) in ATTEMPTS {
        assert_eq!(refusal(instance.change(claim.id, attempt).await), Refusal::LeaseLost, "{what}, {when}");
    }
    let after = instance.record(claim.id).await;
    assert_eq!((after.row.version, after.job), (before.row.version, before.job), "{when}");
}

#[tokio::test]
async fn a_worker_without_its_lease_changes_nothing() {
    let instance = Instance::new().await;
    let claim = mailing(&instance, false).await;
    instance.expire().await;
    refuses_everything(&instance, &claim, "after recovery").await;
    // Recovery has proved that its message was never handed over; it cannot say otherwise now.
    let late = instance.change(claim.id, |job| job.settle(1, 2, Verdict::Done("250 ok".into()))).await;
    assert_eq!(refusal(late), Refusal::LeaseLost);
    let next = instance.claim("worker-2").await.unwrap();
    refuses_everything(&instance, &claim, "while another worker has it").await;
    send(&instance, 2, 2).await.unwrap();
    send(&instance, 2, 3).await.unwrap();
    instance.complete(&next, StepKind::Email).await.unwrap();
    refuses_everything(&instance, &claim, "at the end").await;
}

#[tokio::test]
async fn evidence_of_a_lost_worker_settles_its_own_doubt_and_nothing_else() {
    for ended in [false, true] {
        let instance = Instance::new().await;
        let claim = mailing(&instance, true).await;
        instance.expire().await;
        let next = instance.claim("worker-2").await.unwrap();
        send(&instance, 2, 3).await.unwrap();
        if ended {
            instance.complete(&next, StepKind::Email).await.unwrap();
        }
        let settle = |number, verdict| instance.change(claim.id, move |job| job.settle(1, number, verdict));
        // Not the other worker's message, and not without proof.
        assert_eq!(refusal(settle(3, Verdict::NotDone(NotDone::Refused, "550".into())).await), Refusal::LeaseLost);
        settle(2, Verdict::Unconfirmed("no answer".into())).await.unwrap();
        assert_eq!(instance.record(claim.id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);

        let before = instance.record(claim.id).await;
        settle(2, Verdict::Done("250 2.0.0 queued as A1".into())).await.unwrap();
        let after = instance.record(claim.id).await;
        assert_eq!(after.row.version, before.row.version + 1);
        assert_eq!((after.job.phase, after.job.epoch), (before.job.phase, before.job.epoch));
        assert_eq!(after.job.steps, before.job.steps);
        let effect = after.job.effect(2).unwrap();
        assert_eq!((effect.outcome, effect.evidence.as_deref()), (Outcome::Done, Some("250 2.0.0 queued as A1")));
        assert_eq!(instance.history(claim.id).await.last().unwrap(), "E-mail to anna@example.org: accepted by the mail service");
        if ended {
            assert_eq!(headline(&after.job), "Report saved; email accepted by the mail service");
        }
        // Once settled, it stays.
        assert_eq!(refusal(settle(2, Verdict::NotDone(NotDone::Refused, "554".into())).await), Refusal::LeaseLost);
    }
}

#[tokio::test]
async fn evidence_for_an_earlier_attempt_does_not_touch_the_next_one() {
    let instance = Instance::new().await;
    let claim = mailing(&instance, false).await;
    instance.expire().await;
    instance.claim("worker-2").await.unwrap();
    instance.change(claim.id, |job| job.begin_effect(2, 2)).await.unwrap();
    instance.change(claim.id, |job| job.doubt(2, 2)).await.unwrap();
    for verdict in [Verdict::Done("250 ok".into()), Verdict::NotDone(NotDone::BrokenOff, "closed".into())] {
        assert_eq!(refusal(instance.change(claim.id, |job| job.settle(1, 2, verdict)).await), Refusal::LeaseLost);
    }
    assert_eq!(instance.record(claim.id).await.job.effect(2).unwrap().outcome, Outcome::InDoubt);
}
