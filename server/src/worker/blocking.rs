//! Operations on a thread of their own, where nobody can interrupt them: reading a document, listing a folder.
//!
//! A cancel waits for their end, at most until the operation's longest time has passed, and throws their result away; the
//! history says so (CONTRACT.md, section 5). To let go at once would be quicker, and the job would say "Cancelled" while its
//! work goes on.

use super::run::{StepError, Work};
use contract::Phase;
use contract::wording;
use std::time::Duration;
use store::CallEnd;
use tokio::{
    task::{JoinError, JoinHandle, spawn_blocking},
    time::{Instant, timeout_at},
};

/// A wait shorter than this is not worth a sentence.
const BRIEFLY: Duration = Duration::from_millis(200);

impl Work {
    /// Runs `operation` on a thread of its own and gives its result, or `None` where it took longer than `longest`; it is left
    /// alone then. `what` names it in the middle of a sentence: "reading of budget.pdf".
    ///
    /// When the job has to stop, the operation is waited for only where somebody has pressed Cancel: at a shutdown nobody wants
    /// to wait, and after a lost lease another worker speaks for the job.
    pub async fn on_thread<T: Send + 'static>(
        &self,
        what: &str,
        longest: Duration,
        operation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<Result<T, JoinError>>, StepError> {
        self.ready().await?;
        let end = Instant::now() + longest;
        self.pulse.allow(longest);
        let mut running = spawn_blocking(operation);
        if let Some(ended) = self.halt.unless_stopped(timeout_at(end, &mut running)).await {
            return Ok(ended.ok());
        }
        let ended = self.see_the_end(&mut running, end.min(Instant::now() + BRIEFLY)).await
            || self.say(wording::waiting_until_ended(what), None).await? && self.see_the_end(&mut running, end).await;
        let became = if ended {
            wording::ended_after_the_cancel(what)
        } else if self.halt.shutdown.is_cancelled() {
            format!("The {what} had not ended when the program was shut down; it was abandoned")
        } else {
            format!("The {what} had not ended {} s after its start; it was abandoned", longest.as_secs_f64())
        };
        self.say(became, None).await?;
        Err(StepError::Stopped)
    }

    /// Whether the operation ends in time. A process that shuts down does not wait.
    async fn see_the_end<T>(&self, running: &mut JoinHandle<T>, end: Instant) -> bool {
        running.is_finished() || matches!(self.halt.shutdown.run_until_cancelled(timeout_at(end, running)).await, Some(Ok(_)))
    }

    /// Adds a sentence to the history of a job that this claim is stopping; to any other it has nothing to say. Tells which.
    /// The end of a call to a server is written with it in any case.
    pub(super) async fn say(&self, sentence: String, call: Option<&CallEnd>) -> Result<bool, StepError> {
        let mut change = self.change().await?;
        let job = &change.job;
        let is_stopping = job.phase == Phase::Stopping && job.leased && job.epoch == self.claim.epoch;
        if let Some(call) = call {
            change.end_call(self.claim.epoch, call).await?;
        }
        if is_stopping {
            change.note(sentence);
        }
        if is_stopping || call.is_some() {
            change.commit().await?;
        }
        Ok(is_stopping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::{
        Dependencies,
        watch::{Halt, Pulse},
    };
    use chrono::{DateTime, TimeDelta};
    use documents::{mcp::Servers, read::Limits};
    use domain::{
        hold::Hold,
        id::RequestKey,
        people::{EmailAddress, Role, password::PasswordHash},
        spec::{Spec, Task},
    };
    use mail::outbox::Outbox;
    use std::sync::{Arc, mpsc};
    use store::{Claim, ClaimTerms, NewUser, Store, notifications::changed, testing::Database};
    use summarize::SummarizerChoice;
    use tokio_util::sync::CancellationToken;

    const LONG: Duration = Duration::from_mins(5);
    const WHAT: &str = "reading of budget.pdf";

    /// A claimed job, and an operation that ends when the test lets it.
    struct Bench {
        work: Arc<Work>,
        /// Dropping it ends the operation.
        release: mpsc::Sender<()>,
        operation: Option<mpsc::Receiver<()>>,
        _database: Database,
        _folder: tempfile::TempDir,
    }

    impl Bench {
        async fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder for the test");
            let start = DateTime::from_timestamp(1_780_000_000, 0).expect("an instant of 2026");
            let clock = Arc::new(domain::clock::ManualClock::new(start));
            let database = Database::new(folder.path());
            let store = Store::open(&database.place, clock, "recount.test").await.expect("a new database");
            let email = EmailAddress::parse("ada@example.org").expect("an address");
            let new = store.create_user(&email, Role::User, &PasswordHash::unusable(), chrono_tz::Tz::UTC).await;
            let Ok(NewUser::Created(owner)) = new else { panic!("the database is new") };
            let spec = Spec {
                title: "Minutes".into(),
                month: "2026-06".parse().expect("a month"),
                start,
                end: start,
                zone: "UTC".into(),
                sources: Vec::new(),
                recipients: vec!["anna@example.org".into()],
                instructions: None,
                hold: Hold::None,
                task: Task::Report,
            };
            store.create_job(owner, RequestKey::new(), &spec).await.expect("the database works");
            let terms = ClaimTerms { lease: TimeDelta::seconds(15), per_person: None, only: None };
            let claim = store.claim_job("worker", terms).await.expect("the database works");
            let claim: Claim = claim.expect("a job waits");
            let dependencies = Arc::new(Dependencies {
                store,
                summarizer: SummarizerChoice::BuiltIn,
                channel: Arc::new(Outbox::open(folder.path().join("outbox")).expect("an outbox")),
                sender: "Recount <r@example.org>".parse().expect("a sender"),
                public_url: "http://recount.test".into(),
                limits: Limits::default(),
                probes: Arc::default(),
                mail_pauses: &[],
                file_pauses: &[],
                servers: Servers::default(),
            });
            let token = CancellationToken::new;
            let halt = Halt { stop: token(), shutdown: token(), give_up: token() };
            let (release, operation) = mpsc::channel();
            let work = Arc::new(Work::new(dependencies, claim, halt, Pulse::new(LONG)));
            Self { work, release, operation: Some(operation), _database: database, _folder: folder }
        }

        /// Begins an operation that lasts until the test releases it.
        fn begin(&mut self, longest: Duration) -> impl Future<Output = Result<bool, StepError>> + use<> {
            let (work, operation) = (self.work.clone(), self.operation.take().expect("one operation"));
            let running = tokio::spawn(async move {
                let ended = work.on_thread(WHAT, longest, move || operation.recv()).await?;
                Ok(ended.is_some())
            });
            async { running.await.expect("it does not panic") }
        }

        async fn cancel(&self) {
            self.work.dependencies.store.cancel_job(self.work.claim.id, "ada@example.org").await.expect("the database works");
            self.work.halt.stop.cancel();
        }

        async fn history(&self) -> Vec<String> {
            let history = self.work.dependencies.store.history(self.work.claim.id).await.expect("the database works");
            history.into_iter().map(|(_, entry)| entry).collect()
        }

        /// Until the history says that the job waits for the operation.
        async fn waits_for(&self, operation: &mut (impl Future<Output = Result<bool, StepError>> + Unpin)) {
            tokio::select! {
                early = operation => panic!("the operation has not ended, but: {early:?}"),
                () = self.told("Waiting until the reading of budget.pdf has ended; it cannot be interrupted") => {}
            }
        }

        /// Waits until the history's last entry is this one.
        async fn told(&self, last: &str) {
            let mut notifications = self.work.dependencies.store.notifications().subscribe();
            while self.history().await.last().is_none_or(|entry| entry != last) {
                changed(&mut notifications, self.work.claim.id).await;
            }
        }
    }

    #[tokio::test]
    async fn without_a_stop_the_result_counts() {
        let mut bench = Bench::new().await;
        let ended = bench.begin(LONG);
        drop(bench.release);
        assert!(ended.await.expect("nothing stops it"));
    }

    #[tokio::test]
    async fn an_operation_that_takes_too_long_is_left_alone() {
        let mut bench = Bench::new().await;
        assert!(!bench.begin(Duration::from_millis(20)).await.expect("nothing stops it"));
        assert!(!bench.history().await.iter().any(|entry| entry.contains("budget.pdf")), "the coverage list says it");
    }

    #[tokio::test]
    async fn a_cancel_waits_for_the_end_and_discards_the_result() {
        let mut bench = Bench::new().await;
        let mut ended = Box::pin(bench.begin(LONG));
        bench.cancel().await;
        bench.waits_for(&mut ended).await;
        let record = bench.work.dependencies.store.job(bench.work.claim.id).await.expect("it works").expect("the job exists");
        assert_eq!(record.job.phase, Phase::Stopping);
        bench.release.send(()).expect("the operation still runs");
        assert!(matches!(ended.await, Err(StepError::Stopped)));
        let last = "The reading of budget.pdf ended after the cancel; its result was discarded";
        assert_eq!(bench.history().await.last().map(String::as_str), Some(last));
    }

    #[tokio::test]
    async fn a_cancel_waits_no_longer_than_the_longest_time() {
        let mut bench = Bench::new().await;
        let ended = bench.begin(Duration::from_millis(500));
        bench.cancel().await;
        assert!(matches!(ended.await, Err(StepError::Stopped)));
        let last = "The reading of budget.pdf had not ended 0.5 s after its start; it was abandoned";
        assert_eq!(bench.history().await.last().map(String::as_str), Some(last));
        bench.release.send(()).expect("the operation still runs");
    }

    #[tokio::test]
    async fn a_shutdown_ends_the_wait_of_a_cancel_and_says_so() {
        let mut bench = Bench::new().await;
        let mut ended = Box::pin(bench.begin(LONG));
        bench.cancel().await;
        bench.waits_for(&mut ended).await;
        bench.work.halt.shutdown.cancel();
        assert!(matches!(ended.await, Err(StepError::Stopped)));
        let last = "The reading of budget.pdf had not ended when the program was shut down; it was abandoned";
        assert_eq!(bench.history().await.last().map(String::as_str), Some(last));
        bench.release.send(()).expect("the operation still runs");
    }

    #[tokio::test]
    async fn a_shutdown_and_a_lost_lease_do_not_wait() {
        for shutdown in [true, false] {
            let mut bench = Bench::new().await;
            let ended = bench.begin(LONG);
            if shutdown {
                bench.work.halt.shutdown.cancel();
            }
            bench.work.halt.stop.cancel();
            assert!(matches!(ended.await, Err(StepError::Stopped)));
            assert!(!bench.history().await.iter().any(|entry| entry.contains("budget.pdf")));
            bench.release.send(()).expect("the operation still runs");
        }
    }
}
