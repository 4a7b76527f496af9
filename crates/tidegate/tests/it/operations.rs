//! Reset, inspect, refund and the clock of a limiter.

use std::time::Duration;

use tidegate::{Algorithm, Cost, Entry, Key, Limit, Limiter, ManualClock, MemoryStore, Op, Policy, Reason, Timestamp};

const START: u64 = 1_745_000_100_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn policy(limits: &[&str], algorithm: &str) -> Policy {
    let limits = limits.iter().map(|text| text.parse::<Limit>().unwrap());
    Policy::new("p", limits).unwrap().with_algorithm(algorithm.parse().unwrap())
}

#[test]
fn a_limiter_reads_its_clock_and_its_waits_are_exact() {
    let time = ManualClock::at(at(0));
    let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
    let policy = policy(&["2/1m"], "sliding_log");
    let key = Key::new("alice").unwrap();
    let check = || limiter.check(&policy, &key, Cost::ONE);
    assert!(check().is_allowed());
    time.advance(Duration::from_secs(10));
    assert_eq!(check().charged_at(), Some(at(10_000_000)));
    let wait = check().retry_after().unwrap();
    assert_eq!(wait, Duration::from_secs(50));
    time.advance(wait - Duration::from_micros(1));
    assert_eq!(check().retry_after(), Some(Duration::from_micros(1)));
    time.advance(Duration::from_micros(1));
    assert!(check().is_allowed());
    assert_eq!(limiter.store().stats().allowed, 3);
    assert_eq!(limiter.store().stats().denied, 2);
}

#[test]
fn the_system_clock_starts_at_the_present_and_never_goes_back() {
    let clock = Limiter::default().clock().clone();
    let mut before = clock.now();
    assert!(before > Timestamp::from_micros(1_760_000_000_000_000));
    for _ in 0..100_000 {
        let now = clock.now();
        assert!(now >= before);
        before = now;
    }
}

#[test]
fn a_cost_is_reserved_then_settled() {
    let time = ManualClock::at(at(0));
    let limiter = Limiter::new(MemoryStore::default()).with_clock(time.clock());
    let tokens = policy(&["1000/1m"], "sliding_log");
    let key = Key::new("tenant").unwrap();
    let reserved = limiter.check(&tokens, &key, Cost::new(400).unwrap());
    time.advance(Duration::from_secs(3));
    // The first request cost only 150. The next one costs more than is left.
    let refund = limiter.refund(&tokens, &key, Cost::new(250).unwrap(), reserved.charged_at().unwrap());
    assert!(refund.is_returned());
    assert_eq!((refund.remaining(), refund.reset_after()), (850, Duration::from_secs(57)));
    let settled = limiter.charge(&tokens, &key, Cost::new(900).unwrap());
    assert_eq!((settled.reason(), settled.remaining(), settled.used()), (Reason::Allowed, 0, 1050));
    let again = limiter.refund(&tokens, &key, Cost::new(250).unwrap(), at(1));
    assert!(!again.is_returned(), "nothing was charged at that moment");
}

#[test]
fn reset_deletes_the_state_of_one_key_under_one_policy() {
    let store = MemoryStore::default();
    let key = Key::new("k").unwrap();
    let (a, b) = (Policy::new("a", ["1/1m".parse().unwrap()]).unwrap(), policy(&["1/1m"], "gcra"));
    for policy in [&a, &b] {
        assert!(store.decide(Op::Check, policy, &key, Cost::ONE, at(0)).is_allowed());
    }
    assert!(store.reset(&a, &key));
    assert!(!store.reset(&a, &key), "the state was deleted before");
    assert!(store.decide(Op::Check, &a, &key, Cost::ONE, at(0)).is_allowed());
    assert!(!store.decide(Op::Check, &b, &key, Cost::ONE, at(0)).is_allowed());
}

#[test]
fn inspect_shows_entries_and_slots() {
    let store = MemoryStore::default();
    let key = Key::new("k").unwrap();
    let spend = |policy: &Policy, units, micros| {
        let _ = store.decide(Op::Charge, policy, &key, Cost::new(units).unwrap(), at(micros));
    };
    let log = policy(&["5/1s", "60/1m"], "sliding_log");
    assert_eq!(store.inspect(&log, &key, at(0)), None);
    for (units, micros) in [(1, 0), (2, 500_000), (3, 1_500_000)] {
        spend(&log, units, micros);
    }
    let inspection = store.inspect(&log, &key, at(1_600_000)).unwrap();
    assert_eq!(inspection.newest_charge, at(1_500_000));
    let entry = |first, last, units| Entry::new(at(first), at(last), units);
    let [second, minute] = &inspection.limits[..] else { panic!("two limits") };
    assert_eq!((second.used, second.remaining, second.reset_after), (3, 2, Duration::from_micros(900_000)));
    assert_eq!(second.entries, [entry(1_500_000, 1_500_000, 3)]);
    assert_eq!((minute.used, minute.remaining), (6, 54));
    assert_eq!(minute.entries.len(), 3);

    let buckets = Policy::new("b", ["60/1s".parse().unwrap()]).unwrap();
    let buckets = buckets.with_algorithm("sliding_buckets:10".parse().unwrap());
    for (units, micros) in [(1, 0), (2, 250_000), (3, 299_999)] {
        spend(&buckets, units, micros);
    }
    let inspection = store.inspect(&buckets, &key, at(300_000)).unwrap();
    assert_eq!(inspection.limits[0].entries, [entry(0, 99_999, 1), entry(200_000, 299_999, 5)]);

    let counter = Policy::new("c", ["60/1s".parse().unwrap()]).unwrap().with_algorithm(Algorithm::SlidingCounter);
    for (units, micros) in [(1, 0), (2, 1_000_000)] {
        spend(&counter, units, micros);
    }
    let inspection = store.inspect(&counter, &key, at(1_000_000)).unwrap();
    assert_eq!(inspection.limits[0].entries, [entry(0, 999_999, 1), entry(1_000_000, 1_999_999, 2)]);
}

#[test]
fn inspect_lists_a_bounded_number_of_entries() {
    let store = MemoryStore::default();
    let (key, policy) = (Key::new("k").unwrap(), policy(&["10000/1m"], "sliding_log"));
    for n in 0..2500 {
        let _ = store.decide(Op::Check, &policy, &key, Cost::ONE, at(n * 1000));
    }
    let inspection = store.inspect(&policy, &key, at(2_500_000)).unwrap();
    assert_eq!((inspection.limits[0].entries.len(), inspection.limits[0].unlisted), (1000, 1500));
    assert_eq!(inspection.limits[0].entries[999].first, at(2_499_000));
}

#[test]
fn inspect_changes_nothing_even_if_the_clock_went_far_back() {
    let store = MemoryStore::default();
    let (key, policy) = (Key::new("k").unwrap(), policy(&["10/1m"], "sliding_counter"));
    let _ = store.decide(Op::Check, &policy, &key, Cost::ONE, at(0));
    let before = store.inspect(&policy, &key, at(1));
    let hour_ago = Timestamp::from_micros(START - 3_600_000_000);
    assert_eq!(store.inspect(&policy, &key, hour_ago).unwrap().newest_charge, hour_ago);
    let _ = store.decide(Op::Peek, &policy, &key, Cost::ONE, hour_ago);
    assert_eq!(store.inspect(&policy, &key, at(1)), before);
}
