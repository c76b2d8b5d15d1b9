//! The wait before the e-mail goes out. Nobody works on a held job: it is a row with the time at which its hold ends, or with
//! none while it waits for an approval. A sweep ends the holds whose time has come, so that no death of a worker matters.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The longest countdown, in seconds: a day.
const MAX_SECONDS: u32 = 24 * 60 * 60;

/// What happens between the saved report and its e-mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Hold {
    /// The e-mail goes out at once.
    #[default]
    None,
    /// It goes out after so many seconds.
    Countdown(u32),
    /// It goes out when somebody says so.
    Approval,
}

/// The text names no hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no hold. Write none, approval, or a number of seconds from 1 to {MAX_SECONDS}.")]
pub struct UnknownHold(String);

impl FromStr for Hold {
    type Err = UnknownHold;

    fn from_str(text: &str) -> Result<Self, UnknownHold> {
        match text.trim() {
            "" | "none" => Ok(Self::None),
            "approval" => Ok(Self::Approval),
            seconds => match seconds.parse() {
                Ok(seconds) if (1..=MAX_SECONDS).contains(&seconds) => Ok(Self::Countdown(seconds)),
                _ => Err(UnknownHold(text.to_owned())),
            },
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Countdown(seconds) => seconds.fmt(f),
            Self::Approval => f.write_str("approval"),
        }
    }
}

impl TryFrom<String> for Hold {
    type Error = UnknownHold;

    fn try_from(text: String) -> Result<Self, UnknownHold> {
        text.parse()
    }
}

impl From<Hold> for String {
    fn from(hold: Hold) -> Self {
        hold.to_string()
    }
}

impl Hold {
    /// "after 30 s", "after an approval"; nothing where there is no hold.
    pub fn describe(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Countdown(seconds) => Some(format!("after {seconds} s")),
            Self::Approval => Some("after an approval".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_written_as_it_is_read() {
        for hold in [Hold::None, Hold::Countdown(30), Hold::Approval] {
            assert_eq!(hold.to_string().parse(), Ok(hold));
        }
        assert_eq!("".parse(), Ok(Hold::None));
    }

    #[test]
    fn what_is_no_hold_is_refused() {
        for text in ["soon", "0", "-1", "86401", "1.5"] {
            assert!(text.parse::<Hold>().is_err(), "{text}");
        }
    }
}
