//! The effect history as a file: everything that passes the filters of the page, as CSV or as JSON, for administrators.
//!
//! The file is written while it is sent, [`PAGE`] effects at a time, so the history may be larger than the memory. An error
//! on the way breaks the answer off: a file that is cut short must not look whole.

mod file;

use super::{AppState, problem::Problem, session::SignedIn};
use crate::service::Service;
use app::model::EffectQuery;
use axum::{
    BoxError, Router,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use domain::id::JobId;
use file::Format;
use futures_util::{Stream, stream};
use store::{EffectFilter, Store, complain};

/// How many effects are in memory at a time.
const PAGE: u32 = 500;

type AskedFor = Result<Query<EffectQuery>, QueryRejection>;

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new().route("/admin/effects.csv", get(csv)).route("/admin/effects.json", get(json))
}

async fn csv(State(service): State<Service>, SignedIn(who): SignedIn, query: AskedFor) -> Result<Response, Problem> {
    let Query(query) = query?;
    let filter = service.effect_filter(&who, &query)??;
    Ok(attachment(service.store(), filter, Format::Csv))
}

async fn json(State(service): State<Service>, SignedIn(who): SignedIn, query: AskedFor) -> Result<Response, Problem> {
    let Query(query) = query?;
    let filter = service.effect_filter(&who, &query)??;
    Ok(attachment(service.store(), filter, Format::Json))
}

fn attachment(store: &Store, filter: EffectFilter, format: Format) -> Response {
    let name = format!("effects-{}.{}", store.clock().now().date_naive(), format.extension());
    let headers = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, Body::from_stream(pages(store.clone(), filter, format))).into_response()
}

/// Where the next page begins.
#[derive(Clone, Copy)]
enum Next {
    First,
    After(JobId, u32),
    Nothing,
}

/// The file in pieces.
fn pages(store: Store, filter: EffectFilter, format: Format) -> impl Stream<Item = Result<Vec<u8>, BoxError>> {
    stream::try_unfold(Next::First, move |next| {
        let (store, filter) = (store.clone(), filter.clone());
        async move {
            let after = match next {
                Next::First => None,
                Next::After(job, number) => Some((job, number)),
                Next::Nothing => return Ok(None),
            };
            let entries = store
                .effects_by_job(&filter, after, PAGE)
                .await
                .inspect_err(|error| complain("an export was broken off", error))?;
            let following = match entries.last() {
                Some(last) if entries.len() == PAGE as usize => Next::After(last.job_id, last.number),
                _ => Next::Nothing,
            };
            let mut piece = Vec::new();
            if after.is_none() {
                piece.extend(format.beginning().bytes());
            }
            piece.extend(format.rows(&entries, after.is_none())?);
            if matches!(following, Next::Nothing) {
                piece.extend(format.end().bytes());
            }
            Ok(Some((piece, following)))
        }
    })
}
