//! The table of field reports names the tests that make each fault impossible. A test that is renamed or removed takes its row
//! with it: here that is a failure, and not a table that lies.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const DOCUMENT: &str = include_str!("../../../docs/field-reports.md");

/// Where the modules of this crate's tests begin.
const ROOTS: [&str; 2] = ["tests", "src"];
/// Where those of the other crates begin, whose name a path has in front.
const CRATES: [(&str, &str); 7] = [
    ("app", "../app/src"),
    ("contract", "../app/contract/src"),
    ("documents", "documents/src"),
    ("domain", "domain/src"),
    ("mail", "mail/src"),
    ("store", "store/src"),
    ("summarize", "summarize/src"),
];
const BROWSER_TESTS: &str = "../end2end/tests";
/// Between a file of browser tests, a group and a title, as Playwright prints them.
const BELOW: &str = " › ";
const NOT_HERE: &str = "Does not apply: ";

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The cells of a row with an id, such as `| A1 | … | … |`.
fn rows() -> Vec<[&'static str; 3]> {
    let cells = |line: &'static str| {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let row = [cells.next()?, cells.next()?, cells.next()?];
        assert!(cells.next().is_none(), "a row has three cells: {line}");
        row[0].contains(|c: char| c.is_ascii_digit()).then_some(row)
    };
    DOCUMENT.lines().filter_map(cells).collect()
}

/// What stands between backticks.
pub(super) fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a test function with this name stands in the source, or a rule of the model that is made into one.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim_start).collect();
    let declares = |line: &str| {
        let function = line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
        function.is_some_and(|rest| rest.starts_with("()"))
    };
    let is_test = |at: usize| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    let is_rule = |line: &str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(": State(") || rest.starts_with(": Transition("))
    };
    lines.iter().enumerate().any(|(at, line)| (declares(line) && is_test(at)) || is_rule(line))
}

/// Whether there is a test with the path that `cargo test` prints, behind the crate's name where it is not this one.
pub(super) fn is_rust_test(path: &str) -> bool {
    let of_crate = CRATES.iter().filter_map(|(name, root)| Some((path.strip_prefix(name)?.strip_prefix("::")?, *root)));
    ROOTS.map(|root| (path, root)).into_iter().chain(of_crate).any(|(path, root)| is_test_below(root, path))
}

fn is_test_below(root: &str, path: &str) -> bool {
    let mut modules: Vec<&str> = path.split("::").collect();
    let name = modules.pop().unwrap_or_default();
    // The last modules may stand inside the file of those before.
    (1..=modules.len()).any(|files| {
        let (file, inline) = (modules[..files].join("/"), &modules[files..]);
        let places = [format!("{root}/{file}.rs"), format!("{root}/{file}/mod.rs")];
        places
            .into_iter()
            .filter_map(|place| fs::read_to_string(at(&place)).ok())
            .any(|source| has_test(&source, name) && inline.iter().all(|module| source.contains(&format!("mod {module} {{"))))
    })
}

/// Whether there is a browser test with this file, these groups and this title.
fn is_browser_test(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split(BELOW).collect();
    let title = parts.pop().unwrap_or_default();
    let Some((file, groups)) = parts.split_first() else { return false };
    let Ok(source) = fs::read_to_string(at(BROWSER_TESTS).join(file)) else { return false };
    let has = |call: &str, title: &&str| source.contains(&format!("{call}(\"{title}\","));
    has("test", &title) && groups.iter().all(|group| has("test.describe", group))
}

#[test]
fn every_test_that_the_table_names_exists() {
    let tests: BTreeSet<&str> = rows().into_iter().flat_map(|[_, _, tests]| named(tests)).collect();
    let exists = |test: &str| if test.contains(BELOW) { is_browser_test(test) } else { is_rust_test(test) };
    let missing: Vec<_> = tests.iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "docs/field-reports.md names what does not exist: {missing:#?}");
}

#[test]
fn every_row_has_a_test_or_says_why_not() {
    let mut ids = BTreeSet::new();
    for [id, fault, tests] in rows() {
        assert!(ids.insert(id), "{id} has two rows");
        assert!(!fault.is_empty(), "{id} says nothing");
        let reason = tests.strip_prefix(NOT_HERE).is_some_and(|reason| reason.ends_with('.'));
        assert!(reason != (named(tests).count() > 0), "{id} has either tests or a reason: {tests}");
    }
    assert_eq!(ids.len(), 112, "reports and must-have tests: {ids:?}");
}

/// A check that finds everything would find renamed tests too.
#[test]
fn what_does_not_exist_is_not_found() {
    let here = "docs::field_reports::what_does_not_exist_is_not_found";
    assert!(is_rust_test(here) && is_rust_test("domain::hold::tests::a_hold_is_written_as_it_is_read"));
    assert!(is_rust_test("contract::explore::properties::evidence_is_never_wrong"));
    for wrong in [
        "docs::field_reports::what_does_not_exist",
        // A function, and no test.
        "docs::field_reports::rows",
        "docs::what_does_not_exist_is_not_found",
        "docs::field_reports::tests::what_does_not_exist_is_not_found",
        "contract::explore::properties::evidence",
        "what_does_not_exist_is_not_found",
    ] {
        assert!(!is_rust_test(wrong), "{wrong}");
    }
    assert!(is_browser_test("cancel.spec.ts › while collecting › a cancel leaves nothing behind"));
    for wrong in [
        "cancel.spec.ts › a cancel leaves nothing",
        "cancel.spec.ts › while sleeping › a cancel leaves nothing behind",
        "sleep.spec.ts › a cancel leaves nothing behind",
        "a cancel leaves nothing behind",
    ] {
        assert!(!is_browser_test(wrong), "{wrong}");
    }
}
