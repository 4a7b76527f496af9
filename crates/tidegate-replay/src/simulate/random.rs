//! [`Random`]: numbers that are the same for the same seed, in every release.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// One of many independent streams of random numbers of a seed.
#[derive(Debug, Clone)]
pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// The stream of that number; each client has its own, so that one more client changes nothing for the others.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// At least 0, below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// At least `from`, below `to`.
    pub(super) fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Below `end`, which is above 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Whether something happens that does so with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// The time to the next of events that come independently, this far apart on average.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is never 0.
        -(1.0 - self.unit()).ln() * mean
    }

    /// A number from 1 on, each less likely than the one before, of this mean.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
    pub(super) fn geometric(&mut self, mean: f64) -> u64 {
        if mean <= 1.0 {
            return 1;
        }
        let step = (1.0 - self.unit()).ln() / (1.0 - 1.0 / mean).ln();
        1 + step as u64
    }

    /// One of `choices`, which has some.
    #[expect(clippy::cast_possible_truncation, reason = "below a length")]
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Scatters a number over 64 bits; different numbers stay different.
pub(super) fn scatter(n: u64) -> u64 {
    let mixed = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Scatters bytes over 64 bits.
pub(super) fn scatter_bytes(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).fold(bytes.len() as u64, |so_far, chunk| scatter(so_far ^ word(chunk)))
}
