//! The question without an act: is a message among those that the service says it has taken?
//!
//! The list names each message's Message-ID, which nobody can guess, so one that is found was accepted. Not finding it proves
//! nothing: the list is long, keys that may only send cannot read it, and the documentation does not promise that the
//! service keeps a Message-ID that it was given.

use reqwest::{StatusCode, Url};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::time::timeout;

use super::{Service, answer, exchange::read};
use crate::{
    channel::Reconciled,
    evidence::{clean, innermost},
};

/// How many pages of [`PAGE`] messages are read, the newest first.
const PAGES: usize = 5;

/// The most messages that the service puts on one page.
const PAGE: &str = "100";

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    has_more: bool,
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    message_id: Option<String>,
}

/// Probes for the message with this Message-ID.
pub(super) async fn look_for(service: &Service, message_id: &str) -> Reconciled {
    let limit = service.limits.maximum;
    match timeout(limit, find(service, message_id)).await {
        Ok(Ok(Some(id))) => {
            Reconciled::Accepted { evidence: format!("{} lists it with its Message-ID, id {}", service.peer, clean(&id)) }
        }
        Ok(Ok(None)) => Reconciled::NotKnown {
            evidence: format!(
                "its Message-ID is not among the newest messages that {} lists, which proves nothing",
                service.peer
            ),
        },
        Ok(Err(why)) => Reconciled::NotAsked { reason: format!("the list of {} could not be read: {why}", service.peer) },
        Err(_) => Reconciled::NotAsked {
            reason: format!("the list of {} could not be read within {} s", service.peer, limit.as_secs()),
        },
    }
}

async fn find(service: &Service, message_id: &str) -> Result<Option<String>, String> {
    let mut after = None;
    for _ in 0..PAGES {
        let page = page(service, after.as_deref()).await?;
        if let Some(found) = page.data.iter().find(|listed| listed.message_id.as_deref().map(str::trim) == Some(message_id)) {
            return Ok(Some(found.id.clone()));
        }
        match page.data.into_iter().next_back() {
            Some(last) if page.has_more => after = Some(last.id),
            _ => break,
        }
    }
    Ok(None)
}

async fn page(service: &Service, after: Option<&str>) -> Result<Page, String> {
    let mut url: Url = service.emails.clone();
    url.query_pairs_mut().append_pair("limit", PAGE).extend_pairs(after.map(|id| ("after", id)));
    let request = service.client.get(url).bearer_auth(service.api_key.expose_secret());
    let idle = service.limits.idle;
    let response = timeout(idle, request.send()).await.map_err(|_| format!("no answer within {} s", idle.as_secs()))?;
    let response = response.map_err(|error| clean(&innermost(&error)))?;
    let status = response.status();
    let body = read(response, idle).await;
    if status != StatusCode::OK {
        return Err(answer::words(status, &body));
    }
    serde_json::from_slice(&body?).map_err(|error| error.to_string())
}
