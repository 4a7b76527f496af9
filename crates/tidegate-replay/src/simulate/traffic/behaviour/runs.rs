//! [`Runs`]: a program that works for a while, then rests.

use super::Clock;
use crate::simulate::{random::Random, traffic::requests::What};

/// A program that sends as fast as it is made to for a while, then rests.
#[derive(Debug, Clone)]
pub(in crate::simulate::traffic) struct Runs {
    clock: Clock,
    gap: f64,
    mean_run: f64,
    mean_rest: f64,
    /// What is left of the run.
    left: f64,
    what: What,
}

impl Runs {
    /// A program whose requests are `mean_gap` apart on average, all of them sent in runs.
    pub(in crate::simulate::traffic) fn new(
        clock: Clock,
        mean_gap: f64,
        (mean_run, mean_rest): (f64, f64),
        what: What,
    ) -> Self {
        let gap = mean_gap * mean_run / (mean_run + mean_rest);
        Self { clock, gap, mean_run, mean_rest, left: 0.0, what }
    }

    pub(super) fn next(&mut self, random: &mut Random) -> (u64, What) {
        let gap = self.gap * random.between(0.5, 1.5);
        self.left -= gap;
        self.clock.pass(gap);
        if self.left < 0.0 {
            self.clock.pass(random.exponential(self.mean_rest));
            self.left = random.exponential(self.mean_run);
        }
        (self.clock.now(), self.what)
    }
}
