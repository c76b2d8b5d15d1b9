//! What is written to a recipient, and how a stored message becomes an attempt at sending it: the same for a preview, the first
//! attempt, a retry and a later look.

use super::{Services, Task};
use crate::{
    id::JobId,
    mail::{
        channel::Outgoing,
        compose::{Correction, Notice},
    },
    store::{Message, Record, Report, StoreError},
};
use app::contract::Effect;
use uuid::Uuid;

/// What the e-mail with this number says. `None` where the stored recipient is no address, which the store never writes.
pub fn notice(services: &Services, record: &Record, report: &Report, number: u32) -> Option<Notice> {
    let spec = &record.row.spec;
    let message_id = record.message_ids.get(&number)?;
    Some(Notice {
        from: services.sender.clone(),
        to: record.targets.get(&number)?.parse().ok()?,
        title: spec.title.clone(),
        month: spec.month.title(),
        link: format!("{}/reports/{}", services.public_url, report.id),
        requested_by: record.row.owner_email.clone(),
        message_id: message_id.clone(),
        job: record.row.id.0,
        date: report.created_at,
        correction: None,
        key: services.channel.key_header(message_id),
    })
}

/// Everything that a job has to say, each with the number of its e-mail. `None` where it cannot be said any more: the report
/// is gone, or a stored recipient is no address.
pub async fn notices(services: &Services, record: &Record) -> Result<Option<Vec<(u32, Notice)>>, StoreError> {
    let store = &services.store;
    let about = record.row.spec.task.about();
    let Some(report) = store.report_of_job(about.unwrap_or(record.row.id)).await? else { return Ok(None) };
    let corrected = match about {
        Some(about) => store.job(about).await?,
        None => None,
    };
    let mut notices = Vec::new();
    for email in record.job.emails() {
        let Some(mut notice) = notice(services, record, &report, email.number) else { return Ok(None) };
        if let (Task::Correction { text, by, .. }, Some(corrected)) = (&record.row.spec.task, &corrected) {
            let to = record.targets.get(&email.number);
            let first = corrected.job.emails().find(|first| corrected.targets.get(&first.number) == to);
            let Some(in_reply_to) = first.and_then(|first| corrected.message_ids.get(&first.number)) else { return Ok(None) };
            notice.date = record.row.created_at;
            notice.correction = Some(Correction { text: text.clone(), by: by.clone(), in_reply_to: in_reply_to.clone() });
        }
        notices.push((email.number, notice));
    }
    Ok(Some(notices))
}

/// The attempt that `effect` is at. Its id follows from the job, the message and the count, so that whoever looks later
/// names the same attempt. `None` where the stored addresses are not addresses, which the store never writes.
pub fn outgoing(job: JobId, effect: &Effect, message: &Message) -> Option<Outgoing> {
    Some(Outgoing {
        attempt: attempt_id(job, &message.message_id, effect.attempts),
        from: message.sender.parse().ok()?,
        to: message.recipient.parse().ok()?,
        bytes: message.bytes.as_slice().into(),
        sha256: message.sha256.as_slice().try_into().ok()?,
        message_id: message.message_id.clone(),
    })
}

/// The id of an attempt, which is also its envelope id (RFC 3461 4.4). It rests on the Message-ID, which only the message's own
/// recipient knows: a delivery report that names it cannot have been made up by another one.
pub fn attempt_id(job: JobId, message_id: &str, attempt: u32) -> Uuid {
    Uuid::new_v5(&job.0, format!("{message_id} {attempt}").as_bytes())
}
