//! What must hold, each rule with its number in section 9 of the contract where it has one, and a test of its own.
//!
//! A rule looks at one world, or at one world and what follows it. It answers `None` where its condition is not met, so that
//! the table shows on how much it was really put to the test.

use super::{assert_proved, world::World};
use crate::{
    CancelAnswer, Effect, EffectKind, Job, NotDone, Outcome, Phase, Step, StepKind, StepState, Verdict, contradiction, headline,
};

/// A named rule.
pub struct Property {
    pub name: &'static str,
    pub check: Check,
}

/// How a rule is checked. `None`: it does not apply here.
#[derive(Clone, Copy)]
pub enum Check {
    State(fn(&World) -> Option<bool>),
    /// From a world to the one that follows it. The follower's e-mails have the numbers that they have before.
    Transition(fn(&World, &World) -> Option<bool>),
}

macro_rules! properties {
    ($($name:ident: $check:expr;)+) => {
        /// Every rule, in the order of the table.
        pub const ALL: &[Property] = &[$(Property { name: stringify!($name), check: $check }),+];
        $(
            #[test]
            fn $name() {
                assert_proved(stringify!($name));
            }
        )+
    };
}

use Check::{State, Transition};

properties! {
    invariant_01_after_a_cancel_no_step_starts: Transition(|before, after| {
        let running = |job: &Job, kind| job.step(kind).is_some_and(|step| step.state == StepState::Running);
        let starts = |kind: &StepKind| !running(&before.job, *kind) && running(&after.job, *kind);
        before.job.cancel_requested.then(|| !StepKind::ALL.iter().any(starts))
    });
    invariant_01_after_a_cancel_no_effect_begins_or_becomes_doubtful: Transition(|before, after| {
        let goes_on = |effect: &Effect| {
            before.job.effect(effect.number).is_some_and(|earlier| {
                earlier.attempts == effect.attempts
                    && (effect.outcome != Outcome::InDoubt || earlier.outcome == Outcome::InDoubt)
            })
        };
        // What people do after the end is theirs.
        let by_program = |effect: &&Effect| effect.kind != EffectKind::Withdrawal;
        before.job.cancel_requested.then(|| after.job.effects.iter().filter(by_program).all(goes_on))
    });
    invariant_02_a_report_exists_exactly_if_its_save_committed: State(|world| {
        let saved = world.job.step(StepKind::Save).is_some_and(|step| step.state == StepState::Done);
        Some(world.reports == u8::from(saved) && saved == world.job.report_saved())
    });
    invariant_02_after_a_cancel_no_report_is_saved: Transition(|before, after| {
        before.job.cancel_requested.then_some(before.reports == after.reports)
    });
    invariant_03_final_phases_have_nothing_in_flight: State(|world| {
        let job = &world.job;
        let still = |state| matches!(state, StepState::Pending | StepState::Running);
        job.phase.is_final().then(|| {
            let open = job.effects.iter().any(|effect| effect.outcome.is_open());
            !open && !job.leased && !job.steps.iter().any(|step| still(step.state))
        })
    });
    invariant_04_final_phases_never_change: Transition(|before, after| {
        before.job.phase.is_final().then(|| apart_from_evidence(&before.job) == apart_from_evidence(&after.job))
    });
    invariant_05_at_most_one_accepted_email_per_recipient_and_message: State(|world| {
        // A person who lets a copy go on takes a duplicate upon themselves.
        (!world.resumed).then(|| world.accepted.iter().all(|accepted| *accepted <= 1))
    });
    invariant_06_done_always_has_evidence: Transition(|before, after| {
        // Where it becomes done: the world before has lost the words of its evidence.
        let was_done = |n| before.job.effect(n).is_some_and(|earlier| earlier.outcome == Outcome::Done);
        let becomes_done = |effect: &&Effect| effect.outcome == Outcome::Done && !was_done(effect.number);
        let mut done = after.job.effects.iter().filter(becomes_done).peekable();
        done.peek().is_some().then(|| done.all(|effect| effect.evidence.as_deref().is_some_and(|text| !text.is_empty())))
    });
    invariant_07_progress_only_grows: Transition(|before, after| {
        let mut steps = before.job.steps.iter().zip(&after.job.steps);
        Some(steps.all(|(earlier, step)| step.done >= earlier.done && step.total >= earlier.total && step.done <= step.total))
    });
    invariant_07_progress_ends_with_the_job: Transition(|before, after| {
        before.job.phase.is_final().then(|| before.job.steps == after.job.steps)
    });
    invariant_08_stopping_ends_by_its_worker: State(|world| {
        // Whatever the outside answers, or does not: the worker settles what it had begun, and accounts for it.
        (world.job.phase == Phase::Stopping).then(|| {
            let mut job = world.job.clone();
            let epoch = job.epoch;
            let open: Vec<_> = job.effects.iter().filter(|effect| effect.outcome.is_open()).cloned().collect();
            let settled = open.into_iter().all(|effect| {
                let verdict = match effect.outcome {
                    Outcome::InDoubt => Verdict::Unconfirmed("time-out".into()),
                    _ => Verdict::NotDone(NotDone::BrokenOff, "closed".into()),
                };
                job.settle(epoch, effect.number, verdict) == Ok(())
            });
            settled && job.account(epoch) == Ok(()) && job.phase.is_final()
        })
    });
    invariant_08_stopping_ends_without_its_worker: State(|world| {
        (world.job.phase == Phase::Stopping).then(|| {
            let mut job = world.job.clone();
            job.leased && job.recover().is_ok() && matches!(job.phase, Phase::Cancelled | Phase::Finished)
        })
    });
    invariant_10_cancel_is_idempotent: State(|world| {
        let expected = if world.job.cancel_requested { CancelAnswer::AlreadyRequested } else { CancelAnswer::TooLate };
        (world.job.cancel_requested || world.job.phase.is_final()).then(|| {
            let mut job = world.job.clone();
            job.cancel() == expected && job == world.job
        })
    });
    invariant_11_a_worker_without_its_lease_changes_nothing_but_evidence: State(|world| {
        let job = &world.job;
        let lost = (1..=job.epoch).filter(|epoch| !(job.leased && job.epoch == *epoch));
        (job.epoch > u32::from(job.leased)).then(|| lost.into_iter().all(|epoch| can_only_bring_evidence(job, epoch)))
    });
    invariant_11_a_lost_lease_never_comes_back: Transition(|before, after| {
        let (old, new) = (&before.job, &after.job);
        Some(new.epoch >= old.epoch && (!new.leased || new.epoch > old.epoch || old.leased))
    });
    invariant_12_every_effect_seen_outside_has_an_intent_committed_before_it: State(|world| {
        let intended = |n| world.job.effect(n).is_some_and(|effect| effect.attempts > 0);
        let at_it = world.workers.iter().all(|worker| worker.effect == 0 || worker.on_original || intended(worker.effect));
        let mut accepted = world.job.emails().filter(|email| world.accepted(email.number) > 0);
        let doubtful = accepted.all(|email| {
            matches!(email.outcome, Outcome::InDoubt | Outcome::Done | Outcome::Unconfirmed)
                || world.is_by_person(email.number)
                || world.resumed
        });
        Some(at_it && doubtful)
    });
    invariant_12_no_email_is_done_that_was_not_in_doubt: State(|world| {
        let mut in_flight = world.job.emails().filter(|email| email.outcome == Outcome::InFlight).peekable();
        let refused = |email: &Effect| world.job.clone().settle(email.epoch, email.number, Verdict::Done("250".into())).is_err();
        in_flight.peek().is_some().then(|| in_flight.all(refused))
    });
    evidence_is_never_wrong: State(|world| {
        // A person may be wrong, and the record says that it was a person.
        let truth = |effect: &Effect| match effect.outcome {
            _ if world.is_by_person(effect.number) || world.resumed => true,
            Outcome::Done => world.accepted(effect.number) == 1,
            Outcome::NotDone | Outcome::NotStarted | Outcome::InFlight => world.accepted(effect.number) == 0,
            Outcome::InDoubt | Outcome::Unconfirmed => true,
        };
        Some(world.job.emails().all(truth))
    });
    evidence_is_never_taken_back: Transition(|before, after| {
        let done = |effect: &&Effect| effect.outcome == Outcome::Done;
        let stays = |effect: &Effect| after.job.effect(effect.number).is_some_and(|later| is_the_same(effect, later));
        before.job.effects.iter().any(|effect| done(&effect)).then(|| before.job.effects.iter().filter(done).all(stays))
    });
    not_done_says_why: State(|world| {
        Some(world.job.effects.iter().all(|effect| (effect.outcome == Outcome::NotDone) == effect.not_done.is_some()))
    });
    no_email_comes_after_the_end_unless_the_screen_said_that_it_could: Transition(|before, after| {
        // A person who says what became of it while it may still arrive takes that upon themselves.
        let comes = |email: &&Effect| after.accepted(email.number) > before.accepted(email.number);
        let email = before.job.emails().find(comes).filter(|email| !before.is_by_person(email.number) && !before.resumed)?;
        before.job.phase.is_final().then(|| email.outcome == Outcome::Unconfirmed && headline(&before.job).contains("unconfirmed"))
    });
    no_screen_denies_what_happened: State(|world| {
        let job = &world.job;
        // In a copy also while it waits for a person.
        (job.phase.is_final() || world.original.is_some()).then(|| {
            let said = headline(job);
            let proved = |email: &Effect| world.accepted(email.number) > 0 && !world.is_by_person(email.number) && !world.resumed;
            let by_original = !world.resumed && world.original.as_ref().is_some_and(Job::report_saved);
            let (saved, sent) = (world.reports > 0 || by_original, job.emails().any(proved));
            let denies_a_report = said.contains("Nothing was saved");
            let denies_a_message = ["or sent", "not started", "not sent"].iter().any(|part| said.contains(part));
            !(saved && denies_a_report || sent && denies_a_message)
        })
    });
    a_cancel_is_accepted_until_the_job_has_ended: State(|world| {
        let may_be_cancelled = !world.job.phase.is_final() && !world.job.cancel_requested;
        may_be_cancelled.then(|| world.job.clone().cancel() == CancelAnswer::Accepted)
    });
    a_cancel_is_never_taken_back: Transition(|before, after| {
        before.job.cancel_requested.then_some(after.job.cancel_requested)
    });
    a_cancel_in_a_hold_is_always_clean: State(|world| {
        (world.job.is_held() && world.original.is_none()).then(|| {
            let mut job = world.job.clone();
            let accepted = job.cancel() == CancelAnswer::Accepted;
            accepted && headline(&job) == "Cancelled. Report saved; email not started"
        })
    });
    a_step_that_is_done_stays_done: Transition(|before, after| {
        let mut steps = before.job.steps.iter().zip(&after.job.steps);
        Some(steps.all(|(earlier, step)| earlier.state != StepState::Done || step.state == StepState::Done))
    });
    a_job_has_ended_once_all_its_steps_have: State(|world| {
        let has_ended = |step: &Step| !matches!(step.state, StepState::Pending | StepState::Running);
        world.job.steps.iter().all(has_ended).then(|| world.job.phase.is_final())
    });
    what_a_person_settled_is_never_sent_again: Transition(|before, after| {
        let settled = |effect: &&Effect| before.is_by_person(effect.number);
        let stays = |effect: &Effect| after.job.effect(effect.number).is_some_and(|later| is_the_same(effect, later));
        before.by_person.contains(&true).then(|| before.job.effects.iter().filter(settled).all(stays))
    });
    a_report_is_withdrawn_only_once_and_after_the_end: State(|world| {
        let withdrawn = |effect: &&Effect| effect.kind == EffectKind::Withdrawal;
        let count = world.job.effects.iter().filter(withdrawn).count();
        (count > 0).then(|| count == 1 && world.job.phase.is_final() && world.job.report_saved())
    });
    a_job_is_deleted_only_when_nothing_is_open_or_unconfirmed: State(|world| {
        let job = &world.job;
        let open = job.emails().any(|email| email.outcome == Outcome::Unconfirmed || email.outcome.is_open());
        Some(job.clone().delete("deleted".into()).is_ok() == (job.phase.is_final() && !open))
    });
    accounting_now_is_what_the_expiry_of_the_lease_would_do: State(|world| {
        (world.job.phase == Phase::Stopping).then(|| {
            let (mut now, mut later) = (world.job.clone(), world.job.clone());
            let done = now.account_now().is_ok() && later.recover().is_ok();
            // Only the words of the evidence differ: no worker died.
            for job in [&mut now, &mut later] {
                job.effects.iter_mut().for_each(|effect| effect.evidence = None);
            }
            done && now == later
        })
    });
    both_are_said_where_evidence_contradicts_a_person: State(|world| {
        let job = &world.job;
        let mut contradicted = job.emails().filter(|email| email.contradiction.is_some());
        let both = contradicted.next().map(|email| contradiction(email.outcome, email.via))?;
        job.phase.is_final().then(|| headline(job).contains(both) && !headline(job).contains("not sent"))
    });
    a_copy_proves_nothing_by_absence: State(|world| {
        let mut copy = world.job.clone();
        copy.recover_copy("a backup");
        let proved = |email: &Effect| email.is_settled() && !email.outcome.is_open();
        (!copy.phase.is_final()).then(|| !copy.leased && copy.lost_claims <= world.job.lost_claims && copy.emails().all(proved))
    });
    every_job_can_end: State(|world| {
        // Its worker is never heard of again, nor is any other.
        (!world.job.phase.is_final()).then(|| {
            let mut job = world.job.clone();
            for _ in 0..10 {
                let _ = if job.leased { job.recover().map(drop) } else { job.end_hold().or_else(|_| job.claim().map(drop)) };
            }
            job.phase.is_final()
        })
    });
}

/// A job without what is known about its effects, and without those that people bring about after its end.
fn apart_from_evidence(job: &Job) -> (Job, Vec<(u32, EffectKind, u32, u32)>) {
    let own = |effect: &&Effect| !matches!(effect.kind, EffectKind::Withdrawal | EffectKind::Deletion);
    let intent = |effect: &Effect| (effect.number, effect.kind, effect.attempts, effect.epoch);
    let intents = job.effects.iter().filter(own).map(intent).collect();
    // What is not known in a copy is no part of the phase.
    (Job { effects: Vec::new(), copied: None, ..job.clone() }, intents)
}

/// Whether an effect is as it was, but for what contradicts a person's word.
fn is_the_same(before: &Effect, after: &Effect) -> bool {
    *after == Effect { contradiction: after.contradiction.clone(), ..before.clone() }
}

/// Lets a worker with this claim try everything.
fn can_only_bring_evidence(before: &Job, epoch: u32) -> bool {
    let mut job = before.clone();
    let mut refused = job.progress(epoch, 9, 9).is_err() && job.fail(epoch, "it broke").is_err();
    refused &= job.release(epoch).is_err() && job.account(epoch).is_err() && job.begin_model_call(epoch).is_err();
    refused &= StepKind::ALL.iter().all(|kind| job.complete_step(epoch, *kind).is_err());
    for effect in &before.effects {
        refused &= job.begin_effect(epoch, effect.number).is_err() && job.doubt(epoch, effect.number).is_err();
    }
    refused && job == *before
}
