//! [`Limiter`]: an algorithm on trial, with its books.

use tidegate::{Algorithm, Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

use super::{
    audit::{Audit, policy, roomy},
    memory,
    results::{Asked, Tried, Wrong},
};
use crate::{figures::ratio, simulate::promised};

/// An algorithm on trial, with its books.
#[derive(Debug)]
pub(super) struct Limiter {
    limit: Limit,
    policy: Policy,
    store: MemoryStore,
    audit: Audit,
    admitted: u64,
    admitted_units: u64,
    beside_log: Mistakes,
    by_own_history: Mistakes,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mistakes {
    admitted: u64,
    denied: u64,
}

impl Mistakes {
    fn note(&mut self, admitted: bool, right: bool) {
        self.admitted += u64::from(admitted && !right);
        self.denied += u64::from(!admitted && right);
    }

    fn of(self, requests: u64) -> Wrong {
        Wrong {
            admitted: self.admitted,
            denied: self.denied,
            share_admitted: ratio(self.admitted, requests),
            share_denied: ratio(self.denied, requests),
        }
    }
}

impl Limiter {
    pub(super) fn new(limit: Limit, algorithm: Algorithm) -> Self {
        Self {
            limit,
            policy: policy(limit).with_algorithm(algorithm),
            store: roomy(),
            audit: Audit::new(limit),
            admitted: 0,
            admitted_units: 0,
            beside_log: Mistakes::default(),
            by_own_history: Mistakes::default(),
        }
    }

    /// Whether it lets the request through.
    pub(super) fn decide(&mut self, key: &Key<'_>, cost: Cost, now: Timestamp) -> bool {
        let fits = self.audit.fits(key, cost, now);
        let admitted = self.store.decide(Op::Check, &self.policy, key, cost, now).is_allowed();
        self.by_own_history.note(admitted, fits);
        if admitted {
            self.admitted += 1;
            self.admitted_units = self.admitted_units.saturating_add(cost.get());
            self.audit.note(key, cost, now);
        }
        admitted
    }

    /// Notes what the log beside it has decided.
    pub(super) fn compare(&mut self, admitted: bool, right: bool) {
        self.beside_log.note(admitted, right);
    }

    pub(super) fn result(self, asked: &Asked, clients_denied: u64, bytes_per_key: f64) -> Tried {
        let algorithm = self.policy.algorithm();
        let denied = asked.requests - self.admitted;
        Tried {
            algorithm: algorithm.to_string(),
            admitted: self.admitted,
            denied,
            share_denied: ratio(denied, asked.requests),
            admitted_units: self.admitted_units,
            clients_denied,
            share_of_clients_denied: ratio(clients_denied, asked.clients),
            beside_log: self.beside_log.of(asked.requests),
            by_own_history: self.by_own_history.of(asked.requests),
            worst_window_units: self.audit.worst(),
            worst_window_times: ratio(self.audit.worst(), self.limit.max()),
            promised_window_units: promised(algorithm, self.limit),
            bytes_per_key,
            bytes_per_full_key: memory::full_key(self.limit, algorithm),
        }
    }
}
