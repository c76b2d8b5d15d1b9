//! What processes tell each other: a page on one machine follows a job that another one works on, and a Cancel pressed here stops
//! the work there. With PostgreSQL's messages that is quick, and without them only later.

use std::{fmt::Write as _, io::Write as _, time::Duration};

use tokio::time::{Instant, timeout};

use crate::support::{
    cluster::skips,
    gate::Gate,
    instance::PATIENCE,
    machine::{Machine, Role},
    pages::Pages,
    program::Home,
    raw::Raw,
    smtp_server::{Act::Hang, Script, Server},
};

/// A page looks for itself when it has heard nothing for this long (`http/events.rs`).
const FALLBACK: Duration = Duration::from_secs(4);

/// Nobody hears anything any more: the program finds this function instead of PostgreSQL's own. Takes effect with new sessions.
const DEAF: &str = "create function public.pg_notify(text, text) returns void language sql as 'select';
    do $$ begin execute format('alter database %I set search_path = public, pg_catalog', current_database()); end $$";

/// Ends the sessions that listen.
const END_LISTENERS: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and query ilike 'listen%'";

/// Pages on one machine, a worker on another; long leases, so that nothing is due to them.
pub struct Two {
    pub home: Home,
    pub token: String,
    pub smtp: Server,
}

impl Two {
    pub async fn new(test: &str, script: Script) -> Option<Self> {
        if skips(test) {
            return None;
        }
        let (home, smtp) = (Home::new(), Server::start(script));
        home.mails_through(smtp.port, "lease_seconds = 60\ngrace_seconds = 1\n");
        let token = home.token("ada@example.org").await;
        Some(Self { home, token, smtp })
    }

    pub async fn start(&self, role: Role) -> Machine {
        Machine::start(&self.home, role).await
    }

    async fn raw(&self) -> Raw {
        Raw::open(self.home.database()).await
    }
}

pub fn pages_of(machine: &Machine) -> &Pages {
    machine.pages().expect("it serves pages")
}

/// Waits for the next version that a page is told; `None` at the end of the stream.
async fn next_version(events: &mut reqwest::Response) -> Option<i64> {
    loop {
        let piece = timeout(PATIENCE, events.chunk()).await.expect("a sign of life comes every few seconds");
        let piece = piece.expect("the stream lives")?;
        let text = String::from_utf8_lossy(&piece);
        if let Some(version) = text.lines().filter_map(|line| line.strip_prefix("id: ").or(line.strip_prefix("id:"))).next_back()
        {
            return Some(version.trim().parse().expect("a version"));
        }
    }
}

/// Follows a job on one machine while another one works on it, held at each of its first commits until the page knows. Returns
/// how long each took.
async fn follow(two: &Two, held: usize, mut raw: Option<Raw>) -> Vec<Duration> {
    let mut gate = Gate::open(two.home.data().join("points"));
    let machine = two.start(Role::Pages).await;
    let pages = pages_of(&machine);
    let worker =
        Machine::start_with(&two.home, Role::Worker, &[("RECOUNT_FAIL_POINTS", gate.socket.to_str().expect("UTF-8"))]).await;
    let id = pages.order(&two.token, "june", &["anna@example.org"]).await;
    let mut events = pages.events(&two.token, &id).await;
    assert_eq!(next_version(&mut events).await, Some(1), "what there is comes at once");
    let (mut took, mut told, mut broken) = (Vec::new(), 1, 0);
    while took.len() < held && pages.job(&two.token, &id).await["phase"] != "finished" {
        let arrival = timeout(PATIENCE, gate.next()).await.expect("the worker works");
        if let Some(raw) = &mut raw {
            broken += raw.number(END_LISTENERS).await;
        }
        if arrival.name.starts_with("after commit") {
            let committed = Instant::now();
            let version = pages.job(&two.token, &id).await["version"].as_i64().expect("a version");
            while told < version {
                told = next_version(&mut events).await.expect("the job has not ended");
                took.push(committed.elapsed());
            }
        }
        arrival.go();
    }
    assert!(raw.is_none() || broken > 0, "nobody listened");
    // From now on nobody holds it.
    drop(gate);
    while let Some(version) = next_version(&mut events).await {
        told = version;
    }
    assert_eq!(pages.job(&two.token, &id).await["version"], told, "the last version was told");
    assert_eq!(pages.job(&two.token, &id).await["headline"], "Report saved; email accepted by the mail service");
    for machine in [worker, machine] {
        assert_eq!(machine.stops().await.code, Some(0));
    }
    assert_eq!(two.smtp.commits(), 1);
    took
}

pub fn print(what: &str, took: &[Duration]) {
    let mut line = format!("{what}:");
    for time in took {
        write!(line, " {}", time.as_millis()).expect("memory");
    }
    writeln!(std::io::stdout().lock(), "{line} ms").expect("standard output");
}

fn mean(took: &[Duration]) -> Duration {
    took.iter().sum::<Duration>() / u32::try_from(took.len()).expect("few")
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_page_follows_a_job_on_another_machine_version_by_version() {
    let Some(two) = Two::new("pages and a worker", Script::default()).await else { return };
    let took = follow(&two, usize::MAX, None).await;
    print("Each version of a job on another machine came to a page after", &took);
    assert!(took.len() >= 8 && mean(&took) < FALLBACK / 2, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_page_follows_a_job_though_every_message_is_lost() {
    let Some(two) = Two::new("lost messages", Script::default()).await else { return };
    two.raw().await.run(DEAF).await;
    let took = follow(&two, 3, None).await;
    print("The same with every message lost", &took);
    assert!(mean(&took) > FALLBACK / 4, "messages are lost indeed: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_page_follows_a_job_though_its_listener_is_broken_off_again_and_again() {
    let Some(two) = Two::new("broken listeners", Script::default()).await else { return };
    let raw = two.raw().await;
    let took = follow(&two, usize::MAX, Some(raw)).await;
    print("The same with listeners broken off again and again", &took);
}

/// From Cancel on one machine to the end of the connection that another one has to the mail server.
async fn cancel(two: &Two) -> Duration {
    let (machine, worker) = (two.start(Role::Pages).await, two.start(Role::Worker).await);
    let pages = pages_of(&machine);
    let id = pages.order(&two.token, "june", &["anna@example.org"]).await;
    timeout(PATIENCE, two.smtp.reached()).await.expect("the worker is at the mail server");
    let pressed = Instant::now();
    assert_eq!(pages.cancel(&two.token, &id).await["outcome"], "accepted");
    timeout(PATIENCE, two.smtp.closed()).await.expect("the worker leaves");
    let took = pressed.elapsed();
    let job = pages.end_of(&two.token, &id).await;
    assert_eq!(job["headline"], "Cancelled. Report saved; email not sent");
    for machine in [worker, machine] {
        assert_eq!(machine.stops().await.code, Some(0));
    }
    assert_eq!(two.smtp.commits(), 0);
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_on_one_machine_stops_the_work_on_another() {
    for is_deaf in [false, true] {
        let script = Script { data: Hang, ..Script::default() };
        let Some(two) = Two::new("a cancel elsewhere", script).await else { return };
        if is_deaf {
            two.raw().await.run(DEAF).await;
        }
        let took = cancel(&two).await;
        print(if is_deaf { "A cancel with every message lost" } else { "A cancel on another machine" }, &[took]);
        // The lease lasts a minute and the mail server says nothing: it was the message, or the look of every second.
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_asked_to_stop_hands_its_job_back_at_once() {
    let script = Script { data: Hang, ..Script::default() };
    let Some(two) = Two::new("a graceful stop", script).await else { return };
    let mut raw = two.raw().await;
    let (machine, first) = (two.start(Role::Pages).await, two.start(Role::Worker).await);
    let pages = pages_of(&machine);
    let id = pages.order(&two.token, "june", &["anna@example.org"]).await;
    timeout(PATIENCE, two.smtp.reached()).await.expect("the worker is at the mail server");
    assert_eq!(first.held(&mut raw).await, 1);
    let second = two.start(Role::Worker).await;
    let asked = Instant::now();
    assert_eq!(first.stops().await.code, Some(0));
    timeout(PATIENCE, two.smtp.reached()).await.expect("the other worker is at the mail server");
    let took = asked.elapsed();
    assert_eq!(second.held(&mut raw).await, 1);
    print("From SIGTERM to another process at the same place of the job, with a lease of 60 s", &[took]);
    assert!(took < Duration::from_secs(20), "{took:?}");
    pages.cancel(&two.token, &id).await;
    assert_eq!(pages.end_of(&two.token, &id).await["headline"], "Cancelled. Report saved; email not sent");
    for machine in [second, machine] {
        assert_eq!(machine.stops().await.code, Some(0));
    }
    assert_eq!(two.smtp.commits(), 0);
}
