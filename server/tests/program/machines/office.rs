//! Several processes and their one mail server, and people who order reports and cancel some of them, whatever happens.

use std::{sync::Arc, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use store::Place;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    cluster::skips,
    instance::PATIENCE,
    machine::{Machine, Role},
    program::Home,
    raw::Raw,
    smtp_server::{Script, Server},
};

/// How long the mail server takes for each answer: a session lasts long enough to be interrupted.
const THINKS: Duration = Duration::from_millis(15);
/// Short leases, so that the dead are noticed soon.
const WORKER: &str = "concurrency = 2\nper_person = 100\nlease_seconds = 3\ngrace_seconds = 1\n";
/// How long one request may take before it is tried elsewhere.
const REQUEST: Duration = Duration::from_secs(3);
/// Until everything has ended that was open: some time-outs one after the other, on a machine under load.
pub const CALM: Duration = Duration::from_secs(90);

/// The machines are elsewhere; this is what they share.
pub struct Office {
    pub home: Home,
    pub token: String,
    pub smtp: Server,
}

impl Office {
    /// On a database of the shared server; `None` where there is none.
    pub async fn new(test: &str) -> Option<Self> {
        if skips(test) {
            return None;
        }
        Some(Self::at_home(Home::new()).await)
    }

    /// On a server of the test's own.
    pub async fn on(place: Place) -> Self {
        Self::at_home(Home::on(place)).await
    }

    async fn at_home(home: Home) -> Self {
        let smtp = Server::start(Script { thinks: THINKS, ..Script::default() });
        home.mails_through(smtp.port, WORKER);
        let token = home.token("ada@example.org").await;
        Self { home, token, smtp }
    }

    pub async fn start(&self, role: Role) -> Machine {
        Machine::start(&self.home, role).await
    }

    pub async fn raw(&self) -> Raw {
        Raw::open(self.home.database()).await
    }

    /// People who use the pages of these machines from now on.
    pub fn opens(&self, seed: u64, machines: &[&Machine]) -> Traffic {
        Traffic::start(&self.token, seed, machines)
    }
}

/// What became of one order.
#[derive(Debug)]
pub struct Order {
    pub id: String,
    /// The first answer to a Cancel that came through.
    pub cancel: Option<Value>,
}

/// How many people order reports, one after the other each.
const PEOPLE: u64 = 5;

/// People at work.
pub struct Traffic {
    stop: CancellationToken,
    ended: watch::Receiver<usize>,
    people: JoinSet<Vec<Order>>,
}

impl Traffic {
    fn start(token: &str, seed: u64, machines: &[&Machine]) -> Self {
        let urls = machines.iter().filter_map(|machine| machine.pages()).map(|pages| pages.url.clone());
        let urls: Arc<[String]> = urls.collect();
        let stop = CancellationToken::new();
        let (count, ended) = watch::channel(0);
        let count = Arc::new(count);
        let mut people = JoinSet::new();
        for number in 0..PEOPLE {
            let rng = StdRng::seed_from_u64(seed ^ number);
            let client = Client { urls: urls.clone(), token: token.to_owned(), rng };
            people.spawn(work(client, number, stop.clone(), count.clone()));
        }
        Self { stop, ended, people }
    }

    /// Waits until so many more jobs have ended: work goes on.
    pub async fn goes_on(&mut self, jobs: usize, context: &str) {
        let goal = *self.ended.borrow() + jobs;
        let waited = timeout(CALM, self.ended.wait_for(|count| *count >= goal)).await.is_ok();
        assert!(waited, "{context}: only {} of {goal} jobs have ended", *self.ended.borrow());
    }

    /// Nobody orders any more; waits until every job has ended.
    pub async fn closes(mut self) -> Vec<Order> {
        self.stop.cancel();
        let mut orders = Vec::new();
        while let Some(ended) = self.people.join_next().await {
            orders.extend(ended.expect("every job ends"));
        }
        orders
    }
}

/// Somebody who asks until there is an answer, each time at any machine.
struct Client {
    urls: Arc<[String]>,
    token: String,
    rng: StdRng,
}

impl Client {
    async fn ask(&mut self, method: reqwest::Method, path: &str, key: &str, body: Value) -> Value {
        let deadline = Instant::now() + CALM;
        loop {
            let url = format!("{}/api/v1/{path}", self.urls[self.rng.random_range(0..self.urls.len())]);
            // Each time over a connection of its own: one that was made to a dead machine says nothing about the next.
            let client = reqwest::Client::builder().tls_certs_only([]).timeout(REQUEST).build().expect("a client");
            let request = client.request(method.clone(), url).bearer_auth(&self.token).header("idempotency-key", key);
            let answer = async { request.json(&body).send().await?.error_for_status()?.json::<Value>().await };
            match answer.await {
                Ok(answer) => return answer,
                Err(error) if error.status().is_some_and(|status| status.is_client_error()) => panic!("{path}: {error}"),
                Err(error) => assert!(Instant::now() < deadline, "{path}: {error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Orders a report, perhaps cancels it, and sees it end.
    async fn order(&mut self, recipients: &[String]) -> Order {
        let body = json!({"month": "2026-06", "sources": ["Minutes"], "recipients": recipients, "hold": "none"});
        let made = self.ask(reqwest::Method::POST, "jobs", &recipients[0], body).await;
        let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        // Most jobs last about as long.
        let patience = self.rng.random_bool(0.4).then(|| Duration::from_millis(self.rng.random_range(0..900)));
        let started = Instant::now();
        let (mut cancel, mut seen) = (None, 0);
        let deadline = Instant::now() + CALM;
        loop {
            let job = self.ask(reqwest::Method::GET, &format!("jobs/{id}"), "", Value::Null).await;
            let version = job["version"].as_i64().unwrap_or_else(|| panic!("{job}"));
            assert!(version >= seen, "an older version after a newer one: {seen}, then {job}");
            seen = version;
            if cancel.is_none() && patience.is_some_and(|patience| started.elapsed() >= patience) {
                cancel = Some(self.ask(reqwest::Method::PUT, &format!("jobs/{id}/cancellation"), "", Value::Null).await);
                continue;
            }
            if ["finished", "cancelled", "failed"].contains(&job["phase"].as_str().unwrap_or_default()) {
                return Order { id, cancel };
            }
            assert!(Instant::now() < deadline, "it never ends: {job}");
            sleep(Duration::from_millis(30)).await;
        }
    }
}

async fn work(mut client: Client, number: u64, stop: CancellationToken, count: Arc<watch::Sender<usize>>) -> Vec<Order> {
    let mut orders = Vec::new();
    while !stop.is_cancelled() {
        let recipients = client.rng.random_range(1..=3);
        let job = format!("job-{number}-{}.example.org", orders.len());
        let recipients: Vec<String> = (0..recipients).map(|recipient| format!("r{recipient}@{job}")).collect();
        orders.push(client.order(&recipients).await);
        count.send_modify(|count| *count += 1);
    }
    orders
}

/// Waits until the number of a query without values passes a test.
pub async fn number_is(raw: &mut Raw, query: &str, test: impl Fn(i64) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let number = raw.number(query).await;
        if test(number) {
            return;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain: {query} is {number}");
        sleep(Duration::from_millis(10)).await;
    }
}
