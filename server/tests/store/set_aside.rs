//! Copies of the database that took its place: what was open in them waits for a person, whatever the time and whoever works.

use chrono::TimeDelta;
use contract::{CancelAnswer, Job, NotDone, Outcome, Phase, StepKind, StepState, Unconfirmed, Verdict, headline};
use domain::{
    hold::Hold,
    id::{JobId, RequestKey},
    spec::Spec,
};
use store::{Claim, Heartbeat};

use crate::support::{
    ended::{accepted, unanswered},
    instance::{Instance, LEASE, refusal, terms},
};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];
const UNKNOWN: &str =
    "Report saved; email outcome unconfirmed (restored from a backup of 1 July, 10:00; the original may have sent it since)";
const DEAD: &str = "nothing goes on by itself";

/// A job that is held before its e-mail.
async fn held(instance: &Instance, hold: Hold) -> JobId {
    let spec = Spec { hold, ..instance.spec(TWO) };
    let (id, _) = instance.store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap();
    let claim = instance.store.claim_job("worker-1", terms(Some(id))).await.unwrap().unwrap();
    for step in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        instance.complete(&claim, step).await.unwrap();
    }
    assert!(instance.record(id).await.job.is_held());
    id
}

/// A job at its e-mails: anna's is in doubt, bert's in flight.
async fn mailing(instance: &Instance) -> Claim {
    let claim = instance.job_at(StepKind::Email, TWO).await;
    instance.hand_over(claim.id, 1, 2).await;
    instance.change(claim.id, |job| job.begin_effect(1, 3)).await.unwrap();
    claim
}

#[tokio::test]
async fn every_job_that_had_not_ended_waits_for_a_person() {
    let original = Instance::new().await;
    let ended = original.ended(&[("anna@example.org", unanswered())]).await;
    let proved = original.ended(&[("anna@example.org", accepted())]).await;
    let running = original.job_at(StepKind::Summarize, TWO).await.id;
    let countdown = held(&original, Hold::Countdown(30)).await;
    let queued = original.job(TWO).await;

    let copy = original.restored().await;
    copy.clock.advance(TimeDelta::days(1));
    copy.store.end_due_holds().await.unwrap();
    assert_eq!((copy.recover().await, copy.store.next_due().await.unwrap()), (vec![], None));
    assert!(copy.claim("worker-2").await.is_none());
    for id in [running, countdown, queued] {
        assert!(copy.store.claim_job("worker-2", terms(Some(id))).await.unwrap().is_none());
        let record = copy.record(id).await;
        assert!(record.row.set_aside_at.is_some() && record.row.lease_owner.is_none());
        assert_eq!(record.row.version, original.record(id).await.row.version + 1);
        let history = copy.history(id).await;
        assert_eq!(history.last().unwrap(), &format!("Restored from a backup of 1 Jul 2026, 08:00:00 UTC; {DEAD}"));
    }
    assert!(copy.record(countdown).await.job.is_held());
    let before = original.record(ended).await;
    let after = copy.record(ended).await;
    assert_eq!((after.row.version, after.row.set_aside_at), (before.row.version, None));
    assert_eq!(headline(&after.job), UNKNOWN, "it may have been settled since");
    assert_eq!(Job { copied: None, ..after.job }, before.job);
    let (before, after) = (original.record(proved).await, copy.record(proved).await);
    assert_eq!((after.row.version, after.job, after.row.restored_at), (before.row.version, before.job, None));

    // What is ordered in the copy is its own, and so is what it does later.
    let new = copy.job(TWO).await;
    assert_eq!(copy.claim("worker-2").await.unwrap().id, new);
    // The original knows nothing of all this.
    assert_eq!(original.record(queued).await.row.set_aside_at, None);
    assert_eq!(original.claim("worker-3").await.unwrap().id, queued);
}

#[tokio::test]
async fn what_a_worker_had_open_is_accounted_for_without_saying_that_it_died() {
    let original = Instance::new().await;
    let claim = mailing(&original).await;
    let copy = original.restored().await;
    let job = copy.record(claim.id).await.job;
    let emails: Vec<_> = job.emails().map(|email| (email.outcome, email.not_done, email.evidence.clone().unwrap())).collect();
    assert_eq!(
        emails,
        [
            (Outcome::Unconfirmed, None, "this copy was made after the message may have been handed over".into()),
            (Outcome::Unconfirmed, None, "restored from a backup of 1 July, 10:00; the original may have sent it since".into()),
        ]
    );
    assert_eq!((job.phase, job.lost_claims, job.step(StepKind::Email).unwrap().state), (Phase::Running, 0, StepState::Pending));

    // A worker that is still alive, as after a standby took over, meets a lost lease. Its evidence counts.
    assert_eq!(copy.store.heartbeat(claim.id, 1, LEASE).await.unwrap(), Heartbeat::Lost);
    refusal(copy.change(claim.id, |job| job.doubt(1, 3)).await);
    let answer = Verdict::Done("250 queued".into());
    copy.change(claim.id, |job| job.settle(1, 2, answer)).await.unwrap();
    assert_eq!(copy.record(claim.id).await.job.effect(2).unwrap().outcome, Outcome::Done);
}

#[tokio::test]
async fn what_was_stopping_ends() {
    let original = Instance::new().await;
    let claim = mailing(&original).await;
    original.store.cancel_job(claim.id, "ada@example.org").await.unwrap();
    assert_eq!(original.record(claim.id).await.job.phase, Phase::Stopping);
    let copy = original.restored().await;
    let record = copy.record(claim.id).await;
    assert_eq!(headline(&record.job), format!("Cancelled. {UNKNOWN}"));
    assert_eq!(record.row.set_aside_at, None, "nothing is left to decide");
}

#[tokio::test]
async fn a_person_lets_it_go_on_once() {
    let original = Instance::new().await;
    let id = original.job(TWO).await;
    let copy = original.restored().await;
    assert_eq!(copy.store.go_on(JobId::new(), "ada@example.org", "why").await.unwrap(), None);
    copy.store.go_on(id, "ada@example.org", "Anna has nothing.").await.unwrap().unwrap();
    let record = copy.record(id).await;
    assert_eq!(record.row.set_aside_at, None);
    let history = copy.history(id).await;
    assert_eq!(history.last().unwrap(), "ada@example.org decided: Go on. Anna has nothing.");

    copy.store.go_on(id, "bob@example.org", "again").await.unwrap().unwrap();
    assert_eq!((copy.record(id).await.row.version, copy.history(id).await), (record.row.version, history));
    assert_eq!(copy.claim("worker-2").await.unwrap().id, id);
}

#[tokio::test]
async fn an_approval_is_not_the_decision_to_go_on() {
    for hold in [Hold::Approval, Hold::Countdown(30)] {
        let original = Instance::new().await;
        let id = held(&original, hold).await;
        let copy = original.restored().await;
        let before = copy.record(id).await.row.version;
        refusal(copy.store.send_now(id, "ada@example.org").await);
        let record = copy.record(id).await;
        assert_eq!((record.row.version, record.job.is_held()), (before, true));

        copy.store.go_on(id, "ada@example.org", "Anna has nothing.").await.unwrap().unwrap();
        copy.clock.advance(TimeDelta::seconds(30));
        copy.store.end_due_holds().await.unwrap();
        assert_eq!(copy.record(id).await.job.is_held(), hold == Hold::Approval);
        assert_eq!(copy.store.send_now(id, "ada@example.org").await.unwrap(), Some(hold == Hold::Approval));
    }
}

#[tokio::test]
async fn a_cancel_ends_it_at_once() {
    let original = Instance::new().await;
    let running = original.job_at(StepKind::Email, TWO).await.id;
    let held = held(&original, Hold::Approval).await;
    let queued = original.job(TWO).await;
    let copy = original.restored().await;
    for id in [running, held, queued] {
        let (answer, record) = copy.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
        assert_eq!((answer, record.job.phase), (CancelAnswer::Accepted, Phase::Cancelled));
        assert!(record.row.set_aside_at.is_some(), "what the original has done stays unknown");
        refusal(copy.store.go_on(id, "ada@example.org", "why").await);
    }
}

/// A job whose first e-mail is in doubt, the second in flight, the third waits for another attempt, and the fourth is not begun.
async fn in_every_state(instance: &Instance) -> JobId {
    let four = &["doubt@example.org", "flight@example.org", "later@example.org", "waits@example.org"];
    let claim = instance.job_at(StepKind::Email, four).await;
    let id = claim.id;
    instance.hand_over(id, 1, 2).await;
    for number in [3, 4] {
        instance.change(id, |job| job.begin_effect(1, number)).await.unwrap();
    }
    let later = Verdict::NotDone(NotDone::Unreached, "451 later".into());
    instance.change(id, |job| job.settle(1, 4, later)).await.unwrap();
    id
}

async fn attempts(instance: &Instance, id: JobId, number: u32) -> Vec<Outcome> {
    let effect = instance.store.effect(id, number).await.unwrap().unwrap();
    effect.attempts.into_iter().map(|attempt| attempt.outcome).collect()
}

#[tokio::test]
async fn what_may_begin_is_unconfirmed_until_a_person_says_go_on_and_again_where_it_never_begins() {
    use Outcome::{NotDone, Unconfirmed};
    let original = Instance::new().await;
    let id = in_every_state(&original).await;
    let copy = original.restored().await;
    let record = copy.record(id).await;
    assert_eq!(headline(&record.job), UNKNOWN);
    assert!(record.job.emails().all(|email| email.outcome == Unconfirmed));
    let shown =
        [attempts(&copy, id, 2).await, attempts(&copy, id, 3).await, attempts(&copy, id, 4).await, attempts(&copy, id, 5).await];
    // An attempt that is known to have ended stays what it was.
    assert_eq!(shown, [vec![Unconfirmed], vec![Unconfirmed], vec![NotDone], vec![]]);

    copy.store.go_on(id, "ada@example.org", "Nobody has it.").await.unwrap().unwrap();
    let outcomes: Vec<_> = copy.record(id).await.job.emails().map(|email| email.outcome).collect();
    assert_eq!(outcomes, [Unconfirmed, NotDone, NotDone, Outcome::NotStarted]);
    assert_eq!(attempts(&copy, id, 3).await, [NotDone]);
    let history = copy.history(id).await;
    assert!(!history.iter().any(|entry| entry.contains("not started")), "{history:#?}");
    let claim = copy.claim("worker-2").await.unwrap();
    copy.hand_over(id, claim.epoch, 3).await;
    copy.change(id, |job| job.settle(claim.epoch, 3, accepted())).await.unwrap();
    assert_eq!(attempts(&copy, id, 3).await, [NotDone, Outcome::Done]);
    copy.store.cancel_job(id, "ada@example.org").await.unwrap();
    copy.change(id, |job| job.account(claim.epoch)).await.unwrap();
    let record = copy.record(id).await;
    assert_eq!(headline(&record.job), format!("Cancelled. {UNKNOWN}"));
    let why: Vec<_> = record.job.emails().map(|email| email.unconfirmed).collect();
    let copied = Some(self::Unconfirmed::Copied);
    assert_eq!(why, [Some(self::Unconfirmed::Unattended), None, copied, copied]);
}

#[tokio::test]
async fn proof_and_people_settle_what_is_unconfirmed_in_a_copy() {
    let original = Instance::new().await;
    let id = in_every_state(&original).await;
    let copy = original.restored().await;
    assert!(copy.store.settle_by_channel(id, 5, accepted()).await.unwrap());
    assert!(copy.store.settle_by_channel(id, 4, accepted()).await.unwrap());
    copy.store.settle_by_person(id, 3, false, "admin@example.org", "The log has nothing.").await.unwrap().unwrap();
    copy.store.settle_by_person(id, 2, true, "admin@example.org", "It is in the log.").await.unwrap().unwrap();
    let record = copy.record(id).await;
    let outcomes: Vec<_> = record.job.emails().map(|email| email.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::NotDone, Outcome::Done, Outcome::Done]);
    assert_eq!(attempts(&copy, id, 4).await, [Outcome::NotDone], "it was another attempt, of the original");
    copy.store.cancel_job(id, "ada@example.org").await.unwrap();
    let job = copy.record(id).await.job;
    // Every e-mail was settled, so the cancel prevented nothing.
    assert_eq!(headline(&job), "The cancel came too late. Report saved; email accepted for 3 of 4");
}

#[tokio::test]
async fn only_the_first_opening_of_a_backup_sets_aside() {
    let original = Instance::new().await;
    let old = original.job(TWO).await;
    let copy = original.restored().await;
    copy.store.go_on(old, "ada@example.org", "Anna has nothing.").await.unwrap();
    let new = copy.job(TWO).await;
    let again = copy.reopened().await;
    for id in [old, new] {
        assert_eq!(again.record(id).await.row.set_aside_at, None);
    }

    // A copy that was made by other means has no mark, so a person says that it is one.
    assert_eq!(again.store.set_aside_open_jobs().await.unwrap(), 2);
    let history = again.history(new).await;
    assert_eq!(history.last().unwrap(), &format!("Restored from a copy; {DEAD}"));
    // Saying it twice counts the same jobs, and tells their history nothing new.
    assert_eq!(again.store.set_aside_open_jobs().await.unwrap(), 2);
    assert_eq!(again.history(new).await, history);
}

/// What is not known begins with the first copy, also where a copy of the copy is restored.
#[tokio::test]
async fn a_copy_of_a_copy_still_tells_of_the_first_backup() {
    let original = Instance::new().await;
    let first = original.store.clock().now();
    let old = original.job(TWO).await;
    let copy = original.restored().await;
    copy.clock.advance(TimeDelta::days(7));
    let second = copy.store.clock().now();
    let new = copy.job(TWO).await;
    let copy = copy.restored().await;
    for (id, made) in [(old, first), (new, second)] {
        let at = copy.record(id).await.row.set_aside_at.unwrap();
        assert_eq!(copy.store.copied_at(at).await.unwrap(), Some(made));
    }
}

#[tokio::test]
async fn the_clock_of_the_original_may_have_been_ahead() {
    let original = Instance::new().await;
    let id = original.ended(&[("anna@example.org", unanswered())]).await;
    let copy = original.restored_after(TimeDelta::hours(-1)).await;
    let message_id = copy.record(id).await.message_ids[&2].clone();
    assert!(copy.store.begun_by_original(&message_id).await.unwrap());
    assert!(!original.store.begun_by_original(&message_id).await.unwrap());

    copy.clock.advance(TimeDelta::hours(2));
    let later = copy.ended(&[("bert@example.org", unanswered())]).await;
    let message_id = copy.record(later).await.message_ids[&2].clone();
    assert!(!copy.store.begun_by_original(&message_id).await.unwrap());
}

/// A job that cannot be understood keeps none of the others from being set aside, and waits with them.
#[tokio::test]
async fn rows_that_cannot_be_understood_are_set_aside_as_they_are() {
    let original = Instance::new().await;
    let (broken, whole) = (original.job(TWO).await, original.job(TWO).await);
    let mut raw = original.raw().await;
    raw.tamper("update jobs set spec = '{' where id = $1", broken).await.unwrap();
    let copy = original.restored().await;
    assert!(copy.record(whole).await.row.set_aside_at.is_some());
    let mut raw = copy.raw().await;
    assert_eq!(raw.number("select count(*) from jobs where set_aside_at is not null").await, 2);
}
