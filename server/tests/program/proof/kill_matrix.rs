//! The kill matrix: the real program is killed, cancelled, and cancelled and killed at every commit and every outside act of
//! a job, is started again, and has to end with a record, a page and an outside that agree.

use std::{fmt::Display, io::Write, sync::Arc, time::Instant};

use tokio::sync::Semaphore;

use super::{
    evidence::Evidence,
    world::{Act, Channel, People, World},
};
use crate::support::cluster::engine;

/// Cases under way at the same time. Most of the time of each is the wait for a lease to expire.
const AT_ONCE: usize = 12;

/// Where a Cancel is pressed before the program is killed on its way to the end: at an operation of each kind.
const CANCELS: [&str; 5] = [
    "after reading 2026-06-03-meeting.md",
    "the model server has sent words",
    "before the save takes the database",
    "smtp server has RCPT",
    "smtp server has accepted the message and has not said so",
];

/// Where the program is killed before it is killed again: at the operations that leave something to account for.
const KILLS: [&str; 3] =
    ["the model server has sent words", "smtp server has RCPT", "smtp server has accepted the message and has not said so"];
/// The first points of the next process: accounting for the dead one, the next claim, and the beginning of its work.
const AGAIN: usize = 10;

/// Where, what, and what came of it; `None` where the job never came there.
type Case = (String, Act, Option<Evidence>);

/// Runs cases side by side, each in a world of its own, and checks every one.
async fn run(people: &Arc<People>, channel: Channel, cases: Vec<(String, Act)>) -> Vec<Case> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let cases: Vec<_> = cases
        .into_iter()
        .map(|(point, act)| {
            let (people, places) = (people.clone(), places.clone());
            tokio::spawn(async move {
                let _place = places.acquire_owned().await.unwrap();
                let evidence = World::new(&people, channel).await.interrupt(&point, &act).await;
                if let Some(evidence) = &evidence {
                    evidence.check(&format!("{act:?} at \"{point}\""));
                }
                (point, act, evidence)
            })
        })
        .collect();
    let mut ended = Vec::new();
    for case in cases {
        ended.push(case.await.unwrap());
    }
    ended
}

async fn matrix(people: &Arc<People>, channel: Channel, points: Vec<String>) -> Vec<Case> {
    let acts = [Act::Kill, Act::Cancel, Act::CancelThenKill];
    let cases = points.into_iter().flat_map(|point| acts.clone().map(|act| (point.clone(), act)));
    run(people, channel, cases.collect()).await
}

fn print(text: impl Display) {
    writeln!(std::io::stdout().lock(), "{text}").unwrap();
}

fn cell(evidence: Option<&Evidence>) -> String {
    evidence.map_or_else(|| "–".into(), ToString::to_string)
}

fn print_matrix(title: &str, cases: &[Case]) {
    print(format_args!("\n{title}\n(how it ended | requests at the model server · report rows · messages accepted)"));
    print(format_args!("{:60} {:45} {:45} {}", "point", "killed", "cancelled", "cancelled and killed"));
    for row in cases.chunks(3) {
        let cells: Vec<String> = row.iter().map(|(_, _, evidence)| cell(evidence.as_ref())).collect();
        print(format_args!("{:60} {:45} {:45} {}", row[0].0, cells[0], cells[1], cells[2]));
    }
}

fn print_list(title: &str, first: &str, cases: &[Case]) {
    print(format_args!("\n{title}\n{first:60} {:60} {}", "killed", "how it ended"));
    for (at, act, evidence) in cases {
        let (Act::CancelThenKillAt(point) | Act::KillThenKillAt(point)) = act else { continue };
        print(format_args!("{at:60} {point:60} {}", cell(evidence.as_ref())));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(feature = "fail-points"), ignore = "needs --features server/fail-points")]
async fn whatever_happens_wherever_the_record_the_page_and_the_outside_agree() {
    let started = Instant::now();
    let people = Arc::new(People::new().await);
    let (points, whole) = World::new(&people, Channel::Smtp).await.points().await;
    whole.check("uninterrupted");
    let smtp = matrix(&people, Channel::Smtp, points).await;
    print_matrix("Kill matrix, with a mail server", &smtp);

    let (points, whole) = World::new(&people, Channel::Outbox).await.points().await;
    whole.check("uninterrupted, outbox");
    // Up to the saved report the channel makes no difference.
    let points = points.into_iter().skip_while(|point| !point.starts_with("after commit of report 1 done")).skip(1).collect();
    let outbox = matrix(&people, Channel::Outbox, points).await;
    print_matrix("Kill matrix, with an outbox", &outbox);

    let mut stopping = Vec::new();
    for at in CANCELS {
        let points = World::new(&people, Channel::Smtp).await.points_after_cancel(at).await;
        stopping.extend(points.into_iter().map(|point| (at.to_owned(), Act::CancelThenKillAt(point))));
    }
    let stopping = run(&people, Channel::Smtp, stopping).await;
    print_list("Killed on the way from a Cancel to the end", "cancelled", &stopping);

    let mut twice = Vec::new();
    for at in KILLS {
        let points = World::new(&people, Channel::Smtp).await.points_after_kill(at).await;
        twice.extend(points.into_iter().take(AGAIN).map(|point| (at.to_owned(), Act::KillThenKillAt(point))));
    }
    let twice = run(&people, Channel::Smtp, twice).await;
    print_list("Killed again by the next start", "killed", &twice);

    let cells: Vec<_> = [smtp, outbox, stopping, twice].into_iter().flatten().map(|(_, _, evidence)| evidence).collect();
    let reached = cells.iter().flatten().count();
    let slowest = cells.iter().flatten().filter_map(|evidence| evidence.took).max().unwrap_or_default();
    print(format_args!(
        "\n{reached} of {} cases came to their point on {}, in {:.0} s; the slowest end after a kill came {:.1} s after the restart",
        cells.len(),
        engine(),
        started.elapsed().as_secs_f64(),
        slowest.as_secs_f64(),
    ));
    // Points that depend on the moment (a progress that is written only now and then) may be missing, but few.
    assert!(reached * 10 > cells.len() * 9);
}
