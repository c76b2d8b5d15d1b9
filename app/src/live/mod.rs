//! What keeps a screen up to date: streams that only say that something has changed. What has changed is always read by the same
//! server function that the page was made with, so that there is one way for data to reach a screen.

mod line;
mod news;

pub use line::{Line, Told};
pub use news::{AsOf, News, provide_news};
