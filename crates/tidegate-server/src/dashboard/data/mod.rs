//! [`Dashboard`]: the data that the page shows beyond the metrics: the last minutes, the most denied keys of each policy, and
//! the journal.
//!
//! All data is bounded for any traffic: the history by its seconds and policies, sketches by their counters and by the bytes of their
//! keys, the journal by its length. A decision that is allowed and far from its limit costs nothing here.

mod denials;
mod hardest;
mod history;
mod hits;
mod journal;
mod sketch;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate::{Key, Limiter, MemoryStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(super) use self::{
    denials::SLOT_S,
    hardest::RankedKey,
    history::{History, RECENT, SECONDS, Second},
    hits::{DeniedCount, Hits},
    journal::{Journal, JournalRecord},
    sketch::COUNTERS,
};
use self::{
    denials::{RECENT_SLOTS, SPAN_S},
    hits::SharedCounts,
};
use crate::{
    metrics::{DurationCounts, OutcomeCounts},
    service::{Actor, Event, KeyChange, Observer, PolicyObserver},
};

/// Maximum number of live streams.
const MAX_STREAMS: usize = 64;

/// Number of live streams that are reserved for callers with the admin token.
const ADMIN_STREAMS: usize = 16;

/// The dashboard of one service.
#[derive(Debug)]
pub(crate) struct Dashboard {
    pub(super) journal: Journal,
    pub(super) history: Mutex<History>,
    /// By policy, across reloads.
    hits: Mutex<HashMap<Arc<str>, Arc<Hits>>>,
    /// The keys with the most recent denials, and the second in which they were ranked.
    hardest: Mutex<(Option<u64>, Arc<Vec<RankedKey>>)>,
    shared_counts: Arc<SharedCounts>,
    /// The seconds in which the current and the previous sketches began.
    began: [AtomicU64; 2],
    ticks: watch::Sender<u64>,
    streams: Arc<Semaphore>,
    /// Decides the requests of the page that tries limits. Nothing else uses it, so the page does not change any figure.
    pub(super) trial: Limiter,
}

impl Dashboard {
    /// Creates an empty dashboard. `now_s` is the time in seconds since the epoch.
    pub(crate) fn new(now_s: u64) -> Self {
        Self {
            journal: Journal::default(),
            history: Mutex::default(),
            hits: Mutex::default(),
            hardest: Mutex::default(),
            shared_counts: Arc::default(),
            began: [AtomicU64::new(now_s), AtomicU64::new(now_s)],
            ticks: watch::Sender::new(now_s),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            trial: Limiter::new(trial_store()),
        }
    }

    /// Returns the counts of the keys of a policy. The same name always returns the same counts.
    pub(super) fn hits(&self, policy: &str) -> Arc<Hits> {
        let mut hits = self.hits.lock();
        match hits.get(policy) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(hits.entry(policy.into()).or_insert_with(|| Arc::new(Hits::new(&self.shared_counts)))),
        }
    }

    /// Returns the start of the counts of keys, in seconds since the epoch.
    pub(super) fn hits_since(&self) -> u64 {
        self.began[1].load(Relaxed)
    }

    /// Returns the start of the current slot of denials, in seconds since the epoch.
    pub(super) fn slot_began(&self) -> u64 {
        self.began[0].load(Relaxed) + self.shared_counts.slot.load(Relaxed) as u64 * SLOT_S
    }

    /// Returns the start of the recent denials, in seconds since the epoch.
    pub(super) fn recent_since(&self) -> u64 {
        self.slot_began().saturating_sub((RECENT_SLOTS as u64 - 1) * SLOT_S).max(self.hits_since())
    }

    /// Returns a channel that receives each second.
    pub(super) fn ticks(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    /// Returns a permit for a live stream, unless there are too many. Some streams are reserved for callers with the admin token.
    pub(super) fn stream_permit(&self, is_admin: bool) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        (is_admin || self.streams.available_permits() >= ADMIN_STREAMS).then_some(permit)
    }
}

/// Returns the store of the page that tries limits. It is small: the page uses a few keys at a time.
fn trial_store() -> MemoryStore {
    let store = MemoryStore::builder().max_keys(10_000).max_bytes(8_000_000).build();
    store.expect("the numbers are within their ranges")
}

impl Observer for Dashboard {
    fn policy(&self, name: &Arc<str>) -> Arc<dyn PolicyObserver> {
        self.hits(name)
    }

    fn known_keys(&self, policy: &str) -> Vec<Key<'static>> {
        self.hits(policy).candidates(usize::MAX)
    }

    fn policy_removed(&self, name: &str) {
        if let Some(hits) = self.hits.lock().remove(name) {
            hits.clear();
        }
    }

    fn event(&self, event: Event, at_ms: u64, text: String) {
        self.journal.add_event(event, at_ms, text);
    }

    fn key_changed(&self, event: Event, at_ms: u64, actor: Actor, change: KeyChange<'_>) {
        self.journal.add_change(event, at_ms, actor.address, change);
    }

    fn second_ended(&self, second: u64, counts: Vec<(Arc<str>, OutcomeCounts)>, durations: &DurationCounts) {
        let age = second.saturating_sub(self.began[0].load(Relaxed));
        let is_over = age >= SPAN_S;
        for hits in self.hits.lock().values() {
            // The machine may have been suspended: then the counts of the last span are too old, too.
            if age >= 2 * SPAN_S {
                hits.clear();
            }
            hits.tick(is_over);
        }
        if is_over {
            self.began[1].store(self.began[0].swap(second, Relaxed), Relaxed);
        }
        let slot = second.saturating_sub(self.began[0].load(Relaxed)) / SLOT_S;
        self.shared_counts.slot.store(usize::try_from(slot).unwrap_or(usize::MAX), Relaxed);
        self.history.lock().tick(second, counts, durations);
        self.ticks.send_replace(second);
    }
}

#[cfg(test)]
mod tests {
    use super::{ADMIN_STREAMS, Dashboard, MAX_STREAMS};

    #[test]
    fn some_streams_are_reserved_for_the_admin_token() {
        let data = Dashboard::new(0);
        let permit = |is_admin| data.stream_permit(is_admin);
        let mut permits: Vec<_> = (0..MAX_STREAMS - ADMIN_STREAMS).map(|_| permit(false).expect("a permit")).collect();
        assert!(permit(false).is_none(), "the others are reserved");
        permits.extend((0..ADMIN_STREAMS).map(|_| permit(true).expect("a permit")));
        assert!(permit(true).is_none());
        permits.pop();
        assert!(permit(false).is_none() && permit(true).is_some());
    }
}
