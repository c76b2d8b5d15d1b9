//! What Recount is about, before anything is stored, read or sent: people and what they may carry, months in time zones, the
//! order for a report, where its documents may be, and what became of each. Pure but for a clock and random bytes.

pub mod clock;
pub mod coverage;
pub mod fail_point;
pub mod hold;
pub mod id;
pub mod people;
pub mod period;
pub mod place;
pub mod recipients;
pub mod request;
pub mod spec;
pub mod text;
