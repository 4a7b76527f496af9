//! [`Decision`]: the complete answer to a request.

use std::{fmt, time::Duration};

use crate::{limit::Limit, policy::Policy, timestamp::Timestamp};

/// The reason why a request was admitted or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The request fits, or it was charged regardless.
    Allowed,
    /// The request does not fit now. It fits after [`Decision::retry_after`].
    Limited,
    /// The cost is above the capacity of some limit. Waiting does not help.
    Impossible,
    /// The store could not decide the request, and the policy denies in that case.
    StoreUnavailable,
    /// The request would have been denied, but the policy is in shadow mode.
    Shadow,
    /// An [`Override`](crate::Override) bans the key. The cost and the units in use do not matter.
    Banned,
}

impl Reason {
    /// The name of the reason in every protocol and log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Limited => "limited",
            Self::Impossible => "impossible",
            Self::StoreUnavailable => "store_unavailable",
            Self::Shadow => "shadow",
            Self::Banned => "banned",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The limits or the override that decided a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedBy {
    /// The policy's own limits.
    Policy,
    /// The limits of an override.
    Limits,
    /// A ban.
    Ban,
    /// An exemption.
    Exempt,
}

impl DecidedBy {
    /// The name in RESP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Limits => "override",
            Self::Ban => "ban",
            Self::Exempt => "exemption",
        }
    }
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a decision that is not read limits nothing"]
pub struct Decision {
    pub(crate) reason: Reason,
    pub(crate) degraded: bool,
    pub(crate) leased: bool,
    pub(crate) part: u16,
    pub(crate) under: DecidedBy,
    pub(crate) limit: Limit,
    /// The maximum number of units in use under [`limit`](Self::limit).
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) reset_after_us: u64,
    /// The same for [`limit`](Self::limit) alone. It ranks the limit among several.
    pub(crate) limit_reset_after_us: u64,
    pub(crate) charged_at: Option<Timestamp>,
}

impl Decision {
    /// Whether the request is admitted.
    pub fn is_allowed(&self) -> bool {
        matches!(self.reason, Reason::Allowed | Reason::Shadow)
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The limit that decided: the one with the least remaining if allowed, with the longest wait if limited, with the
    /// smallest capacity if impossible, and with the longest time until no units are in use under a ban.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The maximum number of units in use under [`limit`](Self::limit): its burst for gcra, otherwise its max.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether an [`Override`](crate::Override) of the key decided instead of the policy's own limits.
    pub fn is_overridden(&self) -> bool {
        self.under != DecidedBy::Policy
    }

    /// Units in use under [`limit`](Self::limit), after the decision.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Remaining units after the decision, under the limit with the least.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The time until the same request is admitted if no other request spends. It is exact: one microsecond earlier, the
    /// request is denied. `None` if the request is admitted or waiting does not help. A denial in shadow mode has the same
    /// wait as an enforced one.
    ///
    /// If the key is [`Banned`](Reason::Banned), this is the time until the ban ends, or `None` if it has no end. The
    /// limits apply again from then on, so a key that has also used up a limit must then wait for that limit.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_us.map(Duration::from_micros)
    }

    /// The time until no units are in use, if no further units are spent. It does not depend on the end of a ban.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// The time until no units are in use under [`limit`](Self::limit) alone.
    pub fn limit_reset_after(&self) -> Duration {
        Duration::from_micros(self.limit_reset_after_us)
    }

    /// The time of the charge, which a refund needs; `None` if nothing was charged.
    pub fn charged_at(&self) -> Option<Timestamp> {
        self.charged_at
    }

    /// Whether the answer may differ from that of the key's own state, because the store had no room or was not available.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether a node decided by units that it has leased from the store. What remains is then what is left of its leases.
    pub fn is_leased(&self) -> bool {
        self.leased
    }

    /// The index of the request whose limit decided, among several requests decided as one.
    pub fn part(&self) -> usize {
        self.part.into()
    }
}

/// The answer to several requests decided as one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision that is not read limits nothing"]
#[non_exhaustive]
pub struct Decisions {
    /// The one decision. It describes the limit that decided among all requests.
    pub overall: Decision,
    /// The decision for each request, in the given order. A request that fits while another is denied is allowed and not
    /// charged.
    pub parts: Vec<Decision>,
}

/// The answer to a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refund {
    pub(crate) returned: bool,
    pub(crate) remaining: u64,
    pub(crate) reset_after_us: u64,
}

impl Refund {
    /// The answer if there is no state.
    pub(crate) fn nothing(policy: &Policy) -> Self {
        let capacities = policy.specs().iter().map(|spec| spec.capacity);
        Self { returned: false, remaining: capacities.min().unwrap_or(0), reset_after_us: 0 }
    }

    /// Whether any units were given back.
    pub fn is_returned(&self) -> bool {
        self.returned
    }

    /// Remaining units after the refund, under the limit with the least.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The time until no units are in use, if no further units are spent.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }
}
