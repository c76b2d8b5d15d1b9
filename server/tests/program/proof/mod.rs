//! The proof of the program: the real binary, held at a fail point, and then cancelled, killed, or let go.

mod asleep;
mod evidence;
mod honesty;
mod kill_matrix;
pub mod moments;
pub mod world;
