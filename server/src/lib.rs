//! The server of Recount: pages, API, worker and command line over one store. `app` holds what the browser knows as well.

pub mod api;
pub mod bus;
pub mod cli;
pub mod clock;
pub mod desk;
pub mod extract;
pub mod fail_point;
pub mod files;
pub mod http;
pub mod id;
pub mod job;
pub mod mail;
pub mod people;
pub mod period;
pub mod report;
pub mod settings;
pub mod source;
pub mod store;
pub mod summarizer;
pub mod words;
