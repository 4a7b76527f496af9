//! [`Decision`]: the whole answer, so that no second call is needed.

use std::{fmt, time::Duration};

use crate::{limit::Limit, policy::Policy, timestamp::Timestamp};

/// Why a request was let through or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It fits, or it was charged regardless.
    Allowed,
    /// It does not fit now; it will after [`Decision::retry_after`].
    Limited,
    /// It costs more than some limit ever allows: waiting does not help.
    Impossible,
    /// The store could not take the request, and the choice for that case is to deny.
    StoreUnavailable,
    /// It would have been denied, but the policy only watches.
    Shadow,
    /// An [`Override`](crate::Override) bans the key. The cost and the units in use do not matter.
    Banned,
}

impl Reason {
    /// The word for it in every protocol and log.
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

/// By what a request was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Under {
    /// The policy's own limits.
    Policy,
    /// The limits of an override.
    Limits,
    Ban,
    Exempt,
}

/// The answer to a request, with what a caller may want to tell its own caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decision {
    pub(crate) reason: Reason,
    pub(crate) degraded: bool,
    pub(crate) part: u16,
    /// By what it was decided.
    pub(crate) under: Under,
    pub(crate) limit: Limit,
    /// The most units that can be in use at once under [`limit`](Self::limit).
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) reset_after_us: u64,
    /// The same for [`limit`](Self::limit) alone, by which it is ranked among several.
    pub(crate) limit_reset_after_us: u64,
    pub(crate) charged_at: Option<Timestamp>,
}

impl Decision {
    /// Whether the request may go ahead.
    pub fn is_allowed(&self) -> bool {
        matches!(self.reason, Reason::Allowed | Reason::Shadow)
    }

    /// Why, or why not.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The limit that bound: the tightest one if allowed, the one to wait for longest if limited, the smallest if
    /// impossible, and under a ban the one that takes longest to become empty.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// The most units that can be in use at once under [`limit`](Self::limit): its burst for gcra, else its max.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether an [`Override`](crate::Override) of the key decided, in place of the policy's own limits.
    pub fn is_overridden(&self) -> bool {
        self.under != Under::Policy
    }

    /// Units in use under [`limit`](Self::limit), after the decision.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Units left after the decision, under the limit that leaves the least.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// How long to wait until the same request is admitted if nobody else spends: exactly that long, not a microsecond
    /// less. `None` where there is nothing to wait for. For a shadowed denial, what an enforced one would have said.
    ///
    /// If the key is [`Banned`](Reason::Banned), this is the time until the ban ends, or `None` if it has no end. The
    /// limits apply again from then on, so a key that has also used up a limit must then wait for that limit.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after_us.map(Duration::from_micros)
    }

    /// How long until no units are in use, if no further units are spent. It does not depend on a ban and does not say
    /// when a ban ends.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// The same for [`limit`](Self::limit) alone: how long until nothing is in use under it.
    pub fn limit_reset_after(&self) -> Duration {
        Duration::from_micros(self.limit_reset_after_us)
    }

    /// The time the request was charged at, which a refund asks for; `None` if nothing was charged.
    pub fn charged_at(&self) -> Option<Timestamp> {
        self.charged_at
    }

    /// Whether this is not the answer that the key's own state would give: the store had no room for it.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Of several requests decided as one, the one whose limit bound.
    pub fn part(&self) -> usize {
        self.part.into()
    }
}

/// The answer to several requests decided as one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub struct Decisions {
    /// The one decision: it names the limit that bound among all.
    pub overall: Decision,
    /// Each request's own side of it, in the order given. One that fits where another denies is allowed and not charged.
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

    /// Whether there was something to give back.
    pub fn is_returned(&self) -> bool {
        self.returned
    }

    /// Units left after the refund, under the limit that leaves the least.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// How long until nothing is in use any more if nobody spends.
    pub fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }
}
