//! Clients without bursts: at random moments, in waves, or like clockwork.

use super::Clock;
use crate::simulate::{random::Random, traffic::curve::Curve};

/// A Poisson process: each request comes independently of the others.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Steady {
    clock: Clock,
    mean_gap: f64,
}

impl Steady {
    pub(super) fn new(clock: Clock, mean_gap: f64) -> Self {
        Self { clock, mean_gap }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        self.clock.pass(random.exponential(self.mean_gap));
        self.clock.now()
    }
}

/// A Poisson process whose rate follows a curve: requests at the highest rate, of which each moment keeps its share.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Waves {
    clock: Clock,
    shortest_mean_gap: f64,
    curve: Curve,
}

impl Waves {
    pub(super) fn new(clock: Clock, mean_gap: f64, curve: Curve) -> Self {
        Self { clock, shortest_mean_gap: mean_gap / Curve::HIGHEST, curve }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        loop {
            self.clock.pass(random.exponential(self.shortest_mean_gap));
            if random.chance(self.curve.at(self.clock.now()) / Curve::HIGHEST) {
                return self.clock.now();
            }
        }
    }
}

/// A scraper that waits about as long after each page.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Scraper {
    clock: Clock,
    gap: f64,
    begun: bool,
}

impl Scraper {
    pub(in crate::simulate::traffic) fn new(clock: Clock, gap: f64) -> Self {
        Self { clock, gap, begun: false }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> u64 {
        // Not all begin at once.
        let part = if self.begun { random.between(0.9, 1.1) } else { random.unit() };
        self.begun = true;
        self.clock.pass(self.gap * part);
        self.clock.now()
    }
}
