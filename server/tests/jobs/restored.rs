//! Workers on a restored copy: they send nothing old by themselves, and what a person lets go on is sent once.

use std::fs;

use chrono::TimeDelta;
use contract::{Outcome, Phase, StepKind, headline};
use domain::{
    hold::Hold,
    id::{JobId, RequestKey},
    spec::{Spec, Task},
};
use mail::outbox::Outbox;
use server::worker::{Dependencies, WorkerOptions, reconcile::due_probes};
use store::ProbeResult;

use crate::support::{
    channels::{Dark, Stands},
    ended::{ordered, unanswered},
    instance::{Instance, LEASE},
    resend_server::{
        Account,
        Act::{Dropped, Taken},
        Api, Ending,
    },
    worker::Running,
};

const ONE: &[&str] = &["anna@example.org"];

/// Lets a worker work on the copy until a new job has ended, which comes after all that it could take before. Every time at
/// which something old could be due has come.
async fn work(copy: &Instance, dependencies: Dependencies) {
    copy.clock.advance(TimeDelta::days(1));
    copy.two_documents();
    let worker = Running::start(dependencies);
    let new = copy.job(&["new@example.org"]).await;
    let record = copy.wait_for_end(new).await;
    worker.stop().await;
    assert_eq!(record.job.phase, Phase::Finished);
}

/// To whom messages went, without those of new jobs.
fn sent(copy: &Instance) -> Vec<String> {
    let to = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("To: "));
        // Messages that the test has rendered itself name nobody.
        line.map_or("first@example.org", str::trim).to_owned()
    };
    let mut all: Vec<_> = copy.messages().iter().map(|(_, text)| to(text)).filter(|to| !to.contains("new@")).collect();
    all.sort();
    all
}

async fn go_on(copy: &Instance, id: JobId) {
    copy.store.go_on(id, "ada@example.org", "It was not sent.").await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_old_goes_on_by_itself_and_everything_by_a_word_and_once() {
    let original = Instance::new().await;
    original.two_documents();
    let to = |name: &str| format!("{name}@example.org");
    let running = original.job_at(StepKind::Collect, &[&to("running")]).await.id;
    let mailing = original.job_at(StepKind::Email, &[&to("flight"), &to("waiting")]).await.id;
    original.change(mailing, |job| job.begin_effect(1, 2)).await.unwrap();
    let ended = original.ended(&[("first@example.org", unanswered())]).await;
    let second = ordered(original.second_copy(ended, 2).await);
    let mut held = Vec::new();
    for hold in [Hold::Countdown(30), Hold::Approval] {
        let spec = Spec { hold, ..original.spec(&[&to("held")]) };
        held.push(original.store.create_job(original.owner, RequestKey::new(), &spec).await.unwrap().0);
    }
    let only = WorkerOptions { lease: LEASE, only: Some(held[0]), ..WorkerOptions::default() };
    let worker = Running::start_with(original.dependencies(), only);
    original.wait(held[0], "the hold", |record| record.job.is_held()).await;
    worker.stop().await;
    let queued = held[1];

    let copy = original.restored().await;
    work(&copy, copy.dependencies()).await;
    assert_eq!(sent(&copy), Vec::<String>::new());
    let all = [running, mailing, second, held[0], queued];
    for id in all {
        assert!(!copy.record(id).await.job.phase.is_final());
        assert!(copy.record(id).await.row.set_aside_at.is_some());
    }

    let worker = Running::start(copy.dependencies());
    for id in all {
        go_on(&copy, id).await;
        go_on(&copy, id).await;
    }
    copy.wait(queued, "the hold", |record| record.job.is_held()).await;
    assert_eq!(copy.store.send_now(queued, "ada@example.org").await.unwrap(), Some(true));
    for id in all {
        let record = copy.wait_for_end(id).await;
        assert_eq!(record.job.phase, Phase::Finished, "{}", headline(&record.job));
    }
    worker.stop().await;
    let names = ["first", "flight", "held", "held", "running", "waiting"];
    assert_eq!(sent(&copy), names.map(to));
    assert!(matches!(copy.record(second).await.row.spec.task, Task::SecondCopy { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_e_mail_in_doubt_is_not_sent_again_even_by_a_word() {
    let original = Instance::new().await;
    original.two_documents();
    let outbox = original.folder().join("outbox");
    let (dark, reached) = Dark::new(Outbox::open(&outbox).unwrap(), Stands::BeforeTheFile);
    let id = original.job(ONE).await;
    let worker = Running::start(original.dependencies_with(dark));
    reached.notified().await;
    let copy = original.restored().await;
    // With the attempt's temporary file: where the outbox is the only one, that proves that the message was not sent.
    let folder = copy.folder().join("outbox");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(&outbox).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    worker.kill().await;
    assert_eq!(copy.record(id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);

    work(&copy, copy.dependencies()).await;
    assert_eq!(copy.record(id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
    let worker = Running::start(copy.dependencies());
    go_on(&copy, id).await;
    let record = copy.wait_for_end(id).await;
    worker.stop().await;
    let unknown =
        "Report saved; email outcome unconfirmed (restored from a backup of 1 July, 10:00; the original may have sent it since)";
    assert_eq!(headline(&record.job), unknown);
    assert_eq!(sent(&copy), Vec::<String>::new());

    // In the original it is proof, and the message goes out.
    original.clock.advance(LEASE + TimeDelta::seconds(1));
    let worker = Running::start(original.dependencies());
    let record = original.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
}

/// How often a message was handed over; questions about earlier ones do not count.
fn handed_over(api: &Api) -> usize {
    api.requests().iter().filter(|(head, _)| head.starts_with("POST ")).count()
}

/// An ended job in a restored copy, whose only e-mail was unconfirmed before the backup; the service is the same.
async fn unconfirmed(api: &Api) -> (Instance, Dependencies, JobId) {
    let original = Instance::new().await;
    original.two_documents();
    let id = original.job(ONE).await;
    let worker = Running::start(original.dependencies_with(api.channel()));
    original.wait_for_end(id).await;
    worker.stop().await;
    let copy = original.restored().await;
    let dependencies = copy.dependencies_with(api.channel());
    copy.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    (copy, dependencies, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_message_is_not_handed_over_again_under_its_key() {
    let account = Account { keeps_message_ids: true, may_list: false };
    let api = Api::start_for(vec![Dropped(Ending::Close), Dropped(Ending::Close)], account).await;
    let (copy, dependencies, id) = unconfirmed(&api).await;
    assert_eq!((handed_over(&api), api.taken().len()), (1, 0));
    let results: Vec<_> = copy.store.probes(id, 2).await.unwrap().into_iter().map(|look| look.end.unwrap().1).collect();
    assert_eq!(results, [ProbeResult::Failed], "it was looked for");
    assert_eq!(copy.record(id).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);

    // What the copy itself has begun is its own.
    copy.two_documents();
    let new = copy.job(ONE).await;
    let worker = Running::start(dependencies.clone());
    copy.wait_for_end(new).await;
    worker.stop().await;
    assert_eq!(copy.record(new).await.job.effect(2).unwrap().outcome, Outcome::Unconfirmed);
    copy.clock.advance(TimeDelta::minutes(1));
    due_probes(&dependencies).await;
    assert_eq!(copy.record(new).await.job.effect(2).unwrap().outcome, Outcome::Done);
    assert_eq!((handed_over(&api), api.taken().len()), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_still_settles_what_was_unconfirmed() {
    let api = Api::start(vec![Taken(Ending::Close)]).await;
    let (copy, _, id) = unconfirmed(&api).await;
    assert_eq!(headline(&copy.record(id).await.job), "Report saved; email accepted by the mail service");
    assert_eq!((handed_over(&api), api.taken().len()), (1, 1));
}
