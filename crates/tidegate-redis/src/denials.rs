//! [`Denials`]: the newest denials, so that a key that was found to be limited stays limited.
//!
//! Redis is asked for every request while it keeps up. When it does not, or when requests wait too long for it, a request that
//! costs at least as much as one that Redis has denied, of the same key under the same limits, is denied until the retry
//! time of that denial. What this store does to a key (refund, reset, override) removes the denial; what others do is seen
//! as soon as Redis is asked again.
//!
//! The table has a fixed size. A denial that takes the place of another only makes the store ask Redis again.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tidegate::{Cost, Decision, Reason, remote};

use crate::stopwatch;

/// How many denials are remembered at the most.
const PLACES: usize = 4096;

/// The newest denials of a store.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    places: Box<[Mutex<Option<Denial>>]>,
    /// When the last of them ends, by the stopwatch: nothing is looked for later.
    last_end: AtomicU64,
}

/// What tells a key under its limits from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// A hash of the name of the key.
    key: u64,
    /// A hash of that and of the limits.
    limits: u64,
}

#[derive(Debug, Clone, Copy)]
struct Denial {
    subject: Subject,
    cost: Cost,
    decision: Decision,
    /// When it was asked for and when it ends, by the stopwatch.
    asked: u64,
    ends: u64,
}

impl Denials {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            places: (0..PLACES).map(|_| Mutex::new(None)).collect(),
            last_end: AtomicU64::new(0),
        }
    }

    /// The subject of a request: the name of its key, and its policy in the form that the script receives.
    pub(crate) fn subject(&self, key: &[u8], policy: &[u8]) -> Subject {
        Subject { key: self.hasher.hash_one(key), limits: self.hasher.hash_one((key, policy)) }
    }

    fn place(&self, key: u64) -> &Mutex<Option<Denial>> {
        &self.places[usize::try_from(key % PLACES as u64).unwrap_or(0)]
    }

    /// Whether some denial may still hold.
    #[inline]
    pub(crate) fn may_have_any(&self) -> bool {
        let last_end = self.last_end.load(Relaxed);
        last_end > 0 && stopwatch::micros() < last_end
    }

    /// Remembers what Redis answered to a request that was asked at this time, if it is a denial with an end.
    #[inline]
    pub(crate) fn note(&self, subject: Subject, cost: Cost, decision: &Decision, asked: u64) {
        if decision.reason() != Reason::Limited || decision.is_degraded() {
            return;
        }
        let Some(wait) = decision.retry_after() else { return };
        // Counted from before it was asked: it ends a little early rather than late.
        let ends = asked.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        let mut place = self.place(subject.key).lock();
        let keeps = |held: &Denial| held.subject == subject && held.cost < cost && held.ends > asked;
        if !place.as_ref().is_some_and(keeps) {
            *place = Some(Denial { subject, cost, decision: *decision, asked, ends });
            self.last_end.fetch_max(ends, Relaxed);
        }
    }

    /// The denial of such a request, as of now, if one is remembered.
    pub(crate) fn find(&self, subject: Subject, cost: Cost) -> Option<Decision> {
        let held = (*self.place(subject.key).lock())?;
        let now = stopwatch::micros();
        let holds = held.subject == subject && now < held.ends && held.cost <= cost;
        // A cost that never fits is another answer.
        (holds && cost.get() <= held.decision.capacity())
            .then(|| remote::remembered(held.decision, now.saturating_sub(held.asked)))
    }

    /// Forgets the denial of a key, whatever its limits were.
    pub(crate) fn forget(&self, key: &[u8]) {
        let key = self.hasher.hash_one(key);
        let mut place = self.place(key).lock();
        if place.as_ref().is_some_and(|held| held.subject.key == key) {
            *place = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Policy};

    use super::Denials;
    use crate::stopwatch;

    fn cost(units: u64) -> Cost {
        Cost::new(units).expect("in range")
    }

    /// A denial of so many units under 5 per hour.
    fn denial(units: u64) -> tidegate::Decision {
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let clock = Clock::given(|| tidegate::Timestamp::from_micros(1));
        let limiter = Limiter::new(MemoryStore::default()).with_clock(clock);
        let key = Key::new("a").expect("a key");
        assert!(limiter.check(&policy, &key, cost(5)).is_allowed());
        limiter.check(&policy, &key, cost(units))
    }

    #[test]
    fn a_denial_holds_for_as_many_units_and_more_until_its_end_and_for_no_other_limits() {
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        assert!(!denials.may_have_any());
        let asked = stopwatch::micros();
        denials.note(subject, cost(2), &denial(2), asked);
        assert!(denials.may_have_any());
        let found = denials.find(subject, cost(3)).expect("denied");
        assert!(found.is_degraded() && found.retry_after().expect("a wait") <= Duration::from_secs(3600));
        assert!(denials.find(subject, cost(1)).is_none(), "fewer units may fit");
        assert!(denials.find(subject, cost(6)).is_none(), "that is impossible, not limited");
        assert!(denials.find(denials.subject(b"key", b"9/1h"), cost(2)).is_none());
        assert!(denials.find(denials.subject(b"yek", b"5/1h"), cost(2)).is_none());
        denials.forget(b"key");
        assert!(denials.find(subject, cost(2)).is_none());
    }

    #[test]
    fn a_denial_of_fewer_units_is_kept_and_an_ended_one_does_not_hold() {
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        let asked = stopwatch::micros();
        denials.note(subject, cost(1), &denial(1), asked);
        denials.note(subject, cost(4), &denial(4), asked);
        assert!(denials.find(subject, cost(1)).is_some());
        let ended = denials.subject(b"ended", b"5/1h");
        denials.places.iter().for_each(|place| *place.lock() = None);
        denials.note(ended, cost(1), &denial(1), asked);
        let place = denials.places.iter().find(|place| place.lock().is_some()).expect("one is remembered");
        place.lock().as_mut().expect("one is remembered").ends = stopwatch::micros();
        assert!(denials.find(ended, cost(1)).is_none());
    }
}
