//! [`Curve`]: how busy a moment is.

use crate::simulate::random::scatter;

const DAY_US: u64 = 86_400_000_000;
/// So much more at the height of the day, and so much less at its lowest.
const DEPTH: f64 = 0.8;
/// A part of a day has up to so much more or less than the curve says.
const NOISE: f64 = 0.3;
const PARTS: u64 = 96;

/// A factor for every moment: 1 on average over a period, with a high and a low, and some noise that all clients share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    from_us: u64,
    period_us: u64,
    seed: u64,
}

impl Curve {
    /// No moment is busier than this.
    pub(super) const HIGHEST: f64 = (1.0 + DEPTH) * (1.0 + NOISE);

    /// A day by the clock: lowest at 04:00 UTC, highest at 16:00.
    pub(super) fn of_the_clock(seed: u64) -> Self {
        Self { from_us: DAY_US / 24 * 10, period_us: DAY_US, seed }
    }

    /// A day that fits into traffic that is shorter than one: rises first, then falls.
    pub(super) fn over(start_us: u64, duration_us: u64, seed: u64) -> Self {
        Self { from_us: start_us, period_us: duration_us.min(DAY_US), seed }
    }

    #[expect(clippy::cast_precision_loss, reason = "a place within a period")]
    pub(super) fn at(&self, time_us: u64) -> f64 {
        // Nothing is asked about before it begins, but for a day by the clock, which began long ago.
        let since = time_us.saturating_sub(self.from_us);
        let turn = (since % self.period_us) as f64 / self.period_us as f64;
        let part = u128::from(since) * u128::from(PARTS) / u128::from(self.period_us);
        let noise = scatter(self.seed ^ scatter(u64::try_from(part).unwrap_or(u64::MAX)));
        let noise = (noise >> 11) as f64 / (1_u64 << 53) as f64;
        (1.0 + DEPTH * (turn * std::f64::consts::TAU).sin()) * (1.0 + NOISE * (2.0 * noise - 1.0))
    }
}
