//! Collect: lists the sources, dates every document, reads those of the month, and leaves a line for each in the coverage
//! list. A cancel waits for the end of what is being read, which has no effect outside, and throws it away.

mod asked;

use crate::worker::run::{StepError, Work};
use asked::Asking;
use contract::Month;
use contract::StepKind;
use documents::{
    read::{self, Head, Limits, date::month},
    source::{
        Entry, Source,
        dating::{Dated, Quick, When, date_document, quick_date},
    },
};
use domain::{
    coverage::{Coverage, DocumentOutcome},
    fail_point,
    period::{Period, parse_zone},
    spec::{SourcePlace, SourceSpec},
};
use futures_util::future::join_all;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{CollectedDocument, JobTx, StoreError, Upload, files::FilesError};

/// The longest that listing a source may take. Twenty thousand documents on a slow network take a minute.
const MAX_LISTING: Duration = Duration::from_mins(5);
/// What uploaded files are called in the coverage list.
pub const UPLOADS: &str = "Uploaded files";

/// The most text that the documents of one report may have together, in bytes. More would not be read by anybody, and it has to
/// fit into memory.
const MAX_TEXT: usize = 64 << 20;
/// Documents are written in batches, so that a Cancel never waits long for the database.
const BATCH: usize = 200;

/// What is left of [`MAX_TEXT`].
struct Budget {
    left: usize,
}

impl Budget {
    fn apply(&mut self, document: &mut CollectedDocument) {
        let length = document.text.as_ref().map_or(0, String::len);
        if length <= self.left {
            self.left -= length;
        } else {
            document.text = None;
            let why = format!("the documents of one report may have {} MB of text together", MAX_TEXT >> 20);
            document.coverage = Coverage::because(DocumentOutcome::TooLarge, why);
        }
    }
}

/// Where one document comes from.
enum Origin {
    Folder(Arc<Source>, Entry),
    Upload(Upload),
}

/// Runs the step.
pub async fn run(work: &Work) -> Result<(), StepError> {
    let spec = &work.claim.spec;
    let period = parse_zone(&spec.zone)
        .and_then(|zone| Period::new(spec.month, zone))
        .map_err(|error| StepError::Failed(error.to_string()))?;
    let mut askings = Vec::new();
    let read = read_all(work, &period, &mut askings).await;
    // Whatever has happened, nothing may be left of the conversations.
    join_all(askings.into_iter().map(Asking::end)).await;
    let mut documents = read?;
    number(&mut documents);
    work.patiently(|| finish(work, &documents)).await
}

async fn read_all<'a>(
    work: &'a Work,
    period: &Period,
    askings: &mut Vec<Asking<'a>>,
) -> Result<Vec<CollectedDocument>, StepError> {
    let (origins, mut documents) = list(work).await?;
    asked::begin(work, period, askings, &mut documents).await?;
    let total = origins.len() + askings.iter().map(Asking::left).sum::<usize>();
    let mut budget = Budget { left: MAX_TEXT };
    let mut done = 0;
    for origin in origins {
        work.check()?;
        work.progress(StepKind::Collect, done, total).await?;
        let mut document = read(work, origin, period).await?;
        budget.apply(&mut document);
        documents.push(document);
        done += 1;
    }
    for asking in askings {
        while asking.left() > 0 {
            work.check()?;
            work.progress(StepKind::Collect, done, total).await?;
            documents.extend(asking.next(work, period, &mut budget).await?);
            done += 1;
        }
    }
    work.progress(StepKind::Collect, total, total).await?;
    Ok(documents)
}

/// Everything in the folders, and a line for each that cannot be opened.
async fn list(work: &Work) -> Result<(Vec<Origin>, Vec<CollectedDocument>), StepError> {
    let (mut origins, mut troubles) = (Vec::new(), Vec::new());
    for SourceSpec { name, place, .. } in work.claim.spec.sources.clone() {
        let SourcePlace::Files(place) = place else { continue };
        let stop = work.halt.stop.clone();
        let called = name.clone();
        let listing = move || {
            let opened = Source::open_place(&place).map(|opened| Arc::new(opened.called(&called)));
            let listing = opened.as_ref().map(|source| source.list(&|| stop.is_cancelled())).ok();
            (opened, listing)
        };
        let Some(listed) = work.on_thread(&format!("listing of {name}"), MAX_LISTING, listing).await? else {
            let why = took_too_long("listing", MAX_LISTING);
            troubles.push(line(&name, "(the folder)", Coverage::because(DocumentOutcome::Unreadable, why)));
            continue;
        };
        let (opened, listing) = listed.map_err(|error| ended_abnormally(&error))?;
        match (opened, listing) {
            (Ok(source), Some(listing)) => {
                troubles.extend(
                    listing
                        .incomplete
                        .map(|why| line(&name, "(the folder)", Coverage::because(DocumentOutcome::ReadInPart, why))),
                );
                origins.extend(listing.entries.into_iter().map(|entry| Origin::Folder(source.clone(), entry)));
            }
            (Err(error), _) => troubles.push(line(&name, "(the folder)", Coverage::from(&error))),
            (Ok(_), None) => {}
        }
    }
    let uploads = work.dependencies.store.uploads(work.claim.owner, work.claim.request_key).await?;
    origins.extend(uploads.into_iter().map(Origin::Upload));
    Ok((origins, troubles))
}

fn ended_abnormally(error: &tokio::task::JoinError) -> StepError {
    tracing::error!(%error, "reading a document ended abnormally");
    StepError::Failed(
        "Something went wrong on our side while reading a document. It has been written to the server's log.".into(),
    )
}

fn line(source: &str, name: &str, coverage: Coverage) -> CollectedDocument {
    CollectedDocument {
        number: None,
        source: source.to_owned(),
        name: name.to_owned(),
        title: None,
        sha256: None,
        date: None,
        dated_by: None,
        coverage,
        text: None,
    }
}

fn took_too_long(what: &str, longest: Duration) -> String {
    format!("{what} it took longer than {} s", longest.as_secs())
}

/// Reads one document.
async fn read(work: &Work, origin: Origin, period: &Period) -> Result<CollectedDocument, StepError> {
    let limits = work.dependencies.limits;
    let period = *period;
    let (source, name) = match &origin {
        Origin::Folder(source, entry) => (source.name().to_owned(), entry.name.clone()),
        Origin::Upload(upload) => (UPLOADS.to_owned(), upload.name.clone()),
    };
    let bytes = match &origin {
        Origin::Upload(upload) => match uploaded(work, upload).await? {
            Ok(bytes) => bytes,
            Err(lost) => return Ok(line(&source, &name, Coverage::because(DocumentOutcome::Unreadable, lost.in_words()))),
        },
        Origin::Folder(..) => Vec::new(),
    };
    let reading = move || match origin {
        Origin::Folder(source, entry) => from_folder(&source, &entry, &period, &limits),
        Origin::Upload(upload) => {
            let by_hand = upload.by_hand.as_deref().and_then(|text| text.parse().ok()).and_then(whole_month);
            let found = Found { source: UPLOADS, name: &upload.name, by_hand, modified: None, asked_for_month: false };
            examine(&found, &bytes, &period, &limits)
        }
    };
    if let Some(read) = work.on_thread(&format!("reading of {name}"), limits.max_time, reading).await? {
        return read.map_err(|error| ended_abnormally(&error));
    }
    let why = took_too_long("reading", limits.max_time);
    Ok(line(&source, &name, Coverage::because(DocumentOutcome::Unreadable, why)))
}

/// The bytes of an uploaded file, or why there are none any more. While the file store is out of reach, that is not known: the
/// job waits for a while and then fails, since a report without what was uploaded for it is not what was ordered.
async fn uploaded(work: &Work, upload: &Upload) -> Result<Result<Vec<u8>, FilesError>, StepError> {
    let mut pauses = work.dependencies.file_pauses.iter();
    loop {
        let error = match work.unless_stopped(Box::pin(work.dependencies.store.upload_bytes(upload.id))).await? {
            Ok(bytes) => return Ok(Ok(bytes.unwrap_or_default())),
            Err(StoreError::Files(error)) => error,
            Err(error) => return Err(error.into()),
        };
        tracing::warn!(job = %work.claim.id, %error, "an uploaded file cannot be read");
        if !error.may_pass() {
            return Ok(Err(error));
        }
        let Some(pause) = pauses.next() else {
            let why = error.in_words();
            return Err(StepError::Failed(format!("The uploaded files could not be read: {why}. Start the report again later.")));
        };
        work.pause(*pause).await?;
    }
}

/// A month that a person gave.
pub fn whole_month(of: Month) -> Option<When> {
    month(of.year(), u32::from(of.number()))
}

fn from_folder(source: &Source, entry: &Entry, period: &Period, limits: &Limits) -> CollectedDocument {
    if let Some(why) = &entry.trouble {
        return line(source.name(), &entry.name, Coverage::because(DocumentOutcome::Unreadable, why.clone()));
    }
    // Most documents of other months can be told without reading them whole.
    let early = match quick_date(&entry.name, entry.modified) {
        Quick::Decided(dated) => dated,
        Quick::Head => match source.date_by_head(entry) {
            Ok(Head::Date(embedded)) => date_document(&entry.name, None, embedded, entry.modified),
            _ => None,
        },
        Quick::Whole => None,
    };
    if let Some(dated) = early.filter(|dated| !dated.when.is_in(period)) {
        return dated_line(line(source.name(), &entry.name, DocumentOutcome::OtherMonth.into()), &dated, period);
    }
    fail_point::reach_blocking("before reading", &entry.name);
    let read = source.read(entry, limits.max_bytes);
    fail_point::reach_blocking("after reading", &entry.name);
    match read {
        Ok(bytes) => {
            let (source, name, modified) = (source.name(), entry.name.as_str(), entry.modified);
            examine(&Found { source, name, by_hand: None, modified, asked_for_month: false }, &bytes, period, limits)
        }
        Err(error) => line(source.name(), &entry.name, Coverage::from(&error)),
    }
}

fn dated_line(mut document: CollectedDocument, dated: &Dated, period: &Period) -> CollectedDocument {
    document.date = Some(dated.when.local(period.zone()));
    document.dated_by = Some(dated.rule.describe().to_owned());
    document
}

/// A document that was found, with what is known about its date from outside.
struct Found<'a> {
    source: &'a str,
    name: &'a str,
    /// What a person said.
    by_hand: Option<When>,
    /// When it was last changed.
    modified: Option<chrono::DateTime<chrono::Utc>>,
    /// The source was asked for this very month, so that it is of the month, whatever else it says about itself.
    asked_for_month: bool,
}

fn examine(found: &Found<'_>, bytes: &[u8], period: &Period, limits: &Limits) -> CollectedDocument {
    let extraction = read::extract(found.name, bytes, limits);
    let coverage = Coverage::from(&extraction.coverage);
    let mut document = line(found.source, found.name, coverage);
    document.sha256 = Some(Sha256::digest(bytes).to_vec());
    let dated = date_document(found.name, found.by_hand, extraction.date, found.modified);
    match dated.filter(|dated| !found.asked_for_month || dated.when.is_in(period)) {
        Some(dated) => {
            document = dated_line(document, &dated, period);
            if !dated.when.is_in(period) {
                document.coverage = DocumentOutcome::OtherMonth.into();
            }
        }
        None if found.asked_for_month => {
            document.date = Some(period.month().to_string());
            document.dated_by = Some(format!("the source: it was asked for {}", period.month().title()));
        }
        None if document.coverage.is_usable() => document.coverage = DocumentOutcome::Undated.into(),
        None => {}
    }
    if document.coverage.is_usable() {
        document.title = extraction.title;
        document.text = Some(extraction.text);
    }
    document
}

/// Orders the list: the documents that the report uses by date and name, then the rest; and numbers the former.
fn number(documents: &mut [CollectedDocument]) {
    documents.sort_by(|a, b| {
        let key = |document: &CollectedDocument| {
            (!document.coverage.is_usable(), document.coverage.outcome == DocumentOutcome::OtherMonth)
        };
        key(a).cmp(&key(b)).then_with(|| a.date.cmp(&b.date)).then_with(|| a.name.cmp(&b.name))
    });
    let usable = documents.iter_mut().filter(|document| document.text.is_some());
    for (number, document) in (1..).zip(usable) {
        document.number = Some(number);
    }
}

async fn finish(work: &Work, documents: &[CollectedDocument]) -> Result<(), StepError> {
    let mut batches: Vec<&[CollectedDocument]> = documents.chunks(BATCH).collect();
    // The last one, mostly the only one, goes with the end of the step.
    let last = batches.pop().unwrap_or_default();
    for (batch, part) in batches.iter().enumerate() {
        let Some(change) = store(work, batch, part).await? else { return Ok(()) };
        change.commit().await?;
    }
    let Some(mut change) = store(work, batches.len(), last).await? else { return Ok(()) };
    if documents.iter().any(|document| document.number.is_some()) {
        change.job.complete_step(work.claim.epoch, StepKind::Collect)?;
    } else {
        change.job.fail(work.claim.epoch, &nothing_found(work, documents))?;
    }
    let failed = change.job.phase.is_final();
    change.commit().await?;
    if failed { Err(StepError::Stopped) } else { Ok(()) }
}

/// Opens a change with one batch of the list, unless the step has ended; the first replaces what an earlier collection has left.
async fn store(work: &Work, batch: usize, documents: &[CollectedDocument]) -> Result<Option<JobTx>, StepError> {
    let Some(mut change) = work.change_in(StepKind::Collect).await? else { return Ok(None) };
    if batch == 0 {
        change.clear_documents().await?;
    }
    change.insert_documents(batch * BATCH, documents).await?;
    Ok(Some(change))
}

/// "No documents for September 2025 in Minutes." and what stood in the way of those that there were.
fn nothing_found(work: &Work, documents: &[CollectedDocument]) -> String {
    let spec = &work.claim.spec;
    let mut places: Vec<&str> = spec.sources.iter().map(|source| source.name.as_str()).collect();
    if documents.iter().any(|document| document.source == UPLOADS) {
        places.push("the uploaded files");
    }
    let place = match places.split_last() {
        None => "the uploaded files".to_owned(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    let mut unusable = BTreeMap::new();
    for document in documents.iter().filter(|document| document.coverage.outcome != DocumentOutcome::OtherMonth) {
        *unusable.entry(document.coverage.outcome.label().to_lowercase()).or_insert(0_usize) += 1;
    }
    let mut sentence = format!("No documents for {} in {place}.", spec.month.title());
    if !unusable.is_empty() {
        let list: Vec<String> = unusable.into_iter().map(|(label, count)| format!("{count} {label}")).collect();
        sentence = format!("{sentence} Not usable: {}.", list.join(", "));
    }
    sentence
}
