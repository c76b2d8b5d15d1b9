//! Measures what people feel, on the real store, worker and router: `make bench` prints the table of `docs/benchmarks.md`.
//!
//! Times are taken from outside: from the call to the moment at which its effect can be read from the database.

use axum::{Router, body::Body, http::Request};
use documents::mcp::Servers;
use domain::{
    clock::{Clock, SystemClock},
    hold::Hold,
    id::{JobId, RequestKey, UserId},
    people::{EmailAddress, Role, password::PasswordHash},
    place::Folder,
    spec::{SourceSpec, Spec, Task},
};
use mail::outbox::Outbox;
use server::{
    http::{AppState, PeopleState, router},
    service::{Service, first_admin::FirstAdmin},
    settings::Settings,
    worker::{Dependencies, FILE_PAUSES, MAIL_PAUSES, Worker, WorkerOptions},
};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use store::{NewUser, Place, Record, Store, notifications::changed};
use summarize::{ModelSettings, Provider, SummarizerChoice};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const ROUNDS: usize = 200;
const IDLE: Duration = Duration::from_secs(20);

struct Office {
    store: Store,
    dependencies: Arc<Dependencies>,
    owner: UserId,
    cookie: String,
    documents: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!("| what | p50 | p95 | goal (p95) |\n|---|---|---|---|");
    runtime.block_on(async {
        start_latency().await;
        cancel_latency().await;
        page_time().await;
    });
    println!();
    idle_server();
    site_size();
}

async fn office(summarizer: SummarizerChoice) -> Office {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::open(&Place::Sqlite(dir.path().join("bench.sqlite3")), Arc::new(SystemClock), "bench.test")
        .await
        .expect("a store");
    let email = EmailAddress::parse("bench@example.org").expect("an address");
    let made = store.create_user(&email, Role::User, &PasswordHash::unusable(), chrono_tz::UTC).await.expect("a user");
    let NewUser::Created(owner) = made else { panic!("the store is new") };
    let secret = store.create_session(owner, "bench", None).await.expect("a session");
    let documents = dir.path().join("documents");
    fs::create_dir(&documents).expect("a folder");
    for day in 1..=9 {
        let text = format!(
            "# Meeting {day}\n\nThe team agreed on {day} changes to the plan for the garden. The costs are {day}00 euros.\n"
        );
        fs::write(documents.join(format!("2026-06-0{day}-meeting.md")), text).expect("a document");
    }
    let dependencies = Arc::new(Dependencies {
        store: store.clone(),
        summarizer,
        channel: Arc::new(Outbox::open(dir.path().join("outbox")).expect("an outbox")),
        sender: "Recount <recount@bench.test>".parse().expect("an address"),
        public_url: "http://127.0.0.1".into(),
        limits: Settings::default().limits(),
        probes: Arc::default(),
        mail_pauses: MAIL_PAUSES,
        file_pauses: FILE_PAUSES,
        servers: Servers::default(),
    });
    Office { store, dependencies, owner, cookie: format!("session={}", secret.expose()), documents, _dir: dir }
}

impl Office {
    async fn order(&self) -> JobId {
        let spec = Spec {
            title: "Bench".into(),
            month: "2026-06".parse().expect("a month"),
            start: "2026-06-01T00:00:00Z".parse().expect("an instant"),
            end: "2026-07-01T00:00:00Z".parse().expect("an instant"),
            zone: "UTC".into(),
            sources: vec![SourceSpec {
                id: "docs".into(),
                name: "Docs".into(),
                place: domain::place::Place::whole(Folder { name: "Docs".into(), root: self.documents.clone() }).into(),
            }],
            recipients: vec!["anna@example.org".into()],
            instructions: None,
            hold: Hold::None,
            task: Task::Report,
        };
        self.store.create_job(self.owner, RequestKey::new(), &spec).await.expect("a job").0
    }

    fn work(&self) -> CancellationToken {
        let stop = CancellationToken::new();
        tokio::spawn(Worker::new(self.dependencies.clone(), WorkerOptions::default()).run(stop.clone()));
        stop
    }

    async fn wait(&self, id: JobId, until: impl Fn(&Record) -> bool) {
        let mut notifications = self.store.notifications().subscribe();
        loop {
            let record = self.store.job(id).await.expect("the store").expect("the job");
            if until(&record) {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), changed(&mut notifications, id)).await;
        }
    }
}

fn line(what: &str, mut times: Vec<Duration>, goal: &str) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("| {what} | {:.1} ms | {:.1} ms | {goal} |", at(50), at(95));
}

async fn start_latency() {
    let office = office(SummarizerChoice::BuiltIn).await;
    let stop = office.work();
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let id = office.order().await;
        office.wait(id, |record| record.row.started_at.is_some()).await;
        starts.push(begun.elapsed());
        office.wait(id, |record| record.job.phase.is_final()).await;
        ends.push(begun.elapsed());
    }
    stop.cancel();
    line("create → first step started", starts, "≤ 50 ms");
    line("create → report saved and e-mail accepted (9 small documents, built-in summarizer, outbox)", ends, "–");
}

/// A model that accepts a request and never answers.
async fn silent_model() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0_u8; 4096];
                let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
                if socket.read(&mut buffer).await.is_ok() && socket.write_all(head).await.is_ok() {
                    while socket.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
                }
            });
        }
    });
    format!("http://{address}/v1/")
}

async fn cancel_latency() {
    let mut model = ModelSettings::new(Provider::OpenAiCompatible, "silent");
    model.base_url = Some(silent_model().await);
    let office = office(SummarizerChoice::Model(model)).await;
    let stop = office.work();
    let (mut recorded, mut told) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let id = office.order().await;
        office.wait(id, |record| record.job.effects.iter().any(|effect| effect.outcome.is_open())).await;
        let begun = Instant::now();
        office.store.cancel_job(id, "bench").await.expect("the store");
        recorded.push(begun.elapsed());
        office.wait(id, |record| record.job.phase.is_final()).await;
        told.push(begun.elapsed());
    }
    stop.cancel();
    line("Cancel → recorded", recorded, "≤ 30 ms");
    line("Cancel → worker told, stream closed, job accounted for", told, "≤ 100 ms");
}

async fn page_time() {
    let office = office(SummarizerChoice::BuiltIn).await;
    let stop = office.work();
    let id = office.order().await;
    office.wait(id, |record| record.job.phase.is_final()).await;
    stop.cancel();
    let people = PeopleState {
        store: office.store.clone(),
        first_admin: Arc::new(FirstAdmin::at_start(&office.store).await.expect("the store")),
        secure: false,
    };
    let service = Service::new(office.dependencies.clone(), Arc::default());
    let app = router(AppState::new(service, people, stop), "http://127.0.0.1").expect("a router");
    for (what, path, goal) in [
        ("job page, server time", format!("/jobs/{id}"), "≤ 20 ms"),
        ("new report page, server time", "/".to_owned(), "–"),
        ("jobs page, server time", "/jobs".to_owned(), "–"),
    ] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            get(&app, &path, &office.cookie).await;
            times.push(begun.elapsed());
        }
        line(what, times, goal);
    }
}

async fn get(app: &Router, path: &str, cookie: &str) {
    let request = Request::get(path).header("cookie", cookie).header("host", "127.0.0.1").body(Body::empty()).expect("a request");
    let response = app.clone().oneshot(request).await.expect("an answer");
    assert_eq!(response.status(), 200, "{path}");
    axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("a body");
}

/// Memory and processor time of the released program while nothing happens.
fn idle_server() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/recount");
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Command::new(program)
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("target/release/recount; make bench builds it");
    std::thread::sleep(Duration::from_secs(3));
    let before = ticks(server.id());
    std::thread::sleep(IDLE);
    let used = ticks(server.id()) - before;
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("a running server");
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("unknown").trim().to_owned();
    let _ = server.kill();
    let _ = server.wait();
    println!(
        "Idle server: {memory} of memory (goal: ≤ 80 MB), {used} ticks of 10 ms in {} s of processor time (goal: about 0).",
        IDLE.as_secs()
    );
}

/// User and system time of a process, in clock ticks (proc(5)).
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a running server");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    [11, 12].into_iter().filter_map(|index| fields.get(index)?.parse::<u64>().ok()).sum()
}

fn site_size() {
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/site/pkg");
    for name in ["app_bg.wasm.br", "app.js.br", "app.css.br"] {
        let bytes = fs::metadata(site.join(name)).map(|file| file.len()).unwrap_or_default();
        println!("{name}: {bytes} bytes");
    }
    println!("Goal for app_bg.wasm.br: ≤ 350,000 bytes. Clock of the run: {}", SystemClock.now().format("%Y-%m-%d"));
}
