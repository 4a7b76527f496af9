//! Who may ask and who may change: [`Access`] as a token grants it.

use subtle::ConstantTimeEq as _;

use crate::config::Tokens;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Look whether the service is well.
    Nothing,
    /// Ask for decisions: check, peek, charge.
    Usage,
    /// Refund, reset, inspect.
    Admin,
}

/// Marks a response to a caller that sent a wrong token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WrongToken;

/// Marks the response to a login with the right token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedIn;

impl Tokens {
    /// Whether any tokens are configured.
    pub(crate) fn are_configured(&self) -> bool {
        self.admin.is_some() || self.usage.is_some()
    }

    /// What a caller with this token, or with none, may do.
    pub(crate) fn grant(&self, shown: Option<&[u8]>) -> Access {
        let is = |token: &Option<String>| match (token, shown) {
            (Some(token), Some(shown)) => bool::from(token.as_bytes().ct_eq(shown)),
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

    /// Whether a token that was shown is one of ours.
    pub(crate) fn knows(&self, shown: &[u8]) -> bool {
        let mut known = [&self.usage, &self.admin].into_iter().flatten();
        known.any(|token| bool::from(token.as_bytes().ct_eq(shown)))
    }

    /// The token in `Authorization: Bearer …`.
    pub(crate) fn bearer(header: &[u8]) -> Option<&[u8]> {
        let (scheme, token) = header.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
    }
}
