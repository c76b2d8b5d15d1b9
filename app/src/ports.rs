//! All that a page may ask of the server. The server implements it and provides it by context, so no page can reach the
//! database, and the list of what the screens can do is this file.

use crate::{
    error::AppError,
    model::{
        AccountView, CancelAnswerView, DocumentChoice, DocumentView, EffectQuery, EffectView, EffectsView, JobView, JobsView,
        NewReportQuery, NewReportView, RecipientCheck, ReportView, SignInView, Viewer,
    },
};
use async_trait::async_trait;
use leptos::prelude::use_context;
use std::sync::Arc;

/// What pages ask. The person who asks always comes first; the implementation decides what they may see.
#[async_trait]
pub trait Pages: Send + Sync + 'static {
    async fn sign_in(&self) -> Result<SignInView, AppError>;
    /// The form, filled in from a draft, from a job, or with sensible values.
    async fn new_report(&self, who: &Viewer, query: NewReportQuery) -> Result<NewReportView, AppError>;
    /// The form again for another choice of documents: counts, interval, warnings. Nothing is stored.
    async fn recount(&self, who: &Viewer, request_key: String, choice: DocumentChoice) -> Result<NewReportView, AppError>;
    async fn check_recipients(&self, who: &Viewer, typed: String) -> Result<RecipientCheck, AppError>;
    async fn recent(&self, who: &Viewer) -> Result<JobsView, AppError>;
    /// `before` is a job's id: only older ones are listed. `state` is a phase's name, or empty.
    async fn jobs(&self, who: &Viewer, state: String, before: String) -> Result<JobsView, AppError>;
    async fn job(&self, who: &Viewer, id: String) -> Result<JobView, AppError>;
    async fn cancel(&self, who: &Viewer, id: String) -> Result<CancelAnswerView, AppError>;
    async fn report(&self, who: &Viewer, id: String) -> Result<ReportView, AppError>;
    /// `start` and `end` are byte offsets of a cited passage; both 0 where none is meant.
    async fn document(
        &self,
        who: &Viewer,
        report: String,
        number: u32,
        start: usize,
        end: usize,
    ) -> Result<DocumentView, AppError>;
    /// For admins. A filter that cannot be read is no error: the view says what is wrong with it.
    async fn effects(&self, who: &Viewer, query: EffectQuery) -> Result<EffectsView, AppError>;
    /// For admins. One effect, by its job's id and its number there.
    async fn effect(&self, who: &Viewer, job: String, number: String) -> Result<EffectView, AppError>;
    /// How many effects are unconfirmed, for the navigation; 0 for people who are not admins.
    async fn unconfirmed_effects(&self, who: &Viewer) -> Result<u32, AppError>;
    async fn account(&self, who: &Viewer) -> Result<AccountView, AppError>;
}

/// The server's implementation, from the context of the request.
pub fn pages() -> Result<Arc<dyn Pages>, AppError> {
    use_context::<Arc<dyn Pages>>().ok_or(AppError::Internal)
}

/// The signed-in person, from the context of the request.
pub fn viewer() -> Result<Viewer, AppError> {
    use_context::<Option<Viewer>>().flatten().ok_or(AppError::SignInRequired)
}
