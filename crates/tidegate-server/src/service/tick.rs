//! The work that is done once a second.

use std::sync::Arc;

use super::Service;
use crate::metrics::PolicyCounters;

impl Service {
    /// Reports the second that ends now to the observer.
    pub(crate) fn tick(&self) {
        let active = self.active_policies();
        let policies = active.names.iter().cloned().zip(active.counters.iter().map(PolicyCounters::counts));
        let others = self.metrics.unconfigured().map(|(name, counts)| (Arc::from(name), counts));
        // A tick may come a little early or late. It belongs to the second that it covers for the most part.
        let second = self.clock.now().as_micros().saturating_sub(500_000) / 1_000_000;
        self.observer.second_ended(second, policies.chain(others).collect(), &self.metrics.durations());
    }
}
