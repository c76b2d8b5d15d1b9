//! Probes for unconfirmed e-mails: when they are made, that each is kept, and that only a find settles.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use contract::{NotDone, Outcome, headline};
use domain::{clock::SharedClock, id::JobId};
use mail::probe::{Finding, Probe, Wanted};
use server::worker::{Dependencies, reconcile::due_probes};
use store::{ProbeRecord, ProbeResult, Record};
use tokio::{sync::Semaphore, time::timeout};

use crate::support::{
    ended::{accepted, ordered, refused, unanswered},
    instance::{Instance, PATIENCE},
    worker::Running,
};

const ANNA: &str = "anna@example.org";

/// A place that answers as told, and that it has seen nothing after that.
struct Place {
    name: &'static str,
    clock: SharedClock,
    answers: Mutex<VecDeque<Finding>>,
    asked: Mutex<Vec<(DateTime<Utc>, Wanted)>>,
    /// Probes that have begun, and those that may end.
    begun: Semaphore,
    may_end: Semaphore,
    /// Probes that have ended or were dropped.
    left: Semaphore,
}

/// Tells that a look is over, however it ends.
struct Leaving<'a>(&'a Semaphore);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Place {
    fn new(instance: &Instance, name: &'static str, answers: Vec<Finding>) -> Arc<Self> {
        Arc::new(Self {
            name,
            clock: instance.store.clock().clone(),
            answers: Mutex::new(answers.into()),
            asked: Mutex::default(),
            begun: Semaphore::new(0),
            may_end: Semaphore::new(Semaphore::MAX_PERMITS),
            left: Semaphore::new(0),
        })
    }

    /// One whose looks last until the test lets them end.
    fn slow(instance: &Instance, answers: Vec<Finding>) -> Arc<Self> {
        let place = Self::new(instance, "slow archive", answers);
        place.may_end.forget_permits(Semaphore::MAX_PERMITS);
        place
    }

    async fn begun(&self) {
        timeout(PATIENCE, self.begun.acquire()).await.expect("a look begins").expect("open").forget();
    }

    async fn left(&self) {
        timeout(PATIENCE, self.left.acquire()).await.expect("a look is over").expect("open").forget();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

#[async_trait]
impl Probe for Place {
    fn name(&self) -> &str {
        self.name
    }

    async fn look(&self, wanted: &Wanted) -> Finding {
        let _leaving = Leaving(&self.left);
        self.asked.lock().unwrap().push((self.clock.now(), wanted.clone()));
        self.begun.add_permits(1);
        self.may_end.acquire().await.expect("open").forget();
        let next = self.answers.lock().unwrap().pop_front();
        next.unwrap_or_else(|| Finding::Nothing { asked: format!("asked for {}", wanted.message_id) })
    }
}

fn found() -> Finding {
    Finding::Accepted { evidence: "seen as message 7".into() }
}

fn failed() -> Finding {
    Finding::Failed { reason: "no connection".into() }
}

fn dependencies(instance: &Instance, places: &[&Arc<Place>]) -> Dependencies {
    let probes: Vec<Arc<dyn Probe>> = places.iter().map(|&place| place.clone() as Arc<dyn Probe>).collect();
    // A mail server that cannot be asked; nothing is sent to it.
    Dependencies { probes: probes.into(), ..instance.dependencies_with_smtp(9) }
}

/// A job whose only e-mail is unconfirmed since now.
async fn doubtful() -> (Instance, JobId) {
    let instance = Instance::new().await;
    let id = instance.ended(&[(ANNA, unanswered())]).await;
    (instance, id)
}

async fn probes(instance: &Instance, id: JobId) -> Vec<ProbeRecord> {
    instance.store.probes(id, 2).await.unwrap()
}

async fn outcome(instance: &Instance, id: JobId) -> Outcome {
    instance.record(id).await.job.effect(2).unwrap().outcome
}

#[tokio::test]
async fn looks_are_made_on_a_schedule_and_each_is_kept() {
    let (instance, id) = doubtful().await;
    let place = Place::new(&instance, "archive", Vec::new());
    let dependencies = dependencies(&instance, &[&place]);
    let start = instance.store.clock().now();
    let mut expected = Vec::new();
    for minutes in [1, 5, 30, 2 * 60, 12 * 60] {
        let at = start + TimeDelta::minutes(minutes);
        assert_eq!(instance.store.next_look_for(id, 2).await.unwrap(), Some(at));
        instance.clock.advance(at - instance.store.clock().now() - TimeDelta::microseconds(1));
        due_probes(&dependencies).await;
        assert_eq!(place.asked(), expected.len(), "before {minutes} min");
        instance.clock.advance(TimeDelta::microseconds(1));
        for _ in 0..3 {
            due_probes(&dependencies).await;
        }
        expected.push(at);
        let asked: Vec<_> = place.asked.lock().unwrap().iter().map(|(at, _)| *at).collect();
        assert_eq!(asked, expected, "at {minutes} min");
    }
    assert_eq!(instance.store.next_look_for(id, 2).await.unwrap(), None);
    instance.clock.advance(TimeDelta::days(400));
    due_probes(&dependencies).await;
    assert_eq!(place.asked(), 5, "absence is not looked for for ever");

    let kept = probes(&instance, id).await;
    let rounds: Vec<_> = kept.iter().map(|look| (look.round, look.began_at)).collect();
    assert_eq!(rounds, (1..).zip(expected).collect::<Vec<_>>());
    let message_id = &instance.record(id).await.message_ids[&2];
    for look in kept {
        let (ended, result, evidence) = look.end.unwrap();
        assert_eq!((ended, result, evidence), (look.began_at, ProbeResult::Nothing, format!("asked for {message_id}")));
    }
    assert_eq!(outcome(&instance, id).await, Outcome::Unconfirmed, "absence settles nothing");
    assert_eq!(headline(&instance.record(id).await.job), "Report saved; email outcome unconfirmed");
}

#[tokio::test]
async fn a_look_is_told_what_it_is_to_find() {
    let instance = Instance::new().await;
    let handed_over = instance.store.clock().now();
    let id = instance.ended(&[(ANNA, unanswered())]).await;
    let place = Place::new(&instance, "archive", Vec::new());
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies(&instance, &[&place])).await;
    let (_, wanted) = place.asked.lock().unwrap()[0].clone();
    assert_eq!(wanted.message_id, instance.record(id).await.message_ids[&2]);
    assert_eq!((wanted.recipient.to_string().as_str(), wanted.since, wanted.envelope_ids.len()), (ANNA, handed_over, 1));
}

/// A report is believed by its envelope id, so nobody may be able to reckon one: neither from the job, nor from another attempt,
/// nor from anything that is shown.
#[tokio::test]
async fn envelope_ids_are_random_on_record_before_the_first_byte_and_in_no_history() {
    let (instance, id) = doubtful().await;
    let again = instance.ended(&[(ANNA, unanswered())]).await;
    let ids = instance.store.envelope_ids(id, 2).await.unwrap();
    let others = instance.store.envelope_ids(again, 2).await.unwrap();
    assert_eq!((ids.len(), others.len()), (1, 1));
    let (mine, other) = (ids[&1], others[&1]);
    assert!(mine != other && mine.get_version_num() == 4, "{mine}: 122 random bits");
    assert!(instance.store.envelope_ids(id, 1).await.unwrap().is_empty(), "only e-mails have one");
    let shown = format!("{:?}", instance.store.effect(id, 2).await.unwrap());
    assert!(!shown.contains(&mine.to_string()), "{shown}");

    let place = Place::new(&instance, "archive", Vec::new());
    instance.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies(&instance, &[&place])).await;
    let wanted: Vec<_> = place.asked.lock().unwrap().iter().flat_map(|(_, wanted)| wanted.envelope_ids.clone()).collect();
    assert_eq!(wanted, [mine, other], "each look is for its own");
}

#[tokio::test]
async fn a_hint_is_kept_for_an_administrator_and_settles_nothing() {
    let (instance, id) = doubtful().await;
    let hint = || Finding::Hint { seen: "a returned message names this Message-ID".into() };
    let (first, second) = (Place::new(&instance, "bounces", vec![hint(), hint()]), Place::new(&instance, "log", Vec::new()));
    let dependencies = dependencies(&instance, &[&first, &second]);
    for minutes in [1, 4] {
        instance.clock.advance(TimeDelta::minutes(minutes));
        due_probes(&dependencies).await;
    }
    assert_eq!((first.asked(), second.asked()), (2, 2), "the other places are asked all the same, and again");
    let (result, evidence) = probes(&instance, id).await.into_iter().find_map(|look| look.end).map(|end| (end.1, end.2)).unwrap();
    assert_eq!((result, evidence.as_str()), (ProbeResult::Hint, "a returned message names this Message-ID"));
    assert_eq!(outcome(&instance, id).await, Outcome::Unconfirmed);
    let history = instance.store.effect(id, 2).await.unwrap().unwrap().history;
    assert!(!history.iter().any(|(_, entry)| entry.contains("returned")), "{history:?}");
}

#[tokio::test]
async fn a_find_settles_and_nobody_looks_any_longer() {
    let (instance, id) = doubtful().await;
    let (first, second) = (Place::new(&instance, "archive", vec![found()]), Place::new(&instance, "log", Vec::new()));
    let dependencies = dependencies(&instance, &[&first, &second]);
    for _ in 0..20 {
        instance.clock.advance(TimeDelta::hours(1));
        due_probes(&dependencies).await;
    }
    assert_eq!((first.asked(), second.asked()), (1, 0), "what is proved needs no other proof");
    let record = instance.record(id).await;
    let email = record.job.effect(2).unwrap();
    assert_eq!((email.outcome, email.evidence.as_deref()), (Outcome::Done, Some("seen as message 7 (archive)")));
    assert_eq!(headline(&record.job), "Report saved; email accepted by the mail service");
    let history = instance.store.effect(id, 2).await.unwrap().unwrap().history;
    assert!(history.iter().any(|(_, entry)| entry == "Found by a look at the archive"), "{history:?}");
    assert_eq!(probes(&instance, id).await[0].end.as_ref().unwrap().1, ProbeResult::Found);
    assert!(instance.store.decisions(id, 2).await.unwrap().is_empty(), "nobody has decided anything");
}

/// A round takes as long as its slowest place, and a message must not be handed over again after a person has settled it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_settled_during_a_round_is_not_looked_for_any_more() {
    let (instance, first) = doubtful().await;
    instance.clock.advance(TimeDelta::seconds(1));
    let second = instance.ended(&[(ANNA, unanswered())]).await;
    instance.clock.advance(TimeDelta::minutes(1));
    let place = Place::slow(&instance, Vec::new());
    let dependencies = dependencies(&instance, &[&place]);
    let round = tokio::spawn(async move { due_probes(&dependencies).await });
    place.begun().await;
    instance.store.settle_by_person(second, 2, false, "admin@example.org", "nothing came").await.unwrap().unwrap();
    place.may_end.add_permits(2);
    timeout(PATIENCE, round).await.expect("the round ends").unwrap();
    assert_eq!((place.asked(), probes(&instance, first).await.len(), probes(&instance, second).await.len()), (1, 1, 0));
}

#[tokio::test]
async fn a_place_that_fails_does_not_hinder_the_others() {
    let (instance, id) = doubtful().await;
    let broken = Place::new(&instance, "archive", vec![failed(), failed(), failed()]);
    let log = Place::new(&instance, "log", vec![failed(), Finding::Nothing { asked: "asked".into() }, found()]);
    let dependencies = dependencies(&instance, &[&broken, &log]);
    for minutes in [1, 4, 25] {
        instance.clock.advance(TimeDelta::minutes(minutes));
        due_probes(&dependencies).await;
    }
    assert_eq!((broken.asked(), log.asked()), (3, 3));
    assert_eq!(outcome(&instance, id).await, Outcome::Done);
    let results: Vec<_> =
        probes(&instance, id).await.into_iter().map(|look| (look.round, look.place, look.end.unwrap().1)).collect();
    let (archive, log) = ("archive".to_owned(), "log".to_owned());
    assert_eq!(
        results,
        [
            (1, archive.clone(), ProbeResult::Failed),
            (1, log.clone(), ProbeResult::Failed),
            (2, archive.clone(), ProbeResult::Failed),
            (2, log.clone(), ProbeResult::Nothing),
            (3, archive, ProbeResult::Failed),
            (3, log, ProbeResult::Found),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_do_not_make_the_same_look() {
    let (instance, id) = doubtful().await;
    let place = Place::slow(&instance, Vec::new());
    let dependencies = dependencies(&instance, &[&place]);
    instance.clock.advance(TimeDelta::minutes(1));
    let both = [(); 2].map(|()| {
        let dependencies = dependencies.clone();
        tokio::spawn(async move { due_probes(&dependencies).await })
    });
    place.begun().await;
    // A third comes while one of them is still at it.
    timeout(PATIENCE, due_probes(&dependencies)).await.expect("it does not wait for the other's look");
    assert_eq!(place.asked(), 1);
    place.may_end.add_permits(10);
    for worker in both {
        worker.await.unwrap();
    }
    assert_eq!((place.asked(), probes(&instance, id).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_in_a_look_leaves_its_trace_and_the_next_round_is_made() {
    let (instance, id) = doubtful().await;
    let place = Place::slow(&instance, vec![found()]);
    let dependencies = dependencies(&instance, &[&place]);
    instance.clock.advance(TimeDelta::minutes(1));
    let worker = Running::start(dependencies.clone());
    place.begun().await;
    worker.kill().await;
    place.left().await;
    let kept = probes(&instance, id).await;
    assert_eq!(kept.iter().map(|look| (look.round, look.end.is_some())).collect::<Vec<_>>(), [(1, false)]);
    assert_eq!(outcome(&instance, id).await, Outcome::Unconfirmed);
    place.may_end.add_permits(10);
    due_probes(&dependencies).await;
    assert_eq!(place.asked(), 1, "the same look is not made again");

    instance.clock.advance(TimeDelta::minutes(4));
    let worker = Running::start(dependencies);
    instance.wait(id, "the proof", |record| record.job.effect(2).unwrap().outcome == Outcome::Done).await;
    worker.stop().await;
    let kept = probes(&instance, id).await;
    assert_eq!(kept.iter().map(|look| (look.round, look.end.is_some())).collect::<Vec<_>>(), [(1, false), (2, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_find_after_a_person_has_settled_stays_on_record_and_changes_nothing() {
    let (instance, id) = doubtful().await;
    let place = Place::slow(&instance, vec![found()]);
    let dependencies = dependencies(&instance, &[&place]);
    instance.clock.advance(TimeDelta::minutes(1));
    let looking = tokio::spawn(async move { due_probes(&dependencies).await });
    place.begun().await;
    instance.store.settle_by_person(id, 2, false, "admin@example.org", "nothing came").await.unwrap().unwrap();
    place.may_end.add_permits(1);
    looking.await.unwrap();
    let email = instance.record(id).await.job.effect(2).cloned().unwrap();
    assert_eq!((email.outcome, email.not_done), (Outcome::NotDone, Some(NotDone::Attested)));
    let end = probes(&instance, id).await[0].end.clone().unwrap();
    assert_eq!((end.1, end.2.as_str()), (ProbeResult::Found, "seen as message 7"));
    let history = instance.store.effect(id, 2).await.unwrap().unwrap().history;
    assert_eq!(history.last().unwrap().1, "A look at the slow archive found it all the same: seen as message 7");
}

/// A second copy has the Message-ID of the first, so what is found may be either.
#[tokio::test]
async fn the_trace_of_one_copy_proves_nothing_about_the_other() {
    for (second, settles) in [(accepted(), false), (unanswered(), false), (refused(), true)] {
        let (instance, id) = doubtful().await;
        let copy = ordered(instance.second_copy(id, 2).await);
        instance.mail(copy, second).await;
        let place = Place::new(&instance, "archive", vec![found(), found()]);
        instance.clock.advance(TimeDelta::minutes(1));
        due_probes(&dependencies(&instance, &[&place])).await;
        assert_eq!(outcome(&instance, id).await == Outcome::Done, settles);
        let (_, result, evidence) = probes(&instance, id).await[0].end.clone().unwrap();
        assert_eq!(result == ProbeResult::Found, settles);
        assert!(evidence.starts_with("seen as message 7"), "{evidence}");
        assert_eq!(evidence.contains("another copy"), !settles, "{evidence}");
        let of_copy = instance.record(copy).await.job.effect(1).unwrap().outcome;
        assert_ne!(of_copy == Outcome::Unconfirmed, place.asked() == 1, "both are looked for where both are unconfirmed");
    }
}

#[tokio::test]
async fn only_what_is_unconfirmed_is_looked_for() {
    let instance = Instance::new().await;
    instance.ended(&[(ANNA, accepted()), ("bert@example.org", refused())]).await;
    let claim = instance.job_at(contract::StepKind::Email, &[ANNA]).await;
    instance.hand_over(claim.id, claim.epoch, 2).await;
    let place = Place::new(&instance, "archive", vec![found()]);
    for _ in 0..5 {
        instance.clock.advance(TimeDelta::days(1));
        due_probes(&dependencies(&instance, &[&place])).await;
    }
    assert_eq!(place.asked(), 0);
    assert_eq!(outcome(&instance, claim.id).await, Outcome::InDoubt, "its worker may be waiting for the answer");
}

#[tokio::test]
async fn what_stays_unconfirmed_for_ever_does_not_stand_in_the_way() {
    let instance = Instance::new().await;
    let mut raw = instance.raw().await;
    let some_id = raw.either("randomblob(16)", "gen_random_uuid()");
    for text in [
        format!(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < 250)
         insert into effects (job_id, number, kind, outcome, attempts, epoch, evidence, target, created_at, changed_at,
                              job_kind, job_title, job_month, owner_email)
         select {some_id}, 1, 'email', 'unconfirmed', 1, 1, 'no answer', 'x', '2026-01-01T08:00:00+00:00',
                '2026-01-01T08:00:00+00:00', 'report', '', '2026-01', '' from n"
        ),
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 5)
         insert into probes (job_id, number, round, place, began_at)
         select job_id, number, i, 'archive', '2026-01-01T08:01:00+00:00' from effects, n"
            .to_owned(),
    ] {
        raw.run(&text).await;
    }
    let id = instance.ended(&[(ANNA, unanswered())]).await;
    instance.clock.advance(TimeDelta::minutes(1));
    let due: Vec<_> = instance.store.due_probes().await.unwrap().into_iter().map(|look| look.job).collect();
    assert_eq!(due, [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_look_keeps_no_job_waiting() {
    let (instance, _) = doubtful().await;
    instance.two_documents();
    let place = Place::slow(&instance, Vec::new());
    instance.clock.advance(TimeDelta::minutes(1));
    let worker = Running::start(Dependencies { probes: dependencies(&instance, &[&place]).probes, ..instance.dependencies() });
    place.begun().await;
    let other = instance.job(&[ANNA]).await;
    let record = instance.wait_for_end(other).await;
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    // A shutdown does not wait for it either.
    timeout(PATIENCE.min(Duration::from_secs(10)), worker.stop()).await.expect("the worker stops");
}

/// A place with a bug, that comes to light once.
struct Buggy(AtomicBool);

#[async_trait]
impl Probe for Buggy {
    fn name(&self) -> &'static str {
        "a place with a bug"
    }

    async fn look(&self, _: &Wanted) -> Finding {
        assert!(self.0.swap(true, Ordering::SeqCst), "a bug in a place, as the test wants it");
        found()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bug_in_a_place_does_not_end_the_probes() {
    let instance = Instance::new().await;
    let jobs = [instance.ended(&[(ANNA, unanswered())]).await, instance.ended(&[(ANNA, unanswered())]).await];
    instance.clock.advance(TimeDelta::minutes(1));
    let worker = Running::start(Dependencies {
        probes: Arc::new([Arc::new(Buggy(AtomicBool::new(false)))]),
        ..dependencies(&instance, &[])
    });
    let settled = |record: &Record| record.job.effect(2).is_some_and(|email| email.outcome == Outcome::Done);
    tokio::select! {
        _ = instance.wait(jobs[0], "a find", settled) => {}
        _ = instance.wait(jobs[1], "a find", settled) => {}
    }
    worker.stop().await;
}
