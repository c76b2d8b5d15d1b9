//! The history of a job is what differs between two of its records, so no transition can forget to tell it.

use super::{EffectKind, Job, Outcome, Phase, StepKind, StepState};

/// One thing that a transaction changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The job moved to this phase.
    Phase(Phase),
    /// A cancel was accepted.
    CancelRequested,
    /// A step moved to this state.
    Step(StepKind, StepState),
    /// The effect with this number moved to this outcome.
    Effect { number: u32, kind: EffectKind, outcome: Outcome },
}

/// What happened between two records of the same job, in the order in which people read it.
pub fn changes(before: &Job, after: &Job) -> Vec<Change> {
    let mut found = Vec::new();
    if after.cancel_requested && !before.cancel_requested {
        found.push(Change::CancelRequested);
    }
    for effect in &after.effects {
        let earlier = before.effects.iter().find(|known| known.number == effect.number);
        let same = earlier.is_some_and(|known| known.outcome == effect.outcome && known.attempts == effect.attempts);
        if !same && effect.outcome != Outcome::NotStarted {
            found.push(Change::Effect { number: effect.number, kind: effect.kind, outcome: effect.outcome });
        }
    }
    for (earlier, step) in before.steps.iter().zip(&after.steps) {
        if earlier.state != step.state {
            found.push(Change::Step(step.kind, step.state));
        }
    }
    if before.phase != after.phase {
        found.push(Change::Phase(after.phase));
    }
    found
}
