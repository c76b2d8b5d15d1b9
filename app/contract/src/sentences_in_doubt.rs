//! The sentences where a record knows less than it seems to, or more than one thing: the outbox folder, restored copies, and a
//! person's word that evidence contradicts.

use super::{
    Epoch, Job, JobKind, MAX_CLAIMS, NotDone, Outcome, Phase, StepKind, Unconfirmed, Verdict, Via, headline, if_cancelled_now,
    sentences::{accepted, at, cancelled, mailing, refused, send, unanswered},
    waiting_for,
};

const BACKUP: &str = "a backup of 3 June, 14:02";
const UNKNOWN: &str =
    "Report saved; email outcome unconfirmed (restored from a backup of 3 June, 14:02; the original may have sent it since)";
const UNSAVED: &str = "Report and email outcome unconfirmed (restored from a backup of 3 June, 14:02; the original may have saved and sent it since)";
const DENIED: &str = "a person said it was not accepted; the mail service says it was";

/// Writes the e-mail `number` to the outbox folder.
fn write(job: &mut Job, epoch: Epoch, number: u32) {
    job.begin_email(epoch, number, Via::Outbox).unwrap();
    job.doubt(epoch, number).unwrap();
    job.settle(epoch, number, Verdict::Done("written as a.eml (outbox folder)".into())).unwrap();
}

#[test]
fn what_only_the_outbox_folder_has_is_not_called_sent() {
    let (mut job, epoch) = at(StepKind::Email, 3);
    write(&mut job, epoch, 2);
    assert_eq!(headline(&job), "E-mailing the link (1 of 3)");
    let rest = "If you cancel now, 1 of 3 messages is already in the outbox folder; the others will not be sent.";
    assert_eq!(if_cancelled_now(&job).as_deref(), Some(rest));
    let part = "Cancelled. Report saved; written to the outbox folder for 1 of 3, no e-mail was sent";
    assert_eq!(cancelled(job.clone(), epoch), part);
    job.begin_email(epoch, 3, Via::Outbox).unwrap();
    let mut stopping = job.clone();
    stopping.cancel();
    assert_eq!(waiting_for(&stopping).as_deref(), Some("Putting the message's file away; it is not in the outbox folder yet."));
    job.doubt(epoch, 3).unwrap();
    let mut stopping = job.clone();
    stopping.cancel();
    let waiting = "A message is being written to the outbox folder; waiting until it is there. The other one will not be sent.";
    assert_eq!(waiting_for(&stopping).as_deref(), Some(waiting));
    job.settle(epoch, 3, accepted()).unwrap();
    write(&mut job, epoch, 4);
    let all = "The report is saved and every message is already in the outbox folder; a cancel can stop nothing more.";
    assert_eq!(if_cancelled_now(&job).as_deref(), Some(all));
    let written = "Report saved; written to the outbox folder, no e-mail was sent";
    let mut late = job.clone();
    late.cancel();
    late.account(epoch).unwrap();
    assert_eq!(headline(&late), format!("The cancel came too late. {written}"));
    job.complete_step(epoch, StepKind::Email).unwrap();
    assert_eq!(headline(&job), written);

    for (kind, name) in [(JobKind::Correction, "Correction"), (JobKind::SecondCopy, "Second copy")] {
        let (mut job, epoch) = mailing(kind, 1);
        write(&mut job, epoch, 1);
        job.complete_step(epoch, StepKind::Email).unwrap();
        assert_eq!(headline(&job), format!("{name} written to the outbox folder, no e-mail was sent"));
    }
}

/// The settings may have changed between two attempts; each is what it was.
#[test]
fn a_job_of_two_channels_says_which_got_what() {
    let (mut job, epoch) = at(StepKind::Email, 2);
    write(&mut job, epoch, 2);
    send(&mut job, epoch, 3, accepted());
    let both = "The report is saved and every message is already with the mail server or in the outbox folder; a cancel can stop \
                nothing more.";
    assert_eq!(if_cancelled_now(&job).as_deref(), Some(both));
    job.complete_step(epoch, StepKind::Email).unwrap();
    assert_eq!(headline(&job), "Report saved; email accepted for 1 of 2; 1 written to the outbox folder");

    let (mut job, epoch) = at(StepKind::Email, 1);
    job.begin_email(epoch, 2, Via::Outbox).unwrap();
    job.settle(epoch, 2, Verdict::NotDone(NotDone::Unreached, "the disk is full".into())).unwrap();
    send(&mut job, epoch, 2, accepted());
    job.complete_step(epoch, StepKind::Email).unwrap();
    assert_eq!(headline(&job), "Report saved; email accepted by the mail service");
}

#[test]
fn in_a_copy_everything_unproved_is_unconfirmed() {
    let queued = Job::create(2, false);
    let mut held = Job::create(1, true);
    let epoch = held.claim().unwrap();
    for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        held.complete_step(epoch, kind).unwrap();
    }
    let (ready, epoch) = at(StepKind::Email, 2);
    let mut flying = ready.clone();
    flying.begin_effect(epoch, 2).unwrap();
    let mut doubtful = flying.clone();
    doubtful.doubt(epoch, 2).unwrap();
    let mut unreached = flying.clone();
    unreached.settle(epoch, 2, Verdict::NotDone(NotDone::Unreached, "451".into())).unwrap();
    let mut half = ready.clone();
    send(&mut half, epoch, 2, accepted());
    for (mut job, said) in [
        (queued, UNSAVED),
        (at(StepKind::Collect, 1).0, UNSAVED),
        (at(StepKind::Save, 1).0, UNSAVED),
        (held, UNKNOWN),
        (ready, UNKNOWN),
        (flying, UNKNOWN),
        (doubtful, UNKNOWN),
        (unreached, UNKNOWN),
        (half, UNKNOWN),
    ] {
        job.recover_copy(BACKUP);
        let offered = if_cancelled_now(&job).unwrap();
        assert!(offered.contains("from here") && offered.contains("the original may have"), "{offered}");
        assert_eq!(headline(&job), said, "{job:?}");
        assert!(job.emails().all(|email| matches!(email.outcome, Outcome::Unconfirmed | Outcome::Done)), "{job:?}");
        job.cancel();
        assert_eq!((job.phase, headline(&job)), (Phase::Cancelled, format!("Cancelled. {said}")));
    }
    for (kind, name) in [(JobKind::Correction, "Correction"), (JobKind::SecondCopy, "Second copy")] {
        let (mut job, _) = mailing(kind, 1);
        job.recover_copy("a copy");
        assert_eq!(
            headline(&job),
            format!("{name} outcome unconfirmed (restored from a copy; the original may have sent it since)")
        );
    }
}

#[test]
fn what_is_proved_stays_so_in_a_copy() {
    let (mut job, epoch) = at(StepKind::Email, 2);
    send(&mut job, epoch, 2, accepted());
    send(&mut job, epoch, 3, refused());
    let mut open = job.clone();
    job.complete_step(epoch, StepKind::Email).unwrap();
    let ended = job.clone();
    job.recover_copy(BACKUP);
    assert_eq!(job, ended);
    open.recover_copy(BACKUP);
    assert_eq!(headline(&open), "E-mailing the link (1 of 2)");

    // What had ended in doubt may have been settled since.
    let (mut job, epoch) = at(StepKind::Email, 1);
    send(&mut job, epoch, 2, unanswered());
    job.complete_step(epoch, StepKind::Email).unwrap();
    job.recover_copy(BACKUP);
    assert_eq!(headline(&job), UNKNOWN);
    job.reconcile(2, accepted()).unwrap();
    assert_eq!(headline(&job), "Report saved; email accepted by the mail service");
}

/// A look may find what the original has sent, before and after anybody decides about the copy.
#[test]
fn what_is_found_of_the_original_is_not_denied() {
    let mut held = Job::create(1, true);
    let epoch = held.claim().unwrap();
    for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        held.complete_step(epoch, kind).unwrap();
    }
    for (mut job, said) in [
        (held, "Report saved; email accepted for 1 of 1"),
        (Job::create(1, false), "Report saved by the original only; email accepted for 1 of 1"),
    ] {
        job.recover_copy(BACKUP);
        job.reconcile(2, accepted()).unwrap();
        assert!(!headline(&job).contains("not sent"), "{}", headline(&job));
        job.cancel();
        assert!(headline(&job).ends_with(said), "{}", headline(&job));
    }
}

/// The original meets the same cancel before its point of no return.
#[test]
fn a_cancel_from_before_the_copy_still_proves_what_did_not_start() {
    let (mut job, epoch) = at(StepKind::Email, 2);
    job.begin_effect(epoch, 2).unwrap();
    let mut doubtful = job.clone();
    doubtful.doubt(epoch, 2).unwrap();
    job.cancel();
    job.recover_copy(BACKUP);
    assert_eq!(headline(&job), "Cancelled. Report saved; email not sent");
    doubtful.cancel();
    doubtful.recover_copy(BACKUP);
    assert_eq!(headline(&doubtful), format!("Cancelled. {UNKNOWN}"));
    let (mut calling, epoch) = at(StepKind::Summarize, 1);
    calling.begin_model_call(epoch).unwrap();
    calling.cancel();
    calling.recover_copy(BACKUP);
    assert_eq!(headline(&calling), "Cancelled. Nothing was saved or sent");
}

#[test]
fn in_a_copy_nobody_is_said_to_have_died() {
    let (mut job, epoch) = at(StepKind::Email, 3);
    send(&mut job, epoch, 2, accepted());
    job.begin_effect(epoch, 3).unwrap();
    job.doubt(epoch, 3).unwrap();
    job.lost_claims = MAX_CLAIMS - 1;
    job.recover_copy(BACKUP);
    assert_eq!((job.phase, job.leased, job.lost_claims), (Phase::Running, false, 0));
    let evidence = |n| job.effect(n).unwrap().evidence.clone().unwrap();
    assert_eq!(evidence(3), "this copy was made after the message may have been handed over");
    assert_eq!(evidence(4), format!("restored from {BACKUP}; the original may have sent it since"));
    let copied = job.clone();
    job.recover_copy("another copy");
    assert_eq!(job, copied, "what is not known begins with the first copy");
}

#[test]
fn a_person_lets_a_copy_go_on_which_proves_nothing() {
    let (mut job, epoch) = at(StepKind::Email, 3);
    job.begin_effect(epoch, 2).unwrap();
    job.doubt(epoch, 2).unwrap();
    let mut held = Job::create(1, true);
    let first = held.claim().unwrap();
    for kind in [StepKind::Collect, StepKind::Summarize, StepKind::Save] {
        held.complete_step(first, kind).unwrap();
    }
    for job in [&mut job, &mut held] {
        job.recover_copy(BACKUP);
        job.go_on("ada: it was not sent").unwrap();
    }
    assert_eq!(headline(&held), "Report saved; email not sent yet");
    held.cancel();
    assert_eq!(headline(&held), format!("Cancelled. {UNKNOWN}"));
    assert!(held.go_on("again").is_err(), "it has ended");

    // The one in doubt is never begun again; the others are, as they would have been.
    let epoch = job.claim().unwrap();
    assert!(job.begin_effect(epoch, 2).is_err());
    send(&mut job, epoch, 3, accepted());
    let mut failed = job.clone();
    failed.fail(epoch, "The disk is full.").unwrap();
    assert_eq!(headline(&failed), format!("Failed while e-mailing the link. {UNKNOWN}"));
    assert_eq!(failed.effect(4).unwrap().unconfirmed, Some(Unconfirmed::Copied));
    send(&mut job, epoch, 4, accepted());
    job.attest(2, false, "ada looked".into()).unwrap();
    job.complete_step(epoch, StepKind::Email).unwrap();
    assert_eq!(headline(&job), "Report saved; email accepted for 2 of 3");
}

#[test]
fn a_persons_word_and_later_evidence_are_both_said() {
    let unsettled = |recipients| {
        let (mut job, epoch) = at(StepKind::Email, recipients);
        send(&mut job, epoch, 2, unanswered());
        (job, epoch)
    };
    let (mut job, epoch) = unsettled(1);
    job.complete_step(epoch, StepKind::Email).unwrap();
    for (said, verdict, both) in
        [(false, accepted(), DENIED), (true, refused(), "a person said it was accepted; the mail service says it was not")]
    {
        let mut job = job.clone();
        job.attest(2, said, "anna looked".into()).unwrap();
        let settled = job.clone();
        assert!(!job.contradict(2, &unanswered()) && job == settled, "no answer says nothing");
        let (agrees, late) =
            if said { (accepted(), "550 5.1.1 no such user") } else { (refused(), "250 2.0.0 queued as ABC123") };
        assert!(!job.contradict(2, &agrees) && job == settled);
        assert!(job.contradict(2, &verdict));
        assert!(job.contradict(2, &Verdict::Done("later still".into())) != said, "only what says otherwise");
        let effect = job.effect(2).unwrap();
        assert_eq!((effect.outcome, effect.contradiction.as_deref()), (settled.effect(2).unwrap().outcome, Some(late)));
        assert_eq!(headline(&job), format!("Report saved; email: {both}"));
        assert!(!job.effect(2).unwrap().may_begin());
    }

    // Proof is no person's word, and is not contradicted.
    let mut proved = job.clone();
    proved.reconcile(2, accepted()).unwrap();
    assert!(!proved.contradict(2, &refused()));

    let (mut job, epoch) = unsettled(3);
    send(&mut job, epoch, 3, accepted());
    send(&mut job, epoch, 4, refused());
    job.complete_step(epoch, StepKind::Email).unwrap();
    job.attest(2, false, "anna looked".into()).unwrap();
    assert!(job.contradict(2, &accepted()));
    assert_eq!(headline(&job), format!("Report saved; email accepted for 1 of 3; for 1 of 3 {DENIED}"));

    let (mut job, epoch) = unsettled(2);
    job.cancel();
    job.account(epoch).unwrap();
    job.attest(2, false, "anna looked".into()).unwrap();
    job.contradict(2, &accepted());
    assert_eq!(headline(&job), format!("Cancelled. Report saved; email: for 1 of 2 {DENIED}"));
}
