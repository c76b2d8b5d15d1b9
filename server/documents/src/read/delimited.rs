//! Comma-, semicolon- and tab-separated values (RFC 4180 and its relatives): one line `a | b | c` per record.

use csv::{ReaderBuilder, StringRecord};

use super::draft::Draft;

pub(super) fn read(text: &str, draft: &mut Draft) {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).delimiter(delimiter(text)).from_reader(text.as_bytes());
    let mut record = StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {
                if let Some(row) = row(record.iter()) {
                    draft.push_line(&row);
                }
            }
            Ok(false) => return,
            Err(_) => {
                draft.note("a record in it is broken, what follows was not read");
                return;
            }
        }
    }
}

/// Cells as one line, without the empty ones at the end; `None` if all are empty.
pub(super) fn row<'a>(cells: impl Iterator<Item = &'a str>) -> Option<String> {
    let cells: Vec<String> = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let last = cells.iter().rposition(|cell| !cell.is_empty())?;
    Some(cells[..=last].join(" | "))
}

/// The separator that the first lines use most, outside quotes.
fn delimiter(text: &str) -> u8 {
    const CANDIDATES: [u8; 4] = *b",;\t|";
    let mut counts = [0_usize; CANDIDATES.len()];
    let mut quoted = false;
    for byte in text.lines().take(20).flat_map(str::bytes) {
        if byte == b'"' {
            quoted = !quoted;
        } else if let (false, Some(index)) = (quoted, CANDIDATES.iter().position(|c| *c == byte)) {
            counts[index] += 1;
        }
    }
    // The comma wins a tie, because it is the standard's.
    (0..CANDIDATES.len()).rev().max_by_key(|index| counts[*index]).map_or(b',', |index| CANDIDATES[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> String {
        let mut draft = Draft::new(1000);
        read(text, &mut draft);
        draft.finish(super::super::Format::Csv, Ok(())).text
    }

    #[test]
    fn records_become_lines_whatever_separates_them() {
        assert_eq!(table("a,b,c\n1,\"x, \"\"y\"\"\nz\",\n"), "a | b | c\n1 | x, \"y\" z");
        assert_eq!(table("\u{feff}a;b\n1,5;2\n"), "a | b\n1,5 | 2");
        assert_eq!(table("a\tb\n\n1,5\tc"), "a | b\n1,5 | c");
        assert_eq!(table("alone\n"), "alone");
    }

    #[test]
    fn rows_of_unequal_length_and_an_open_quote_are_read() {
        assert_eq!(table("a,b\nc\n,,\nd,\"e"), "a | b\nc\nd | e");
    }
}
