//! [`Stats`]: what a node has decided by itself, and its leases.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{LeasedKey, Metric, MetricKind, NodeLeases};

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) admitted: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) asked: AtomicU64,
    pub(crate) leases: AtomicU64,
    pub(crate) leased: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) stranded: AtomicU64,
    pub(crate) unanswered: AtomicU64,
    pub(crate) refunds_dropped: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) client_leases: AtomicU64,
    pub(crate) client_units: AtomicU64,
    pub(crate) client_returned: AtomicU64,
    pub(crate) client_expired: AtomicU64,
    /// Leases of clients that are open now.
    pub(crate) clients: AtomicU64,
}

#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    count_units(counter, 1);
}

#[inline]
pub(crate) fn count_units(counter: &AtomicU64, units: u64) {
    counter.fetch_add(units, Relaxed);
}

impl Counters {
    /// Counts leases of clients that are not open any more.
    pub(crate) fn close_clients(&self, count: usize) {
        self.clients.fetch_sub(count as u64, Relaxed);
    }
}

/// What a node has decided by itself so far, and its leases. Only requests under policies with leases are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Requests that the node admitted under a lease.
    pub admitted: u64,
    /// Requests that the node denied by a remembered denial.
    pub denied: u64,
    /// Requests that the shared store decided.
    pub asked: u64,
    /// Leases that were granted.
    pub leases: u64,
    /// Units of these leases.
    pub leased: u64,
    /// Units that were not spent and that a settle returned.
    pub returned: u64,
    /// Leases that ended in the store before they were settled, and were not spent completely.
    pub expired: u64,
    /// Units of these leases that were not spent, and count as spent.
    pub stranded: u64,
    /// Requests for leases that the store did not answer.
    pub unanswered: u64,
    /// Refunds that were dropped, because their lease had ended.
    pub refunds_dropped: u64,
    /// Hot keys that got no lease, because the node remembers too many keys.
    pub no_room: u64,
    /// Leases that the node granted to its clients, as parts of its own.
    pub client_leases: u64,
    /// Units of these leases.
    pub client_units: u64,
    /// Units that clients did not spend, and that are in the leases of the node again.
    pub client_returned: u64,
    /// Leases of clients that ended before they were settled. All of their units count as spent.
    pub client_expired: u64,
    /// Leases of clients that are open now.
    pub clients: u64,
    /// Keys that the node remembers now.
    pub keys: u64,
    /// Leases that the node holds now.
    pub open: u64,
    /// Units that are left of them.
    pub left: u64,
}

impl Counters {
    /// The counts so far. The present state is not filled in.
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            admitted: self.admitted.load(Relaxed),
            denied: self.denied.load(Relaxed),
            asked: self.asked.load(Relaxed),
            leases: self.leases.load(Relaxed),
            leased: self.leased.load(Relaxed),
            returned: self.returned.load(Relaxed),
            expired: self.expired.load(Relaxed),
            stranded: self.stranded.load(Relaxed),
            unanswered: self.unanswered.load(Relaxed),
            refunds_dropped: self.refunds_dropped.load(Relaxed),
            no_room: self.no_room.load(Relaxed),
            client_leases: self.client_leases.load(Relaxed),
            client_units: self.client_units.load(Relaxed),
            client_returned: self.client_returned.load(Relaxed),
            client_expired: self.client_expired.load(Relaxed),
            clients: self.clients.load(Relaxed),
            ..Stats::default()
        }
    }
}

impl Stats {
    /// The counts and these keys as a part of a store's report.
    pub(crate) fn report(&self, keys: Vec<LeasedKey>) -> NodeLeases {
        let Self { admitted, denied, asked, open, left, keys: remembered, .. } = *self;
        NodeLeases { admitted, denied, asked, open, left, remembered, keys }
    }

    /// The counts as metrics of a store.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let decisions = [("lease", self.admitted), ("remembered_denial", self.denied), ("store", self.asked)];
        vec![
            Metric::labelled(
                MetricKind::Counter,
                "lease_decisions",
                "Decisions under policies with leases, by what decided: a lease of this node, a remembered denial, the store",
                "by",
                decisions,
            ),
            Metric::counter("leases", "Leases that were granted to this node", self.leases),
            Metric::counter("lease_units", "Units of the leases that were granted to this node", self.leased),
            Metric::counter("lease_units_returned", "Units of leases that were returned unspent", self.returned),
            Metric::counter("leases_expired", "Leases that ended before they were settled or spent", self.expired),
            Metric::counter("lease_units_stranded", "Unspent units of leases that ended before", self.stranded),
            Metric::counter("lease_requests_unanswered", "Requests for leases without an answer", self.unanswered),
            Metric::counter("lease_refunds_dropped", "Refunds of units whose lease had ended", self.refunds_dropped),
            Metric::counter("lease_keys_without_room", "Hot keys without room to remember them", self.no_room),
            Metric::counter("lease_clients", "Leases that this node granted to its clients", self.client_leases),
            Metric::counter("lease_client_units", "Units of the leases of clients", self.client_units),
            Metric::counter("lease_client_units_returned", "Units that clients returned unspent", self.client_returned),
            Metric::counter("lease_clients_expired", "Leases of clients that were not settled", self.client_expired),
            Metric::gauge("lease_clients_open", "Leases of clients that are open", self.clients),
            Metric::gauge("lease_keys", "Keys that this node remembers for leases and denials", self.keys),
            Metric::gauge("leases_open", "Leases that this node holds", self.open),
            Metric::gauge("lease_units_left", "Units that are left of the leases of this node", self.left),
        ]
    }
}
