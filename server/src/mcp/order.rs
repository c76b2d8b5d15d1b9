//! The order of a report as a tool takes it.

use super::{
    arguments::read,
    results::{Failed, refused, wrong},
};
use crate::service::{Order, Ordered, Service, check};
use app::model::{FieldError, Viewer};
use domain::id::{JobId, MAX_REQUEST_KEY, RequestKey};
use rmcp::model::JsonObject;
use schemars::JsonSchema;
use serde::Deserialize;

/// What somebody asks for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["month", "sources", "recipients"]))]
pub struct NewReport {
    /// The month, YYYY-MM, such as 2026-06.
    month: String,
    /// The folders to read, by id or name as `list_sources` gives them, or paths inside them.
    sources: Vec<String>,
    /// The e-mail addresses that get the link to the report.
    recipients: Vec<String>,
    /// The report's name, such as "Team minutes".
    title: String,
    /// The time zone in which the month begins and ends, such as Europe/Lisbon. Left out: the person's own.
    zone: String,
    /// What to look for in the documents; language models follow it.
    instructions: String,
    /// What happens between saving the report and e-mailing it: "none", a number of seconds in which it can still be cancelled,
    /// or "approval" to wait until a person lets it go.
    hold: String,
    /// Names this request, in up to 255 characters: the same key with the same arguments finds the same report however often
    /// it is sent, instead of making another. Use a new one for every new report.
    request_key: Option<String>,
}

impl NewReport {
    fn order(&self, who: &Viewer) -> Order {
        Order {
            title: self.title.clone(),
            month: self.month.clone(),
            zone: if self.zone.trim().is_empty() { who.zone.clone() } else { self.zone.clone() },
            sources: self.sources.clone(),
            recipients: self.recipients.join(","),
            instructions: self.instructions.clone(),
            hold: self.hold.clone(),
            has_files: false,
        }
    }
}

/// Places the order. When this returns the job's id, the job is durable.
pub async fn place(service: &Service, who: &Viewer, arguments: JsonObject) -> Result<JobId, Failed> {
    let (new, mut mistakes) = read::<NewReport>(arguments);
    let order = new.order(who);
    let key = new.request_key.as_deref().map(RequestKey::named);
    if key == Some(None) {
        let text = format!("Use 1 to {MAX_REQUEST_KEY} characters, or leave it out.");
        mistakes.push(FieldError { field: "request_key".into(), text });
    }
    if !mistakes.is_empty() {
        // What else is wrong is worth knowing as well, but not twice for a field that could not even be read.
        let others = check(&order, &service.sources).err().unwrap_or_default();
        let known: Vec<String> = mistakes.iter().map(|mistake| mistake.field.clone()).collect();
        mistakes.extend(others.into_iter().filter(|other| !known.contains(&other.field)));
        return Err(wrong(&mistakes).into());
    }
    match service.order(who, key.flatten().unwrap_or_else(RequestKey::new), &order).await? {
        Ordered::Job { id, .. } => Ok(id),
        Ordered::Conflict => Err(refused(
            "Nothing was started: this request_key was used for another report. Use a new key, or the same arguments again.",
        )
        .into()),
        Ordered::Wrong(mistakes) => Err(wrong(&mistakes).into()),
    }
}
