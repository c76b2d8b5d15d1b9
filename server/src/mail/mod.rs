//! E-mail whose outcome is known: one message, one recipient, one honest answer.
//!
//! [`address`] turns what a person typed into recipients, [`compose`] renders a notice once into
//! the bytes that are ever sent, and a [`channel::Channel`] hands those bytes over and says what
//! became of them. Two channels exist: [`smtp`] for a mail server and [`outbox`] for a folder of
//! `.eml` files. None of them sends anything twice on its own: whether to try again is the
//! caller's decision, made from the [`channel::Delivery`] that it gets. What no answer came for, a [`look`]
//! may find later.

pub mod address;
pub mod channel;
pub mod compose;
mod evidence;
pub mod look;
pub mod outbox;
pub mod smtp;
mod trust;
