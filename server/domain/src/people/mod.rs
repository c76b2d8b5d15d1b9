//! Who may use an instance, and how they prove it: passwords in the browser, tokens for programs.
//!
//! Nothing here knows HTTP. What must not be mixed up has its own type: an [`EmailAddress`] is checked and normalised, a
//! [`NewPassword`](password::NewPassword) obeys the rule, a [`PasswordHash`](password::PasswordHash) is safe to store, and a
//! [`BearerSecret`](bearer::BearerSecret) is shown once and stored only as its digest.

pub mod bearer;
mod email;
pub mod password;
mod scopes;
pub mod throttle;

pub use email::{EmailAddress, InvalidEmail};
pub use scopes::{Scope, Scopes, UnknownScope};

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sees everybody's jobs and the effect history.
    Admin,
    /// Sees their own jobs and reports.
    User,
}

impl Role {
    /// The name under which the role is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::User => "user",
        }
    }

    /// The role with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "admin" => Some(Self::Admin),
            "user" => Some(Self::User),
            _ => None,
        }
    }
}
