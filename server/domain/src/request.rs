//! What somebody asks for, before anybody has looked at it: one type that the form, the API, MCP and the command line fill in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request for a report. Every field may be left out and is text as it was typed; what is missing or wrong is said of all fields
/// at once by the check that makes a [`Spec`](crate::spec::Spec) of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["month", "sources", "recipients"]))]
pub struct ReportRequest {
    /// The month, YYYY-MM, such as 2026-06.
    pub month: String,
    /// The folders to read, by id or name as `list_sources` gives them, or paths inside them.
    pub sources: Vec<String>,
    /// The e-mail addresses that get the link to the report.
    pub recipients: Vec<String>,
    /// The report's name, such as "Team minutes".
    pub title: String,
    /// The time zone in which the month begins and ends, such as Europe/Lisbon. Left out: the person's own.
    pub zone: String,
    /// What to look for in the documents; language models follow it.
    pub instructions: String,
    /// What happens between saving the report and e-mailing it: "none", a number of seconds in which it can still be cancelled,
    /// or "approval" to wait until a person lets it go.
    pub hold: String,
}

impl ReportRequest {
    /// The same request, in this time zone where it names none.
    #[must_use]
    pub fn in_zone(self, zone: &str) -> Self {
        if self.zone.trim().is_empty() { Self { zone: zone.to_owned(), ..self } } else { self }
    }
}
