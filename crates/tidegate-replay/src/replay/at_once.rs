//! [`AtOnce`]: the requests that run at once, whatever the answers, and those that each limit on them would deny.
//!
//! A request runs from its start until its end. At its end it does not run any more, so another one that starts then is not at
//! once with it. A limit `N/inflight` denies a client if and only if the client's peak is above N: before its first denial, all of
//! its requests ran.
//!
//! A denied request does not run, so the peaks do not give the number of denials. Slots do, for every limit in one pass: a request
//! takes the lowest free slot of its client until its end, and N denies it if and only if the slot is beyond the first N. Among the
//! requests that N admits, at most one is not admitted by N - 1, so each running request is the one that its slot adds. This holds
//! if every request costs one unit. With other costs, only the engine knows the denials.
//!
//! Times are read as a store reads them that admits every request.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{at_once_limits, demand::FAR_BACK};
use crate::{
    client_numbers::ClientNumbers,
    findings::AtOnceFindings,
    logs::{Request, display_key},
};

/// Shortest duration of a request, as in the store.
const SHORTEST_US: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct AtOnce {
    all: Running,
    /// Time of the peak of all clients.
    peak_at_us: u64,
    clients: Vec<Running>,
    /// Number of requests that took each slot.
    by_slot: Vec<u64>,
    /// Whether a request costs more than one unit.
    has_costs: bool,
}

/// Requests that run at the time of the last request.
#[derive(Debug, Default)]
struct Running {
    newest_us: u64,
    /// The end, the units and the slot of each request, the earliest end first.
    ends: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Slots that are free again, the lowest first.
    free: BinaryHeap<Reverse<usize>>,
    units: u64,
    peak: u64,
}

impl Running {
    /// Adds a request. Returns its slot.
    fn add(&mut self, start_us: u64, duration_us: u64, units: u64) -> usize {
        let behind = self.newest_us.saturating_sub(start_us);
        if behind > FAR_BACK {
            self.redate(behind);
        }
        let start_us = start_us.max(self.newest_us);
        self.newest_us = start_us;
        while let Some(Reverse((_, ended, slot))) = self.ends.peek().filter(|Reverse((end, ..))| *end <= start_us) {
            self.units = self.units.saturating_sub(*ended);
            self.free.push(Reverse(*slot));
            self.ends.pop();
        }
        // If no slot is free again, the running requests have the first slots.
        let slot = self.free.pop().map_or(self.ends.len(), |Reverse(slot)| slot);
        self.ends.push(Reverse((start_us.saturating_add(duration_us.max(SHORTEST_US)), units, slot)));
        self.units = self.units.saturating_add(units);
        self.peak = self.peak.max(self.units);
        slot
    }

    /// Moves all times back, so that the requests still run as long under a clock that is behind.
    #[cold]
    fn redate(&mut self, behind: u64) {
        self.newest_us = self.newest_us.saturating_sub(behind);
        let moved = |Reverse((end, units, slot)): Reverse<(u64, u64, usize)>| {
            Reverse((end.saturating_sub(behind), units, slot))
        };
        self.ends = std::mem::take(&mut self.ends).into_iter().map(moved).collect();
    }
}

impl AtOnce {
    pub(super) fn record(&mut self, client: u32, request: &Request<'_>) {
        let Request { time_us, duration_us, cost, .. } = *request;
        let peak = self.all.peak;
        self.all.add(time_us, duration_us, 1);
        if self.all.peak > peak {
            self.peak_at_us = time_us;
        }
        let client = client as usize;
        if self.clients.len() <= client {
            self.clients.resize_with(client + 1, Running::default);
        }
        let slot = self.clients[client].add(time_us, duration_us, cost);
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] += 1;
        self.has_costs |= cost > 1;
    }

    /// Returns the largest number of units of a client in requests at once.
    pub(super) fn peak(&self, client: u32) -> u64 {
        self.clients.get(client as usize).map_or(0, |client| client.peak)
    }

    pub(super) fn findings(&self, clients: &ClientNumbers) -> AtOnceFindings {
        let peaks = || (0_u32..).zip(&self.clients).map(|(number, client)| (client.peak, Reverse(number)));
        let most = peaks().max();
        let by_slot = (!self.has_costs).then_some(&self.by_slot[..]);
        let points = at_once_limits::points(peaks().map(|(peak, _)| peak).collect(), by_slot);
        AtOnceFindings {
            peak: self.all.peak,
            peak_at_us: self.peak_at_us,
            client_peak: most.map_or(0, |(peak, _)| peak),
            client: most.map(|(_, Reverse(client))| display_key(clients.key(client))),
            clients_with_several: peaks().filter(|(peak, _)| *peak > 1).count() as u64,
            suggestions: at_once_limits::suggestions(&points, self.by_slot.iter().sum()),
            limits: at_once_limits::thinned(points),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Running;

    #[test]
    fn a_request_runs_from_its_start_until_its_end() {
        let mut running = Running::default();
        let ms = |ms: u64| ms * 1_000;
        let running_units: Vec<u64> = [(0, 10, 1), (5, 15, 2), (9, 3, 1), (10, 20, 3), (20, 1, 1)]
            .into_iter()
            .map(|(start, duration, units)| {
                running.add(ms(start), ms(duration), units);
                running.units
            })
            .collect();
        assert_eq!(running_units, [1, 3, 4, 6, 4], "the one that ends at 10 does not run at 10");
        assert_eq!(running.peak, 6);
    }

    #[test]
    fn a_request_takes_the_lowest_slot_that_is_free() {
        let mut running = Running::default();
        let slots = [(0, 100), (1, 10), (2, 100), (11, 5), (12, 1), (16, 1), (200, 1)]
            .map(|(start, duration)| running.add(start * 1_000, duration * 1_000, 1));
        assert_eq!(slots, [0, 1, 2, 1, 3, 1, 0]);
    }
}
