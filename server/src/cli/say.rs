//! What the commands say. Whoever reads it may have gone (`| head`, a terminal that was closed): then nobody is told, which is no
//! reason to give up the work, let alone to panic as `println!` does.

use std::{fmt::Arguments, io::Write};

/// Says a line on standard output, written as for `println!`.
macro_rules! say {
    ($($line:tt)*) => { $crate::cli::say::write_line(std::io::stdout().lock(), format_args!($($line)*)) };
}

/// Says a line on standard error: standard output has nothing but what was asked for.
macro_rules! note {
    ($($line:tt)*) => { $crate::cli::say::write_line(std::io::stderr().lock(), format_args!($($line)*)) };
}

pub(super) use {note, say};

/// Writes a line to whoever still reads.
pub(super) fn write_line(mut to: impl Write, line: Arguments<'_>) {
    let _ = writeln!(to, "{line}");
}
