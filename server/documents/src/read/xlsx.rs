//! Excel workbooks (Office Open XML): each sheet under its name, one line `a | b | c` per row, dates in ISO 8601.
//!
//! Cells are read one by one. A table in memory, as calamine's `Range` is one, would be as large as a hostile cell address claims.

use std::fmt::Write as _;
use std::io::Cursor;

use calamine::{DataRef, ExcelDateTime, Reader, SheetType, SheetVisible, Xlsx, XlsxError};

use super::archive::Archive;
use super::delimited::row;
use super::draft::{Draft, Refusal};
use super::{Limits, properties};

/// More empty cells than this between two others are shown as this many.
const MAX_GAP: u32 = 32;
/// A sheet name is at most 31 characters in Excel; a longer one is cut.
const MAX_NAME_CHARS: usize = 100;

pub(super) fn read(bytes: &[u8], limits: &Limits, draft: &mut Draft) -> Result<(), Refusal> {
    let mut archive = Archive::open(bytes, limits)?;
    archive.check_all()?;
    properties::read(&mut archive, draft);
    drop(archive);
    let mut workbook = Xlsx::new(Cursor::new(bytes)).map_err(|error| refusal(&error))?;
    for sheet in workbook.sheets_metadata().to_vec() {
        let name: String = sheet.name.chars().take(MAX_NAME_CHARS).collect();
        if sheet.typ != SheetType::WorkSheet {
            draft.note(format!("sheet \"{name}\" holds no cells"));
            continue;
        }
        let hidden = if sheet.visible == SheetVisible::Visible { "" } else { " (hidden sheet)" };
        let heading = format!("## {name}{hidden}\n");
        if read_sheet(&mut workbook, &sheet.name, &heading, draft).is_err() {
            draft.note(format!("sheet \"{name}\" could not be read to its end"));
        }
    }
    Ok(())
}

fn read_sheet(workbook: &mut Xlsx<Cursor<&[u8]>>, name: &str, heading: &str, draft: &mut Draft) -> Result<(), XlsxError> {
    let mut cells = workbook.worksheet_cells_reader(name)?;
    let mut heading = Some(heading);
    let mut line: Vec<String> = Vec::new();
    let mut line_row = 0;
    let mut next_column = 0;
    let mut finish = |line: &mut Vec<String>, draft: &mut Draft| {
        if let Some(line) = row(line.iter().map(String::as_str)) {
            if let Some(heading) = heading.take() {
                draft.push_block(heading);
            }
            draft.push_line(&line);
        }
        line.clear();
    };
    let outcome = loop {
        let cell = match cells.next_cell() {
            Ok(Some(cell)) => cell,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let (row, column) = cell.get_position();
        if row != line_row {
            finish(&mut line, draft);
            line_row = row;
            next_column = 0;
        }
        let gap = column.saturating_sub(next_column).min(MAX_GAP);
        line.extend((0..gap).map(|_| String::new()));
        next_column = column.saturating_add(1);
        line.push(value(cell.get_value()));
    };
    finish(&mut line, draft);
    outcome
}

fn value(cell: &DataRef<'_>) -> String {
    match cell {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => float(*number),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::Bool(value) => (if *value { "true" } else { "false" }).to_owned(),
        DataRef::DateTime(moment) => date_time(*moment),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => text.clone(),
        DataRef::Error(error) => error.to_string(),
        DataRef::Empty => String::new(),
    }
}

/// A number to the 15 significant digits that Excel computes with, so that 0.1 + 0.2 reads 0.3.
fn float(number: f64) -> String {
    let rounded = format!("{number:.14e}").parse().unwrap_or(number);
    let magnitude = rounded.abs();
    if rounded == 0.0 || (1e-6..1e15).contains(&magnitude) {
        // The sign of zero means nothing to a reader.
        format!("{}", rounded + 0.0)
    } else {
        format!("{rounded:e}")
    }
}

fn date_time(moment: ExcelDateTime) -> String {
    if !moment.as_f64().is_finite() || moment.as_f64() < 0.0 {
        return float(moment.as_f64());
    }
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    let mut text = String::new();
    if moment.is_duration() || moment.as_f64() < 1.0 {
        let days = if moment.is_duration() { moment.as_f64().trunc() } else { 0.0 };
        let hours = days * 24.0 + f64::from(hour);
        // Writing into a String cannot fail.
        let _ = write!(text, "{hours}:{minute:02}:{second:02}");
        return text;
    }
    let _ = write!(text, "{year:04}-{month:02}-{day:02}");
    if (hour, minute, second) != (0, 0, 0) {
        let _ = write!(text, " {hour:02}:{minute:02}");
    }
    if second != 0 {
        let _ = write!(text, ":{second:02}");
    }
    text
}

fn refusal(error: &XlsxError) -> Refusal {
    match error {
        XlsxError::Password => Refusal::Locked("it is protected with a password".to_owned()),
        _ => Refusal::Unreadable("its content is not that of a complete Excel workbook".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use calamine::ExcelDateTimeType;

    #[test]
    fn numbers_read_as_people_wrote_them() {
        assert_eq!(float(0.1 + 0.2), "0.3");
        assert_eq!(float(-0.0), "0");
        assert_eq!(float(1_234_567.0), "1234567");
        assert_eq!(float(1e300), "1e300");
        assert_eq!(float(f64::NAN), "NaN");
    }

    #[test]
    fn dates_read_in_iso_8601() {
        let moment = |value| date_time(ExcelDateTime::new(value, ExcelDateTimeType::DateTime, false));
        assert_eq!(moment(46176.0), "2026-06-03");
        assert_eq!(moment(46176.5), "2026-06-03 12:00");
        assert_eq!(moment(0.25), "6:00:00");
        let duration = ExcelDateTime::new(1.5, ExcelDateTimeType::TimeDelta, false);
        assert_eq!(date_time(duration), "36:00:00");
    }
}
