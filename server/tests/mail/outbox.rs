//! The outbox folder: one file per message whatever happens, and every dark ending settled.

use std::{fs, path::Path};

use async_trait::async_trait;
use mail::{
    channel::{Cause, Channel, Delivery, DeliveryPhase, Journal, Outgoing, Reconciled, Refused, Retry, Stop},
    outbox::Outbox,
};
use tempfile::TempDir;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::support::mail::{Record, message, message_with};

const FILE: &str = "0123456789abcdef0123456789abcdef@example.org.eml";

fn outbox() -> (TempDir, Outbox) {
    let folder = TempDir::new().expect("folder");
    let outbox = Outbox::open(folder.path().join("mail/out")).expect("outbox");
    (folder, outbox)
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("folder")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

async fn deliver(outbox: &Outbox, message: &Outgoing) -> Delivery {
    outbox.deliver(message, &Record::allowing(), &Stop::default()).await
}

fn next_attempt(message: &Outgoing) -> Outgoing {
    Outgoing { attempt: Uuid::from_u128(message.attempt.as_u128() + 1), ..message.clone() }
}

/// Stops in the middle of a delivery, where a worker can die or lose its lease.
#[derive(Default)]
struct Gate {
    reached: Notify,
    go_on: Notify,
}

#[async_trait]
impl Journal for Gate {
    async fn in_doubt(&self) -> Result<(), Refused> {
        self.reached.notify_one();
        self.go_on.notified().await;
        Ok(())
    }
}

#[tokio::test]
async fn one_message_is_one_file_with_exactly_its_bytes() {
    let (_guard, outbox) = outbox();
    let (message, record) = (message(), Record::allowing());
    let delivery = outbox.deliver(&message, &record, &Stop::default()).await;
    assert_eq!(delivery, Delivery::Accepted { evidence: format!("written as {FILE}"), peer: "outbox folder".into() });
    assert_eq!(record.asked(), 1);
    assert_eq!(files(outbox.folder()), [FILE]);
    assert_eq!(fs::read(outbox.folder().join(FILE)).expect("file"), *message.bytes);
}

#[tokio::test]
async fn a_second_attempt_finds_the_file_and_writes_none() {
    let (_guard, outbox) = outbox();
    let message = message();
    deliver(&outbox, &message).await;
    let again = deliver(&outbox, &next_attempt(&message)).await;
    assert!(matches!(&again, Delivery::Accepted { evidence, .. } if evidence.starts_with("already there")), "{again:?}");
    assert_eq!(files(outbox.folder()), [FILE]);
}

#[tokio::test]
async fn two_workers_at_once_make_one_file() {
    let (_guard, outbox) = outbox();
    let first = message();
    let second = next_attempt(&first);
    let (a, b) = tokio::join!(deliver(&outbox, &first), deliver(&outbox, &second));
    assert!(matches!(a, Delivery::Accepted { .. }), "{a:?}");
    assert!(matches!(b, Delivery::Accepted { .. }), "{b:?}");
    assert_eq!(files(outbox.folder()), [FILE]);
}

#[tokio::test]
async fn other_bytes_under_the_same_id_are_refused_and_change_nothing() {
    let (_guard, outbox) = outbox();
    let message = message();
    deliver(&outbox, &message).await;
    let other = next_attempt(&message_with("other"));
    let refused = deliver(&outbox, &other).await;
    assert!(
        matches!(&refused, Delivery::NotAccepted { phase: DeliveryPhase::Store, retry: Retry::NeedsPerson, .. }),
        "{refused:?}"
    );
    assert_eq!(fs::read(outbox.folder().join(FILE)).expect("file"), *message.bytes);
    assert!(matches!(outbox.reconcile(&other).await, Reconciled::NotAccepted { .. }));
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::Accepted { .. }));
}

#[tokio::test]
async fn stops_and_refusals_leave_no_message() {
    let message = message();
    let (_guard, outbox) = outbox();
    let stop = Stop::default();
    stop.cancel.cancel();
    let record = Record::allowing();
    let (phase, cause) = (DeliveryPhase::Prepare, Cause::Cancelled);
    assert_eq!(outbox.deliver(&message, &record, &stop).await, Delivery::BrokenOff { phase, cause });
    assert_eq!(record.asked(), 0);
    assert!(files(outbox.folder()).is_empty());

    let stop = Stop::default();
    let record = Record::allowing_and_cancelling(stop.cancel.clone());
    let (phase, cause) = (DeliveryPhase::Journal, Cause::Cancelled);
    assert_eq!(outbox.deliver(&message, &record, &stop).await, Delivery::BrokenOff { phase, cause });
    // in_doubt was committed; should the worker die now, this settles it
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::NotAccepted { .. }));

    let second = next_attempt(&message);
    let record = Record::refusing(Refused::LeaseLost);
    let (phase, cause) = (DeliveryPhase::Journal, Cause::Refused(Refused::LeaseLost));
    let delivery = outbox.deliver(&second, &record, &Stop::default()).await;
    assert_eq!(delivery, Delivery::BrokenOff { phase, cause });
    assert!(files(outbox.folder()).iter().all(|name| name.starts_with('.') && name.contains(".void")));

    let third = next_attempt(&second);
    assert!(matches!(deliver(&outbox, &third).await, Delivery::Accepted { .. }));
}

#[tokio::test]
async fn a_worker_that_died_before_the_link_is_settled_as_not_accepted_for_good() {
    let (_guard, outbox) = outbox();
    let message = message();
    let gate = Gate::default();
    {
        let stop = Stop::default();
        let mut dying = std::pin::pin!(outbox.deliver(&message, &gate, &stop));
        tokio::select! {
            early = &mut dying => panic!("{early:?}"),
            () = gate.reached.notified() => {}
        }
    }
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::NotAccepted { .. }));
    // Asked again, for instance because the first answer was not recorded.
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::NotAccepted { .. }));
    assert!(matches!(deliver(&outbox, &next_attempt(&message)).await, Delivery::Accepted { .. }));
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::Accepted { .. }));
}

#[tokio::test]
async fn a_late_worker_cannot_link_after_it_was_settled() {
    let (_guard, outbox) = outbox();
    let message = message();
    let (gate, stop) = (Gate::default(), Stop::default());
    let mut late = std::pin::pin!(outbox.deliver(&message, &gate, &stop));
    tokio::select! {
        early = &mut late => panic!("{early:?}"),
        () = gate.reached.notified() => {}
    }
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::NotAccepted { .. }));
    gate.go_on.notify_one();
    let late = late.await;
    assert!(matches!(late, Delivery::NotAccepted { phase: DeliveryPhase::Store, .. }), "{late:?}");
    assert!(!outbox.folder().join(FILE).exists());
}

#[tokio::test]
async fn a_worker_that_died_right_after_the_link_is_settled_as_accepted() {
    let (_guard, outbox) = outbox();
    let message = message();
    let temporary = outbox.folder().join(format!(".{}.tmp", message.attempt));
    fs::write(&temporary, &message.bytes).expect("temporary");
    fs::hard_link(&temporary, outbox.folder().join(FILE)).expect("link");
    for _ in 0..2 {
        assert!(matches!(outbox.reconcile(&message).await, Reconciled::Accepted { .. }));
    }
}

#[tokio::test]
async fn without_any_trace_nothing_is_claimed() {
    let (_guard, outbox) = outbox();
    let message = message();
    deliver(&outbox, &message).await;
    fs::remove_file(outbox.folder().join(FILE)).expect("someone takes the file away");
    assert!(matches!(outbox.reconcile(&message).await, Reconciled::NotKnown { .. }));
}

#[tokio::test]
async fn a_message_id_never_leads_out_of_the_folder() {
    let (_guard, outbox) = outbox();
    for id in
        ["<../../up@example.org>", "</etc/x@example.org>", "<.hidden@example.org>", "<A@Example.org>", "<a@example.org>", ""]
    {
        let strange = Outgoing { message_id: id.to_owned(), ..message() };
        let delivery = deliver(&outbox, &strange).await;
        assert!(matches!(delivery, Delivery::Accepted { .. }), "{id}: {delivery:?}");
    }
    let names = files(outbox.folder());
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with('.') && !name.contains("..")));
}

#[tokio::test]
async fn a_folder_that_went_away_and_a_changed_message_are_said() {
    let (guard, outbox) = outbox();
    let mut changed = message();
    changed.sha256[0] ^= 1;
    let delivery = deliver(&outbox, &changed).await;
    assert!(matches!(delivery, Delivery::NotAccepted { phase: DeliveryPhase::Prepare, .. }), "{delivery:?}");
    drop(guard);
    let delivery = deliver(&outbox, &message()).await;
    assert!(
        matches!(delivery, Delivery::NotAccepted { phase: DeliveryPhase::Store, retry: Retry::NeedsPerson, .. }),
        "{delivery:?}"
    );
    assert!(matches!(outbox.reconcile(&message()).await, Reconciled::NotKnown { .. }));
}
