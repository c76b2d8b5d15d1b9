//! One search in one mailbox: sign in, `EXAMINE` (which changes nothing, not even a flag), search, fetch, leave.
//!
//! `async-imap` frames and parses; the dialogue is driven here, because its own commands take a refusal or a lost connection
//! in the middle of an answer for an empty answer, and "the mailbox was asked and has nothing" must not be said of those. It
//! would also log what it sends, the password included.

use secrecy::ExposeSecret;
use std::io;

use async_imap::{
    Client,
    imap_proto::{AttributeValue, MailboxDatum, Response, ResponseCode, Status},
};
use chrono::{DateTime, FixedOffset};
use rustls::pki_types::ServerName;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Duration, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    settings::{MailboxSettings, SettingsError},
    wire::Wire,
};
use crate::{evidence::clean, smtp::Security, trust};

/// Courtesy only: how long LOGOUT may wait for its answer.
const LOGOUT_LIMIT: Duration = Duration::from_secs(2);

/// A mailbox whose settings are checked.
pub(super) struct Mailbox {
    place: String,
    settings: MailboxSettings,
    server: ServerName<'static>,
    tls: TlsConnector,
}

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    /// Together with a UID it names one message for ever (RFC 3501 2.3.1.1).
    pub(super) uid_validity: Option<u32>,
    /// How many messages the folder has.
    pub(super) in_folder: u32,
    /// How many the server says it found.
    pub(super) matches: usize,
    /// The newest of them.
    pub(super) hits: Vec<Hit>,
}

/// One message that was found.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) uid: u32,
    /// When it arrived, by the server.
    pub(super) arrived: Option<DateTime<FixedOffset>>,
    /// The section that was asked for.
    pub(super) bytes: Vec<u8>,
}

impl Found {
    /// The message, as evidence names it.
    pub(super) fn name(&self, hit: &Hit) -> String {
        let validity = self.uid_validity.map(|v| format!(" (UIDVALIDITY {v})")).unwrap_or_default();
        let arrived = hit.arrived.map(|time| format!(", arrived {}", time.to_rfc3339())).unwrap_or_default();
        format!("UID {}{validity}{arrived}", hit.uid)
    }
}

/// What is asked of a mailbox.
pub(super) struct Query<'a> {
    /// Search keys (RFC 3501 6.4.4).
    pub(super) keys: &'a str,
    /// The section to fetch of each hit, such as `BODY.PEEK[]<0.1000>`.
    pub(super) section: &'a str,
    /// The most hits to fetch.
    pub(super) limit: usize,
}

impl Mailbox {
    pub(super) fn new(settings: &MailboxSettings) -> Result<Self, SettingsError> {
        settings.validate()?;
        let server = ServerName::try_from(settings.host.clone()).map_err(|_| SettingsError::Host(settings.host.clone()))?;
        let config = trust::client(settings.extra_ca_file.as_deref()).map_err(SettingsError::Tls)?;
        Ok(Self {
            place: format!("{} at {}:{}, folder {}", settings.username, settings.host, settings.port(), settings.folder),
            settings: settings.clone(),
            server,
            tls: TlsConnector::from(config),
        })
    }

    /// Whose mailbox it is, and where.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The longest that a look may take.
    pub(super) fn max(&self) -> Duration {
        self.settings.max()
    }

    /// Searches once.
    ///
    /// # Errors
    /// Why the mailbox could not be searched, in words.
    pub(super) async fn find(&self, query: &Query<'_>) -> Result<Found, String> {
        let mut dialogue = self.open().await?;
        let settings = &self.settings;
        let sign_in = format!("LOGIN {} {}", quoted(&settings.username)?, quoted(settings.password.expose_secret())?);
        dialogue.ask(&sign_in, |_| {}).await.map_err(|fault| fault.during("signing in"))?;

        let (mut uid_validity, mut in_folder) = (None, 0);
        let examine = format!("EXAMINE {}", quoted(&settings.folder)?);
        dialogue
            .ask(&examine, |response| match response {
                Response::Data { outcome, .. } => {
                    if let Some(ResponseCode::UidValidity(value)) = outcome.code {
                        uid_validity = Some(value);
                    }
                }
                Response::MailboxData(MailboxDatum::Exists(count)) => in_folder = *count,
                _ => {}
            })
            .await
            .map_err(|fault| fault.during("opening the folder"))?;

        let mut uids: Vec<u32> = Vec::new();
        dialogue
            .ask(&format!("UID SEARCH {}", query.keys), |response| {
                if let Response::MailboxData(MailboxDatum::Search(found)) = response {
                    uids.extend(found);
                }
            })
            .await
            .map_err(|fault| fault.during("searching"))?;
        uids.sort_unstable_by(|a, b| b.cmp(a));
        uids.dedup();
        let matches = uids.len();
        uids.truncate(query.limit);

        let hits = if uids.is_empty() { Vec::new() } else { dialogue.fetch(&uids, query.section).await? };
        // What was found is settled; whether the server says goodbye changes nothing.
        let _ = timeout(LOGOUT_LIMIT, dialogue.ask("LOGOUT", |_| {})).await;
        Ok(Found { uid_validity, in_folder, matches, hits })
    }

    /// Connects, reads the greeting and protects the connection.
    async fn open(&self) -> Result<Dialogue, String> {
        let (host, port, idle) = (self.settings.host.as_str(), self.settings.port(), self.settings.idle());
        let no_connection = |e: io::Error| Fault::from(e).during("connecting");
        let in_time = |_| format!("no connection within {} s", idle.as_secs());
        let tcp = timeout(idle, TcpStream::connect((host, port))).await.map_err(in_time)?.map_err(no_connection)?;
        if self.settings.security == Security::Tls {
            let mut dialogue = Dialogue::new(self.encrypt(tcp).await?);
            dialogue.greeting().await?;
            return Ok(dialogue);
        }
        let mut dialogue = Dialogue::new(Wire::plain(tcp, idle));
        dialogue.greeting().await?;
        if self.settings.security == Security::Plain {
            return Ok(dialogue);
        }
        dialogue.ask("STARTTLS", |_| {}).await.map_err(|fault| fault.during("starting TLS"))?;
        // Whatever came behind the answer in clear text is dropped with the buffer it is in (RFC 9051 6.2.1).
        let tcp = dialogue.client.into_inner().into_tcp().ok_or("TLS was started twice")?;
        Ok(Dialogue::new(self.encrypt(tcp).await?))
    }

    async fn encrypt(&self, tcp: TcpStream) -> Result<Wire, String> {
        let idle = self.settings.idle();
        let handshake = self.tls.connect(self.server.clone(), tcp);
        match timeout(idle, handshake).await {
            Ok(Ok(tls)) => Ok(Wire::tls(tls, idle)),
            Ok(Err(error)) => Err(clean(&format!("no trusted TLS connection: {error}"))),
            Err(_) => Err(format!("no TLS connection within {} s", idle.as_secs())),
        }
    }
}

/// Why a command did not succeed.
enum Fault {
    /// NO or BAD.
    Refused(String),
    Link(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Link(error.to_string())
    }
}

impl Fault {
    fn during(self, what: &str) -> String {
        clean(&match self {
            Self::Refused(reply) => format!("{what} was refused: {reply}"),
            Self::Link(error) => format!("the connection failed while {what}: {error}"),
        })
    }
}

/// Commands and their answers.
struct Dialogue {
    client: Client<Wire>,
    asked: u32,
}

impl Dialogue {
    fn new(wire: Wire) -> Self {
        Self { client: Client::new(wire), asked: 0 }
    }

    async fn greeting(&mut self) -> Result<(), String> {
        let fault = match self.client.read_response().await {
            Ok(Some(response)) => match response.parsed() {
                Response::Data { status: Status::Ok, .. } => return Ok(()),
                other => Fault::Refused(format!("{other:?}")),
            },
            Ok(None) => Fault::Link("it was closed".to_owned()),
            Err(error) => error.into(),
        };
        Err(fault.during("connecting"))
    }

    /// Sends one command and hands on each answer to it; passes only when the server says OK to the command itself.
    async fn ask(&mut self, command: &str, mut each: impl FnMut(&Response<'_>)) -> Result<(), Fault> {
        self.asked += 1;
        let id = format!("R{}", self.asked);
        let wire = self.client.get_mut();
        wire.write_all(format!("{id} {command}\r\n").as_bytes()).await?;
        wire.flush().await?;
        loop {
            let Some(response) = self.client.read_response().await? else {
                return Err(Fault::Link("it was closed before the answer was complete".to_owned()));
            };
            match response.parsed() {
                Response::Done { tag, status: Status::Ok, .. } if tag.0 == id => return Ok(()),
                Response::Done { tag, outcome, .. } if tag.0 == id => {
                    return Err(Fault::Refused(outcome.information.as_deref().unwrap_or("without a reason").to_owned()));
                }
                other => each(other),
            }
        }
    }

    async fn fetch(&mut self, uids: &[u32], section: &str) -> Result<Vec<Hit>, String> {
        let set = uids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut hits = Vec::new();
        self.ask(&format!("UID FETCH {set} (UID INTERNALDATE {section})"), |response| {
            if let Response::Fetch(_, attributes) = response {
                hits.extend(hit(attributes));
            }
        })
        .await
        .map_err(|fault| fault.during("fetching"))?;
        Ok(hits)
    }
}

/// The message of a FETCH response; `None` for one that the server sent on its own account.
fn hit(attributes: &[AttributeValue<'_>]) -> Option<Hit> {
    let (mut uid, mut arrived, mut bytes) = (None, None, None);
    for attribute in attributes {
        match attribute {
            AttributeValue::Uid(value) => uid = Some(*value),
            AttributeValue::InternalDate(date) => arrived = DateTime::parse_from_str(date, "%d-%b-%Y %H:%M:%S %z").ok(),
            AttributeValue::BodySection { data: Some(data), .. } => bytes = Some(data.to_vec()),
            _ => {}
        }
    }
    Some(Hit { uid: uid?, arrived, bytes: bytes? })
}

/// A quoted string (RFC 3501 9). The settings and [`super::Wanted`] let nothing else through; this is the last lock.
fn quoted(text: &str) -> Result<String, String> {
    if !text.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
        return Err("a name or password cannot be sent".to_owned());
    }
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_string_never_ends_early() {
        assert_eq!(quoted(r#"a "b\c"#).as_deref(), Ok(r#""a \"b\\c""#));
        for text in ["a\r\nb", "a\0", "ü"] {
            assert!(quoted(text).is_err());
        }
    }
}
