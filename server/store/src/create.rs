//! Creating jobs.

use super::{
    Store, StoreError,
    change::{NewEffect, add_entries, add_new_effects},
    db::{Batch, Lock},
    text::storable,
};
use crate::notifications::JobChanged;
use contract::{EffectKind, Job, JobKind};
use domain::{
    fail_point,
    hold::Hold,
    id::{JobId, RequestKey, UserId},
    spec::Spec,
};

impl Store {
    /// Creates a job, or finds the one that this request has already made; returns whether it is new.
    pub async fn create_job(&self, owner: UserId, key: RequestKey, spec: &Spec) -> Result<(JobId, bool), StoreError> {
        if let Err(full) = self.db.has_room() {
            let existing = self.job_of_request(owner, key).await?;
            return existing.map(|id| (id, false)).ok_or_else(|| full.into());
        }
        let id = JobId::new();
        let mut batch = Batch::default();
        self.add_job(&mut batch, id, owner, key, spec, None)?;
        fail_point::reach("before", "commit of job queued").await;
        // Its files may be uploaded or cleaned away just now, which the lock keeps apart from this.
        match self.announcer.write(&self.db, batch, Lock::Request(key), waiting(id, owner)).await {
            Ok(()) => {}
            Err(error) if error.is_taken() => {
                let existing = self.job_of_request(owner, key).await?;
                return existing.map(|id| (id, false)).ok_or(error);
            }
            Err(error) => return Err(error),
        }
        fail_point::reach("after", "commit of job queued").await;
        Ok((id, true))
    }

    /// Adds a new job. A second copy is a message that there is already, with its `message_id`.
    pub(super) fn add_job(
        &self,
        batch: &mut Batch,
        id: JobId,
        owner: UserId,
        key: RequestKey,
        spec: &Spec,
        message_id: Option<&str>,
    ) -> Result<(), StoreError> {
        let now = self.clock.now();
        let recipients = u32::try_from(spec.recipients.len()).unwrap_or(u32::MAX);
        let job = match spec.task.kind() {
            JobKind::Report => Job::create(recipients, spec.hold != Hold::None),
            kind => Job::create_mailing(kind, recipients),
        };
        batch.insert(
            "jobs (id, owner_id, request_key, title, month, spec, phase, version, epoch, lost_claims, created_at, about_job)",
            [[
                id.into(),
                owner.into(),
                key.into(),
                storable(&spec.title).into(),
                spec.month.to_string().into(),
                serde_json::to_string(spec)?.into(),
                job.phase.name().into(),
                1_i64.into(),
                job.epoch.into(),
                job.lost_claims.into(),
                now.into(),
                spec.task.about().into(),
            ]],
        );
        batch.insert(
            "steps (job_id, position, kind, state, done, total)",
            (0_i64..).zip(&job.steps).map(|(position, step)| {
                [
                    id.into(),
                    position.into(),
                    step.kind.name().into(),
                    step.state.name().into(),
                    step.done.into(),
                    step.total.into(),
                ]
            }),
        );
        let mut recipients = spec.recipients.iter();
        let effects = job.effects.iter().map(|effect| match effect.kind {
            EffectKind::Email => NewEffect {
                effect,
                target: recipients.next().cloned().unwrap_or_default(),
                message_id: Some(message_id.map_or_else(|| self.new_message_id(), str::to_owned)),
            },
            _ => NewEffect { effect, target: spec.title.clone(), message_id: None },
        });
        add_new_effects(batch, id, effects, spec, owner, now);
        add_entries(batch, id, now, &[(None, "Created".into())]);
        Ok(())
    }
}

/// A new job, which a worker may take.
pub(super) fn waiting(id: JobId, owner: UserId) -> JobChanged {
    JobChanged { id, owner, version: 1, waits: true, goes_on: false }
}
