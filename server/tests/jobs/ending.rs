//! Whole jobs that nobody stops: what they leave behind, and the ways in which they can fail.

use contract::{EffectKind, NotDone, Outcome, Phase, StepKind, StepState, headline};
use domain::coverage::DocumentOutcome as Found;
use server::worker::Dependencies;
use sha2::{Digest, Sha256};
use summarize::{ModelSettings, Provider};

use crate::support::{
    instance::Instance,
    model_server::{
        GOOD, ModelServer,
        Reaction::{Answer, Status},
    },
    worker::Running,
};

const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

#[tokio::test]
async fn a_job_ends_with_a_report_and_one_message_for_each_recipient() {
    let instance = Instance::new().await;
    instance.two_documents();
    instance.document("2026-05-30-earlier.md", "# Earlier\n\nThis is about May.\n");
    let id = instance.job(TWO).await;
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    worker.stop().await;

    assert_eq!(record.job.phase, Phase::Finished, "{:?}", record.job.failure);
    assert_eq!(headline(&record.job), "Report saved; written to the outbox folder, no e-mail was sent");
    assert!(record.job.steps.iter().all(|step| step.state == StepState::Done));

    let documents = instance.store.documents(id).await.unwrap();
    let found: Vec<_> = documents.iter().map(|d| (d.number, d.name.as_str(), d.coverage.outcome)).collect();
    assert_eq!(
        found,
        [
            (Some(1), "2026-06-03-meeting.md", Found::Read),
            (Some(2), "2026-06-17-review.md", Found::Read),
            (None, "2026-05-30-earlier.md", Found::OtherMonth),
        ]
    );
    let report = instance.store.report_of_job(id).await.unwrap().unwrap();
    assert_eq!((report.title.as_str(), record.row.report_id), ("Minutes, June 2026", Some(report.id)));
    assert!(report.markdown.contains("140,000 dollars"), "{}", report.markdown);

    let messages = instance.messages();
    assert_eq!(messages.len(), 2);
    for effect in record.job.emails() {
        let message = instance.store.message(id, effect.number).await.unwrap().unwrap();
        let message_id = &record.message_ids[&effect.number];
        assert_eq!(&message.message_id, message_id);
        assert_eq!(message.sha256, Sha256::digest(&message.bytes).to_vec());
        let name = format!("{}.eml", message_id.trim_matches(['<', '>']));
        let (_, text) = messages.iter().find(|(file, _)| *file == name).expect("its own file");
        assert_eq!(text.as_bytes(), message.bytes);
        assert!(text.contains(&format!("Message-ID: {message_id}\r\n")), "{text}");
        assert!(text.contains(&format!("To: {}\r\n", record.targets[&effect.number])), "{text}");
        assert!(text.contains(&format!("http://recount.test/reports/{}", report.id)), "{text}");
        assert!(effect.evidence.as_ref().is_some_and(|evidence| evidence.contains(&name)), "{effect:?}");
    }
}

#[tokio::test]
async fn without_documents_a_job_fails_before_anything_is_written() {
    let instance = Instance::new().await;
    instance.document("2026-05-30-earlier.md", "# Earlier\n\nThis is about May.\n");
    instance.document("2026-06-01-scan.pdf", "%PDF-1.7\nbroken");
    let server = ModelServer::start(vec![Answer(GOOD, "stop")]).await;
    let id = instance.job(TWO).await;
    let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
    let record = instance.wait_for_end(id).await;
    worker.stop().await;

    assert_eq!(headline(&record.job), "Failed while collecting documents. Nothing was saved or sent");
    let failure = record.job.failure.unwrap();
    assert_eq!(failure.step, StepKind::Collect);
    assert!(failure.reason.starts_with("No documents for June 2026 in Minutes. Not usable: 1 "), "{}", failure.reason);
    assert!(!instance.report_exists(id).await);
    assert!(instance.messages().is_empty());
    assert!(server.requests().is_empty(), "no model was asked");
    assert_eq!(instance.store.coverage(id).await.unwrap().len(), 2, "the page can still say what was found");
}

#[tokio::test]
async fn a_source_that_has_gone_is_named() {
    let instance = Instance::new().await;
    let id = instance.job(TWO).await;
    std::fs::remove_dir(instance.folder().join("minutes")).unwrap();
    let worker = Running::start(instance.dependencies());
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(record.job.failure.unwrap().reason, "No documents for June 2026 in Minutes. Not usable: 1 unreadable.");
    let coverage = instance.store.coverage(id).await.unwrap();
    assert!(coverage[0].coverage.reason.as_ref().is_some_and(|why| why == "it is no longer there"), "{coverage:?}");
}

/// Runs one job with a model server that reacts like this.
async fn with_model(reactions: Vec<crate::support::model_server::Reaction>) -> (Instance, store::Record, ModelServer) {
    let instance = Instance::new().await;
    instance.two_documents();
    let server = ModelServer::start(reactions).await;
    let id = instance.job(TWO).await;
    let worker = Running::start(Dependencies { summarizer: server.summarizer(), ..instance.dependencies() });
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    (instance, record, server)
}

#[tokio::test]
async fn a_busy_model_is_asked_again_and_both_calls_are_on_record() {
    let (instance, record, server) = with_model(vec![Status(500, "overloaded"), Answer(GOOD, "stop")]).await;
    assert_eq!(record.job.phase, Phase::Finished, "{:?}", record.job.failure);
    assert_eq!(server.requests().len(), 2);
    let calls: Vec<_> = record.job.effects.iter().filter(|effect| effect.kind == EffectKind::ModelCall).collect();
    let [failed, answered] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((failed.outcome, failed.not_done), (Outcome::NotDone, Some(NotDone::Unreached)));
    assert_eq!(answered.outcome, Outcome::Done);
    assert!(record.targets[&answered.number].ends_with(", attempt 2"), "{:?}", record.targets);
    let report = instance.store.report_of_job(record.row.id).await.unwrap().unwrap();
    assert!(report.markdown.contains("The library stays open until ten."), "{}", report.markdown);
    assert!(report.markdown.contains("test-model at 127.0.0.1"), "{}", report.markdown);
}

#[tokio::test]
async fn an_unusable_answer_fails_the_job_with_the_reason() {
    for (reaction, reason) in [
        (Answer("", "stop"), "The model sent an empty answer."),
        (Answer("- I", "content_filter"), "The model refused to answer."),
        (Answer("- Half of", "length"), "The model's answer was cut off after"),
        (Status(401, "who are you"), "401"),
    ] {
        let (instance, record, _) = with_model(vec![reaction.clone()]).await;
        assert_eq!(headline(&record.job), "Failed while summarizing. Nothing was saved or sent", "{reaction:?}");
        let failure = record.job.failure.unwrap();
        assert!(failure.reason.contains(reason), "{reaction:?}: {}", failure.reason);
        assert!(!instance.report_exists(record.row.id).await);
        assert!(instance.messages().is_empty());
    }
}

#[tokio::test]
async fn a_model_that_nobody_answers_for_fails_the_job_after_its_attempts() {
    let (_, record, server) = with_model(vec![Status(503, "")]).await;
    assert_eq!(record.job.phase, Phase::Failed);
    assert_eq!(server.requests().len(), 3);
    let calls = record.job.effects.iter().filter(|effect| effect.kind == EffectKind::ModelCall);
    assert!(calls.clone().count() == 3 && calls.clone().all(|call| call.outcome == Outcome::NotDone), "{record:?}");
}

#[tokio::test]
async fn a_model_that_cannot_be_set_up_fails_the_job_with_the_reason() {
    let instance = Instance::new().await;
    instance.two_documents();
    let id = instance.job(TWO).await;
    let summarizer = summarize::SummarizerChoice::Model(ModelSettings::new(Provider::Ollama, " "));
    let worker = Running::start(Dependencies { summarizer, ..instance.dependencies() });
    let record = instance.wait_for_end(id).await;
    worker.stop().await;
    assert_eq!(record.job.failure.unwrap().reason, "No model is set. Name the model in the settings.");
}
