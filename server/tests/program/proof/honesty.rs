//! The honesty probe: an act that ignores the stop signal for three seconds, a Cancel after one, another one, and a late one.
//! Six measured job systems showed "cancelled" here while the act ran on, or nothing at all. The table prints what Recount says
//! at each moment, beside what the outside saw at the same time.

use std::{fmt::Write as _, io::Write as _, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{
    moments::{AT_THE_DOT, stands},
    world::{Channel, People, World},
};
use crate::support::{program::Served, smtp_server::Server};

const ONE: &[&str] = &["anna@example.org"];

/// What is said and seen, moment by moment. Time counts from the beginning of the act.
struct Probe<'a> {
    served: &'a Served,
    token: &'a str,
    smtp: &'a Server,
    id: String,
    begun: Instant,
    table: String,
}

impl Probe<'_> {
    async fn until(&self, seconds: f64) {
        sleep_until(self.begun + Duration::from_secs_f64(seconds)).await;
    }

    fn note(&mut self, event: &str, job: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (seconds, accepted) = (self.begun.elapsed().as_secs_f64(), self.smtp.commits());
        let (headline, waiting) = (text(&job["headline"]), text(&job["waiting_for"]));
        writeln!(self.table, "{seconds:4.1} s  {event:40} {accepted:8}  {headline} {waiting}").unwrap();
    }

    async fn look(&mut self, event: &str) -> Value {
        let job = self.served.job(self.token, &self.id).await;
        self.note(event, &job);
        // The page never says anything else.
        let page = self.served.headline_on_page(self.token, &self.id).await;
        assert_eq!(job["headline"], page.as_str());
        job
    }

    /// The table on the real standard output.
    fn print(&self, title: &str) {
        let head = format!("\nHonesty probe: {title}\n{:6}  {:40} {:>8}  {}\n", "after", "", "accepted", "Recount says");
        std::io::stdout().lock().write_all(format!("{head}{}", self.table).as_bytes()).unwrap();
    }

    async fn cancel(&mut self, expected: &str) -> Value {
        let answer = self.served.cancel(self.token, &self.id).await;
        assert_eq!(answer["outcome"], expected, "{answer}");
        self.note(&format!("Cancel, answered \"{expected}\""), &answer["job"]);
        answer["job"].clone()
    }
}

/// True while the act goes on, whatever was asked.
fn is_stopping(job: &Value, waiting: &str) {
    assert_eq!((job["phase"].as_str(), job["headline"].as_str()), (Some("stopping"), Some("Stopping…")), "{job}");
    let told = job["waiting_for"].as_str().expect("what it waits for");
    assert!(told.contains(waiting), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_mail_server_that_answers_late_is_waited_for_in_the_open() {
    let people = People::new().await;
    let World { home, token, gate, smtp, .. } = World::new(&people, Channel::Smtp).await;
    let smtp = smtp.unwrap();
    let served = home.serve_held(&gate.socket).await;
    let standing = gate.hold_only(AT_THE_DOT);
    let id = served.order(&token, "june", ONE).await;
    let standing = stands(standing).await;
    let mut probe = Probe { served: &served, token: &token, smtp: &smtp, id, begun: Instant::now(), table: String::new() };

    let job = probe.look("the mail server has the message").await;
    assert_eq!(job["headline"], "E-mailing the link (0 of 1)");
    let last = "every message is already with the mail server; a cancel can stop nothing more";
    assert!(job["if_cancelled_now"].as_str().is_some_and(|text| text.contains(last)), "{job}");
    probe.until(1.0).await;
    is_stopping(&probe.cancel("accepted").await, "has not answered yet");
    probe.until(1.5).await;
    is_stopping(&probe.look("").await, "has not answered yet");
    probe.until(2.0).await;
    is_stopping(&probe.cancel("already_requested").await, "has not answered yet");
    probe.until(2.9).await;
    is_stopping(&probe.look("").await, "has not answered yet");
    assert_eq!(smtp.commits(), 1, "all this while the message was with the mail server");
    probe.until(3.0).await;
    standing.go();
    served.end_of(&token, &probe.id).await;
    let truth = "The cancel came too late. Report saved; email accepted by the mail service";
    assert_eq!(probe.look("the mail server has answered").await["headline"], truth);
    assert_eq!(probe.cancel("already_requested").await["headline"], truth);

    // Another job, which nobody cancels in time.
    probe.id = served.order(&token, "june again", ONE).await;
    served.end_of(&token, &probe.id).await;
    let ended = probe.look("another job has ended").await;
    assert_eq!(ended["headline"], "Report saved; email accepted by the mail service");
    assert_eq!(probe.cancel("too_late").await["headline"], ended["headline"]);
    probe.print("a mail server that answers three seconds after the final dot");
    served.terminate().await;
    assert_eq!(smtp.commits(), 2);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn a_document_that_cannot_be_let_go_is_waited_for_in_the_open() {
    let people = People::new().await;
    let World { home, token, gate, smtp, model } = World::new(&people, Channel::Smtp).await;
    let smtp = smtp.unwrap();
    let served = home.serve_held(&gate.socket).await;
    let standing = gate.hold_only("before reading 2026-06-03-meeting.md");
    let id = served.order(&token, "june", ONE).await;
    let standing = stands(standing).await;
    let mut probe = Probe { served: &served, token: &token, smtp: &smtp, id, begun: Instant::now(), table: String::new() };

    assert_eq!(probe.look("a document is being read").await["headline"], "Collecting documents");
    probe.until(1.0).await;
    let waiting = "cannot be interrupted";
    is_stopping(&probe.cancel("accepted").await, waiting);
    probe.until(1.5).await;
    is_stopping(&probe.look("").await, waiting);
    probe.until(2.0).await;
    is_stopping(&probe.cancel("already_requested").await, waiting);
    probe.until(2.9).await;
    is_stopping(&probe.look("").await, waiting);
    probe.until(3.0).await;
    standing.go();
    served.end_of(&token, &probe.id).await;
    let truth = "Cancelled. Nothing was saved or sent";
    let job = probe.look("the document has been read").await;
    assert_eq!(job["headline"], truth);
    let discarded = "The reading of 2026-06-03-meeting.md ended after the cancel; its result was discarded";
    assert!(job["history"].as_array().unwrap().iter().any(|line| line["text"] == discarded), "{job}");
    assert_eq!(probe.cancel("already_requested").await["headline"], truth);
    probe.print("a document whose reading takes three seconds and cannot be interrupted");
    served.terminate().await;
    assert_eq!((smtp.lines().len(), model.requests().len()), (0, 0), "nothing else has begun");
}
