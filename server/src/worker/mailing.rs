//! What is written to a recipient, and how a stored message becomes an attempt at sending it: the same for a preview, the first
//! attempt, a retry and a later look.

use super::Dependencies;
use contract::Effect;
use domain::id::JobId;
use domain::spec::Task;
use mail::{
    channel::Outgoing,
    compose::{Correction, Notice},
};
use store::{Message, Record, Report, Store, StoreError};
use uuid::Uuid;

/// What the e-mail with this number says. `None` where the stored recipient is no address, which the store never writes.
pub fn notice(dependencies: &Dependencies, record: &Record, report: &Report, number: u32) -> Option<Notice> {
    let spec = &record.row.spec;
    let message_id = record.message_ids.get(&number)?;
    Some(Notice {
        from: dependencies.sender.clone(),
        to: record.targets.get(&number)?.parse().ok()?,
        title: spec.title.clone(),
        month: spec.month.title(),
        link: format!("{}/reports/{}", dependencies.public_url, report.id),
        requested_by: record.row.owner_email.clone(),
        message_id: message_id.clone(),
        job: record.row.id.0,
        date: report.created_at,
        correction: None,
        key: dependencies.channel.key_header(message_id),
    })
}

/// Everything that a job has to say, each with the number of its e-mail. `None` where it cannot be said any more: the report
/// is gone, or a stored recipient is no address.
pub async fn notices(dependencies: &Dependencies, record: &Record) -> Result<Option<Vec<(u32, Notice)>>, StoreError> {
    let store = &dependencies.store;
    let about = record.row.spec.task.about();
    let Some(report) = store.report_of_job(about.unwrap_or(record.row.id)).await? else { return Ok(None) };
    let corrected = match about {
        Some(about) => store.job(about).await?,
        None => None,
    };
    let mut notices = Vec::new();
    for email in record.job.emails() {
        let Some(mut notice) = notice(dependencies, record, &report, email.number) else { return Ok(None) };
        if let (Task::Correction { text, by, .. }, Some(corrected)) = (&record.row.spec.task, &corrected) {
            let to = record.targets.get(&email.number);
            let first = corrected.job.emails().find(|first| corrected.targets.get(&first.number) == to);
            let Some(first) = first.and_then(|first| corrected.message_ids.get(&first.number)) else { return Ok(None) };
            // Where the first message is not proved to have come, its Message-ID is what a proof would be known by.
            let in_reply_to = if store.is_doubtful(first).await? { None } else { Some(first.clone()) };
            notice.date = record.row.created_at;
            notice.correction = Some(Correction { text: text.clone(), by: by.clone(), in_reply_to });
        }
        notices.push((email.number, notice));
    }
    Ok(Some(notices))
}

/// The attempt that `effect` is at, as the record has it, so that whoever looks later names the same attempt. `None` where there
/// is no message, or the stored addresses are not addresses, which the store never writes.
pub async fn outgoing(store: &Store, job: JobId, effect: &Effect) -> Result<Option<Outgoing>, StoreError> {
    let Some(message) = store.message(job, effect.number).await? else { return Ok(None) };
    let ids = store.envelope_ids(job, effect.number).await?;
    // In a restored copy an e-mail may be unconfirmed of which only the original has made an attempt. That one's id is not known
    // here, and one that nothing else has finds no trace of it.
    let attempt = ids.get(&effect.attempts).copied().unwrap_or_else(Uuid::new_v4);
    Ok(read(message, attempt))
}

fn read(message: Message, attempt: Uuid) -> Option<Outgoing> {
    Some(Outgoing {
        attempt,
        from: message.sender.parse().ok()?,
        to: message.recipient.parse().ok()?,
        sha256: message.sha256.as_slice().try_into().ok()?,
        bytes: message.bytes.into(),
        message_id: message.message_id,
    })
}
