//! [`WindowUsage`]: the units in the window that ends at each time. A unit counts from its admission until a window later.

use crate::simulate::boundary::{BoundaryResult, Scenario};

/// Steps: the units from each time on, in microseconds after the boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WindowUsage(Vec<(i64, u64)>);

impl WindowUsage {
    pub(super) fn new(scenario: &Scenario, result: &BoundaryResult, window_us: u64) -> Self {
        let window = i64::try_from(window_us).unwrap_or(i64::MAX);
        let admitted = scenario.moments_us.iter().copied().zip(&result.admitted).filter(|(_, units)| **units > 0);
        // Each change is a time, the units that enter the window, and the units that leave it.
        let mut changes: Vec<(i64, u64, u64)> =
            admitted.flat_map(|(at, units)| [(at, *units, 0), (at.saturating_add(window), 0, *units)]).collect();
        changes.sort_unstable();
        let mut steps: Vec<(i64, u64)> = Vec::new();
        let (mut entered, mut left) = (0_u64, 0_u64);
        for (at, more, less) in changes {
            (entered, left) = (entered.saturating_add(more), left.saturating_add(less));
            let units = entered.saturating_sub(left);
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = units,
                _ => steps.push((at, units)),
            }
        }
        Self(steps)
    }

    /// Returns the units in the window that ends at a time.
    pub(super) fn at(&self, time_us: i64) -> u64 {
        let later = self.0.partition_point(|(at, _)| *at <= time_us);
        later.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// Returns the steps between two times, including both.
    pub(super) fn between(&self, from_us: i64, to_us: i64) -> Vec<(i64, u64)> {
        let inside = self.0.iter().copied().filter(|(at, _)| *at > from_us && *at < to_us);
        std::iter::once((from_us, self.at(from_us))).chain(inside).chain([(to_us, self.at(to_us))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::WindowUsage;
    use crate::simulate::{boundary::run, one_of_each};

    #[test]
    fn the_usage_is_the_audit_at_every_attempt() {
        for limit in ["1/1ms", "100/1m", "7/1h", "1000000000000/366d"] {
            let found = run(limit.parse().unwrap(), &one_of_each());
            for scenario in &found.scenarios {
                for result in &scenario.algorithms {
                    let usage = WindowUsage::new(scenario, result, found.window_us);
                    let counted: Vec<u64> = scenario.moments_us.iter().map(|moment| usage.at(*moment)).collect();
                    assert_eq!(counted, result.in_window, "{limit} {} {}", scenario.name, result.algorithm);
                    assert_eq!((usage.at(-2), usage.at(i64::MAX)), (0, 0));
                }
            }
        }
    }
}
