//! [`Random`]: random numbers that are the same for the same seed in every release.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};

/// One of many independent streams of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// Creates the stream with this number. Each client has its own stream, so that one more client changes nothing for the others.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Returns a number of at least 0 and below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of at least `from` and below `to`.
    pub(super) fn between(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Returns a number below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Returns `true` with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponentially distributed number with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - u is never 0.
        -(1.0 - self.unit()).ln() * mean
    }

    /// Returns a geometrically distributed number of at least 1 with this mean.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float saturates")]
    pub(super) fn geometric(&mut self, mean: f64) -> u64 {
        if mean <= 1.0 {
            return 1;
        }
        let step = (1.0 - self.unit()).ln() / (1.0 - 1.0 / mean).ln();
        1 + step as u64
    }

    /// Returns one of `choices`, which must not be empty.
    #[expect(clippy::cast_possible_truncation, reason = "below a length")]
    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Hashes a number. Different numbers have different hashes.
pub(super) fn hash(n: u64) -> u64 {
    let mixed = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Hashes bytes.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).fold(bytes.len() as u64, |so_far, chunk| hash(so_far ^ word(chunk)))
}
