//! What the service is asked, and what it answers.

use std::{borrow::Cow, net::IpAddr};

use tidegate::{Algorithm, Burst, Cost, Decision, Key, Limit, OnStoreFailure, Policy, SpendError, StoreError};
use tidegate_tower::Labels;

/// What is asked of one policy about one key.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// By which limits.
    pub by: By<'a>,
    /// Who.
    pub key: Key<'a>,
    /// How much.
    pub price: Price<'a>,
    /// What to do if the store fails, where the call says it.
    pub on_failure: Option<OnStoreFailure>,
}

/// Who does something to a key, for the journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who {
    /// From where; nothing if from this process.
    pub address: Option<IpAddr>,
}

/// By which limits to decide.
#[derive(Debug, Clone)]
pub enum By<'a> {
    /// A policy of the configuration.
    Policy(&'a str),
    /// Limits that the caller brings.
    Limits(Vec<Limit>, Algorithm),
    /// Envoy's own limit for one descriptor, in place of those of the policy that the descriptor matches, if any. It is written
    /// in the proxy's configuration, so whether callers may bring limits is no matter.
    Override(Limit, Option<&'a str>),
    /// `CL.THROTTLE`'s: so many at once, and the limit in the long run.
    Throttle(Burst, Limit),
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Price<'a> {
    /// So many units.
    Cost(Cost),
    /// What the policy says an operation costs.
    Operation(&'a str),
}

/// A policy of the configuration, or one made of what the caller brought.
#[derive(Debug)]
pub enum Ruling<'l> {
    /// Of the configuration, with what headers say of it.
    Known(&'l Policy, &'l Labels),
    /// Made for this request.
    Made(Box<Policy>),
}

impl Ruling<'_> {
    /// The policy itself.
    #[inline]
    pub fn policy(&self) -> &Policy {
        match self {
            Self::Known(policy, _) => policy,
            Self::Made(policy) => policy,
        }
    }

    /// What headers say of it.
    pub(crate) fn labels(&self) -> Cow<'_, Labels> {
        match self {
            Self::Known(_, labels) => Cow::Borrowed(labels),
            Self::Made(policy) => Cow::Owned(Labels::new(policy)),
        }
    }
}

/// A decision, and by which policy.
#[derive(Debug)]
#[must_use]
pub struct Answer<'l> {
    /// What was decided.
    pub decision: Decision,
    /// By what.
    pub ruling: Ruling<'l>,
}

/// A decision over several, all or nothing.
#[derive(Debug)]
#[must_use]
pub struct Answers<'l> {
    /// Of the whole. Its `part()` is the place of the one that bound.
    pub overall: Decision,
    /// Of each, in order.
    pub parts: Vec<Answer<'l>>,
}

/// Why a request got no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Something in it is wrong; the field that is.
    #[error("{message}")]
    Malformed {
        /// Which field of the request.
        field: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// No policy has this name.
    #[error("there is no policy `{name}`{}", hint(nearest.as_deref()))]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// One that is near.
        nearest: Option<String>,
    },
    /// The store did not do what only it can do (refund, reset, inspect).
    #[error("{0}")]
    Store(#[from] StoreError),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(": did you mean `{name}`?"))
}

impl Refusal {
    /// Something wrong with a field of the request.
    pub(crate) fn malformed(field: &'static str, message: impl std::fmt::Display) -> Self {
        Self::Malformed { field, message: format!("{message}") }
    }
}

impl From<SpendError> for Refusal {
    fn from(error: SpendError) -> Self {
        Self::malformed("checks", error)
    }
}
