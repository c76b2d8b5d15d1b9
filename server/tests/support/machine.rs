//! One of several processes on the same database, as if on a machine of its own: it has its own line to the database, which a
//! test can cut.

use std::time::Duration;

use sqlx::{ConnectOptions, query_scalar};
use store::Place;
use tokio::time::{Instant, sleep};

use super::{
    instance::PATIENCE,
    pages::Pages,
    program::{Home, Ran, Running},
    proxy::Proxy,
    raw::{Raw, on},
};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `recount serve`
    Serve,
    /// `recount serve --no-worker`
    Pages,
    /// `recount worker`
    Worker,
}

/// Such a process.
pub struct Machine {
    pub line: Proxy,
    /// `None` for a worker.
    pages: Option<Pages>,
    role: Role,
    running: Running,
}

impl Machine {
    /// Starts one, and waits until it works.
    pub async fn start(home: &Home, role: Role) -> Self {
        Self::start_with(home, role, &[]).await
    }

    /// Starts one with more variables of the environment.
    pub async fn start_with(home: &Home, role: Role, variables: &[(&str, &str)]) -> Self {
        let Place::Postgres(options) = home.database() else { panic!("machines share a server") };
        let line = Proxy::to(options.get_port()).await;
        Self::on_line(home, role, line, variables).await
    }

    async fn on_line(home: &Home, role: Role, line: Proxy, variables: &[(&str, &str)]) -> Self {
        let (arguments, says): (&[&str], _) = match role {
            Role::Serve => (&["serve", "--listen", "127.0.0.1:0"], "Recount is at "),
            Role::Pages => (&["serve", "--no-worker", "--listen", "127.0.0.1:0"], "Recount is at "),
            Role::Worker => (&["worker"], "Recount works on the jobs of "),
        };
        let Place::Postgres(options) = home.database() else { panic!("machines share a server") };
        let url = options.as_ref().clone().host("127.0.0.1").port(line.port).to_url_lossy();
        let mut command = home.command(arguments);
        command.env("RECOUNT_DATABASE", url.as_str()).envs(variables.iter().copied());
        if role == Role::Worker {
            command.env("RECOUNT__PUBLIC_URL", "http://127.0.0.1:3000");
        }
        let mut running = Running::spawn(&mut command);
        let url = running.says(says).await.rest;
        Self { line, pages: (role != Role::Worker).then(|| Pages::at(url)), role, running }
    }

    /// Its pages; a worker has none.
    pub fn pages(&self) -> Option<&Pages> {
        self.pages.as_ref()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Ends it as a power cut would, and starts it again.
    pub async fn dies_and_comes_back(self, home: &Home) -> Self {
        self.signal("KILL");
        let Self { line, role, running, .. } = self;
        running.ended().await;
        Self::on_line(home, role, line, &[]).await
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stops(self) -> Ran {
        self.signal("TERM");
        // Its line must work until then.
        let Self { line, running, .. } = self;
        let ran = running.ended().await;
        drop(line);
        ran
    }

    /// How many jobs it holds, as the database knows.
    pub async fn held(&self, raw: &mut Raw) -> i64 {
        let mine = format!("{}-%", self.running.id());
        on!(*raw, connection => {
            query_scalar("select count(*) from jobs where lease_owner like $1").bind(mine).fetch_one(connection).await
        })
        .expect("a number")
    }

    /// Stops it (SIGSTOP) at a moment at which it holds a job.
    pub async fn freezes_with_a_job(&self, raw: &mut Raw) {
        self.with_a_job(raw, || self.signal("STOP"), || self.signal("CONT")).await;
    }

    /// Loses its line to the database, without a word, at a moment at which it holds a job.
    pub async fn is_cut_off_with_a_job(&self, raw: &mut Raw) {
        self.with_a_job(raw, || self.line.goes_silent(), || self.line.heals()).await;
    }

    /// Does this to it while it holds a job, and takes it back where the job was gone by then.
    async fn with_a_job(&self, raw: &mut Raw, act: impl Fn(), take_back: impl Fn()) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.held(raw).await > 0 {
                act();
                // What was on its way has arrived by then; from now on it cannot hand the job back any more.
                sleep(Duration::from_millis(100)).await;
                if self.held(raw).await > 0 {
                    return;
                }
                take_back();
            }
            assert!(Instant::now() < deadline, "it never has a job");
            sleep(Duration::from_millis(5)).await;
        }
    }
}
