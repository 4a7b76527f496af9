//! [`FullestLimit`]: the limit of a key with the largest share in use.

use std::{cmp::Reverse, time::Duration};

use tidegate::{Cost, Decision, Key, Limit, Op, OverrideRule, Policy, Store as _};

use crate::{service::Service, transports::http::applied_policy};

/// The limit of a key with the largest share in use.
///
/// A decision describes the limit with the fewest units left. That may be a small limit of which nothing is in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullestLimit {
    pub(super) limit: Limit,
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) remaining: u64,
    /// The time until a request fits; `None` if one does, or none ever will.
    pub(super) retry_after: Option<Duration>,
    /// The time until no units are in use under any limit.
    pub(super) reset_after: Duration,
}

impl FullestLimit {
    /// Returns the fullest limit of a key. If the store does not answer, no units are in use.
    pub(super) async fn of(service: &Service, policy: &Policy, key: &Key<'_>) -> Self {
        let decision = service.store().decide(Op::Peek, policy, key, Cost::ONE).await;
        let decided = Self::decided(&decision);
        let has_one_limit = policy.limits().len() == 1 && !decision.is_overridden();
        if decision.is_degraded() || has_one_limit {
            return decided;
        }
        Self::inspected(service, policy, key, &decided).await.unwrap_or(decided)
    }

    /// Returns the limit that a decision describes.
    fn decided(decision: &Decision) -> Self {
        Self {
            limit: decision.limit(),
            capacity: decision.capacity(),
            used: if decision.is_degraded() { 0 } else { decision.used() },
            remaining: decision.remaining(),
            retry_after: decision.retry_after(),
            reset_after: decision.reset_after(),
        }
    }

    /// Returns the fullest of all limits that apply to a key; `None` if there is no state, or no limit applies.
    async fn inspected(service: &Service, policy: &Policy, key: &Key<'_>, decided: &Self) -> Option<Self> {
        let store = service.store().store();
        let active_override = store.override_of(policy, key).await.ok()?;
        let rule = active_override.as_ref().map(|active| active.r#override.rule());
        if let Some(OverrideRule::Exempt) = rule {
            return None;
        }
        let applied = applied_policy(policy, rule);
        let inspection = store.inspect(policy, key).await.ok()??;
        let limits = inspection.limits.iter().map(|in_use| Self {
            limit: in_use.limit,
            capacity: applied.capacity(in_use.limit),
            used: in_use.used,
            remaining: in_use.remaining,
            ..*decided
        });
        limits.min_by_key(|limit| (Reverse(limit.share()), limit.remaining))
    }

    /// Returns the share of the capacity that is in use, for comparisons.
    pub(super) fn share(&self) -> u128 {
        u128::from(self.used) * (1 << 40) / u128::from(self.capacity.max(1))
    }
}
