//! Saved reports as resources: `report://{job_id}`, in Markdown. Private to whoever may see the job, and for nobody's shared cache.

use super::{
    principal::Principal,
    results::{MARKDOWN, next_cursor, resource_link, resource_uri},
    tasks::missing,
};
use crate::service::{Service, ServiceError};
use app::{error::AppError, model::Viewer, ports::Pages};
use domain::{id::JobId, people::Scope};
use rmcp::{
    ErrorData,
    model::{
        CacheScope, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, ResourceContents, ResourceTemplate,
    },
};
use serde_json::json;

/// How long a list or a report may be taken for fresh, in milliseconds: not at all, because either may be withdrawn.
const FRESH: u64 = 0;

/// One page of the saved reports, newest first. A page may have fewer than another, or none, and still be followed by more: the
/// jobs without a report are left out of it.
pub async fn list(service: &Service, who: &Principal, cursor: Option<String>) -> Result<ListResourcesResult, ErrorData> {
    let who = who.with(Scope::Read).map_err(missing)?;
    let page = Pages::jobs(service, who, String::new(), cursor.unwrap_or_default()).await;
    let page = page.map_err(|cause| match cause {
        AppError::NotFound => ErrorData::invalid_params("This cursor is none of this list.", None),
        other => error(other.into()),
    })?;
    let next_cursor = next_cursor(&page);
    let saved = page.jobs.iter().filter(|job| job.report_path.is_some());
    let resources = saved.map(|job| {
        resource_link(&job.id, &job.title).with_description(format!("{}. Ordered {}.", job.headline, job.created.text))
    });
    let mut result = ListResourcesResult::with_all_items(resources.collect()).with_cache_scope(CacheScope::Private);
    result.next_cursor = next_cursor;
    Ok(result.with_ttl_ms(FRESH))
}

/// The shape of their addresses.
pub fn templates() -> ListResourceTemplatesResult {
    let report = ResourceTemplate::new(resource_uri("{job_id}"), "report")
        .with_title("A saved report")
        .with_description("The text of the report that a job has saved, with the sources of every statement.")
        .with_mime_type(MARKDOWN);
    ListResourceTemplatesResult::with_all_items(vec![report])
}

/// The text of a report.
pub async fn read(service: &Service, who: &Principal, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let who = who.with(Scope::Read).map_err(missing)?;
    let text = text(service, who, uri).await.map_err(|cause| ErrorData { data: Some(json!({ "uri": uri })), ..error(cause) })?;
    let contents = vec![ResourceContents::text(text, uri).with_mime_type(MARKDOWN)];
    Ok(ReadResourceResult::new(contents).with_cache_scope(CacheScope::Private).with_ttl_ms(FRESH))
}

async fn text(service: &Service, who: &Viewer, uri: &str) -> Result<String, ServiceError> {
    let id: JobId = uri.strip_prefix("report://").and_then(|id| id.parse().ok()).ok_or(AppError::NotFound)?;
    let report = service.visible(who, id).await?.row.report_id.ok_or(AppError::NotFound)?;
    let (_, text) = service.report_markdown(who, &report.to_string()).await?;
    Ok(text)
}

fn error(ServiceError(error): ServiceError) -> ErrorData {
    match error {
        AppError::NotFound => {
            ErrorData::invalid_params("There is no such report: it is not saved (yet), or it is not yours to see.", None)
        }
        AppError::Withdrawn { .. } => ErrorData::invalid_params(error.to_string(), None),
        other => ErrorData::internal_error(other.to_string(), None),
    }
}
