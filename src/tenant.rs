//! Tenant ids: one parser, and the only thing that may become a path segment.

use std::{fmt, str::FromStr};

/// A tenant: `[a-z0-9][a-z0-9_-]{0,62}`. `.`, `..`, the empty string and path separators cannot be expressed.
///
/// It comes from a credential only (invariant 6), never from a header or an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Box<str>);

/// The text is not a tenant id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a tenant id: use 1 to 63 of a-z, 0-9, '_' and '-', starting with a letter or a digit")]
pub struct InvalidTenantId;

impl TenantId {
    /// The tenant of a server that was started without keys.
    pub fn embedded() -> Self {
        Self("default".into())
    }

    /// The id as text, fit for a path segment.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantId {
    type Err = InvalidTenantId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let starts_plain = text.bytes().next().is_some_and(plain);
        let rest_plain = text.bytes().all(|b| plain(b) || b == b'_' || b == b'-');
        if starts_plain && rest_plain && text.len() <= 63 {
            Ok(Self(text.into()))
        } else {
            Err(InvalidTenantId)
        }
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_a_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "a\\b", "A", "-a", "_a", "a\0", "a.b", "ä", &"a".repeat(64)] {
            assert_eq!(bad.parse::<TenantId>(), Err(InvalidTenantId), "{bad:?}");
        }
        for good in ["default", "a", "0", "acme-eu_1", &"a".repeat(63)] {
            assert!(good.parse::<TenantId>().is_ok(), "{good:?}");
        }
    }
}
