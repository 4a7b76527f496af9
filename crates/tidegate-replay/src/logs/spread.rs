//! [`Spread`]: requests that are known to the second only, spread within it.
//!
//! The requests of one second get moments drawn at random, in the order that they were logged in; a request that was logged late
//! keeps its place in the log. A second in which any request has a finer time is left as it is.

use std::ops::ControlFlow;

use rand::RngExt as _;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng as _};

use super::Request;

const SECOND: u64 = 1_000_000;

/// Holds the requests of one second until the next one begins.
pub(super) struct Spread {
    random: ChaCha8Rng,
    second: u64,
    held: Vec<Held>,
    keys: Vec<u8>,
}

struct Held {
    time_us: u64,
    cost: u64,
    key_end: usize,
}

impl Spread {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), second: 0, held: Vec::new(), keys: Vec::new() }
    }

    /// Takes a request; hands out those of the second before, if this is the first of another.
    pub(super) fn take(
        &mut self,
        request: &Request<'_>,
        each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if request.time_us / SECOND > self.second {
            self.hand_out(each)?;
            self.second = request.time_us / SECOND;
        }
        self.keys.extend_from_slice(request.key);
        self.held.push(Held { time_us: request.time_us, cost: request.cost, key_end: self.keys.len() });
        ControlFlow::Continue(())
    }

    /// Hands out what is held.
    pub(super) fn hand_out(&mut self, each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        let in_second = self.held.iter().filter(|held| held.time_us / SECOND == self.second);
        let moments = if in_second.clone().all(|held| held.time_us.is_multiple_of(SECOND)) {
            let mut moments: Vec<u64> =
                in_second.map(|_| self.second * SECOND + self.random.random_range(0..SECOND)).collect();
            moments.sort_unstable();
            moments
        } else {
            in_second.map(|held| held.time_us).collect()
        };
        let mut moments = moments.into_iter();
        let mut from = 0;
        for held in self.held.drain(..) {
            let is_late = held.time_us / SECOND < self.second;
            let time_us = if is_late { held.time_us } else { moments.next().unwrap_or(held.time_us) };
            each(&Request { time_us, key: &self.keys[from..held.key_end], cost: held.cost })?;
            from = held.key_end;
        }
        self.keys.clear();
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::{Request, Spread};

    fn spread(seed: u64, times: &[u64]) -> Vec<(u64, u64)> {
        let mut spread = Spread::new(seed);
        let mut out = Vec::new();
        let mut each = |request: &Request<'_>| {
            out.push((request.time_us, request.cost));
            ControlFlow::Continue(())
        };
        for (time_us, cost) in times.iter().zip(1..) {
            assert!(spread.take(&Request { time_us: *time_us, key: b"k", cost }, &mut each).is_continue());
        }
        assert!(spread.hand_out(&mut each).is_continue());
        out
    }

    const S: u64 = 1_000_000;

    #[test]
    fn stays_within_the_second_and_in_order_and_the_same_for_a_seed() {
        let times = [5 * S, 5 * S, 5 * S, 6 * S, 6 * S];
        let out = spread(1, &times);
        assert_eq!(out, spread(1, &times));
        assert_ne!(out, spread(2, &times));
        assert!(out.iter().map(|(_, cost)| *cost).eq(1..=5), "in the order of the log");
        assert!(out.is_sorted() && out.iter().zip(&times).all(|((at, _), time)| at / S == time / S));
        assert!(out[0].0 != out[1].0 && out[1].0 != out[2].0);
    }

    #[test]
    fn late_lines_and_finer_times_stay_as_they_are() {
        let out = spread(1, &[9 * S, 7 * S, 9 * S]);
        assert_eq!(out[1], (7 * S, 2));
        assert!(out[0].0 <= out[2].0 && out[2].0 < 10 * S);
        assert_eq!(spread(1, &[9 * S, 9 * S + 5]), [(9 * S, 1), (9 * S + 5, 2)]);
    }
}
