//! What tools answer: a sentence for people and assistants, and the same as data. The sentences are the service's.

use super::{arguments, principal::Missing};
use crate::service::{Service, ServiceError};
use app::{
    error::AppError,
    model::{CancelAnswerView, FieldError, JobRow, JobView, JobsView},
};
use contract::Phase;
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, Resource},
};
use schemars::JsonSchema;
use serde::Serialize;

/// The media type of reports.
pub const MARKDOWN: &str = "text/markdown";

/// Where one report stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportStatus {
    /// Names the report from its order on; all other tools take it.
    pub job_id: String,
    pub title: String,
    /// YYYY-MM
    pub month: String,
    /// queued, running, stopping, and for good: cancelled, finished or failed.
    pub phase: &'static str,
    /// Whether nothing will change any more by itself.
    pub is_final: bool,
    /// What has happened, in one sentence. Tell it to people as it is.
    pub headline: String,
    /// Why it failed, or what the headline means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a stopping report waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<String>,
    /// What a cancel could still do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_cancelled_now: Option<String>,
    /// Who asked for the cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_by: Option<String>,
    /// What became of the documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<String>,
    /// Whether the report itself is there to be read.
    pub is_saved: bool,
    /// The resource that has the report's text once it is saved.
    pub resource: String,
    /// The page for people.
    pub url: String,
    /// Grows with every change of the record.
    pub version: i64,
}

/// What a cancel met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CancelStatus {
    /// accepted, `already_requested` or `too_late`.
    pub outcome: String,
    /// The same in a sentence. It acknowledges the request, which is not the stop.
    pub message: String,
    pub report: ReportStatus,
}

/// One report in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportLine {
    pub job_id: String,
    pub title: String,
    pub headline: String,
    pub created: String,
    /// Whose it is, where one sees those of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The resource with its text, where it is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    pub url: String,
}

/// A page of the list of reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReportList {
    /// Newest first.
    pub reports: Vec<ReportLine>,
    /// For the next page of older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A folder that reports can be made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceLine {
    pub id: String,
    pub name: String,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceList {
    pub sources: Vec<SourceLine>,
}

impl ReportStatus {
    pub fn of(service: &Service, job: &JobView) -> Self {
        Self {
            job_id: job.id.clone(),
            title: job.title.clone(),
            month: job.month.clone(),
            phase: job.phase.name(),
            is_final: job.phase.is_final(),
            headline: job.headline.clone(),
            reason: job.reason.clone(),
            waiting_for: job.waiting_for.clone(),
            if_cancelled_now: job.if_cancelled_now.clone(),
            cancelled_by: job.cancel.as_ref().map(|cancel| cancel.by.clone()),
            documents: job.coverage_summary.clone(),
            is_saved: job.report_path.is_some(),
            resource: resource_uri(&job.id),
            url: page(service, &job.id),
            version: job.version,
        }
    }

    fn text(&self) -> String {
        let parts = [Some(&self.headline), self.reason.as_ref(), self.waiting_for.as_ref(), self.if_cancelled_now.as_ref()];
        let sentences: Vec<String> = parts.into_iter().flatten().map(|text| closed(text)).collect();
        let documents = self.documents.as_ref().map(|summary| format!("\nDocuments: {summary}.")).unwrap_or_default();
        format!("{}: {}{documents}\nJob {}, {}", self.title, sentences.join(" "), self.job_id, self.url)
    }
}

impl ReportLine {
    pub fn of(service: &Service, row: JobRow) -> Self {
        Self {
            resource: row.report_path.is_some().then(|| resource_uri(&row.id)),
            url: page(service, &row.id),
            job_id: row.id,
            title: row.title,
            headline: row.headline,
            created: row.created.iso,
            owner: row.owner,
        }
    }
}

/// A sentence with its full stop.
fn closed(sentence: &str) -> String {
    if sentence.ends_with(['.', '…', '?']) { sentence.to_owned() } else { format!("{sentence}.") }
}

/// The page of a job.
pub fn page(service: &Service, id: &str) -> String {
    format!("{}/jobs/{id}", service.dependencies.public_url)
}

/// The address of a job's report as a resource.
pub fn resource_uri(id: &str) -> String {
    format!("report://{id}")
}

/// The link to a job's report.
pub fn resource_link(id: &str, title: &str) -> Resource {
    Resource::new(resource_uri(id), format!("report-{id}.md")).with_title(title).with_mime_type(MARKDOWN)
}

/// Where the next page of a list of jobs begins, if there is one.
pub fn next_cursor(page: &JobsView) -> Option<String> {
    page.older_path.as_ref().and(page.jobs.last()).map(|last| last.id.clone())
}

/// Text and data.
pub fn answer(text: String, data: &impl Serialize) -> Result<CallToolResult, ErrorData> {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    let data = serde_json::to_value(data).map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    result.structured_content = Some(data);
    Ok(result)
}

/// Where a report stands, with the link to it.
pub fn status(service: &Service, job: &JobView) -> Result<CallToolResult, ErrorData> {
    let status = ReportStatus::of(service, job);
    let mut result = answer(status.text(), &status)?;
    result.content.push(ContentBlock::resource_link(resource_link(&job.id, &job.title)));
    Ok(result)
}

/// What has become of a report that was waited for. One that failed or was cancelled is an error of the tool, not of the
/// protocol: whoever asked for it has to know, and can do something about it.
pub fn ended(service: &Service, job: &JobView) -> Result<CallToolResult, ErrorData> {
    let mut result = status(service, job)?;
    result.is_error = Some(job.phase != Phase::Finished);
    Ok(result)
}

/// The Cancel button's own answer.
pub fn cancel(service: &Service, answer: &CancelAnswerView) -> Result<CallToolResult, ErrorData> {
    let report = ReportStatus::of(service, &answer.job);
    let stop = if report.is_final {
        "The job has ended."
    } else {
        "This is the acknowledgement and not the stop: what is under way is being stopped and accounted for. \
         Ask get_report_status until is_final is true; its headline then says what had already happened."
    };
    let text = format!("{} {stop}\n{}", answer.message, report.text());
    let (outcome, message) = (answer.outcome.clone(), answer.message.clone());
    self::answer(text, &CancelStatus { outcome, message, report })
}

/// Arguments that cannot be accepted.
pub fn wrong(mistakes: &[FieldError]) -> CallToolResult {
    refused(arguments::in_words(mistakes))
}

/// Something that the tool could not do, for a reason that whoever called it can understand.
pub fn refused(why: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

/// Why a tool was not carried out.
#[derive(Debug)]
pub enum Failed {
    /// The caller is told why, as a result of the tool.
    Told(Box<CallToolResult>),
    /// The protocol's own errors.
    Error(ErrorData),
}

impl From<Missing> for Failed {
    fn from(missing: Missing) -> Self {
        refused(missing.sentence()).into()
    }
}

impl From<CallToolResult> for Failed {
    fn from(result: CallToolResult) -> Self {
        Self::Told(Box::new(result))
    }
}

impl From<ErrorData> for Failed {
    fn from(error: ErrorData) -> Self {
        Self::Error(error)
    }
}

impl From<ServiceError> for Failed {
    fn from(ServiceError(error): ServiceError) -> Self {
        match error {
            AppError::NotFound => refused(
                "There is no such report, or it is not yours to see. list_reports shows those that you can see, with their job_id.",
            )
            .into(),
            AppError::Internal => Self::Error(ErrorData::internal_error(error.to_string(), None)),
            other => refused(other.to_string()).into(),
        }
    }
}

impl Failed {
    /// As the answer to the tool's call.
    pub fn into_result(self) -> Result<CallToolResult, ErrorData> {
        match self {
            Self::Told(result) => Ok(*result),
            Self::Error(error) => Err(error),
        }
    }
}
