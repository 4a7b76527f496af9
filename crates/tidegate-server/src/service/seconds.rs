//! What is done once a second, for those who look on.

use std::sync::Arc;

use super::Service;
use crate::metrics::Tally;

impl Service {
    /// Ends a second, for dashboards and `tidegate top`.
    pub(crate) fn tick(&self) {
        let live = self.live();
        let of_policies = live.names.iter().cloned().zip(live.tallies.iter().map(Tally::counts));
        let others = self.metrics.unconfigured().map(|(name, counts)| (Arc::from(name), counts));
        let counted = of_policies.chain(others);
        // Ticks come at any fraction of a second, a little early or late: each is taken for the second that it has seen most of.
        let second = self.clock.now().as_micros().saturating_sub(500_000) / 1_000_000;
        self.insight.tick(second, counted, &self.metrics.durations());
    }
}
