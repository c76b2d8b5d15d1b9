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
        commands::{Data, Mail, Quit, Rcpt},
        extension::{Extension, MailBodyParameter, MailParameter, RcptParameter},
        response::Response,
    },
};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Protection, QUIT_LIMIT, Relay, Timeouts,
    connection::Connection,
    fault::{Fault, reply_evidence},
};
use crate::channel::{Cause, Delivery, DeliveryPhase, Journal, Outgoing, Retry, Stop};
use domain::fail_point;

/// Bytes per block of the message, each with its own timer.
const BLOCK: usize = 64 * 1024;

/// A session that is over, and whether both sides still agree on where they stand.
struct Ended {
    delivery: Delivery,
    in_step: bool,
}

impl Ended {
    fn failed(phase: DeliveryPhase, fault: &Fault) -> Self {
        Self {
            delivery: Delivery::NotAccepted { phase, evidence: fault.evidence(), retry: fault.retry() },
            in_step: fault.leaves_in_step(),
        }
    }

    fn broken_off(phase: DeliveryPhase, cause: Cause) -> Self {
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
            phase: DeliveryPhase::Prepare,
            evidence: "the stored message no longer has its SHA-256".to_owned(),
            retry: Retry::NeedsPerson,
        };
    }
    concealed(run(relay, message, journal, stop).await, message)
}

/// The attempt's id is nobody's to see, also where a server repeats it.
fn concealed(mut delivery: Delivery, message: &Outgoing) -> Delivery {
    if let Delivery::Accepted { evidence, .. } | Delivery::NotAccepted { evidence, .. } | Delivery::Unconfirmed { evidence } =
        &mut delivery
    {
        *evidence = evidence.replace(&message.attempt.to_string(), "(envelope id)");
    }
    delivery
}

async fn run(relay: &Relay, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Delivery {
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
async fn step<T>(
    phase: DeliveryPhase,
    limit: Duration,
    stop: &Stop,
    work: impl Future<Output = Result<T, Fault>>,
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
            Ok(Err(fault)) => Err(Ended::failed(phase, &fault)),
            Err(_) => Err(Ended::failed(phase, &Fault::TimedOut(limit))),
        },
    }
}

/// A positive reply may still be one to something else: only these codes are success here.
fn expect(phase: DeliveryPhase, codes: &[u16], reply: &Response) -> Result<(), Ended> {
    if codes.iter().any(|code| reply.has_code(*code)) {
        return Ok(());
    }
    // A reply that has no business here: the two sides are out of step, so no QUIT either.
    let mut ended = Ended::failed(phase, &Fault::from_reply(reply));
    ended.in_step = false;
    Err(ended)
}

/// Connects, protects the connection and signs in.
async fn open(relay: &Relay, stop: &Stop) -> Result<Connection, Ended> {
    let limits = &relay.timeouts;
    let from_the_start = if let Protection::FromTheStart(tls) = &relay.protection { Some(tls) } else { None };
    let connecting = Connection::open((relay.host.as_str(), relay.port), from_the_start, &relay.hello);
    let mut connection = step(DeliveryPhase::Connect, limits.connect, stop, connecting).await?;
    if let Protection::Upgrade(tls) = &relay.protection {
        connection = step(DeliveryPhase::StartTls, limits.command, stop, connection.upgraded(tls, &relay.hello)).await?;
    }
    if let Some(credentials) = &relay.credentials {
        let reply = step(DeliveryPhase::Auth, limits.command, stop, connection.sign_in(credentials)).await?;
        expect(DeliveryPhase::Auth, &[235], &reply)?;
    }
    Ok(connection)
}

/// Everything from the sender to the 354.
async fn offer(
    connection: &mut Connection,
    relay: &Relay,
    message: &Outgoing,
    archive: Option<&Address>,
    stop: &Stop,
) -> Result<Offer, Ended> {
    let limits = &relay.timeouts;
    let reply = step(DeliveryPhase::Hello, limits.command, stop, connection.hello(&relay.hello)).await?;
    expect(DeliveryPhase::Hello, &[250], &reply)?;
    let reports = relay.dsn && extension(&reply, "DSN").is_some();
    let parameters =
        mail_parameters(connection, &reply, message, reports).map_err(|fault| Ended::failed(DeliveryPhase::MailFrom, &fault))?;

    let mail = connection.command(Mail::new(Some(message.from.clone()), parameters));
    let reply = step(DeliveryPhase::MailFrom, limits.command, stop, mail).await?;
    expect(DeliveryPhase::MailFrom, &[250], &reply)?;

    recipient(connection, relay, &message.to, reports.then_some(Reports::All), stop).await?;
    let mut no_copy = None;
    if let Some(archive) = archive {
        match recipient(connection, relay, archive, reports.then_some(Reports::None), stop).await {
            Ok(()) => {}
            Err(Ended { delivery: Delivery::NotAccepted { evidence, .. }, in_step: true }) => no_copy = Some(evidence),
            Err(Ended { delivery: Delivery::NotAccepted { evidence: why, .. }, .. }) => return Ok(Offer::Broken { why }),
            Err(stopped) => return Err(stopped),
        }
    }

    let reply = step(DeliveryPhase::Data, limits.data, stop, connection.command(Data)).await?;
    expect(DeliveryPhase::Data, &[354], &reply)?;
    Ok(Offer::Ready { no_copy })
}

/// What the server shall report about a recipient.
enum Reports {
    All,
    None,
}

impl Reports {
    /// RFC 3461 4.1 and 4.2. With the address as we know it, a report can be told to be about this recipient even where the server
    /// has another name for him.
    fn parameters(&self, to: &Address) -> Vec<RcptParameter> {
        let other = |keyword: &str, value: String| RcptParameter::Other { keyword: keyword.to_owned(), value: Some(value) };
        let address: &str = to.as_ref();
        match self {
            Self::None => vec![other("NOTIFY", "NEVER".to_owned())],
            Self::All => {
                let mut parameters = vec![other("NOTIFY", "SUCCESS,FAILURE,DELAY".to_owned())];
                parameters.extend(address.is_ascii().then(|| other("ORCPT", format!("rfc822;{address}"))));
                parameters
            }
        }
    }
}

/// RCPT TO.
async fn recipient(
    connection: &mut Connection,
    relay: &Relay,
    to: &Address,
    reports: Option<Reports>,
    stop: &Stop,
) -> Result<(), Ended> {
    let parameters = reports.map(|reports| reports.parameters(to)).unwrap_or_default();
    let rcpt = connection.command(Rcpt::new(to.clone(), parameters));
    let reply = step(DeliveryPhase::RcptTo, relay.timeouts.command, stop, rcpt).await?;
    expect(DeliveryPhase::RcptTo, &[250, 251], &reply)
}

/// The extensions that this message needs, or what the server lacks for it.
fn mail_parameters(
    connection: &Connection,
    hello: &Response,
    message: &Outgoing,
    reports: bool,
) -> Result<Vec<MailParameter>, Fault> {
    let ascii = |address: &Address| AsRef::<str>::as_ref(address).is_ascii();
    let mut parameters = Vec::new();
    if !ascii(&message.from) || !ascii(&message.to) {
        if !connection.offers(Extension::SmtpUtfEight) {
            return Err(Fault::Unable(
                "the mail server does not take addresses with letters outside ASCII (no SMTPUTF8)".to_owned(),
            ));
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !message.bytes.is_ascii() {
        if !connection.offers(Extension::EightBitMime) {
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

/// What EHLO says behind a keyword; [`Connection::offers`] knows neither SIZE nor DSN.
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
async fn hand_over(connection: &mut Connection, relay: &Relay, message: &Outgoing, journal: &dyn Journal, stop: &Stop) -> Ended {
    if let Some(cause) = stop.cause() {
        return Ended::broken_off(DeliveryPhase::Journal, cause);
    }
    // Before the record says that the message may go out: a reply that came with the 354 is no reply to the message.
    if let Some(fault) = connection.unasked().await {
        return Ended::failed(DeliveryPhase::Data, &fault);
    }
    if let Err(refused) = journal.in_doubt().await {
        return Ended::broken_off(DeliveryPhase::Journal, refused.into());
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
            // A server that stops reading has often said why (452, 552); that waits in the connection.
            let explanation = connection.unasked().await.filter(|said| matches!(said, Fault::Unasked(_)));
            Ended::failed(DeliveryPhase::Body, &explanation.unwrap_or(fault))
        }
        // RFC 5321 4.2.5: after a 4yz or 5yz the server must not deliver
        Err(fault @ Fault::Reply { code: 400.., .. }) => Ended::failed(DeliveryPhase::FinalDot, &fault),
        Err(fault) => Ended::unconfirmed(fault.evidence()),
        // Any other 2yz, or a 3yz, belongs to another command: it proves nothing.
        Ok(reply) => Ended::unconfirmed(Fault::from_reply(&reply).evidence()),
    }
}

enum Sent {
    Answer(Result<Response, Fault>),
    Stopped(Ended),
}

async fn send(connection: &mut Connection, message: &Outgoing, mark: &DotMark<'_>, stop: &Stop) -> Sent {
    let mut work = pin!(write(connection, &message.bytes, mark));
    loop {
        let now = mark.place();
        // The place changes only while `work` is polled. Coming back whenever it did keeps the
        // timer and the conditions below those of the place where the session is.
        let moved_or_done = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if mark.place() != now => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        // In this order: a reply that is there counts, though the time for it may have run out while the process was stopped.
        tokio::select! {
            biased;
            cause = stop.requested(), if !now.handed_over => {
                return Sent::Stopped(Ended::broken_off(DeliveryPhase::Body, cause));
            }
            result = moved_or_done => if let Some(result) = result {
                return Sent::Answer(result);
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

/// Writes the message in blocks, each with its own timer, and ends it.
async fn write(connection: &mut Connection, message: &[u8], mark: &DotMark<'_>) -> Result<Response, Fault> {
    // The terminator begins with the line break that the stored bytes end with; with both, an empty line would be added.
    let message = stuffed(message.strip_suffix(b"\r\n").unwrap_or(message));
    for block in message.chunks(BLOCK) {
        mark.go_to(false, mark.limits.block);
        connection.write(block).await?;
    }
    fail_point::reach_blocking("before", "smtp final_dot");
    connection.end(|| mark.go_to(true, mark.limits.final_dot)).await
}

/// A dot at the beginning of a line becomes two, so that no line of the message is the one that ends it (RFC 5321 4.5.2).
fn stuffed(message: &[u8]) -> Vec<u8> {
    let mut stuffed = Vec::with_capacity(message.len() + message.len() / 64);
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b".") {
            stuffed.push(b'.');
        }
        stuffed.extend_from_slice(line);
    }
    stuffed
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

/// The place, written by [`write`] and read around it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_message_ends_it() {
        assert_eq!(stuffed(b".\r\na.b\r\n..\r\n.\nx\r.y"), b"..\r\na.b\r\n...\r\n..\nx\r.y");
    }
}
