//! A PostgreSQL server of a test's own, which it may stop, kill, and replace by a standby.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sqlx::{Connection, PgConnection, query_scalar, raw_sql};
use store::Place;
use tempfile::TempDir;

use super::instance::PATIENCE;

/// As in `with-postgres.sh`, but commits wait for the standby, where there is one. A crash of the machine is not tested, so
/// that nothing waits for the disk.
const SETTINGS: &str = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 200\nfsync = off\n\
     synchronous_commit = on\nwal_level = replica\nautovacuum = off\nlog_min_messages = error\n";

/// Below those that systems give to outgoing connections: while the server is down, such a one must not get its port.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Such a server; it is stopped and deleted when the test ends.
pub struct Cluster {
    programs: PathBuf,
    folder: TempDir,
    pub port: u16,
}

/// Whether tests are to use PostgreSQL.
fn is_on_postgres() -> bool {
    std::env::var_os("RECOUNT_TEST_POSTGRES").is_some()
}

/// The database that tests run on.
pub fn engine() -> &'static str {
    if is_on_postgres() { "PostgreSQL" } else { "SQLite" }
}

/// Says on the real standard error that something is not tested here, and why.
fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED, {why}: {test}");
}

/// Whether a test cannot run because tests are not to use PostgreSQL; says so then.
pub fn skips(test: &str) -> bool {
    if !is_on_postgres() {
        skip(test, "it needs PostgreSQL (tests/with-postgres.sh)");
    }
    !is_on_postgres()
}

impl Cluster {
    /// Starts a new one; `None` where tests are not to use PostgreSQL, said loudly.
    pub fn start(test: &str) -> Option<Self> {
        if skips(test) {
            return None;
        }
        let Some(programs) = programs() else {
            skip(test, "PostgreSQL's programs are not on this machine");
            return None;
        };
        let cluster = Self::make(programs, |cluster| {
            let data = cluster.data();
            cluster.run("initdb", &["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D", &data]);
            let settings = cluster.folder.path().join("data/postgresql.conf");
            fs::OpenOptions::new().append(true).open(settings).and_then(|mut file| file.write_all(SETTINGS.as_bytes()))
        });
        Some(cluster)
    }

    /// A copy of this one that follows it.
    pub fn standby(&self) -> Self {
        Self::make(self.programs.clone(), |standby| {
            let (port, data) = (self.port.to_string(), standby.data());
            let source = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-D", &data];
            standby.run("pg_basebackup", &[&source[..], &["-R", "-X", "stream", "-c", "fast", "--no-sync"]].concat());
            Ok(())
        })
    }

    fn make(programs: PathBuf, fill: impl FnOnce(&Self) -> std::io::Result<()>) -> Self {
        let folder = TempDir::new().expect("a folder for the server");
        if is_root() {
            let owner = Command::new("chown").arg("postgres").arg(folder.path()).status().expect("chown");
            assert!(owner.success(), "PostgreSQL refuses root and needs the user postgres");
        }
        let mut cluster = Self { programs, folder, port: 0 };
        fill(&cluster).expect("the server's folder can be written");
        let started = (0..5).any(|_| {
            cluster.port = rand::random_range(PORTS);
            cluster.try_start()
        });
        assert!(started, "PostgreSQL does not start: {}", cluster.log());
        cluster
    }

    fn data(&self) -> String {
        path(&self.folder.path().join("data")).to_owned()
    }

    /// What the server and the programs have said.
    fn log(&self) -> String {
        let files = ["log", "said"].map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default());
        files.concat()
    }

    fn try_start(&self) -> bool {
        let (port, log) = (format!("-p {}", self.port), self.folder.path().join("log"));
        self.command("pg_ctl", &["-D", &self.data(), "-o", &port, "-w", "-l", path(&log), "start"])
    }

    /// Starts it again where it was.
    pub fn start_again(&self) {
        assert!(self.try_start(), "PostgreSQL does not start again: {}", self.log());
    }

    /// Stops it as an administrator does: `fast` breaks connections off, `immediate` does not even write down what it has.
    pub fn stop(&self, mode: &str) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", mode, "-w", "stop"]);
    }

    /// Kills every process of it at once, as if the machine had lost its power.
    pub fn kill(&self) {
        let lock = self.folder.path().join("data/postmaster.pid");
        let file = fs::read_to_string(&lock).expect("it runs");
        let first = file.lines().next().expect("its id");
        // It would start new processes for the dead ones, so it stands still meanwhile. The dead may have to wait for somebody
        // who buries them.
        let kill = format!(
            "kill -STOP {first}; all=\"$(echo $(ps -o pid= --ppid {first}) {first})\"; kill -KILL $all; \
             while ps -o stat= -p \"$all\" | grep -qv ^Z; do sleep 0.01; done"
        );
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
        fs::remove_file(lock).expect("nobody runs there any more");
    }

    /// Makes a standby a server that can be written to.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
    }

    /// From now on no commit is answered before the standby has it.
    pub async fn waits_for_its_standby(&self) {
        let mut connection = self.connection("postgres").await;
        let set = "alter system set synchronous_standby_names = '*'";
        raw_sql(set).execute(&mut connection).await.expect("an administrator's connection");
        raw_sql("select pg_reload_conf()").execute(&mut connection).await.expect("an administrator's connection");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let count = query_scalar("select count(*) from pg_stat_replication where sync_state = 'sync'");
            let count: i64 = count.fetch_one(&mut connection).await.expect("a number");
            if count > 0 {
                return;
            }
            assert!(Instant::now() < deadline, "no standby follows");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A new, empty database.
    pub async fn database(&self) -> Place {
        let create = raw_sql("create database office");
        create.execute(&mut self.connection("postgres").await).await.expect("a new server");
        self.place()
    }

    /// The database that [`Cluster::database`] has made, here or on the server that this one is a copy of.
    pub fn place(&self) -> Place {
        self.url("office").parse().expect("a URL")
    }

    async fn connection(&self, database: &str) -> PgConnection {
        PgConnection::connect(&self.url(database)).await.expect("the server runs")
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        assert!(self.command(program, arguments), "{program} {arguments:?} failed; the server's log: {}", self.log());
    }

    fn command(&self, program: &str, arguments: &[&str]) -> bool {
        let program = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        // A server must not hold the test's own output open.
        let said = fs::OpenOptions::new().append(true).create(true).open(self.folder.path().join("said")).expect("a file");
        command.args(arguments).current_dir(self.folder.path()).stdout(Stdio::null()).stderr(said);
        command.status().expect("PostgreSQL's programs run").success()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.command("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The folder of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output();
    let asked = output.ok().map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let installed =
        fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    asked.into_iter().chain(installed).find(|folder| folder.join("initdb").is_file())
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
