//! The sentences of the contract, section 8, each for the record that it describes.

use super::{
    CancelAnswer, EffectKind, Epoch, Job, JobKind, MAX_CLAIMS, NotDone, Outcome, Phase, Refusal, StepKind, Verdict, changes,
    headline, if_cancelled_now, waiting_for,
};

/// A job whose worker is at `step`.
pub(super) fn at(step: StepKind, recipients: u32) -> (Job, Epoch) {
    let mut job = Job::create(recipients, false);
    let epoch = job.claim().unwrap();
    while job.current_step() != Some(step) {
        let kind = job.current_step().unwrap();
        job.complete_step(epoch, kind).unwrap();
    }
    (job, epoch)
}

/// Sends the e-mail `number` up to the verdict.
pub(super) fn send(job: &mut Job, epoch: Epoch, number: u32, verdict: Verdict) {
    job.begin_effect(epoch, number).unwrap();
    job.doubt(epoch, number).unwrap();
    job.settle(epoch, number, verdict).unwrap();
}

pub(super) fn accepted() -> Verdict {
    Verdict::Done("250 2.0.0 queued as ABC123".into())
}

pub(super) fn refused() -> Verdict {
    Verdict::NotDone(NotDone::Refused, "550 5.1.1 no such user".into())
}

pub(super) fn unanswered() -> Verdict {
    Verdict::Unconfirmed("no answer within 10 min".into())
}

pub(super) fn cancelled(mut job: Job, epoch: Epoch) -> String {
    assert_eq!(job.cancel(), CancelAnswer::Accepted);
    assert_eq!(headline(&job), "Stopping…");
    job.account(epoch).unwrap();
    headline(&job)
}

#[test]
fn a_waiting_job() {
    let mut job = Job::create(1, false);
    assert_eq!(headline(&job), "Waiting to start");
    assert_eq!(if_cancelled_now(&job).unwrap(), "If you cancel now, nothing will be saved or sent.");
    job.cancel();
    assert_eq!(headline(&job), "Cancelled. Nothing was saved or sent");
    assert_eq!(if_cancelled_now(&job), None);
}

#[test]
fn a_running_job() {
    let said = [
        (StepKind::Collect, "Collecting documents"),
        (StepKind::Summarize, "Summarizing"),
        (StepKind::Save, "Saving the report"),
        (StepKind::Email, "E-mailing the link (0 of 3)"),
    ];
    for (kind, sentence) in said {
        assert_eq!(headline(&at(kind, 3).0), sentence);
    }
}

#[test]
fn a_cancel_before_the_save_leaves_nothing() {
    for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        let (job, epoch) = at(kind, 3);
        assert_eq!(if_cancelled_now(&job).unwrap(), "If you cancel now, nothing will be saved or sent.");
        assert_eq!(cancelled(job, epoch), "Cancelled. Nothing was saved or sent");
    }
}

#[test]
fn a_cancel_after_the_save_tells_how_far_the_mail_got() {
    let (job, epoch) = at(StepKind::Email, 3);
    assert_eq!(if_cancelled_now(&job).unwrap(), "If you cancel now, the report stays saved; no email goes out.");
    assert_eq!(cancelled(job.clone(), epoch), "Cancelled. Report saved; email not started");

    let mut one = job.clone();
    send(&mut one, epoch, 2, accepted());
    assert_eq!(
        if_cancelled_now(&one).unwrap(),
        "If you cancel now, 1 of 3 messages is already with the mail server; the others will not be sent."
    );
    assert_eq!(cancelled(one, epoch), "Cancelled. Report saved; email accepted for 1 of 3");

    let mut broken_off = job.clone();
    broken_off.begin_effect(epoch, 2).unwrap();
    broken_off.settle(epoch, 2, Verdict::NotDone(NotDone::BrokenOff, "before the dot".into())).unwrap();
    assert_eq!(cancelled(broken_off, epoch), "Cancelled. Report saved; email not sent");

    let mut doubtful = job;
    send(&mut doubtful, epoch, 2, unanswered());
    assert_eq!(cancelled(doubtful, epoch), "Cancelled. Report saved; email outcome unconfirmed");
}

#[test]
fn a_held_job_waits_without_a_worker_and_stops_cleanly() {
    let mut job = Job::create(2, true);
    let epoch = job.claim().unwrap();
    for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        job.complete_step(epoch, kind).unwrap();
    }
    assert!(job.is_held() && !job.leased);
    assert_eq!(headline(&job), "Report saved; email not sent yet");
    assert_eq!(if_cancelled_now(&job).unwrap(), "If you cancel now, the report stays saved; no email goes out.");
    assert!(job.claim().is_err());

    let mut stopped = job.clone();
    stopped.cancel();
    assert_eq!(headline(&stopped), "Cancelled. Report saved; email not started");
    assert!(stopped.end_hold().is_err());

    job.end_hold().unwrap();
    assert_eq!(job.claim(), Ok(2));
    assert_eq!(job.current_step(), Some(StepKind::Email));
}

#[test]
fn a_stopping_job_says_what_it_waits_for() {
    let (mut job, epoch) = at(StepKind::Email, 3);
    job.begin_effect(epoch, 2).unwrap();
    job.doubt(epoch, 2).unwrap();
    job.cancel();
    let waiting = waiting_for(&job).unwrap();
    assert!(waiting.contains("has not answered yet") && waiting.contains("other 2 will not be sent"), "{waiting}");
    let (mut calling, epoch) = at(StepKind::Summarize, 1);
    calling.begin_model_call(epoch).unwrap();
    calling.cancel();
    assert_eq!(waiting_for(&calling).unwrap(), "Closing the stream from the model.");
}

#[test]
fn a_cancel_that_prevents_nothing_came_too_late() {
    let (mut job, epoch) = at(StepKind::Email, 1);
    job.begin_effect(epoch, 2).unwrap();
    job.doubt(epoch, 2).unwrap();
    assert_eq!(job.cancel(), CancelAnswer::Accepted);
    job.settle(epoch, 2, accepted()).unwrap();
    job.account(epoch).unwrap();
    assert_eq!(job.phase, Phase::Finished);
    assert_eq!(headline(&job), "The cancel came too late. Report saved; email accepted by the mail service");
}

#[test]
fn a_finished_job() {
    let finish = |verdicts: Vec<Verdict>| {
        let count = u32::try_from(verdicts.len()).unwrap();
        let (mut job, epoch) = at(StepKind::Email, count);
        for (number, verdict) in (2..).zip(verdicts) {
            send(&mut job, epoch, number, verdict);
        }
        job.complete_step(epoch, StepKind::Email).unwrap();
        headline(&job)
    };
    assert_eq!(finish(vec![accepted(), accepted()]), "Report saved; email accepted by the mail service");
    assert_eq!(finish(vec![accepted(), refused(), accepted()]), "Report saved; email refused for 1 of 3");
    assert_eq!(finish(vec![accepted(), unanswered()]), "Report saved; email outcome unconfirmed");
    let gave_up = Verdict::NotDone(NotDone::GaveUp, "no connection".into());
    assert_eq!(finish(vec![accepted(), gave_up.clone()]), "Report saved; email accepted for 1 of 2");
    assert_eq!(finish(vec![refused(), gave_up.clone()]), "Report saved; email accepted for 0 of 2");
    assert_eq!(finish(vec![gave_up]), "Report saved; email not sent");
}

#[test]
fn a_failed_job() {
    let (mut job, epoch) = at(StepKind::Summarize, 1);
    job.fail(epoch, "The model refused.").unwrap();
    assert_eq!(headline(&job), "Failed while summarizing. Nothing was saved or sent");
    let (mut job, epoch) = at(StepKind::Email, 2);
    send(&mut job, epoch, 2, accepted());
    job.fail(epoch, "The disk is full.").unwrap();
    assert_eq!(headline(&job), "Failed while e-mailing the link. Report saved; email accepted for 1 of 2");
}

#[test]
fn progress_never_shrinks() {
    let (mut job, epoch) = at(StepKind::Collect, 1);
    job.progress(epoch, 5, 12).unwrap();
    job.progress(epoch, 2, 3).unwrap();
    let collect = |job: &Job| job.step(StepKind::Collect).map(|step| (step.done, step.total));
    assert_eq!(collect(&job), Some((5, 12)));
    job.recover().unwrap();
    let epoch = job.claim().unwrap();
    job.progress(epoch, 1, 12).unwrap();
    assert_eq!(collect(&job), Some((5, 12)));
}

#[test]
fn the_history_is_what_differs() {
    let before = Job::create(1, false);
    let mut after = before.clone();
    after.claim().unwrap();
    assert_eq!(changes(&before, &after).len(), 2);
    let mut cancelled = after.clone();
    cancelled.cancel();
    assert_eq!(changes(&after, &cancelled).len(), 2);
    assert!(changes(&cancelled, &cancelled).is_empty());
}

/// The two kinds of mailings, with what their sentences call them: at the beginning, and in the middle.
const MAILINGS: [(JobKind, &str, &str); 2] =
    [(JobKind::Correction, "Correction", "the correction"), (JobKind::SecondCopy, "Second copy", "the second copy")];

/// A mailing whose worker is at its only step.
pub(super) fn mailing(kind: JobKind, recipients: u32) -> (Job, Epoch) {
    let mut job = Job::create_mailing(kind, recipients);
    let epoch = job.claim().unwrap();
    assert_eq!(job.current_step(), Some(StepKind::Email));
    (job, epoch)
}

#[test]
fn a_mailing_waits_and_goes_out_under_its_own_name() {
    for (kind, name, object) in MAILINGS {
        let mut job = Job::create_mailing(kind, 1);
        assert_eq!((headline(&job).as_str(), job.steps.len(), job.report_saved()), ("Waiting to start", 1, false));
        assert_eq!(if_cancelled_now(&job), Some(format!("If you cancel now, {object} does not go out.")));
        let mut cancelled = job.clone();
        assert_eq!(cancelled.cancel(), CancelAnswer::Accepted);
        assert_eq!(headline(&cancelled), format!("Cancelled. {name} not started"));

        job.claim().unwrap();
        assert_eq!(headline(&job), format!("E-mailing {object} (0 of 1)"));
        assert_eq!(if_cancelled_now(&job), Some(format!("If you cancel now, {object} does not go out.")));
    }
}

#[test]
fn a_mailing_that_is_with_the_mail_server_cannot_be_stopped() {
    for (kind, name, _) in MAILINGS {
        let (mut job, epoch) = mailing(kind, 1);
        job.begin_effect(epoch, 1).unwrap();
        job.doubt(epoch, 1).unwrap();
        let all = "Every message is already with the mail server; a cancel can stop nothing more.";
        assert_eq!(if_cancelled_now(&job).as_deref(), Some(all));
        job.cancel();
        assert_eq!(headline(&job), "Stopping…");
        assert!(waiting_for(&job).unwrap().contains("has not answered yet"));
        job.settle(epoch, 1, accepted()).unwrap();
        job.account(epoch).unwrap();
        assert_eq!(
            (job.phase, headline(&job)),
            (Phase::Finished, format!("The cancel came too late. {name} accepted by the mail service"))
        );
        assert_eq!(if_cancelled_now(&job), None);
    }
}

#[test]
fn a_cancelled_mailing_tells_how_far_it_got() {
    let (job, epoch) = mailing(JobKind::Correction, 3);
    let mut one = job.clone();
    send(&mut one, epoch, 1, accepted());
    assert_eq!(headline(&one), "E-mailing the correction (1 of 3)");
    let rest = "If you cancel now, 1 of 3 messages is already with the mail server; the others will not be sent.";
    assert_eq!(if_cancelled_now(&one).as_deref(), Some(rest));
    assert_eq!(cancelled(one, epoch), "Cancelled. Correction accepted for 1 of 3");

    for (kind, name, _) in MAILINGS {
        let (mut job, epoch) = mailing(kind, 1);
        job.begin_effect(epoch, 1).unwrap();
        job.settle(epoch, 1, Verdict::NotDone(NotDone::BrokenOff, "before the dot".into())).unwrap();
        assert_eq!(cancelled(job, epoch), format!("Cancelled. {name} not sent"));
        let (mut job, epoch) = mailing(kind, 1);
        send(&mut job, epoch, 1, unanswered());
        assert_eq!(cancelled(job, epoch), format!("Cancelled. {name} outcome unconfirmed"));
    }
}

#[test]
fn a_finished_mailing() {
    for (kind, name, _) in MAILINGS {
        for (verdicts, end) in [
            (vec![accepted()], "accepted by the mail service"),
            (vec![refused()], "refused for 1 of 1"),
            (vec![unanswered()], "outcome unconfirmed"),
            (vec![Verdict::NotDone(NotDone::GaveUp, "no connection".into())], "not sent"),
            (vec![accepted(), refused(), accepted()], "refused for 1 of 3"),
            (vec![accepted(), unanswered()], "outcome unconfirmed"),
        ] {
            let (mut job, epoch) = mailing(kind, u32::try_from(verdicts.len()).unwrap());
            for (number, verdict) in (1..).zip(verdicts) {
                send(&mut job, epoch, number, verdict);
            }
            job.complete_step(epoch, StepKind::Email).unwrap();
            assert_eq!((job.phase, headline(&job)), (Phase::Finished, format!("{name} {end}")));
        }
    }
}

#[test]
fn a_failed_mailing_names_itself_in_the_headline_and_in_the_reason() {
    for (kind, name, object) in MAILINGS {
        let (mut job, epoch) = mailing(kind, 1);
        job.fail(epoch, "The disk is full.").unwrap();
        assert_eq!(headline(&job), format!("Failed while e-mailing {object}. {name} not started"));

        let mut job = Job::create_mailing(kind, 1);
        for _ in 0..MAX_CLAIMS {
            job.claim().unwrap();
            job.recover().unwrap();
        }
        let reason = job.failure.clone().unwrap().reason;
        assert_eq!(reason, format!("The program stopped {MAX_CLAIMS} times while e-mailing {object}."));
    }
}

#[test]
fn what_comes_after_the_end_moves_no_final_phase() {
    let (mut job, epoch) = at(StepKind::Email, 2);
    assert!(job.withdraw("why".into()).is_err() && job.delete("why".into()).is_err(), "it has not ended");
    send(&mut job, epoch, 2, unanswered());
    send(&mut job, epoch, 3, accepted());
    job.complete_step(epoch, StepKind::Email).unwrap();
    let ended = job.clone();
    assert_eq!(job.delete("why".into()), Err(Refusal::OutOfOrder("an e-mail is unconfirmed")));

    assert!(job.reconcile(2, Verdict::Done(" ".into())).is_err(), "done needs evidence");
    assert!(job.reconcile(2, unanswered()).is_err(), "no proof");
    assert!(
        job.reconcile(3, refused()).is_err() && job.reconcile(1, accepted()).is_err() && job.reconcile(9, accepted()).is_err()
    );
    assert_eq!(job, ended);
    job.attest(2, false, "anna says so".into()).unwrap();
    assert_eq!(headline(&job), "Report saved; email accepted for 1 of 2");
    assert!(job.reconcile(2, accepted()).is_err(), "it is settled once");

    let number = job.withdraw("withdrawn by ada".into()).unwrap();
    assert!(job.is_withdrawn() && job.withdraw("again".into()).is_err());
    let effect = job.effect(number).unwrap();
    assert_eq!((effect.kind, effect.outcome, effect.attempts), (EffectKind::Withdrawal, Outcome::Done, 1));
    let number = job.delete("deleted by ada".into()).unwrap();
    assert_eq!(job.effect(number).unwrap().kind, EffectKind::Deletion);
    assert_eq!((job.phase, &job.steps, job.epoch), (ended.phase, &ended.steps, ended.epoch));
}

#[test]
fn only_a_stopping_job_is_accounted_for_without_its_worker() {
    let (mut job, epoch) = at(StepKind::Email, 4);
    send(&mut job, epoch, 2, accepted());
    send(&mut job, epoch, 3, unanswered());
    job.begin_effect(epoch, 4).unwrap();
    job.doubt(epoch, 4).unwrap();
    assert!(job.account_now().is_err());
    job.cancel();
    job.account_now().unwrap();
    let outcomes: Vec<_> = job.emails().map(|email| email.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Unconfirmed, Outcome::Unconfirmed, Outcome::NotStarted]);
    assert_eq!((job.phase, job.leased), (Phase::Cancelled, false));
    // The worker may be alive: nothing may say that it died.
    let evidence = job.effect(4).unwrap().evidence.clone().unwrap();
    assert_eq!(evidence, "the wait for the worker was ended after the message may have been handed over");
    assert!(job.account_now().is_err() && job.account(epoch).is_err(), "it has ended");

    // What the worker finds out later is still evidence, and starts nothing.
    job.settle(epoch, 4, accepted()).unwrap();
    assert_eq!(headline(&job), "Cancelled. Report saved; email outcome unconfirmed");
    assert!(job.begin_effect(epoch, 5).is_err());

    let (mut calling, epoch) = at(StepKind::Summarize, 1);
    let number = calling.begin_model_call(epoch).unwrap();
    calling.cancel();
    calling.account_now().unwrap();
    let evidence = calling.effect(number).unwrap().evidence.as_deref();
    assert_eq!(evidence, Some("abandoned when the wait for the worker was ended; the provider may have gone on"));
}
