//! The leases of clients, which are parts of the leases of this node.

use std::time::Duration;

use tidegate::{Lease, Leased, ReservationError, ReservationId};

use super::KeyLeases;
use crate::stats::{Counters, count, count_units};

impl KeyLeases {
    /// Leases units of the current lease to a client. `None` if the shared store has to grant the lease. Then report its
    /// answer to [`note_client_lease`](Self::note_client_lease).
    pub(crate) fn lease_out(
        &mut self,
        now: u64,
        fingerprint: u128,
        nonce: [u8; 16],
        lease: &Lease,
        counters: &Counters,
    ) -> Option<Leased> {
        self.has_clients = true;
        self.heat.heat_up(self.term_at(now));
        let open: usize = self.current.iter().chain(&self.draining).map(|slice| slice.clients().len()).sum();
        if open as u64 >= u64::from(self.policy.reservation_bounds().max_reservations()) {
            return None;
        }
        let grant = self.current.as_mut()?.lease_out(now, u128::from_be_bytes(nonce), lease)?;
        count(&counters.client_leases);
        count(&counters.clients);
        count_units(&counters.client_units, grant.units);
        self.demand.note_client(grant.units);
        self.last_spend = now;
        let id = ReservationId::in_process(&self.policy, nonce, fingerprint);
        let leased = Leased::new(self.answer(now, None)?, Some(id), grant.units, None);
        let ttl = Duration::from_micros(grant.ttl);
        Some(if ttl < lease.ttl { leased.with_ttl(ttl) } else { leased })
    }

    /// Records a lease that the shared store granted to a client, so that the next lease of this node is large enough.
    pub(crate) fn note_client_lease(&mut self, now: u64, units: u64) {
        self.has_clients = true;
        self.heat.heat_up(self.term_at(now));
        self.demand.note_client(units);
    }

    /// Closes the lease of a client, of which `spent` units were spent. Returns whether it was open.
    pub(crate) fn settle_client(
        &mut self,
        now: u64,
        nonce: [u8; 16],
        spent: u64,
        counters: &Counters,
    ) -> Result<bool, ReservationError> {
        let slices = self.current.iter_mut().chain(&mut self.draining);
        let settled = { slices }.find_map(|slice| slice.settle_client(now, u128::from_be_bytes(nonce), spent));
        match settled {
            None => Ok(false),
            Some(Err(too_much)) => Err(ReservationError::SpentTooMuch { spent, units: too_much.units }),
            Some(Ok(unspent)) => {
                counters.close_clients(1);
                count_units(&counters.client_returned, unspent);
                self.demand.note_returned(unspent);
                self.stop_drained();
                Ok(true)
            }
        }
    }

    /// Counts the leases of clients that have ended as spent.
    pub(super) fn end_clients(&mut self, now: u64, counters: &Counters) {
        let slices = self.current.iter_mut().chain(&mut self.draining);
        let ended: usize = slices.map(|slice| slice.end_clients(now)).sum();
        if ended > 0 {
            counters.close_clients(ended);
            count_units(&counters.client_expired, ended as u64);
            self.stop_drained();
        }
    }

    /// Stops the leases of which no client has a part any more, so that they are settled.
    fn stop_drained(&mut self) {
        let drained = self.draining.extract_if(.., |slice| slice.clients().is_empty());
        self.stopped.extend(drained.map(crate::slice::Slice::stop));
    }
}
