//! The four steps. Each ends with one transaction that holds its result, its end and the next step's start.

pub mod collect;
pub mod email;
pub mod save;
pub mod summarize;
