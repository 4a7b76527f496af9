//! What the store takes from the heap: nothing for a known key with a counter, and never more than it says.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tidegate::{Cost, Key, MemoryStore, Op, Policy, Timestamp};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const START: u64 = 1_745_000_000_000_000;

fn policy(limit: &str, algorithm: &str) -> Policy {
    Policy::new("p", [limit.parse().unwrap()]).unwrap().with_algorithm(algorithm.parse().unwrap())
}

/// A program of its own: the counters are the whole process's, and the test harness has a thread that allocates, too.
fn main() {
    // What test runners ask of a program with tests.
    let asked = |argument: &str| std::env::args().any(|given| given == argument);
    if asked("--list") && !asked("--ignored") {
        println!("the_heap_is_used_as_promised: test");
    } else if !asked("--ignored") {
        the_heap_is_used_as_promised();
        println!("test the_heap_is_used_as_promised ... ok");
    }
}

fn the_heap_is_used_as_promised() {
    known_keys_with_a_counter_take_nothing();
    the_figures_of_the_store_are_true("sliding_counter", 1);
    the_figures_of_the_store_are_true("sliding_log", 1);
    the_figures_of_the_store_are_true("sliding_log", 60);
    the_figures_of_the_store_are_true("sliding_buckets:10", 20);
}

fn known_keys_with_a_counter_take_nothing() {
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
        assert!((100..9900).contains(&denied), "{algorithm}: both kinds of decision were to be made, {denied}");
    }
}

fn the_figures_of_the_store_are_true(algorithm: &str, requests: u64) {
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
    let told = store.stats().bytes.cast_signed();
    assert!((net - told).abs() * 100 < net, "{algorithm} x {requests}: {told} told, {net} taken");
}
