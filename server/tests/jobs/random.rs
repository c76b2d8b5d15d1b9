//! Thousands of jobs, several workers as if in processes of their own, and faults at random: workers die, the clock jumps past
//! their leases or is set, people press Cancel at any moment, mail servers refuse, lose answers and hang. Only the contract's invariants
//! are asserted, never what happens when. `RECOUNT_SEED` repeats the choices of a run, though not the scheduler's; `RECOUNT_JOBS`
//! makes it longer.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    sync::Arc,
    time::Duration,
};

use chrono::TimeDelta;
use contract::{CancelAnswer, EffectKind, Job, NotDone, Outcome, Phase, StepState, headline};
use domain::{
    hold::Hold,
    id::{JobId, RequestKey},
    spec::Spec,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use server::worker::{Dependencies, WorkerOptions};
use store::{Record, StoreError};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    chaos::Chaos,
    cluster::engine,
    instance::{Instance, PATIENCE},
    raw::Raw,
    truth::check_sentence,
    worker::Running,
};

const JOBS: usize = 2_000;
const WORKERS: usize = 3;
/// How long jobs are made and faults happen, on a machine that is too slow for all [`JOBS`].
const TROUBLE: Duration = Duration::from_secs(40);
/// How many jobs there are, and how long they may be in trouble. `RECOUNT_JOBS` asks for a longer run, however long it takes.
fn size() -> (usize, Duration) {
    std::env::var("RECOUNT_JOBS").map_or((JOBS, TROUBLE), |jobs| (jobs.parse().expect("a number"), Duration::MAX))
}

/// Jobs that may be open at the same time.
const OPEN: usize = 80;
const LEASE: TimeDelta = TimeDelta::seconds(3);
/// What spins loses its lease after so long, and what is only slow may lose it as well: a fault like any other.
const SILENCE: Duration = Duration::from_secs(2);

/// A worker with its own handle of the database, as a process has it.
struct Process {
    worker: Running,
    relay: JoinHandle<()>,
}

impl Process {
    async fn start(instance: &Instance, chaos: &Chaos) -> Self {
        let store = instance.another_store().await;
        let dependencies = Dependencies { store: store.clone(), ..instance.dependencies_with(chaos.clone()) };
        let options =
            WorkerOptions { concurrency: 16, per_person: None, lease: LEASE, grace: PATIENCE, silence: SILENCE, only: None };
        let relay = tokio::spawn(async move {
            store.relay_foreign_changes(CancellationToken::new()).await;
        });
        Self { worker: Running::start_with(dependencies, options), relay }
    }

    async fn kill(self) {
        self.relay.abort();
        self.worker.kill().await;
    }
}

/// An answered Cancel, and the record as it was right after.
struct Pressed {
    answer: CancelAnswer,
    job: Job,
}

/// A run under way.
struct Run {
    instance: Arc<Instance>,
    chaos: Chaos,
    rng: StdRng,
    processes: Vec<Process>,
    jobs: Vec<JobId>,
    orders: Vec<(RequestKey, Spec)>,
    pressed: HashMap<JobId, Vec<Pressed>>,
    counts: BTreeMap<&'static str, usize>,
    raw: Raw,
    /// Restored from a backup of the middle of the run, while the original went on.
    copy: Option<Instance>,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let instance = Arc::new(Instance::without_disk().await);
        instance.two_documents();
        let raw = instance.raw().await;
        let chaos = Chaos::new(seed, instance.store.clone());
        let mut processes = Vec::new();
        for _ in 0..WORKERS {
            processes.push(Process::start(&instance, &chaos).await);
        }
        Self {
            instance,
            chaos,
            rng: StdRng::seed_from_u64(seed),
            processes,
            jobs: Vec::new(),
            orders: Vec::new(),
            pressed: HashMap::new(),
            counts: BTreeMap::new(),
            raw,
            copy: None,
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// One of the newer jobs most of the time: there something is going on.
    fn some_job(&mut self) -> Option<JobId> {
        let oldest = if self.rng.random_bool(0.9) { self.jobs.len().saturating_sub(OPEN) } else { 0 };
        (!self.jobs.is_empty()).then(|| self.jobs[self.rng.random_range(oldest..self.jobs.len())])
    }

    async fn order(&mut self) {
        let n = self.jobs.len();
        let recipients: Vec<String> = (0..self.rng.random_range(1..=3)).map(|r| format!("r{r}@job-{n}.example.org")).collect();
        let hold = match self.rng.random_range(0..10) {
            0 => Hold::Approval,
            1 => Hold::Countdown(self.rng.random_range(1..5)),
            _ => Hold::None,
        };
        let spec = Spec { recipients, hold, ..self.instance.spec(&[]) };
        let key = RequestKey::new();
        let (id, is_new) = self.instance.store.create_job(self.instance.owner, key, &spec).await.unwrap();
        assert!(is_new);
        self.jobs.push(id);
        self.orders.push((key, spec));
    }

    /// The same order again is the same job.
    async fn repeat_an_order(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        let n = self.rng.random_range(0..self.jobs.len());
        let (key, spec) = &self.orders[n];
        let made = self.instance.store.create_job(self.instance.owner, *key, spec).await.unwrap();
        assert_eq!(made, (self.jobs[n], false));
        self.count("orders repeated");
    }

    async fn cancel(&mut self, id: JobId) {
        let (answer, record) = self.instance.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
        self.count(match answer {
            CancelAnswer::Accepted => "cancels accepted",
            CancelAnswer::AlreadyRequested => "cancels repeated",
            CancelAnswer::TooLate => "cancels that came too late",
        });
        self.pressed.entry(id).or_default().push(Pressed { answer, job: record.job });
    }

    /// For a while nobody can write: longer than some would wait, shorter than a lease.
    async fn keep_others_from_writing(&mut self) {
        let lock = self.raw.either("begin exclusive", "begin; lock table jobs in exclusive mode");
        self.raw.run(lock).await;
        let last = Instant::now();
        sleep(Duration::from_millis(self.rng.random_range(1..700))).await;
        self.instance.clock.advance(TimeDelta::from_std(last.elapsed()).unwrap());
        self.raw.run("rollback").await;
        self.count("times that nobody could write");
    }

    async fn something_happens(&mut self) {
        match self.rng.random_range(0..100) {
            0..50 => {
                if let Some(id) = self.some_job() {
                    self.cancel(id).await;
                    if self.rng.random_bool(0.2) {
                        self.cancel(id).await;
                    }
                }
            }
            50..60 => {
                if let Some(id) = self.some_job() {
                    match self.instance.store.send_now(id, "ada@example.org").await {
                        Ok(Some(true)) => self.count("held e-mails let go"),
                        Ok(_) | Err(StoreError::Refused(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            60..65 => self.repeat_an_order().await,
            65..68 => {
                let n = self.rng.random_range(0..self.processes.len());
                self.processes.swap_remove(n).kill().await;
                self.processes.push(Process::start(&self.instance, &self.chaos).await);
                self.count("workers killed");
            }
            68..69 => {
                self.instance.clock.advance(LEASE + TimeDelta::milliseconds(1));
                self.count("clock jumps past every lease");
            }
            69..71 => {
                let hours = self.rng.random_range(-48..=48);
                self.instance.clock.jump(TimeDelta::hours(hours));
                self.count(if hours < 0 { "clock set back" } else { "clock set forward" });
            }
            71..73 => self.keep_others_from_writing().await,
            _ => {}
        }
    }

    async fn open(&mut self) -> usize {
        usize::try_from(self.raw.number("select count(*) from jobs where finished_at is null").await).unwrap()
    }

    async fn trouble(&mut self) {
        let (jobs, trouble) = size();
        let started = Instant::now();
        let mut last = started;
        while self.jobs.len() < jobs && started.elapsed() < trouble {
            if self.open().await < OPEN {
                for _ in 0..self.rng.random_range(1..20) {
                    self.order().await;
                }
            }
            for _ in 0..self.rng.random_range(1..4) {
                self.something_happens().await;
            }
            if self.copy.is_none() && (self.jobs.len() >= jobs / 2 || started.elapsed() > trouble / 2) {
                self.copy = Some(self.instance.restored().await);
            }
            sleep(Duration::from_millis(self.rng.random_range(1..20))).await;
            // Between its jumps the clock goes on as a clock does.
            self.instance.clock.advance(TimeDelta::from_std(last.elapsed()).unwrap());
            last = Instant::now();
        }
    }

    /// Without further faults every job ends.
    async fn calm(&mut self) {
        self.chaos.calm_down();
        let deadline = Instant::now() + PATIENCE * 3;
        loop {
            let mut open = Vec::new();
            for phase in [Phase::Queued, Phase::Running, Phase::Stopping] {
                open.extend(self.instance.store.jobs(None, Some(phase), None, 1_000).await.unwrap());
            }
            if open.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "{} jobs do not end, such as {:#?}", open.len(), open[0].job);
            for held in open.iter().filter(|record| record.job.is_held()) {
                self.instance.store.send_now(held.row.id, "ada@example.org").await.unwrap();
            }
            sleep(Duration::from_millis(500)).await;
            self.instance.clock.advance(TimeDelta::milliseconds(500));
        }
        for process in self.processes.drain(..) {
            process.relay.abort();
            process.worker.stop().await;
        }
    }

    async fn check(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for (n, id) in self.jobs.iter().enumerate() {
            let record = self.instance.record(*id).await;
            let history = self.instance.history(*id).await;
            let reports = usize::from(self.instance.report_exists(*id).await);
            check_record(&record, reports, &self.chaos, &format!("job {n}: {:#?}\n{history:#?}", record.job));
            check_history(&history, &format!("job {n}"));
            for pressed in self.pressed.get(id).into_iter().flatten() {
                check_cancel(pressed, &record, &format!("job {n}: {:#?}\n{history:#?}", record.job));
            }
            records.push(record);
        }
        let wrong = self.chaos.wrong();
        assert!(wrong.is_empty(), "{wrong:#?}");
        records
    }

    /// The copy knows nothing of what the original did after it was made, and says so, also after a cancel.
    async fn check_copy(&mut self) {
        let Some(copy) = self.copy.take() else { return };
        for (n, id) in self.jobs.clone().into_iter().enumerate() {
            let Some(record) = copy.store.job(id).await.unwrap() else { continue };
            let context = format!("job {n} in the copy: {:#?}", record.job);
            let unknown = check_copied(&record, &self.chaos, &context);
            *self.counts.entry("e-mails that the original of a copy sent after it was made").or_default() += unknown;
            let (_, record) = copy.store.cancel_job(id, "ada@example.org").await.unwrap().unwrap();
            assert!(record.job.phase.is_final(), "nobody is at it; {context}");
            check_copied(&record, &self.chaos, &context);
        }
    }
}

/// What the copy says of an e-mail that was accepted, by the copy or by the original since: never that it was not sent.
fn check_copied(record: &Record, chaos: &Chaos, context: &str) -> usize {
    let job = &record.job;
    let sent = |number: &u32| chaos.accepted(&record.message_ids[number]) > 0;
    let sent: Vec<_> = job.emails().filter(|email| sent(&email.number)).collect();
    for email in &sent {
        assert!(matches!(email.outcome, Outcome::Done | Outcome::Unconfirmed), "{email:?}; {context}");
    }
    let said = headline(job);
    let denies = ["or sent", "not sent", "not started"].iter().any(|part| said.contains(part));
    assert!(sent.is_empty() || !denies, "\"{said}\"; {context}");
    sent.iter().filter(|email| email.is_copied()).count()
}

/// The record, the table of reports and the channel tell the same story.
fn check_record(record: &Record, reports: usize, chaos: &Chaos, context: &str) {
    let job = &record.job;
    assert!(job.phase.is_final() && record.row.finished_at.is_some(), "stopping always ends; {context}");
    assert!(!job.effects.iter().any(|effect| effect.outcome.is_open()), "a final job has nothing open; {context}");
    assert_eq!(reports, usize::from(job.report_saved()), "a report exists if and only if its save committed; {context}");
    let mut accepted = 0;
    for effect in &job.effects {
        let evidence = effect.evidence.as_deref().unwrap_or_default();
        assert!(effect.outcome != Outcome::Done || !evidence.is_empty(), "done always has evidence; {context}");
        assert!(effect.epoch <= job.epoch, "{context}");
        if effect.kind != EffectKind::Email {
            continue;
        }
        let message_id = &record.message_ids[&effect.number];
        let copies = chaos.accepted(message_id);
        accepted += usize::try_from(copies).unwrap();
        match effect.outcome {
            Outcome::Done => assert!(copies == 1 && evidence.contains(message_id), "{effect:?}; {context}"),
            Outcome::Unconfirmed => assert!(copies <= 1, "never accepted twice; {effect:?}; {context}"),
            _ => assert_eq!(copies, 0, "{effect:?}; {context}"),
        }
    }
    check_sentence(&headline(job), job, reports, accepted, context);
    for step in &job.steps {
        assert!(step.done <= step.total, "{context}");
        assert!(!matches!(step.state, StepState::Pending | StepState::Running), "{context}");
    }
}

/// Final phases never change, nothing starts after a cancel, and no step is completed twice.
fn check_history(history: &[String], context: &str) {
    let at = |wanted: &[&str]| history.iter().position(|entry| wanted.contains(&entry.as_str()));
    let is_phase = |entry: &String| ["Running", "Stopping", "Cancelled", "Finished", "Failed"].contains(&entry.as_str());
    let starts = |entry: &String| entry.ends_with(": started") || entry.starts_with("Taken by worker");
    if let Some(end) = at(&["Cancelled", "Finished", "Failed"]) {
        assert!(!history[end + 1..].iter().any(|entry| is_phase(entry) || starts(entry)), "{context}: {history:#?}");
    }
    if let Some(cancel) = history.iter().position(|entry| entry.starts_with("Cancel accepted")) {
        assert!(!history[cancel..].iter().any(starts), "{context}: {history:#?}");
        let accepted = history.iter().filter(|entry| entry.starts_with("Cancel accepted")).count();
        assert_eq!(accepted, 1, "{context}: {history:#?}");
    }
    for step in ["Collect", "Summarize", "Save", "Hold", "E-mail"] {
        let done = history.iter().filter(|entry| **entry == format!("{step}: done")).count();
        assert!(done <= 1, "{context}: {history:#?}");
    }
}

/// What a Cancel was answered stays true.
fn check_cancel(pressed: &Pressed, record: &Record, context: &str) {
    let (then, now) = (&pressed.job, &record.job);
    match pressed.answer {
        CancelAnswer::TooLate => assert_eq!((then.phase, now.cancel_requested), (now.phase, false), "{context}"),
        CancelAnswer::Accepted | CancelAnswer::AlreadyRequested => {
            assert!(now.cancel_requested && matches!(now.phase, Phase::Cancelled | Phase::Finished), "{context}");
            let attempts = |job: &Job| job.effects.iter().map(|effect| (effect.number, effect.attempts)).collect::<Vec<_>>();
            assert_eq!(attempts(then), attempts(now), "nothing begins after a cancel; {context}");
            assert_eq!(then.report_saved(), now.report_saved(), "{context}");
            for (before, after) in then.steps.iter().zip(&now.steps) {
                assert!(before.done <= after.done, "progress only grows; {context}");
                let began = before.state == StepState::Pending && after.state != StepState::Skipped;
                assert!(!began, "no step starts after a cancel; {context}");
            }
        }
    }
}

/// Reads along and never sees the past again.
async fn watch(instance: Arc<Instance>, stop: CancellationToken) -> usize {
    let mut seen: HashMap<JobId, Record> = HashMap::new();
    let mut probes = 0;
    while !stop.is_cancelled() {
        for record in instance.store.jobs(None, None, None, 10).await.unwrap() {
            probes += 1;
            let id = record.row.id;
            if let Some(earlier) = seen.get(&id) {
                assert!(earlier.row.version <= record.row.version, "a version never shrinks");
                assert!(!earlier.job.phase.is_final() || earlier.job.phase == record.job.phase, "final phases never change");
                assert!(earlier.row.cancel_requested_at.is_none_or(|at| record.row.cancel_requested_at == Some(at)));
                for (before, after) in earlier.job.steps.iter().zip(&record.job.steps) {
                    assert!(before.done <= after.done && before.total <= after.total, "progress only grows");
                    assert!(before.state != StepState::Done || after.state == StepState::Done, "what is done stays done");
                }
            }
            seen.insert(id, record);
        }
        sleep(Duration::from_millis(100)).await;
    }
    probes
}

fn print(run: &Run, records: &[Record], seed: u64, probes: usize, took: Duration) {
    let mut rows: Vec<(String, usize)> = vec![("jobs".into(), records.len())];
    for phase in [Phase::Finished, Phase::Cancelled, Phase::Failed] {
        rows.push((format!("  {}", phase.name()), records.iter().filter(|record| record.job.phase == phase).count()));
    }
    let late = |record: &&Record| record.job.phase == Phase::Finished && record.job.cancel_requested;
    rows.push(("  finished, the cancel came too late".into(), records.iter().filter(late).count()));
    let emails = || records.iter().flat_map(|record| record.job.emails());
    rows.push(("e-mails".into(), emails().count()));
    for outcome in [Outcome::Done, Outcome::NotDone, Outcome::NotStarted, Outcome::Unconfirmed] {
        rows.push((format!("  {}", outcome.name()), emails().filter(|email| email.outcome == outcome).count()));
    }
    for why in NotDone::ALL {
        rows.push((format!("    {}", why.name()), emails().filter(|email| email.not_done == Some(*why)).count()));
    }
    let (accepted, faults) = run.chaos.totals();
    rows.push(("messages that the channel has accepted".into(), usize::try_from(accepted).unwrap()));
    rows.push(("answers that never came".into(), faults));
    rows.extend(run.counts.iter().map(|(what, count)| ((*what).to_owned(), *count)));
    rows.push(("records read along".into(), probes));
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nRandomized run on {} with RECOUNT_SEED={seed}, {:.0} s", engine(), took.as_secs_f64()).unwrap();
    for (what, count) in rows {
        writeln!(out, "{what:42} {count:6}").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_jobs_under_random_faults_keep_every_invariant() {
    let seed = std::env::var("RECOUNT_SEED").ok().map_or_else(rand::random, |seed| seed.parse().expect("a number"));
    // First of all, so that a run that fails can be repeated.
    writeln!(std::io::stdout().lock(), "RECOUNT_SEED={seed}").unwrap();
    let started = Instant::now();
    let mut run = Run::new(seed).await;
    let stop = CancellationToken::new();
    let watching = tokio::spawn(watch(run.instance.clone(), stop.clone()));
    run.trouble().await;
    run.calm().await;
    stop.cancel();
    let probes = watching.await.unwrap();
    let records = run.check().await;
    run.check_copy().await;
    print(&run, &records, seed, probes, started.elapsed());
}
