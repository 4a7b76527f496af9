//! [`ActivityCurve`]: the activity at each time.

use crate::simulate::random::hash;

const DAY_US: u64 = 86_400_000_000;
/// Amplitude of the daily variation.
const DEPTH: f64 = 0.8;
/// Maximum deviation of a part of the day from the curve.
const NOISE: f64 = 0.3;
const PARTS: u64 = 96;

/// A factor for every time: 1 on average over a period, with a maximum, a minimum and some noise that all clients share.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActivityCurve {
    from_us: u64,
    period_us: u64,
    seed: u64,
}

impl ActivityCurve {
    /// Maximum of the factor.
    pub(super) const MAX: f64 = (1.0 + DEPTH) * (1.0 + NOISE);

    /// Returns the curve of a day: lowest at 04:00 UTC, highest at 16:00.
    pub(super) fn daily(seed: u64) -> Self {
        Self { from_us: DAY_US / 24 * 10, period_us: DAY_US, seed }
    }

    /// Returns a curve whose period is the duration of the traffic, at most a day. It rises first, then falls.
    pub(super) fn over(start_us: u64, duration_us: u64, seed: u64) -> Self {
        Self { from_us: start_us, period_us: duration_us.min(DAY_US), seed }
    }

    #[expect(clippy::cast_precision_loss, reason = "a fraction of a period")]
    pub(super) fn at(&self, time_us: u64) -> f64 {
        let since = time_us.saturating_sub(self.from_us);
        let phase = (since % self.period_us) as f64 / self.period_us as f64;
        let part = u128::from(since) * u128::from(PARTS) / u128::from(self.period_us);
        let noise = hash(self.seed ^ hash(u64::try_from(part).unwrap_or(u64::MAX)));
        let noise = (noise >> 11) as f64 / (1_u64 << 53) as f64;
        (1.0 + DEPTH * (phase * std::f64::consts::TAU).sin()) * (1.0 + NOISE * (2.0 * noise - 1.0))
    }
}
