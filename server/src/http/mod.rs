//! The web: every route and every layer is in [`router`]; the other files each hold one area's handlers.

mod account;
mod afterwards;
mod assets;
mod assistant;
pub mod connections;
mod device;
mod effects;
mod events;
mod jobs;
mod page;
mod people;
#[cfg(test)]
mod people_tests;
pub mod problem;
mod rendering;
mod router;
mod security;
pub mod session;
mod sign_in;
mod state;

pub use people::PeopleState;
pub use router::router;
pub use state::AppState;
