//! Exhaustive search: every interleaving of two workers, a Cancel at any point, crashes and lease expiry at any point, a mail
//! server that answers or does not. The transitions are the ones that run in production; the invariants are those of the
//! contract, section 9, by their numbers.

use super::{CancelAnswer, Effect, EffectKind, Epoch, Job, NotDone, Outcome, Phase, Refusal, StepKind, StepState, Verdict};
use std::collections::{HashSet, VecDeque};

/// What a worker process knows and has done outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum Worker {
    #[default]
    Idle,
    /// Holds (or believes to hold) a claim.
    Working(Epoch),
    /// Has committed the intent to call a model.
    Calling(Epoch, u32),
    /// Has committed `in_flight`; the connection is open.
    Connected(Epoch, u32),
    /// Has committed `in_doubt`; the next bytes may commit the message.
    Doubted(Epoch, u32),
    /// The mail server has taken the message; the reply is on its way.
    Accepted(Epoch, u32),
}

/// The record and the world around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    job: Job,
    workers: [Worker; 2],
    /// Rows in the reports table.
    reports: u8,
    /// Messages that the mail server has accepted, by effect.
    accepted: Vec<u8>,
}

impl World {
    fn start(recipients: u32, hold: bool) -> Self {
        Self {
            job: Job::create(recipients, hold),
            workers: Default::default(),
            reports: 0,
            accepted: vec![0; recipients as usize + 2],
        }
    }

    /// Every world that one event leads to, with the event's name.
    fn next(&self) -> Vec<(&'static str, World)> {
        let mut found = Vec::new();
        self.with("cancel", &mut found, |world| {
            world.job.cancel();
        });
        self.with("the hold ends", &mut found, |world| {
            let _ = world.job.end_hold();
        });
        if self.job.leased {
            self.with("the lease expires", &mut found, |world| {
                world.job.recover().expect("a leased job can be recovered");
            });
        }
        for index in 0..self.workers.len() {
            self.worker_events(index, &mut found);
        }
        found
    }

    fn with(&self, name: &'static str, found: &mut Vec<(&'static str, World)>, event: impl FnOnce(&mut World)) {
        let mut world = self.clone();
        event(&mut world);
        if world != *self {
            found.push((name, world));
        }
    }

    fn worker_events(&self, w: usize, found: &mut Vec<(&'static str, World)>) {
        let worker = self.workers[w].clone();
        if worker != Worker::Idle {
            self.with("a worker dies", found, |world| world.workers[w] = Worker::Idle);
        }
        match worker {
            Worker::Idle => self.with("claim", found, |world| {
                if let Ok(epoch) = world.job.claim() {
                    world.workers[w] = Worker::Working(epoch);
                }
            }),
            Worker::Working(epoch) => self.working_events(w, epoch, found),
            Worker::Calling(epoch, n) => {
                for verdict in [Verdict::Done("id 7".into()), Verdict::NotDone(NotDone::BrokenOff, "closed".into())] {
                    self.settle("the model call ends", w, epoch, n, &verdict, found);
                }
            }
            Worker::Connected(epoch, n) => {
                self.with("in doubt", found, |world| match world.job.doubt(epoch, n) {
                    Ok(()) => world.workers[w] = Worker::Doubted(epoch, n),
                    Err(_) => world.workers[w] = Worker::Working(epoch),
                });
                for why in [NotDone::Refused, NotDone::Unreached, NotDone::BrokenOff] {
                    self.settle("refused before the dot", w, epoch, n, &Verdict::NotDone(why, "550".into()), found);
                }
            }
            Worker::Doubted(epoch, n) => {
                self.with("the server accepts", found, |world| {
                    world.accepted[n as usize] += 1;
                    world.workers[w] = Worker::Accepted(epoch, n);
                });
                self.settle("refused after the dot", w, epoch, n, &Verdict::NotDone(NotDone::Refused, "554".into()), found);
                self.settle("no answer, not accepted", w, epoch, n, &Verdict::Unconfirmed("time-out".into()), found);
            }
            Worker::Accepted(epoch, n) => {
                self.settle("250", w, epoch, n, &Verdict::Done("250 queued".into()), found);
                self.settle("no answer, accepted", w, epoch, n, &Verdict::Unconfirmed("time-out".into()), found);
            }
        }
    }

    fn settle(
        &self,
        name: &'static str,
        w: usize,
        epoch: Epoch,
        n: u32,
        verdict: &Verdict,
        found: &mut Vec<(&'static str, World)>,
    ) {
        self.with(name, found, |world| {
            let _ = world.job.settle(epoch, n, verdict.clone());
            world.workers[w] = Worker::Working(epoch);
        });
    }

    fn working_events(&self, w: usize, epoch: Epoch, found: &mut Vec<(&'static str, World)>) {
        self.with("account", found, |world| {
            let _ = world.job.account(epoch);
        });
        self.with("release", found, |world| {
            let _ = world.job.release(epoch);
        });
        self.with("fail", found, |world| {
            let _ = world.job.fail(epoch, "it broke");
        });
        if let Some(kind) = self.job.current_step() {
            self.with("complete", found, |world| {
                if world.job.complete_step(epoch, kind) == Ok(()) && kind == StepKind::Save {
                    world.reports += 1;
                }
            });
        }
        // One model call is enough to meet every order of events around it.
        if !self.job.effects.iter().any(|effect| effect.kind == EffectKind::ModelCall) {
            self.with("call the model", found, |world| {
                if let Ok(n) = world.job.begin_model_call(epoch) {
                    world.workers[w] = Worker::Calling(epoch, n);
                }
            });
        }
        for email in self.job.emails().filter(|email| email.attempts < 2) {
            self.with("begin an e-mail", found, |world| {
                if world.job.begin_effect(epoch, email.number) == Ok(()) {
                    world.workers[w] = Worker::Connected(epoch, email.number);
                }
            });
        }
    }
}

/// What must hold in every world.
fn check_world(world: &World) {
    let job = &world.job;
    let is = |effect: &Effect, outcome| effect.outcome == outcome;
    // 2: a report exists if and only if its save committed.
    assert_eq!(world.reports > 0, job.report_saved(), "2: {world:#?}");
    assert!(world.reports <= 1, "2: {world:#?}");
    // 3: final phases have nothing in flight.
    if job.phase.is_final() {
        assert!(job.effects.iter().all(|effect| !effect.outcome.is_open()), "3: {world:#?}");
        assert!(job.steps.iter().all(|step| !matches!(step.state, StepState::Running | StepState::Pending)), "3: {world:#?}");
        assert!(!job.leased, "3: {world:#?}");
    }
    for email in job.emails() {
        let accepted = world.accepted[email.number as usize];
        // 5: nothing is ever accepted twice.
        assert!(accepted <= 1, "5: {world:#?}");
        // Evidence is never wrong, in either direction.
        assert!(!is(email, Outcome::Done) || accepted == 1, "done, but not accepted: {world:#?}");
        assert!(!is(email, Outcome::NotDone) || accepted == 0, "not done, but accepted: {world:#?}");
        assert!(!is(email, Outcome::NotStarted) || accepted == 0, "12: {world:#?}");
        assert!(!is(email, Outcome::InFlight) || accepted == 0, "accepted without in_doubt: {world:#?}");
    }
    for effect in &job.effects {
        // 6: done always has evidence.
        assert!(!is(effect, Outcome::Done) || effect.evidence.as_deref().is_some_and(|text| !text.is_empty()), "6: {world:#?}");
        assert_eq!(is(effect, Outcome::NotDone), effect.not_done.is_some(), "{world:#?}");
    }
    // A hold is nobody's work: a cancel in it is always clean.
    if job.is_held() {
        let mut cancelled = job.clone();
        assert_eq!(cancelled.cancel(), CancelAnswer::Accepted);
        assert_eq!(cancelled.phase, Phase::Cancelled, "{world:#?}");
    }
    // 8: whatever has died, a stopping job ends with its lease.
    if job.phase == Phase::Stopping {
        let mut recovered = job.clone();
        assert!(job.leased, "8: {world:#?}");
        recovered.recover().expect("a stopping job is leased");
        assert!(matches!(recovered.phase, Phase::Cancelled | Phase::Finished), "8: {world:#?}");
    }
    // 10: a second cancel changes nothing.
    if job.cancel_requested {
        let mut again = job.clone();
        assert_eq!(again.cancel(), CancelAnswer::AlreadyRequested);
        assert_eq!(again, *job, "10: {world:#?}");
    }
}

/// What must hold between a world and what follows it.
fn check_event(name: &str, before: &World, after: &World) {
    let (old, new) = (&before.job, &after.job);
    let runs = |job: &Job, kind| job.step(kind).is_some_and(|step| step.state == StepState::Running);
    let started = |kind: StepKind| !runs(old, kind) && runs(new, kind);
    if old.cancel_requested {
        // 1: after a cancel no step starts, and no effect begins or becomes doubtful.
        assert!(StepKind::ALL.iter().all(|kind| !started(*kind)), "1, {name}: {before:#?}");
        assert!(new.cancel_requested, "{name}: a cancel is never taken back");
        for effect in &new.effects {
            let earlier = old.effect(effect.number);
            assert!(earlier.is_some_and(|earlier| earlier.attempts == effect.attempts), "1, {name}: {before:#?}");
            assert!(
                effect.outcome != Outcome::InDoubt || earlier.is_some_and(|earlier| earlier.outcome == Outcome::InDoubt),
                "1, {name}: {before:#?}"
            );
        }
        // 2: no report is saved after it.
        assert_eq!(before.reports, after.reports, "2, {name}: {before:#?}");
    }
    // 4: final phases never change.
    assert!(!old.phase.is_final() || old.phase == new.phase, "4, {name}: {before:#?}");
    // 11: without the lease a worker changes nothing but evidence.
    if old.phase.is_final() {
        assert_eq!((&old.steps, &old.failure, old.epoch), (&new.steps, &new.failure, new.epoch), "11, {name}: {before:#?}");
    }
    for (earlier, step) in old.steps.iter().zip(&new.steps) {
        // 7: progress only grows.
        assert!(step.done >= earlier.done && step.total >= earlier.total, "7, {name}: {before:#?}");
        assert!(earlier.state != StepState::Done || step.state == StepState::Done, "{name}: a step that is done stays done");
    }
}

fn explore(recipients: u32, hold: bool) -> usize {
    let start = World::start(recipients, hold);
    let mut seen = HashSet::from([start.clone()]);
    let mut waiting = VecDeque::from([start]);
    while let Some(world) = waiting.pop_front() {
        check_world(&world);
        for (name, next) in world.next() {
            // The search is bounded by the claims; more of them repeat what two have shown. A hold takes one of its own.
            if next.job.epoch > 2 + u32::from(hold) {
                continue;
            }
            check_event(name, &world, &next);
            if seen.insert(next.clone()) {
                waiting.push_back(next);
            }
        }
    }
    seen.len()
}

#[test]
fn the_invariants_hold_in_every_interleaving() {
    for (recipients, hold) in [(1, false), (1, true), (2, false)] {
        let states = explore(recipients, hold);
        println!("{recipients} recipients, two workers, hold: {hold}: {states} states explored");
        assert!(states > 1_000, "the search has become trivial: {states}");
    }
}

#[test]
fn every_transition_refuses_a_lost_lease_without_a_trace() {
    let mut job = Job::create(1, false);
    let old = job.claim().unwrap();
    job.recover().unwrap();
    job.claim().unwrap();
    let before = job.clone();
    assert_eq!(job.complete_step(old, StepKind::Collect), Err(Refusal::LeaseLost));
    assert_eq!(job.progress(old, 1, 2), Err(Refusal::LeaseLost));
    assert_eq!(job.fail(old, "no"), Err(Refusal::LeaseLost));
    assert_eq!(job.release(old), Err(Refusal::LeaseLost));
    assert_eq!(job.account(old), Err(Refusal::LeaseLost));
    assert_eq!(job.begin_model_call(old), Err(Refusal::LeaseLost));
    assert_eq!(job, before);
}
