//! What is written to a recipient, and how a stored message becomes an attempt at sending it: the same for a preview, the first
//! attempt, a retry and a later look.

use super::Services;
use crate::{
    id::JobId,
    mail::{channel::Outgoing, compose::Notice},
    store::{Message, Record, Report},
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
        key: services.channel.key_header(message_id),
    })
}

/// The attempt that `effect` is at. Its id follows from the job, the effect and the count, so that whoever looks later
/// names the same attempt. `None` where the stored addresses are not addresses, which the store never writes.
pub fn outgoing(job: JobId, effect: &Effect, message: &Message) -> Option<Outgoing> {
    let name = format!("{}/{}", effect.number, effect.attempts);
    Some(Outgoing {
        attempt: Uuid::new_v5(&job.0, name.as_bytes()),
        from: message.sender.parse().ok()?,
        to: message.recipient.parse().ok()?,
        bytes: message.bytes.as_slice().into(),
        sha256: message.sha256.as_slice().try_into().ok()?,
        message_id: message.message_id.clone(),
    })
}
