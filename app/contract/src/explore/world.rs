//! The record of a job and the world around it: two workers, a mail server, a clock that lets leases expire.
//!
//! [`World::next`] lists everything that can happen next. A new kind of event is one more call of `event` there. The record moves
//! through the transitions that run in production only; what the outside does is kept beside it, so that the record can be held
//! against the truth.

use crate::{EffectKind, Epoch, Job, JobKind, NotDone, Outcome, Phase, StepKind, Verdict};
use std::{fmt, hash::Hash};

/// What is explored, and the bounds that keep it finite.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    pub kind: JobKind,
    pub recipients: u32,
    pub hold: bool,
    /// How often the job may be claimed.
    pub claims: u32,
    /// How many attempts at e-mails may follow a first one.
    pub retries: u32,
    /// Whether people settle what is unconfirmed, rightly or wrongly, and take the report back.
    pub people: bool,
    /// Whether the record is replaced by a copy of itself at any point, while the workers go on with the original.
    pub copy: bool,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, recipients, hold, claims, retries, people, copy } = self;
        let hold = if *hold { "hold" } else { "no hold" };
        let s = if *recipients == 1 { "" } else { "s" };
        let people = if *people { ", people" } else { "" };
        let copy = if *copy { ", a copy" } else { "" };
        write!(
            f,
            "{}, {recipients} recipient{s}, {hold}{people}{copy}, at most {claims} claims and {retries} retries",
            kind.name()
        )
    }
}

/// How far a worker process is with what the outside can see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Activity {
    /// Has no claim, or knows that it is lost.
    #[default]
    Idle,
    /// Holds a claim, and nothing outside is under way.
    Working,
    /// Has committed the intent to call a model.
    Calling,
    /// Has committed `in_flight`; the connection to the mail server is open.
    Connected,
    /// Has committed `in_doubt`; the next bytes may commit the message.
    Doubting,
    /// The mail server has taken the message; its reply is on the way.
    Answered,
}

/// A worker process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    pub activity: Activity,
    /// The claim under which it acts.
    pub epoch: Epoch,
    /// The effect that it is at; 0 for none.
    pub effect: u32,
    /// Whether it works on the original of a copy that has taken the place of the record.
    pub on_original: bool,
}

impl Worker {
    fn working(self, epoch: Epoch) -> Self {
        Self { activity: Activity::Working, epoch, effect: 0, ..self }
    }

    fn at(self, activity: Activity, effect: u32) -> Self {
        Self { activity, effect, ..self }
    }
}

/// Something that happens, for people who follow a path.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    what: &'static str,
    worker: Option<Worker>,
    effect: u32,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.worker {
            None => write!(f, "{}", self.what)?,
            Some(Worker { epoch: 0, .. }) => write!(f, "an idle worker: {}", self.what)?,
            Some(Worker { epoch, on_original: false, .. }) => write!(f, "the worker of claim {epoch}: {}", self.what)?,
            Some(Worker { epoch, .. }) => write!(f, "the original's worker of claim {epoch}: {}", self.what)?,
        }
        if self.effect == 0 { Ok(()) } else { write!(f, " (effect {})", self.effect) }
    }
}

/// The record and the world around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub job: Job,
    /// What the record is a copy of, with what has happened to that since. Nobody who looks at the record sees it.
    pub original: Option<Job>,
    /// Whether a person has let the copy go on, rightly or wrongly.
    pub resumed: bool,
    pub workers: [Worker; 2],
    /// Rows in the reports table.
    pub reports: u8,
    /// Messages that the mail server has accepted, by the effect's number.
    pub accepted: Vec<u8>,
    /// E-mails that a person has settled, by the effect's number.
    pub by_person: Vec<bool>,
}

impl World {
    /// The world just after a person asked for a report.
    pub fn start(configuration: &Configuration) -> Self {
        let Configuration { kind, recipients, hold, .. } = *configuration;
        let job = match kind {
            JobKind::Report => Job::create(recipients, hold),
            kind => Job::create_mailing(kind, recipients),
        };
        let effects = recipients as usize + 2;
        Self {
            job,
            original: None,
            resumed: false,
            workers: Default::default(),
            reports: 0,
            accepted: vec![0; effects],
            by_person: vec![false; effects],
        }
    }

    /// What a worker works on.
    fn record(&self, w: usize) -> &Job {
        self.original.as_ref().filter(|_| self.workers[w].on_original).unwrap_or(&self.job)
    }

    fn record_mut(&mut self, w: usize) -> &mut Job {
        let on_original = self.workers[w].on_original;
        self.original.as_mut().filter(|_| on_original).unwrap_or(&mut self.job)
    }

    /// Whether the record is a copy that waits for a person.
    fn is_set_aside(&self) -> bool {
        self.original.is_some() && !self.resumed
    }

    /// Whether a person, and no answer, is the evidence for this effect.
    pub fn is_by_person(&self, effect: u32) -> bool {
        self.by_person.get(effect as usize).copied().unwrap_or(false)
    }

    /// How many messages the mail server has accepted for this effect.
    pub fn accepted(&self, effect: u32) -> u8 {
        self.accepted.get(effect as usize).copied().unwrap_or(0)
    }

    /// Every other world that one event leads to.
    pub fn next(&self, bounds: &Configuration) -> Vec<(Event, Self)> {
        let mut found = Found { from: self, worlds: Vec::with_capacity(16) };
        found.event("cancel", None, 0, |world| {
            world.job.cancel();
        });
        if !self.is_set_aside() {
            found.event("the hold ends", None, 0, |world| {
                let _ = world.job.end_hold();
            });
        }
        if bounds.copy {
            self.copies(&mut found);
        }
        if self.job.leased {
            found.event("the lease expires", None, 0, |world| {
                let _ = world.job.recover();
            });
        }
        if self.job.phase == Phase::Stopping {
            found.event("a person accounts for it now", None, 0, |world| {
                let _ = world.job.account_now();
            });
        }
        self.looks(&mut found);
        if bounds.people {
            self.people(&mut found);
        }
        for w in 0..self.workers.len() {
            self.worker_events(w, bounds, &mut found);
        }
        found.worlds
    }

    /// A channel that can tell is asked about what is unconfirmed. That nothing has arrived is proof only once nobody is at it.
    fn looks(&self, found: &mut Found) {
        for email in self.job.emails().filter(|email| email.outcome == Outcome::Unconfirmed) {
            let n = email.number;
            if self.accepted(n) > 0 {
                found.event("a look finds the message", None, n, |world| {
                    let _ = world.job.reconcile(n, Verdict::Done("seen".into()));
                });
            } else if self.original.is_none() && self.workers.iter().all(|worker| worker.effect != n) {
                found.event("a look proves that there is no message", None, n, |world| {
                    let _ = world.job.reconcile(n, Verdict::NotDone(NotDone::BrokenOff, "not seen".into()));
                });
            }
        }
    }

    /// People may be wrong about what became of a message.
    fn people(&self, found: &mut Found) {
        for email in self.job.emails().filter(|email| email.outcome == Outcome::Unconfirmed) {
            let n = email.number;
            for (what, accepted) in [("a person says that it was accepted", true), ("a person says that it was not", false)] {
                found.event(what, None, n, |world| {
                    if world.job.attest(n, accepted, "looked".into()) == Ok(()) {
                        world.by_person[n as usize] = true;
                    }
                });
            }
        }
        found.event("a person withdraws the report", None, 0, |world| {
            let _ = world.job.withdraw("withdrawn".into());
        });
    }

    /// A backup of this very moment takes the place of the record; the original goes on. A person may let the copy go on as well.
    fn copies(&self, found: &mut Found) {
        match &self.original {
            None => found.event("a backup takes the place of the record", None, 0, |world| {
                world.original = Some(world.job.clone());
                world.workers.iter_mut().for_each(|worker| worker.on_original = true);
                world.job.recover_copy("a backup");
            }),
            Some(original) => {
                found.event("the original's hold ends", None, 0, |world| {
                    let _ = world.original.as_mut().map(Job::end_hold);
                });
                if original.leased {
                    found.event("the original's lease expires", None, 0, |world| {
                        let _ = world.original.as_mut().map(Job::recover);
                    });
                }
                if !self.resumed {
                    found.event("a person lets the copy go on", None, 0, |world| {
                        world.resumed = world.job.go_on("it was not sent") == Ok(());
                    });
                }
            }
        }
    }

    fn worker_events(&self, w: usize, bounds: &Configuration, found: &mut Found) {
        let worker @ Worker { activity, epoch, effect, .. } = self.workers[w];
        // What it has handed to the network may still arrive: that is the same as a worker that lives on, and is never heard of.
        if activity != Activity::Idle {
            found.event("dies", Some(worker), 0, |world| world.workers[w] = Worker::default());
        }
        match activity {
            Activity::Idle => {
                for on_original in [true, false] {
                    let possible = if on_original { self.original.is_some() } else { !self.is_set_aside() };
                    found.event("claims", Some(Worker { on_original, ..worker }), 0, |world| {
                        world.workers[w].on_original = on_original;
                        if possible
                            && world.record(w).epoch < bounds.claims
                            && let Ok(epoch) = world.record_mut(w).claim()
                        {
                            world.workers[w] = world.workers[w].working(epoch);
                        }
                    });
                }
            }
            Activity::Working => self.working_events(w, bounds, found),
            Activity::Calling => {
                found.settle("the model answers", w, &Verdict::Done("id 7".into()));
                found.settle("the model call breaks", w, &Verdict::NotDone(NotDone::BrokenOff, "closed".into()));
            }
            Activity::Connected => {
                found.event("commits in_doubt", Some(worker), effect, |world| match world.record_mut(w).doubt(epoch, effect) {
                    Ok(()) => world.workers[w].activity = Activity::Doubting,
                    Err(_) => world.workers[w] = worker.working(epoch),
                });
                for why in [NotDone::Refused, NotDone::Unreached, NotDone::BrokenOff] {
                    found.settle("ends before the message", w, &Verdict::NotDone(why, "550".into()));
                }
            }
            Activity::Doubting => {
                found.event("the mail server accepts its message", Some(worker), effect, |world| {
                    world.accepted[effect as usize] += 1;
                    world.workers[w].activity = Activity::Answered;
                });
                found.settle("refused after the final dot", w, &Verdict::NotDone(NotDone::Refused, "554".into()));
                found.settle("no answer, and not accepted", w, &Verdict::Unconfirmed("time-out".into()));
            }
            Activity::Answered => {
                found.settle("reads 250", w, &Verdict::Done("250".into()));
                found.settle("no answer, though accepted", w, &Verdict::Unconfirmed("time-out".into()));
            }
        }
    }

    fn working_events(&self, w: usize, bounds: &Configuration, found: &mut Found) {
        let worker @ Worker { epoch, .. } = self.workers[w];
        found.event("accounts for what it ran", Some(worker), 0, |world| {
            let _ = world.record_mut(w).account(epoch);
        });
        found.event("shuts down", Some(worker), 0, |world| {
            let _ = world.record_mut(w).release(epoch);
        });
        found.event("gives up", Some(worker), 0, |world| {
            let _ = world.record_mut(w).fail(epoch, "it broke");
        });
        if let Some(kind) = self.record(w).current_step() {
            found.event("completes the step", Some(worker), 0, |world| {
                // What the original saves is not in the copy's table.
                if world.record_mut(w).complete_step(epoch, kind) == Ok(()) && kind == StepKind::Save && !worker.on_original {
                    world.reports += 1;
                }
            });
            // The other steps count in the same way.
            if kind == StepKind::Collect {
                for done in [1, 2] {
                    found.event("reports progress", Some(worker), 0, |world| {
                        let _ = world.record_mut(w).progress(epoch, done, 2);
                    });
                }
            }
        }
        // One model call is enough to meet every order of events around it.
        if !self.record(w).effects.iter().any(|effect| effect.kind == EffectKind::ModelCall) {
            found.event("calls the model", Some(worker), 0, |world| {
                if let Ok(effect) = world.record_mut(w).begin_model_call(epoch) {
                    world.workers[w] = worker.at(Activity::Calling, effect);
                }
            });
        }
        let repeated: u32 = self.record(w).emails().map(|email| email.attempts.saturating_sub(1)).sum();
        for email in self.record(w).emails().filter(|email| email.attempts == 0 || repeated < bounds.retries) {
            let effect = email.number;
            found.event("begins an e-mail", Some(worker), effect, |world| {
                if world.record_mut(w).begin_effect(epoch, effect) == Ok(()) {
                    world.workers[w] = worker.at(Activity::Connected, effect);
                }
            });
        }
    }

    /// A worker whose claim is lost and that has nothing under way counts as idle: that no lost claim can do anything is checked
    /// in every world (invariant 11), whether or not somebody still believes in it.
    fn retire_workers(&mut self) {
        for w in 0..self.workers.len() {
            let (worker, job) = (self.workers[w], self.record(w));
            if worker.activity == Activity::Idle
                || worker.activity == Activity::Working && !(job.leased && job.epoch == worker.epoch)
            {
                self.workers[w] = Worker::default();
            }
        }
    }

    /// The one world that stands for all that differ only in who is who: the two workers are interchangeable, and so are the
    /// recipients. The words of the evidence decide nothing.
    pub fn canonical(mut self) -> Self {
        // No two claims of one record have the same epoch, so what decides here is never the number of an effect.
        self.workers.sort_unstable_by_key(|worker| (worker.activity, worker.epoch, worker.on_original));
        for job in std::iter::once(&mut self.job).chain(&mut self.original) {
            let words = job.effects.iter_mut().flat_map(|effect| [&mut effect.evidence, &mut effect.contradiction]);
            words.flatten().for_each(String::clear);
        }
        self.sort_emails();
        self
    }

    /// Numbers the e-mails anew, in the order of all that is known about each.
    fn sort_emails(&mut self) {
        let numbers: Vec<u32> = self.job.emails().map(|email| email.number).collect();
        let key = |n: u32| {
            let known = |job: &Job| {
                job.effect(n).map(|email| {
                    let why =
                        (email.not_done.map(NotDone::name), email.unconfirmed, email.attested, email.contradiction.is_some());
                    (email.outcome, why, email.attempts, email.epoch)
                })
            };
            (
                known(&self.job),
                self.original.as_ref().map(known),
                self.accepted(n),
                self.is_by_person(n),
                self.workers.map(|worker| worker.effect == n),
            )
        };
        let mut order = numbers.clone();
        order.sort_by_cached_key(|n| key(*n));
        if order == numbers {
            return;
        }
        let renumbered = |old: u32| order.iter().position(|n| *n == old).map_or(old, |place| numbers[place]);
        let (mut accepted, mut by_person) = (self.accepted.clone(), self.by_person.clone());
        for n in &numbers {
            accepted[renumbered(*n) as usize] = self.accepted[*n as usize];
            by_person[renumbered(*n) as usize] = self.by_person[*n as usize];
        }
        (self.accepted, self.by_person) = (accepted, by_person);
        for worker in &mut self.workers {
            worker.effect = renumbered(worker.effect);
        }
        for job in std::iter::once(&mut self.job).chain(&mut self.original) {
            for effect in &mut job.effects {
                effect.number = renumbered(effect.number);
            }
            job.effects.sort_by_key(|effect| effect.number);
        }
    }
}

/// Collects what can happen to a world.
struct Found<'a> {
    from: &'a World,
    worlds: Vec<(Event, World)>,
}

impl Found<'_> {
    fn event(&mut self, what: &'static str, worker: Option<Worker>, effect: u32, happen: impl FnOnce(&mut World)) {
        let mut world = self.from.clone();
        happen(&mut world);
        world.retire_workers();
        if world != *self.from {
            self.worlds.push((Event { what, worker, effect }, world));
        }
    }

    /// A worker records what became of the effect that it was at.
    fn settle(&mut self, what: &'static str, w: usize, verdict: &Verdict) {
        let worker @ Worker { epoch, effect, .. } = self.from.workers[w];
        self.event(what, Some(worker), effect, |world| {
            let job = world.record_mut(w);
            // A person may have settled it meanwhile.
            if job.settle(epoch, effect, verdict.clone()).is_err() && job.effect(effect).is_some_and(|known| known.epoch == epoch)
            {
                job.contradict(effect, verdict);
            }
            world.workers[w] = worker.working(epoch);
        });
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        write!(f, "{}, claim {}{}", job.phase.name(), job.epoch, if job.leased { "" } else { " (no lease)" })?;
        if job.cancel_requested {
            write!(f, ", cancel requested")?;
        }
        if let Some(original) = &self.original {
            write!(f, ", a copy (the original: {}, claim {})", original.phase.name(), original.epoch)?;
        }
        if let Some(step) = job.current_step() {
            write!(f, ", at {}", step.name())?;
        }
        for effect in job.effects.iter().filter(|effect| effect.attempts > 0) {
            write!(f, "; {} {} {}", effect.kind.name(), effect.number, effect.outcome.name())?;
            if self.accepted(effect.number) > 0 {
                write!(f, " ({} accepted)", self.accepted(effect.number))?;
            }
        }
        Ok(())
    }
}
