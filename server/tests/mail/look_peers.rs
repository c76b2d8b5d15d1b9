//! Probes at what real servers keep: exim takes and delivers the messages, Dovecot serves the mailboxes.

use std::{fs, time::Duration};

use mail::{
    channel::{Channel, Delivery, Outgoing, Stop},
    probe::{Archive, Bounces, Finding, LogFile, LogFormat, LogSettings, MailboxSettings, Probe, Wanted},
    smtp::{Security, Smtp, SmtpSettings},
};
use secrecy::SecretString;
use tokio::time::timeout;
use uuid::Uuid;

use crate::support::{
    dovecot::Dovecot,
    exim::Exim,
    mail::{Record, message_with_id, settings},
};

/// Delivers to three mailboxes, fails for `gone` after having accepted, and thinks long about `slowdot`.
const CONFIGURATION: &str = r"
log_selector = +smtp_connection
dsn_advertise_hosts = *
acl_smtp_rcpt = acl_rcpt
acl_smtp_data = acl_data
begin acl
acl_rcpt:
  deny  local_parts = refused
        message = 5.1.1 no such user
  accept
acl_data:
  accept condition = ${if match{$recipients}{slowdot}}
         delay = 3s
  accept
begin routers
gone:
  driver = redirect
  local_parts = gone
  allow_fail
  data = :fail: 5.1.1 moved away
here:
  driver = accept
  local_parts = anna : archive : r
  transport = folder
begin transports
folder:
  driver = appendfile
  directory = FOLDER/mail/$local_part_data
  maildir_format
  create_directory
  user = Debian-exim
";

/// When the messages are handed over; what arrives carries the machine's own time, which is later.
const SINCE: i64 = 1_700_000_000;

/// How long to wait for exim to deliver; it takes milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// A mail server and the three places to look.
struct Peers {
    exim: Exim,
    dovecot: Dovecot,
}

impl Peers {
    async fn start() -> Option<Self> {
        let exim = Exim::start(CONFIGURATION).await?;
        let dovecot = Dovecot::start(&exim.mail(), &["archive", "r"]).await?;
        Some(Self { exim, dovecot })
    }

    fn archive(&self, security: Security) -> Archive {
        Archive::new(&self.dovecot.mailbox("archive", security)).expect("settings")
    }

    fn bounces(&self, security: Security) -> Bounces {
        Bounces::new(&self.dovecot.mailbox("r", security)).expect("settings")
    }

    fn log(&self) -> LogFile {
        LogFile::new(&LogSettings { path: self.exim.log_path(), format: LogFormat::Exim }).expect("settings")
    }

    fn probes(&self) -> [Box<dyn Probe>; 3] {
        [Box::new(self.archive(Security::Plain)), Box::new(self.bounces(Security::Plain)), Box::new(self.log())]
    }

    /// Sends with an archive and, if so, delivery reports.
    async fn send(&self, to: &str, dsn: bool, change: impl FnOnce(&mut SmtpSettings)) -> (Wanted, Delivery) {
        let mut settings = settings(self.exim.port);
        settings.archive = Some("archive@exim.test".into());
        settings.dsn = Some(dsn);
        change(&mut settings);
        let smtp = Smtp::new(&settings).expect("settings");
        let message = message_with_id(&format!("<{}@example.org>", Uuid::new_v4().simple()), "hi");
        let attempt = Uuid::new_v4();
        let message = Outgoing { attempt, to: format!("{to}@exim.test").parse().expect("address"), ..message };
        let delivery = smtp.deliver(&message, &Record::allowing(), &Stop::default()).await;
        let wanted = Wanted {
            message_id: message.message_id,
            envelope_ids: vec![Uuid::new_v4(), attempt],
            recipient: message.to,
            since: chrono::DateTime::from_timestamp(SINCE, 0).expect("time"),
        };
        (wanted, delivery)
    }
}

/// Probes until the proof is there: what exim delivers arrives a moment after its answer.
async fn proof(look: &dyn Probe, wanted: &Wanted, peers: &Peers) -> String {
    let until_found = async {
        loop {
            match look.look(wanted).await {
                Finding::Accepted { evidence } => return evidence,
                Finding::Nothing { .. } => tokio::task::yield_now().await,
                other => panic!("{}: {other:?}\n{}", look.name(), peers.dovecot.log()),
            }
        }
    };
    let found = timeout(PATIENCE, until_found).await;
    found.unwrap_or_else(|_| panic!("{} finds nothing\n{}\n{}", look.name(), peers.exim.log(), peers.dovecot.log()))
}

fn changed(wanted: &Wanted, message_id: &str, envelope_id: Uuid) -> Wanted {
    Wanted { message_id: message_id.to_owned(), envelope_ids: vec![envelope_id], ..wanted.clone() }
}

#[tokio::test]
async fn an_accepted_message_is_found_in_all_three_places() {
    let Some(peers) = Peers::start().await else { return };
    let (wanted, delivery) = peers.send("anna", true, |_| {}).await;
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    let id = wanted.message_id.as_str();

    let line = proof(&peers.log(), &wanted, &peers).await;
    assert!(line.contains(" <= r@example.org ") && line.contains(id.trim_matches(['<', '>'])), "{line}");
    for security in [Security::Plain, Security::StartTls, Security::Tls] {
        let copy = proof(&peers.archive(security), &wanted, &peers).await;
        assert!(copy.starts_with("archive mailbox archive at localhost:"), "{copy}");
        assert!(copy.contains(": UID 1 (UIDVALIDITY ") && copy.ends_with(&format!(", Message-ID: {id}")), "{copy}");
        let report = proof(&peers.bounces(security), &wanted, &peers).await;
        for field in [
            "Original-Envelope-ID: (envelope id 2)",
            "Final-Recipient: rfc822;anna@exim.test",
            "Action: delivered",
            "Status: 2.0.0",
        ] {
            assert!(report.contains(field), "{field}: {report}");
        }
    }

    // Looking changes nothing: no message is marked as read (`S` at the end of a file's name in a Maildir).
    let files = |user: &str, part: &str| fs::read_dir(peers.exim.mail().join(user).join(part)).expect("Maildir");
    let names: Vec<String> = [("archive", "new"), ("archive", "cur"), ("r", "new"), ("r", "cur")]
        .into_iter()
        .flat_map(|(user, part)| files(user, part))
        .map(|file| file.expect("file").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.len() == 2 && names.iter().all(|name| !name.ends_with('S')), "{names:?}");

    // Ids that differ by one character, and a part of the id, which IMAP's search finds as well
    let longer = id.replace("@example.org>", "@example.org.uk>");
    let shorter = format!("<{}", &id[9..]);
    for other in [longer, shorter] {
        for look in peers.probes() {
            let finding = look.look(&changed(&wanted, &other, Uuid::new_v4())).await;
            assert!(matches!(finding, Finding::Nothing { .. }), "{}: {finding:?}", look.name());
        }
    }
}

#[tokio::test]
async fn a_bounce_proves_that_the_message_had_been_accepted() {
    let Some(peers) = Peers::start().await else { return };
    let (wanted, delivery) = peers.send("gone", true, |_| {}).await;
    assert!(matches!(delivery, Delivery::Accepted { .. }), "{delivery:?}");
    let report = proof(&peers.bounces(Security::Plain), &wanted, &peers).await;
    assert!(report.contains("Action: failed") && !report.contains(&wanted.envelope_ids[1].to_string()), "{report}");
    // The report is about that attempt and no other, although it returns the Message-ID.
    let other = changed(&wanted, &wanted.message_id, Uuid::new_v4());
    let finding = peers.bounces(Security::Plain).look(&other).await;
    assert!(matches!(finding, Finding::Nothing { .. }), "{finding:?}");

    // Without an envelope id the returned header section is a hint, and no proof: anybody can send such a mail.
    let (wanted, _) = peers.send("gone", false, |_| {}).await;
    let bounces = peers.bounces(Security::Plain);
    let until_seen = async {
        loop {
            match bounces.look(&wanted).await {
                Finding::Hint { seen } => return seen,
                Finding::Nothing { .. } => tokio::task::yield_now().await,
                other => panic!("{other:?}\n{}", peers.dovecot.log()),
            }
        }
    };
    let seen = timeout(PATIENCE, until_seen).await.unwrap_or_else(|_| panic!("{}", peers.exim.log()));
    assert!(seen.contains(&format!("it returns the message with the header Message-ID: {}", wanted.message_id)), "{seen}");
}

#[tokio::test]
async fn a_message_that_the_server_threw_away_is_found_nowhere() {
    let Some(peers) = Peers::start().await else { return };
    let (refused, delivery) = peers.send("refused", true, |_| {}).await;
    assert!(matches!(delivery, Delivery::NotAccepted { .. }), "{delivery:?}");
    // A client that does not wait as long as the server thinks; exim then drops the message.
    let (lost, delivery) = peers.send("slowdot", true, |s| s.timeouts.final_dot = Duration::from_millis(200)).await;
    assert!(matches!(delivery, Delivery::Unconfirmed { .. }), "{delivery:?}");
    let dropped = async {
        while !peers.exim.log().contains("SMTP connection lost after final dot") {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, dropped).await.unwrap_or_else(|_| panic!("{}", peers.exim.log()));
    // Another message through the same server, so that the mailboxes are not empty
    let (found, _) = peers.send("anna", true, |_| {}).await;
    for look in peers.probes() {
        proof(look.as_ref(), &found, &peers).await;
        for wanted in [&refused, &lost] {
            let finding = look.look(wanted).await;
            let Finding::Nothing { asked } = finding else { panic!("{}: {finding:?}", look.name()) };
            assert!(asked.contains(wanted.message_id.trim_matches(['<', '>'])), "{asked}");
        }
    }
}

#[tokio::test]
async fn a_mailbox_that_cannot_be_opened_is_said_so() {
    let Some(peers) = Peers::start().await else { return };
    let (wanted, _) = peers.send("anna", true, |_| {}).await;
    let change = |what: fn(&mut MailboxSettings), security| {
        let mut settings = peers.dovecot.mailbox("archive", security);
        what(&mut settings);
        Archive::new(&settings).expect("settings")
    };
    for (look, reason) in [
        (change(|s| s.password = SecretString::from("wrong"), Security::Plain), "signing in was refused: "),
        (change(|s| s.folder = "Nowhere".into(), Security::Plain), "opening the folder was refused: "),
        (change(|s| s.extra_ca_file = None, Security::Tls), "no trusted TLS connection: "),
        (change(|s| s.extra_ca_file = None, Security::StartTls), "no trusted TLS connection: "),
        (change(|s| s.host = "127.0.0.1".into(), Security::Tls), "no trusted TLS connection: "),
    ] {
        let finding = look.look(&wanted).await;
        let Finding::Failed { reason: said } = finding else { panic!("{reason}: {finding:?}") };
        assert!(said.starts_with(reason), "{said}");
        assert!(!said.contains("wrong") && !said.contains("horse"), "{said}");
    }
}
