//! [`KeyState`]: a store made of a map and key states answers like [`MemoryStore`].

use std::collections::HashMap;

use proptest::{collection::vec, prelude::*, sample::select};

use tidegate::{
    Algorithm, Cost, Decision, Decisions, Key, Limit, MemoryStore, Mode, Op, Policy, Spend, SpendError, Timestamp,
    external_store::{KeyState, decide_all, distinct, policy_identity},
};

type StateId = (String, Key<'static>);

#[derive(Default)]
struct MapStore(HashMap<StateId, KeyState>);

fn id(policy: &Policy, key: &Key<'_>) -> StateId {
    (policy_identity(policy), key.clone().into_owned())
}

impl MapStore {
    fn state(&mut self, policy: &Policy, key: &Key<'_>) -> &mut KeyState {
        self.0.entry(id(policy, key)).or_default()
    }

    fn decide_all(&mut self, op: Op, spends: &[Spend<'_>], now: Timestamp) -> Result<Decisions, SpendError> {
        let (merged, _) = distinct(spends)?;
        let ids: Vec<_> = merged.iter().map(|spend| id(spend.policy, spend.key)).collect();
        let mut states: Vec<_> = ids.iter().map(|id| self.0.remove(id).unwrap_or_default()).collect();
        let decisions = decide_all(op, &mut states, spends, now);
        self.0.extend(ids.into_iter().zip(states));
        decisions
    }
}

#[derive(Debug, Clone)]
enum Step {
    Decide(Op, usize, usize, u64),
    DecideAll(Op, Vec<(usize, usize, u64)>),
    Refund(usize, usize, u64, i64),
    Inspect(usize, usize),
    Reset(usize, usize),
}

fn policy() -> impl Strategy<Value = Policy> {
    let algorithm = select(vec![
        "sliding_log",
        "sliding_counter",
        "sliding_buckets:3",
        "sliding_buckets:10",
        "fixed_window",
        "gcra",
        "gcra:3",
    ]);
    let limits = proptest::sample::subsequence(vec![1_000_u64, 7_001, 1_000_000, 60_000_000, 3_600_000_000], 1..=3);
    let name = select(vec![Some("a"), Some("a"), Some("b"), None]);
    (name, limits, vec(1_u64..12, 3), algorithm, any::<bool>()).prop_map(|(name, windows, max, algorithm, shadow)| {
        let limits = windows.iter().zip(max).map(|(window, max)| Limit::from_vector(max, *window));
        let policy = match name {
            Some(name) => Policy::new(name, limits),
            None => Policy::unnamed(limits),
        };
        let algorithm: Algorithm = algorithm.parse().expect("an algorithm");
        let mode = if shadow { Mode::Shadow } else { Mode::Enforce };
        policy.expect("a policy").with_algorithm(algorithm).with_mode(mode)
    })
}

fn step() -> impl Strategy<Value = (Step, i64)> {
    let op = || select(vec![Op::Check, Op::Check, Op::Peek, Op::Charge]);
    let spend = || (0..4_usize, 0..2_usize, select(vec![1, 1, 2, 5, 20]));
    let decide = || (op(), spend()).prop_map(|(op, (policy, key, cost))| Step::Decide(op, policy, key, cost));
    let delta = select(vec![
        0,
        0,
        1,
        300,
        1_500,
        400_000,
        1_000_000,
        30_000_000,
        100_000_000,
        4_000_000_000,
        -1,
        -500,
        -2_000_000,
        -59_000_000,
        -61_000_000,
        -200_000_000,
        -3_700_000_000,
        -9_000_000_000,
    ]);
    let step = prop_oneof![
        6 => decide(),
        2 => (op(), vec(spend(), 1..4)).prop_map(|(op, spends)| Step::DecideAll(op, spends)),
        2 => (spend(), select(vec![0, 1, 300, 1_500, 1_000_000]))
            .prop_map(|((policy, key, cost), ago)| Step::Refund(policy, key, cost, ago)),
        1 => spend().prop_map(|(policy, key, _)| Step::Inspect(policy, key)),
        1 => spend().prop_map(|(policy, key, _)| Step::Reset(policy, key)),
    ];
    (step, delta)
}

/// Runs the steps on a map of key states and on a memory store, and compares all answers.
fn compare(policies: &[Policy], steps: Vec<(Step, i64)>) -> Result<(), TestCaseError> {
    let memory = MemoryStore::builder().keep_expired().shards(1).build().expect("a store");
    let mut map = MapStore::default();
    let keys = [Key::new("k").expect("a key"), Key::join(["k", "l"]).expect("a key")];
    let mut micros = 1_745_000_000_000_000_i64;
    for (step, delta) in steps {
        micros += delta;
        let at = |micros: i64| Timestamp::from_micros(micros.cast_unsigned());
        let now = at(micros);
        let cost = |units| Cost::new(units).expect("a cost");
        match step {
            Step::Decide(op, policy, key, units) => {
                let (policy, key) = (&policies[policy], &keys[key]);
                let decision: Decision = map.state(policy, key).decide(op, policy, cost(units), now);
                prop_assert_eq!(decision, memory.decide(op, policy, key, cost(units), now));
            }
            Step::DecideAll(op, spends) => {
                let spend = |(policy, key, units): &(usize, usize, u64)| Spend {
                    policy: &policies[*policy],
                    key: &keys[*key],
                    cost: cost(*units),
                };
                let spends: Vec<_> = spends.iter().map(spend).collect();
                prop_assert_eq!(map.decide_all(op, &spends, now), memory.decide_all(op, &spends, now));
            }
            Step::Refund(policy, key, units, ago) => {
                let (policy, key) = (&policies[policy], &keys[key]);
                let refund = map.state(policy, key).refund(policy, cost(units), at(micros - ago), now);
                prop_assert_eq!(refund, memory.refund(policy, key, cost(units), at(micros - ago), now));
            }
            Step::Inspect(policy, key) => {
                let (policy, key) = (&policies[policy], &keys[key]);
                prop_assert_eq!(map.state(policy, key).inspect(policy, now), memory.inspect(policy, key, now));
            }
            Step::Reset(policy, key) => {
                let (policy, key) = (&policies[policy], &keys[key]);
                let existed = map.0.remove(&id(policy, key)).is_some_and(|state| !state.is_empty());
                prop_assert_eq!(existed, memory.reset(policy, key));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_map_of_key_states_answers_like_the_memory_store(
        policies in vec(policy(), 4),
        steps in vec(step(), 1..60),
    ) {
        compare(&policies, steps)?;
    }

    #[test]
    fn a_state_expires_exactly_at_its_expiry(
        policies in vec(policy(), 2),
        charges in vec((0..2_usize, 1_u64..20, 0_i64..100_000_000), 1..10),
    ) {
        let mut state = KeyState::new();
        prop_assert!(state.is_expired(Timestamp::MAX) && state.expires_at().is_none());
        let mut now = 1_745_000_000_000_000_i64;
        for (policy, units, later) in charges {
            now += later;
            let cost = Cost::new(units).expect("a cost");
            let _ = state.decide(Op::Charge, &policies[policy], cost, Timestamp::from_micros(now.cast_unsigned()));
        }
        let expiry = state.expires_at().expect("charged").as_micros();
        prop_assert!(state.is_expired(Timestamp::from_micros(expiry)));
        prop_assert!(!state.is_expired(Timestamp::from_micros(expiry - 1)));
    }
}

#[test]
fn a_denied_request_leaves_no_trace() {
    let policy = Policy::new("p", ["2/1m".parse().expect("a limit")]).expect("a policy");
    let now = Timestamp::from_micros(1_745_000_000_000_000);
    let mut state = KeyState::new();
    assert!(!state.decide(Op::Check, &policy, Cost::MAX, now).is_allowed());
    assert!(state.is_empty());
    let _ = state.decide(Op::Check, &policy, Cost::ONE, now);
    let before = format!("{state:?}");
    let two = Cost::new(2).expect("a cost");
    assert!(!state.decide(Op::Check, &policy, two, now).is_allowed());
    assert_eq!(format!("{state:?}"), before);
}

#[test]
fn a_wrong_number_of_states_is_an_error() {
    let policy = Policy::new("p", ["2/1m".parse().expect("a limit")]).expect("a policy");
    let key = Key::new("k").expect("a key");
    let spend = Spend { policy: &policy, key: &key, cost: Cost::ONE };
    let mut states = [KeyState::new(), KeyState::new()];
    let decided = decide_all(Op::Check, &mut states, &[spend, spend], Timestamp::from_micros(0));
    assert_eq!(decided.expect_err("one state is enough"), SpendError::States { states: 2, requests: 1 });
}
