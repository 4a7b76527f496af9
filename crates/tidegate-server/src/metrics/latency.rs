//! [`Latency`]: the durations of decisions, counted in buckets that are a quarter of an octave wide. A quantile is at most a fifth
//! too high.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// All durations below 2^10 ns share a bucket, and so do those from 2^28 ns (a quarter of a second) on.
const FIRST_OCTAVE: u32 = 10;
const OCTAVES: usize = 18;
const BUCKETS: usize = 2 + 4 * OCTAVES;

/// Counts of durations, by bucket.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// The counts at one moment, or between two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DurationCounts([u64; BUCKETS]);

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), nanos: AtomicU64::new(0) }
    }
}

/// Returns the bucket of a duration.
#[inline]
fn index(nanos: u64) -> usize {
    let octave = (nanos | 1).ilog2();
    if octave < FIRST_OCTAVE {
        return 0;
    }
    let quarter = nanos >> (octave - 2) & 3;
    ((octave - FIRST_OCTAVE) as usize * 4 + quarter as usize + 1).min(BUCKETS - 1)
}

/// Returns the end of a bucket in nanoseconds; the last bucket has none.
fn end(index: usize) -> Option<u64> {
    let quarters = index as u64;
    (index < BUCKETS - 1).then(|| (4 + quarters % 4) << (u64::from(FIRST_OCTAVE) - 2 + quarters / 4))
}

impl Latency {
    #[inline]
    pub(crate) fn observe(&self, nanos: u64) {
        self.buckets[index(nanos)].fetch_add(1, Relaxed);
        self.nanos.fetch_add(nanos, Relaxed);
    }

    pub(crate) fn counts(&self) -> DurationCounts {
        DurationCounts(array::from_fn(|index| self.buckets[index].load(Relaxed)))
    }

    /// Returns the sum of all durations in seconds.
    #[expect(clippy::cast_precision_loss, reason = "a sum for a graph")]
    pub(crate) fn seconds(&self) -> f64 {
        self.nanos.load(Relaxed) as f64 / 1e9
    }
}

impl Default for DurationCounts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl DurationCounts {
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(array::from_fn(|index| self.0[index] + other.0[index]))
    }

    /// Returns the counts since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(array::from_fn(|index| self.0[index].saturating_sub(before.0[index])))
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns a quantile in nanoseconds; `None` if there are no durations. The last bucket has no end, so its start is returned.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share")]
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.total();
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        let found = (0..BUCKETS).find(|index| {
            seen += self.0[*index];
            seen >= rank
        });
        found.filter(|_| total > 0).and_then(|index| end(index).or_else(|| end(BUCKETS - 2)))
    }

    /// Returns the buckets for Prometheus: an upper bound in seconds for each octave from 4 µs on, and its count.
    #[expect(clippy::cast_precision_loss, reason = "bounds are powers of two")]
    pub(crate) fn octaves(&self) -> Vec<(f64, u64)> {
        // The first bucket has all durations below 4 µs, the last those beyond all others.
        let ends = (0..BUCKETS).map(|index| match end(index) {
            Some(end) => (4096_u64.max(end.next_power_of_two())) as f64 / 1e9,
            None => f64::INFINITY,
        });
        let mut octaves: Vec<(f64, u64)> = Vec::new();
        for (end, count) in ends.zip(self.0) {
            match octaves.last_mut() {
                Some(last) if last.0.total_cmp(&end).is_eq() => last.1 += count,
                _ => octaves.push((end, count)),
            }
        }
        octaves
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Latency, end, index};

    #[test]
    fn a_duration_lies_between_the_ends_of_two_buckets() {
        for nanos in (0..60).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, 5 << bit >> 2, 7 << bit >> 2]) {
            let at = index(nanos);
            assert!(end(at).is_none_or(|end| nanos < end), "{nanos} in {at}");
            assert!(at == 0 || end(at - 1).is_some_and(|before| nanos >= before), "{nanos} in {at}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_at_most_a_quarter_of_an_octave_too_high() {
        let latency = Latency::default();
        let before = latency.counts();
        assert_eq!(before.quantile(0.5), None, "nothing has been seen");
        for nanos in 1..=1000 {
            latency.observe(nanos * 10_000);
        }
        let counts = latency.counts().since(&before);
        for (share, exact) in [(0.5, 5_000_000), (0.99, 9_900_000), (1.0, 10_000_000), (0.0, 10_000)] {
            let quantile = counts.quantile(share).unwrap();
            assert!(quantile >= exact && quantile <= exact * 5 / 4, "{share}: {quantile}");
        }
        latency.observe(u64::MAX / 2);
        assert_eq!(latency.counts().since(&counts).quantile(1.0), Some(1 << 28), "beyond the last bucket");
    }

    #[test]
    fn every_duration_is_in_one_octave() {
        let latency = Latency::default();
        for nanos in [0, 500, 3_000, 5_000, 5_100, 1 << 27, 1 << 40] {
            latency.observe(nanos);
        }
        let octaves = latency.counts().octaves();
        assert_eq!(octaves.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert_eq!(octaves[0], (4.096e-6, 3));
        assert_eq!(octaves[1], (8.192e-6, 2));
        assert!(octaves[17].0.is_infinite(), "Prometheus needs a last bucket without an end");
        assert_eq!(octaves.len(), 18, "sixteen doublings, one bucket below and one beyond");
    }
}
