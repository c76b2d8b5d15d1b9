//! Resend's HTTP API: a mail service that recognises a message by its key.
//!
//! The point of no return is the body of one `POST /emails`. The body waits behind a gate until the connection stands and the
//! record says `in_doubt` (module `exchange`), so a crash while connecting proves that nothing was accepted; with its length
//! named in the head, a request without its body is no request (RFC 9112 8). After it only an answer decides (module
//! `answer`). One connection per message, no redirects, none of the library's own retries: every request is one that the
//! record knows of.
//!
//! What is sent is JSON, derived from the stored RFC 5322 bytes in one way only (module `payload`): the service compares it
//! with what came under the same key before, and answers a repetition with the first message's id instead of sending again.

mod answer;
mod exchange;
mod list;
mod payload;
mod settings;

use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use reqwest::Url;

pub use self::settings::{ResendSettings, SettingsError};
use super::{
    channel::{Asking, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Reconciled, Retry, Stop},
    key::{self, InDoubtAlready, KeyHeader},
};

/// The service's own e-mail header for a key. It marks the stored bytes, and stays out of what is sent: over HTTP the key has
/// a header of the request.
const KEY_HEADER: &str = "Resend-Idempotency-Key";

/// How long the service recognises a key, by its documentation.
const KEY_LIFE: TimeDelta = TimeDelta::hours(24);

/// One account of the service.
pub struct Resend {
    name: String,
    service: Service,
}

/// Everything that a request needs.
struct Service {
    client: reqwest::Client,
    emails: Url,
    peer: String,
    api_key: SecretString,
    limits: Limits,
}

/// The longest waits.
struct Limits {
    /// Name look-up, TCP and TLS.
    connect: Duration,
    /// The longest silence while an answer is due.
    idle: Duration,
    /// From the message's body to the end of the answer.
    maximum: Duration,
}

impl Resend {
    /// Checks the settings; does not connect.
    ///
    /// # Errors
    /// Says in words which setting is wrong.
    pub fn new(settings: &ResendSettings) -> Result<Self, SettingsError> {
        let emails = settings.validate()?;
        let host = emails.host_str().unwrap_or_default();
        let peer = emails.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            // A connection that was used before can be dead already, and then nobody knows what it did with the next request.
            .pool_max_idle_per_host(0)
            .http1_only();
        if emails.scheme() == "http" {
            // Only this machine itself is reached so, and it is never behind a proxy.
            client = client.no_proxy();
        }
        Ok(Self {
            name: format!("Resend {peer}"),
            service: Service {
                client: client.build().map_err(|error| SettingsError::Client(error.to_string()))?,
                emails,
                peer,
                api_key: settings.api_key.clone(),
                limits: settings.limits(),
            },
        })
    }

    fn key(&self, message_id: &str) -> KeyHeader {
        let service = &self.service;
        KeyHeader::new(KEY_HEADER, &[service.emails.as_str(), service.api_key.expose_secret()], message_id)
    }
}

#[async_trait]
impl Channel for Resend {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        if let Some(cause) = stop.cause() {
            return Delivery::BrokenOff { phase: DeliveryPhase::Prepare, cause };
        }
        let unusable = |evidence| Delivery::NotAccepted { phase: DeliveryPhase::Prepare, evidence, retry: Retry::NeedsPerson };
        if !message.is_intact() {
            return unusable("the stored message no longer has its SHA-256".to_owned());
        }
        match payload::json(message) {
            Ok(json) => exchange::hand_over(&self.service, &self.key(&message.message_id), json, journal, stop).await,
            Err(error) => unusable(error.to_string()),
        }
    }

    fn asking(&self) -> Asking {
        Asking::Sparingly
    }

    async fn reconcile(&self, message: &Outgoing) -> Reconciled {
        list::look_for(&self.service, &message.message_id).await
    }

    fn key_header(&self, message_id: &str) -> Option<KeyHeader> {
        Some(self.key(message_id))
    }

    fn key_life(&self, message: &Outgoing) -> Option<TimeDelta> {
        self.key(&message.message_id).is_in(message).then_some(KEY_LIFE)
    }

    async fn ask_again(&self, message: &Outgoing) -> Reconciled {
        if self.key_life(message).is_none() {
            return key::not_asked();
        }
        key::reconciled(self.deliver(message, &InDoubtAlready, &Stop::default()).await)
    }
}
