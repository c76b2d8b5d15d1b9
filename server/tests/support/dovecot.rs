//! Dovecot, where it is installed: a real IMAP server over the mail that exim delivered.
//!
//! It runs in the foreground on free ports of this machine, with all its files in a folder of its own. Everybody's password
//! is [`PASSWORD`].

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use mail::{probe::MailboxSettings, smtp::Security};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use secrecy::SecretString;
use tempfile::TempDir;

use super::exim::{free_port, greets, open, root};

const DOVECOT: &str = "/usr/sbin/dovecot";

pub const PASSWORD: &str = r#"correct "horse\"#;

const CONFIGURATION: &str = r"
base_dir = FOLDER/run
state_dir = FOLDER/state
log_path = FOLDER/log
protocols = imap
login_greeting = FOLDER
listen = 127.0.0.1
ssl = yes
ssl_cert = <FOLDER/leaf.pem
ssl_key = <FOLDER/key.pem
auth_mechanisms = plain
first_valid_uid = 1
mail_location = maildir:MAIL/%u
passdb {
  driver = passwd-file
  args = scheme=plain FOLDER/users
}
userdb {
  driver = static
  args = uid=Debian-exim gid=Debian-exim home=MAIL/%u
}
service imap-login {
  inet_listener imap {
    port = CLEAR
  }
  inet_listener imaps {
    port = ENCRYPTED
  }
}
";

/// A running Dovecot; ends with its value.
pub struct Dovecot {
    daemon: Child,
    folder: TempDir,
    clear: u16,
    encrypted: u16,
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        // Asked, so that it takes its children along; fails only if it has ended already.
        let _ = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.daemon.id())]).status();
        let _ = self.daemon.wait();
    }
}

impl Dovecot {
    /// Serves the mailboxes of `users` below `mail`. `None` where it is missing or cannot change to other users.
    pub async fn start(mail: &Path, users: &[&str]) -> Option<Self> {
        if !root() || !Path::new(DOVECOT).exists() {
            eprintln!("skipped: needs dovecot-imapd and root");
            return None;
        }
        // Another program can take a free port first; then Dovecot ends, and the next ones are tried.
        for _ in 0..10 {
            if let Some(dovecot) = Self::try_start(mail, users).await {
                return Some(dovecot);
            }
        }
        panic!("Dovecot does not start");
    }

    async fn try_start(mail: &Path, users: &[&str]) -> Option<Self> {
        let folder = TempDir::new().expect("folder");
        open(folder.path(), 0o755);
        certificates(folder.path());
        let users: Vec<String> = users.iter().map(|user| format!("{user}:{PASSWORD}")).collect();
        fs::write(folder.path().join("users"), users.join("\n")).expect("users");
        let (clear, encrypted) = (free_port(), free_port());
        let text = CONFIGURATION
            .replace("FOLDER", &folder.path().display().to_string())
            .replace("MAIL", &mail.display().to_string())
            .replace("CLEAR", &clear.to_string())
            .replace("ENCRYPTED", &encrypted.to_string());
        let configuration = folder.path().join("dovecot.conf");
        fs::write(&configuration, text).expect("configuration");
        let daemon = Command::new(DOVECOT)
            .arg("-F")
            .arg("-c")
            .arg(&configuration)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("stderr")).expect("file"))
            .spawn()
            .expect("Dovecot");
        let mut dovecot = Self { daemon, folder, clear, encrypted };
        loop {
            if dovecot.daemon.try_wait().expect("a child").is_some() {
                eprintln!("Dovecot ended: {}", dovecot.log());
                return None;
            }
            // Its own folder, so that it is not mistaken for one that took the port first.
            if greets(clear, &dovecot.folder.path().display().to_string()).await {
                return Some(dovecot);
            }
            // It says nothing when it is ready; asking all the time would keep it from getting there.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// What it says about itself.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        read("log") + &read("stderr")
    }

    /// The certificate to trust.
    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// How to reach a mailbox.
    pub fn mailbox(&self, user: &str, security: Security) -> MailboxSettings {
        MailboxSettings {
            host: "localhost".into(),
            port: Some(if security == Security::Tls { self.encrypted } else { self.clear }),
            security,
            username: user.into(),
            password: SecretString::from(PASSWORD),
            folder: "INBOX".into(),
            extra_ca_file: Some(self.ca()),
            idle_seconds: 30,
            max_seconds: 60,
        }
    }
}

/// A CA, and a leaf for `localhost` apart from it.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("key")).expect("CA");
    let key = KeyPair::generate().expect("key");
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters").signed_by(&key, &ca).expect("leaf");
    for (name, text) in [("ca.pem", ca.pem()), ("leaf.pem", leaf.pem()), ("key.pem", key.serialize_pem())] {
        fs::write(folder.join(name), text).expect("certificate");
    }
}
