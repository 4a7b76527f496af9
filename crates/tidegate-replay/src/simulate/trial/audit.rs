//! [`Audit`]: an exact log of what a limiter has let through, which knows what was right by the limiter's own history.

use tidegate::{Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

/// A store that never runs out of room, so that no answer in a trial is degraded.
pub(in crate::simulate) fn roomy() -> MemoryStore {
    MemoryStore::builder()
        .max_keys(usize::MAX)
        .max_bytes(usize::MAX)
        .build()
        .expect("its bounds are far above the least")
}

/// A store for one client.
pub(in crate::simulate) fn for_one() -> MemoryStore {
    MemoryStore::builder().max_keys(1).build().expect("its bounds are no less than the least")
}

/// A policy of one limit.
pub(in crate::simulate) fn policy(limit: Limit) -> Policy {
    Policy::unnamed([limit]).expect("one limit makes a policy")
}

/// What a limiter has let through, exactly.
#[derive(Debug)]
pub(in crate::simulate) struct Audit {
    store: MemoryStore,
    log: Policy,
    worst: u64,
}

impl Audit {
    /// An audit of all clients together.
    pub(in crate::simulate) fn new(limit: Limit) -> Self {
        Self { store: roomy(), log: policy(limit), worst: 0 }
    }

    /// An audit of one client.
    pub(in crate::simulate) fn of_one(limit: Limit) -> Self {
        Self { store: for_one(), log: policy(limit), worst: 0 }
    }

    /// Whether the cost fits into the exact window, given what the limiter has let through so far.
    pub(in crate::simulate) fn fits(&self, key: &Key<'_>, cost: Cost, now: Timestamp) -> bool {
        self.store.decide(Op::Peek, &self.log, key, cost, now).is_allowed()
    }

    /// Notes that the limiter has let a request through; the units in the window that ends with it.
    pub(in crate::simulate) fn note(&mut self, key: &Key<'_>, cost: Cost, now: Timestamp) -> u64 {
        let used = self.store.decide(Op::Charge, &self.log, key, cost, now).used();
        self.worst = self.worst.max(used);
        used
    }

    /// Units in the window that ends now.
    pub(in crate::simulate) fn used(&self, key: &Key<'_>, now: Timestamp) -> u64 {
        self.store.decide(Op::Peek, &self.log, key, Cost::ONE, now).used()
    }

    /// The most units that were let through in any window. The fullest window of all ends with a request.
    pub(in crate::simulate) fn worst(&self) -> u64 {
        self.worst
    }
}
