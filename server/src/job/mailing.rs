//! From a stored message to an attempt at sending it, the same for the first attempt, a retry and a later look.

use crate::{id::JobId, mail::channel::Outgoing, store::Message};
use app::contract::Effect;
use uuid::Uuid;

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
