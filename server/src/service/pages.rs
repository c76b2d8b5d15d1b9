//! What the pages may ask, answered: the port that `app` declares, one line for each question.

use super::{
    Service, check_recipients,
    jobs::{parse_id, user_id},
    view::moment,
};
use app::{
    error::AppError,
    model::{
        AccountView, CancelAnswerView, DocumentChoice, DocumentView, EffectQuery, EffectView, EffectsView, JobView, JobsView,
        NewReportQuery, NewReportView, RecipientCheck, ReportView, SessionLine, SignInView, TokenLine, Viewer,
    },
    ports::Pages,
};
use async_trait::async_trait;
use domain::people::{Scope, Scopes};

#[async_trait]
impl Pages for Service {
    async fn sign_in(&self) -> Result<SignInView, AppError> {
        let exist = self.store().users_exist().await.map_err(|error| super::told(&error))?;
        Ok(SignInView { first_admin: !exist })
    }

    async fn new_report(&self, who: &Viewer, query: NewReportQuery) -> Result<NewReportView, AppError> {
        Ok(self.open_form(who, &query).await?)
    }

    async fn recount(&self, who: &Viewer, request_key: String, choice: DocumentChoice) -> Result<NewReportView, AppError> {
        Ok(self.recount_form(who, &request_key, choice).await?)
    }

    async fn check_recipients(&self, _who: &Viewer, typed: String) -> Result<RecipientCheck, AppError> {
        Ok(check_recipients(&typed))
    }

    async fn recent(&self, who: &Viewer) -> Result<JobsView, AppError> {
        Ok(self.recent_jobs(who).await?)
    }

    async fn jobs(&self, who: &Viewer, state: String, before: String) -> Result<JobsView, AppError> {
        Ok(self.list_jobs(who, &state, &before).await?)
    }

    async fn job(&self, who: &Viewer, id: String) -> Result<JobView, AppError> {
        Ok(self.show_job(who, parse_id(&id)?).await?)
    }

    async fn cancel(&self, who: &Viewer, id: String) -> Result<CancelAnswerView, AppError> {
        Ok(self.cancel_job(who, parse_id(&id)?).await?)
    }

    async fn report(&self, who: &Viewer, id: String) -> Result<ReportView, AppError> {
        Ok(self.show_report(who, &id).await?)
    }

    async fn document(
        &self,
        who: &Viewer,
        report: String,
        number: u32,
        start: usize,
        end: usize,
    ) -> Result<DocumentView, AppError> {
        Ok(self.show_document(who, &report, number, start, end).await?)
    }

    async fn effects(&self, who: &Viewer, query: EffectQuery) -> Result<EffectsView, AppError> {
        Ok(self.list_effects(who, query).await?)
    }

    async fn effect(&self, who: &Viewer, job: String, number: String) -> Result<EffectView, AppError> {
        Ok(self.show_effect(who, parse_id(&job)?, parse_id(&number)?).await?)
    }

    async fn unconfirmed_effects(&self, who: &Viewer) -> Result<u32, AppError> {
        if !who.is_admin {
            return Ok(0);
        }
        self.store().count_unconfirmed().await.map_err(|error| super::told(&error))
    }

    async fn account(&self, who: &Viewer) -> Result<AccountView, AppError> {
        let told = |error: store::StoreError| super::told(&error);
        let owner = user_id(who)?;
        let zone = super::view::Reader::new(&who.email, &who.zone).zone;
        let sessions = self.store().sessions_of(owner).await.map_err(told)?;
        let tokens = self.store().tokens_of(owner).await.map_err(told)?;
        Ok(AccountView {
            email: who.email.clone(),
            role: if who.is_admin { "administrator".into() } else { "user".into() },
            zone: who.zone.clone(),
            sessions: sessions
                .into_iter()
                .map(|session| SessionLine {
                    is_this: who.session.as_deref() == Some(session.id.to_string().as_str()),
                    id: session.id.to_string(),
                    device: session.device,
                    seen: moment(session.seen_at, zone),
                })
                .collect(),
            tokens: tokens
                .into_iter()
                .map(|token| TokenLine {
                    id: token.id.to_string(),
                    name: token.name,
                    limit: limit(token.scopes).map(str::to_owned),
                    created: moment(token.created_at, zone),
                    used: token.used_at.map(|at| moment(at, zone)),
                })
                .collect(),
        })
    }
}

/// What such a token may do, where that is not everything.
fn limit(scopes: Scopes) -> Option<&'static str> {
    match (scopes.contains(Scope::Read), scopes.contains(Scope::Write)) {
        (true, true) => None,
        (true, false) => Some("may only look"),
        (false, true) => Some("may change, but not look"),
        (false, false) => Some("may do nothing"),
    }
}
