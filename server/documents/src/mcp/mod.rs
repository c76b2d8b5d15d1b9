//! Recount as a client: MCP servers that documents are asked from, over stdio and Streamable HTTP.
//!
//! A connection serves one source of one job, one call at a time, so that no call that was broken off can stand in the way of
//! another job's. After a call that was broken off it is closed and replaced within the job as well: nobody knows what the
//! server is in the middle of. Nothing here knows the database; what is written down about a call is `job::remote`'s.

mod call;
mod connection;
mod content;
mod fault;
mod fill;
mod process;
mod settings;

pub use call::{Cause, Ended, Limits, Signal};
pub use connection::Connection;
pub use content::{Given, Part, contents, described, parts};
pub use fault::Fault;
pub use fill::{Fill, UnknownPlaceholder, names_month};
pub use settings::{Link, Program, ServerSettings, ServerSource, Servers, ToolCall, Wanted};
