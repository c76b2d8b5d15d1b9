//! E-mail whose outcome is known: one message, one recipient, one honest answer.
//!
//! [`compose`] renders a notice once into
//! the bytes that are ever sent, and a [`channel::Channel`] hands those bytes over and says what
//! became of them. Three channels exist: [`smtp`] for a mail server, [`resend`] for a service that
//! takes messages over HTTP and [`outbox`] for a folder of `.eml` files. None of them sends
//! anything twice on its own: whether to try again is the caller's decision, made from the
//! [`channel::Delivery`] that it gets and from the [`key`] by which a service may recognise a
//! message. What no answer came for, a [`probe`] may find later.

pub mod channel;
pub mod compose;
mod evidence;
pub mod key;
pub mod outbox;
pub mod probe;
pub mod resend;
pub mod smtp;
mod trust;
