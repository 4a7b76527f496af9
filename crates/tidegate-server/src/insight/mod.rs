//! [`Insight`]: what people who look at the service are shown beyond its metrics: the last minutes, whom each policy hits, and a journal.
//!
//! Everything here is bounded, whatever the traffic: the history by its seconds and the policies it tells apart, sketches by their counters and by a
//! budget for the keys that they hold, the journal by its lines. A decision that is allowed and far from its limit costs nothing here.

mod history;
mod hits;
mod journal;
mod labels;
mod latency;
mod sketch;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate::Key;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub(crate) use history::{History, LATELY, Outcomes, SECONDS, Second};
pub(crate) use hits::{Hits, Notable};
pub(crate) use journal::{Deed, Event, Journal, Line};
pub(crate) use labels::{Eyes, Label, Labeller};
pub(crate) use latency::{Counts, Latency};
pub(crate) use sketch::COUNTERS;

/// How many may look on at once.
const STREAMS: usize = 64;

/// How many of those places are kept for who has shown the admin token.
const KEPT: usize = 16;

/// What those are shown who look at the service.
#[derive(Debug)]
pub(crate) struct Insight {
    pub(crate) journal: Journal,
    pub(crate) labeller: Labeller,
    pub(crate) history: Mutex<History>,
    /// By policy, across reloads.
    hits: Mutex<HashMap<Arc<str>, Arc<Hits>>>,
    /// Bytes of keys in all sketches.
    key_bytes: AtomicIsize,
    /// The second in which the sketches in use were begun, and that before.
    began: [AtomicU64; 2],
    ticks: watch::Sender<u64>,
    streams: Arc<Semaphore>,
}

impl Insight {
    pub(crate) fn new(now_s: u64) -> Self {
        Self {
            journal: Journal::default(),
            labeller: Labeller::default(),
            history: Mutex::default(),
            hits: Mutex::default(),
            key_bytes: AtomicIsize::new(0),
            began: [AtomicU64::new(now_s), AtomicU64::new(now_s)],
            ticks: watch::Sender::new(now_s),
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }

    /// What is counted of a policy's keys; the same whenever it is asked for by the same name.
    pub(crate) fn hits(&self, policy: &Arc<str>) -> Arc<Hits> {
        Arc::clone(self.hits.lock().entry(Arc::clone(policy)).or_default())
    }

    /// Forgets a policy that is no longer configured.
    pub(crate) fn forget(&self, policy: &str) {
        if let Some(hits) = self.hits.lock().remove(policy) {
            hits.release(&self.key_bytes);
        }
    }

    /// Notes whose decision was not an ordinary one.
    #[inline]
    pub(crate) fn note(&self, hits: &Hits, notable: Notable, key: &Key<'_>) {
        if notable != Notable::Ordinary {
            hits.note(notable, key, &self.key_bytes);
        }
    }

    /// Ends a second.
    pub(crate) fn tick(&self, now_s: u64, counted: impl Iterator<Item = (Arc<str>, Outcomes)>, durations: &Counts) {
        let is_over = now_s >= self.began[0].load(Relaxed) + hits::SPAN;
        for hits in self.hits.lock().values() {
            hits.tick(is_over, &self.key_bytes);
        }
        if is_over {
            self.began[1].store(self.began[0].swap(now_s, Relaxed), Relaxed);
        }
        self.history.lock().tick(now_s, counted, durations);
        self.ticks.send_replace(now_s);
    }

    /// Since when, in seconds since the epoch, hits are counted.
    pub(crate) fn hits_since(&self) -> u64 {
        self.began[1].load(Relaxed)
    }

    /// Tells of each second.
    pub(crate) fn ticks(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    /// How many look on.
    pub(crate) fn onlookers(&self) -> usize {
        STREAMS - self.streams.available_permits()
    }

    /// A place for one who looks on, unless there are too many. Nobody keeps out who has shown the admin token.
    pub(crate) fn place(&self, is_admin: bool) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        (is_admin || self.streams.available_permits() >= KEPT).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::{Insight, KEPT, STREAMS};

    #[test]
    fn nobody_keeps_out_who_has_shown_the_admin_token() {
        let insight = Insight::new(0);
        let mut places: Vec<_> = (0..STREAMS - KEPT).map(|_| insight.place(false).expect("a place")).collect();
        assert!(insight.place(false).is_none(), "the others are kept");
        places.extend((0..KEPT).map(|_| insight.place(true).expect("a place")));
        assert!(insight.place(true).is_none() && insight.onlookers() == STREAMS);
        places.pop();
        assert!(insight.place(false).is_none() && insight.place(true).is_some());
    }
}
