//! [`AlgorithmRun`]: one algorithm under evaluation, and its counts.

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::{
    audit::{Audit, policy, unbounded_store},
    memory,
    results::{AlgorithmResult, TraceSummary, WrongDecisions},
};
use crate::{formatting::ratio, simulate::promised};

/// One algorithm under evaluation, and its counts.
#[derive(Debug)]
pub(super) struct AlgorithmRun {
    limit: Limit,
    policy: Policy,
    store: MemoryStore,
    audit: Audit,
    admitted: u64,
    admitted_units: u64,
    beside_log: WrongDecisions,
    by_own_history: WrongDecisions,
}

impl AlgorithmRun {
    pub(super) fn new(limit: Limit, algorithm: Algorithm) -> Self {
        Self {
            limit,
            policy: policy(limit).with_algorithm(algorithm),
            store: unbounded_store(),
            audit: Audit::new(unbounded_store(), limit),
            admitted: 0,
            admitted_units: 0,
            beside_log: WrongDecisions::default(),
            by_own_history: WrongDecisions::default(),
        }
    }

    /// Returns whether the algorithm admits a request.
    pub(super) fn decide(&mut self, key: &Key<'_>, cost: Cost, now: Timestamp) -> bool {
        let fits = self.audit.fits(key, cost, now);
        let admitted = self.store.decide(Op::Check, &self.policy, key, cost, now).is_allowed();
        self.by_own_history.record(admitted, fits);
        if admitted {
            self.admitted += 1;
            self.admitted_units = self.admitted_units.saturating_add(cost.get());
            self.audit.record(key, cost, now);
        }
        admitted
    }

    /// Compares a decision with the decision of `sliding_log`.
    pub(super) fn compare(&mut self, admitted: bool, log_admitted: bool) {
        self.beside_log.record(admitted, log_admitted);
    }

    pub(super) fn result(self, summary: &TraceSummary, clients_denied: u64, bytes_per_key: f64) -> AlgorithmResult {
        let algorithm = self.policy.algorithm();
        let denied = summary.requests - self.admitted;
        AlgorithmResult {
            algorithm: algorithm.to_string(),
            admitted: self.admitted,
            denied,
            share_denied: ratio(denied, summary.requests),
            admitted_units: self.admitted_units,
            clients_denied,
            share_of_clients_denied: ratio(clients_denied, summary.clients),
            beside_log: self.beside_log.with_shares(summary.requests),
            by_own_history: self.by_own_history.with_shares(summary.requests),
            worst_window_units: self.audit.worst(),
            worst_window_times: ratio(self.audit.worst(), self.limit.max()),
            promised_window_units: promised(algorithm, self.limit),
            bytes_per_key,
            bytes_per_full_key: memory::full_key(self.limit, algorithm),
        }
    }
}
