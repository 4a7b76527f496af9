//! What is done once a second, for those who look on.

use std::sync::Arc;

use super::Service;
use crate::{insight::Event, metrics::Tally};

/// How the store was when it was looked at.
#[derive(Debug, Default)]
pub(super) struct StoreSeen {
    lost: Vec<String>,
    no_room: NoRoom,
    no_room_callers: NoRoom,
}

/// Requests that there was no room for, and when that was reported last.
#[derive(Debug, Default)]
struct NoRoom {
    requests: u64,
    reported_ms: Option<u64>,
}

impl NoRoom {
    /// Notes the number of such requests so far; how many have come since it was last reported, if it is time to report again.
    fn note(&mut self, requests: u64, now_ms: u64) -> Option<u64> {
        let more = requests.saturating_sub(self.requests);
        if more == 0 || self.reported_ms.is_some_and(|reported| now_ms < reported + 60_000) {
            return None;
        }
        *self = Self { requests, reported_ms: Some(now_ms) };
        Some(more)
    }
}

impl Service {
    /// Ends a second for those who look on, and writes down what has become of the store.
    pub(crate) fn tick(&self) {
        let live = self.live();
        let of_policies = live.names.iter().cloned().zip(live.tallies.iter().map(Tally::counts));
        let others = self.metrics.unconfigured().map(|(name, counts)| (Arc::from(name), counts));
        let counted = of_policies.chain(others);
        // Ticks come at any fraction of a second, a little early or late: each is taken for the second that it has seen most of.
        let second = self.clock.now().as_micros().saturating_sub(500_000) / 1_000_000;
        self.insight.tick(second, counted, &self.metrics.durations());
        self.look_at_store();
    }

    fn look_at_store(&self) {
        let health = self.store.health();
        let mut seen = self.store_seen.lock();
        let at = self.now_ms();
        let journal = &self.insight.journal;
        let lost: Vec<_> = health.lost.iter().filter(|node| !seen.lost.contains(node)).cloned().collect();
        let back: Vec<_> = seen.lost.iter().filter(|node| !health.lost.contains(node)).cloned().collect();
        if !lost.is_empty() {
            let text =
                format!("Redis does not answer at {}: policies decide by what they say for that", lost.join(", "));
            journal.happened(Event::StoreLost, at, text);
        }
        if !back.is_empty() {
            journal.happened(Event::StoreBack, at, format!("Redis answers again at {}", back.join(", ")));
        }
        if let Some(requests) = seen.no_room.note(health.no_room, at) {
            let text =
                "there is no room for new keys: raise max_keys or max_bytes of [store], or see who makes so many";
            tracing::warn!(requests, "{text}");
            journal.happened(Event::NoRoom, at, text);
        }
        if let Some(requests) = seen.no_room_callers.note(health.no_room_callers, at) {
            let text = "there is no room for limits that callers bring: at_capacity of [store] decides, policies are not \
                        affected; raise caller_share, or see who brings so many keys or windows";
            tracing::warn!(requests, "{text}");
            journal.happened(Event::NoRoom, at, text);
        }
        seen.lost = health.lost;
    }
}
