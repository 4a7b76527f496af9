//! [`Denials`]: the newest denials, so that a key that Redis has denied stays denied.
//!
//! While Redis keeps up, every request is sent to it. If Redis does not keep up, or requests wait too long for it, the
//! remembered denials are used: a request is denied if Redis has denied the same key under the same limits, at the same or a
//! lower cost, and the retry time of that denial has not come. A ban without an end is remembered for [`MAX_BAN`]. A
//! denial is removed when Redis admits such a request, and by a refund, reset or override by this store. Changes by other
//! stores take effect with the next request to Redis.
//!
//! The table has a fixed size. If a denial replaces another one, the next request for the other key is sent to Redis.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tidegate::{Cost, Decision, Op, Reason, external_store};

use crate::stopwatch::{self, to_micros};

/// Maximum number of denials that are remembered.
const SLOTS: usize = 4096;
/// How long a ban without an end is remembered, in microseconds.
const MAX_BAN: u64 = 60_000_000;

/// The newest denials of a store.
#[derive(Debug)]
pub(crate) struct Denials {
    hasher: RandomState,
    slots: Box<[Mutex<DenialSlot>]>,
    /// When the last denial ends, by the stopwatch. After that the table is not searched.
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
struct DenialSlot {
    denial: Option<Denial>,
    /// The key whose denial was removed last, and when. Answers to earlier requests for it are not remembered.
    removed: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Denial {
    subject: Subject,
    cost: Cost,
    decision: Decision,
    /// When the request was sent, and when the denial ends, by the stopwatch.
    sent_at: u64,
    ends: u64,
}

impl Denials {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            last_end: AtomicU64::new(0),
        }
    }

    /// The subject of a request: the name of its key, and its policy in the form that the script receives.
    pub(crate) fn subject(&self, key: &[u8], policy: &[u8]) -> Subject {
        Subject { key: self.hasher.hash_one(key), limits: self.hasher.hash_one((key, policy)) }
    }

    fn slot(&self, key: u64) -> &Mutex<DenialSlot> {
        &self.slots[usize::try_from(key % SLOTS as u64).unwrap_or(0)]
    }

    /// Whether a remembered denial may still be valid.
    #[inline]
    pub(crate) fn may_have_any(&self) -> bool {
        let last_end = self.last_end.load(Relaxed);
        last_end > 0 && stopwatch::micros() < last_end
    }

    /// Records the answer of Redis to a request that was sent at `sent_at`: a denial is remembered, and removed if such a request
    /// is admitted again.
    #[inline]
    pub(crate) fn record(&self, subject: Subject, op: Op, cost: Cost, decision: &Decision, sent_at: u64) {
        if decision.is_degraded() {
            return;
        }
        match decision.reason() {
            Reason::Limited => {
                if let Some(wait) = decision.retry_after() {
                    self.remember(subject, cost, decision, sent_at, to_micros(wait));
                }
            }
            // A ban denies any cost.
            Reason::Banned => {
                let wait = decision.retry_after().map_or(MAX_BAN, to_micros);
                self.remember(subject, Cost::ONE, decision, sent_at, wait);
            }
            // A charge is always admitted.
            Reason::Allowed if op != Op::Charge && self.may_have_any() => {
                let mut slot = self.slot(subject.key).lock();
                let ends = |known: &Denial| known.subject == subject && known.cost <= cost && known.sent_at <= sent_at;
                if slot.denial.as_ref().is_some_and(ends) {
                    slot.denial = None;
                }
            }
            _ => {}
        }
    }

    fn remember(&self, subject: Subject, cost: Cost, decision: &Decision, sent_at: u64, wait: u64) {
        // The wait is counted from the time before the request was sent, so the denial ends early rather than late.
        let ends = sent_at.saturating_add(wait);
        let mut slot = self.slot(subject.key).lock();
        let is_outdated = slot.removed.is_some_and(|(key, at)| key == subject.key && sent_at <= at);
        let keeps = |known: &Denial| {
            let is_alike = known.subject == subject && known.decision.reason() == decision.reason();
            is_alike && known.cost < cost && known.ends > sent_at
        };
        if !is_outdated && !slot.denial.as_ref().is_some_and(keeps) {
            slot.denial = Some(Denial { subject, cost, decision: *decision, sent_at, ends });
            self.last_end.fetch_max(ends, Relaxed);
        }
    }

    /// The remembered denial of such a request, with its waits as of now, if there is one.
    pub(crate) fn find(&self, subject: Subject, cost: Cost) -> Option<Decision> {
        let known = self.slot(subject.key).lock().denial?;
        let now = stopwatch::micros();
        let is_valid = known.subject == subject && now < known.ends && known.cost <= cost;
        // A cost that never fits is denied as impossible, not as limited.
        let is_possible = known.decision.reason() == Reason::Banned || cost.get() <= known.decision.capacity();
        (is_valid && is_possible).then(|| external_store::remembered(known.decision, now.saturating_sub(known.sent_at)))
    }

    /// Removes the denial of a key under any limits. Answers to requests that were sent before are not remembered.
    pub(crate) fn remove(&self, key: &[u8]) {
        let key = self.hasher.hash_one(key);
        let mut slot = self.slot(key).lock();
        slot.removed = Some((key, stopwatch::micros()));
        if slot.denial.as_ref().is_some_and(|known| known.subject.key == key) {
            slot.denial = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate::{Clock, Cost, Decision, Key, Limiter, MemoryStore, Op, Override, Policy, Reason};

    use super::{Denials, MAX_BAN, Subject};
    use crate::stopwatch;

    fn cost(units: u64) -> Cost {
        Cost::new(units).expect("in range")
    }

    /// No denials, a subject, and the time.
    fn setup() -> (Denials, Subject, u64) {
        let denials = Denials::new();
        let subject = denials.subject(b"key", b"5/1h");
        (denials, subject, stopwatch::micros())
    }

    /// The decision on this many units under 5 per hour, after `prepare`.
    fn decision(units: u64, prepare: impl Fn(&Limiter, &Policy, &Key<'_>)) -> Decision {
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let clock = Clock::from_fn(|| tidegate::Timestamp::from_micros(1));
        let limiter = Limiter::new(MemoryStore::default()).with_clock(clock);
        let key = Key::new("a").expect("a key");
        prepare(&limiter, &policy, &key);
        limiter.check(&policy, &key, cost(units))
    }

    fn denial(units: u64) -> Decision {
        decision(units, |limiter, policy, key| assert!(limiter.check(policy, key, cost(5)).is_allowed()))
    }

    fn admission(units: u64) -> Decision {
        decision(units, |_, _, _| {})
    }

    #[test]
    fn a_denial_applies_to_the_same_or_a_higher_cost_under_the_same_limits_until_it_ends() {
        let (denials, subject, sent_at) = setup();
        assert!(!denials.may_have_any());
        denials.record(subject, Op::Check, cost(2), &denial(2), sent_at);
        assert!(denials.may_have_any());
        let found = denials.find(subject, cost(3)).expect("denied");
        assert!(found.is_degraded() && found.retry_after().expect("a wait") <= Duration::from_secs(3600));
        assert!(denials.find(subject, cost(1)).is_none(), "fewer units may fit");
        assert!(denials.find(subject, cost(6)).is_none(), "this cost is impossible, not limited");
        assert!(denials.find(denials.subject(b"key", b"9/1h"), cost(2)).is_none());
        assert!(denials.find(denials.subject(b"yek", b"5/1h"), cost(2)).is_none());
        denials.remove(b"key");
        assert!(denials.find(subject, cost(2)).is_none());
    }

    #[test]
    fn a_denial_of_fewer_units_is_kept_and_an_ended_denial_does_not_apply() {
        let (denials, subject, sent_at) = setup();
        denials.record(subject, Op::Check, cost(1), &denial(1), sent_at);
        denials.record(subject, Op::Check, cost(4), &denial(4), sent_at);
        assert!(denials.find(subject, cost(1)).is_some());
        let ended = denials.subject(b"ended", b"5/1h");
        denials.slots.iter().for_each(|slot| slot.lock().denial = None);
        denials.record(ended, Op::Check, cost(1), &denial(1), sent_at);
        let slot = denials.slots.iter().find(|slot| slot.lock().denial.is_some()).expect("one is remembered");
        slot.lock().denial.as_mut().expect("one is remembered").ends = stopwatch::micros();
        assert!(denials.find(ended, cost(1)).is_none());
    }

    #[test]
    fn only_an_admission_of_the_same_or_a_higher_cost_removes_a_denial() {
        let (denials, subject, now) = setup();
        let sent_at = now + 1;
        denials.record(subject, Op::Check, cost(2), &denial(2), sent_at);
        denials.record(subject, Op::Check, cost(1), &admission(1), sent_at);
        denials.record(subject, Op::Charge, cost(3), &admission(3), sent_at);
        denials.record(subject, Op::Check, cost(3), &admission(3), sent_at - 1);
        assert!(denials.find(subject, cost(2)).is_some(), "fewer units, a charge, and an earlier request");
        denials.record(subject, Op::Check, cost(3), &admission(3), sent_at);
        assert!(denials.find(subject, cost(2)).is_none());
    }

    #[test]
    fn a_ban_denies_any_cost_and_is_remembered_for_a_minute_if_it_has_no_end() {
        let banned = decision(3, |limiter, policy, key| {
            limiter.set_override(policy, key, Override::ban()).expect("a ban");
        });
        let (denials, subject, sent_at) = setup();
        denials.record(subject, Op::Check, cost(3), &banned, sent_at);
        for units in [1, 3, 100] {
            let found = denials.find(subject, cost(units)).expect("banned");
            assert_eq!((found.reason(), found.is_degraded(), found.retry_after()), (Reason::Banned, true, None));
        }
        let slot = denials.slots.iter().find_map(|slot| slot.lock().denial).expect("one is remembered");
        assert_eq!(slot.ends, sent_at + MAX_BAN);
        denials.record(subject, Op::Check, cost(2), &denial(2), sent_at);
        assert_eq!(denials.find(subject, cost(2)).expect("limited").reason(), Reason::Limited, "the ban was removed");
    }

    #[test]
    fn an_answer_to_a_request_from_before_a_reset_is_not_remembered() {
        let (denials, subject, sent_at) = setup();
        denials.remove(b"key");
        denials.record(subject, Op::Check, cost(1), &denial(1), sent_at);
        assert!(denials.find(subject, cost(1)).is_none());
        let removed = denials.slots.iter().find_map(|slot| slot.lock().removed).expect("a denial was removed");
        denials.record(subject, Op::Check, cost(1), &denial(1), removed.1 + 1);
        assert!(denials.find(subject, cost(1)).is_some());
    }
}
