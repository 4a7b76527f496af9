//! [`Spread`]: requests that are known to the second only, spread within it.
//!
//! The requests of one second get moments drawn at random, in the order that they were logged in; one that was logged late is drawn on
//! its own. A second in which any request has a finer time is left as it is.

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
        let second = request.time_us / SECOND;
        if second < self.second {
            // Its second is over: nothing is held for it, so that a time that is far ahead does not make all others be held.
            let offset = if request.time_us.is_multiple_of(SECOND) { self.random.random_range(0..SECOND) } else { 0 };
            return each(&Request { time_us: request.time_us + offset, ..*request });
        }
        if second > self.second {
            self.hand_out(each)?;
            self.second = second;
        }
        self.keys.extend_from_slice(request.key);
        self.held.push(Held { time_us: request.time_us, cost: request.cost, key_end: self.keys.len() });
        ControlFlow::Continue(())
    }

    /// Hands out what is held.
    pub(super) fn hand_out(&mut self, each: &mut impl FnMut(&Request<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        if self.held.iter().all(|held| held.time_us.is_multiple_of(SECOND)) {
            let mut offsets: Vec<u64> = self.held.iter().map(|_| self.random.random_range(0..SECOND)).collect();
            offsets.sort_unstable();
            self.held.iter_mut().zip(offsets).for_each(|(held, offset)| held.time_us += offset);
        }
        let mut from = 0;
        for held in self.held.drain(..) {
            each(&Request { time_us: held.time_us, key: &self.keys[from..held.key_end], cost: held.cost })?;
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
    fn late_lines_are_drawn_on_their_own_and_finer_times_stay() {
        let out = spread(1, &[9 * S, 7 * S, 9 * S]);
        assert!(out[0].0 / S == 7 && out[0].1 == 2, "nothing is held for a second that is over");
        assert!(out[1].0 <= out[2].0 && out[2].0 < 10 * S && [out[1].1, out[2].1] == [1, 3]);
        assert_eq!(spread(1, &[9 * S, 9 * S + 5]), [(9 * S, 1), (9 * S + 5, 2)]);
    }
}
