//! The table of the protocol's mechanisms names the test that shows each. A test that is renamed takes its row with it.

use super::field_reports::{is_rust_test, named};

const DOCUMENT: &str = include_str!("../../../docs/mcp.md");

/// The last cells of the rows that name what shows them.
fn shown_by() -> Vec<(&'static str, &'static str)> {
    let table = DOCUMENT.lines().skip_while(|line| !line.starts_with("| mechanism |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|row| (row, row.trim_end_matches('|').rsplit('|').next().unwrap_or_default())).collect()
}

#[test]
fn every_mechanism_is_shown_by_tests_that_exist() {
    let rows = shown_by();
    assert!(rows.len() >= 15, "{rows:?}");
    for (row, tests) in rows {
        assert_eq!(row.matches('|').count(), 6, "a row has five cells: {row}");
        assert!(named(tests).count() > 0, "nothing shows this: {row}");
        for test in named(tests) {
            assert!(is_rust_test(test), "docs/mcp.md names what does not exist: {test}");
        }
    }
}
