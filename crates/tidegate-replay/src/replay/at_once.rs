//! [`AtOnce`]: the requests that run at once, whatever the answers.
//!
//! A request runs from its start until its end. At its end it does not run any more, so another one that starts then is not at
//! once with it. A limit `N/inflight` denies a client if and only if its peak is above N: before its first denial, all of its
//! requests ran.

use std::{cmp::Reverse, collections::BinaryHeap};

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
}

/// Requests that run at the time of the last request.
#[derive(Debug, Default)]
struct Running {
    /// The end and the units of each request, the earliest end first.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    units: u64,
    peak: u64,
}

impl Running {
    /// Adds a request. Returns whether more units than ever run at once.
    fn add(&mut self, start_us: u64, end_us: u64, units: u64) -> bool {
        while let Some(Reverse((_, ended))) = self.ends.peek().filter(|Reverse((end, _))| *end <= start_us) {
            self.units = self.units.saturating_sub(*ended);
            self.ends.pop();
        }
        self.ends.push(Reverse((end_us, units)));
        self.units = self.units.saturating_add(units);
        let is_more = self.units > self.peak;
        self.peak = self.peak.max(self.units);
        is_more
    }
}

impl AtOnce {
    pub(super) fn record(&mut self, client: u32, request: &Request<'_>) {
        let Request { time_us, duration_us, cost, .. } = *request;
        let end_us = time_us.saturating_add(duration_us.max(SHORTEST_US));
        if self.all.add(time_us, end_us, 1) {
            self.peak_at_us = time_us;
        }
        let client = client as usize;
        if self.clients.len() <= client {
            self.clients.resize_with(client + 1, Running::default);
        }
        self.clients[client].add(time_us, end_us, cost);
    }

    /// Returns the largest number of units of a client in requests at once.
    pub(super) fn peak(&self, client: u32) -> u64 {
        self.clients.get(client as usize).map_or(0, |client| client.peak)
    }

    pub(super) fn findings(&self, clients: &ClientNumbers) -> AtOnceFindings {
        let peaks = || (0_u32..).zip(&self.clients).map(|(number, client)| (client.peak, Reverse(number)));
        let most = peaks().max();
        AtOnceFindings {
            peak: self.all.peak,
            peak_at_us: self.peak_at_us,
            client_peak: most.map_or(0, |(peak, _)| peak),
            client: most.map(|(_, Reverse(client))| display_key(clients.key(client))),
            clients_with_several: peaks().filter(|(peak, _)| *peak > 1).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Running;

    #[test]
    fn a_request_runs_from_its_start_until_its_end() {
        let mut running = Running::default();
        let peaks: Vec<u64> = [(0, 10, 1), (5, 20, 2), (9, 12, 1), (10, 30, 3), (20, 21, 1)]
            .into_iter()
            .map(|(start, end, units)| {
                running.add(start, end, units);
                running.units
            })
            .collect();
        assert_eq!(peaks, [1, 3, 4, 6, 4], "the one that ends at 10 does not run at 10");
        assert_eq!(running.peak, 6);
    }
}
