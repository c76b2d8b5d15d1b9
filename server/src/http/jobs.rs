//! The forms about jobs. They are plain HTML forms, so that ordering and cancelling need no script; each write ends in a
//! redirect to a page with an address of its own, so that a reload repeats nothing.

use super::{
    AppState,
    afterwards::{answer, back, job_path},
    problem::Problem,
    session::SignedIn,
};
use crate::service::{Form, FormOutcome, Service, next_key, parse_id};
use app::{error::AppError, model::Viewer};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Multipart, Path, State, multipart::Field},
    http::{HeaderValue, header},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use contract::Month;
use domain::id::{JobId, RequestKey, UploadId, UserId};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use store::{NewUpload, StoreError};

/// The longest text field, in bytes.
const MAX_FIELD: usize = 64 << 10;
/// All text fields of a form together, in bytes.
const MAX_TEXT: usize = 512 << 10;
/// The most text fields.
const MAX_FIELDS: usize = 2_000;
/// The most files of one form.
const MAX_FILES: usize = 200;
/// What is read of a form before the connection is given up. Up to here a file that is too large is read and thrown away, so
/// that its sender gets an answer.
const MAX_BODY: usize = 2 << 30;

/// The routes.
pub fn routes() -> Router<AppState> {
    Router::new()
        .route("/jobs", post(send).layer(DefaultBodyLimit::max(MAX_BODY)))
        .route("/jobs/{id}/cancellation", post(cancel))
        .route("/jobs/{id}/approval", post(approve))
        .route("/reports/{id}/report.md", get(markdown))
}

/// What the form holds besides its values.
#[derive(Default)]
struct Sent {
    form: Form,
    key: Option<RequestKey>,
    generate: bool,
    remove: Option<UploadId>,
    by_hand: Vec<(UploadId, String)>,
    /// The job that the form was filled in from.
    from: Option<JobId>,
    files: usize,
    /// Files came that the form's job does not have.
    new_files: bool,
    /// Bytes and number of all text fields.
    text: (usize, usize),
}

async fn send(State(service): State<Service>, SignedIn(who): SignedIn, mut parts: Multipart) -> Result<Response, Problem> {
    let owner = owner(&who)?;
    let mut sent = Sent { generate: true, ..Sent::default() };
    while let Some(field) = parts.next_field().await.map_err(|_| unreadable())? {
        take_field(&service, owner, &mut sent, field).await?;
    }
    let Some(mut key) = sent.key else { return Err(unreadable()) };
    let mut copies = HashMap::new();
    if let Some(from) = sent.from {
        let taken = service.take_over(&who, from, key).await?;
        sent.form.left_out(&taken);
        copies = taken.of;
    }
    // A form that has become a job is left as it is; what changes it is another form.
    let dates = service.store().uploads(owner, key).await?;
    let redated = |(id, month): &(UploadId, String)| {
        dates.iter().any(|upload| upload.id == *id && upload.by_hand.as_deref().unwrap_or_default() != month.trim())
    };
    let changed = sent.new_files || sent.remove.is_some() || !sent.generate || sent.by_hand.iter().any(redated);
    while changed && service.store().job_of_request(owner, key).await?.is_some() {
        let taken;
        (key, taken) = service.reopen(owner, key).await?;
        sent.form.left_out(&taken);
        copies = taken.of;
    }
    let current = |id: UploadId| copies.get(&id).copied().unwrap_or(id);
    for (id, month) in &sent.by_hand {
        date_by_hand(&service, owner, current(*id), month, &mut sent.form).await?;
    }
    if let Some(id) = sent.remove {
        service.store().delete_upload(owner, key, current(id)).await?;
        sent.generate = false;
    }
    if sent.generate {
        return Ok(match service.send_form(&who, key, sent.form).await? {
            FormOutcome::Job(id) => Redirect::to(&format!("/jobs/{id}")),
            FormOutcome::Look(key) => Redirect::to(&format!("/?draft={key}")),
        }
        .into_response());
    }
    // Adding or removing files is no reason to complain about fields that are not filled in yet.
    sent.form.sent = sent.remove.is_none() && sent.files == 0;
    service.keep_form(owner, key, &sent.form).await?;
    Ok(Redirect::to(&format!("/?draft={key}")).into_response())
}

fn owner(who: &Viewer) -> Result<UserId, Problem> {
    who.id.parse().map_err(|_| AppError::SignInRequired.into())
}

fn unreadable() -> Problem {
    AppError::Invalid("The form could not be read. Go back, reload the page and try again.".into()).into()
}

async fn take_field(service: &Service, owner: UserId, sent: &mut Sent, field: Field<'_>) -> Result<(), Problem> {
    let name = field.name().unwrap_or_default().to_owned();
    if name == "files" {
        return take_file(service, owner, sent, field).await;
    }
    let value = read_text(field).await?;
    sent.text = (sent.text.0 + value.len(), sent.text.1 + 1);
    if sent.text.0 > MAX_TEXT || sent.text.1 > MAX_FIELDS {
        return Err(
            AppError::Invalid("The form has far too many fields. Go back and choose fewer folders or files.".into()).into()
        );
    }
    match name.as_str() {
        "request_key" => sent.key = Some(value.parse().map_err(|_| unreadable())?),
        "from" => sent.from = value.parse().ok(),
        "source" => sent.form.request.sources.push(value),
        "recipients" => sent.form.request.recipients = vec![value],
        "title" => sent.form.request.title = value,
        "month" => sent.form.request.month = value,
        "zone" => sent.form.request.zone = value,
        "instructions" => sent.form.request.instructions = value,
        "hold" => sent.form.request.hold = value,
        "action" => sent.generate = value == "generate",
        "remove" => sent.remove = value.parse().ok(),
        other => {
            if let Some(id) = other.strip_prefix("by_hand_").and_then(|id| id.parse().ok()) {
                sent.by_hand.push((id, value));
            }
        }
    }
    Ok(())
}

async fn read_text(mut field: Field<'_>) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|_| unreadable())? {
        if bytes.len() + chunk.len() > MAX_FIELD {
            return Err(AppError::Invalid("A field of the form is far too long. Go back and make it shorter.".into()).into());
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| unreadable())
}

/// Stores a file under the form's key. A file over a limit becomes a mistake of the form; the rest of the form is kept.
async fn take_file(service: &Service, owner: UserId, sent: &mut Sent, mut field: Field<'_>) -> Result<(), Problem> {
    let name = field.file_name().map(file_name).unwrap_or_default();
    let Some(key) = sent.key else { return Err(unreadable()) };
    let max_file = service.settings.max_file_bytes();
    let kept = service.store().uploads(owner, key).await?;
    let stored: i64 = kept.iter().map(|upload| upload.size).sum();
    let max_total = service.settings.max_total_bytes().saturating_sub(u64::try_from(stored).unwrap_or(u64::MAX));
    let mut bytes = Vec::new();
    let mut size = 0_u64;
    while let Some(chunk) = field.chunk().await.map_err(|_| unreadable())? {
        size += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if size <= max_file.min(max_total) {
            bytes.extend_from_slice(&chunk);
        }
    }
    if name.is_empty() && size == 0 {
        return Ok(());
    }
    sent.files += 1;
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let mut refuse = |text: String| sent.form.complain(text);
    if size > max_file {
        refuse(format!(
            "\"{name}\" has {} MB; a file may have at most {} MB. It was not added.",
            megabytes(size),
            megabytes(max_file)
        ));
    } else if size > max_total {
        refuse(format!(
            "\"{name}\" was not added: the files of one report may have {} MB together.",
            megabytes(service.settings.max_total_bytes())
        ));
    } else if kept.len() >= MAX_FILES {
        refuse(format!("\"{name}\" was not added: a report may have {MAX_FILES} files of your own. Put more into a folder."));
    } else if size == 0 {
        refuse(format!("\"{name}\" is empty. It was not added."));
    } else {
        let sha256 = Sha256::digest(&bytes).into();
        let upload = NewUpload { name: &name, sha256, bytes: &bytes };
        let mut into = key;
        loop {
            match service.store().save_upload(owner, into, &upload).await {
                Ok(Some(_)) => break,
                Ok(None) => {
                    into = next_key(into);
                    sent.new_files = true;
                }
                // The rest of the form is kept, as with a file that is too large.
                Err(StoreError::Files(error)) => {
                    tracing::warn!(%error, "an upload could not be stored");
                    let why = error.in_words();
                    sent.form.complain(format!("\"{name}\" was not added: {why}. Add it again in a few minutes."));
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The last part of a path, without what could break out of a line. Browsers send names; others may send paths.
fn file_name(sent: &str) -> String {
    let last = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    last.chars().filter(|c| !c.is_control()).take(200).collect::<String>().trim().to_owned()
}

async fn date_by_hand(service: &Service, owner: UserId, id: UploadId, month: &str, form: &mut Form) -> Result<(), Problem> {
    let month = month.trim();
    if month.is_empty() {
        return Ok(service.store().date_upload(owner, id, None).await?);
    }
    match month.parse::<Month>() {
        Ok(month) => Ok(service.store().date_upload(owner, id, Some(&month.to_string())).await?),
        Err(error) => {
            form.complain(error.to_string());
            Ok(())
        }
    }
}

async fn cancel(State(service): State<Service>, SignedIn(who): SignedIn, Path(id): Path<String>) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    let answer = service.cancel_job(&who, id).await?;
    Ok(back(&job_path(id), answer.said))
}

async fn approve(State(service): State<Service>, SignedIn(who): SignedIn, Path(id): Path<String>) -> Result<Redirect, Problem> {
    let id: JobId = parse_id(&id)?;
    answer(service.send_now(&who, id).await, &job_path(id))
}

async fn markdown(State(service): State<Service>, SignedIn(who): SignedIn, Path(id): Path<String>) -> Result<Response, Problem> {
    let (name, text) = service.report_markdown(&who, &id).await?;
    let mut response = ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response();
    if let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_file_name_is_only_its_last_part_in_one_line() {
        assert_eq!(file_name("minutes.md"), "minutes.md");
        assert_eq!(file_name("../../etc/passwd"), "passwd");
        assert_eq!(file_name("C:\\reports\\May.docx"), "May.docx");
        assert_eq!(file_name("a\r\nb.md"), "ab.md");
    }
}
