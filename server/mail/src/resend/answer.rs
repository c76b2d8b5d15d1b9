//! What an answer proves.
//!
//! The documented refusals prove that this request was not accepted. Everything that is neither such a refusal nor an
//! acceptance with an id leaves the outcome open: a 5xx or a gateway's 408 can follow an acceptance, a redirect can too
//! (303), and a 409 says that the key is known, not what became of the message that came with it.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::{
    channel::{Delivery, DeliveryPhase, Retry},
    evidence::clean,
};

/// The answer's body, or why it could not be read to its end.
pub(super) type Body = Result<Vec<u8>, String>;

#[derive(Deserialize)]
struct Taken {
    id: String,
}

/// How the API says no.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    name: String,
    message: String,
}

/// Judges the answer to a message that was handed over.
pub(super) fn delivery(status: StatusCode, body: &Body, peer: &str) -> Delivery {
    if status.is_success() {
        return match id(body) {
            Ok(id) => Delivery::Accepted { evidence: format!("{}, id {id}", status.as_u16()), peer: peer.to_owned() },
            Err(why) => Delivery::Unconfirmed { evidence: format!("{}, but {why}", status.as_u16()) },
        };
    }
    let refusal = refusal(body);
    let evidence = evidence(status, &refusal);
    let not_accepted = |phase, retry| Delivery::NotAccepted { phase, evidence: evidence.clone(), retry };
    match status.as_u16() {
        401 => not_accepted(DeliveryPhase::Auth, Retry::NeedsPerson),
        403 if refusal.name.contains("api_key") => not_accepted(DeliveryPhase::Auth, Retry::NeedsPerson),
        400 | 403 | 404 | 405 | 413 | 422 | 451 => not_accepted(DeliveryPhase::Answer, Retry::NeedsPerson),
        429 => not_accepted(DeliveryPhase::Answer, Retry::Later),
        _ => Delivery::Unconfirmed { evidence },
    }
}

/// Judges an answer to a request whose body was never sent.
pub(super) fn without_message(status: StatusCode, body: &Body, peer: &str) -> Delivery {
    match delivery(status, body, peer) {
        refused @ Delivery::NotAccepted { .. } => refused,
        _ => Delivery::NotAccepted {
            phase: DeliveryPhase::Connect,
            evidence: format!("{} before the message was sent", evidence(status, &refusal(body))),
            retry: Retry::Later,
        },
    }
}

/// A refusal in words: `403 invalid_api_key: API key is invalid`.
pub(super) fn words(status: StatusCode, body: &Body) -> String {
    evidence(status, &refusal(body))
}

fn id(body: &Body) -> Result<String, String> {
    let body = body.as_ref().map_err(|why| format!("its text could not be read: {why}"))?;
    let taken: Option<Taken> = serde_json::from_slice(body).ok();
    taken.map(|taken| clean(&taken.id)).filter(|id| !id.is_empty()).ok_or_else(|| "its text names no id".to_owned())
}

fn refusal(body: &Body) -> Refusal {
    body.as_ref().ok().and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default()
}

fn evidence(status: StatusCode, refusal: &Refusal) -> String {
    let Refusal { name, message } = refusal;
    let status = status.as_u16();
    clean(&match (name.as_str(), message.as_str()) {
        ("", "") => status.to_string(),
        ("", text) | (text, "") => format!("{status} {text}"),
        _ => format!("{status} {name}: {message}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, body: &str) -> Delivery {
        delivery(StatusCode::from_u16(status).expect("a status"), &Ok(body.as_bytes().to_vec()), "api.test")
    }

    #[test]
    fn only_an_id_is_an_acceptance() {
        let accepted = Delivery::Accepted { evidence: "200, id 49a3".into(), peer: "api.test".into() };
        assert_eq!(judged(200, r#"{"id":"49a3","later":"field"}"#), accepted);
        for nothing in ["", "{}", "[]", r#"{"id":""}"#, r#"{"id":7}"#, r#"{"id":"49a3"#, "<html>"] {
            assert!(matches!(judged(200, nothing), Delivery::Unconfirmed { .. }), "{nothing}");
        }
        let cut = delivery(StatusCode::OK, &Err("closed".into()), "api.test");
        assert!(matches!(cut, Delivery::Unconfirmed { .. }), "{cut:?}");
    }

    #[test]
    fn of_all_other_statuses_only_the_documented_refusals_are_proof() {
        let mut proof = Vec::new();
        for status in (300..600).filter(|status| matches!(judged(*status, ""), Delivery::NotAccepted { .. })) {
            proof.push(status);
        }
        assert_eq!(proof, [400, 401, 403, 404, 405, 413, 422, 429, 451]);
    }

    #[test]
    fn a_wrong_key_is_no_refusal_of_the_message() {
        let Delivery::NotAccepted { phase, evidence, .. } =
            judged(403, r#"{"name":"invalid_api_key","message":"API key\n is invalid"}"#)
        else {
            panic!("403 is proof");
        };
        assert_eq!((phase, evidence.as_str()), (DeliveryPhase::Auth, "403 invalid_api_key: API key is invalid"));
        let refused = judged(403, r#"{"name":"validation_error","message":"The domain is not verified"}"#);
        assert!(matches!(refused, Delivery::NotAccepted { phase: DeliveryPhase::Answer, .. }), "{refused:?}");
    }
}
