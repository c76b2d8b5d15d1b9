//! Messages, journals and settings for the mail tests.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::DateTime;
use domain::id::message_id;
use mail::{
    channel::{Channel, Journal, Outgoing, Refused},
    compose::{Notice, compose},
    smtp::{Security, SmtpSettings, Timeouts},
};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Keeps count of how often `in_doubt` was asked for, and answers as told.
pub struct Record {
    asked: AtomicUsize,
    answer: Result<(), Refused>,
    cancels: Option<CancellationToken>,
}

impl Record {
    pub fn allowing() -> Self {
        Self { asked: AtomicUsize::new(0), answer: Ok(()), cancels: None }
    }

    pub fn refusing(why: Refused) -> Self {
        Self { answer: Err(why), ..Self::allowing() }
    }

    /// Says yes, and the cancel comes while it says so.
    pub fn allowing_and_cancelling(token: CancellationToken) -> Self {
        Self { cancels: Some(token), ..Self::allowing() }
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Journal for Record {
    async fn in_doubt(&self) -> Result<(), Refused> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(token) = &self.cancels {
            token.cancel();
        }
        self.answer.clone()
    }
}

/// Runs a test on one thread, so that it may stop the clock.
pub fn on_one_thread<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime").block_on(test)
}

/// A message with dots where they matter.
pub fn message() -> Outgoing {
    message_with("first line\r\n.\r\n.dot\r\nlast line")
}

/// More than the buffers of a loopback connection hold.
pub fn huge_message() -> Outgoing {
    message_with(&"0123456789abcdef0123456789abcdef0123456789abcdef012345678\r\n".repeat(200_000))
}

pub fn message_with(body: &str) -> Outgoing {
    message_with_id("<0123456789abcdef0123456789abcdef@example.org>", body)
}

pub fn message_with_id(message_id: &str, body: &str) -> Outgoing {
    let bytes = format!("From: r@example.org\r\nTo: anna@example.org\r\nMessage-ID: {message_id}\r\nSubject: s\r\n\r\n{body}")
        .into_bytes();
    Outgoing {
        attempt: Uuid::from_u128(7),
        from: "r@example.org".parse().expect("sender"),
        to: "anna@example.org".parse().expect("recipient"),
        sha256: Sha256::digest(&bytes).into(),
        bytes: bytes.into(),
        message_id: message_id.to_owned(),
    }
}

/// A message as Recount renders it for this channel.
pub fn rendered_for(channel: &dyn Channel, title: &str) -> Outgoing {
    let id = message_id(0xfeed, "recount.example.org");
    let key = channel.key_header(&id);
    let notice = Notice {
        correction: None,
        from: "Recount <r@example.org>".parse().expect("sender"),
        to: "anna@example.org".parse().expect("recipient"),
        title: title.into(),
        month: "June 2026".into(),
        link: "https://recount.example.org/reports/7?a=1&b=2".into(),
        requested_by: "Bert".into(),
        job: Uuid::from_u128(7),
        message_id: id,
        date: DateTime::from_timestamp(1_782_900_000, 0).expect("a time"),
        key,
    };
    let composed = compose(&notice).expect("a good notice");
    Outgoing {
        attempt: Uuid::from_u128(7),
        from: notice.from.email,
        to: notice.to,
        bytes: composed.bytes.into(),
        sha256: composed.sha256,
        message_id: composed.message_id,
    }
}

/// Plain SMTP to a port of this machine, with the long time-outs of the RFC.
pub fn settings(port: u16) -> SmtpSettings {
    SmtpSettings {
        host: "127.0.0.1".into(),
        port: Some(port),
        security: Security::Plain,
        username: None,
        password: None,
        from: "r@example.org".into(),
        hello_name: Some("client.example.org".into()),
        timeouts: Timeouts::default(),
        extra_ca_file: None,
        idempotency_header: None,
        idempotency_hours: None,
        archive: None,
        dsn: None,
    }
}
