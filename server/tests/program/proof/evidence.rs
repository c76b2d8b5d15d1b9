//! What was seen at the end of a job, from all sides, and whether the sides agree.

use std::{fmt, sync::Arc, time::Duration};

use contract::{EffectKind, NotDone, Outcome, Phase, headline};
use domain::clock::SystemClock;
use serde_json::Value;
use store::{Record, Store};

use super::world::{Cancel, LEASE, World};
use crate::support::{
    raw::{Raw, on},
    truth::{check_cancel, check_sentence},
};

/// The longest time between two looks for expired leases.
const SWEEP: u64 = 5;
/// What a machine under load may take longer.
const SLACK: u64 = 20;

/// Everything that there is to see.
#[derive(Debug)]
pub struct Evidence {
    /// The record in the database.
    pub record: Record,
    /// What the API says.
    told: Value,
    /// The headline on the job's page.
    page: String,
    cancel: Cancel,
    /// From the restart after a kill to the end.
    pub took: Option<Duration>,
    /// Rows in the table of reports.
    reports: usize,
    /// Effects with an attempt whose message may have been handed over.
    doubted: Vec<u32>,
    /// The messages that the mail server or the outbox has accepted.
    accepted: Vec<String>,
    /// What the mail server was told; `None` for the outbox.
    smtp: Option<Vec<String>>,
    /// Requests at the model server.
    requests: usize,
}

impl Evidence {
    /// Probes at a world whose program has stopped.
    pub async fn gather(world: &World, told: Value, page: String, cancel: Cancel, took: Option<Duration>) -> Self {
        let database = world.home.database();
        let mut raw = Raw::open(database).await;
        let reports = raw.number("select count(*) from reports").await;
        let doubted: Vec<i64> = on!(raw, connection => {
            sqlx::query_scalar("select number from attempts where in_doubt_at is not null").fetch_all(connection).await
        })
        .expect("numbers");
        drop(raw);
        let store = Store::open(database, Arc::new(SystemClock), "recount.test").await.expect("the database");
        let id = told["id"].as_str().expect("an id").parse().expect("an id");
        let record = store.job(id).await.expect("the database works").expect("the job");
        store.close().await;
        let (accepted, smtp) = match &world.smtp {
            Some(server) => {
                server.finished().await;
                let bodies = server.bodies();
                (bodies.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect(), Some(server.lines()))
            }
            None => (world.home.outbox(), None),
        };
        Self {
            record,
            told,
            page,
            cancel,
            took,
            reports: usize::try_from(reports).expect("a count"),
            doubted: doubted.into_iter().map(|n| u32::try_from(n).expect("a number")).collect(),
            accepted,
            smtp,
            requests: world.model.requests().len(),
        }
    }

    /// The headline on the job's page.
    pub fn sentence(&self) -> &str {
        &self.page
    }

    /// Every rule that no interruption may break. `context` is for the person who reads the failure.
    pub fn check(&self, context: &str) {
        let job = &self.record.job;
        let sentence = headline(job);
        assert_eq!(self.told["headline"], sentence.as_str(), "{context}: the API says what the record says");
        assert_eq!(self.page, sentence, "{context}: the page says what the record says");
        assert_eq!(self.told["phase"], job.phase.name(), "{context}");
        assert!(job.phase.is_final(), "{context}: {job:?}");
        assert!(!job.effects.iter().any(|effect| effect.outcome.is_open()), "{context}: a final job has nothing open: {job:?}");
        assert_eq!(self.reports, usize::from(job.report_saved()), "{context}: the report exists as the record says");
        self.check_emails(context);
        self.check_model(context);
        check_sentence(&sentence, job, self.reports, self.accepted.len(), context);
        if sentence.contains("email not started") {
            assert!(job.emails().all(|effect| self.times_named(effect.number) == 0), "{context}");
        }
        match &self.cancel {
            Cancel::Answered(answer) => self.check_cancel(answer, context),
            // Nobody was told anything, so either is true; but it must be one of the two.
            Cancel::Unanswered if job.cancel_requested => {}
            Cancel::Unanswered | Cancel::NotPressed => {
                assert_eq!((job.phase, job.cancel_requested), (Phase::Finished, false), "{context}: {job:?}");
                let is_settled = |outcome| matches!(outcome, Outcome::Done | Outcome::Unconfirmed);
                assert!(job.emails().all(|effect| is_settled(effect.outcome)), "{context}: a job resumes and finishes: {job:?}");
            }
        }
        if let Some(took) = self.took {
            let limit = Duration::from_secs(LEASE + SWEEP + SLACK);
            assert!(took < limit, "{context}: it took {took:?} to account for a dead worker");
        }
    }

    fn check_emails(&self, context: &str) {
        for effect in self.record.job.emails() {
            let copies = self.copies(effect.number);
            assert!(copies <= 1, "{context}: {effect:?} was accepted {copies} times");
            let evidence = effect.evidence.as_deref().unwrap_or_default();
            match effect.outcome {
                Outcome::Done => {
                    let is_proof = if self.smtp.is_some() { evidence.starts_with("250 ") } else { evidence.contains(".eml") };
                    assert!(copies == 1 && is_proof, "{context}: {effect:?}");
                }
                Outcome::NotDone | Outcome::NotStarted => assert_eq!(copies, 0, "{context}: {effect:?}"),
                // Only where the program died with the message perhaps handed over, and nobody can tell.
                Outcome::Unconfirmed => assert!(
                    self.took.is_some() && self.doubted.contains(&effect.number) && self.smtp.is_some(),
                    "{context}: {effect:?}"
                ),
                Outcome::InFlight | Outcome::InDoubt => panic!("{context}: {effect:?}"),
            }
            let named = self.times_named(effect.number);
            let attempts = usize::try_from(effect.attempts).expect("few");
            assert!(named <= attempts, "{context}: named {named} times to the mail server, with {attempts} intents");
        }
        let ours: usize = self.record.job.emails().map(|effect| self.copies(effect.number)).sum();
        assert_eq!(ours, self.accepted.len(), "{context}: a message that belongs to no effect");
    }

    /// How many accepted messages have the Message-ID of this effect.
    fn copies(&self, number: u32) -> usize {
        let header = format!("Message-ID: {}\r\n", self.record.message_ids[&number]);
        self.accepted.iter().filter(|message| message.contains(&header)).count()
    }

    /// How often the mail server heard the recipient's name.
    fn times_named(&self, number: u32) -> usize {
        let command = format!("RCPT TO:<{}>", self.record.targets[&number]);
        self.smtp.iter().flatten().filter(|line| line.starts_with(&command)).count()
    }

    fn calls(&self) -> usize {
        self.record.job.effects.iter().filter(|effect| effect.kind == EffectKind::ModelCall).count()
    }

    fn check_model(&self, context: &str) {
        assert!(self.requests <= self.calls(), "{context}: {} requests with {} intents", self.requests, self.calls());
    }

    fn check_cancel(&self, answer: &Value, context: &str) {
        let job = &self.record.job;
        let expected = if answer["outcome"] == "too_late" { (Phase::Finished, "too_late") } else { (job.phase, "accepted") };
        assert_eq!((job.phase, answer["outcome"].as_str()), (expected.0, Some(expected.1)), "{context}");
        check_cancel(job, answer, self.reports, |number| self.times_named(number), context);
        if job.cancel_requested && job.phase == Phase::Finished {
            assert!(self.page.starts_with("The cancel came too late. "), "{context}: {}", self.page);
        }
    }
}

/// The ending in short, and what the outside saw.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.record.job;
        let count = |outcome| job.emails().filter(|effect| effect.outcome == outcome).count();
        let unconfirmed = count(Outcome::Unconfirmed);
        let broken = job.emails().filter(|effect| effect.not_done == Some(NotDone::BrokenOff)).count();
        let ending = match job.phase {
            Phase::Finished if job.cancel_requested => "too late",
            Phase::Finished => "finished",
            Phase::Cancelled => "cancelled",
            other => other.name(),
        };
        f.write_str(ending)?;
        for (number, word) in [(count(Outcome::Done), "accepted"), (unconfirmed, "unconfirmed"), (broken, "broken off")] {
            if number > 0 {
                write!(f, ", {number} {word}")?;
            }
        }
        write!(f, " | {}·{}·{}", self.requests, self.reports, self.accepted.len())
    }
}
