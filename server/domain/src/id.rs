//! Ids are UUIDv7 (RFC 9562), so that they sort by the time of their making, wrapped so that one kind is never taken for another.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type)]
        #[serde(transparent)]
        #[sqlx(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id.
            #[expect(clippy::new_without_default, reason = "every id is different; a default would hide that")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

id!(
    /// Names a job; made before any work begins.
    JobId
);
id!(
    /// Names a saved report.
    ReportId
);
id!(
    /// Names a person.
    UserId
);
id!(
    /// Names an uploaded file.
    UploadId
);
id!(
    /// Names a signed-in device.
    SessionId
);
id!(
    /// Names an API token.
    TokenId
);
id!(
    /// Names one request for a job: sending it again gives the same job.
    RequestKey
);

/// The longest text that a request may be named by, in bytes.
pub const MAX_REQUEST_KEY: usize = 255;

impl RequestKey {
    /// The key that a program names a request by, such as an `Idempotency-Key`: a UUID is taken as it is, and any other text
    /// gives the same key every time. `None` for an empty text or one that is too long.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_good = !text.is_empty() && text.len() <= MAX_REQUEST_KEY;
        is_good.then(|| text.parse().unwrap_or_else(|_| Self::made_of(text)))
    }

    /// The key that any text gives, every time the same.
    pub fn made_of(text: &str) -> Self {
        Self(Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()))
    }
}

/// A Message-ID from 128 random bits: unguessable, so that nobody outside can claim to have seen it.
pub fn message_id(random: u128, domain: &str) -> String {
    format!("<{random:032x}@{domain}>")
}
