//! Who asks, and what they may do here. Every handler asks this one place, so that a token of fewer rights is refused alike by
//! tools, tasks and resources.

use app::model::Viewer;
use std::fmt;

/// A person together with what the way they came by allows.
#[derive(Debug, Clone)]
pub struct Principal {
    viewer: Viewer,
    may_read: bool,
    may_write: bool,
}

/// What something takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// To look at reports and jobs.
    Read,
    /// To start and to cancel reports.
    Write,
}

impl Scope {
    /// The name that people give tokens rights by.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The token lacks a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub Scope);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = match self.0 {
            Scope::Read => (Scope::Read.name(), "look at reports"),
            Scope::Write => (Scope::Write.name(), "start or cancel reports"),
        };
        write!(f, "This token may not {what}: it lacks the scope \"{name}\". Use a token that has it.")
    }
}

impl Principal {
    /// Somebody who may do here whatever the person may do.
    pub fn whole(viewer: Viewer) -> Self {
        Self { viewer, may_read: true, may_write: true }
    }

    /// The person, for what takes this scope.
    pub fn with(&self, scope: Scope) -> Result<&Viewer, Missing> {
        let may = match scope {
            Scope::Read => self.may_read,
            Scope::Write => self.may_write,
        };
        may.then_some(&self.viewer).ok_or(Missing(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_scope_is_named() {
        let viewer = Viewer { id: String::new(), email: String::new(), is_admin: true, zone: "UTC".into(), session: None };
        let reads = Principal { may_write: false, ..Principal::whole(viewer) };
        assert!(reads.with(Scope::Read).is_ok());
        let refused = reads.with(Scope::Write).unwrap_err();
        assert!(refused.to_string().contains("lacks the scope \"write\""), "{refused}");
    }
}
