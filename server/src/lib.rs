//! The server of Recount: pages, API, worker and command line over one store. `app` holds what the browser knows as well.

// They panic where nobody reads any more; see `cli::say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// Support for tests is shared with tests/, which know this crate by its name.
#[cfg(test)]
extern crate self as server;

pub mod api;
pub mod cli;
pub mod descriptors;
pub mod http;
pub mod mcp;
pub mod report;
pub mod service;
pub mod settings;
pub mod worker;
