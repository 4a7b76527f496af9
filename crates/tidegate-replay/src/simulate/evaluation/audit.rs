//! [`Audit`]: `sliding_log` over the requests that an algorithm admitted. It shows which decisions were right, given that history.

use tidegate::{Cost, Key, Limit, MemoryStore, Op, Policy, Timestamp};

/// Creates a store that is never full, so that no answer is degraded.
pub(in crate::simulate) fn unbounded_store() -> MemoryStore {
    MemoryStore::builder().max_keys(usize::MAX).max_bytes(usize::MAX).build().expect("valid bounds")
}

/// Creates a store for one client.
pub(in crate::simulate) fn single_client_store() -> MemoryStore {
    MemoryStore::builder().max_keys(1).build().expect("valid bounds")
}

/// Creates a policy of one limit.
pub(in crate::simulate) fn policy(limit: Limit) -> Policy {
    Policy::unnamed([limit]).expect("one limit is a valid policy")
}

/// State of `sliding_log` over the admitted requests.
#[derive(Debug)]
pub(in crate::simulate) struct Audit {
    store: MemoryStore,
    log: Policy,
    worst: u64,
}

impl Audit {
    pub(in crate::simulate) fn new(store: MemoryStore, limit: Limit) -> Self {
        Self { store, log: policy(limit), worst: 0 }
    }

    /// Returns whether a cost fits into the exact window, given the requests admitted so far.
    pub(in crate::simulate) fn fits(&self, key: &Key<'_>, cost: Cost, now: Timestamp) -> bool {
        self.store.decide(Op::Peek, &self.log, key, cost, now).is_allowed()
    }

    /// Records an admitted request. Returns the units in the window that ends with it.
    pub(in crate::simulate) fn record(&mut self, key: &Key<'_>, cost: Cost, now: Timestamp) -> u64 {
        let used = self.store.decide(Op::Charge, &self.log, key, cost, now).used();
        self.worst = self.worst.max(used);
        used
    }

    /// Returns the units in the window that ends now.
    pub(in crate::simulate) fn used(&self, key: &Key<'_>, now: Timestamp) -> u64 {
        self.store.decide(Op::Peek, &self.log, key, Cost::ONE, now).used()
    }

    /// Returns the largest number of units in any window. The fullest window ends with a request.
    pub(in crate::simulate) fn worst(&self) -> u64 {
        self.worst
    }
}
