//! The same promises against a real mail server: exim 4, where it is installed.
//!
//! It runs in the foreground on a free port of this machine, with all its files in a folder of its
//! own, and queues what it takes (`queue_only`), so nothing leaves the test.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use server::mail::{
    channel::{Channel, Delivery, Outgoing, Phase, Retry, Stop},
    smtp::{Smtp, SmtpSettings},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
};
use uuid::Uuid;

use crate::support::mail::{Record, message_with_id, settings};

const EXIM: &str = "/usr/sbin/exim4";

const CONFIGURATION: &str = r"
exim_path = /usr/sbin/exim4
primary_hostname = exim.test
local_interfaces = 127.0.0.1
daemon_smtp_ports = PORT
spool_directory = FOLDER/spool
log_file_path = FOLDER/log/%slog
pid_file_path = FOLDER/pid
log_selector = +msg_id +smtp_connection
queue_only = true
daemon_startup_retries = 0
keep_environment =
never_users =
tls_advertise_hosts =
acl_smtp_rcpt = acl_rcpt
acl_smtp_data = acl_data
begin acl
acl_rcpt:
  deny  local_parts = nobody
        message = 5.1.1 no such user
  defer local_parts = later
        message = 4.2.1 not now
  accept
acl_data:
  defer  condition = ${if match{$recipients}{softdot}}
         message = 4.3.0 try later
  deny   condition = ${if match{$recipients}{harddot}}
         message = 5.7.1 not this
  accept condition = ${if match{$recipients}{slowdot}}
         delay = 10s
  accept condition = ${if match{$recipients}{thinkdot}}
         delay = 1s
  accept
begin routers
all:
  driver = accept
  transport = nowhere
begin transports
nowhere:
  driver = appendfile
  file = /dev/null
";

/// A running exim; ends with its value.
struct Exim {
    daemon: Child,
    folder: TempDir,
    port: u16,
}

impl Drop for Exim {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Exim {
    /// `None` where exim is missing, or where it would not read a configuration of ours: it does
    /// so only for root.
    async fn start() -> Option<Self> {
        let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
        if !root || !Path::new(EXIM).exists() {
            eprintln!("skipped: needs exim4 and root");
            return None;
        }
        // Another program can take the free port first; then exim ends, and the next one is tried.
        for _ in 0..10 {
            if let Some(exim) = Self::try_start().await {
                return Some(exim);
            }
        }
        panic!("exim does not start");
    }

    async fn try_start() -> Option<Self> {
        let folder = TempDir::new().expect("folder");
        // exim drops to its own user, which must get there and write
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
        };
        open(folder.path(), 0o755);
        for name in ["spool", "log"] {
            fs::create_dir(folder.path().join(name)).expect("folder");
            open(&folder.path().join(name), 0o777);
        }
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("port");
            listener.local_addr().expect("bound").port()
        };
        let configuration = folder.path().join("exim.conf");
        let text = CONFIGURATION.replace("FOLDER", &folder.path().display().to_string()).replace("PORT", &port.to_string());
        fs::write(&configuration, text).expect("configuration");
        let daemon = Command::new(EXIM)
            .arg("-bdf")
            .arg("-C")
            .arg(&configuration)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("stderr")).expect("file"))
            .spawn()
            .expect("exim");
        let mut exim = Self { daemon, folder, port };
        loop {
            if exim.daemon.try_wait().expect("a child").is_some() {
                let why = fs::read_to_string(exim.folder.path().join("stderr"));
                eprintln!("exim ended: {why:?} {}", exim.log());
                return None;
            }
            if exim.greets().await {
                return Some(exim);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn greets(&self) -> bool {
        let Ok(tcp) = TcpStream::connect(("127.0.0.1", self.port)).await else {
            return false;
        };
        let mut line = String::new();
        BufReader::new(tcp).read_line(&mut line).await.is_ok() && line.starts_with("220 exim.test")
    }

    fn log(&self) -> String {
        let path: PathBuf = self.folder.path().join("log/mainlog");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Messages that exim took responsibility for.
    fn accepted(&self, message: &Outgoing) -> usize {
        let id = message.message_id.trim_matches(['<', '>']).to_owned();
        let lines = self.log();
        lines.lines().filter(|line| line.contains(" <= ") && line.contains(&id)).count()
    }

    async fn deliver(&self, to: &str, change: impl FnOnce(&mut SmtpSettings)) -> (Outgoing, Delivery) {
        let mut settings = settings(self.port);
        change(&mut settings);
        let smtp = Smtp::new(&settings).expect("settings");
        let message = message_with_id(&format!("<{}@example.org>", Uuid::new_v4().simple()), "hi");
        let message = Outgoing { to: format!("{to}@exim.test").parse().expect("address"), ..message };
        let delivery = smtp.deliver(&message, &Record::allowing(), &Stop::default()).await;
        (message, delivery)
    }
}

#[tokio::test]
async fn a_real_server_and_recount_tell_the_same_story() {
    let Some(exim) = Exim::start().await else {
        return;
    };

    for (to, phase, code, retry) in [
        ("nobody", Phase::RcptTo, "550 ", Retry::NeedsPerson),
        ("later", Phase::RcptTo, "451 ", Retry::Later),
        ("softdot", Phase::FinalDot, "451 ", Retry::Later),
        ("harddot", Phase::FinalDot, "550 ", Retry::NeedsPerson),
    ] {
        let (message, delivery) = exim.deliver(to, |_| {}).await;
        let Delivery::NotAccepted { phase: at, evidence, retry: who } = delivery else {
            panic!("{to}: {delivery:?}");
        };
        assert_eq!((at, who), (phase, retry), "{to}: {evidence}");
        assert!(evidence.starts_with(code), "{to}: {evidence}");
        assert_eq!(exim.accepted(&message), 0, "{}", exim.log());
    }

    // A client that does not wait as long as the server thinks
    let (_, delivery) = exim
        .deliver("slowdot", |s| {
            s.timeouts.final_dot = Duration::from_millis(200);
        })
        .await;
    assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");

    let (message, delivery) = exim.deliver("anna", |_| {}).await;
    let Delivery::Accepted { evidence, .. } = delivery else {
        panic!("{delivery:?}\n{}", exim.log());
    };
    assert!(evidence.starts_with("250 OK id="), "{evidence}");
    assert_eq!(exim.accepted(&message), 1, "{}", exim.log());

    let (message, delivery) = exim.deliver("thinkdot", |_| {}).await;
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    assert_eq!(exim.accepted(&message), 1, "{}", exim.log());
}
