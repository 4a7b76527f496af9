//! Runs any sequence of operations under any policies and clocks. Nothing panics, every decision is consistent, and
//! every retry time is exact to the microsecond.

#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use tidegate::{
    Algorithm, Buckets, Burst, Cost, Decision, Key, Limit, MemoryStore, Mode, Op, Policy, Reason, Spend, Timestamp,
};

#[derive(Arbitrary, Debug)]
struct Case {
    policies: [PolicyInput; 2],
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct PolicyInput {
    algorithm: u8,
    parameter: u16,
    limits: Vec<(u16, u32)>,
    shadow: bool,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Decide { policy: bool, key: u8, op: u8, cost: u16, shift: i32 },
    DecideAll { op: u8, cost: u16, shift: i32 },
    Refund { policy: bool, key: u8, cost: u16, ago: u32, shift: i32 },
    Reset { policy: bool, key: u8 },
    Inspect { policy: bool, key: u8, shift: i32 },
    Jump { to: u64 },
}

fn policy(input: &PolicyInput) -> Policy {
    let number = u64::from(input.parameter % 1000) + 1;
    let algorithm = match input.algorithm % 5 {
        0 => Algorithm::SlidingLog,
        1 => Algorithm::SlidingCounter,
        2 => Algorithm::SlidingBuckets(Buckets::new(number).expect("1 to 1000")),
        3 => Algorithm::FixedWindow,
        _ => Algorithm::Gcra(Some(Burst::new(number).expect("1 to 1000"))),
    };
    let limit = |(max, window): &(u16, u32)| {
        Limit::new(u64::from(*max) + 1, Duration::from_micros(u64::from(*window) + 1000)).expect("in range")
    };
    let mut limits: Vec<Limit> = input.limits.iter().take(4).map(limit).collect();
    limits.sort_by_key(Limit::window);
    limits.dedup_by_key(|limit| limit.window());
    if limits.is_empty() {
        limits.push("3/1s".parse().expect("a limit"));
    }
    let mode = if input.shadow { Mode::Shadow } else { Mode::Enforce };
    // Both policies have one name, so each finds the state of the other and converts its layout.
    Policy::new("p", limits).expect("a policy").with_algorithm(algorithm).with_mode(mode)
}

fn advance(now: &mut u64, shift: i32) -> Timestamp {
    *now = now.saturating_add_signed(shift.into());
    Timestamp::from_micros(*now)
}

fn op(number: u8) -> Op {
    [Op::Check, Op::Peek, Op::Charge][usize::from(number % 3)]
}

fn assert_consistent(policy: &Policy, op: Op, decision: &Decision) {
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
            Step::Decide { policy, key, op: number, cost, shift } => {
                let (policy, name) = (&policies[usize::from(policy)], [key % 8]);
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let key = Key::new(&name).expect("a key");
                let at = advance(&mut now, shift);
                let decision = store.decide(op(number), policy, &key, cost, at);
                assert_consistent(policy, op(number), &decision);
                // After the retry time the request is admitted, and not a microsecond earlier. (A peek does not change
                // the state, even if the clock went far back. So both peeks find the same state.)
                let exact = op(number) == Op::Check && !decision.is_degraded();
                if let (true, Reason::Limited, Some(wait)) = (exact, decision.reason(), decision.retry_after()) {
                    let reason_after = |wait| store.decide(Op::Peek, policy, &key, cost, at.after(wait)).reason();
                    assert_eq!(reason_after(wait), Reason::Allowed);
                    assert_eq!(reason_after(wait - Duration::from_micros(1)), Reason::Limited);
                }
            }
            Step::DecideAll { op: number, cost, shift } => {
                let keys = [Key::new("a").expect("a key"), Key::new("b").expect("a key")];
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let spends = [&keys[0], &keys[1]].map(|key| Spend { policy: &policies[0], key, cost });
                let decisions = store.decide_all(op(number), &spends, advance(&mut now, shift)).expect("well-formed");
                let charged = decisions.parts.iter().filter(|part| part.charged_at().is_some()).count();
                let all_or_none = charged == 0 || charged == 2 || policies[0].mode() == Mode::Shadow;
                assert!(
                    all_or_none || decisions.parts.iter().any(Decision::is_degraded),
                    "only one of two requests was charged"
                );
            }
            Step::Refund { policy, key, cost, ago, shift } => {
                let name = [key % 8];
                let at = advance(&mut now, shift);
                let charged_at = Timestamp::from_micros(at.as_micros().saturating_sub(ago.into()));
                let cost = Cost::new(u64::from(cost) + 1).expect("in range");
                let _ = store.refund(
                    &policies[usize::from(policy)],
                    &Key::new(&name).expect("a key"),
                    cost,
                    charged_at,
                    at,
                );
            }
            Step::Reset { policy, key } => {
                let name = [key % 8];
                let _ = store.reset(&policies[usize::from(policy)], &Key::new(&name).expect("a key"));
            }
            Step::Inspect { policy, key, shift } => {
                let name = [key % 8];
                let _ = store.inspect(
                    &policies[usize::from(policy)],
                    &Key::new(&name).expect("a key"),
                    advance(&mut now, shift),
                );
            }
            Step::Jump { to } => {
                // Far below the maximum time, so that retry times stay in range.
                now = to % 8_000_000_000_000_000;
            }
        }
        assert!(store.stats().keys <= 4);
    }
});
