//! Recount as an MCP server, at `/mcp` ([`http`]) and on the standard streams of `recount mcp` ([`stdio`]).
//!
//! It adds a way to ask and no rule: every tool, task and resource goes through the service, so that rights, sentences and the
//! order of a cancel and a commit are those of the pages. What is special to the protocol is which signal means a cancel of
//! what, and that is kept apart here:
//!
//! - a *request* is cancelled by `notifications/cancelled` on stdio and by its closed response stream on HTTP. Only
//!   `generate_report` has work that belongs to its request ([`generate`]);
//! - a *task* is a job's record ([`tasks`]), and `tasks/cancel` its Cancel button. No connection that ends touches one.

mod arguments;
#[cfg(feature = "fail-points")]
mod fixtures;
mod generate;
mod handler;
pub mod http;
mod order;
mod principal;
mod prompts;
mod resources;
mod results;
pub mod stdio;
mod tasks;
mod tools;

pub use generate::Ends;
pub use handler::Recount;
pub use principal::Principal;
