//! The requests that the service accepts, and its answers.

use std::{borrow::Cow, net::IpAddr, ops::Deref, time::Duration};

use tidegate::{
    Algorithm, Burst, Cost, Decision, Key, Limit, OnStoreFailure, Policy, ReservationError, ReservationId, Settled,
    SpendError, StoreError,
};
use tidegate_tower::Labels;

/// A request about one key.
#[derive(Debug, Clone)]
pub struct KeyRequest<'a> {
    /// The limits to apply.
    pub source: LimitSource<'a>,
    /// The key.
    pub key: Key<'a>,
    /// The cost.
    pub price: Price<'a>,
    /// What to do if the store fails; by default the choice of the policy.
    pub on_failure: Option<OnStoreFailure>,
}

/// The person or program that changes a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Actor {
    /// The address of the caller; `None` inside this process.
    pub address: Option<IpAddr>,
}

/// Where the limits of a request come from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LimitSource<'a> {
    /// A policy of the configuration.
    Policy(&'a str),
    /// Limits supplied by the caller.
    Limits(Vec<Limit>, Algorithm),
    /// A limit that Envoy sends with one descriptor. It replaces the limits of the policy that the descriptor matches, if any. It
    /// comes from the proxy's configuration, so it is accepted even if callers may not supply limits.
    EnvoyOverride(Limit, Option<&'a str>),
    /// The burst and the limit of `CL.THROTTLE`.
    Throttle(Burst, Limit),
}

/// The cost of a request.
#[derive(Debug, Clone, Copy)]
pub enum Price<'a> {
    /// A number of units.
    Cost(Cost),
    /// The configured cost of an operation of the policy.
    Operation(&'a str),
}

/// The policy that a request is decided by.
#[derive(Debug)]
pub enum ResolvedPolicy<'p> {
    /// A policy of the configuration, with its labels in response headers.
    Configured(&'p Policy, &'p Labels),
    /// A policy made of limits that came with the request.
    Supplied(Box<Policy>),
}

impl ResolvedPolicy<'_> {
    /// Returns the labels of the policy in response headers.
    pub(crate) fn labels(&self) -> Cow<'_, Labels> {
        match self {
            Self::Configured(_, labels) => Cow::Borrowed(labels),
            Self::Supplied(policy) => Cow::Owned(Labels::new(policy)),
        }
    }
}

impl Deref for ResolvedPolicy<'_> {
    type Target = Policy;

    #[inline]
    fn deref(&self) -> &Policy {
        match self {
            Self::Configured(policy, _) => policy,
            Self::Supplied(policy) => policy,
        }
    }
}

/// A decision and the policy that made it.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct PolicyDecision<'p> {
    /// The decision.
    pub decision: Decision,
    /// The policy.
    pub policy: ResolvedPolicy<'p>,
}

/// One decision over several requests, all or nothing.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct PolicyDecisions<'p> {
    /// The decision over all of them. Its `part()` is the index of the request that decided.
    pub overall: Decision,
    /// The decision for each request, in order.
    pub parts: Vec<PolicyDecision<'p>>,
}

/// A decision that may have set units aside.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct ReservedDecision<D> {
    /// The decision: over one request, or over several.
    pub decided: D,
    /// The id of the hold or of the lease, if the request is admitted.
    pub id: Option<ReservationId>,
}

/// A lease that was granted or denied.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct LeaseDecision<'p> {
    /// The decision and the id.
    pub reserved: ReservedDecision<PolicyDecision<'p>>,
    /// The granted units; 0 if none were.
    pub granted: u64,
    /// Whether the earlier lease was open, if one was to settle.
    pub settled: Option<bool>,
    /// The granted term, if it is shorter than requested.
    pub ttl: Option<Duration>,
}

/// A change of an open reservation.
#[derive(Debug, Clone, Copy)]
pub enum ReservationChange<'a> {
    /// Closes a hold: one actual cost for all of its requests, or one for each.
    Commit(&'a [u64]),
    /// Closes a hold and gives all units back.
    Release,
    /// Sets the end of a hold to this time from now.
    Renew(Duration),
    /// Closes a lease of which so many units were spent.
    Settle(u64),
}

/// The answer to a change of a reservation.
#[derive(Debug)]
#[non_exhaustive]
pub struct ChangedReservation<'p> {
    /// The units in use after the change.
    pub settled: Settled,
    /// The policy of the reservation. If it has several requests, that of the first.
    pub policy: Cow<'p, Policy>,
}

/// The reason why a request got no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A field of the request is wrong.
    #[error("{message}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// No policy has this name.
    #[error("there is no policy `{name}`{}", hint(nearest.as_deref(), known.as_ref()))]
    UnknownPolicy {
        /// The unknown name.
        name: String,
        /// A similar name that exists.
        nearest: Option<String>,
        /// The first names that exist and the number of all names, if none is similar.
        known: Option<(Vec<String>, usize)>,
    },
    /// The reservation, or the change of one, is malformed.
    #[error(transparent)]
    Reservation(ReservationError),
    /// The store failed to refund, reset, inspect, override or change a reservation.
    #[error("{0}")]
    Store(StoreError),
}

fn hint(nearest: Option<&str>, known: Option<&(Vec<String>, usize)>) -> String {
    match (nearest, known) {
        (Some(name), _) => format!(": did you mean `{name}`?"),
        (None, Some((_, 0))) => ": no policies are configured".to_owned(),
        (None, Some((first, all))) => {
            let more = all - first.len();
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(": the policies are `{}`{rest}", first.join("`, `"))
        }
        (None, None) => String::new(),
    }
}

impl Refusal {
    /// Returns the same refusal without a list of policies, for a response that others than the caller may see.
    pub(crate) fn without_known_policies(self) -> Self {
        match self {
            Self::UnknownPolicy { name, nearest, .. } => Self::UnknownPolicy { name, nearest, known: None },
            other => other,
        }
    }

    /// Returns the refusal of a request because of one field.
    pub(crate) fn malformed(field: &'static str, message: impl std::fmt::Display) -> Self {
        Self::Malformed { field, message: format!("{message}") }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Reservation(error) => error.into(),
            StoreError::Spend(error) => error.into(),
            error => Self::Store(error),
        }
    }
}

impl From<ReservationError> for Refusal {
    fn from(error: ReservationError) -> Self {
        match error {
            ReservationError::Spend(error) => error.into(),
            error => Self::Reservation(error),
        }
    }
}

/// Returns the field of a request that a reservation error is about.
pub(crate) fn field_of(error: &ReservationError) -> &'static str {
    match error {
        ReservationError::Ttl { .. } => "ttl_ms",
        ReservationError::AtEnd { .. } => "expires",
        ReservationError::InFlight { .. } => "policy",
        ReservationError::Least { .. } => "least",
        ReservationError::LeastTtl { .. } => "least_ttl_ms",
        ReservationError::Amount { .. } | ReservationError::Amounts { .. } => "actual",
        ReservationError::SpentTooMuch { .. } => "spent",
        ReservationError::OtherKey => "settle",
        ReservationError::Spend(_) => "checks",
        _ => "reservation",
    }
}

impl Refusal {
    /// Returns the same refusal with the name that the request has for the field that is wrong.
    pub(crate) fn in_field(self, rename: impl FnOnce(&'static str) -> &'static str) -> Self {
        match self {
            // It has a status of its own.
            Self::Reservation(ReservationError::PolicyGone { .. } | ReservationError::Unsupported { .. }) => self,
            Self::Reservation(error) => {
                let field = field_of(&error);
                match rename(field) {
                    renamed if renamed == field => Self::Reservation(error),
                    renamed => Self::malformed(renamed, error),
                }
            }
            other => other,
        }
    }
}

impl From<SpendError> for Refusal {
    fn from(error: SpendError) -> Self {
        match error {
            // As for a single request, so that its gRPC status is the same.
            SpendError::InFlight { .. } => Self::Reservation(error.into()),
            error => Self::malformed("checks", error),
        }
    }
}
