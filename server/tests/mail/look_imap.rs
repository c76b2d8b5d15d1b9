//! IMAP servers that answer badly, late, too much or not at all: a look says so, and takes none of it for "nothing is there".

use std::sync::{Arc, Mutex};

use mail::{
    probe::{Archive, Finding, MailboxSettings, Probe, Wanted},
    smtp::Security,
};
use secrecy::SecretString;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use uuid::Uuid;

use crate::support::mail::on_one_thread;

const ID: &str = "<0123@example.org>";

/// What the server does instead of its usual answer; `TAG` in a text is the command's tag.
#[derive(Clone)]
enum Act {
    Say(String),
    SayAndClose(&'static str),
    /// Says nothing more until the client has gone.
    Hang,
    /// Sends this many bytes of a literal.
    Flood(usize),
}

fn say(text: &str) -> Act {
    Act::Say(text.to_owned())
}

/// A server that behaves but for one command; `greeting` counts as one.
struct Server {
    port: u16,
    lines: Arc<Mutex<Vec<String>>>,
    waiting: Arc<Semaphore>,
}

impl Server {
    async fn start(command: &'static str, act: Act) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let port = listener.local_addr().expect("bound").port();
        let (lines, waiting) = (Arc::new(Mutex::default()), Arc::new(Semaphore::new(0)));
        let server = Self { port, lines: Arc::clone(&lines), waiting: Arc::clone(&waiting) };
        tokio::spawn(async move {
            let (tcp, _) = listener.accept().await.expect("a client");
            // Ends early when the client leaves, which is the point of some cases.
            let _ = serve(BufReader::new(tcp), command, &act, &lines, &waiting).await;
        });
        server
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("lines").clone()
    }

    async fn look(&self, security: Security) -> Finding {
        let wanted = Wanted {
            message_id: ID.into(),
            envelope_ids: vec![Uuid::from_u128(7)],
            recipient: "anna@example.org".parse().expect("address"),
            since: chrono::DateTime::from_timestamp(1_790_000_000, 0).expect("time"),
        };
        let look = Archive::new(&settings(self.port, security)).expect("settings");
        let mut looking = std::pin::pin!(look.look(&wanted));
        tokio::select! {
            finding = &mut looking => finding,
            permit = self.waiting.acquire() => {
                permit.expect("open").forget();
                // From here on the clock runs ahead whenever both sides wait.
                tokio::time::pause();
                looking.await
            }
        }
    }
}

fn settings(port: u16, security: Security) -> MailboxSettings {
    MailboxSettings {
        host: "127.0.0.1".into(),
        port: Some(port),
        security,
        username: "u".into(),
        password: SecretString::from("correct horse"),
        folder: "INBOX".into(),
        extra_ca_file: None,
        idle_seconds: 30,
        max_seconds: 180,
    }
}

fn usual(command: &str) -> String {
    let header = format!("Message-ID: {ID}\r\n\r\n");
    match command {
        "greeting" => "* OK ready\r\n".into(),
        "EXAMINE" => "* 3 EXISTS\r\n* OK [UIDVALIDITY 9] valid\r\nTAG OK [READ-ONLY] done\r\n".into(),
        "SEARCH" => "* SEARCH 41 42\r\nTAG OK done\r\n".into(),
        "FETCH" => format!(
            "* 1 FETCH (UID 42 INTERNALDATE \" 1-Nov-2026 08:00:00 +0100\" \
             BODY[HEADER.FIELDS (MESSAGE-ID)]<0> {{{}}}\r\n{header})\r\nTAG OK done\r\n",
            header.len()
        ),
        "LOGOUT" => "* BYE\r\nTAG OK bye\r\n".into(),
        _ => "TAG OK done\r\n".into(),
    }
}

async fn serve(
    mut line: BufReader<TcpStream>,
    command: &str,
    act: &Act,
    lines: &Mutex<Vec<String>>,
    waiting: &Semaphore,
) -> std::io::Result<()> {
    let mut said = "greeting".to_owned();
    let mut tag = String::new();
    loop {
        let usual = Act::Say(usual(&said));
        match if said == command { act } else { &usual } {
            Act::Say(text) => line.get_mut().write_all(text.replace("TAG", &tag).as_bytes()).await?,
            Act::SayAndClose(text) => return line.get_mut().write_all(text.replace("TAG", &tag).as_bytes()).await,
            Act::Hang => {
                waiting.add_permits(1);
                line.read_to_end(&mut Vec::new()).await?;
            }
            Act::Flood(size) => {
                let start = format!("* 1 FETCH (UID 42 BODY[HEADER.FIELDS (MESSAGE-ID)]<0> {{{size}}}\r\n");
                line.get_mut().write_all(start.as_bytes()).await?;
                let block = vec![b'x'; 1 << 20];
                for _ in 0..size >> 20 {
                    line.get_mut().write_all(&block).await?;
                }
            }
        }
        let mut text = String::new();
        if line.read_line(&mut text).await? == 0 {
            return Ok(());
        }
        lines.lock().expect("lines").push(text.trim_end().to_owned());
        let mut words = text.split_ascii_whitespace();
        tag = words.next().unwrap_or_default().to_owned();
        let word = words.next().unwrap_or_default();
        said = if word == "UID" { words.next().unwrap_or_default() } else { word }.to_owned();
    }
}

fn look(command: &'static str, act: Act, security: Security) -> (Finding, Vec<String>) {
    on_one_thread(async {
        let server = Server::start(command, act).await;
        let finding = server.look(security).await;
        (finding, server.lines())
    })
}

#[test]
fn the_dialogue_reads_only_and_finds_the_copy() {
    let (finding, lines) = look("", Act::Hang, Security::Plain);
    let Finding::Accepted { evidence } = finding else { panic!("{finding:?}") };
    let found = format!(": UID 42 (UIDVALIDITY 9), arrived 2026-11-01T08:00:00+01:00, Message-ID: {ID}");
    assert!(evidence.ends_with(&found), "{evidence}");
    let expected = [
        "R1 LOGIN \"u\" \"correct horse\"",
        "R2 EXAMINE \"INBOX\"",
        "R3 UID SEARCH HEADER Message-ID \"<0123@example.org>\"",
        "R4 UID FETCH 42,41 (UID INTERNALDATE BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]<0.4096>)",
        "R5 LOGOUT",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn no_bad_answer_is_taken_for_nothing() {
    let cases: Vec<(&'static str, Act, &str)> = vec![
        ("greeting", say("* BYE full\r\n"), "connecting was refused: "),
        ("greeting", say("* PREAUTH welcome\r\n"), "connecting was refused: "),
        ("greeting", say("220 mx ESMTP\r\n"), "the connection failed while connecting: "),
        ("greeting", Act::SayAndClose(""), "the connection failed while connecting: "),
        ("greeting", Act::Hang, "the connection failed while connecting: no answer within 30 s"),
        ("LOGIN", say("TAG NO wrong\r\n"), "signing in was refused: wrong"),
        ("LOGIN", Act::SayAndClose("* BYE\r\n"), "the connection failed while signing in: "),
        ("LOGIN", Act::Hang, "the connection failed while signing in: no answer within 30 s"),
        ("EXAMINE", say("TAG NO no such folder\r\n"), "opening the folder was refused: no such folder"),
        ("SEARCH", say("TAG NO try later\r\n"), "searching was refused: try later"),
        ("SEARCH", say("TAG BAD what\r\n"), "searching was refused: what"),
        ("SEARCH", Act::SayAndClose("* SEARCH 1 2\r\n"), "the connection failed while searching: "),
        ("SEARCH", Act::SayAndClose("* SEARCH 1"), "the connection failed while searching: "),
        ("SEARCH", Act::Hang, "the connection failed while searching: no answer within 30 s"),
        ("FETCH", say("TAG NO gone\r\n"), "fetching was refused: gone"),
        ("FETCH", Act::SayAndClose("* 1 FETCH (UID 42 BODY[] {99}\r\nMess"), "the connection failed while fetching: "),
        ("FETCH", Act::Flood(40 << 20), "the connection failed while fetching: it sent more than 32 MiB"),
        ("FETCH", say("\0\u{1}\u{2}\r\n"), "the connection failed while fetching: "),
        // The parser behind async-imap panics at this.
        ("FETCH", say("* 1 FETCH (UID 42 INTERNALDATE NIL)\r\nTAG OK done\r\n"), "what was found there could not be read"),
    ];
    for (command, act, expected) in cases {
        let (finding, _) = look(command, act, Security::Plain);
        let Finding::Failed { reason } = finding else { panic!("{command}, {expected}: {finding:?}") };
        assert!(reason.starts_with(expected), "{command}, {expected}: {reason}");
        assert!(reason.chars().count() <= 1001 && !reason.contains("horse"), "{reason}");
    }
}

#[test]
fn what_is_not_the_message_is_nothing() {
    let fetched = |header: &str| {
        say(&format!(
            "* 1 FETCH (UID 42 BODY[HEADER.FIELDS (MESSAGE-ID)]<0> {{{}}}\r\n{header})\r\nTAG OK done\r\n",
            header.len()
        ))
    };
    for (command, act) in [
        ("SEARCH", say("* SEARCH\r\nTAG OK done\r\n")),
        ("SEARCH", say("TAG OK done\r\n")),
        ("FETCH", say("* 1 FETCH (UID 42 FLAGS (\\Seen))\r\nTAG OK done\r\n")),
        ("FETCH", say("* 1 FETCH (UID 42 BODY[HEADER.FIELDS (MESSAGE-ID)]<0> NIL)\r\nTAG OK done\r\n")),
        ("FETCH", fetched("\r\n")),
        ("FETCH", fetched("Message-ID: <x0123@example.org>\r\n\r\n")),
        ("FETCH", fetched("Message-ID: <0123@example.org.uk>\r\n\r\n")),
        ("FETCH", fetched("Message-ID: <0123@example.org\r\n\r\n")),
    ] {
        let (finding, _) = look(command, act, Security::Plain);
        assert!(matches!(finding, Finding::Nothing { .. }), "{finding:?}");
    }
}

#[test]
fn a_server_that_finds_too_much_is_asked_for_the_newest() {
    let many = (1..=5000).map(|uid| uid.to_string()).collect::<Vec<_>>().join(" ");
    let (finding, lines) = look("SEARCH", Act::Say(format!("* SEARCH {many}\r\nTAG OK done\r\n")), Security::Plain);
    assert!(matches!(finding, Finding::Accepted { .. }), "{finding:?}");
    assert!(lines[3].starts_with("R4 UID FETCH 5000,4999,") && lines[3].contains(",4981 ("), "{}", lines[3]);
}

#[test]
fn without_tls_the_password_stays_here() {
    for act in [
        say("TAG NO no TLS here\r\n"),
        Act::SayAndClose("TAG OK go\r\n"),
        // Someone on the path answers ahead for what should come through TLS.
        Act::SayAndClose("TAG OK go\r\n* OK ready\r\nR1 OK signed in\r\nR2 OK opened\r\n* SEARCH 42\r\nR3 OK done\r\n"),
        Act::Hang,
    ] {
        let (finding, lines) = look("STARTTLS", act, Security::StartTls);
        assert!(matches!(finding, Finding::Failed { .. }), "{finding:?}");
        assert!(!lines.concat().contains("LOGIN"), "{lines:?}");
    }
    let (finding, lines) = look("greeting", say("* PREAUTH welcome\r\n"), Security::StartTls);
    assert!(matches!(finding, Finding::Failed { .. }), "{finding:?}");
    assert_eq!(lines, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so() {
    // Bound, so that nobody else gets the port, but not listening
    let socket = tokio::net::TcpSocket::new_v4().expect("socket");
    socket.bind("127.0.0.1:0".parse().expect("address")).expect("port");
    let port = socket.local_addr().expect("bound").port();
    let server = Server { port, lines: Arc::default(), waiting: Arc::new(Semaphore::new(0)) };
    let Finding::Failed { reason } = server.look(Security::Plain).await else { panic!("nobody is there") };
    assert!(reason.starts_with("the connection failed while connecting: "), "{reason}");
}
