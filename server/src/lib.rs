//! The server of Recount: pages, API, worker and command line over one store. `app` holds what the browser knows as well.

// They panic where nobody reads any more; see `cli::say`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

// Support for tests is shared with tests/, which know this crate by its name.
#[cfg(test)]
extern crate self as server;

pub mod api;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod descriptors;
pub mod desk;
pub mod extract;
pub mod fail_point;
pub mod files;
pub mod http;
pub mod id;
pub mod job;
pub mod mail;
pub mod mcp;
pub mod people;
pub mod period;
pub mod report;
pub mod settings;
pub mod source;
pub mod store;
pub mod summarizer;
pub mod words;
