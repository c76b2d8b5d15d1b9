//! SMTP submission whose outcome is known by phase (RFC 5321).
//!
//! Of lettre only the words of the protocol are used. Its transport and its connection do not say whether the message was
//! already handed over, take any 2yz or 3yz for success, and read a reply that was there before the question as the answer to
//! it. So the connection is our own (module `connection`) and driven by hand (module `session`), one for each message and
//! recipient, each command with its own timer and exact codes.
//!
//! RFC 5321 3.8 advises to treat a connection lost after the final dot like a 451, that is, to
//! send again. Recount departs from that on purpose: it reports the attempt as unconfirmed.

mod connection;
mod fault;
mod session;
mod settings;
mod wire;

use secrecy::ExposeSecret;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use lettre::{
    Address,
    transport::smtp::{authentication::Credentials, extension::ClientId},
};
use rustls::pki_types::ServerName;

use self::connection::Tls;
pub use self::settings::{Security, SettingsError, SmtpSettings, Timeouts};
pub(crate) use self::settings::{is_host, is_loopback};
use super::{
    channel::{Channel, Delivery, Journal, Outgoing, Reconciled, Stop},
    key::{self, InDoubtAlready, KeyHeader},
    trust,
};

/// A mail server that takes messages for others.
pub struct Smtp {
    name: String,
    relay: Relay,
    keys: Option<Keys>,
}

/// How the service behind the server recognises a message that it was given before.
struct Keys {
    header: String,
    life: TimeDelta,
    user: String,
}

/// Everything a session needs, checked.
struct Relay {
    host: String,
    port: u16,
    peer: String,
    protection: Protection,
    hello: ClientId,
    credentials: Option<Credentials>,
    timeouts: Timeouts,
    archive: Option<Address>,
    dsn: bool,
}

enum Protection {
    None,
    FromTheStart(Tls),
    Upgrade(Tls),
}

impl Smtp {
    /// Checks the settings and prepares TLS; does not connect.
    ///
    /// # Errors
    /// Says in words which setting is wrong, or that the extra CA file cannot be used.
    pub fn new(settings: &SmtpSettings) -> Result<Self, SettingsError> {
        settings.validate()?;
        let port = settings.port();
        let peer = format!("{}:{port}", settings.host);
        let protection = match settings.security {
            Security::Plain => Protection::None,
            Security::Tls => Protection::FromTheStart(tls(settings)?),
            Security::StartTls => Protection::Upgrade(tls(settings)?),
        };
        let credentials = match (&settings.username, &settings.password) {
            (Some(user), Some(password)) => Some(Credentials::new(user.clone(), password.expose_secret().to_owned())),
            _ => None,
        };
        let keys = settings.idempotency_header.as_ref().map(|header| Keys {
            header: header.clone(),
            life: TimeDelta::hours(settings.idempotency_hours.unwrap_or(24).into()),
            user: settings.username.clone().unwrap_or_default(),
        });
        Ok(Self {
            name: format!("SMTP {peer}"),
            keys,
            relay: Relay {
                host: settings.host.clone(),
                port,
                peer,
                protection,
                hello: settings.hello_name.clone().map_or_else(ClientId::default, ClientId::Domain),
                credentials,
                timeouts: settings.timeouts.clone(),
                archive: settings.archive()?,
                dsn: settings.dsn.unwrap_or(false),
            },
        })
    }
}

fn tls(settings: &SmtpSettings) -> Result<Tls, SettingsError> {
    let server = ServerName::try_from(settings.host.clone()).map_err(|_| SettingsError::Host(settings.host.clone()))?;
    let config = trust::client(settings.extra_ca_file.as_deref()).map_err(SettingsError::Tls)?;
    Ok(Tls { config, server })
}

#[async_trait]
impl Channel for Smtp {
    fn name(&self) -> &str {
        &self.name
    }

    /// With time-outs of its own for at most so many commands and blocks.
    fn longest(&self) -> Duration {
        let Timeouts { connect, command, data, block, final_dot } = self.relay.timeouts;
        connect + command * 8 + data + block * 16 + final_dot
    }

    async fn deliver(&self, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
        session::deliver(&self.relay, message, journal, stop).await
    }

    fn key_header(&self, message_id: &str) -> Option<KeyHeader> {
        let Keys { header, user, .. } = self.keys.as_ref()?;
        Some(KeyHeader::new(header, &[&self.relay.peer, user], message_id))
    }

    fn key_life(&self, message: &Outgoing) -> Option<TimeDelta> {
        let life = self.keys.as_ref()?.life;
        self.key_header(&message.message_id)?.is_in(message).then_some(life)
    }

    async fn ask_again(&self, message: &Outgoing) -> Reconciled {
        if self.key_life(message).is_none() {
            return key::not_asked();
        }
        key::reconciled(self.deliver(message, &InDoubtAlready, &Stop::default()).await)
    }
}

/// Courtesy only: how long a detached QUIT waits for its reply.
const QUIT_LIMIT: Duration = Duration::from_secs(5);
