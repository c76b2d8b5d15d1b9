//! What people decide about a job after its end: who, what and why is recorded, and each decision is taken once.

use std::sync::Arc;

use chrono::TimeDelta;
use contract::{EffectKind, JobKind, NotDone, Outcome, Phase, Refusal, StepKind, Verdict, headline};
use domain::{
    id::{JobId, RequestKey},
    spec::Task,
};
use store::{Decision, Mailing, Ruling};
use tokio::task::JoinSet;

use crate::support::{
    ended::{accepted, ordered, refused, unanswered},
    instance::{Instance, refusal},
};

const ANNA: &str = "anna@example.org";
const BERT: &str = "bert@example.org";
const ADMIN: &str = "admin@example.org";

fn decision(instance: &Instance, ruling: Ruling, reason: &str) -> Decision {
    Decision { at: instance.store.clock().now(), by: ADMIN.into(), ruling, reason: reason.into() }
}

#[tokio::test]
async fn a_person_says_what_became_of_an_e_mail_and_what_they_saw() {
    for (was_accepted, outcome, not_done, ruling, words) in [
        (true, Outcome::Done, None, Ruling::Accepted, "It was accepted"),
        (false, Outcome::NotDone, Some(NotDone::Attested), Ruling::NotAccepted, "It was not accepted"),
    ] {
        let instance = Instance::new().await;
        let id = instance.ended(&[(ANNA, unanswered()), (BERT, accepted())]).await;
        let before = instance.record(id).await;
        let seen_by_the_attempt = instance.store.effect(id, 2).await.unwrap().unwrap().attempts[0].clone();
        instance.clock.advance(TimeDelta::minutes(10));
        let settled = instance.store.settle_by_person(id, 2, was_accepted, ADMIN, "Anna told me").await.unwrap();
        assert_eq!(settled, Some(()));

        let record = instance.record(id).await;
        let email = record.job.effect(2).unwrap();
        assert_eq!((email.outcome, email.not_done, email.attempts), (outcome, not_done, 1));
        assert_eq!(email.evidence.as_deref(), Some("admin@example.org looked into it: Anna told me"));
        assert_eq!((record.job.phase, record.row.version), (before.job.phase, before.row.version + 1));
        assert_eq!(instance.store.decisions(id, 2).await.unwrap(), [decision(&instance, ruling, "Anna told me")]);
        assert_eq!(instance.store.decisions(id, 3).await.unwrap(), []);
        let told = instance.store.effect(id, 2).await.unwrap().unwrap();
        // What the attempt itself has seen stays word for word.
        let attempt = &told.attempts[0];
        assert_eq!((&attempt.evidence, attempt.ended_at), (&seen_by_the_attempt.evidence, seen_by_the_attempt.ended_at));
        let settled = (instance.store.clock().now(), email.evidence.clone().unwrap());
        assert_eq!((attempt.outcome, &attempt.settled), (outcome, &Some(settled)));
        assert_eq!(told.history.last().unwrap().1, format!("admin@example.org decided: {words}. Anna told me"));

        for accepted in [true, false] {
            refusal(instance.store.settle_by_person(id, 2, accepted, ADMIN, "again").await);
        }
        refusal(instance.store.settle_by_person(id, 3, false, ADMIN, "it was accepted long ago").await);
        refusal(instance.store.settle_by_person(id, 1, true, ADMIN, "the report").await);
        assert_eq!(instance.store.settle_by_person(id, 9, true, ADMIN, "no such effect").await.unwrap(), None);
        assert_eq!(instance.store.settle_by_person(JobId::new(), 2, true, ADMIN, "no such job").await.unwrap(), None);
        assert_eq!(instance.record(id).await.job, record.job);
        assert_eq!(instance.store.decisions(id, 2).await.unwrap().len(), 1);

        // A person's word is no proof: a second copy may still be a double.
        let again = Task::SecondCopy { about: id, number: 2 };
        let expected = if was_accepted { Mailing::Accepted } else { Mailing::MayDuplicate };
        assert_eq!(instance.store.order_mailing(RequestKey::new(), again, ADMIN, "she waits", false).await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_people_who_decide_at_once_one_is_told_that_it_has_moved_on() {
    let instance = Arc::new(Instance::new().await);
    let id = instance.ended(&[(ANNA, unanswered())]).await;
    let mut people = JoinSet::new();
    for n in 0..8 {
        let instance = instance.clone();
        people.spawn(async move { instance.store.settle_by_person(id, 2, n % 2 == 0, ADMIN, &format!("person {n}")).await });
    }
    let answers = people.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    let decisions = instance.store.decisions(id, 2).await.unwrap();
    let email = instance.record(id).await.job.effect(2).cloned().unwrap();
    assert_eq!(decisions.len(), 1);
    assert!(email.evidence.unwrap().ends_with(&decisions[0].reason));
    assert_eq!(decisions[0].ruling == Ruling::Accepted, email.outcome == Outcome::Done);
}

/// A stopping job: anna's message was accepted, bert's is unconfirmed already, carl's is in doubt, and dora's waits.
async fn stopping(instance: &Instance) -> (JobId, u32) {
    let claim = instance.job_at(StepKind::Email, &[ANNA, BERT, "carl@example.org", "dora@example.org"]).await;
    for (number, verdict) in [(2, Some(accepted())), (3, Some(unanswered())), (4, None)] {
        instance.hand_over(claim.id, claim.epoch, number).await;
        if let Some(verdict) = verdict {
            instance.change(claim.id, |job| job.settle(claim.epoch, number, verdict)).await.unwrap();
        }
    }
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    (claim.id, claim.epoch)
}

#[tokio::test]
async fn who_does_not_wait_for_the_worker_is_recorded_with_what_is_unconfirmed_by_that() {
    let instance = Instance::new().await;
    let (id, epoch) = stopping(&instance).await;
    assert_eq!(instance.store.account_now(id, ADMIN, "the machine is gone").await.unwrap(), Some(()));
    let record = instance.record(id).await;
    assert_eq!(headline(&record.job), "Cancelled. Report saved; email outcome unconfirmed");
    assert_eq!((record.job.leased, &record.row.lease_owner), (false, &None));
    let outcomes: Vec<_> = record.job.emails().map(|email| email.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Unconfirmed, Outcome::Unconfirmed, Outcome::NotStarted]);
    // Bert's was unconfirmed before, so this decision is not about it.
    assert_eq!(instance.store.decisions(id, 3).await.unwrap(), []);
    let by_that = decision(&instance, Ruling::AccountNow, "the machine is gone");
    assert_eq!(instance.store.decisions(id, 4).await.unwrap(), [by_that]);
    let note = "Accounted for now by admin@example.org, without waiting for the worker: 1 e-mail is unconfirmed by that. \
                the machine is gone";
    assert!(instance.history(id).await.contains(&note.to_owned()), "{:?}", instance.history(id).await);

    // Its worker is alive, after all: it may start nothing, end nothing, and what it saw counts.
    assert_eq!(refusal(instance.change(id, |job| job.account(epoch)).await), Refusal::LeaseLost);
    assert_eq!(refusal(instance.change(id, |job| job.begin_effect(epoch, 5)).await), Refusal::LeaseLost);
    instance.change(id, |job| job.settle(epoch, 4, accepted())).await.unwrap();
    assert_eq!(instance.record(id).await.job.effect(4).unwrap().outcome, Outcome::Done);
    assert_eq!(instance.record(id).await.job.phase, Phase::Cancelled);
    refusal(instance.store.account_now(id, ADMIN, "again").await);
    assert_eq!(instance.store.account_now(JobId::new(), ADMIN, "no such job").await.unwrap(), None);
}

#[tokio::test]
async fn only_a_stopping_job_is_accounted_for() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Email, &[ANNA]).await;
    refusal(instance.store.account_now(claim.id, ADMIN, "nobody has cancelled").await);
    instance.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    // The worker was quicker.
    instance.change(claim.id, |job| job.account(claim.epoch)).await.unwrap();
    let ended = instance.record(claim.id).await;
    refusal(instance.store.account_now(claim.id, ADMIN, "too late").await);
    assert_eq!(instance.record(claim.id).await.row.version, ended.row.version);

    let waiting = instance.job(&[ANNA]).await;
    refusal(instance.store.account_now(waiting, ADMIN, "it waits").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_and_a_person_who_account_at_once_agree_on_one_end() {
    for _ in 0..10 {
        let instance = Arc::new(Instance::new().await);
        let (id, epoch) = stopping(&instance).await;
        let worker = {
            let instance = instance.clone();
            tokio::spawn(async move {
                let settled = instance.change(id, |job| job.settle(epoch, 4, accepted())).await;
                (settled.is_ok(), instance.change(id, |job| job.account(epoch)).await.is_ok())
            })
        };
        let person = instance.store.account_now(id, ADMIN, "now").await.is_ok();
        let (settled, accounted) = worker.await.unwrap();
        assert!(settled, "evidence is never lost");
        assert!(person != accounted, "one of them ends the job");
        let record = instance.record(id).await;
        assert_eq!(record.job.phase, Phase::Cancelled);
        assert_eq!(record.job.effect(4).unwrap().outcome, Outcome::Done);
        assert_eq!(instance.history(id).await.iter().filter(|entry| *entry == "Cancelled").count(), 1);
    }
}

#[tokio::test]
async fn a_withdrawal_is_an_effect_of_its_own() {
    let instance = Instance::new().await;
    let id = instance.ended(&[(ANNA, accepted())]).await;
    let report = instance.store.report_of_job(id).await.unwrap().unwrap();
    assert_eq!(report.withdrawn_at, None);
    assert!(!instance.store.is_withdrawn(id).await.unwrap());
    let before = instance.record(id).await;
    assert_eq!(instance.store.withdraw_report(id, ADMIN, "wrong month").await.unwrap(), Some(()));

    let report = instance.store.report(report.id).await.unwrap().unwrap();
    assert_eq!(report.withdrawn_at, Some(instance.store.clock().now()));
    assert_eq!((report.withdrawn_by.as_deref(), report.withdrawn_why.as_deref()), (Some(ADMIN), Some("wrong month")));
    let record = instance.record(id).await;
    let expected = format!("{}. The report was withdrawn", headline(&before.job));
    assert_eq!((record.job.phase, headline(&record.job)), (before.job.phase, expected));
    assert!(record.job.is_withdrawn() && instance.store.is_withdrawn(id).await.unwrap());
    let effect = record.job.effect(3).unwrap();
    assert_eq!((effect.kind, effect.outcome), (EffectKind::Withdrawal, Outcome::Done));
    assert_eq!(effect.evidence.as_deref(), Some("withdrawn by admin@example.org: wrong month"));
    assert_eq!(record.targets[&3], "Minutes");
    assert_eq!(instance.store.effect(id, 3).await.unwrap().unwrap().attempts.len(), 1, "intent, act and proof");
    assert_eq!(instance.store.decisions(id, 3).await.unwrap(), [decision(&instance, Ruling::Withdraw, "wrong month")]);

    refusal(instance.store.withdraw_report(id, ADMIN, "again").await);
    assert_eq!(instance.store.withdraw_report(JobId::new(), ADMIN, "no such job").await.unwrap(), None);
    let report = instance.store.report(report.id).await.unwrap().unwrap();
    assert_eq!(report.withdrawn_why.as_deref(), Some("wrong month"));
}

#[tokio::test]
async fn what_was_not_saved_or_has_not_ended_is_not_withdrawn() {
    let instance = Instance::new().await;
    let claim = instance.job_at(StepKind::Email, &[ANNA]).await;
    refusal(instance.store.withdraw_report(claim.id, ADMIN, "it still runs").await);
    let unsaved = instance.job(&[ANNA]).await;
    instance.store.cancel_job(unsaved, ADMIN).await.unwrap();
    refusal(instance.store.withdraw_report(unsaved, ADMIN, "there is none").await);
    // A cancel undid nothing: the report of a cancelled job can still be withdrawn.
    instance.store.cancel_job(claim.id, ADMIN).await.unwrap();
    instance.change(claim.id, |job| job.account(claim.epoch)).await.unwrap();
    assert_eq!(instance.store.withdraw_report(claim.id, ADMIN, "now").await.unwrap(), Some(()));
}

#[tokio::test]
async fn a_second_copy_has_the_bytes_and_the_id_of_the_first() {
    let instance = Instance::new().await;
    let id = instance.ended(&[(ANNA, accepted()), (BERT, unanswered())]).await;
    let (key, task) = (RequestKey::new(), Task::SecondCopy { about: id, number: 3 });
    let order = async |key, sure| {
        instance.store.order_mailing(key, task.clone(), ADMIN, "bert has nothing", sure).await.expect("the database works")
    };
    assert_eq!(order(key, false).await, Mailing::MayDuplicate);
    let copy = ordered(order(key, true).await);
    // The same request again, whatever it says about doubles.
    for sure in [true, false] {
        assert_eq!(order(key, sure).await, Mailing::Job(copy));
    }
    let (first, second) = (instance.record(id).await, instance.record(copy).await);
    assert_eq!((second.job.kind, second.job.phase, second.row.owner_id), (JobKind::SecondCopy, Phase::Queued, instance.owner));
    assert_eq!((&second.targets[&1], &second.message_ids[&1]), (&BERT.to_owned(), &first.message_ids[&3]));
    let (original, copied) =
        (instance.store.message(id, 3).await.unwrap().unwrap(), instance.store.message(copy, 1).await.unwrap().unwrap());
    assert_eq!(
        (copied.bytes, copied.sha256, copied.message_id, copied.recipient, copied.sender),
        (original.bytes, original.sha256, original.message_id, original.recipient, original.sender)
    );
    assert_eq!(instance.store.decisions(id, 3).await.unwrap(), [decision(&instance, Ruling::SendAgain, "bert has nothing")]);
    assert_eq!(first.job.effect(3).unwrap().outcome, Outcome::Unconfirmed, "the first one is as open as before");
    let history = instance.store.effect(id, 3).await.unwrap().unwrap().history;
    assert_eq!(history.last().unwrap().1, format!("The second copy is job {copy}"));
    assert_eq!(instance.store.mailings_about(id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_second_copy_that_makes_no_sense_is_refused() {
    let instance = Instance::new().await;
    let unrendered = instance.job_at(StepKind::Email, &[ANNA]).await;
    assert_eq!(instance.second_copy(unrendered.id, 2).await, Mailing::NotEnded);
    instance.store.cancel_job(unrendered.id, ADMIN).await.unwrap();
    instance.change(unrendered.id, |job| job.account(unrendered.epoch)).await.unwrap();
    assert_eq!(instance.second_copy(unrendered.id, 2).await, Mailing::NotFound);

    let id = instance.ended(&[(ANNA, accepted()), (BERT, unanswered())]).await;
    for (about, number) in [(JobId::new(), 2), (id, 1), (id, 9)] {
        assert_eq!(instance.second_copy(about, number).await, Mailing::NotFound);
    }
    assert_eq!(instance.second_copy(id, 2).await, Mailing::Accepted);
    let copy = ordered(instance.second_copy(id, 3).await);
    assert_eq!(instance.second_copy(id, 3).await, Mailing::OnItsWay);
    let of_job = instance.record(copy).await.row.request_key;
    let correction = Task::Correction { about: id, text: "x".into(), by: ADMIN.into() };
    let order = instance.store.order_mailing(of_job, correction, ADMIN, "", false).await.unwrap();
    assert_eq!(order, Mailing::KeyInUse);

    instance.mail(copy, unanswered()).await;
    instance.store.withdraw_report(id, ADMIN, "wrong").await.unwrap();
    assert_eq!(instance.second_copy(id, 3).await, Mailing::Withdrawn);
    assert_eq!(instance.second_copy(copy, 1).await, Mailing::Withdrawn, "nor by way of a mailing");
    assert!(instance.store.is_withdrawn(copy).await.unwrap());
    assert_eq!(instance.store.decisions(id, 3).await.unwrap().len(), 1, "only what was ordered is recorded");
}

/// The first one was refused, so it takes no courage to send it again. After the second copy was accepted it does.
#[tokio::test]
async fn a_third_copy_may_be_a_double_even_where_the_first_one_was_refused() {
    let instance = Instance::new().await;
    let id = instance.ended(&[(ANNA, refused())]).await;
    let order = async |about, number, sure| {
        let task = Task::SecondCopy { about, number };
        instance.store.order_mailing(RequestKey::new(), task, ADMIN, "why", sure).await.expect("the database works")
    };
    let second = ordered(order(id, 2, false).await);
    instance.mail(second, unanswered()).await;
    assert_eq!(order(id, 2, false).await, Mailing::MayDuplicate);
    assert_eq!(order(second, 1, false).await, Mailing::MayDuplicate);
    let third = ordered(order(second, 1, true).await);
    assert_eq!(order(id, 2, true).await, Mailing::OnItsWay, "a copy of the copy is a copy of this one");
    instance.mail(third, accepted()).await;
    instance.store.settle_by_person(second, 1, false, ADMIN, "nothing came").await.unwrap();
    assert_eq!(order(second, 1, false).await, Mailing::MayDuplicate, "the third one was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_orders_at_once_make_one_mailing() {
    let instance = Arc::new(Instance::new().await);
    let id = instance.ended(&[(ANNA, unanswered())]).await;
    let key = RequestKey::new();
    let mut same = JoinSet::new();
    for _ in 0..10 {
        let instance = instance.clone();
        let task = Task::Correction { about: id, text: "x".into(), by: ADMIN.into() };
        same.spawn(async move { instance.store.order_mailing(key, task, ADMIN, "", false).await.expect("the database works") });
    }
    let answers = same.join_all().await;
    assert!(answers.iter().all(|answer| *answer == answers[0] && matches!(answer, Mailing::Job(_))), "{answers:?}");

    let mut different = JoinSet::new();
    for _ in 0..10 {
        let instance = instance.clone();
        different.spawn(async move { instance.second_copy(id, 2).await });
    }
    let answers = different.join_all().await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Mailing::Job(_))).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| **answer == Mailing::OnItsWay).count(), 9, "{answers:?}");
    assert_eq!(instance.store.mailings_about(id).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_correction_goes_to_everybody_who_may_have_the_link() {
    let instance = Instance::new().await;
    let gave_up = Verdict::NotDone(NotDone::GaveUp, "no connection".into());
    let carl = "carl@example.org";
    let id = instance.ended(&[(ANNA, accepted()), (BERT, unanswered()), (carl, gave_up)]).await;
    let first = ordered(instance.correction(id).await);
    let record = instance.record(first).await;
    assert_eq!((record.job.kind, &record.row.spec.recipients), (JobKind::Correction, &vec![ANNA.to_owned(), BERT.to_owned()]));
    assert!(record.message_ids.values().all(|id| !id.is_empty()));
    assert_ne!(record.message_ids[&1], instance.record(id).await.message_ids[&2], "it is a message of its own");
    assert!(instance.history(id).await.contains(&format!("ada@example.org sends a correction: job {first}")));

    // Carl has got the link by a second copy, so the next correction is for him as well.
    let copy = ordered(instance.second_copy(id, 4).await);
    assert_eq!(instance.store.written_to(&instance.record(id).await).await.unwrap(), [ANNA, BERT]);
    instance.mail(copy, accepted()).await;
    let second = ordered(instance.correction(id).await);
    assert_eq!(instance.record(second).await.row.spec.recipients, [ANNA, BERT, carl]);
}

#[tokio::test]
async fn a_correction_that_nobody_needs_is_refused() {
    let instance = Instance::new().await;
    let running = instance.job_at(StepKind::Email, &[ANNA]).await;
    assert_eq!(instance.correction(running.id).await, Mailing::NotEnded);
    instance.store.cancel_job(running.id, ADMIN).await.unwrap();
    instance.change(running.id, |job| job.account(running.epoch)).await.unwrap();
    assert_eq!(instance.correction(running.id).await, Mailing::NobodyWasWrittenTo);
    assert_eq!(instance.correction(JobId::new()).await, Mailing::NotFound);
    let id = instance.ended(&[(ANNA, accepted())]).await;
    let correction = ordered(instance.correction(id).await);
    instance.mail(correction, accepted()).await;
    assert_eq!(instance.correction(correction).await, Mailing::NotFound, "what is corrected is the report");
    let report = instance.store.order_mailing(RequestKey::new(), Task::Report, ADMIN, "", true).await.unwrap();
    assert_eq!(report, Mailing::NotFound);
}
