//! The program: see `recount --help`.

use clap::Parser;
use server::cli::Cli;
use std::process::ExitCode;

/// The arguments could not be understood (`EX_USAGE` of sysexits.h). clap's own 2 would read as "something unconfirmed".
const USAGE: u8 = 64;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match cli.run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("recount: {error:#}");
            ExitCode::FAILURE
        }
    }
}
