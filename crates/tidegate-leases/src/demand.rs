//! [`Demand`]: the units that a node needs of a key, from which it sizes its leases.

use tidegate::Cost;

/// The requests since the last lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    since: u64,
    units: u64,
    requests: u64,
    /// The units of clients' leases, less those that they returned.
    leased_out: u64,
    /// The size of the last lease that was requested.
    asked: u64,
    /// The units of an average request.
    average: u64,
}

impl Demand {
    pub(crate) fn new(now: u64) -> Self {
        Self { since: now, units: 0, requests: 0, leased_out: 0, asked: 0, average: 1 }
    }

    /// Counts an admitted request.
    #[inline]
    pub(crate) fn note(&mut self, units: u64) {
        self.units = self.units.saturating_add(units);
        self.requests += 1;
    }

    /// Counts the lease of a client.
    pub(crate) fn note_client(&mut self, units: u64) {
        self.leased_out = self.leased_out.saturating_add(units);
    }

    /// Counts units that a client returned.
    pub(crate) fn note_returned(&mut self, units: u64) {
        self.leased_out = self.leased_out.saturating_sub(units);
    }

    /// The units of an average request.
    pub(crate) fn average(&self) -> u64 {
        self.average
    }

    /// The units that are needed in `time`, by the size of the last lease.
    pub(crate) fn within(&self, time: u64, term: u64) -> u64 {
        scaled(self.asked, time, term)
    }

    /// Whether fewer than half of an average request are expected in `time`, by the size of the last lease.
    pub(crate) fn is_rare_within(&self, time: u64, term: u64) -> bool {
        2 * u128::from(self.asked) * u128::from(time) < u128::from(self.average) * u128::from(term)
    }

    /// The number of units to request for a term, a quarter more than needed. Then counting begins again.
    ///
    /// A short time says little about a term. So a lease is at most twice the last one, or four times what was needed since.
    pub(crate) fn next_lease(&mut self, now: u64, term: u64) -> u64 {
        self.average = self.units.checked_div(self.requests).map_or(self.average, |average| average.max(1));
        let elapsed = now.saturating_sub(self.since).max(1);
        let units = self.units.saturating_add(self.leased_out);
        let needed = scaled(units, term, elapsed);
        let most = (units.saturating_mul(4)).max(self.asked.saturating_mul(2)).max(self.average);
        self.asked = needed.saturating_add(needed / 4).clamp(self.average, most).min(Cost::MAX.get());
        (self.since, self.units, self.requests, self.leased_out) = (now, 0, 0, 0);
        self.asked
    }
}

/// `units * numerator / denominator`, rounded up and at most 2^64 - 1.
fn scaled(units: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(units) * u128::from(numerator);
    u64::try_from(product.div_ceil(u128::from(denominator.max(1)))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Demand;

    const TERM: u64 = 200_000;

    #[test]
    fn a_lease_is_a_quarter_more_than_a_term_needs() {
        let mut demand = Demand::new(0);
        for _ in 0..100 {
            demand.note(3);
        }
        assert_eq!(demand.next_lease(TERM, TERM), 375);
        assert_eq!(demand.average(), 3);
        for _ in 0..10 {
            demand.note(3);
        }
        assert_eq!(demand.next_lease(2 * TERM, TERM), 37, "demand has fallen");
    }

    #[test]
    fn a_burst_grows_a_lease_step_by_step() {
        let mut demand = Demand::new(0);
        demand.note(1);
        demand.note(1);
        assert_eq!(demand.next_lease(10, TERM), 8, "four times what was needed in 10 microseconds");
        assert_eq!(demand.next_lease(20, TERM), 1, "nothing was needed since");
        (0..8).for_each(|_| demand.note(1));
        assert_eq!(demand.next_lease(30, TERM), 32);
        (0..4).for_each(|_| demand.note(1));
        assert_eq!(demand.next_lease(40, TERM), 64, "twice the last lease");
        assert_eq!(demand.within(TERM / 4, TERM), 16);
        // 64 units in a term: half of a request of one unit in the 128th part of it.
        assert!(!demand.is_rare_within(TERM / 128 + 1, TERM));
        assert!(demand.is_rare_within(TERM / 128, TERM));
    }
}
