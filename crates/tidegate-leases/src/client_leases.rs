//! [`ClientLeases`]: the parts of one lease of this node that it has leased to its own clients.
//!
//! A client's lease ends before the lease that it is a part of. Until it is settled or has ended, the client may be spending its
//! units, so the node must not settle its own lease before.

use std::{hash::BuildHasherDefault, time::Duration};

use hashbrown::HashMap;
use tidegate::Lease;

use crate::{node::FingerprintHasher, slice::CLOCK_RATE};

/// A part of a lease, which was granted to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientGrant {
    pub(crate) units: u64,
    /// The term, in microseconds.
    pub(crate) ttl: u64,
}

/// The open leases of clients, by their random numbers.
#[derive(Debug, Default)]
pub(crate) struct ClientLeases {
    open: HashMap<u128, ClientLease, BuildHasherDefault<FingerprintHasher>>,
}

#[derive(Debug, Clone, Copy)]
struct ClientLease {
    units: u64,
    /// A time at which the client has certainly stopped to spend, by the clock of this node.
    ended_at: u64,
}

/// More units were spent than the lease of the client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpentTooMuch {
    pub(crate) units: u64,
}

impl ClientLeases {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The grant for a client, of a lease with `left` units that may be spent for `term_left`; `None` if it has too little.
    ///
    /// The number of units is that which a store grants. The term is the one that the client asked for, or what is left of the
    /// lease. Both are measured by clocks that run at most 1 % too fast or too slow, and the node and the client stop 1 % early, so
    /// the client stops before the lease ends in the shared store.
    pub(crate) fn fitting(&self, lease: &Lease, left: u64, term_left: u64) -> Option<ClientGrant> {
        let asked = micros(lease.ttl);
        // The protocols have milliseconds.
        let ttl = if asked <= term_left { asked } else { term_left / 1_000 * 1_000 };
        let is_long_enough = ttl > 0 && ttl >= lease.least_ttl.map_or(asked, micros).min(asked);
        if lease.least.get() > left || !is_long_enough {
            return None;
        }
        let share = left.div_ceil(2 * (self.open.len() as u64 + 1));
        Some(ClientGrant { units: lease.asked.get().min(share).max(lease.least.get()), ttl })
    }

    /// Records a grant.
    pub(crate) fn add(&mut self, now: u64, nonce: u128, grant: ClientGrant) {
        let ended_at = now.saturating_add(grant.ttl + grant.ttl.div_ceil(CLOCK_RATE));
        self.open.insert(nonce, ClientLease { units: grant.units, ended_at });
    }

    /// Closes a lease of which `spent` units were spent. Returns the others, or `None` if it is not open.
    pub(crate) fn settle(&mut self, now: u64, nonce: u128, spent: u64) -> Option<Result<u64, SpentTooMuch>> {
        let ClientLease { units, .. } = self.open.get(&nonce).filter(|lease| now < lease.ended_at)?;
        let Some(unspent) = units.checked_sub(spent) else { return Some(Err(SpentTooMuch { units: *units })) };
        self.open.remove(&nonce);
        Some(Ok(unspent))
    }

    /// Forgets those that have ended: their units count as spent. Returns their number.
    pub(crate) fn end(&mut self, now: u64) -> usize {
        let before = self.open.len();
        self.open.retain(|_, lease| now < lease.ended_at);
        before - self.open.len()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
