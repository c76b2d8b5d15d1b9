//! What the tools are called, what they take and give, and what they promise to a host that asks people before it calls one.

use super::{
    order::NewReport,
    results::{CancelStatus, ReportList, ReportStatus, SourceList},
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

pub const START: &str = "start_report";
pub const GENERATE: &str = "generate_report";
pub const STATUS: &str = "get_report_status";
pub const CANCEL: &str = "cancel_report";
pub const LIST: &str = "list_reports";
pub const SOURCES: &str = "list_sources";

/// The arguments of what is about one report.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("required" = ["job_id"]))]
pub struct OneReport {
    /// The `job_id` that `start_report` or `list_reports` gave.
    pub job_id: String,
}

/// The arguments of the list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Page {
    /// The `next_cursor` of the page before; nothing for the newest reports.
    pub cursor: String,
    /// Only reports in this phase: queued, running, stopping, cancelled, finished or failed.
    pub state: String,
}

/// No arguments.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Nothing {}

/// All tools.
pub fn all() -> Vec<Tool> {
    let probes = || ToolAnnotations::new().read_only(true).idempotent(true).open_world(false);
    vec![
        tool(
            START,
            "Start a monthly report",
            "Starts one monthly report: collects the month's documents from the chosen folders, summarizes them, saves the report \
             and e-mails the link to the recipients. Returns at once, with the job_id; the work goes on whatever becomes of this \
             connection. Only cancel_report (or the Cancel button, or tasks/cancel) stops it. Follow it with get_report_status. \
             Send a request_key, so that a repeated call finds the same report instead of sending everything twice.",
        )
        .with_input_schema::<NewReport>()
        .with_output_schema::<ReportStatus>()
        // It e-mails people, and a repetition without a request_key does so again.
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(true)),
        tool(
            GENERATE,
            "Make a monthly report and wait for it",
            "Does the same as start_report and waits until the report has ended, telling its progress. The report belongs to this \
             call: cancelling the call, or losing its connection, cancels the report. Prefer start_report where the call may be \
             cut off by a time-out; without a progress token nothing is heard of this call until its end. With the hold \"approval\" \
             it waits for that person. With the same request_key a repeated call finds the same report and waits for it.",
        )
        .with_input_schema::<NewReport>()
        .with_output_schema::<ReportStatus>()
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(true)),
        tool(
            STATUS,
            "See where a report stands",
            "Tells where one report stands: its headline, and what a cancel could still do. Ask about once a second at most, until \
             is_final is true.",
        )
        .with_input_schema::<OneReport>()
        .with_output_schema::<ReportStatus>()
        .with_annotations(probes()),
        tool(
            CANCEL,
            "Cancel a report",
            "Presses the Cancel button of one report. The answer acknowledges the request, which is not the stop: from then on \
             nothing new starts, what is under way is stopped and accounted for, and what has already happened (a saved report, an \
             accepted e-mail) stays. Ask get_report_status until is_final is true to learn how it ended. A repetition changes \
             nothing.",
        )
        .with_input_schema::<OneReport>()
        .with_output_schema::<CancelStatus>()
        .with_annotations(ToolAnnotations::new().read_only(false).destructive(true).idempotent(true).open_world(false)),
        tool(LIST, "List reports", "Lists the reports that you can see, newest first, 50 a page.")
            .with_input_schema::<Page>()
            .with_output_schema::<ReportList>()
            .with_annotations(probes()),
        tool(SOURCES, "List the folders for reports", "Lists the folders that reports can be made from, with their ids.")
            .with_input_schema::<Nothing>()
            .with_output_schema::<SourceList>()
            .with_annotations(probes()),
    ]
}

fn tool(name: &'static str, title: &str, description: &'static str) -> Tool {
    Tool::new(name, description, Arc::new(JsonObject::new())).with_title(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_whole() {
        for tool in all() {
            let schema = tool.schema_as_json_value();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            assert!(tool.output_schema.is_some() && tool.annotations.is_some() && tool.title.is_some(), "{}", tool.name);
        }
        let start = all().remove(0).schema_as_json_value();
        assert_eq!(start["required"], serde_json::json!(["month", "sources", "recipients"]));
    }
}
