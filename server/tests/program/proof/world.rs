//! One program with everything around it: a mail server or an outbox, a model server, and a gate at which it can be held.

use std::time::{Duration, Instant};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::Value;

use super::evidence::Evidence;
use crate::support::{
    gate::{Arrival, Gate},
    model_server::ModelServer,
    program::{Home, Served},
    smtp_server::{Script, Server},
};

/// The recipients of every job here.
pub const TWO: &[&str] = &["anna@example.org", "bert@example.org"];

/// How long a claim holds without a sign of life, in seconds.
pub const LEASE: u64 = 3;

/// Somebody who may order reports, as a data folder to begin with.
pub struct People {
    home: Home,
    pub token: String,
}

impl People {
    pub async fn new() -> Self {
        let home = Home::new();
        let token = home.token("ada@example.org").await;
        Self { home, token }
    }
}

/// Where the messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Smtp,
    Outbox,
}

/// What happens to the program at a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Kill,
    Cancel,
    /// Once the Cancel is answered.
    CancelThenKill,
    /// The Cancel there, and the kill when it has come to this later point, answered or not.
    CancelThenKillAt(String),
    /// The kill there, and another one when the next process has come to this point.
    KillThenKillAt(String),
}

/// What became of the Cancel's request.
#[derive(Debug)]
pub enum Cancel {
    NotPressed,
    /// The program was killed before its answer.
    Unanswered,
    Answered(Value),
}

/// The program, not started yet, and the outside.
pub struct World {
    pub home: Home,
    pub token: String,
    pub gate: Gate,
    /// Unless the channel is the outbox.
    pub smtp: Option<Server>,
    pub model: ModelServer,
}

impl World {
    pub async fn new(people: &People, channel: Channel) -> Self {
        let home = Home::with_people_of(&people.home);
        let gate = Gate::open(home.data().join("points"));
        let smtp = (channel == Channel::Smtp).then(|| Server::start_gated(gate.door()));
        Self::around(people, home, gate, smtp).await
    }

    /// With a mail server that follows a script, and has no points of its own.
    pub async fn scripted(people: &People, script: Script) -> Self {
        let home = Home::with_people_of(&people.home);
        let gate = Gate::open(home.data().join("points"));
        Self::around(people, home, gate, Some(Server::start(script))).await
    }

    async fn around(people: &People, home: Home, gate: Gate, smtp: Option<Server>) -> Self {
        let model = ModelServer::start_gated(gate.door()).await;
        let mail = smtp.as_ref().map_or_else(String::new, |server| {
            format!(
                "[mail]\nchannel = \"smtp\"\n[mail.smtp]\nhost = \"127.0.0.1\"\nport = {}\nsecurity = \"plain\"\n\
                 from = \"Recount <r@example.org>\"\n",
                server.port
            )
        });
        home.settings(&format!(
            "[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n[worker]\nconcurrency = 1\nlease_seconds = {LEASE}\ngrace_seconds = 1\n{mail}\
             [model]\nprovider = \"open-ai-compatible\"\nmodel = \"test-model\"\nbase_url = \"{}\"\n",
            home.documents().display(),
            model.base_url(),
        ));
        Self { home, token: people.token.clone(), gate, smtp, model }
    }

    /// The points that a job passes when nothing happens, in their order.
    pub async fn points(mut self) -> (Vec<String>, Evidence) {
        let served = self.home.serve_held(&self.gate.socket).await;
        let mut life = Life::new(NOWHERE, &Act::Kill);
        life.run(&served, &mut self.gate, &self.token).await;
        (life.passed, self.conclude(served, Cancel::NotPressed, None).await)
    }

    /// The points that a job passes once a Cancel is pressed at this one.
    pub async fn points_after_cancel(mut self, at: &str) -> Vec<String> {
        let served = self.home.serve_held(&self.gate.socket).await;
        let mut life = Life::new(at, &Act::Cancel);
        life.run(&served, &mut self.gate, &self.token).await;
        served.terminate().await;
        life.passed.into_iter().skip_while(|point| point != at).skip(1).collect()
    }

    /// The points that a job passes after a kill at this one, once the program is started again.
    pub async fn points_after_kill(mut self, at: &str) -> Vec<String> {
        let served = self.home.serve_held(&self.gate.socket).await;
        let mut life = Life::new(at, &Act::Kill);
        life.run(&served, &mut self.gate, &self.token).await;
        served.kill().await;
        drop(life);
        self.forget_the_dead();
        let served = self.home.serve_held(&self.gate.socket).await;
        let mut life = Life::new(NOWHERE, &Act::Kill);
        life.run(&served, &mut self.gate, &self.token).await;
        served.terminate().await;
        life.passed
    }

    /// Runs a job, and does this to the program when it stands at the point `at`. `None` where it never came there, or where
    /// there was no job yet to cancel.
    pub async fn interrupt(mut self, at: &str, act: &Act) -> Option<Evidence> {
        let served = self.home.serve_held(&self.gate.socket).await;
        let mut life = Life::new(at, act);
        let is_killed = life.run(&served, &mut self.gate, &self.token).await;
        let cancel = match (act, life.answer.take()) {
            (Act::Kill | Act::KillThenKillAt(_), _) => Cancel::NotPressed,
            (_, Some(answer)) => Cancel::Answered(answer),
            (Act::CancelThenKillAt(_), None) => Cancel::Unanswered,
            (Act::Cancel | Act::CancelThenKill, None) => return None,
        };
        if !is_killed {
            // A kill that never came is no case.
            return if *act == Act::Cancel { Some(self.conclude(served, cancel, None).await) } else { None };
        }
        served.kill().await;
        // Not before: whoever is held goes on when nobody holds him any more.
        drop(life);
        self.forget_the_dead();
        if let Act::KillThenKillAt(again) = act {
            let served = self.home.serve_held(&self.gate.socket).await;
            let mut life = Life::new(again, &Act::Kill);
            if !life.run(&served, &mut self.gate, &self.token).await {
                return None;
            }
            served.kill().await;
        }
        let served = self.home.serve(&[]).await;
        let restarted = Instant::now();
        whole_job(&served, &self.token).await;
        let took = restarted.elapsed();
        Some(self.conclude(served, cancel, Some(took)).await)
    }

    /// Whoever waits for a killed process learns that it is gone. The servers are held no more, and the next process has a gate
    /// of its own.
    fn forget_the_dead(&mut self) {
        self.gate = Gate::open(self.home.data().join("points-again"));
    }

    /// Waits for the end, lets an outbox prove what it can, and looks at everything. `took` is the time from a restart after a
    /// kill to the end.
    async fn conclude(self, mut served: Served, cancel: Cancel, took: Option<Duration>) -> Evidence {
        let mut told = whole_job(&served, &self.token).await;
        if self.smtp.is_none() && is_unconfirmed(&told) {
            // A worker asks the outbox when it starts; after the recovery above it would do so half a minute later.
            served.terminate().await;
            served = self.home.serve(&[]).await;
            told = served.settled(&self.token, told["id"].as_str().expect("an id"), |job| !is_unconfirmed(job)).await;
        }
        let page = served.headline_on_page(&self.token, told["id"].as_str().expect("an id")).await;
        served.terminate().await;
        Evidence::gather(&self, told, page, cancel, took).await
    }
}

fn is_unconfirmed(job: &Value) -> bool {
    job["effects"].as_array().is_some_and(|effects| effects.iter().any(|effect| effect["outcome"] == "unconfirmed"))
}

/// The point before the job exists.
const BEFORE_THE_JOB: &str = "before commit of job queued";

/// Orders the report (or finds the order again) and follows it to its end.
async fn whole_job(served: &Served, token: &str) -> Value {
    let id = served.order(token, "june", TWO).await;
    served.end_of(token, &id).await
}

/// A point at which nobody ever stands.
const NOWHERE: &str = "";

/// The life of a process until the job ends or it is to be killed.
struct Life<'a> {
    at: &'a str,
    act: &'a Act,
    reached: bool,
    held: Vec<Arrival>,
    /// The points passed so far, with the last one.
    passed: Vec<String>,
    /// What the Cancel was answered.
    answer: Option<Value>,
}

impl<'a> Life<'a> {
    fn new(at: &'a str, act: &'a Act) -> Self {
        Self { at, act, reached: false, held: Vec::new(), passed: Vec::new(), answer: None }
    }

    /// Whether it is to be killed now.
    async fn run(&mut self, served: &Served, gate: &mut Gate, token: &str) -> bool {
        let mut whole = whole_job(served, token).boxed();
        let mut pressed: Option<BoxFuture<'_, Option<Value>>> = None;
        loop {
            tokio::select! {
                biased;
                arrival = gate.next() => {
                    let is_here = !self.reached && arrival.name == self.at;
                    self.passed.push(arrival.name.clone());
                    self.reached |= is_here;
                    let is_end = matches!(self.act, Act::CancelThenKillAt(end) if *end == arrival.name);
                    if (is_here && matches!(self.act, Act::Kill | Act::KillThenKillAt(_))) || is_end {
                        self.held.push(arrival);
                        return true;
                    }
                    if is_here {
                        // Before the job is there, there is nothing to press on.
                        pressed = (self.at != BEFORE_THE_JOB).then(|| press(served, token).boxed());
                    }
                    // A Cancel waits behind an open transaction, so that must go on; everything else waits for the answer.
                    if pressed.is_some() && !arrival.in_transaction() && !arrival.of_cancel() {
                        self.held.push(arrival);
                    } else {
                        arrival.go();
                    }
                }
                answer = async { pressed.as_mut().expect("it is asked only then").await }, if pressed.is_some() => {
                    pressed = None;
                    self.answer = answer;
                    if *self.act == Act::CancelThenKill && self.answer.is_some() {
                        return true;
                    }
                    self.held.drain(..).for_each(Arrival::go);
                }
                // A late Cancel is answered too.
                _ = &mut whole, if pressed.is_none() => return false,
            }
        }
    }
}

/// Presses Cancel on the only job, and waits for the answer. `None` where there is none yet.
async fn press(served: &Served, token: &str) -> Option<Value> {
    let id = served.newest_job(token).await?;
    Some(served.cancel(token, &id).await)
}
