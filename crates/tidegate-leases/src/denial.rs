//! [`Denial`]: a denial of the shared store that this node repeats while it is certainly still true.

use std::time::Duration;

use tidegate::{Cost, Decision, Policy, Reason, external_store};

use crate::key_leases::LeaseRequest;

/// A denial, and the request that it answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Denial {
    cost: u64,
    decision: Decision,
    /// When the answer arrived. Waits are counted from here: the store counted them from a moment before, so the caller is
    /// never told to come back too early.
    received_at: u64,
    /// The first time at which the request may fit, counted from before it was sent, or at which the node asks again.
    ends_at: u64,
}

impl Denial {
    /// The denial in an answer that arrived at `now`; `None` if nothing may be repeated.
    ///
    /// Units that are given back end a denial before its time. So a node repeats it for at most the `deny_cache` of the
    /// policy.
    pub(crate) fn of(policy: &Policy, cost: Cost, decision: &Decision, sent_at: u64, now: u64) -> Option<Self> {
        let is_denial = matches!(decision.reason(), Reason::Limited | Reason::Banned | Reason::Impossible);
        if !is_denial || decision.is_degraded() {
            return None;
        }
        let longest = sent_at.saturating_add(micros(policy.deny_cache()));
        let ends_at = match decision.retry_after() {
            Some(wait) => longest.min(sent_at.saturating_add(micros(wait))),
            None => longest,
        };
        (ends_at > now).then_some(Self { cost: cost.get(), decision: *decision, received_at: now, ends_at })
    }

    /// The denial of a request for a lease, whose answer arrived at `now`; `None` if it says nothing about requests: a key
    /// that has too many reservations can't have another lease, but may have units.
    pub(crate) fn of_lease(request: &LeaseRequest, decision: &Decision, now: u64) -> Option<Self> {
        let least = request.lease.least;
        if decision.reason() == Reason::Limited && decision.remaining() >= least.get() {
            return None;
        }
        Self::of(&request.policy, least, decision, request.sent_at, now)
    }

    /// The denial of a request of this cost at `now`, if it is still denied.
    ///
    /// A higher cost may have to wait longer, and a lower one may fit, so only the same cost gets the same answer. A ban
    /// denies every cost.
    #[inline]
    pub(crate) fn of_request(&self, now: u64, cost: u64) -> Option<Decision> {
        let is_same = cost == self.cost || self.decision.reason() == Reason::Banned;
        let holds = is_same && now < self.ends_at;
        holds.then(|| external_store::still_denied(self.decision, now.saturating_sub(self.received_at)))
    }

    pub(crate) fn ends_at(&self) -> u64 {
        self.ends_at
    }

    pub(crate) fn has_ended(&self, now: u64) -> bool {
        now >= self.ends_at
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
