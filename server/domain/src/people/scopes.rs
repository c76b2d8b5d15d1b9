//! What a token may do for its owner. A scope only takes away: no token may do more than the person whom it belongs to, so that
//! an administrator's token that may write is an administrator's, and another's is not.

use std::{fmt, str::FromStr};

/// One thing that a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Look at jobs, reports and effects, and follow them.
    Read,
    /// Start, cancel and change.
    Write,
}

impl Scope {
    const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The name, as tokens store it and programs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "reports:read",
            Self::Write => "reports:write",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write reports:read or reports:write")]
pub struct UnknownScope;

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(name: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == name).ok_or(UnknownScope)
    }
}

/// Everything that a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes {
    read: bool,
    write: bool,
}

impl Scopes {
    /// As the owner in the browser.
    pub const ALL: Self = Self { read: true, write: true };

    /// It may only look.
    pub const READ: Self = Self { read: true, write: false };

    /// Whether this is among them.
    pub const fn contains(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Write => self.write,
        }
    }
}

/// Reads what [`Display`](fmt::Display) writes. Names that nobody knows here are a newer version's: they give nothing.
impl From<String> for Scopes {
    fn from(text: String) -> Self {
        text.split_ascii_whitespace().flat_map(Scope::from_str).collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        let mut all = Self { read: false, write: false };
        for scope in scopes {
            match scope {
                Scope::Read => all.read = true,
                Scope::Write => all.write = true,
            }
        }
        all
    }
}

/// The names with a space between them (RFC 6749 3.3).
impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for scope in Scope::ALL.into_iter().filter(|scope| self.contains(*scope)) {
            write!(f, "{between}{scope}")?;
            between = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for (scopes, text) in [
            (Scopes::ALL, "reports:read reports:write"),
            (Scopes::READ, "reports:read"),
            ([Scope::Write].into_iter().collect(), "reports:write"),
            ([].into_iter().collect(), ""),
        ] {
            assert_eq!(scopes.to_string(), text);
            assert_eq!(Scopes::from(text.to_owned()), scopes);
        }
    }

    #[test]
    fn what_nobody_knows_gives_nothing() {
        assert_eq!(Scopes::from("reports:read everything Reports:Write".to_owned()), Scopes::READ);
        assert_eq!("reports".parse::<Scope>(), Err(UnknownScope));
    }
}
