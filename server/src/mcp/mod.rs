//! The Model Context Protocol (revision 2026-07-28, and the handshake of the older ones): assistants start, follow and cancel
//! reports through it, over the same desk as people, and documents are collected from the servers of others.

pub mod client;
pub mod server;
