//! Looks for proof that a message was accepted, where handing it over ended without an answer.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use lettre::Address;
use uuid::Uuid;

/// What is looked for: one message that was handed over and never answered for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// `<…@…>`, the same for every attempt.
    pub message_id: String,
    /// The envelope id (RFC 3461 4.4) of every attempt that may have been accepted.
    pub envelope_ids: Vec<Uuid>,
    /// Whom it was for.
    pub recipient: Address,
    /// When it was first handed over.
    pub since: DateTime<Utc>,
}

/// What a look brought to light.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Proof that the mail service accepted the message.
    Accepted { evidence: String },
    /// Nothing was found, which proves nothing.
    Nothing { asked: String },
    /// The place could not be looked at.
    Failed { reason: String },
}

/// A place that may know what became of a message. Looking changes nothing there.
#[async_trait]
pub trait Look: Send + Sync {
    /// How screens call it.
    fn name(&self) -> &str;

    /// Looks once, within the look's own time-outs.
    async fn look(&self, wanted: &Wanted) -> Finding;
}
