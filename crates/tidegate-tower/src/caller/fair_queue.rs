//! [`FairQueue`]: callers that wait for a key form a queue. Only the first of them calls the store.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tidegate::Key;
use tokio::sync::Notify;

/// The queues of all keys that have waiting callers.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    queues: Mutex<HashMap<Key<'static>, Arc<KeyLock>>>,
    waiting: AtomicUsize,
}

/// The queue of one key, which exists while it has members. tokio's mutex is fair, and a caller that stops waiting leaves
/// its queue.
#[derive(Debug, Default)]
pub(crate) struct KeyLock {
    /// Locked by the first caller.
    pub(crate) first: tokio::sync::Mutex<()>,
    /// Notifies the first caller that units were given back.
    pub(crate) refunded: Notify,
}

/// Membership in a queue, until it is dropped.
#[derive(Debug)]
pub(crate) struct QueueMember<'q> {
    queue: &'q FairQueue,
    key: Key<'static>,
    pub(crate) lock: Arc<KeyLock>,
}

impl FairQueue {
    /// Joins the end of a key's queue, unless `max` callers wait already.
    pub(crate) fn join(&self, key: &Key<'_>, max: usize) -> Option<QueueMember<'_>> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        if waiting >= max {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let key = key.clone().into_owned();
        let lock = Arc::clone(self.queues.lock().entry(key.clone()).or_default());
        Some(QueueMember { queue: self, key, lock })
    }

    /// Notifies the first caller of a key's queue that units were given back.
    pub(crate) fn notify_refund(&self, key: &Key<'_>) {
        if let Some(lock) = self.queues.lock().get(key) {
            lock.refunded.notify_waiters();
        }
    }

    /// The number of waiting callers.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

impl Drop for QueueMember<'_> {
    fn drop(&mut self) {
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        let mut queues = self.queue.queues.lock();
        // The map and the last member. Members are added only while the map is locked.
        if Arc::strong_count(&self.lock) == 2 {
            queues.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::Key;

    use super::FairQueue;

    #[test]
    fn a_queue_exists_while_it_has_members() {
        let queue = FairQueue::default();
        let key = Key::new("upstream").expect("a key");
        let first = queue.join(&key, 10).expect("room");
        let second = queue.join(&key, 10).expect("room");
        assert_eq!((queue.waiting(), queue.queues.lock().len()), (2, 1));
        drop(first);
        assert_eq!((queue.waiting(), queue.queues.lock().len()), (1, 1));
        drop(second);
        assert_eq!((queue.waiting(), queue.queues.lock().len()), (0, 0));
    }

    #[test]
    fn concurrent_members_leave_no_queue_behind() {
        let queue = FairQueue::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let queue = &queue;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let key = [["a", "b", "c"][(thread + round) % 3]].concat();
                        let here = queue.join(&Key::new(&key).expect("a key"), 100).expect("room");
                        let there = queue.join(&Key::new(&key).expect("a key"), 100).expect("room");
                        assert!(Arc::ptr_eq(&here.lock, &there.lock), "one key has one queue");
                    }
                });
            }
        });
        assert_eq!((queue.waiting(), queue.queues.lock().len()), (0, 0));
    }

    #[test]
    fn the_number_of_waiting_callers_is_limited() {
        let queue = FairQueue::default();
        let [one, two] = ["one", "two"].map(|key| Key::new(key).expect("a key"));
        let _first = queue.join(&one, 1).expect("room");
        assert!(queue.join(&two, 1).is_none());
        assert_eq!((queue.waiting(), queue.queues.lock().len()), (1, 1));
    }
}
