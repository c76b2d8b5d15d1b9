//! Documents for reports: the [`source`]s that an administrator allows, the servers of others that are asked over [`mcp`], and
//! how bytes are [`read`] as text with a date.

pub mod mcp;
pub mod read;
pub mod source;
