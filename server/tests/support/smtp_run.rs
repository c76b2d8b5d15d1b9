//! Sending once to a scripted server, and judging what came of it.

use std::time::Duration;

use server::mail::{
    channel::{Channel, Delivery, Outgoing, Phase, Retry, Stop},
    smtp::{Secret, Smtp},
};

use super::{
    mail::{Record, on_one_thread, settings},
    smtp_server::{Script, Server},
};

/// What a case must come to.
pub enum Expected {
    Accepted,
    NotAccepted(Phase, Option<Retry>),
    Unconfirmed,
}

pub fn later(phase: Phase) -> Expected {
    Expected::NotAccepted(phase, Some(Retry::Later))
}

pub fn person(phase: Phase) -> Expected {
    Expected::NotAccepted(phase, Some(Retry::NeedsPerson))
}

/// Sends over a connection to a server with that script; hangs are cut short by the clock.
pub fn run(script: Script, message: &Outgoing, sign_in: bool) -> (Delivery, usize, Vec<String>) {
    on_one_thread(async {
        let server = Server::start(script);
        let mut settings = settings(server.port);
        if sign_in {
            settings.username = Some("u".into());
            settings.password = Some(Secret::new("p"));
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
