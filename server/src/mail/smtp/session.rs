//! One session: from the connection to the reply to the final dot.
//!
//! The rule of this file: until the terminator `CRLF.CRLF` has been handed to the connection, every
//! failure proves that nothing was accepted (RFC 5321 4.1.1.10: a server that loses the connection
//! before it must drop the message). From that moment only a complete reply decides; without one
//! the outcome is unconfirmed.
//!
//! The archive's copy goes to a second recipient of the same transaction, named after the first was taken. The two are then
//! accepted or refused as one (RFC 5321 4.1.1.4), which makes the copy a proof. Nothing that happens to the archive's address
//! may keep the message: a refusal is noted, and where the session breaks at it, a second session goes without it.
//!
//! Known limit: lettre reads a reply without text (a bare `250`) or with text that is not UTF-8 as an
//! error, so such an acceptance ends as unconfirmed, the safe side.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    str::SplitAsciiWhitespace,
    sync::{Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use lettre::{
    Address,
    transport::smtp::{
        authentication::Mechanism,
        client::AsyncSmtpConnection,
        commands::{Data, Ehlo, Mail, Quit, Rcpt},
        extension::{Extension, MailBodyParameter, MailParameter, RcptParameter},
        response::Response,
    },
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Protection, QUIT_LIMIT, Relay, Timeouts,
    fault::{Fault, reply_evidence},
    wire::ClearThenTls,
};
use crate::{
    fail_point,
    mail::channel::{Cause, Delivery, Journal, Outgoing, Phase, Retry, Stop},
};

/// Bytes per block of the message, each with its own timer.
const BLOCK: usize = 64 * 1024;

/// How long to look for the reply that explains why the server stopped reading the message.
const EXPLANATION_LIMIT: Duration = Duration::from_millis(500);

/// A session that is over, and whether both sides still agree on where they stand.
struct Ended {
    delivery: Delivery,
    in_step: bool,
}

impl Ended {
    fn failed(phase: Phase, fault: &Fault) -> Self {
        Self {
            delivery: Delivery::NotAccepted { phase, evidence: fault.evidence(), retry: fault.retry() },
            in_step: fault.leaves_in_step(),
        }
    }

    fn broken_off(phase: Phase, cause: Cause) -> Self {
        Self { delivery: Delivery::BrokenOff { phase, cause }, in_step: false }
    }

    fn unconfirmed(evidence: String) -> Self {
        Self { delivery: Delivery::Unconfirmed { evidence }, in_step: false }
    }

    /// Adds why the archive has no copy, where somebody might look for one.
    fn without_copy(mut self, why: Option<&str>) -> Self {
        if let (Some(why), Delivery::Accepted { evidence, .. } | Delivery::Unconfirmed { evidence }) = (why, &mut self.delivery) {
            evidence.push_str("; the archive address was refused: ");
            evidence.push_str(why);
        }
        self
    }
}

/// How far the server followed before the message.
enum Offer {
    /// It waits for the message. Says why the archive gets no copy, where it should have.
    Ready { no_copy: Option<String> },
    /// The session broke at the archive's address.
    Broken { why: String },
}

pub(super) async fn deliver(relay: &Relay, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
    if !message.is_intact() {
        return Delivery::NotAccepted {
            phase: Phase::Prepare,
            evidence: "the stored message no longer has its SHA-256".to_owned(),
            retry: Retry::NeedsPerson,
        };
    }
    let text = |address: &Address| address.to_string();
    let mut archive = relay.archive.as_ref().filter(|archive| !text(archive).eq_ignore_ascii_case(&text(&message.to)));
    let mut no_copy = None;
    let (mut connection, ended) = loop {
        let mut connection = match open(relay, stop).await {
            Ok(connection) => connection,
            Err(ended) => return ended.delivery,
        };
        match offer(&mut connection, relay, message, archive, stop).await {
            Ok(Offer::Ready { no_copy: why }) => {
                let ended = hand_over(&mut connection, relay, message, journal, stop).await;
                break (connection, ended.without_copy(no_copy.or(why).as_deref()));
            }
            // Nothing was handed over yet, so beginning again can send nothing twice.
            Ok(Offer::Broken { why }) => {
                no_copy = Some(why);
                archive = None;
            }
            Err(ended) => break (connection, ended),
        }
    };
    if ended.in_step {
        // Detached: the outcome is final, and QUIT can neither change nor delay it.
        tokio::spawn(async move {
            let _ = timeout(QUIT_LIMIT, connection.command(Quit)).await;
        });
    }
    ended.delivery
}

/// Runs one step before the point of no return: it ends by its reply, its timer or a stop.
async fn step<T, E: Into<Fault>>(
    phase: Phase,
    limit: Duration,
    stop: &Stop,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Ended> {
    let work = async {
        fail_point::reach("before smtp", phase.as_str()).await;
        work.await
    };
    tokio::select! {
        biased;
        cause = stop.requested() => Err(Ended::broken_off(phase, cause)),
        result = timeout(limit, work) => match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Ended::failed(phase, &error.into())),
            Err(_) => Err(Ended::failed(phase, &Fault::TimedOut(limit))),
        },
    }
}

/// lettre takes every 2yz and 3yz for success; here only these codes are one.
fn expect(phase: Phase, codes: &[u16], reply: &Response) -> Result<(), Ended> {
    if codes.iter().any(|code| reply.has_code(*code)) {
        return Ok(());
    }
    // A reply that has no business here: the two sides are out of step, so no QUIT either.
    let mut ended = Ended::failed(phase, &Fault::from_reply(reply));
    ended.in_step = false;
    Err(ended)
}

/// Connects, protects the connection and signs in.
async fn open(relay: &Relay, stop: &Stop) -> Result<AsyncSmtpConnection, Ended> {
    let limits = &relay.timeouts;
    let mut connection = connect(relay, stop).await?;
    if let Protection::Upgrade(parameters) = &relay.protection {
        let upgrade = connection.starttls(parameters.clone(), &relay.hello);
        step(Phase::StartTls, limits.command, stop, upgrade).await?;
    }
    if let Some(credentials) = &relay.credentials {
        let sign_in = connection.auth(&[Mechanism::Plain, Mechanism::Login], credentials);
        let reply = step(Phase::Auth, limits.command, stop, sign_in).await?;
        expect(Phase::Auth, &[235], &reply)?;
    }
    Ok(connection)
}

async fn connect(relay: &Relay, stop: &Stop) -> Result<AsyncSmtpConnection, Ended> {
    let limit = relay.timeouts.connect;
    let server = (relay.host.as_str(), relay.port);
    if let Protection::FromTheStart(parameters) = &relay.protection {
        let tls = Some(parameters.clone());
        let work = AsyncSmtpConnection::connect_tokio1(server, Some(limit), &relay.hello, tls, None);
        return step(Phase::Connect, limit, stop, work).await;
    }
    let work = async {
        let tcp = TcpStream::connect(server).await?;
        let stream = Box::new(ClearThenTls::new(tcp));
        let greeted = AsyncSmtpConnection::connect_with_transport(stream, &relay.hello).await;
        greeted.map_err(Fault::from)
    };
    step(Phase::Connect, limit, stop, work).await
}

/// Everything from the sender to the 354.
async fn offer(
    connection: &mut AsyncSmtpConnection,
    relay: &Relay,
    message: &Outgoing,
    archive: Option<&Address>,
    stop: &Stop,
) -> Result<Offer, Ended> {
    let limits = &relay.timeouts;
    let hello = connection.command(Ehlo::new(relay.hello.clone()));
    let reply = step(Phase::Hello, limits.command, stop, hello).await?;
    expect(Phase::Hello, &[250], &reply)?;
    let reports = relay.dsn && extension(&reply, "DSN").is_some();
    let parameters =
        mail_parameters(connection, &reply, message, reports).map_err(|fault| Ended::failed(Phase::MailFrom, &fault))?;

    let mail = connection.command(Mail::new(Some(message.from.clone()), parameters));
    let reply = step(Phase::MailFrom, limits.command, stop, mail).await?;
    expect(Phase::MailFrom, &[250], &reply)?;

    recipient(connection, relay, &message.to, reports.then_some("SUCCESS,FAILURE,DELAY"), stop).await?;
    let mut no_copy = None;
    if let Some(archive) = archive {
        match recipient(connection, relay, archive, reports.then_some("NEVER"), stop).await {
            Ok(()) => {}
            Err(Ended { delivery: Delivery::NotAccepted { evidence, .. }, in_step: true }) => no_copy = Some(evidence),
            Err(Ended { delivery: Delivery::NotAccepted { evidence: why, .. }, .. }) => return Ok(Offer::Broken { why }),
            Err(stopped) => return Err(stopped),
        }
    }

    let reply = step(Phase::Data, limits.data, stop, connection.command(Data)).await?;
    expect(Phase::Data, &[354], &reply)?;
    Ok(Offer::Ready { no_copy })
}

/// RCPT TO, with what the server shall report about this recipient (RFC 3461 4.1).
async fn recipient(
    connection: &mut AsyncSmtpConnection,
    relay: &Relay,
    to: &Address,
    notify: Option<&str>,
    stop: &Stop,
) -> Result<(), Ended> {
    let notify = notify.map(|on| RcptParameter::Other { keyword: "NOTIFY".to_owned(), value: Some(on.to_owned()) });
    let rcpt = connection.command(Rcpt::new(to.clone(), notify.into_iter().collect()));
    let reply = step(Phase::RcptTo, relay.timeouts.command, stop, rcpt).await?;
    expect(Phase::RcptTo, &[250, 251], &reply)
}

/// The extensions that this message needs, or what the server lacks for it.
fn mail_parameters(
    connection: &AsyncSmtpConnection,
    hello: &Response,
    message: &Outgoing,
    reports: bool,
) -> Result<Vec<MailParameter>, Fault> {
    let server = connection.server_info();
    let ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
    let mut parameters = Vec::new();
    if !ascii(&message.from) || !ascii(&message.to) {
        if !server.supports_feature(Extension::SmtpUtfEight) {
            return Err(Fault::Unable(
                "the mail server does not take addresses with letters outside ASCII (no SMTPUTF8)".to_owned(),
            ));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !message.bytes.is_ascii() {
        if !server.supports_feature(Extension::EightBitMime) {
            return Err(Fault::Unable("the mail server does not take 8-bit text (no 8BITMIME)".to_owned()));
        }
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    // RFC 1870: naming the size lets the server refuse before the message instead of after it.
    if let Some(limit) = size_limit(hello) {
        let size = message.bytes.len();
        if limit != 0 && size > limit {
            return Err(Fault::Unable(format!("the message has {size} bytes, and the mail server takes at most {limit}")));
        }
        parameters.push(MailParameter::Size(size));
    }
    if reports {
        // RFC 3461 4.3 and 4.4: return the header section only, and name this attempt in every report.
        for (keyword, value) in [("RET", "HDRS".to_owned()), ("ENVID", message.attempt.to_string())] {
            parameters.push(MailParameter::Other { keyword: keyword.to_owned(), value: Some(value) });
        }
    }
    Ok(parameters)
}

/// What EHLO says behind a keyword; lettre keeps neither SIZE nor DSN.
fn extension<'a>(hello: &'a Response, keyword: &str) -> Option<SplitAsciiWhitespace<'a>> {
    hello.message().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next().filter(|word| word.eq_ignore_ascii_case(keyword))?;
        Some(words)
    })
}

/// The largest message in bytes; 0 stands for "no fixed limit" (RFC 1870).
fn size_limit(hello: &Response) -> Option<usize> {
    extension(hello, "SIZE").map(|mut words| words.next().and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// From the 354 over the point of no return to the outcome.
async fn hand_over(
    connection: &mut AsyncSmtpConnection,
    relay: &Relay,
    message: &Outgoing,
    journal: &dyn Journal,
    stop: &Stop,
) -> Ended {
    if let Some(cause) = stop.cause() {
        return Ended::broken_off(Phase::Journal, cause);
    }
    if let Err(refused) = journal.in_doubt().await {
        return Ended::broken_off(Phase::Journal, refused.into());
    }

    let limits = &relay.timeouts;
    let mark = DotMark::new(limits);
    let result = match send(connection, message, &mark, stop).await {
        Sent::Answer(result) => result,
        Sent::Stopped(ended) => return ended,
    };
    match result {
        Ok(reply) if reply.has_code(250) => {
            Ended { delivery: Delivery::Accepted { evidence: reply_evidence(&reply), peer: relay.peer.clone() }, in_step: true }
        }
        Err(fault) if !mark.place().handed_over => {
            let fault = explanation(connection).await.unwrap_or(fault);
            Ended { in_step: false, ..Ended::failed(Phase::Body, &fault) }
        }
        // RFC 5321 4.2.5: after a 4yz or 5yz the server must not deliver
        Err(fault @ Fault::Reply { code: 400.., .. }) => Ended::failed(Phase::FinalDot, &fault),
        Err(fault) => Ended::unconfirmed(fault.evidence()),
        // Any other 2yz, or a 3yz, belongs to another command: it proves nothing.
        Ok(reply) => Ended::unconfirmed(Fault::from_reply(&reply).evidence()),
    }
}

enum Sent {
    Answer(Result<Response, Fault>),
    Stopped(Ended),
}

async fn send(connection: &mut AsyncSmtpConnection, message: &Outgoing, mark: &DotMark<'_>, stop: &Stop) -> Sent {
    // The terminator begins with the line break that the stored bytes end with; with both, an empty line would be added.
    let blocks = Blocks { rest: message.bytes.strip_suffix(b"\r\n").unwrap_or(&message.bytes), mark };
    let mut work = pin!(connection.message_iter(blocks));
    loop {
        let now = mark.place();
        // The place changes only while `work` is polled. Coming back whenever it did keeps the
        // timer and the conditions below those of the place where the session is.
        let moved_or_done = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if mark.place() != now => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::select! {
            biased;
            cause = stop.requested(), if !now.handed_over => {
                return Sent::Stopped(Ended::broken_off(Phase::Body, cause));
            }
            result = moved_or_done => if let Some(result) = result {
                return Sent::Answer(result.map_err(Fault::from));
            },
            () = stop.give_up.cancelled(), if now.handed_over => {
                return Sent::Stopped(Ended::unconfirmed(
                    "the program had to end before the mail server answered".to_owned(),
                ));
            }
            () = sleep_until(now.started + now.limit) => {
                return Sent::Answer(Err(Fault::TimedOut(now.limit)));
            }
        }
    }
}

/// A server that stops reading has often said why (452, 552); that reply waits in the connection.
async fn explanation(connection: &mut AsyncSmtpConnection) -> Option<Fault> {
    match timeout(EXPLANATION_LIMIT, connection.read_response()).await {
        Ok(Err(error)) if error.status().is_some() => Some(error.into()),
        _ => None,
    }
}

/// Where the hand-over stands.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Whether the final dot may have left.
    handed_over: bool,
    /// When the running block, or the wait for the reply, began.
    started: Instant,
    /// How long it may take.
    limit: Duration,
}

/// The place, written by [`Blocks`] and read around it.
struct DotMark<'a> {
    place: Mutex<Place>,
    limits: &'a Timeouts,
}

impl<'a> DotMark<'a> {
    fn new(limits: &'a Timeouts) -> Self {
        let place = Place { handed_over: false, started: Instant::now(), limit: limits.block };
        Self { place: Mutex::new(place), limits }
    }

    fn place(&self) -> Place {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_to(&self, handed_over: bool, limit: Duration) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Place { handed_over, started: Instant::now(), limit };
    }
}

/// The message in blocks, and the exact place of the point of no return.
///
/// `message_iter` writes and flushes one block before it asks for the next, and writes the
/// terminator right after it got `None`. So the `None` is the last moment at which the terminator
/// has certainly not been handed over.
struct Blocks<'a> {
    rest: &'a [u8],
    mark: &'a DotMark<'a>,
}

impl<'a> Iterator for Blocks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            fail_point::reach_blocking("before", "smtp final_dot");
            self.mark.go_to(true, self.mark.limits.final_dot);
            return None;
        }
        self.mark.go_to(false, self.mark.limits.block);
        let (block, rest) = self.rest.split_at(BLOCK.min(self.rest.len()));
        self.rest = rest;
        Some(block)
    }
}
