//! [`Slice`]: the units of one lease, from which this node admits requests.

use std::collections::VecDeque;

use tidegate::{Lease, ReservationId, Timestamp};

use crate::client_leases::{ClientGrant, ClientLeases, SpentTooMuch};

/// The part of a term by which the clocks of node and store may differ: 1 / 100.
pub(crate) const CLOCK_RATE: u64 = 100;

/// The number of charges that are remembered for refunds: 4 KB, for each of the keys that a node remembers.
const MAX_CHARGES: usize = 256;

/// A lease that this node holds.
#[derive(Debug)]
pub(crate) struct Slice {
    id: ReservationId,
    units: u64,
    /// The units that were admitted here or leased to clients.
    spent: u64,
    /// The length of the lease.
    term: u64,
    /// The first time at which nothing may be admitted any more, by the clock of the node.
    stops_at: u64,
    /// A time at which the lease has certainly ended in the store, by the clock of the node.
    ended_at: u64,
    /// The newest charges, in the order of their times, if refunds of the key have been seen.
    charges: VecDeque<(Timestamp, u64)>,
    clients: ClientLeases,
}

impl Slice {
    /// A lease of `units` for `term`, which was requested at `sent_at` and granted before `now`.
    pub(crate) fn new(id: ReservationId, units: u64, term: u64, sent_at: u64, now: u64) -> Self {
        let stops_at = sent_at.saturating_add(term - term.div_ceil(CLOCK_RATE));
        let ended_at = now.saturating_add(term + term.div_ceil(CLOCK_RATE));
        let (charges, clients) = (VecDeque::new(), ClientLeases::default());
        Self { id, units, spent: 0, term, stops_at, ended_at, charges, clients }
    }

    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    pub(crate) fn stops_at(&self) -> u64 {
        self.stops_at
    }

    /// Units that may still be admitted at `now`.
    #[inline]
    pub(crate) fn left(&self, now: u64) -> u64 {
        if now < self.stops_at { self.units - self.spent } else { 0 }
    }

    /// Spends `units` if they are left. Returns whether they were.
    #[inline]
    pub(crate) fn spend(&mut self, now: u64, units: u64) -> bool {
        let fits = units <= self.left(now);
        if fits {
            self.spent += units;
        }
        fits
    }

    /// Remembers a charge, so that it can be taken back.
    pub(crate) fn remember_charge(&mut self, units: u64, charged_at: Timestamp) {
        match self.charges.back_mut() {
            Some((time, charged)) if *time == charged_at => *charged += units,
            _ => {
                if self.charges.len() == MAX_CHARGES {
                    self.charges.pop_front();
                }
                self.charges.push_back((charged_at, units));
            }
        }
    }

    /// Takes back units of a charge at exactly `charged_at`, at most those of the charge. Returns whether there was one.
    ///
    /// Other charges are not taken back. The store may have charged them itself, and counts them from another time than the
    /// units that this node would admit in their place.
    pub(crate) fn take_back(&mut self, now: u64, units: u64, charged_at: Timestamp) -> bool {
        if now >= self.stops_at {
            return false;
        }
        let Ok(at) = self.charges.binary_search_by_key(&charged_at, |(time, _)| *time) else { return false };
        let charged = &mut self.charges[at].1;
        let taken = units.min(*charged);
        *charged -= taken;
        self.spent -= taken;
        taken > 0
    }

    /// The leases of clients that are open.
    pub(crate) fn clients(&self) -> &ClientLeases {
        &self.clients
    }

    /// Leases units to a client, if they are left for long enough.
    pub(crate) fn lease_out(&mut self, now: u64, nonce: u128, lease: &Lease) -> Option<ClientGrant> {
        let grant = self.clients.fitting(lease, self.left(now), self.stops_at.saturating_sub(now))?;
        self.spent += grant.units;
        self.clients.add(now, nonce, grant);
        Some(grant)
    }

    /// Closes the lease of a client. Returns the units that are in this lease again, or `None` if it is not open.
    pub(crate) fn settle_client(&mut self, now: u64, nonce: u128, spent: u64) -> Option<Result<u64, SpentTooMuch>> {
        let settled = self.clients.settle(now, nonce, spent)?;
        if let Ok(unspent) = settled {
            self.spent -= unspent;
        }
        Some(settled)
    }

    /// Counts the leases of clients that have ended as spent. Returns their number.
    pub(crate) fn end_clients(&mut self, now: u64) -> usize {
        self.clients.end(now)
    }

    /// Stops to admit from the lease. No lease of a client may be open.
    pub(crate) fn stop(self) -> StoppedLease {
        let Self { id, units, spent, ended_at, clients, .. } = self;
        debug_assert!(clients.is_empty(), "a client may still be spending units of the lease");
        StoppedLease { id, units, spent, ended_at }
    }
}

/// A lease from which nothing is admitted any more, and which the store may still count.
#[derive(Debug, Clone)]
pub(crate) struct StoppedLease {
    pub(crate) id: ReservationId,
    pub(crate) units: u64,
    pub(crate) spent: u64,
    pub(crate) ended_at: u64,
}

impl StoppedLease {
    pub(crate) fn unspent(&self) -> u64 {
        self.units - self.spent
    }
}
