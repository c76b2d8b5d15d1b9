pub mod contract;
pub mod error;
pub mod model;
#[cfg(feature = "ssr")]
pub mod ports;
