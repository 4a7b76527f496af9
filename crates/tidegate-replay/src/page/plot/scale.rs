//! [`Scale`]: the position of a value between the ends of an axis.

use super::{ticks, time};

/// Maps a value to its position: 0 at one end of the axis and 1 at the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::page) struct Scale {
    kind: ScaleKind,
    from: f64,
    to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ScaleKind {
    Linear {
        min_step: f64,
    },
    Log,
    /// Microseconds since the epoch, or relative to a time.
    Time,
}

/// Tick of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    /// Whether the label is hidden on a narrow page.
    pub(super) is_minor: bool,
}

impl Scale {
    /// Creates a linear scale. Widens a range that is empty or not finite.
    pub(in crate::page) fn linear(from: f64, to: f64) -> Self {
        let (from, to) = widened(from, to, |from| from + 1.0);
        Self { kind: ScaleKind::Linear { min_step: 0.0 }, from, to }
    }

    /// Creates a scale from 0 to `max`, with ticks only at whole numbers.
    pub(in crate::page) fn counts(max: u64) -> Self {
        Self { kind: ScaleKind::Linear { min_step: 1.0 }, ..Self::linear(0.0, as_f64(max.max(1))) }
    }

    /// Creates a logarithmic scale. Both ends must be positive.
    pub(in crate::page) fn log(from: f64, to: f64) -> Self {
        let from = if from.is_finite() && from > 0.0 { from.clamp(1e-300, 1e300) } else { 1.0 };
        let (from, to) = widened(from, to, |from| from * 10.0);
        Self { kind: ScaleKind::Log, from, to: to.min(1e305) }
    }

    /// Creates a scale of times in microseconds since the epoch, or relative to a time.
    pub(in crate::page) fn time(from_us: f64, to_us: f64) -> Self {
        let (from, to) = widened(from_us, to_us, |from| from + 1e6);
        Self { kind: ScaleKind::Time, from, to }
    }

    /// Returns the position of a value, 0 to 1. A value outside of the range is at the end.
    pub(in crate::page) fn position(&self, value: f64) -> f64 {
        let position = match self.kind {
            ScaleKind::Linear { .. } | ScaleKind::Time => (value - self.from) / (self.to - self.from),
            ScaleKind::Log if value <= 0.0 => 0.0,
            ScaleKind::Log => (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln()),
        };
        if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) }
    }

    /// Moves the upper end up to a tick, so that the largest value has a number above it.
    pub(in crate::page) fn up_to_a_tick(self, max_ticks: usize) -> Self {
        let ScaleKind::Linear { min_step } = self.kind else { return self };
        let step = ticks::step(self.to - self.from, max_ticks, min_step);
        let to = (self.to / step).ceil() * step;
        if to.is_finite() && to > self.from { Self { to, ..self } } else { self }
    }

    /// Returns at most `max_ticks` ticks within the range, in ascending order.
    pub(super) fn ticks(&self, max_ticks: usize) -> Vec<Tick> {
        match self.kind {
            ScaleKind::Linear { min_step } => ticks::linear(self.from, self.to, max_ticks, min_step),
            ScaleKind::Log => ticks::log(self.from, self.to, max_ticks),
            ScaleKind::Time => time::ticks(self.from, self.to, max_ticks),
        }
    }
}

fn widened(from: f64, to: f64, wider: impl Fn(f64) -> f64) -> (f64, f64) {
    // The limit ensures that a wider range exists.
    let from = if from.is_finite() { from.clamp(-1e300, 1e300) } else { 0.0 };
    // A large value absorbs a small step, but not a factor of two.
    let wider = [wider(from), from.abs() * 2.0].into_iter().find(|to| *to > from).unwrap_or(from + 1.0);
    if to.is_finite() && to > from && (to - from).is_finite() { (from, to) } else { (from, wider) }
}

/// Converts a count to a value of an axis.
#[expect(clippy::cast_precision_loss, reason = "far less than a pixel")]
pub(in crate::page) fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::{Scale, as_f64};
    use proptest::prelude::{any, prop_assert, proptest};

    fn values(scale: Scale, max_ticks: usize) -> Vec<f64> {
        scale.ticks(max_ticks).iter().map(|tick| tick.value).collect()
    }

    #[test]
    fn ticks_are_at_round_numbers() {
        assert_eq!(values(Scale::linear(0.0, 100.0), 6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(values(Scale::counts(3), 8), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values(Scale::log(1.0, 1000.0), 4), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(values(Scale::log(30.0, 60.0), 4), [30.0, 40.0, 50.0, 60.0]);
    }

    #[test]
    fn a_relative_time_has_ticks_on_both_sides() {
        assert_eq!(values(Scale::time(-30e6, 30e6), 5), [-30e6, -15e6, 0.0, 15e6, 30e6]);
    }

    #[test]
    fn the_end_moves_up_to_a_tick() {
        assert!((Scale::counts(83).up_to_a_tick(6).to - 100.0).abs() < 1e-9);
        assert!((Scale::counts(1).up_to_a_tick(6).to - 1.0).abs() < 1e-9);
    }

    #[test]
    fn equal_ratios_have_equal_distances_on_a_log_scale() {
        let scale = Scale::log(1.0, 100.0);
        assert!((scale.position(10.0) - 0.5).abs() < 1e-9);
        assert!(scale.position(0.0).abs() < 1e-9);
    }

    #[test]
    fn a_range_at_the_largest_numbers_is_widened_to_a_finite_one() {
        let scale = Scale::linear(1.225_586_633_699_830_8e308, 0.0);
        assert!(scale.to.is_finite() && scale.to > scale.from, "{scale:?}");
        assert!(scale.position(scale.from).abs() < 1e-9 && scale.position(scale.to) > 0.999, "{scale:?}");
    }

    proptest! {
        #[test]
        fn ticks_are_within_the_range_and_limited(from in any::<f64>(), to in any::<f64>(), a in any::<u64>(), b in any::<u64>(), n in 0usize..30) {
            for scale in [
                Scale::linear(from, to),
                Scale::log(from, to),
                Scale::counts(a),
                Scale::time(as_f64(a), as_f64(b)),
                Scale::time(-as_f64(a), as_f64(b)),
                Scale::time(as_f64(a), as_f64(a.saturating_add(b % 1_000_000))),
                Scale::counts(b).up_to_a_tick(n),
            ] {
                let ticks = values(scale, n);
                prop_assert!(ticks.len() <= n, "{scale:?} {ticks:?}");
                prop_assert!(ticks.iter().all(|tick| *tick >= scale.from && *tick <= scale.to), "{scale:?} {ticks:?}");
                prop_assert!(ticks.is_sorted_by(|a, b| a < b), "{scale:?} {ticks:?}");
                prop_assert!((0.0..=1.0).contains(&scale.position(to)), "{scale:?}");
                prop_assert!(scale.position(scale.from).abs() < 1e-9 && scale.position(scale.to) > 0.999, "{scale:?}");
            }
        }
    }
}
