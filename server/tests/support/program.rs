//! The real program, with a data folder of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use sqlx::ConnectOptions;
use store::Place;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use super::{instance::PATIENCE, pages::Pages};
use store::testing::Database;

/// The name of the data folder.
const DATA: &str = "data";

/// The arguments of a server on a port of its own.
pub const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];

/// A data folder, and a folder of documents beside it.
pub struct Home {
    database: Database,
    folder: TempDir,
}

impl Home {
    /// With two documents of June 2026.
    pub fn new() -> Self {
        let folder = TempDir::new().expect("a folder for the test");
        Self::of(Database::new(&folder.path().join(DATA)), folder)
    }

    fn of(database: Database, folder: TempDir) -> Self {
        let home = Self { database, folder };
        fs::create_dir_all(home.data()).expect("a data folder");
        fs::create_dir_all(home.documents()).expect("a folder for documents");
        for (name, text) in [
            ("2026-06-03-meeting.md", "# Meeting\n\nThe council approved 140,000 dollars for the library.\n"),
            ("2026-06-17-review.md", "# Review\n\nThe library stays open until ten in the evening from July on.\n"),
        ] {
            fs::write(home.documents().join(name), text).expect("a document");
        }
        home
    }

    /// On a database that belongs to a test's own server.
    pub fn on(place: Place) -> Self {
        Self::of(Database { place, server: None }, TempDir::new().expect("a folder for the test"))
    }

    /// With the people of another one, who may have used it but do so no longer.
    pub fn with_people_of(other: &Self) -> Self {
        let folder = TempDir::new().expect("a folder for the test");
        let database = match &other.database.server {
            Some((server, name)) => Database::copied(server.clone(), name),
            // Its file is copied with the others.
            None => Database::new(&folder.path().join(DATA)),
        };
        let home = Self::of(database, folder);
        for entry in fs::read_dir(other.data()).expect("a data folder") {
            let entry = entry.expect("an entry");
            if entry.path().is_file() {
                fs::copy(entry.path(), home.data().join(entry.file_name())).expect("a copy");
            }
        }
        home
    }

    /// Whose messages go to a mail server on this port. Workers there are given up soon.
    pub fn with_smtp(port: u16) -> Self {
        let home = Self::new();
        home.mails_through(port, "lease_seconds = 3\ngrace_seconds = 1\n");
        home
    }

    /// Sends messages to a mail server on this port; `worker` are settings of the worker.
    pub fn mails_through(&self, port: u16, worker: &str) {
        self.settings(&format!(
            "[[sources]]\nname = \"Minutes\"\npath = \"{}\"\n[worker]\n{worker}[mail]\nchannel = \"smtp\"\n\
             [mail.smtp]\nhost = \"127.0.0.1\"\nport = {port}\nsecurity = \"plain\"\nfrom = \"Recount <r@example.org>\"\n",
            self.documents().display()
        ));
    }

    pub fn settings(&self, text: &str) {
        fs::write(self.data().join("recount.toml"), text).expect("settings");
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join(DATA)
    }

    /// The same with an empty database in a file, whatever database the others of this run have.
    pub fn on_file(mut self) -> Self {
        self.database = Database::file(&self.data());
        self
    }

    /// The database's file, where it is one.
    pub fn file(&self) -> PathBuf {
        self.data().join("recount.sqlite3")
    }

    pub fn database(&self) -> &Place {
        &self.database.place
    }

    pub fn documents(&self) -> PathBuf {
        self.folder.path().join("documents")
    }

    /// How many messages are in the outbox folder.
    pub fn messages(&self) -> usize {
        self.outbox().len()
    }

    /// The messages in the outbox folder.
    pub fn outbox(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.data().join("outbox")) else { return Vec::new() };
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let messages = paths.filter(|path| path.extension().is_some_and(|end| end == "eml"));
        messages.map(|path| fs::read_to_string(path).expect("a message")).collect()
    }

    /// The program with these arguments, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_recount"));
        command.args(arguments).env("RECOUNT_DATA", self.data()).current_dir(self.folder.path());
        if let Place::Postgres(options) = self.database() {
            command.env("RECOUNT_DATABASE", options.to_url_lossy().as_str());
        }
        command
    }

    /// Runs a command to its end.
    pub async fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, "").await
    }

    /// Runs a command to its end, with this on its standard input.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(arguments);
        let input = input.to_owned();
        spawn_blocking(move || {
            let mut child =
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
            child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
            Ran::from(child.wait_with_output().expect("it ends"))
        })
        .await
        .expect("no panic")
    }

    /// Starts a command and leaves it running.
    pub fn start(&self, arguments: &[&str]) -> Running {
        Running::spawn(&mut self.command(arguments))
    }

    /// Starts the server and waits until it says where it is.
    pub async fn serve(&self, more: &[&str]) -> Served {
        Served::start(self.command(SERVE).args(more)).await
    }

    /// Starts the server with its fail points announced at this socket.
    pub async fn serve_held(&self, socket: &Path) -> Served {
        Served::start(self.command(SERVE).env("RECOUNT_FAIL_POINTS", socket)).await
    }

    /// A token for somebody who has just been added.
    pub async fn token(&self, email: &str) -> String {
        self.run_with_input(&["user", "add", "--email", email, "--role", "user"], "correct horse battery\n").await.succeeded();
        self.run(&["token", "create", "--email", email]).await.succeeded().trim().to_owned()
    }
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl Ran {
    /// What it printed; it must have succeeded.
    pub fn succeeded(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.out
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// What a command prints.
pub struct Said {
    /// The rest of the line that was waited for.
    pub rest: String,
    /// The lines that follow.
    pub lines: Receiver<String>,
    /// What it has logged so far.
    pub log: Arc<Mutex<Vec<String>>>,
}

/// A command that runs; it is killed when the test ends.
pub struct Running {
    child: Child,
}

impl Running {
    pub fn spawn(command: &mut Command) -> Self {
        Self::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Like [`Running::spawn`], with the output that the command says.
    pub fn of(command: &mut Command) -> Self {
        Self { child: command.spawn().expect("the program starts") }
    }

    /// The lines that it writes to standard error from now on.
    pub fn notes(&mut self) -> Receiver<String> {
        lines(self.child.stderr.take().expect("a pipe"))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints a line that begins like this. A full pipe would stop it, so its log is read all the time.
    pub async fn says(&mut self, beginning: &'static str) -> Said {
        let lines = lines(self.child.stdout.take().expect("a pipe"));
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (id, kept) = (self.id(), log.clone());
        lines_of(self.child.stderr.take().expect("a pipe"), move |line| {
            eprintln!("recount {id}: {line}");
            kept.lock().expect("no test panics while holding it").push(line);
        });
        spawn_blocking(move || {
            let first = lines.recv_timeout(PATIENCE).expect("the program says what it does");
            let rest = first.strip_prefix(beginning).unwrap_or_else(|| panic!("{first}")).to_owned();
            Said { rest, lines, log }
        })
        .await
        .expect("no panic")
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    }

    /// Waits until it has ended.
    pub async fn ended(mut self) -> Ran {
        spawn_blocking(move || {
            let status = wait(&mut self.child);
            let (mut out, mut err) = (String::new(), String::new());
            if let Some(mut pipe) = self.child.stdout.take() {
                pipe.read_to_string(&mut out).expect("UTF-8");
            }
            if let Some(mut pipe) = self.child.stderr.take() {
                pipe.read_to_string(&mut err).expect("UTF-8");
            }
            Ran { code: status.code(), out, err }
        })
        .await
        .expect("no panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status;
        }
        assert!(Instant::now() < deadline, "the program does not end");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A server that runs.
pub struct Served {
    pages: Pages,
    lines: Mutex<Receiver<String>>,
    log: Arc<Mutex<Vec<String>>>,
    running: Running,
}

impl Deref for Served {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.pages
    }
}

impl Served {
    /// Starts a command that serves, and waits until it says where it is.
    pub async fn start(command: &mut Command) -> Self {
        Self::of(Running::spawn(command)).await
    }

    async fn of(mut running: Running) -> Self {
        let Said { rest, lines, log } = running.says("Recount is at ").await;
        Self { pages: Pages::at(rest), lines: Mutex::new(lines), log, running }
    }

    /// Asks it where it listens from now on, and no more where its settings say that it is.
    pub async fn directly(mut self) -> Self {
        let deadline = Instant::now() + PATIENCE;
        let address = loop {
            let listening = |line: &String| line.split_once("listening on ").map(|(_, address)| address.trim().to_owned());
            if let Some(address) = self.log().iter().find_map(listening) {
                break address;
            }
            assert!(Instant::now() < deadline, "it does not say where it listens");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        self.pages = Pages::at(format!("http://{address}"));
        self
    }

    /// The next line that it prints.
    pub fn line(&self) -> String {
        self.lines.lock().expect("no test panics while holding it").recv_timeout(PATIENCE).expect("another line")
    }

    /// What it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("no test panics while holding it").clone()
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.running.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        self.running.signal(name);
    }

    /// Asks it to stop; it must do so, and without a complaint.
    pub async fn terminate(self) {
        self.signal("TERM");
        self.stopped().await;
    }

    /// Waits until it has stopped, without a complaint.
    pub async fn stopped(self) {
        assert_eq!(self.running.ended().await.code, Some(0));
    }

    /// Ends it as a power cut would.
    pub async fn kill(mut self) {
        self.running.child.kill().expect("it is ours");
        assert_eq!(self.running.ended().await.code, None);
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    lines_of(pipe, move |line| {
        let _ = sender.send(line);
    });
    receiver
}

fn lines_of(pipe: impl Read + Send + 'static, each: impl Fn(String) + Send + 'static) {
    thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).for_each(each));
}

/// A path as an argument.
pub fn argument(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
