//! The Model Context Protocol, revision 2026-07-28, through `rmcp`.

pub mod client;
