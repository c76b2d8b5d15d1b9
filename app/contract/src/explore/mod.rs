//! Exhaustive search: every interleaving of two workers, a Cancel at any point, crashes and lease expiry at any point, late
//! evidence, a mail server that answers or does not. The transitions are the ones that run in production ([`world`]); what must
//! hold is named in [`properties`]; this module searches, and tells the shortest way to whatever does not hold.
//!
//! The search is breadth-first, so the first violation of a property that it meets is one of the nearest. It keeps 128 bits of
//! each world, with those of the world it was first reached from: a path is found again by playing it.

mod fingerprint;
mod properties;
mod world;

use crate::JobKind;
use fingerprint::{Fingerprint, Known};
use properties::{Check, Property};
use std::{
    fmt::Write as _,
    io::Write as _,
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};
use world::{Configuration, World};

/// What is explored. One more claim or attempt repeats what these have shown; fewer recipients leave room for more of them. A
/// hold takes a claim of its own, and what follows it is what follows a save, so the largest job is explored with one. Jobs that only mail differ in their steps.
const CONFIGURATIONS: [Configuration; 12] = [
    Configuration { hold: true, claims: 3, retries: 1, ..report(3) },
    report(3),
    Configuration { hold: true, claims: 3, retries: 1, ..report(2) },
    Configuration { retries: 2, ..report(2) },
    Configuration { retries: 1, people: true, ..report(2) },
    Configuration { kind: JobKind::Correction, retries: 1, ..report(3) },
    Configuration { hold: true, claims: 4, retries: 2, ..report(1) },
    Configuration { claims: 3, retries: 1, people: true, ..report(1) },
    Configuration { kind: JobKind::SecondCopy, claims: 4, retries: 2, people: true, ..report(1) },
    Configuration { claims: 1, copy: true, ..report(1) },
    Configuration { kind: JobKind::Correction, claims: 1, copy: true, ..report(2) },
    Configuration { kind: JobKind::SecondCopy, claims: 1, people: true, copy: true, ..report(1) },
];

/// A report for so many recipients, without anything that makes it long.
const fn report(recipients: u32) -> Configuration {
    Configuration { kind: JobKind::Report, recipients, hold: false, claims: 2, retries: 0, people: false, copy: false }
}

/// A search that meets more worlds than this is given up: the machine's memory has an end, and the bounds above need a look.
const MOST_STATES: usize = 2_000_000;

/// What one exploration found.
struct Exploration {
    configuration: Configuration,
    states: usize,
    transitions: usize,
    /// The longest of the shortest paths.
    depth: usize,
    /// Whether every world was visited.
    is_complete: bool,
    time: Duration,
    /// One for each property, in their order.
    verdicts: Vec<Verdict>,
}

/// What became of one property.
#[derive(Debug, Clone, Default)]
struct Verdict {
    /// The states or transitions that meet its condition.
    checked: usize,
    /// The shortest path to the first that violates it.
    violation: Option<String>,
}

/// One exploration of every configuration, shared by the tests of all properties.
static PROOF: LazyLock<Vec<Exploration>> = LazyLock::new(|| {
    let found = thread::scope(|scope| {
        let searches = CONFIGURATIONS.map(|configuration| scope.spawn(move || explore(configuration, properties::ALL)));
        searches.map(|search| search.join().expect("the search ends")).into_iter().collect::<Vec<_>>()
    });
    std::io::stdout().lock().write_all(table(&found).as_bytes()).expect("stdout can be written");
    found
});

/// Visits every world that can be reached, and checks every property in each and on the way to each.
fn explore(configuration: Configuration, properties: &[Property]) -> Exploration {
    let begun = Instant::now();
    let start = World::start(&configuration).canonical();
    let mut known = Known::default();
    known.insert(Fingerprint::of(&start), Fingerprint::NONE);
    let mut found = Exploration {
        configuration,
        states: 0,
        transitions: 0,
        depth: 0,
        is_complete: false,
        time: Duration::ZERO,
        verdicts: vec![Verdict::default(); properties.len()],
    };
    let mut level = vec![start];
    while !level.is_empty() && found.states < MOST_STATES {
        found.states += level.len();
        let mut deeper = Vec::new();
        for world in level {
            let here = Fingerprint::of(&world);
            let path = |next: Option<&World>| path(&configuration, &known, here, next);
            for (verdict, property) in found.verdicts.iter_mut().zip(properties) {
                if let Check::State(holds) = property.check {
                    verdict.count(holds(&world), || path(None));
                }
            }
            let nexts = world.next(&configuration);
            found.transitions += nexts.len();
            for (verdict, property) in found.verdicts.iter_mut().zip(properties) {
                if let Check::Transition(holds) = property.check {
                    for (_, next) in &nexts {
                        verdict.count(holds(&world, next), || path(Some(next)));
                    }
                }
            }
            for (_, next) in nexts {
                let next = next.canonical();
                if known.insert(Fingerprint::of(&next), here) {
                    deeper.push(next);
                }
            }
        }
        found.depth += usize::from(!deeper.is_empty());
        level = deeper;
    }
    found.is_complete = level.is_empty();
    found.time = begun.elapsed();
    found
}

impl Verdict {
    fn count(&mut self, holds: Option<bool>, path: impl FnOnce() -> String) {
        self.checked += usize::from(holds.is_some());
        if holds == Some(false) && self.violation.is_none() {
            self.violation = Some(path());
        }
    }
}

/// The events from the start to the world with this fingerprint, and to one that follows it, in words.
///
/// They are played again from the start, so that a worker and a recipient keep their numbers all the way.
fn path(configuration: &Configuration, known: &Known, to: Fingerprint, next: Option<&World>) -> String {
    let mut milestones = known.way_to(to);
    milestones.extend(next.map(|next| Fingerprint::of(&next.clone().canonical())));
    let mut world = World::start(configuration);
    let mut told = format!("{configuration}, {} events:\n", milestones.len() - 1);
    for (n, milestone) in milestones.into_iter().enumerate().skip(1) {
        let leads_there = |(_, next): &(_, World)| Fingerprint::of(&next.clone().canonical()) == milestone;
        let (event, reached) = world.next(configuration).into_iter().find(leads_there).expect("the path was taken before");
        writeln!(told, "{n:>4}. {event}\n        {reached}").expect("a string takes all");
        world = reached;
    }
    told
}

/// Fails with the shortest path to what violates the property, in any configuration.
fn assert_proved(name: &str) {
    let index = properties::ALL.iter().position(|property| property.name == name).expect("the property is in the list");
    let verdicts = || PROOF.iter().map(|exploration| &exploration.verdicts[index]);
    // Of two that are as short, that of the smaller job.
    let violations = verdicts().rev().filter_map(|verdict| verdict.violation.as_ref());
    let shortest = violations.min_by_key(|path| path.lines().count());
    if let Some(path) = shortest {
        panic!("{name} is violated by\n{path}");
    }
    assert!(verdicts().any(|verdict| verdict.checked > 0), "{name} was never put to the test");
}

fn table(found: &[Exploration]) -> String {
    let mut table = String::from("\nThe contract's model, explored exhaustively\n");
    let mut line = |text: String| {
        table.push_str(&text);
        table.push('\n');
    };
    line(format!("{:<88} {:>9} {:>11} {:>5} {:>6}", "configuration, two workers", "states", "transitions", "depth", "time"));
    for Exploration { configuration, states, transitions, depth, time, .. } in found {
        let time = format!("{:.1} s", time.as_secs_f32());
        line(format!("{:<88} {states:>9} {transitions:>11} {depth:>5} {time:>6}", configuration.to_string()));
    }
    let sum = |of: fn(&Exploration) -> usize| found.iter().map(of).sum::<usize>();
    line(format!("{:<88} {:>9} {:>11}", "together", sum(|found| found.states), sum(|found| found.transitions)));
    line(format!("\n{:<88} {:>9} {:>11}", "property", "states", "transitions"));
    for (index, Property { name, check }) in properties::ALL.iter().enumerate() {
        let checked: usize = found.iter().map(|found| found.verdicts[index].checked).sum();
        let violated = if found.iter().any(|found| found.verdicts[index].violation.is_some()) { " VIOLATED" } else { "" };
        line(match check {
            Check::State(_) => format!("{name:<88} {checked:>9}{violated}"),
            Check::Transition(_) => format!("{name:<88} {:>9} {checked:>11}{violated}", ""),
        });
    }
    table.push('\n');
    table
}

#[test]
fn every_world_was_visited() {
    let given_up: Vec<_> = PROOF.iter().filter(|found| !found.is_complete).map(|found| found.configuration.to_string()).collect();
    assert!(given_up.is_empty(), "{given_up:?} have more than {MOST_STATES} states");
}

#[test]
fn the_search_finds_what_is_wrong_and_the_shortest_way_to_it() {
    let wrong = Property { name: "nothing is ever sent", check: Check::State(|world| Some(world.accepted(2) == 0)) };
    let configuration = Configuration { claims: 1, ..report(1) };
    let found = explore(configuration, &[wrong]);
    let path = found.verdicts[0].violation.as_deref().expect("a message is sent somewhere");
    let events: Vec<_> = path.lines().filter_map(|line| Some(line.trim().split_once(". ")?.1)).collect();
    assert_eq!(
        events,
        [
            "an idle worker: claims",
            "the worker of claim 1: completes the step",
            "the worker of claim 1: completes the step",
            "the worker of claim 1: completes the step",
            "the worker of claim 1: begins an e-mail (effect 2)",
            "the worker of claim 1: commits in_doubt (effect 2)",
            "the worker of claim 1: the mail server accepts its message (effect 2)",
        ]
    );
}
