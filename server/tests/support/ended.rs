//! Jobs that have ended this way or that, and mailings about them, without a worker.

use contract::{StepKind, Verdict};
use domain::{
    id::{JobId, RequestKey},
    spec::Task,
};
use sha2::{Digest, Sha256};
use store::{Mailing, Message};

use super::instance::{Instance, terms};

pub fn accepted() -> Verdict {
    Verdict::Done("250 2.0.0 queued as ABC123".into())
}

pub fn refused() -> Verdict {
    Verdict::NotDone(contract::NotDone::Refused, "550 5.1.1 no such user".into())
}

pub fn unanswered() -> Verdict {
    Verdict::Unconfirmed("no answer within 10 min".into())
}

impl Instance {
    /// A finished job of ada's with a saved report; each e-mail was rendered, tried once, and came to its verdict.
    pub async fn ended(&self, emails: &[(&str, Verdict)]) -> JobId {
        let recipients: Vec<&str> = emails.iter().map(|(to, _)| *to).collect();
        let claim = self.job_at(StepKind::Email, &recipients).await;
        self.render(claim.id).await;
        for (number, (_, verdict)) in (2..).zip(emails) {
            self.hand_over(claim.id, claim.epoch, number).await;
            self.change(claim.id, |job| job.settle(claim.epoch, number, verdict.clone())).await.expect("it is in doubt");
        }
        self.complete(&claim, StepKind::Email).await.expect("every e-mail is settled");
        claim.id
    }

    /// Brings an e-mail to the point of no return.
    pub async fn hand_over(&self, id: JobId, epoch: u32, number: u32) {
        self.change(id, |job| job.begin_effect(epoch, number)).await.expect("it may begin");
        self.change(id, |job| job.doubt(epoch, number)).await.expect("it is in flight");
    }

    /// Stores a message for each e-mail, as the worker does before the first attempt at any.
    pub async fn render(&self, id: JobId) {
        let record = self.record(id).await;
        let mut change = self.store.change_job(id).await.expect("the database works").expect("the job exists");
        for email in record.job.emails() {
            let message_id = record.message_ids[&email.number].clone();
            let bytes = format!("Message-ID: {message_id}\r\n\r\nThe report is ready.\r\n").into_bytes();
            let (sender, recipient) = ("r@example.org".into(), record.targets[&email.number].clone());
            let message = Message { sender, recipient, message_id, sha256: Sha256::digest(&bytes).to_vec(), bytes };
            change.insert_message(email.number, &message).await.expect("the database works");
        }
        change.commit().await.expect("the database works");
    }

    /// Orders a second copy, by ada, who is sure.
    pub async fn second_copy(&self, about: JobId, number: u32) -> Mailing {
        let task = Task::SecondCopy { about, number };
        self.store.order_mailing(RequestKey::new(), task, "ada@example.org", "asked for", true).await.expect("the database works")
    }

    /// Orders a correction, by ada.
    pub async fn correction(&self, about: JobId) -> Mailing {
        let task = Task::Correction { about, text: "The sum is wrong.".into(), by: "ada@example.org".into() };
        self.store.order_mailing(RequestKey::new(), task, "ada@example.org", "", false).await.expect("the database works")
    }

    /// Brings every e-mail of a waiting mailing to this verdict, and the mailing to its end.
    pub async fn mail(&self, id: JobId, verdict: Verdict) {
        let claim = self.store.claim_job("worker-1", terms(Some(id))).await.expect("the database works").expect("it waits");
        self.render(id).await;
        for number in self.emails(id).await {
            self.hand_over(id, claim.epoch, number).await;
            self.change(id, |job| job.settle(claim.epoch, number, verdict.clone())).await.expect("it is in doubt");
        }
        self.complete(&claim, StepKind::Email).await.expect("every e-mail is settled");
    }
}

/// The job of a mailing that was ordered.
pub fn ordered(mailing: Mailing) -> JobId {
    match mailing {
        Mailing::Job(id) => id,
        other => panic!("there should be a job, but: {other:?}"),
    }
}
