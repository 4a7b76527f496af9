//! [`WaitCounter`]: counts the Retry-After times of denials, in whole seconds, rounded up.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::findings::{WaitStep, Waits};

const M: u64 = 60;
const H: u64 = 60 * M;
const D: u64 = 24 * H;

/// Ends of the histogram's steps, in seconds.
#[rustfmt::skip]
const STEPS: [u64; 20] = [
    1, 2, 5, 10, 20, 30, M, 2 * M, 5 * M, 10 * M, 20 * M, 30 * M, H, 2 * H, 6 * H, 12 * H, D, 7 * D, 30 * D, u64::MAX,
];

/// Counts waits.
#[derive(Debug)]
pub(super) struct WaitCounter {
    /// Exact up to 2047 seconds, and to a thousandth beyond.
    waits: Histogram<u64>,
    max_s: u64,
    steps: [u64; STEPS.len()],
}

impl WaitCounter {
    pub(super) fn new() -> Self {
        let waits = Histogram::new(3).expect("a valid precision");
        Self { waits, max_s: 0, steps: [0; STEPS.len()] }
    }

    pub(super) fn record(&mut self, wait: Duration) {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.waits.saturating_record(seconds);
        self.max_s = self.max_s.max(seconds);
        self.steps[STEPS.partition_point(|end| *end < seconds)] += 1;
    }

    pub(super) fn findings(&self) -> Waits {
        let at = |quantile: f64| self.waits.value_at_quantile(quantile).min(self.max_s);
        let step = |(end, count): (&u64, &u64)| WaitStep { up_to_s: *end, count: *count };
        let first = self.steps.iter().position(|count| *count > 0).unwrap_or(0);
        let end = self.steps.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let mut steps: Vec<WaitStep> = STEPS.iter().zip(&self.steps).take(end).skip(first).map(step).collect();
        if let Some(last) = steps.last_mut().filter(|last| last.up_to_s == u64::MAX) {
            last.up_to_s = self.max_s;
        }
        Waits { count: self.waits.len(), p50_s: at(0.5), p90_s: at(0.9), p99_s: at(0.99), max_s: self.max_s, steps }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::WaitCounter;

    #[test]
    fn waits_are_rounded_up_like_the_header() {
        let mut counter = WaitCounter::new();
        for micros in [1, 999_999, 1_000_000, 1_000_001, 59_000_000, 61_000_000] {
            counter.record(Duration::from_micros(micros));
        }
        let found = counter.findings();
        assert_eq!((found.count, found.p50_s, found.max_s), (6, 1, 61));
        let steps: Vec<(u64, u64)> = found.steps.iter().map(|step| (step.up_to_s, step.count)).collect();
        assert_eq!(steps, [(1, 3), (2, 1), (5, 0), (10, 0), (20, 0), (30, 0), (60, 1), (120, 1)]);
        assert_eq!(WaitCounter::new().findings(), crate::findings::Waits::default());
    }
}
