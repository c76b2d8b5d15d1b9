//! The program: see `recount --help`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

use clap::Parser;
use server::cli::Cli;
use std::{
    fmt::Arguments,
    io::{Write, stderr},
    process::ExitCode,
};
use tokio::runtime::Runtime;

/// The arguments could not be understood (`EX_USAGE` of sysexits.h). clap's own 2 would read as "something unconfirmed".
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format_args!("the program cannot start its threads: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(cli.run()).unwrap_or_else(|error| {
        complain(format_args!("{error:#}"));
        ExitCode::FAILURE
    });
    // A document that is still being read has no effect outside, so nobody waits for it.
    runtime.shutdown_background();
    code
}

/// Says it to whoever still reads; `eprintln!` would panic where nobody does.
fn complain(what: Arguments<'_>) {
    let _ = writeln!(stderr(), "recount: {what}");
}
