//! The tables of the protocol's mechanisms name the test that shows each. A test that is renamed takes its row with it.

use super::field_reports::{is_rust_test, named};

const DOCUMENT: &str = include_str!("../../../docs/mcp.md");

/// The last cells of the rows that name what shows them.
fn shown_by() -> Vec<(&'static str, &'static str)> {
    let tables = DOCUMENT.split("| mechanism | target | signal | what success means | test |\n").skip(1);
    let rows = tables.flat_map(|table| table.lines().skip(1).take_while(|line| line.starts_with('|')));
    rows.map(|row| (row, row.trim_end_matches('|').rsplit('|').next().unwrap_or_default())).collect()
}

#[test]
fn every_mechanism_is_shown_by_tests_that_exist() {
    let rows = shown_by();
    assert!(rows.len() >= 25, "{rows:?}");
    for (row, tests) in rows {
        assert_eq!(row.matches('|').count(), 6, "a row has five cells: {row}");
        assert!(named(tests).count() > 0, "nothing shows this: {row}");
        for test in named(tests) {
            assert!(is_rust_test(test), "docs/mcp.md names what does not exist: {test}");
        }
    }
}
