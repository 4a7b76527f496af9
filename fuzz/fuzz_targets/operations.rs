//! Any sequence of operations under any policies and clocks: nothing panics, no answer contradicts itself, and every retry
//! time is true to the microsecond.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::{Algorithm, Buckets, Burst, Cost, Decision, Key, Limit, MemoryStore, Mode, Op, Policy, Reason, Spend, Timestamp};

#[derive(Arbitrary, Debug)]
struct Case {
    policies: [Shape; 2],
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Shape {
    algorithm: u8,
    parameter: u16,
    limits: Vec<(u16, u32)>,
    shadow: bool,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Decide { policy: bool, key: u8, op: u8, cost: u16, hop: i32 },
    Together { op: u8, cost: u16, hop: i32 },
    Refund { policy: bool, key: u8, cost: u16, ago: u32, hop: i32 },
    Reset { policy: bool, key: u8 },
    Inspect { policy: bool, key: u8, hop: i32 },
    Jump { to: u64 },
}

fn policy(shape: &Shape) -> Policy {
    let number = u64::from(shape.parameter % 1000) + 1;
    let algorithm = match shape.algorithm % 5 {
        0 => Algorithm::SlidingLog,
        1 => Algorithm::SlidingCounter,
        2 => Algorithm::SlidingBuckets(Buckets::new(number).expect("1 to 1000")),
        3 => Algorithm::FixedWindow,
        _ => Algorithm::Gcra(Some(Burst::new(number).expect("1 to 1000"))),
    };
    let limit = |(max, window): &(u16, u32)| {
        Limit::new(u64::from(*max) + 1, Duration::from_micros(u64::from(*window) + 1000)).expect("in range")
    };
    let mut limits: Vec<Limit> = shape.limits.iter().take(4).map(limit).collect();
    limits.sort_by_key(Limit::window);
    limits.dedup_by_key(|limit| limit.window());
    if limits.is_empty() {
        limits.push("3/1s".parse().expect("a limit"));
    }
    let mode = if shape.shadow { Mode::Shadow } else { Mode::Enforce };
    // One name for both, so that each sees the other's state as one whose shape has changed.
    Policy::new("p", limits).expect("a policy").with_algorithm(algorithm).with_mode(mode)
}

fn go(now: &mut u64, hop: i32) -> Timestamp {
    *now = now.saturating_add_signed(hop.into());
    Timestamp::from_micros(*now)
}

fn op(number: u8) -> Op {
    [Op::Check, Op::Peek, Op::Charge][usize::from(number % 3)]
}

fn consistent(policy: &Policy, op: Op, decision: &Decision) {
    let capacity = policy.capacity(decision.limit());
    assert!(decision.remaining() <= capacity);
    assert_eq!(decision.is_allowed(), matches!(decision.reason(), Reason::Allowed | Reason::Shadow));
    assert!(op != Op::Peek || decision.charged_at().is_none());
    assert!(op != Op::Charge || decision.reason() == Reason::Allowed);
    if decision.reason() == Reason::Limited {
        let wait = decision.retry_after().expect("a limited request can wait");
        assert!(!wait.is_zero() && wait <= decision.reset_after());
    }
}

fuzz_target!(|case: Case| {
    let store = MemoryStore::builder().max_keys(4).build().expect("a store");
    let policies = case.policies.each_ref().map(policy);
    let mut now = 1_745_000_000_000_000_u64;
    for step in case.steps {
        match step {
            Step::Decide { policy, key, op: number, cost, hop } => {
                let (policy, name) = (&policies[usize::from(policy)], [key % 8]);
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let key = Key::new(&name).expect("a key");
                let at = go(&mut now, hop);
                let decision = store.decide(op(number), policy, &key, cost, at);
                consistent(policy, op(number), &decision);
                // Who waits as long as told is admitted, and not a microsecond earlier. (A peek by a clock that went far
                // back is not written down, so the next one finds the same.)
                let exact = op(number) == Op::Check && !decision.is_degraded();
                if let (true, Reason::Limited, Some(wait)) = (exact, decision.reason(), decision.retry_after()) {
                    let then = |wait| store.decide(Op::Peek, policy, &key, cost, at.after(wait)).reason();
                    assert_eq!(then(wait), Reason::Allowed);
                    assert_eq!(then(wait - Duration::from_micros(1)), Reason::Limited);
                }
            }
            Step::Together { op: number, cost, hop } => {
                let keys = [Key::new("a").expect("a key"), Key::new("b").expect("a key")];
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let spends = [&keys[0], &keys[1]].map(|key| Spend { policy: &policies[0], key, cost });
                let decisions = store.decide_all(op(number), &spends, go(&mut now, hop)).expect("well-formed");
                let charged = decisions.parts.iter().filter(|part| part.charged_at().is_some()).count();
                let whole = charged == 0 || charged == 2 || policies[0].mode() == Mode::Shadow;
                assert!(whole || decisions.parts.iter().any(Decision::is_degraded), "half a decision was charged");
            }
            Step::Refund { policy, key, cost, ago, hop } => {
                let name = [key % 8];
                let at = go(&mut now, hop);
                let charged_at = Timestamp::from_micros(at.as_micros().saturating_sub(ago.into()));
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let _ = store.refund(&policies[usize::from(policy)], &Key::new(&name).expect("a key"), cost, charged_at, at);
            }
            Step::Reset { policy, key } => {
                let name = [key % 8];
                let _ = store.reset(&policies[usize::from(policy)], &Key::new(&name).expect("a key"));
            }
            Step::Inspect { policy, key, hop } => {
                let name = [key % 8];
                let _ = store.inspect(&policies[usize::from(policy)], &Key::new(&name).expect("a key"), go(&mut now, hop));
            }
            Step::Jump { to } => {
                // Well before time ends, so that waits can be waited for.
                now = to % 8_000_000_000_000_000;
            }
        }
        assert!(store.stats().keys <= 4);
    }
});
