//! Sending once to a scripted server, and judging what came of it.

use std::time::Duration;

use mail::{
    channel::{Channel, Delivery, DeliveryPhase, Outgoing, Retry, Stop},
    smtp::{Security, Smtp, SmtpSettings},
};
use secrecy::SecretString;
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

use super::{
    mail::{Record, on_one_thread, settings},
    smtp_server::{Act, EHLO, EHLO_STARTTLS, Encryption, Script, Server},
    tls::{self, certificate},
};

/// What a case must come to.
pub enum Expected {
    Accepted,
    NotAccepted(DeliveryPhase, Option<Retry>),
    Unconfirmed,
}

pub fn later(phase: DeliveryPhase) -> Expected {
    Expected::NotAccepted(phase, Some(Retry::Later))
}

pub fn person(phase: DeliveryPhase) -> Expected {
    Expected::NotAccepted(phase, Some(Retry::NeedsPerson))
}

/// How the connection is protected, with what that takes on both sides.
pub enum Transport {
    Plain,
    StartTls(TlsAcceptor, NamedTempFile),
    Tls(TlsAcceptor, NamedTempFile),
}

impl Transport {
    /// All three, each with a certificate of its own.
    pub fn all() -> [Self; 3] {
        let [upgraded, implicit] = [certificate("localhost"), certificate("localhost")];
        [Self::Plain, Self::StartTls(upgraded.0, upgraded.1), Self::Tls(implicit.0, implicit.1)]
    }

    /// A server with that script, and the settings that lead to it.
    fn serve(&self, script: Script) -> (Server, SmtpSettings) {
        match self {
            Self::Plain => {
                let server = Server::start(script);
                let settings = settings(server.port);
                (server, settings)
            }
            Self::StartTls(acceptor, ca) => {
                // Where the script says nothing about EHLO, the server must offer the upgrade.
                let offers = matches!(script.ehlo, Act::Say(EHLO));
                let script = Script { ehlo: if offers { Act::Say(EHLO_STARTTLS) } else { script.ehlo.clone() }, ..script };
                let server = Server::start_encrypted(script, Encryption::StartTls(acceptor.clone()));
                let settings = tls::settings(server.port, Security::StartTls, Some(ca));
                (server, settings)
            }
            Self::Tls(acceptor, ca) => {
                let server = Server::start_encrypted(script, Encryption::Implicit(acceptor.clone()));
                let settings = tls::settings(server.port, Security::Tls, Some(ca));
                (server, settings)
            }
        }
    }
}

/// Sends over a plain connection to a server with that script; hangs are cut short by the clock.
pub fn run(script: Script, message: &Outgoing, sign_in: bool) -> (Delivery, usize, Vec<String>) {
    run_over(&Transport::Plain, script, message, sign_in)
}

/// Like [`run`], over any connection.
pub fn run_over(transport: &Transport, script: Script, message: &Outgoing, sign_in: bool) -> (Delivery, usize, Vec<String>) {
    on_one_thread(async {
        let (server, mut settings) = transport.serve(script);
        if sign_in {
            settings.username = Some("u".into());
            settings.password = Some(SecretString::from("p"));
        }
        let smtp = Smtp::new(&settings).expect("settings");
        let (record, stop) = (Record::allowing(), Stop::default());
        let mut delivery = std::pin::pin!(smtp.deliver(message, &record, &stop));
        let delivery = tokio::select! {
            delivery = &mut delivery => delivery,
            () = server.reached() => {
                tokio::time::pause();
                tokio::time::advance(Duration::from_hours(1)).await;
                let delivery = delivery.await;
                server.release();
                delivery
            }
        };
        server.finished().await;
        (delivery, server.commits(), server.lines())
    })
}

pub fn matches(expected: &Expected, delivery: &Delivery) -> bool {
    match (expected, delivery) {
        (Expected::Accepted, Delivery::Accepted { evidence, .. }) => evidence.starts_with("250 "),
        (Expected::NotAccepted(phase, retry), Delivery::NotAccepted { phase: seen, retry: who, evidence }) => {
            phase == seen && retry.is_none_or(|retry| retry == *who) && !evidence.is_empty()
        }
        (Expected::Unconfirmed, Delivery::Unconfirmed { evidence }) => !evidence.is_empty(),
        _ => false,
    }
}
