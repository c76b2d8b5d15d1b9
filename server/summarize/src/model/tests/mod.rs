//! Tests against a model server on this machine.

mod answers;
mod cancel;
mod fake_server;
mod faults;

use super::*;
use crate::ledger::{CallOutcome, LedgerEntry, MemoryLedger};
use crate::{CallHandle, CallIntent, Received, SourceText, Stopped};
use fake_server::{FakeServer, Reaction, Step, answer, chunk};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_mins(1);
/// How long a test waits for something that should come at once. Generous, for machines under load.
const PATIENCE: Duration = Duration::from_secs(20);

fn settings(server: &FakeServer) -> ModelSettings {
    ModelSettings {
        base_url: Some(format!("http://{}/v1", server.address)),
        idle_timeout: LONG,
        max_timeout: LONG,
        first_backoff: Duration::from_millis(1),
        max_attempts: 3,
        ..ModelSettings::new(Provider::OpenAiCompatible, "test-model")
    }
}

fn document(number: u32, text: &str) -> SourceText {
    SourceText { number, name: format!("{number}.md"), date: "2026-06-10".to_owned(), text: text.to_owned() }
}

fn task(documents: Vec<SourceText>) -> Task {
    Task { title: "June 2026".to_owned(), instructions: None, documents }
}

fn minutes() -> Task {
    task(vec![document(
        1,
        "The council approved 140,000 dollars.\n\nThe library stays open until ten in the evening from the first of July on, and that on every day of the week except Sundays and public holidays.\n\nEnd.",
    )])
}

struct Outcome {
    result: Result<Draft, SummarizeError>,
    ledger: MemoryLedger,
}

impl Outcome {
    fn reason(&self) -> String {
        match &self.result {
            Err(SummarizeError::Failed { reason }) => reason.clone(),
            other => panic!("it should have failed: {other:?}"),
        }
    }
}

async fn run(settings: ModelSettings, task: &Task) -> Outcome {
    let ledger = MemoryLedger::default();
    let summarizer = ModelSummarizer::new(settings, 7).expect("the settings are right");
    let result = timeout(PATIENCE, summarizer.summarize(task, &ledger, &CancellationToken::new())).await.expect("it ends");
    Outcome { result, ledger }
}

async fn run_against(reaction: Reaction) -> (Outcome, FakeServer) {
    let server = FakeServer::start(vec![reaction]).await;
    (run(settings(&server), &minutes()).await, server)
}
