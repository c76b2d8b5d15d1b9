//! One request: its head, the gate before its body, and the answer.
//!
//! The HTTP library asks for the body when the connection stands (name, TCP and TLS). The body then waits until the record
//! says `in_doubt`; that is the same place as SMTP's 354. Until it is let through, every failure proves that nothing was
//! accepted.

use secrecy::ExposeSecret;
use std::{future::Future, io, pin::pin, time::Duration};

use futures_util::stream;
use reqwest::{Body as RequestBody, Response, header};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{Service, answer};
use crate::{
    channel::{Delivery, DeliveryPhase, Journal, Retry, Stop},
    evidence::{clean, innermost, is_tls},
    key::KeyHeader,
};

/// Longest answer that is read, in bytes: a page of the list; the answer to a message has a hundred.
const ANSWER_LIMIT: usize = 1024 * 1024;

/// Makes one attempt.
pub(super) async fn hand_over(service: &Service, key: &KeyHeader, json: Vec<u8>, journal: &dyn Journal, stop: &Stop) -> Delivery {
    let length = json.len();
    let (body, gate) = gated();
    let request = service
        .client
        .post(service.emails.clone())
        .bearer_auth(service.api_key.expose_secret())
        .header("Idempotency-Key", &key.value)
        .header(header::CONTENT_TYPE, "application/json")
        // Named, so that a body that never comes cannot be taken for an empty one.
        .header(header::CONTENT_LENGTH, length)
        .body(body);
    let mut answer = pin!(request.send());

    tokio::select! {
        biased;
        cause = stop.requested() => return Delivery::BrokenOff { phase: DeliveryPhase::Connect, cause },
        Ok(()) = gate.reached => {}
        early = &mut answer => return without_message(service, early).await,
        () = sleep(service.limits.connect) => return not_connected(&silence(service.limits.connect), Retry::Later),
    }
    if let Err(refused) = journal.in_doubt().await {
        return Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause: refused.into() };
    }
    if let Some(cause) = stop.cause() {
        return Delivery::BrokenOff { phase: DeliveryPhase::Journal, cause };
    }
    if gate.message.send(json).is_err() {
        // Nobody waits for it any more: the connection was lost before the message.
        let idle = service.limits.idle;
        return match timeout(idle, answer).await {
            Ok(early) => without_message(service, early).await,
            Err(_) => not_connected(&silence(idle), Retry::Later),
        };
    }

    let maximum = service.limits.maximum;
    tokio::select! {
        biased;
        delivery = timeout(maximum, after_message(service, answer)) => {
            delivery.unwrap_or_else(|_| Delivery::Unconfirmed { evidence: silence(maximum) })
        }
        () = stop.give_up.cancelled() => {
            Delivery::Unconfirmed { evidence: "the program had to end before the mail service answered".to_owned() }
        }
    }
}

/// The other side of the gate.
struct Gate {
    /// Comes when the connection stands.
    reached: oneshot::Receiver<()>,
    /// Lets the message through. Dropping it breaks the request off.
    message: oneshot::Sender<Vec<u8>>,
}

/// A body that says when it is asked for, and then waits for what to send.
fn gated() -> (RequestBody, Gate) {
    let (reached, sees_reached) = oneshot::channel();
    let (message, waits_for_message) = oneshot::channel();
    let body = stream::once(async move {
        // Nobody to tell: the attempt was dropped, and the next line says so too.
        let _ = reached.send(());
        waits_for_message.await.map_err(io::Error::other)
    });
    (RequestBody::wrap_stream(body), Gate { reached: sees_reached, message })
}

/// The request ended without its message.
async fn without_message(service: &Service, answer: Result<Response, reqwest::Error>) -> Delivery {
    match answer {
        Ok(response) => {
            let status = response.status();
            let body = read(response, service.limits.idle);
            let body = timeout(service.limits.maximum, body).await.unwrap_or_else(|_| Err(silence(service.limits.maximum)));
            answer::without_message(status, &body, &service.peer)
        }
        Err(error) if is_tls(&error) => {
            not_connected(&format!("no trusted TLS connection: {}", innermost(&error)), Retry::NeedsPerson)
        }
        Err(error) => not_connected(&format!("the connection failed: {}", innermost(&error)), Retry::Later),
    }
}

fn not_connected(evidence: &str, retry: Retry) -> Delivery {
    Delivery::NotAccepted { phase: DeliveryPhase::Connect, evidence: clean(evidence), retry }
}

/// From the message to the end of the answer.
async fn after_message(service: &Service, answer: impl Future<Output = Result<Response, reqwest::Error>>) -> Delivery {
    let idle = service.limits.idle;
    match timeout(idle, answer).await {
        Ok(Ok(response)) => {
            let status = response.status();
            answer::delivery(status, &read(response, idle).await, &service.peer)
        }
        Ok(Err(error)) => {
            Delivery::Unconfirmed { evidence: clean(&format!("no answer, the connection failed: {}", innermost(&error))) }
        }
        Err(_) => Delivery::Unconfirmed { evidence: silence(idle) },
    }
}

/// Reads an answer to its end, bounded in size and in each silence.
pub(super) async fn read(mut response: Response, idle: Duration) -> answer::Body {
    let mut body = Vec::new();
    loop {
        match timeout(idle, response.chunk()).await {
            Ok(Ok(Some(piece))) if body.len() + piece.len() <= ANSWER_LIMIT => body.extend_from_slice(&piece),
            Ok(Ok(Some(_))) => return Err(format!("more than {ANSWER_LIMIT} bytes")),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(clean(&innermost(&error))),
            Err(_) => return Err(silence(idle)),
        }
    }
}

fn silence(limit: Duration) -> String {
    format!("no answer within {} s", limit.as_secs())
}
