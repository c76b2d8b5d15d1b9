//! A cancel stops a call wherever it is, and what did not start never does.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_closes_the_stream_at_once() {
    let Step::Send(piece) = chunk("word ") else { panic!("a chunk is sent") };
    for reaction in
        [Reaction::Stream(vec![chunk("- So far"), Step::Drip(piece)]), Reaction::Stream(vec![Step::Hang]), Reaction::Silence]
    {
        let mut server = FakeServer::start(vec![reaction]).await;
        let (ledger, cancel) = (Arc::new(MemoryLedger::default()), CancellationToken::new());
        let summary = tokio::spawn({
            let (ledger, cancel, settings) = (Arc::clone(&ledger), cancel.clone(), settings(&server));
            async move {
                ModelSummarizer::new(settings, 7).expect("the settings are right").summarize(&minutes(), &*ledger, &cancel).await
            }
        });
        timeout(PATIENCE, server.waiting.recv()).await.expect("the server is asked").expect("the server lives");
        let cancelled = Instant::now();
        cancel.cancel();
        let closed = timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
        println!("cancel to closed connection, seen by the server: {:?}", closed - cancelled);
        assert!(closed - cancelled < Duration::from_secs(2));
        assert_eq!(summary.await.expect("it does not panic"), Err(SummarizeError::Stopped));
        let [CallOutcome::BrokenOff { reason, .. }] = &ledger.outcomes()[..] else { panic!("{:?}", ledger.outcomes()) };
        assert_eq!(reason, "The stream was closed.");
        assert_eq!(server.requests().len(), 1);
    }
}

/// On one thread, which the flood must not keep to itself.
#[tokio::test]
async fn a_cancel_ends_a_flood() {
    for status in [200, 500] {
        let mut server = FakeServer::start(vec![Reaction::Flood(status, "", faults::THINKING)]).await;
        let (ledger, cancel) = (MemoryLedger::default(), CancellationToken::new());
        let summarizer =
            ModelSummarizer::new(ModelSettings { max_attempts: u32::MAX, ..settings(&server) }, 7).expect("it works");
        let task = minutes();
        let cancelling = async {
            server.waiting.recv().await.expect("the server is asked");
            cancel.cancel();
        };
        let both = async { tokio::join!(summarizer.summarize(&task, &ledger, &cancel), cancelling).0 };
        assert_eq!(timeout(PATIENCE, both).await.expect("it ends"), Err(SummarizeError::Stopped));
        timeout(PATIENCE, server.closed.recv()).await.expect("the connection is closed").expect("the server lives");
    }
}

/// Cancels as soon as an attempt has failed, that is, at the beginning of the back-off.
struct CancelsInBackoff {
    inner: MemoryLedger,
    cancel: CancellationToken,
}

#[async_trait]
impl Ledger for CancelsInBackoff {
    async fn call_intended(&self, call: &CallIntent) -> Result<CallHandle, Stopped> {
        self.inner.call_intended(call).await
    }

    async fn call_ended(&self, handle: &CallHandle, outcome: CallOutcome) -> Result<(), Stopped> {
        self.inner.call_ended(handle, outcome).await?;
        let cancel = self.cancel.clone();
        // On the test's single thread this runs only once the summarizer waits for something.
        tokio::spawn(async move { cancel.cancel() });
        Ok(())
    }

    async fn progress(&self, _done: u32, _total: u32) -> Result<(), Stopped> {
        Ok(())
    }
}

#[tokio::test]
async fn a_cancel_ends_a_backoff_and_nothing_more_is_sent() {
    let server = FakeServer::start(vec![Reaction::Status(429, "retry-after: 60\r\n", "")]).await;
    let cancel = CancellationToken::new();
    let ledger = CancelsInBackoff { inner: MemoryLedger::default(), cancel: cancel.clone() };
    let summarizer = ModelSummarizer::new(settings(&server), 7).expect("the settings are right");
    let result = timeout(PATIENCE, summarizer.summarize(&minutes(), &ledger, &cancel)).await.expect("the back-off ends at once");
    assert_eq!(result, Err(SummarizeError::Stopped));
    assert_eq!((server.requests().len(), ledger.inner.intents().len()), (1, 1));
}

/// Refuses every intent, as the server's ledger does after a cancel.
struct Refuses;

#[async_trait]
impl Ledger for Refuses {
    async fn call_intended(&self, _call: &CallIntent) -> Result<CallHandle, Stopped> {
        Err(Stopped)
    }

    async fn call_ended(&self, _handle: &CallHandle, _outcome: CallOutcome) -> Result<(), Stopped> {
        Err(Stopped)
    }

    async fn progress(&self, _done: u32, _total: u32) -> Result<(), Stopped> {
        Ok(())
    }
}

#[tokio::test]
async fn without_a_committed_intent_nothing_is_sent() {
    let server = FakeServer::start(vec![answer("- Fine [1:1]", "stop")]).await;
    let summarizer = ModelSummarizer::new(settings(&server), 7).expect("the settings are right");
    assert_eq!(summarizer.summarize(&minutes(), &Refuses, &CancellationToken::new()).await, Err(SummarizeError::Stopped));
    let (ledger, cancel) = (MemoryLedger::default(), CancellationToken::new());
    cancel.cancel();
    assert_eq!(summarizer.summarize(&minutes(), &ledger, &cancel).await, Err(SummarizeError::Stopped));
    assert!(ledger.entries().iter().all(|entry| matches!(entry, LedgerEntry::Progress(..))));
    assert_eq!(server.requests(), []);
}
