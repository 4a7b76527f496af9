//! [`HoldMetrics`]: the metrics of holds, by policy. A policy has them from its first reservation on.

use std::sync::{Arc, OnceLock};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{Labels, policy_label, registered};

/// The metrics of the holds of all policies.
#[derive(Debug, Default)]
pub(super) struct HoldMetrics {
    open: Family<Labels<1>, Gauge>,
    granted: Family<Labels<1>, Counter>,
    closed: Family<Labels<1>, Counter>,
    ended_by_ttl: Family<Labels<1>, Counter>,
    untracked: Family<Labels<1>, Counter>,
    unknown: Family<Labels<1>, Counter>,
}

/// The counters of the holds of one policy.
#[derive(Debug, Default)]
pub(crate) struct HoldCounters {
    pub(crate) open: Gauge,
    pub(crate) granted: Counter,
    pub(crate) closed: Counter,
    pub(crate) ended_by_ttl: Counter,
    /// Holds that were granted and could not be tracked.
    pub(crate) untracked: Counter,
    pub(crate) unknown: Counter,
}

/// The counters of the holds of one policy, which are created at the first use.
#[derive(Debug, Default)]
pub(super) struct LazyHoldCounters {
    policy: String,
    metrics: Arc<HoldMetrics>,
    counters: OnceLock<Arc<HoldCounters>>,
}

impl HoldMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            open: registered(
                registry,
                "open_holds",
                "Holds granted by this process that are open: their ttl has not passed, and this process has not seen their commit, \
                 release or reset. At most 65536 are tracked, and none under limits supplied by callers",
            ),
            granted: registered(registry, "holds_granted", "Holds granted by this process"),
            closed: registered(registry, "holds_closed", "Open holds committed or released through this process"),
            ended_by_ttl: registered(
                registry,
                "holds_ended_by_ttl",
                "Holds granted by this process whose ttl passed before this process saw their commit or release",
            ),
            untracked: registered(
                registry,
                "untracked_holds",
                "Holds granted by this process while it tracked too many others: open_holds and holds_ended_by_ttl lack them",
            ),
            unknown: registered(
                registry,
                "unknown_commits",
                "Commits, releases, renewals and settles through this process whose hold or lease was not open",
            ),
        }
    }

    fn of(&self, policy: &str) -> Arc<HoldCounters> {
        let label = policy_label(policy);
        Arc::new(HoldCounters {
            open: self.open.get_or_create(&label).clone(),
            granted: self.granted.get_or_create(&label).clone(),
            closed: self.closed.get_or_create(&label).clone(),
            ended_by_ttl: self.ended_by_ttl.get_or_create(&label).clone(),
            untracked: self.untracked.get_or_create(&label).clone(),
            unknown: self.unknown.get_or_create(&label).clone(),
        })
    }

    pub(super) fn remove(&self, policy: &str) {
        let label = policy_label(policy);
        self.open.remove(&label);
        for family in [&self.granted, &self.closed, &self.ended_by_ttl, &self.untracked, &self.unknown] {
            family.remove(&label);
        }
    }
}

impl LazyHoldCounters {
    pub(super) fn new(policy: &str, metrics: &Arc<HoldMetrics>) -> Self {
        Self { policy: policy.to_owned(), metrics: Arc::clone(metrics), counters: OnceLock::new() }
    }

    #[inline]
    pub(super) fn get(&self) -> &Arc<HoldCounters> {
        self.counters.get_or_init(|| self.metrics.of(&self.policy))
    }
}
