//! Why a server gave no answer, as phrases for the coverage list. Addresses are left out of them: they may hold secrets.

use reqwest::Error as HttpError;
use rmcp::{
    model::ErrorData,
    service::{ClientInitializeError, ServiceError},
    transport::streamable_http_client::StreamableHttpError,
};
use std::{error::Error, time::Duration};

/// The longest text of a server's own that is passed on, in characters.
const MAX_SAID: usize = 300;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its program {program} cannot be started: {why}")]
    NotStarted { program: String, why: String },
    #[error(
        "its program ended before it spoke the protocol; with RECOUNT_LOG=server=debug the log shows what it complains about"
    )]
    EndedAtOnce,
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("it does not let Recount in; check bearer_token in the settings")]
    NotLetIn,
    #[error("it did not begin to speak the protocol within {} s", .0.as_secs_f64())]
    NoGreeting(Duration),
    #[error("it does not speak the protocol as it should: {0}")]
    Confused(String),
    /// A JSON-RPC error.
    #[error("it says: {message} (error {code})")]
    Refused { code: i32, message: String },
    #[error("it gave no sign of progress for {} s", .0.as_secs_f64())]
    Silent(Duration),
    #[error("it took longer than {} s", .0.as_secs_f64())]
    TooLong(Duration),
    #[error("its answer is larger than 16 MiB")]
    TooLarge,
    #[error("it ended the connection before it had answered")]
    Gone,
    #[error("it asks for input, which nobody can give it here")]
    AsksForInput,
    #[error("it has cancelled its task itself")]
    TaskCancelled,
    #[error("it answers with a task, which it was not asked for")]
    UnaskedTask,
}

impl Fault {
    /// The protocol's code for a request whose parameters mean nothing to the server, such as an unknown task.
    const INVALID_PARAMS: i32 = -32602;

    /// Whether the server does not know what it was asked about.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Refused { code: Self::INVALID_PARAMS, .. })
    }

    /// What a server said, shortened, in one line.
    pub fn said(text: &str) -> String {
        let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_SAID + 1).collect();
        match line.char_indices().nth(MAX_SAID) {
            Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
            None => line,
        }
    }

    /// Why a connection could not be opened.
    pub(super) fn of_opening(error: &ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => Self::from(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_opening(fallback),
            ClientInitializeError::ConnectionClosed(_) => Self::Gone,
            ClientInitializeError::TransportError { error, .. } => Self::of_transport(error.error.as_ref()),
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                Self::Confused("it knows no version of it that Recount knows".into())
            }
            other => Self::Confused(Self::said(&other.to_string())),
        }
    }

    /// The text of an error of HTTP names the address, that of what lies beneath it does not.
    fn of_transport(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        let mut innermost = error;
        while let Some(current) = next {
            if let Some(error) = current.downcast_ref::<StreamableHttpError<HttpError>>() {
                match error {
                    StreamableHttpError::ResponseBodyTooLarge { .. } => return Self::TooLarge,
                    StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) => return Self::NotLetIn,
                    StreamableHttpError::HttpStatus(status) => return Self::Unreachable(status.to_string()),
                    StreamableHttpError::Client(error) => return Self::of_transport(error),
                    StreamableHttpError::UnexpectedEndOfStream | StreamableHttpError::TransportChannelClosed => {
                        return Self::Gone;
                    }
                    StreamableHttpError::UnexpectedServerResponse(said) => return Self::Confused(Self::said(said)),
                    StreamableHttpError::UnexpectedContentType(kind) => {
                        let kind = kind.as_deref().unwrap_or("no content type");
                        return Self::Confused(format!("it answers with {}", Self::said(kind)));
                    }
                    _ => {}
                }
            }
            innermost = current;
            next = current.source();
        }
        Self::Unreachable(if innermost.is::<HttpError>() {
            "the request failed".into()
        } else {
            Self::said(&innermost.to_string())
        })
    }
}

impl From<&ErrorData> for Fault {
    fn from(error: &ErrorData) -> Self {
        Self::Refused { code: error.code.0, message: Self::said(&error.message) }
    }
}

impl From<&ServiceError> for Fault {
    fn from(error: &ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::from(error),
            ServiceError::TransportSend(error) => Self::of_transport(error.error.as_ref()),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => Self::Gone,
            other => Self::Confused(Self::said(&other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_fits_into_a_line() {
        assert_eq!(Fault::said("no\nsuch\ttool"), "no such tool");
        let long = Fault::said(&"ä".repeat(1000));
        assert_eq!(long.chars().count(), MAX_SAID + 1);
        assert!(long.ends_with('…'));
    }
}
