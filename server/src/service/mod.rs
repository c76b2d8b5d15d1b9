//! The service: takes orders for reports, answers questions about them, and says everything in words. Pages, the JSON API
//! and the command line all come here, so that they cannot tell different stories.

mod afterwards;
mod effect_filter;
mod effects;
pub mod first_admin;
mod form;
mod jobs;
mod lists;
mod order;
mod pages;
mod set_aside;
pub mod sign_in;
mod upload_dates;
mod view;

pub use afterwards::Done;
pub use form::{Form, FormOutcome, next_key};
pub use jobs::{Ordered, parse_id};
pub use order::{AllowedSource, check, check_recipients, with_ids};
pub use view::{interval, job_view, moment};

use crate::{settings::Settings, worker::Dependencies};
use app::error::AppError;
use std::sync::Arc;
use store::{Store, StoreError, complain};
use upload_dates::UploadDates;

/// The service and what stands behind it.
#[derive(Clone)]
pub struct Service {
    pub dependencies: Arc<Dependencies>,
    pub settings: Arc<Settings>,
    /// The sources that reports may be made from.
    pub sources: Arc<Vec<AllowedSource>>,
    /// What the summarizer is called, asked once: asking a model's opens its connection.
    summarizer: Arc<str>,
    dates: Arc<UploadDates>,
}

impl Service {
    /// A service; the sources come from the settings.
    pub fn new(dependencies: Arc<Dependencies>, settings: Arc<Settings>) -> Self {
        let sources = Arc::new(with_ids(settings.sources.clone()));
        let summarizer = dependencies.summarizer.identity().map_or_else(|error| error.to_string(), |identity| identity.name);
        Self { dependencies, settings, sources, summarizer: summarizer.into(), dates: Arc::default() }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.dependencies.store
    }
}

/// Logs the cause where it happened and keeps it from the browser, which is told in words where it is the database or the file
/// store.
pub(crate) fn told(error: &StoreError) -> AppError {
    complain("a request failed", error);
    if let StoreError::Files(trouble) = error {
        return AppError::Unavailable(format!("Not possible just now: {}. Try again in a few minutes.", trouble.in_words()));
    }
    match error.unavailable() {
        Some(trouble) if !trouble.may_pass() => AppError::Unavailable(trouble.sentence().into()),
        Some(trouble) => AppError::Unavailable(format!(
            "{} Nothing that was recorded is lost, and work goes on by itself afterwards. Try again in a moment.",
            trouble.sentence()
        )),
        None => AppError::Internal,
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> Self {
        Self(told(&error))
    }
}

/// An error that is already fit to be shown.
#[derive(Debug)]
pub struct ServiceError(pub AppError);

impl From<ServiceError> for AppError {
    fn from(error: ServiceError) -> Self {
        error.0
    }
}

impl From<AppError> for ServiceError {
    fn from(error: AppError) -> Self {
        Self(error)
    }
}
