//! The allocations of the store: none for a known key with a counter, and as many bytes as the store reports.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate::{Cost, Key, MemoryStore, Op, Policy, Timestamp};

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
