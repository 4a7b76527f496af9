//! Waits on keys with many open reservations: the memory store, which keeps sums and remembers waits, answers like
//! [`KeyState`], which does neither, and the waits are exact.

use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select};
use tidegate::{
    Algorithm, Cost, Decision, Hold, Key, Lease, Limit, MemoryStore, Op, Policy, Reason, ReservationId, Timestamp,
    external_store::KeyState,
};

#[derive(Debug, Clone)]
enum Step {
    Decide(Op, u64),
    /// Several holds at one time: their units, ttls and whether they are spent at their ends.
    Reserve(Vec<(u64, i64, bool)>),
    /// Commits a hold or settles a lease with this percentage of its units.
    Commit(usize, u64),
    Renew(usize, i64),
    Lease(u64, i64),
    /// Gives units back to the time of an earlier charge.
    Refund(usize, u64),
    ChangePolicy(usize),
}

fn policy() -> impl Strategy<Value = Policy> {
    let algorithm = select(vec![
        "sliding_log",
        "sliding_counter",
        "sliding_buckets:3",
        "sliding_buckets:10",
        "fixed_window",
        "gcra",
    ]);
    let windows = select(vec![7_001_u64, 1_000_000, 60_000_000]);
    let limits = prop_oneof![4 => vec((windows.clone(), 1_u64..60), 1), 1 => vec((windows, 1_u64..60), 2..=3)];
    (algorithm, limits, prop::option::weighted(0.2, 1_u64..40)).prop_map(|(algorithm, mut limits, in_flight)| {
        limits.sort_unstable();
        limits.dedup_by_key(|(window, _)| *window);
        let windowed = limits.into_iter().map(|(window, max)| Limit::from_vector(max, window));
        let in_flight = in_flight.map(|max| format!("{max}/inflight").parse().expect("a limit"));
        let policy = Policy::new("tokens", windowed.chain(in_flight)).expect("a policy");
        policy.with_algorithm(algorithm.parse().expect("an algorithm"))
    })
}

/// Policies that have nothing in common, or only other maxima.
fn policies() -> impl Strategy<Value = Vec<Policy>> {
    let with_other_max = |(policy, maxima): (Policy, Vec<u64>)| {
        let with_max = |max: &u64| {
            let with_max =
                |limit: &Limit| if limit.is_in_flight() { Ok(*limit) } else { Limit::new(*max, limit.window()) };
            let limits = policy.limits().iter().map(|limit| with_max(limit).expect("a limit"));
            let changed = Policy::new("tokens", limits).expect("a policy");
            changed.with_algorithm(policy.algorithm())
        };
        maxima.iter().map(with_max).collect()
    };
    prop_oneof![vec(policy(), 1..=3), (policy(), vec(1_u64..60, 1..=3)).prop_map(with_other_max)]
}

fn ttl() -> impl Strategy<Value = i64> {
    select(vec![1_000, 1_001, 3_500, 7_001, 300_000, 999_999, 1_000_000, 1_500_000, 20_000_000, 60_000_000])
}

fn step() -> impl Strategy<Value = (Step, i64)> {
    let units = || select(vec![1_u64, 1, 2, 3, 7, 20]);
    let op = select(vec![Op::Check, Op::Check, Op::Charge]);
    let step = prop_oneof![
        6 => (op, units()).prop_map(|(op, units)| Step::Decide(op, units)),
        6 => vec((units(), ttl(), prop::bool::weighted(0.2)), 1..6).prop_map(Step::Reserve),
        3 => (0_usize..12, select(vec![0_u64, 50, 100, 200])).prop_map(|(which, share)| Step::Commit(which, share)),
        2 => (0_usize..12, ttl()).prop_map(|(which, ttl)| Step::Renew(which, ttl)),
        1 => (units(), ttl()).prop_map(|(units, ttl)| Step::Lease(units, ttl)),
        4 => (0_usize..8, units()).prop_map(|(which, units)| Step::Refund(which, units)),
        1 => (0_usize..3).prop_map(Step::ChangePolicy),
    ];
    let delta = prop_oneof![
        6 => select(vec![0_i64, 0, 1, 100, 500, 1_000]),
        4 => select(vec![3_000_i64, 7_000, 200_000, 999_999, 1_000_000, 15_000_000, 60_000_000]),
        1 => select(vec![-1_i64, -500, -2_000_000, -59_000_000, -61_000_000, -200_000_000]),
    ];
    (step, delta)
}

/// The same operations on the memory store and on a state without sums and remembered waits.
struct Pair {
    memory: MemoryStore,
    state: KeyState,
    policies: Vec<Policy>,
    current: usize,
    now: i64,
    /// Open or closed: the id of the store, the number that the state knows instead, the units, and whether it is a lease.
    granted: Vec<(ReservationId, [u8; 16], u64, bool)>,
    charged: Vec<Timestamp>,
}

fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros.cast_unsigned())
}

fn key() -> Key<'static> {
    Key::new("alice").expect("a key")
}

fn cost(units: u64) -> Cost {
    Cost::new(units).expect("a cost")
}

impl Pair {
    fn new(policies: Vec<Policy>) -> Self {
        let memory = MemoryStore::builder().keep_expired().shards(1).build().expect("a store");
        let now = 1_745_000_000_000_000;
        Self { memory, state: KeyState::new(), policies, current: 0, now, granted: Vec::new(), charged: Vec::new() }
    }

    fn decide(&mut self, op: Op, units: u64) -> Result<Decision, TestCaseError> {
        let (policy, now) = (&self.policies[self.current], time(self.now));
        let decision = self.memory.decide(op, policy, &key(), cost(units), now);
        prop_assert_eq!(decision, self.state.decide(op, policy, cost(units), now));
        self.charged.extend(decision.charged_at());
        Ok(decision)
    }

    /// Whether the end of a lease may increase the units in use: the largest debt of a limit becomes one charge in the log
    /// of all limits.
    fn units_may_grow(&self) -> bool {
        let has = |algorithm: Algorithm| self.policies.iter().any(|policy| policy.algorithm() == algorithm);
        self.policies.iter().any(|policy| policy.limits().len() > 1)
            && has(Algorithm::Gcra(None))
            && has(Algorithm::SlidingLog)
    }

    fn nonce(&self) -> [u8; 16] {
        (self.granted.len() as u128 + 1).to_be_bytes()
    }

    fn which(&self, which: usize) -> Option<(ReservationId, [u8; 16], u64, bool)> {
        self.granted.iter().rev().nth(which).cloned()
    }

    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let (policy, now) = (&self.policies[self.current], time(self.now));
        let micros = |ttl: i64| Duration::from_micros(ttl.cast_unsigned());
        match step {
            Step::Decide(op, units) => self.decide(*op, *units).map(|_| ())?,
            Step::Reserve(holds) => {
                for (units, ttl, is_spent) in holds {
                    let hold = Hold::new(micros(*ttl));
                    let hold = if *is_spent { hold.spent_at_end() } else { hold };
                    let reserved = self.memory.reserve(policy, &key(), cost(*units), hold, now).expect("well-formed");
                    let nonce = self.nonce();
                    let decision = self.state.reserve(policy, cost(*units), hold, nonce, now).expect("well-formed");
                    prop_assert_eq!(reserved.decision, decision);
                    self.charged.extend(decision.charged_at());
                    self.granted.extend(reserved.id.map(|id| (id, nonce, *units, false)));
                }
            }
            Step::Commit(which, share) => {
                let Some((id, nonce, units, is_lease)) = self.which(*which) else { return Ok(()) };
                let (store, state) = if is_lease {
                    let spent = units * (*share).min(100) / 100;
                    (self.memory.settle(&id, spent, policy, now), self.state.settle(policy, nonce, spent, now))
                } else {
                    let actual = units * share / 100;
                    (
                        self.memory.commit(&id, &[actual], policy, now),
                        self.state.commit_hold(policy, nonce, actual, now),
                    )
                };
                prop_assert_eq!(store.expect("well-formed"), state.expect("well-formed"));
            }
            Step::Renew(which, ttl) => {
                let Some((id, nonce, ..)) = self.which(*which) else { return Ok(()) };
                let store = self.memory.renew(&id, micros(*ttl), policy, now).expect("well-formed");
                let state = self.state.renew(policy, nonce, micros(*ttl), now).expect("well-formed");
                prop_assert_eq!(store, state);
            }
            Step::Lease(..) if self.units_may_grow() => {}
            Step::Lease(units, ttl) => {
                let lease = Lease::new(cost(*units), micros(*ttl));
                let Ok(leased) = self.memory.lease(policy, &key(), &lease, now) else { return Ok(()) };
                let nonce = self.nonce();
                let (decision, granted, _) = self.state.lease(policy, &lease, None, nonce, now).expect("well-formed");
                prop_assert_eq!((leased.decision, leased.granted), (decision, granted));
                self.granted.extend(leased.id.map(|id| (id, nonce, granted, true)));
            }
            Step::Refund(which, units) => {
                let Some(charged_at) = self.charged.iter().rev().nth(*which).copied() else { return Ok(()) };
                let store = self.memory.refund(policy, &key(), cost(*units), charged_at, now);
                prop_assert_eq!(store, self.state.refund(policy, cost(*units), charged_at, now));
            }
            Step::ChangePolicy(to) => {
                self.current = to % self.policies.len();
                self.accept_time()?;
            }
        }
        Ok(())
    }

    /// Accepts a time that is far behind the newest charge: the waits of a peek would end at times that are not.
    fn accept_time(&mut self) -> Result<(), TestCaseError> {
        self.decide(Op::Check, Cost::MAX.get()).map(|_| ())
    }

    /// Compares the answers to a peek, and that the waits end exactly when they say.
    fn check_waits(&mut self, units: u64) -> Result<(), TestCaseError> {
        let now = self.now;
        let decision = self.decide(Op::Peek, units)?;
        let micros = |wait: Duration| i64::try_from(wait.as_micros()).expect("a wait");
        if decision.reason() == Reason::Limited {
            let retry = micros(decision.retry_after().expect("limited"));
            self.now = now + retry - 1;
            let early = self.decide(Op::Peek, units)?;
            prop_assert_eq!((early.reason(), early.retry_after()), (Reason::Limited, Some(Duration::from_micros(1))));
            self.now = now + retry;
            prop_assert_eq!(self.decide(Op::Peek, units)?.reason(), Reason::Allowed);
        }
        let reset = micros(decision.reset_after());
        if reset > 0 {
            self.now = now + reset - 1;
            prop_assert_eq!(self.decide(Op::Peek, units)?.reset_after(), Duration::from_micros(1));
            self.now = now + reset;
            prop_assert_eq!(self.decide(Op::Peek, units)?.reset_after(), Duration::ZERO);
        }
        self.now = now;
        // Asked again, the store may answer from what it remembers.
        self.decide(Op::Peek, units).map(|_| ())
    }
}

proptest! {
    #![proptest_config(tidegate_conformance::settings::config(800))]

    #[test]
    fn remembered_waits_and_sums_answer_like_a_state_that_has_neither(
        policies in policies(),
        steps in vec(step(), tidegate_conformance::settings::steps(60)),
        units in vec(select(vec![1_u64, 2, 5, 30]), 8),
    ) {
        let mut pair = Pair::new(policies);
        for (i, (step, delta)) in steps.into_iter().enumerate() {
            pair.now += delta;
            if delta < 0 {
                pair.accept_time()?;
            }
            pair.apply(&step)?;
            pair.check_waits(units[i % units.len()])?;
        }
    }
}
