//! [`Override`]: what holds for one key in place of its policy's limits, until a time or for good.

use crate::{key::Key, policy::Policy, timestamp::Timestamp};

/// The longest note, in bytes.
const MAX_NOTE: usize = 256;

/// What holds for one key under one policy in place of the policy's limits.
///
/// ```
/// use tidegate::{Cost, Key, Limiter, Override, Policy, Timestamp};
///
/// let limiter = Limiter::default();
/// let api = Policy::new("api", ["100/1m".parse()?])?;
/// let guest = Key::new("mallory")?;
/// limiter.set_override(&api, &guest, Override::ban())?;
/// assert!(!limiter.check(&api, &guest, Cost::ONE).is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Override {
    rule: OverrideRule,
    until: Option<Timestamp>,
    note: Box<str>,
}

/// What an override says.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few, and most of them bring limits")]
pub enum OverrideRule {
    /// The limits and the algorithm of this policy; its name, mode and failure choice mean nothing here.
    Limits(Policy),
    /// Nothing fits.
    Ban,
    /// Everything fits, and nothing is charged.
    Exempt,
}

/// An override in force, and whose it is.
#[derive(Debug, Clone)]
pub struct ActiveOverride {
    /// The key.
    pub key: Key<'static>,
    /// What holds for it.
    pub by: Override,
    /// Since when.
    pub since: Timestamp,
}

impl Override {
    /// The limits and the algorithm of `policy`, whose name, mode and failure choice mean nothing here.
    pub fn limits(policy: Policy) -> Self {
        Self::new(OverrideRule::Limits(policy))
    }

    /// Every request is denied as [`Banned`](crate::Reason::Banned), until the end if there is one. A charge is counted
    /// as usual.
    pub fn ban() -> Self {
        Self::new(OverrideRule::Ban)
    }

    /// Everything fits, and nothing is charged.
    pub fn exempt() -> Self {
        Self::new(OverrideRule::Exempt)
    }

    fn new(rule: OverrideRule) -> Self {
        Self { rule, until: None, note: Box::default() }
    }

    /// The same until a time, from which on the policy's own limits hold again.
    #[must_use]
    pub fn until(mut self, end: Timestamp) -> Self {
        self.until = Some(end);
        self
    }

    /// The same with a word on why.
    ///
    /// # Errors
    /// If it is longer than 256 bytes.
    pub fn with_note(mut self, note: &str) -> Result<Self, OverrideError> {
        if note.len() > MAX_NOTE {
            return Err(OverrideError::Note { len: note.len() });
        }
        self.note = note.into();
        Ok(self)
    }

    /// What it says.
    pub fn rule(&self) -> &OverrideRule {
        &self.rule
    }

    /// Until when; `None` is for good.
    pub fn end(&self) -> Option<Timestamp> {
        self.until
    }

    /// Why; empty if nobody said.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// Whether it no longer holds at `at`.
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.until.is_some_and(|end| end <= at)
    }
}

/// Why an [`Override`] was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// A caller brought the policy's limits.
    #[error("limits that a caller brings can't be overridden: name a policy")]
    Unnamed,
    /// There are as many as may be.
    #[error("there are {most} overrides already: lift one, or give those to come an end")]
    TooMany {
        /// How many may be.
        most: usize,
    },
    /// The note is too long.
    #[error("a note of {len} bytes is too long: use 256 at the most")]
    Note {
        /// How long it is.
        len: usize,
    },
    /// It would be over already.
    #[error("an override that ends now or earlier changes nothing: use a later end")]
    Over,
}
