//! [`Override`]: replaces the limits of a policy for one key, until a time or permanently.

use crate::{key::Key, policy::Policy, timestamp::Timestamp};

/// The longest note, in bytes.
const MAX_NOTE: usize = 256;

/// Replaces the limits of a policy for one key.
///
/// ```
/// use tidegate::{Cost, Key, Limiter, Override, Policy, Timestamp};
///
/// let limiter = Limiter::default();
/// let api = Policy::new("api", ["100/1m".parse()?])?;
/// let mallory = Key::new("mallory")?;
/// limiter.set_override(&api, &mallory, Override::ban())?;
/// assert!(!limiter.check(&api, &mallory, Cost::ONE).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Override {
    rule: OverrideRule,
    until: Option<Timestamp>,
    note: Box<str>,
}

/// The effect of an override.
///
/// It is exhaustive on purpose: a store does not compile until it supports a new effect.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few overrides, and most of them have limits")]
pub enum OverrideRule {
    /// The limits and the algorithm of this policy apply. Its name, mode and failure behaviour are ignored.
    Limits(Policy),
    /// Every request is denied.
    Ban,
    /// Every request is admitted, and nothing is charged.
    Exempt,
}

/// An active override and its key.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ActiveOverride {
    /// The key.
    pub key: Key<'static>,
    /// The override.
    pub r#override: Override,
    /// The time at which it was set.
    pub since: Timestamp,
}

impl ActiveOverride {
    /// The override of a key, which was set at `since`.
    pub fn new(key: Key<'static>, r#override: Override, since: Timestamp) -> Self {
        Self { key, r#override, since }
    }
}

impl Override {
    /// Applies the limits and the algorithm of `policy`. Its name, mode and failure behaviour are ignored.
    pub fn limits(policy: Policy) -> Self {
        Self::new(OverrideRule::Limits(policy))
    }

    /// Denies every request as [`Banned`](crate::Reason::Banned), until the end if it has one. A charge is counted as
    /// usual.
    pub fn ban() -> Self {
        Self::new(OverrideRule::Ban)
    }

    /// Admits every request and charges nothing.
    pub fn exempt() -> Self {
        Self::new(OverrideRule::Exempt)
    }

    fn new(rule: OverrideRule) -> Self {
        Self { rule, until: None, note: Box::default() }
    }

    /// The same override with an end. From `end` on, the policy's own limits apply again.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// The same override with a note, for example its reason.
    ///
    /// # Errors
    /// If the note is longer than 256 bytes.
    pub fn with_note(mut self, note: &str) -> Result<Self, OverrideError> {
        if note.len() > MAX_NOTE {
            return Err(OverrideError::Note { len: note.len() });
        }
        self.note = note.into();
        Ok(self)
    }

    /// The effect.
    pub fn rule(&self) -> &OverrideRule {
        &self.rule
    }

    /// The end; `None` if the override is permanent.
    pub fn end(&self) -> Option<Timestamp> {
        self.until
    }

    /// The note; empty by default.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Checks whether it can override the limits of `policy`: for authors of stores.
    ///
    /// # Errors
    /// If it has a limit on the units in open holds and the policy has none. The requests under the policy are checked and
    /// not reserved, so no hold would be counted.
    pub fn check_for(&self, policy: &Policy) -> Result<(), OverrideError> {
        let OverrideRule::Limits(limits) = &self.rule else { return Ok(()) };
        match limits.limits().iter().find(|limit| limit.is_in_flight()) {
            Some(limit) if !policy.has_in_flight_limit() => Err(OverrideError::InFlight { max: limit.max() }),
            _ => Ok(()),
        }
    }

    /// Whether the override has ended at `at`.
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.until.is_some_and(|end| end <= at)
    }
}

/// The reason why an [`Override`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A caller supplied the policy's limits.
    #[error("limits supplied by a caller cannot be overridden: use a policy with a name")]
    Unnamed,
    /// The maximum number of overrides is reached.
    #[error("the maximum of {max} overrides is reached: remove one, or set overrides with an end")]
    TooMany {
        /// The maximum number.
        max: usize,
    },
    /// The note is too long.
    #[error("a note of {len} bytes is too long: use at most 256 bytes")]
    Note {
        /// The length in bytes.
        len: usize,
    },
    /// A limit on the units in open holds would override a policy without one.
    #[error("`{max}/inflight` counts open holds, and the policy has no such limit: use limits with a window")]
    InFlight {
        /// The maximum of the limit.
        max: u64,
    },
    /// The end is not in the future.
    #[error("an override that ends now or earlier has no effect: use a later end")]
    Over,
}
