//! The small parts that pages are made of. Each carries its rules for assistive technology, so that pages need not.

mod act;
mod escaped;
mod facts;
mod field;
mod frame;
mod ledger;
mod load;
mod mark;
mod notice;
mod problem;
mod rows;
mod said;
mod time;

pub use act::{Act, ActForm, FoldedAct};
pub use escaped::{escaped, tab_title};
pub use facts::Facts;
pub use field::Field;
#[cfg(feature = "ssr")]
pub use frame::{Frame, account_masthead};
pub use frame::{Framed, Here, page, provide_frame};
pub use ledger::{Cell, Ledger};
pub use load::load;
pub use mark::StateMark;
pub use notice::{Notice, Tone};
pub use problem::problem;
pub use rows::{Row, Rows};
pub use said::SaidNotice;
pub use time::Time;
