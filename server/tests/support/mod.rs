//! What several test files need.

pub mod mail;
pub mod smtp_run;
pub mod smtp_server;
