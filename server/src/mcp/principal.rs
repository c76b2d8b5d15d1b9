//! Who asks, and what they may do here. The method of an HTTP request says nothing in this protocol, so every handler asks this
//! one place, and a token of fewer scopes is refused alike by tools, tasks and resources.

use crate::http::problem::Problem;
use app::model::Viewer;
use domain::people::{Scope, Scopes};

/// A person together with what the way they came by allows.
#[derive(Debug, Clone)]
pub struct Principal {
    viewer: Viewer,
    scopes: Scopes,
}

/// The token lacks a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub Scope);

impl Missing {
    /// The sentence of the API, which names the scope and says how to get it.
    pub fn sentence(self) -> String {
        Problem::insufficient_scope(self.0).detail().to_owned()
    }
}

impl Principal {
    /// A person who may do what their token's scopes allow.
    pub fn new(viewer: Viewer, scopes: Scopes) -> Self {
        Self { viewer, scopes }
    }

    /// The person, for what takes this scope.
    pub fn with(&self, scope: Scope) -> Result<&Viewer, Missing> {
        if self.scopes.contains(scope) { Ok(&self.viewer) } else { Err(Missing(scope)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_scope_is_named() {
        let viewer = Viewer { id: String::new(), email: String::new(), is_admin: true, zone: "UTC".into(), session: None };
        let reads = Principal::new(viewer, Scopes::READ);
        assert!(reads.with(Scope::Read).is_ok());
        let refused = reads.with(Scope::Write).unwrap_err();
        assert!(refused.sentence().contains(Scope::Write.name()), "{refused:?}");
    }
}
