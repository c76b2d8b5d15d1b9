//! The order of a report as a tool takes it.

use super::{
    arguments::read,
    results::{Failed, refused, wrong},
};
use crate::service::{Ordered, Service, check};
use app::model::{FieldError, Viewer};
use domain::{
    id::{JobId, MAX_REQUEST_KEY, RequestKey},
    request::ReportRequest,
};
use rmcp::model::JsonObject;
use schemars::JsonSchema;

/// The tool's arguments: a request, and a name for it.
#[derive(JsonSchema)]
#[schemars(extend("required" = ["month", "sources", "recipients"], "additionalProperties" = false))]
#[expect(dead_code, reason = "it only describes what is read in two parts")]
pub struct NewReport {
    #[serde(flatten)]
    request: ReportRequest,
    /// Names this request, in up to 255 characters: the same key with the same arguments finds the same report however often
    /// it is sent, instead of making another. Use a new one for every new report.
    request_key: Option<String>,
}

/// Places the order. When this returns the job's id, the job is durable.
pub async fn place(service: &Service, who: &Viewer, mut arguments: JsonObject) -> Result<JobId, Failed> {
    let key = arguments.remove("request_key");
    let (request, mut mistakes) = read::<ReportRequest>(arguments);
    let request = request.in_zone(&who.zone);
    let key = key.filter(|key| !key.is_null()).map(|key| key.as_str().and_then(RequestKey::named));
    if key == Some(None) {
        let text = format!("Use a text of 1 to {MAX_REQUEST_KEY} characters, or leave it out.");
        mistakes.push(FieldError { field: "request_key".into(), text });
    }
    if !mistakes.is_empty() {
        // What else is wrong is worth knowing as well, but not twice for a field that could not even be read.
        let others = check(&request, false, &service.sources).err().unwrap_or_default();
        let known: Vec<String> = mistakes.iter().map(|mistake| mistake.field.clone()).collect();
        mistakes.extend(others.into_iter().filter(|other| !known.contains(&other.field)));
        return Err(wrong(&mistakes).into());
    }
    match service.order(who, key.flatten().unwrap_or_else(RequestKey::new), &request).await? {
        Ordered::Job { id, .. } => Ok(id),
        Ordered::Conflict => Err(refused(
            "Nothing was started: this request_key was used for another report. Use a new key, or the same arguments again.",
        )
        .into()),
        Ordered::Wrong(mistakes) => Err(wrong(&mistakes).into()),
    }
}
