//! The allocations of the store: none for a known key with a counter, as many bytes as the store reports, and no copies of
//! logs.

use std::{alloc::System, time::Duration};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate::{Cost, Hold, Key, MemoryStore, Op, Policy, Reason, Timestamp};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const START: u64 = 1_745_000_000_000_000;

fn policy(limit: &str, algorithm: &str) -> Policy {
    Policy::new("p", [limit.parse().unwrap()]).unwrap().with_algorithm(algorithm.parse().unwrap())
}

/// A separate program, because the counters are those of the whole process, and the test harness allocates, too.
fn main() {
    // The arguments that test runners pass to a program with tests.
    let has = |argument: &str| std::env::args().any(|given| given == argument);
    if has("--list") && !has("--ignored") {
        println!("the_heap_is_used_as_promised: test");
    } else if !has("--ignored") {
        the_heap_is_used_as_promised();
        println!("test the_heap_is_used_as_promised ... ok");
    }
}

fn the_heap_is_used_as_promised() {
    known_keys_with_a_counter_allocate_nothing();
    the_store_reports_its_allocated_bytes("sliding_counter", 1);
    the_store_reports_its_allocated_bytes("sliding_log", 1);
    the_store_reports_its_allocated_bytes("sliding_log", 60);
    the_store_reports_its_allocated_bytes("sliding_buckets:10", 20);
    a_denial_under_changed_limits_copies_no_log();
    holds_that_end_at_once_rewrite_a_log_once();
}

fn known_keys_with_a_counter_allocate_nothing() {
    let store = MemoryStore::default();
    for algorithm in ["sliding_counter", "fixed_window", "gcra"] {
        let policy = policy("100/1m", algorithm);
        let key = Key::new(algorithm).unwrap();
        let _ = store.decide(Op::Check, &policy, &key, Cost::ONE, Timestamp::from_micros(START));
        let region = Region::new(HEAP);
        let mut denied = 0;
        for n in 0..10_000 {
            let key = Key::new(algorithm).unwrap();
            let now = Timestamp::from_micros(START + n * 50_000);
            denied += u64::from(!store.decide(Op::Check, &policy, &key, Cost::ONE, now).is_allowed());
        }
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{algorithm}");
        assert!((100..9900).contains(&denied), "{algorithm}: the test needs both kinds of decision, {denied}");
    }
}

fn the_store_reports_its_allocated_bytes(algorithm: &str, requests: u64) {
    let region = Region::new(HEAP);
    let store = MemoryStore::default();
    let policy = policy("1000/1h", algorithm);
    for key in 0..20_000_u64 {
        for n in 0..requests {
            let now = Timestamp::from_micros(START + n * 60_000_000 + key);
            let _ = store.decide(Op::Check, &policy, &Key::new(&key.to_le_bytes()).unwrap(), Cost::ONE, now);
        }
    }
    let change = region.change();
    let net = change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed();
    let reported = store.stats().bytes.cast_signed();
    assert!((net - reported).abs() * 100 < net, "{algorithm} x {requests}: {reported} reported, {net} allocated");
}

const HOLDS: u64 = 1_000;
const TTL: Duration = Duration::from_secs(1_800);

/// A key with many open holds that end within a second, and `charges` other entries in its log.
fn key_with_holds(policy: &Policy, charges: u64) -> (MemoryStore, Timestamp) {
    let (store, key, mut now) = (MemoryStore::default(), Key::new("k").unwrap(), START);
    for n in 0..charges {
        now += 10;
        let at = Timestamp::from_micros(now);
        let _ = store.decide(Op::Charge, policy, &key, Cost::ONE, at);
        if n % (charges / HOLDS) == 0 {
            now += 10;
            store.reserve(policy, &key, Cost::ONE, Hold::new(TTL), Timestamp::from_micros(now)).unwrap().id.unwrap();
        }
    }
    (store, Timestamp::from_micros(now))
}

/// The bytes that a denied check allocates, if the limit was another one when the log was written.
fn bytes_of_a_denial(charges: u64, limit: &str, algorithm: &str, is_charged: bool) -> usize {
    let (store, now) = key_with_holds(&policy("1000000/1h", "sliding_log"), charges);
    let (changed, key) = (policy(limit, algorithm), Key::new("k").unwrap());
    if is_charged {
        let _ = store.decide(Op::Charge, &changed, &key, Cost::ONE, now);
    }
    let cost = Cost::new(1_000).unwrap();
    let region = Region::new(HEAP);
    let decision = store.decide(Op::Check, &changed, &key, cost, now);
    let bytes = region.change().bytes_allocated;
    assert_eq!(decision.reason(), Reason::Limited, "{limit} {algorithm}: {decision:?}");
    bytes
}

/// The log may be long, and everybody who is denied would copy it again.
fn a_denial_under_changed_limits_copies_no_log() {
    for is_charged in [false, true] {
        for algorithm in
            ["sliding_log", "sliding_counter", "sliding_buckets:10", "sliding_buckets:1000", "fixed_window"]
        {
            let bytes = |charges| bytes_of_a_denial(charges, "1000/2h", algorithm, is_charged);
            let (short, long) = (bytes(2_000), bytes(40_000));
            assert!(long < 300 * 1_000, "{algorithm}: {long} bytes for {HOLDS} holds");
            assert!(long < short + short / 4, "{algorithm}: {short} bytes, and {long} with a long log");
        }
    }
    // Units in use become one charge at the first charge.
    let bytes = |charges| bytes_of_a_denial(charges, "1000/2h", "gcra", false);
    let (short, long) = (bytes(2_000), bytes(40_000));
    assert!(long < short + short / 4, "gcra: {short} bytes, and {long} with a long log");
}

/// Each hold by itself would read and write a part of the log.
fn holds_that_end_at_once_rewrite_a_log_once() {
    for algorithm in ["sliding_log", "sliding_buckets:10", "sliding_buckets:1000"] {
        let policy = policy("1000000/1h", algorithm);
        let (store, now) = key_with_holds(&policy, 2_000);
        let (key, ended) = (Key::new("k").unwrap(), now.after(TTL));
        let region = Region::new(HEAP);
        let decision = store.decide(Op::Check, &policy, &key, Cost::ONE, ended);
        let bytes = region.change().bytes_allocated;
        assert_eq!((decision.is_allowed(), decision.used()), (true, 2_001), "{algorithm}");
        assert!(bytes < 300 * 1_000, "{algorithm}: {bytes} bytes for the ends of {HOLDS} holds");
    }
}
