//! The one error that crosses from the server to a page. It never carries a cause: that is logged where it happened.

use leptos::{
    prelude::{FromServerFnError, ServerFnErrorErr},
    server_fn::codec::JsonEncoding,
};
use serde::{Deserialize, Serialize};

/// What a page can be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AppError {
    /// 401
    #[error("Please sign in.")]
    SignInRequired,
    /// 403
    #[error("You may not do that.")]
    Forbidden,
    /// 404, also for what exists but is not theirs to see
    #[error("There is nothing here, or it is not yours to see.")]
    NotFound,
    /// 410: the report was taken back. Who, when and why is all that remains to be read.
    #[error("Withdrawn on {at} by {by}: {why}")]
    Withdrawn { title: String, at: String, by: String, why: String },
    /// 400, with a sentence that says what to do
    #[error("{0}")]
    Invalid(String),
    /// 503: the database is in trouble, which passes; with a sentence about it
    #[error("{0}")]
    Unavailable(String),
    /// The browser could not reach the server.
    #[error("The server cannot be reached.")]
    Unreachable,
    /// 500
    #[error("Something went wrong on our side. It has been written to the server's log.")]
    Internal,
}

impl AppError {
    /// The HTTP status that goes with it.
    pub fn status(&self) -> u16 {
        match self {
            Self::SignInRequired => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Withdrawn { .. } => 410,
            Self::Invalid(_) => 400,
            Self::Unavailable(_) | Self::Unreachable => 503,
            Self::Internal => 500,
        }
    }
}

impl FromServerFnError for AppError {
    type Encoder = JsonEncoding;

    fn from_server_fn_error(error: ServerFnErrorErr) -> Self {
        match error {
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) | ServerFnErrorErr::Deserialization(_) => {
                Self::Invalid("The form could not be read. Reload the page and try again.".into())
            }
            ServerFnErrorErr::Request(_) => Self::Unreachable,
            _ => Self::Internal,
        }
    }
}
