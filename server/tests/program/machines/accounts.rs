//! What is true at the end, when every job has ended: the records, what people were answered, and what the mail server has.

use std::{collections::HashMap, io::Write, sync::Arc};

use chrono::TimeDelta;
use contract::{Outcome, Phase, headline};
use domain::{clock::SystemClock, id::JobId};
use store::{Record, Store};

use super::office::{Office, Order};
use crate::support::{
    raw::Raw,
    truth::{check_cancel, check_sentence},
};

/// The mail server's side.
struct Mail {
    /// Accepted messages by Message-ID.
    accepted: HashMap<String, usize>,
    lines: Vec<String>,
}

impl Mail {
    fn of(office: &Office) -> Self {
        let mut accepted = HashMap::new();
        for body in office.smtp.bodies() {
            let text = String::from_utf8_lossy(&body).into_owned();
            let id = text.lines().find_map(|line| line.strip_prefix("Message-ID: ")).expect("every message has one");
            *accepted.entry(id.trim_end().to_owned()).or_default() += 1;
        }
        Self { accepted, lines: office.smtp.lines() }
    }

    fn copies(&self, record: &Record, number: u32) -> usize {
        self.accepted.get(&record.message_ids[&number]).copied().unwrap_or_default()
    }

    /// How often it heard the recipient's name.
    fn named(&self, record: &Record, number: u32) -> usize {
        let command = format!("RCPT TO:<{}>", record.targets[&number]);
        self.lines.iter().filter(|line| line.starts_with(&command)).count()
    }
}

/// Checks every job of an office whose machines have stopped, and prints what there was.
pub async fn settle(office: &Office, orders: &[Order], title: &str) {
    office.smtp.finished().await;
    let mail = Mail::of(office);
    let store = Store::open(office.home.database(), Arc::new(SystemClock), "recount.test").await.expect("the database");
    let mut raw = office.raw().await;
    let mut records = Vec::new();
    for order in orders {
        let id: JobId = order.id.parse().expect("an id");
        let record = store.job(id).await.expect("the database works").expect("no job is lost");
        check(&record, order, &mail, &mut raw).await;
        records.push(record);
    }
    let jobs = raw.number("select count(*) from jobs").await;
    assert_eq!(usize::try_from(jobs), Ok(orders.len()), "{title}: every order is one job");
    let ours: usize = records.iter().flat_map(|record| record.job.emails().map(|email| mail.copies(record, email.number))).sum();
    assert_eq!(ours, mail.accepted.values().sum::<usize>(), "{title}: a message that belongs to no effect");
    store.close().await;
    print(title, &records, ours);
}

async fn check(record: &Record, order: &Order, mail: &Mail, raw: &mut Raw) {
    let (job, id) = (&record.job, record.row.id);
    let context = format!("job {id}: {job:?}");
    let reports = raw.number_of("select count(*) from reports where job_id = $1", id).await;
    let reports = usize::try_from(reports).expect("a count");
    // Nothing here fails for good, so that a failed job would be one that was given up because of the machines.
    assert!(matches!(job.phase, Phase::Finished | Phase::Cancelled), "{context}");
    assert!(!job.leased && !job.effects.iter().any(|effect| effect.outcome.is_open()), "{context}");
    assert_eq!(reports, usize::from(job.report_saved()), "{context}");
    let mut accepted = 0;
    for email in job.emails() {
        let (copies, named) = (mail.copies(record, email.number), mail.named(record, email.number));
        accepted += copies;
        match email.outcome {
            Outcome::Done => assert_eq!(copies, 1, "{email:?}; {context}"),
            Outcome::Unconfirmed => assert!(copies <= 1, "never twice: {email:?}; {context}"),
            _ => assert_eq!(copies, 0, "{email:?}; {context}"),
        }
        assert!(named <= usize::try_from(email.attempts).expect("few"), "named {named} times: {email:?}; {context}");
    }
    check_sentence(&headline(job), job, reports, accepted, &context);
    if let Some(answer) = &order.cancel {
        check_cancel(job, answer, reports, |number| mail.named(record, number), &context);
    } else {
        assert!(!job.cancel_requested && job.phase == Phase::Finished, "{context}");
        let is_settled = |outcome| matches!(outcome, Outcome::Done | Outcome::Unconfirmed);
        assert!(job.emails().all(|email| is_settled(email.outcome)), "{context}");
    }
}

fn print(title: &str, records: &[Record], accepted: usize) {
    let phases = |phase| records.iter().filter(|record| record.job.phase == phase).count();
    let emails = |outcome| records.iter().flat_map(|record| record.job.emails()).filter(|email| email.outcome == outcome).count();
    let late = records.iter().filter(|record| record.job.phase == Phase::Finished && record.job.cancel_requested).count();
    let stopping = records.iter().filter_map(|record| Some(record.row.finished_at? - record.row.cancel_requested_at?)).max();
    let stopping = stopping.unwrap_or_else(TimeDelta::zero).num_milliseconds();
    let resumed = records.iter().filter(|record| record.job.epoch > 1).count();
    writeln!(
        std::io::stdout().lock(),
        "{title}: {} jobs ({} finished, {} cancelled, {late} too late), {resumed} taken more than once; e-mails: {} accepted, \
         {} unconfirmed, {} broken off or not started, {accepted} at the mail server; longest stop {}.{:03} s",
        records.len(),
        phases(Phase::Finished),
        phases(Phase::Cancelled),
        emails(Outcome::Done),
        emails(Outcome::Unconfirmed),
        emails(Outcome::NotDone) + emails(Outcome::NotStarted),
        stopping / 1000,
        stopping % 1000,
    )
    .expect("standard output");
}
