//! [`Adversary`]: a client that knows how limits are counted, and where windows begin.

use crate::simulate::traffic::{Traffic, window_us};

/// What adversaries ask for on average, as a multiple of the limit.
pub(in crate::simulate::traffic) const LOAD: f64 = 4.0 / 3.0;

/// A client that asks for much at the moments that a way of counting is worst at.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Adversary {
    plan: Plan,
    window_us: u64,
    /// Requests that spend a whole limit.
    full: u64,
    /// The first edge that matters to it.
    edge_us: u64,
    /// How many requests of a round are sent.
    sent: u64,
}

/// What an adversary does in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// A whole limit just before an edge, then twice as many tries through the next window.
    BurstThenTrickle,
    /// A whole limit on each side of an edge.
    BothSides,
    /// As `BurstThenTrickle`, at the edge of a tenth of a window, which moves on from round to round.
    AtBuckets,
    /// Three times the limit, evenly.
    Hammer,
    /// A whole limit at once, and again as soon as the log has forgotten it.
    Returning,
}

impl Adversary {
    pub(super) fn new(traffic: &Traffic, client: u32) -> Self {
        let plans = [Plan::BurstThenTrickle, Plan::BothSides, Plan::AtBuckets, Plan::Hammer, Plan::Returning];
        let plan = plans[client as usize % plans.len()];
        let window_us = window_us(traffic.limit);
        // Every second client of a plan keeps step with the others; the rest come a window or two later.
        let turn = client / 5;
        let later = if turn.is_multiple_of(2) { 0 } else { u64::from(turn / 2 % 3) };
        let edge_us = traffic.start_us.next_multiple_of(window_us) + (1 + later) * window_us;
        Self { plan, window_us, full: traffic.limit.max().div_ceil(traffic.cost), edge_us, sent: 0 }
    }

    pub(super) fn next(&mut self) -> u64 {
        let (requests, round_us) = match self.plan {
            Plan::BurstThenTrickle => (3 * self.full, 3 * self.window_us),
            Plan::AtBuckets => (3 * self.full, 3 * self.window_us + self.window_us / 10),
            Plan::BothSides => (2 * self.full, 3 * self.window_us),
            Plan::Hammer => (3 * self.full, self.window_us),
            Plan::Returning => (self.full, self.window_us),
        };
        if self.sent == requests {
            self.sent = 0;
            self.edge_us += round_us;
        }
        let (at, full) = (self.sent, self.full);
        self.sent += 1;
        match self.plan {
            Plan::BurstThenTrickle | Plan::AtBuckets if at >= full => {
                // The last try comes just before the burst is forgotten.
                self.edge_us + part(self.window_us - 2, at - full, (2 * full - 1).max(1))
            }
            Plan::BothSides if at >= full => self.edge_us,
            Plan::BurstThenTrickle | Plan::AtBuckets | Plan::BothSides => self.edge_us - 1,
            Plan::Hammer => self.edge_us + part(self.window_us, at, requests),
            Plan::Returning => self.edge_us,
        }
    }
}

/// `at / of` of a length of time.
fn part(length_us: u64, at: u64, of: u64) -> u64 {
    u64::try_from(u128::from(length_us) * u128::from(at) / u128::from(of)).unwrap_or(u64::MAX)
}
