//! `recount mcp`, and a client at its standard streams that keeps every line.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio as Pipe},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Duration, Instant, timeout},
};

use super::{Declared, call, request};
use crate::support::{instance::PATIENCE, program::Home};

/// How often something is asked that nobody announces.
const LOOK: Duration = Duration::from_millis(50);

/// The program, and what it has said.
pub struct Stdio {
    child: Child,
    input: Option<ChildStdin>,
    seen: watch::Receiver<Vec<Value>>,
    log: Arc<Mutex<Vec<String>>>,
    last: u64,
}

impl Stdio {
    /// For this person.
    pub fn start(home: &Home, email: &str) -> Self {
        Self::spawn(&mut home.command(&["mcp", "--user", email]))
    }

    pub fn spawn(command: &mut Command) -> Self {
        let command = command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
        let mut child = command.spawn().expect("the program starts");
        let (sender, seen) = watch::channel(Vec::new());
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nothing else may ever stand there.
                let message =
                    serde_json::from_str(&line).unwrap_or_else(|error| json!({"no message": line, "why": error.to_string()}));
                sender.send_modify(|seen: &mut Vec<Value>| seen.push(message));
            }
        });
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (errors, kept) = (BufReader::new(child.stderr.take().expect("a pipe")), log.clone());
        let id = child.id();
        thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                eprintln!("recount mcp {id}: {line}");
                kept.lock().expect("no test panics while holding it").push(line);
            }
        });
        Self { input: child.stdin.take(), child, seen, log, last: 0 }
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().expect("no test panics while holding it").clone()
    }

    /// Writes one line.
    pub fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{message}").expect("it reads");
        input.flush().expect("it reads");
    }

    /// A number for the next request.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Sends a request without waiting for its answer; returns its id.
    pub fn send(&mut self, method: &str, params: Value, declared: Declared) -> u64 {
        let id = self.number();
        self.write(&request(id, method, params, declared));
        id
    }

    /// Calls a tool without waiting for its answer.
    pub fn begin(&mut self, tool: &str, arguments: &Value, declared: Declared) -> u64 {
        let id = self.number();
        self.write(&call(id, tool, arguments, declared));
        id
    }

    /// Takes a request back.
    pub fn cancel(&mut self, id: impl Into<Value>) {
        self.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into(), "reason": "test"}}),
        );
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, method: &str, params: Value, declared: Declared) -> Value {
        let id = self.send(method, params, declared);
        self.answer(id).await
    }

    /// Calls a tool and waits for its result.
    pub async fn tool(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments, Declared::default());
        let answer = self.answer(id).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Waits for the answer to a request.
    pub async fn answer(&self, id: u64) -> Value {
        self.until("an answer", |seen| answers(seen, id).next().cloned()).await
    }

    /// Waits for a progress with a sentence that begins so.
    pub async fn progress(&self, beginning: &str) -> Value {
        let told = |message: &&Value| {
            message["method"] == "notifications/progress"
                && message["params"]["message"].as_str().is_some_and(|text| text.starts_with(beginning))
        };
        self.until("a progress", |seen| seen.iter().find(told).cloned()).await
    }

    async fn until(&self, what: &str, test: impl Fn(&[Value]) -> Option<Value>) -> Value {
        let mut seen = self.seen.clone();
        let found = timeout(PATIENCE, async {
            loop {
                if let Some(found) = test(&seen.borrow_and_update()) {
                    return found;
                }
                seen.changed().await.unwrap_or_else(|_| panic!("it ended before {what}: {:?}", self.log()));
            }
        });
        found.await.unwrap_or_else(|_| panic!("waited in vain for {what}: {:?}", *self.seen.borrow()))
    }

    /// Everything that it has sent so far.
    pub fn seen(&self) -> Vec<Value> {
        self.seen.borrow().clone()
    }

    /// Asks where a report stands until it has ended.
    pub async fn end_of(&mut self, job: &str) -> Value {
        self.status(job, |status| status["is_final"] == true).await
    }

    /// Asks where a report stands until that passes a test.
    pub async fn status(&mut self, job: &str, test: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.tool("get_report_status", &json!({"job_id": job})).await["structuredContent"].clone();
            if test(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "waited in vain: {status}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the list has a report: the newest one.
    pub async fn newest(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listed = self.tool("list_reports", &json!({})).await;
            if let Some(id) = listed["structuredContent"]["reports"][0]["job_id"].as_str() {
                return id.to_owned();
            }
            assert!(Instant::now() < deadline, "there is no report: {listed}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Closes its input, as a client that leaves does.
    pub fn leave(&mut self) {
        self.input = None;
    }

    /// Sends it a signal by its name.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    }

    /// Waits until it has ended: its exit code, what it has sent, and how long it took.
    pub async fn ended(mut self) -> (Option<i32>, Vec<Value>, Duration) {
        let (since, mut seen) = (Instant::now(), self.seen.clone());
        // The end of its output, which comes with its own.
        let closed = timeout(PATIENCE, async { while seen.changed().await.is_ok() {} });
        closed.await.expect("the program ends");
        let child = spawn_blocking(move || {
            let status = self.child.wait().expect("it is ours");
            (status.code(), self)
        });
        let (code, this) = child.await.expect("no panic");
        (code, this.seen(), since.elapsed())
    }
}

/// The answers to a request.
pub fn answers(seen: &[Value], id: u64) -> impl Iterator<Item = &Value> {
    seen.iter().filter(move |message| message["id"] == id && message.get("method").is_none())
}

impl Drop for Stdio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
