//! [`Spreader`]: spreads requests within their second when only the second is known.
//!
//! The requests of one second get random times within it, and keep their order. A late request gets its own random time. A second
//! that has a request with a finer time stays as it is.

use std::ops::ControlFlow;

use rand::RngExt as _;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng as _};

use super::{Each, Request, RequestBuffer};

const SECOND: u64 = 1_000_000;

/// Holds the requests of one second until the next second begins.
pub(super) struct Spreader {
    random: ChaCha8Rng,
    second: u64,
    held: RequestBuffer,
}

impl Spreader {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), second: 0, held: RequestBuffer::default() }
    }

    /// Adds a request. Releases the requests of the previous second if a new second begins.
    pub(super) fn push(&mut self, request: &Request<'_>, each: &mut Each<'_>) -> ControlFlow<()> {
        let second = request.time_us / SECOND;
        if second < self.second {
            // A late request is not held. So one time that is far ahead does not delay all other requests.
            let offset = if request.time_us.is_multiple_of(SECOND) { self.random.random_range(0..SECOND) } else { 0 };
            return each(&Request { time_us: request.time_us + offset, ..*request });
        }
        if second > self.second {
            self.flush(each)?;
            self.second = second;
        }
        self.held.push(request);
        ControlFlow::Continue(())
    }

    /// Releases the held requests.
    pub(super) fn flush(&mut self, each: &mut Each<'_>) -> ControlFlow<()> {
        if self.held.times_mut().all(|time_us| time_us.is_multiple_of(SECOND)) {
            let mut offsets: Vec<u64> = (0..self.held.len()).map(|_| self.random.random_range(0..SECOND)).collect();
            offsets.sort_unstable();
            self.held.times_mut().zip(offsets).for_each(|(time_us, offset)| *time_us += offset);
        }
        self.held.iter().try_for_each(|request| each(&request))?;
        self.held.clear();
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::Spreader;
    use crate::logs::released;

    fn spread(seed: u64, times: &[u64]) -> Vec<(u64, u64)> {
        let mut spreader = Spreader::new(seed);
        released(times, |request, each| match request {
            Some(request) => spreader.push(request, each),
            None => spreader.flush(each),
        })
    }

    const S: u64 = 1_000_000;

    #[test]
    fn requests_stay_in_their_second_and_in_order_and_a_seed_repeats_them() {
        let times = [5 * S, 5 * S, 5 * S, 6 * S, 6 * S];
        let out = spread(1, &times);
        assert_eq!(out, spread(1, &times));
        assert_ne!(out, spread(2, &times));
        assert!(out.iter().map(|(_, cost)| *cost).eq(1..=5), "in the order of the log");
        assert!(out.is_sorted() && out.iter().zip(&times).all(|((at, _), time)| at / S == time / S));
        assert!(out[0].0 != out[1].0 && out[1].0 != out[2].0);
    }

    #[test]
    fn a_late_request_gets_its_own_time_and_finer_times_stay() {
        let out = spread(1, &[9 * S, 7 * S, 9 * S]);
        assert!(out[0].0 / S == 7 && out[0].1 == 2, "a late request is not held");
        assert!(out[1].0 <= out[2].0 && out[2].0 < 10 * S && [out[1].1, out[2].1] == [1, 3]);
        assert_eq!(spread(1, &[9 * S, 9 * S + 5]), [(9 * S, 1), (9 * S + 5, 2)]);
    }
}
