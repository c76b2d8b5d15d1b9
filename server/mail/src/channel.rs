//! What every way of sending a message has in common.
//!
//! A channel has one point of no return: for SMTP the final dot (`CRLF.CRLF`, RFC 5321 4.1.1.4),
//! for the outbox the link that gives the file its name. Before it every failure is proof that
//! nothing was accepted, and a cancel breaks off at once. After it only evidence decides, and a
//! cancel is too late. [`Journal::in_doubt`] is called between the two, so that a crash is never
//! mistaken for a failure.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::TimeDelta;
use contract::Via;
use lettre::Address;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::key::KeyHeader;

/// One attempt to send one stored message to one recipient.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// This attempt; a retry of the same message has another one. Random, on record before the first byte, and nobody's to see:
    /// as the envelope id it is what a delivery report is believed by.
    pub attempt: Uuid,
    /// Envelope sender: where bounces go.
    pub from: Address,
    /// Envelope recipient.
    pub to: Address,
    /// The message as it was rendered and stored, RFC 5322.
    pub bytes: Arc<[u8]>,
    /// SHA-256 of `bytes` from the time of rendering.
    pub sha256: [u8; 32],
    /// `<…@…>`, the same for every attempt at this message.
    pub message_id: String,
}

impl Outgoing {
    /// Whether the bytes are still those that were rendered. A channel sends nothing else.
    pub fn is_intact(&self) -> bool {
        Sha256::digest(&self.bytes)[..] == self.sha256
    }
}

/// Where in a delivery something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryPhase {
    /// Before the channel touched anything outside.
    Prepare,
    /// Name look-up, TCP, implicit TLS, greeting and EHLO.
    Connect,
    /// STARTTLS and the TLS handshake after it (RFC 3207).
    StartTls,
    /// AUTH (RFC 4954).
    Auth,
    /// The second EHLO, asked for the limits that hold after TLS and AUTH.
    Hello,
    /// MAIL FROM.
    MailFrom,
    /// RCPT TO.
    RcptTo,
    /// DATA, up to the 354.
    Data,
    /// The record's `in_doubt`.
    Journal,
    /// The message's text, before the final dot.
    Body,
    /// The final dot and the reply to it.
    FinalDot,
    /// The answer of a service that takes messages over HTTP.
    Answer,
    /// Writing or naming a file of the outbox.
    Store,
}

impl DeliveryPhase {
    /// A stable word for records and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Connect => "connect",
            Self::StartTls => "starttls",
            Self::Auth => "auth",
            Self::Hello => "ehlo",
            Self::MailFrom => "mail_from",
            Self::RcptTo => "rcpt_to",
            Self::Data => "data",
            Self::Journal => "journal",
            Self::Body => "body",
            Self::FinalDot => "final_dot",
            Self::Answer => "answer",
            Self::Store => "store",
        }
    }
}

impl fmt::Display for DeliveryPhase {
    /// Completes the sentence "Broken off …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prepare => "before anything was sent",
            Self::Connect => "while connecting to the mail server",
            Self::StartTls => "while starting TLS",
            Self::Auth => "while signing in to the mail server",
            Self::Hello => "while asking for the mail server's limits",
            Self::MailFrom => "while naming the sender (MAIL FROM)",
            Self::RcptTo => "while naming the recipient (RCPT TO)",
            Self::Data => "before the message (DATA)",
            Self::Journal => "before the first byte of the message",
            Self::Body => "while sending the message",
            Self::FinalDot => "after the message was handed over",
            Self::Answer => "in the answer to the message",
            Self::Store => "while writing the message's file",
        })
    }
}

/// Who may make the next attempt after a proved failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The program, after a pause.
    Later,
    /// Nobody until a person has changed something: an address, a password, a certificate.
    NeedsPerson,
}

/// Why the record did not let the message go.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refused {
    /// The job was cancelled first.
    #[error("the job was cancelled")]
    Cancelled,
    /// Another worker has the job.
    #[error("another worker has taken over the job")]
    LeaseLost,
    /// The record could not be written; without it nothing may be sent.
    #[error("the record could not be written: {0}")]
    Storage(String),
}

/// Why a delivery was broken off before its point of no return.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Cause {
    /// [`Stop::cancel`] fired.
    #[error("the job was cancelled")]
    Cancelled,
    /// [`Stop::give_up`] fired.
    #[error("the program is shutting down")]
    ShuttingDown,
    /// [`Journal::in_doubt`] said no.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What became of one attempt. Each variant but the last is proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The channel took responsibility for the message. Not the same as delivered.
    Accepted {
        /// The proof, e.g. `250 2.0.0 Ok: queued as ABC123`.
        evidence: String,
        /// Who said so, e.g. `mail.example.org:465`.
        peer: String,
    },
    /// Proved: this attempt reached nobody and never will.
    NotAccepted {
        /// Where it failed.
        phase: DeliveryPhase,
        /// The reply or the error, in words.
        evidence: String,
        /// Who may try again.
        retry: Retry,
    },
    /// Proved like `NotAccepted`, but by our own wish.
    BrokenOff {
        /// How far it had come.
        phase: DeliveryPhase,
        /// Whose wish it was.
        cause: Cause,
    },
    /// Handed over, and no answer that counts. Must never be sent again by the program.
    Unconfirmed {
        /// What was seen instead of an answer.
        evidence: String,
    },
}

/// What asking the channel about an earlier attempt brought to light.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconciled {
    /// Proved: the attempt was accepted.
    Accepted {
        /// The proof.
        evidence: String,
    },
    /// Proved: it was not, and cannot be any more, even by a worker thought dead.
    NotAccepted {
        /// The proof.
        evidence: String,
    },
    /// No proof either way; a person has to look.
    NotKnown {
        /// What was tried.
        evidence: String,
    },
    /// The channel could not be asked.
    NotAsked {
        /// Why not.
        reason: String,
    },
}

/// How often a channel may be asked about an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// It knows nothing about earlier attempts.
    Never,
    /// It costs requests to somebody else's service: on the schedule of the looks.
    Sparingly,
    /// It costs nothing.
    Freely,
}

/// The two ways to stop a delivery.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Someone pressed Cancel. Ignored after the point of no return.
    pub cancel: CancellationToken,
    /// The process ends and its grace is over. Before the point of no return it breaks off like a
    /// cancel; after it, waiting ends with [`Delivery::Unconfirmed`].
    pub give_up: CancellationToken,
}

impl Stop {
    /// Waits until either is wanted.
    pub async fn requested(&self) -> Cause {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Cause::Cancelled,
            () = self.give_up.cancelled() => Cause::ShuttingDown,
        }
    }

    /// Whether either is wanted now.
    pub fn cause(&self) -> Option<Cause> {
        if self.cancel.is_cancelled() {
            Some(Cause::Cancelled)
        } else if self.give_up.is_cancelled() {
            Some(Cause::ShuttingDown)
        } else {
            None
        }
    }
}

/// The durable record behind a delivery, written under the job's guard.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Commits "the next bytes may make the channel accept this attempt", and returns when that
    /// would survive a power failure. A channel calls it exactly once, right before the first byte
    /// that leads to its point of no return, and lets it run to its end: it is never dropped
    /// half-way, so an implementation must bound its own waiting.
    ///
    /// # Errors
    /// Any error makes the channel break off; nothing is accepted then.
    async fn in_doubt(&self) -> Result<(), Refused>;
}

/// A way to hand over messages.
#[async_trait]
pub trait Channel: Send + Sync {
    /// How screens call it, e.g. `outbox folder` or `SMTP mail.example.org:465`.
    fn name(&self) -> &str;

    /// What kind of thing it hands messages over to; the record keeps it, since settings change.
    fn via(&self) -> Via {
        Via::MailService
    }

    /// Makes one attempt. Dropping the future is as good as a crash: the record then decides.
    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery;

    /// How long an attempt takes at most. An hour is more than the waits of RFC 5321 (4.5.3.2) come to in a session.
    fn longest(&self) -> Duration {
        Duration::from_hours(1)
    }

    /// Whether asking with [`Channel::reconcile`] makes sense, and how often.
    fn asking(&self) -> Asking {
        Asking::Never
    }

    /// Asks what became of an earlier attempt, given exactly as it was given to `deliver`.
    async fn reconcile(&self, message: &Outgoing) -> Reconciled {
        let _ = message;
        Reconciled::NotKnown { evidence: format!("{} cannot be asked about earlier messages.", self.name()) }
    }

    /// The header that a new message gets when it is rendered, so that its key is part of the stored bytes. `None` where the
    /// channel knows no keys.
    fn key_header(&self, message_id: &str) -> Option<KeyHeader> {
        let _ = message_id;
        None
    }

    /// How long after the first attempt the service still recognises this message by its key, margin not taken off: see
    /// [`key::recognised`](super::key::recognised). `None` where a second hand-over could be a second message, also because
    /// the message was rendered for another channel or account than the present settings name.
    fn key_life(&self, message: &Outgoing) -> Option<TimeDelta> {
        let _ = message;
        None
    }

    /// Hands the very same bytes over again under the same key; the answer is the reconciliation. A service that knows the
    /// key answers as it did the first time and takes no second message.
    ///
    /// The caller records the act before it, and asks only while the key is recognised, for a job that nobody has cancelled:
    /// if the first attempt never arrived, this one does. An acceptance is proof; a refusal is none, because it says nothing
    /// about the first attempt.
    async fn ask_again(&self, message: &Outgoing) -> Reconciled {
        let _ = message;
        Reconciled::NotKnown { evidence: format!("{} recognises no message by a key.", self.name()) }
    }
}
