//! [`Scale`]: where a value lies between the two ends of an axis.

use super::{ticks, time};

/// From a value to its place, 0 at one end of the axis and 1 at the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// No two ticks are closer than this.
    Linear {
        least_step: f64,
    },
    Log,
    /// Microseconds since the epoch, or since a moment.
    Time,
}

/// A tick of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// Where it is.
    pub value: f64,
    /// Whether its label is left out where there is little room.
    pub minor: bool,
}

impl Scale {
    /// Equal steps for equal differences. A range that is empty or not finite is widened.
    pub fn linear(from: f64, to: f64) -> Self {
        let (from, to) = widened(from, to, |from| from + 1.0);
        Self { kind: Kind::Linear { least_step: 0.0 }, from, to }
    }

    /// From 0 to `max` or a little above, with ticks at whole numbers only.
    pub fn counts(max: u64) -> Self {
        Self { kind: Kind::Linear { least_step: 1.0 }, ..Self::linear(0.0, as_f64(max.max(1))) }
    }

    /// Equal steps for equal ratios; both ends are above 0.
    pub fn log(from: f64, to: f64) -> Self {
        let from = if from.is_finite() && from > 0.0 { from.clamp(1e-300, 1e300) } else { 1.0 };
        let (from, to) = widened(from, to, |from| from * 10.0);
        Self { kind: Kind::Log, from, to: to.min(1e305) }
    }

    /// A span of time in microseconds since the epoch.
    pub fn time(from_us: u64, to_us: u64) -> Self {
        let (from, to) = widened(as_f64(from_us), as_f64(to_us), |from| from + 1e6);
        Self { kind: Kind::Time, from, to }
    }

    /// A span of time in microseconds before and after a moment.
    pub fn around_a_moment(before_us: u64, after_us: u64) -> Self {
        let (from, to) = widened(-as_f64(before_us), as_f64(after_us), |from| from + 1.0);
        Self { kind: Kind::Time, from, to }
    }

    /// Its lower end.
    pub fn from(&self) -> f64 {
        self.from
    }

    /// Its upper end.
    pub fn to(&self) -> f64 {
        self.to
    }

    /// The place of a value, 0 to 1; what lies outside is put at the end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.kind {
            Kind::Linear { .. } | Kind::Time => (value - self.from) / (self.to - self.from),
            Kind::Log if value <= 0.0 => 0.0,
            Kind::Log => (value.ln() - self.from.ln()) / (self.to.ln() - self.from.ln()),
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// The same with its upper end moved up to a tick, so that the highest value has a number above it.
    #[must_use]
    pub fn up_to_a_tick(self, at_most: usize) -> Self {
        let Kind::Linear { least_step } = self.kind else { return self };
        let step = ticks::step(self.to - self.from, at_most, least_step);
        let to = (self.to / step).ceil() * step;
        if to.is_finite() && to > self.from { Self { to, ..self } } else { self }
    }

    /// At most so many ticks, in order, none outside.
    pub fn ticks(&self, at_most: usize) -> Vec<Tick> {
        match self.kind {
            Kind::Linear { least_step } => ticks::linear(self.from, self.to, at_most, least_step),
            Kind::Log => ticks::log(self.from, self.to, at_most),
            Kind::Time => time::ticks(self.from, self.to, at_most),
        }
    }
}

fn widened(from: f64, to: f64, wider: impl Fn(f64) -> f64) -> (f64, f64) {
    // So far from the largest number that there is always a wider range.
    let from = if from.is_finite() { from.clamp(-1e300, 1e300) } else { 0.0 };
    // Where a step is lost to rounding, twice the value is not.
    let wider = [wider(from), from.abs() * 2.0].into_iter().find(|to| *to > from).unwrap_or(from + 1.0);
    if to.is_finite() && to > from && (to - from).is_finite() { (from, to) } else { (from, wider) }
}

/// A count as a place on an axis: what rounding takes away is far less than a pixel.
#[expect(clippy::cast_precision_loss, reason = "far less than a pixel")]
pub fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::Scale;
    use proptest::prelude::{any, prop_assert, proptest};

    fn values(scale: Scale, at_most: usize) -> Vec<f64> {
        scale.ticks(at_most).iter().map(|tick| tick.value).collect()
    }

    #[test]
    fn ticks_are_the_numbers_that_people_count_by() {
        assert_eq!(values(Scale::linear(0.0, 100.0), 6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(values(Scale::counts(3), 8), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values(Scale::log(1.0, 1000.0), 4), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(values(Scale::log(30.0, 60.0), 4), [30.0, 40.0, 50.0, 60.0]);
    }

    #[test]
    fn time_around_a_moment_has_ticks_on_both_sides() {
        assert_eq!(values(Scale::around_a_moment(30_000_000, 30_000_000), 5), [-30e6, -15e6, 0.0, 15e6, 30e6]);
    }

    #[test]
    fn the_end_moves_up_to_a_tick() {
        assert!((Scale::counts(83).up_to_a_tick(6).to() - 100.0).abs() < 1e-9);
        assert!((Scale::counts(1).up_to_a_tick(6).to() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_log_scale_puts_ratios_at_equal_distances() {
        let scale = Scale::log(1.0, 100.0);
        assert!((scale.place(10.0) - 0.5).abs() < 1e-9);
        assert!(scale.place(0.0).abs() < 1e-9);
    }

    #[test]
    fn a_range_at_the_largest_numbers_is_widened_to_a_finite_one() {
        let scale = Scale::linear(1.225_586_633_699_830_8e308, 0.0);
        assert!(scale.to().is_finite() && scale.to() > scale.from(), "{scale:?}");
        assert!(scale.place(scale.from()).abs() < 1e-9 && scale.place(scale.to()) > 0.999, "{scale:?}");
    }

    proptest! {
        #[test]
        fn ticks_lie_within_and_are_few(from in any::<f64>(), to in any::<f64>(), a in any::<u64>(), b in any::<u64>(), n in 0usize..30) {
            for scale in [
                Scale::linear(from, to),
                Scale::log(from, to),
                Scale::counts(a),
                Scale::time(a, b),
                Scale::around_a_moment(a, b),
                Scale::time(a, a.saturating_add(b % 1_000_000)),
                Scale::counts(b).up_to_a_tick(n),
            ] {
                let ticks = values(scale, n);
                prop_assert!(ticks.len() <= n, "{scale:?} {ticks:?}");
                prop_assert!(ticks.iter().all(|tick| *tick >= scale.from() && *tick <= scale.to()), "{scale:?} {ticks:?}");
                prop_assert!(ticks.is_sorted_by(|a, b| a < b), "{scale:?} {ticks:?}");
                prop_assert!((0.0..=1.0).contains(&scale.place(to)), "{scale:?}");
                prop_assert!(scale.place(scale.from()).abs() < 1e-9 && scale.place(scale.to()) > 0.999, "{scale:?}");
            }
        }
    }
}
