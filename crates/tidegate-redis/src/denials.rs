//! [`Denials`]: the newest denials, so that a key that Redis has denied stays denied.
//!
//! While Redis keeps up, it is asked for every request. If Redis does not keep up, or requests wait too long for it, the
//! remembered denials are used: a request is denied if Redis has denied the same key under the same limits, at the same or a
//! lower cost, and the retry time of that denial has not come. A ban without an end is remembered for [`LONGEST_BAN`]. A
//! denial is removed when Redis admits such a request, and by a refund, reset or override by this store. Changes by other
//! stores take effect as soon as Redis is asked again.
//!
//! The table has a fixed size. If a denial replaces another one, the store only asks Redis again.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use tidegate::{Cost, Decision, Op, Reason, external_store};

use crate::stopwatch;

/// Maximum number of denials that are remembered.
const PLACES: usize = 4096;
/// How long a ban without an end is remembered, in microseconds.
const LONGEST_BAN: u64 = 60_000_000;

/// The newest denials of a store.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    places: Box<[Mutex<Place>]>,
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

#[derive(Debug, Default)]
struct Place {
    denial: Option<Denial>,
    /// The key whose denial was forgotten last, and when. Answers to earlier requests for it are not remembered.
    forgotten: Option<(u64, u64)>,
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
            places: (0..PLACES).map(|_| Mutex::default()).collect(),
            last_end: AtomicU64::new(0),
        }
    }

    /// The subject of a request: the name of its key, and its policy in the form that the script receives.
    pub(crate) fn subject(&self, key: &[u8], policy: &[u8]) -> Subject {
        Subject { key: self.hasher.hash_one(key), limits: self.hasher.hash_one((key, policy)) }
    }

    fn place(&self, key: u64) -> &Mutex<Place> {
        &self.places[usize::try_from(key % PLACES as u64).unwrap_or(0)]
    }

    /// Whether a remembered denial may still be valid.
    #[inline]
    pub(crate) fn may_have_any(&self) -> bool {
        let last_end = self.last_end.load(Relaxed);
        last_end > 0 && stopwatch::micros() < last_end
    }

    /// Records the answer of Redis to a request that was sent at `asked`: a denial is remembered, and removed if such a request
    /// is admitted again.
    #[inline]
    pub(crate) fn note(&self, subject: Subject, op: Op, cost: Cost, decision: &Decision, asked: u64) {
        if decision.is_degraded() {
            return;
        }
        match decision.reason() {
            Reason::Limited => {
                if let Some(wait) = decision.retry_after() {
                    self.remember(subject, cost, decision, asked, micros(wait));
                }
            }
            // A ban denies any cost.
            Reason::Banned => {
                let wait = decision.retry_after().map_or(LONGEST_BAN, micros);
                self.remember(subject, Cost::ONE, decision, asked, wait);
            }
            // A charge is always admitted.
            Reason::Allowed if op != Op::Charge && self.may_have_any() => {
                let mut place = self.place(subject.key).lock();
                let ends = |held: &Denial| held.subject == subject && held.cost <= cost && held.asked <= asked;
                if place.denial.as_ref().is_some_and(ends) {
                    place.denial = None;
                }
            }
            _ => {}
        }
    }

    fn remember(&self, subject: Subject, cost: Cost, decision: &Decision, asked: u64, wait: u64) {
        // The wait is counted from the time before Redis was asked, so the denial ends early rather than late.
        let ends = asked.saturating_add(wait);
        let mut place = self.place(subject.key).lock();
        let is_outdated = place.forgotten.is_some_and(|(key, at)| key == subject.key && asked <= at);
        let keeps = |held: &Denial| {
            let is_alike = held.subject == subject && held.decision.reason() == decision.reason();
            is_alike && held.cost < cost && held.ends > asked
        };
        if !is_outdated && !place.denial.as_ref().is_some_and(keeps) {
            place.denial = Some(Denial { subject, cost, decision: *decision, asked, ends });
            self.last_end.fetch_max(ends, Relaxed);
        }
    }

    /// The remembered denial of such a request, with its waits as of now, if there is one.
    pub(crate) fn find(&self, subject: Subject, cost: Cost) -> Option<Decision> {
        let held = self.place(subject.key).lock().denial?;
        let now = stopwatch::micros();
        let holds = held.subject == subject && now < held.ends && held.cost <= cost;
        // A cost that never fits is denied as impossible, not as limited.
        let is_possible = held.decision.reason() == Reason::Banned || cost.get() <= held.decision.capacity();
        (holds && is_possible).then(|| external_store::remembered(held.decision, now.saturating_sub(held.asked)))
    }

    /// Removes the denial of a key under any limits. Answers to requests that were sent before are not remembered.
    pub(crate) fn forget(&self, key: &[u8]) {
        let key = self.hasher.hash_one(key);
        let mut place = self.place(key).lock();
        place.forgotten = Some((key, stopwatch::micros()));
        if place.denial.as_ref().is_some_and(|held| held.subject.key == key) {
            place.denial = None;
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Clock, Cost, Key, Limiter, MemoryStore, Op, Override, Policy, Reason};

    use super::{Denials, LONGEST_BAN};
    use crate::stopwatch;

    fn cost(units: u64) -> Cost {
        Cost::new(units).expect("in range")
    }

    /// A denial of so many units under 5 per hour.
    fn denial(units: u64) -> tidegate::Decision {
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let clock = Clock::from_fn(|| tidegate::Timestamp::from_micros(1));
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
        denials.note(subject, Op::Check, cost(2), &denial(2), asked);
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
        denials.note(subject, Op::Check, cost(1), &denial(1), asked);
        denials.note(subject, Op::Check, cost(4), &denial(4), asked);
        assert!(denials.find(subject, cost(1)).is_some());
        let ended = denials.subject(b"ended", b"5/1h");
        denials.places.iter().for_each(|place| place.lock().denial = None);
        denials.note(ended, Op::Check, cost(1), &denial(1), asked);
        let place = denials.places.iter().find(|place| place.lock().denial.is_some()).expect("one is remembered");
        place.lock().denial.as_mut().expect("one is remembered").ends = stopwatch::micros();
        assert!(denials.find(ended, cost(1)).is_none());
    }

    /// A decision on so many units under 5 per hour for a key with nothing in use.
    fn admission(units: u64) -> tidegate::Decision {
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let limiter = Limiter::new(MemoryStore::default());
        limiter.check(&policy, &Key::new("a").expect("a key"), cost(units))
    }

    #[test]
    fn an_admission_of_as_many_units_removes_a_denial_and_no_other_answer_does() {
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        let asked = stopwatch::micros() + 1;
        denials.note(subject, Op::Check, cost(2), &denial(2), asked);
        denials.note(subject, Op::Check, cost(1), &admission(1), asked);
        denials.note(subject, Op::Charge, cost(3), &admission(3), asked);
        denials.note(subject, Op::Check, cost(3), &admission(3), asked - 1);
        assert!(denials.find(subject, cost(2)).is_some(), "fewer units, a charge, and an earlier request");
        denials.note(subject, Op::Check, cost(3), &admission(3), asked);
        assert!(denials.find(subject, cost(2)).is_none());
    }

    #[test]
    fn a_ban_denies_any_cost_and_is_remembered_for_a_minute_if_it_has_no_end() {
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let (limiter, key) = (Limiter::new(MemoryStore::default()), Key::new("a").expect("a key"));
        limiter.set_override(&policy, &key, Override::ban()).expect("a ban");
        let banned = limiter.check(&policy, &key, cost(3));
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        let asked = stopwatch::micros();
        denials.note(subject, Op::Check, cost(3), &banned, asked);
        for units in [1, 3, 100] {
            let found = denials.find(subject, cost(units)).expect("banned");
            assert_eq!((found.reason(), found.is_degraded(), found.retry_after()), (Reason::Banned, true, None));
        }
        let place = denials.places.iter().find_map(|place| place.lock().denial).expect("one is remembered");
        assert_eq!(place.ends, asked + LONGEST_BAN);
        denials.note(subject, Op::Check, cost(2), &denial(2), asked);
        assert_eq!(denials.find(subject, cost(2)).expect("limited").reason(), Reason::Limited, "the ban was lifted");
    }

    #[test]
    fn an_answer_to_a_request_from_before_a_reset_is_not_remembered() {
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        let asked = stopwatch::micros();
        denials.forget(b"key");
        denials.note(subject, Op::Check, cost(1), &denial(1), asked);
        assert!(denials.find(subject, cost(1)).is_none());
        let forgotten = denials.places.iter().find_map(|place| place.lock().forgotten).expect("a key was forgotten");
        denials.note(subject, Op::Check, cost(1), &denial(1), forgotten.1 + 1);
        assert!(denials.find(subject, cost(1)).is_some());
    }
}
