//! [`Access`]: the operations that a token permits.

use subtle::ConstantTimeEq as _;

use crate::config::Tokens;

/// The operations that a caller may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Only the health checks.
    Nothing,
    /// Decisions: check, peek, charge.
    Usage,
    /// Everything: also refund, reset, inspect and overrides.
    Admin,
}

/// Marks a response to a caller that sent a wrong token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrongToken;

/// Marks the response to a login with the right token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedIn;

impl Tokens {
    /// Returns whether any tokens are configured.
    pub(crate) fn are_configured(&self) -> bool {
        self.admin.is_some() || self.usage.is_some()
    }

    /// Returns the access of a caller with this token, or without one.
    pub(crate) fn grant(&self, token: Option<&[u8]>) -> Access {
        let is = |known: &Option<String>| match (known, token) {
            (Some(known), Some(token)) => bool::from(known.as_bytes().ct_eq(token)),
            _ => false,
        };
        if self.admin.is_none() || is(&self.admin) {
            Access::Admin
        } else if self.usage.is_none() || is(&self.usage) {
            Access::Usage
        } else {
            Access::Nothing
        }
    }

    /// Returns whether a token is one of the configured ones.
    pub(crate) fn contains(&self, token: &[u8]) -> bool {
        let mut known = [&self.usage, &self.admin].into_iter().flatten();
        known.any(|known| bool::from(known.as_bytes().ct_eq(token)))
    }

    /// Returns the token in `Authorization: Bearer …`.
    pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
        let (scheme, token) = header.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
    }
}
