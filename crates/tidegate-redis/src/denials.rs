//! [`Denials`]: the newest denials, so that a key that Redis has denied stays denied.
//!
//! While Redis keeps up, it is asked for every request. If Redis does not keep up, or requests wait too long for it,
//! the remembered denials are used: a request is denied if Redis has denied the same key under the same limits, at the
//! same or a lower cost, and the retry time of that denial has not come. A refund, reset or override by this store
//! removes the denial of a key. Changes by other stores take effect as soon as Redis is asked again.
//!
//! The table has a fixed size. If a denial replaces another one, the store only asks Redis again.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tidegate::{Cost, Decision, Reason, remote};

use crate::stopwatch;

/// Maximum number of denials that are remembered.
const PLACES: usize = 4096;

/// The newest denials of a store.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    places: Box<[Mutex<Option<Denial>>]>,
    /// When the last of them ends, by the stopwatch. After that the table is not searched.
    last_end: AtomicU64,
}

/// Identifies a key under its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// A hash of the name of the key.
    key: u64,
    /// A hash of the name of the key and of the limits.
    limits: u64,
}

#[derive(Debug, Clone, Copy)]
struct Denial {
    subject: Subject,
    cost: Cost,
    decision: Decision,
    /// When Redis was asked, and when the denial ends, by the stopwatch.
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

    /// Whether a remembered denial may still be valid.
    #[inline]
    pub(crate) fn may_have_any(&self) -> bool {
        let last_end = self.last_end.load(Relaxed);
        last_end > 0 && stopwatch::micros() < last_end
    }

    /// Remembers the answer of Redis to a request that was sent at `asked`, if it is a denial with a retry time.
    #[inline]
    pub(crate) fn note(&self, subject: Subject, cost: Cost, decision: &Decision, asked: u64) {
        if decision.reason() != Reason::Limited || decision.is_degraded() {
            return;
        }
        let Some(wait) = decision.retry_after() else { return };
        // The wait is counted from the time before Redis was asked, so the denial ends early rather than late.
        let ends = asked.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX));
        let mut place = self.place(subject.key).lock();
        let keeps = |held: &Denial| held.subject == subject && held.cost < cost && held.ends > asked;
        if !place.as_ref().is_some_and(keeps) {
            *place = Some(Denial { subject, cost, decision: *decision, asked, ends });
            self.last_end.fetch_max(ends, Relaxed);
        }
    }

    /// The remembered denial of such a request, with its waits as of now, if there is one.
    pub(crate) fn find(&self, subject: Subject, cost: Cost) -> Option<Decision> {
        let held = (*self.place(subject.key).lock())?;
        let now = stopwatch::micros();
        let holds = held.subject == subject && now < held.ends && held.cost <= cost;
        // A cost that never fits is denied as impossible, not as limited.
        (holds && cost.get() <= held.decision.capacity())
            .then(|| remote::remembered(held.decision, now.saturating_sub(held.asked)))
    }

    /// Removes the denial of a key under any limits.
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
