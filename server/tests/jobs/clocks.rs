//! Workers at work while the clock of their machine is set.

use chrono::TimeDelta;
use contract::{Phase, headline};
use domain::{hold::Hold, id::RequestKey, spec::Spec};
use mail::outbox::Outbox;
use tokio::time::timeout;

use crate::support::{
    channels::{Dark, Stands},
    instance::{Instance, LEASE, PATIENCE},
    smtp_server::{Act, Script, Server},
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];
const ACCEPTED: &str = "Report saved; email accepted by the mail service";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_worker_dies_while_stopping_ends_though_the_clock_is_set_back() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    let (dark, reached) = Dark::new(Outbox::open(instance.folder().join("outbox")).unwrap(), Stands::BeforeTheFile);
    let worker = Running::start(instance.dependencies_with(dark));
    timeout(PATIENCE, reached.notified()).await.expect("the delivery begins");
    instance.store.cancel_job(id, "ada@example.org").await.unwrap();
    worker.kill().await;
    instance.clock.jump(TimeDelta::hours(-1));
    instance.clock.advance(LEASE + TimeDelta::seconds(1));
    let second = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    second.stop().await;
    assert_eq!(record.job.phase, Phase::Cancelled);
    assert_eq!(instance.messages().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lives_keeps_its_job_though_the_clock_is_set_forward() {
    let smtp = Server::start(Script { dot: Act::Hold(b"250 2.0.0 Ok: queued as ABC123\r\n"), ..Script::default() });
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(ONE).await;
    let worker = Running::start(instance.dependencies_with_smtp(smtp.port));
    smtp.reached().await;
    instance.clock.jump(TimeDelta::days(1));
    let other = Running::start(instance.dependencies_with_smtp(smtp.port));
    // What the other one does first of all.
    assert!(instance.recover().await.is_empty());
    smtp.release();
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    other.stop().await;
    assert_eq!((record.job.epoch, headline(&record.job).as_str()), (1, ACCEPTED));
    assert_eq!(smtp.commits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_e_mail_goes_out_when_its_time_has_passed_though_the_clock_is_set() {
    for jump in [TimeDelta::hours(-1), TimeDelta::days(-400), TimeDelta::days(1)] {
        let instance = Instance::new().await;
        instance.two_documents();
        let spec = Spec { hold: Hold::Countdown(30), ..instance.spec(ONE) };
        let (id, _) = instance.store.create_job(instance.owner, RequestKey::new(), &spec).await.unwrap();
        let worker = Running::start(instance.dependencies());
        instance.wait(id, "the hold", |record| record.job.is_held()).await;
        instance.clock.jump(jump);
        instance.store.end_due_holds().await.unwrap();
        assert!(instance.record(id).await.job.is_held(), "{jump}");
        instance.clock.advance(TimeDelta::seconds(30));
        let record = instance.wait_for_end(id).await;
        worker.stop().await;
        assert_eq!(
            (headline(&record.job).as_str(), instance.messages().len()),
            ("Report saved; written to the outbox folder, no e-mail was sent", 1),
            "{jump}"
        );
    }
}
