//! exim 4, where it is installed: a real mail server for the tests.
//!
//! It runs in the foreground on a free port of this machine, with all its files in a folder of its own.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use mail::channel::Outgoing;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
};

const EXIM: &str = "/usr/sbin/exim4";

/// What every configuration begins with.
const MAIN: &str = r"
exim_path = /usr/sbin/exim4
primary_hostname = exim.test
local_interfaces = 127.0.0.1
daemon_smtp_ports = PORT
spool_directory = FOLDER/spool
log_file_path = FOLDER/log/%slog
pid_file_path = FOLDER/pid
daemon_startup_retries = 0
keep_environment =
never_users =
tls_advertise_hosts =
";

/// Whether the tests run as root.
pub fn root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("port");
    listener.local_addr().expect("bound").port()
}

/// Whether the greeting of a server at that port has these words.
pub async fn greets(port: u16, greeting: &str) -> bool {
    let Ok(tcp) = TcpStream::connect(("127.0.0.1", port)).await else {
        return false;
    };
    let mut line = String::new();
    BufReader::new(tcp).read_line(&mut line).await.is_ok() && line.contains(greeting)
}

/// Lets everybody in, and with `0o777` write: the servers drop to users of their own.
pub fn open(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

/// A running exim; ends with its value.
pub struct Exim {
    daemon: Child,
    folder: TempDir,
    pub port: u16,
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
    /// so only for root. In `configuration`, `FOLDER` stands for the folder.
    pub async fn start(configuration: &str) -> Option<Self> {
        if !root() || !Path::new(EXIM).exists() {
            eprintln!("skipped: needs exim4 and root");
            return None;
        }
        // Another program can take the free port first; then exim ends, and the next one is tried.
        for _ in 0..10 {
            if let Some(exim) = Self::try_start(configuration).await {
                return Some(exim);
            }
        }
        panic!("exim does not start");
    }

    async fn try_start(configuration: &str) -> Option<Self> {
        let folder = TempDir::new().expect("folder");
        open(folder.path(), 0o755);
        for name in ["spool", "log", "mail"] {
            fs::create_dir(folder.path().join(name)).expect("folder");
            open(&folder.path().join(name), 0o777);
        }
        let port = free_port();
        let path = folder.path().join("exim.conf");
        let text = format!("{MAIN}{configuration}");
        let text = text.replace("FOLDER", &folder.path().display().to_string()).replace("PORT", &port.to_string());
        fs::write(&path, text).expect("configuration");
        let daemon = Command::new(EXIM)
            .arg("-bdf")
            .arg("-C")
            .arg(&path)
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
            if greets(port, "220 exim.test").await {
                return Some(exim);
            }
            // It says nothing when it is ready; asking all the time would keep it from getting there.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Where the messages are that it delivered.
    pub fn mail(&self) -> PathBuf {
        self.folder.path().join("mail")
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("log/mainlog")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Messages that exim took responsibility for.
    pub fn accepted(&self, message: &Outgoing) -> usize {
        let id = message.message_id.trim_matches(['<', '>']).to_owned();
        let lines = self.log();
        lines.lines().filter(|line| line.contains(" <= ") && line.contains(&id)).count()
    }
}
