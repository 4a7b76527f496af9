//! [`Course`]: the units in the window that ends at each moment, for all moments and not only for those at which something was
//! tried. A unit counts from the moment it was let through until a window later.

use crate::simulate::boundary::{AtEdge, Scene};

/// Steps: from each moment on, in microseconds after the edge, so many units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Course(Vec<(i64, u64)>);

impl Course {
    pub(super) fn new(scene: &Scene, at_edge: &AtEdge, window_us: u64) -> Self {
        let window = i64::try_from(window_us).unwrap_or(i64::MAX);
        let let_through: Vec<(i64, u64)> =
            scene.moments_us.iter().copied().zip(at_edge.admitted.iter().copied()).filter(|(_, n)| *n > 0).collect();
        let leaving = let_through.iter().map(|(at, units)| (at.saturating_add(window), *units));
        let mut changes: Vec<(i64, u64, u64)> = let_through.iter().map(|(at, units)| (*at, *units, 0)).collect();
        changes.extend(leaving.map(|(at, units)| (at, 0, units)));
        changes.sort_unstable();
        let mut steps: Vec<(i64, u64)> = Vec::new();
        let (mut came, mut left) = (0_u64, 0_u64);
        for (at, more, less) in changes {
            (came, left) = (came.saturating_add(more), left.saturating_add(less));
            let units = came.saturating_sub(left);
            match steps.last_mut() {
                Some(last) if last.0 == at => last.1 = units,
                _ => steps.push((at, units)),
            }
        }
        Self(steps)
    }

    /// The units in the window that ends at a moment.
    pub(super) fn at(&self, moment_us: i64) -> u64 {
        let later = self.0.partition_point(|(at, _)| *at <= moment_us);
        later.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// Its steps between two moments, both among them.
    pub(super) fn between(&self, from_us: i64, to_us: i64) -> Vec<(i64, u64)> {
        let inside = self.0.iter().copied().filter(|(at, _)| *at > from_us && *at < to_us);
        std::iter::once((from_us, self.at(from_us))).chain(inside).chain([(to_us, self.at(to_us))]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Course;
    use crate::simulate::{boundary::run, one_of_each};

    #[test]
    fn is_what_the_audit_counted_at_every_moment() {
        for limit in ["1/1ms", "100/1m", "7/1h", "1000000000000/366d"] {
            let found = run(limit.parse().unwrap(), &one_of_each());
            for scene in &found.scenes {
                for at_edge in &scene.algorithms {
                    let course = Course::new(scene, at_edge, found.window_us);
                    let counted: Vec<u64> = scene.moments_us.iter().map(|moment| course.at(*moment)).collect();
                    assert_eq!(counted, at_edge.in_window, "{limit} {} {}", scene.scene, at_edge.algorithm);
                    assert_eq!((course.at(-2), course.at(i64::MAX)), (0, 0));
                }
            }
        }
    }
}
