//! The form for a new report. What is typed and uploaded is kept on the server from the first "Check" or mistake on, so that
//! nothing is lost, and the page can show what the order would be before anything starts.

use super::{Ordered, Service, ServiceError, check_recipients, jobs::user_id, upload_dates::EmbeddedDate, view::Reader};
use crate::worker::whole_month;
use app::{
    error::AppError,
    model::{DocumentChoice, FieldError, NewReportQuery, NewReportView, SourceChoice, UploadLine, Viewer},
};
use contract::Month;
use contract::wording;
use documents::{
    read,
    source::{Source, count, dating::date_document},
};
use domain::request::ReportRequest;
use domain::{
    hold::Hold,
    id::{JobId, RequestKey, UserId},
    period::{Period, parse_zone},
};
use serde::{Deserialize, Serialize};
use store::{Copies, StoreError, Upload};
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// The form as it was typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Form {
    /// What was typed. The recipients are one text, as they stood in their field.
    pub request: ReportRequest,
    /// Mistakes that are not of a field's value, such as a file that was too large.
    pub problems: Vec<FieldError>,
    /// Whether the person has asked for the check or the report, so that mistakes are worth showing.
    pub sent: bool,
}

/// What became of a form that was sent.
#[derive(Debug)]
pub enum FormOutcome {
    /// The job is there.
    Job(JobId),
    /// The form is to be looked at (again), under this key.
    Look(RequestKey),
}

/// The key of a form that was changed after it had become a job.
pub fn next_key(key: RequestKey) -> RequestKey {
    RequestKey(Uuid::new_v5(&key.0, b"changed"))
}

impl Form {
    /// Adds a mistake about the files.
    pub fn complain(&mut self, text: String) {
        self.problems.push(FieldError { field: "files".into(), text });
    }

    /// Says which files another form could not give to this one.
    pub fn left_out(&mut self, copies: &Copies) {
        for (name, why) in &copies.left_out {
            self.complain(format!("\"{name}\" was not taken over: {why}. Add it again."));
        }
    }
}

impl Service {
    /// Takes a form that was sent with "Generate": what was typed is ordered, or the form comes back with what is wrong with it.
    ///
    /// A form that has already become a job gives that job again. If it was changed since (the browser's Back), it is another
    /// order and gets a key of its own, made of the old one, so that sending it twice gives one job as well.
    pub async fn send_form(&self, who: &Viewer, mut key: RequestKey, mut form: Form) -> Result<FormOutcome, ServiceError> {
        let owner = user_id(who)?;
        if form.problems.is_empty() {
            loop {
                match self.order(who, key, &form.request).await? {
                    Ordered::Job { id, .. } => return Ok(FormOutcome::Job(id)),
                    Ordered::Conflict => {
                        let copies;
                        (key, copies) = self.reopen(owner, key).await?;
                        form.left_out(&copies);
                        if !form.problems.is_empty() {
                            break;
                        }
                    }
                    Ordered::Wrong(_) => break,
                }
            }
        }
        form.sent = true;
        self.keep_form(owner, key, &form).await?;
        Ok(FormOutcome::Look(key))
    }

    /// A key for what a form with this key has become after it was changed, with the same files; and which file became which.
    pub async fn reopen(&self, owner: UserId, key: RequestKey) -> Result<(RequestKey, Copies), ServiceError> {
        let next = next_key(key);
        let copies = self.store().copy_uploads(owner, key, owner, next).await?;
        Ok((next, copies))
    }

    /// The files of the job that a form was filled in from; and which file became which.
    pub async fn take_over(&self, who: &Viewer, from: JobId, key: RequestKey) -> Result<Copies, ServiceError> {
        let row = self.visible(who, from).await?.row;
        Ok(self.store().copy_uploads(row.owner_id, row.request_key, user_id(who)?, key).await?)
    }

    /// Keeps a form as it is.
    pub async fn keep_form(&self, owner: UserId, key: RequestKey, form: &Form) -> Result<(), ServiceError> {
        let json = serde_json::to_string(form).map_err(StoreError::from)?;
        Ok(self.store().save_draft(owner, key, &json).await?)
    }

    async fn kept_form(&self, owner: UserId, key: RequestKey) -> Result<Option<Form>, ServiceError> {
        Ok(self.store().draft(owner, key).await?.and_then(|json| serde_json::from_str(&json).ok()))
    }

    /// The form for an address: a draft, an earlier job, or sensible values.
    pub(super) async fn open_form(&self, who: &Viewer, query: &NewReportQuery) -> Result<NewReportView, ServiceError> {
        let owner = user_id(who)?;
        if let Some(key) = query.draft.as_deref().and_then(|text| text.parse().ok())
            && let Some(form) = self.kept_form(owner, key).await?
        {
            let sent = form.sent;
            let uploads = self.store().uploads(owner, key).await?;
            return self.fill(key, form, uploads, sent).await;
        }
        let key = RequestKey::new();
        if let Some(from) = query.from.as_deref().and_then(|text| text.parse().ok()) {
            let row = self.visible(who, from).await?.row;
            let uploads = self.store().uploads(row.owner_id, row.request_key).await?;
            let spec = row.spec;
            let request = ReportRequest {
                title: spec.title,
                month: query.month.clone().unwrap_or_else(|| spec.month.to_string()),
                zone: spec.zone,
                sources: spec.sources.into_iter().map(|source| source.id).collect(),
                recipients: vec![spec.recipients.join(", ")],
                instructions: spec.instructions.unwrap_or_default(),
                hold: spec.hold.to_string(),
            };
            let form = Form { request, ..Form::default() };
            let mut view = self.fill(key, form, uploads, false).await?;
            view.from = row.id.to_string();
            return Ok(view);
        }
        let zone = Reader::new(&who.email, &who.zone).zone;
        let today = self.store().clock().now().with_timezone(&zone).date_naive();
        let last_month = domain::period::month_of(today).and_then(Month::previous);
        let request = ReportRequest {
            month: query.month.clone().or_else(|| last_month.map(|month| month.to_string())).unwrap_or_default(),
            zone: who.zone.clone(),
            sources: self.sources.iter().map(|known| known.id.clone()).collect(),
            recipients: vec![who.email.clone()],
            hold: Hold::None.to_string(),
            ..ReportRequest::default()
        };
        let form = Form { request, ..Form::default() };
        self.fill(key, form, Vec::new(), false).await
    }

    /// What another choice of documents would change on the page.
    pub(super) async fn recount_form(
        &self,
        who: &Viewer,
        key: &str,
        choice: DocumentChoice,
    ) -> Result<NewReportView, ServiceError> {
        let key: RequestKey = key.parse().map_err(|_| AppError::NotFound)?;
        let owner = user_id(who)?;
        let form = self.kept_form(owner, key).await?.unwrap_or_default();
        let uploads = self.store().uploads(owner, key).await?;
        let DocumentChoice { month, zone, sources } = choice;
        let request = ReportRequest { month, zone, sources, ..form.request };
        self.fill(key, Form { request, ..form }, uploads, false).await
    }

    /// Adds to a form what is known about its values.
    async fn fill(
        &self,
        key: RequestKey,
        form: Form,
        uploads: Vec<Upload>,
        with_errors: bool,
    ) -> Result<NewReportView, ServiceError> {
        let request = form.request;
        let month: Option<Month> = request.month.trim().parse().ok();
        let zone = parse_zone(request.zone.trim()).ok();
        let period = month.zip(zone).and_then(|(month, zone)| Period::new(month, zone).ok());

        let (sources, found_in_folders, asked) = self.source_choices(&request.sources, period.as_ref()).await;
        let mut lines = Vec::with_capacity(uploads.len());
        let mut out_of_reach = None;
        for upload in &uploads {
            lines.push(self.upload_line(upload, period.as_ref(), &mut out_of_reach).await?);
        }
        let found = found_in_folders + lines.iter().filter(|line| line.in_month).count();

        let mut errors = form.problems;
        if with_errors && let Err(mistakes) = super::check(&request, !uploads.is_empty(), &self.sources) {
            errors.extend(mistakes);
        }
        let month_title = period.as_ref().map(|period| period.month().title()).unwrap_or_default();
        let mut warnings = Vec::new();
        if let Some(period) = &period {
            let now = self.store().clock().now();
            if period.is_future(now) {
                warnings.push(format!("{month_title} has not begun yet."));
            } else if period.end() > now {
                warnings.push(format!("{month_title} is not over yet. The report will hold what there is so far."));
            }
            if found == 0 && asked.is_empty() {
                warnings.push(format!("No documents for {month_title} in the chosen folders and files. The job would fail."));
            }
        }
        let check = check_recipients(&request.recipients.join(","));
        let megabytes = |bytes: u64| bytes / 1_000_000;
        Ok(NewReportView {
            request_key: key.to_string(),
            from: String::new(),
            title: request.title,
            month: request.month,
            month_title,
            interval: period.as_ref().map(Period::describe).unwrap_or_default(),
            zone: request.zone,
            sources,
            uploads: lines,
            count_text: if period.is_some() { count_text(found, &asked) } else { String::new() },
            recipients: request.recipients.join(", "),
            check,
            instructions: request.instructions,
            hold: request.hold,
            warnings,
            errors,
            summarizer: self.summarizer.to_string(),
            channel: wording::sent_through(self.dependencies.channel.via(), self.dependencies.channel.name()),
            upload_limit: format!(
                "{} MB per file, {} MB together",
                megabytes(self.settings.max_file_bytes()),
                megabytes(self.settings.max_total_bytes())
            ),
            checked: with_errors,
        })
    }

    /// The sources with how many documents of the month each has, how many the chosen folders have together, and the names of
    /// the chosen servers, which nobody asks before the report is made.
    async fn source_choices(&self, chosen: &[String], period: Option<&Period>) -> (Vec<SourceChoice>, usize, Vec<String>) {
        let (mut choices, mut found, mut asked) = (Vec::new(), 0, Vec::new());
        for known in self.sources.iter() {
            let checked = chosen.contains(&known.id);
            let (count_text, in_month, unreadable) = match (known.folder(), period) {
                (None, _) => ("asked when the report is made".into(), 0, false),
                (Some(_), None) => (String::new(), 0, false),
                (Some(folder), Some(period)) => self.count(folder, *period).await,
            };
            if checked {
                found += in_month;
                asked.extend(known.folder().is_none().then(|| known.name.clone()));
            }
            choices.push(SourceChoice { id: known.id.clone(), name: known.name.clone(), checked, count_text, unreadable });
        }
        (choices, found, asked)
    }

    async fn count(&self, folder: domain::place::Folder, period: Period) -> (String, usize, bool) {
        let limits = self.dependencies.limits;
        let counted = spawn_blocking(move || {
            let source = Source::open(&folder)?;
            let month = period.month().name();
            let count = count::count(&source, &period, &limits, &|| false);
            let mut text = match count.in_month {
                0 => format!("none in {month}"),
                n => format!("{n} in {month}"),
            };
            if count.not_looked_at > 0 {
                text = format!("{text}, {} not looked at yet", count.not_looked_at);
            }
            Ok::<_, documents::source::SourceError>((text, count.in_month))
        });
        match counted.await {
            Ok(Ok((text, in_month))) => (text, in_month, false),
            Ok(Err(error)) => (error.to_string(), 0, true),
            Err(_) => ("could not be counted".into(), 0, true),
        }
    }

    /// What the form says about an uploaded file. `out_of_reach` is why the file store was not to be reached for an earlier line:
    /// it is then not asked again for this one.
    async fn upload_line(
        &self,
        upload: &Upload,
        period: Option<&Period>,
        out_of_reach: &mut Option<&'static str>,
    ) -> Result<UploadLine, ServiceError> {
        let line = UploadLine {
            id: upload.id.to_string(),
            name: upload.name.clone(),
            size: size(upload.size),
            dated: String::new(),
            trouble: String::new(),
            by_hand: upload.by_hand.clone().unwrap_or_default(),
            in_month: false,
        };
        let embedded = match self.embedded_date(upload, out_of_reach).await? {
            Ok(embedded) => embedded,
            Err(why) => return Ok(UploadLine { trouble: why.to_owned(), ..line }),
        };
        let by_hand = upload.by_hand.as_deref().and_then(|text| text.parse().ok()).and_then(whole_month);
        let dated = date_document(&upload.name, by_hand, embedded, None);
        let zone = period.map_or(chrono_tz::UTC, Period::zone);
        Ok(UploadLine {
            dated: dated.map(|dated| dated.describe(zone)).unwrap_or_default(),
            in_month: period.zip(dated).is_some_and(|(period, dated)| dated.when.is_in(period)),
            ..line
        })
    }

    /// The date that an uploaded file holds, or in words why it cannot be read.
    async fn embedded_date(
        &self,
        upload: &Upload,
        out_of_reach: &mut Option<&'static str>,
    ) -> Result<Result<EmbeddedDate, &'static str>, ServiceError> {
        if let Some(date) = self.dates.of(upload.id) {
            return Ok(Ok(date));
        }
        if let Some(why) = out_of_reach.filter(|_| upload.in_file_store) {
            return Ok(Err(why));
        }
        let bytes = match self.store().upload_bytes(upload.id).await {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(StoreError::Files(error)) => {
                tracing::warn!(%error, "an uploaded file cannot be read");
                *out_of_reach = error.may_pass().then_some(error.in_words());
                return Ok(Err(error.in_words()));
            }
            Err(error) => return Err(error.into()),
        };
        let (name, limits) = (upload.name.clone(), self.dependencies.limits);
        let Ok(date) = spawn_blocking(move || read::embedded_date(&name, &bytes, &limits)).await else { return Ok(Ok(None)) };
        self.dates.remember(upload.id, date);
        Ok(Ok(date))
    }
}

/// "9 documents found; Wiki is asked when the report is made."
fn count_text(found: usize, asked: &[String]) -> String {
    let found = match found {
        1 => "1 document found".to_owned(),
        n => format!("{n} documents found"),
    };
    match asked {
        [] => format!("{found}."),
        [only] => format!("{found}; {only} is asked when the report is made."),
        [first @ .., last] => format!("{found}; {} and {last} are asked when the report is made.", first.join(", ")),
    }
}

/// A size as people read it: "277 kB".
fn size(bytes: i64) -> String {
    match bytes {
        ..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
    }
}
