//! Any sequence of operations under any policies and clocks. Nothing panics, every decision is consistent, every retry
//! time is exact to the microsecond, and reservations keep their promises (`reservations`).

mod input;
mod reservations;

use std::time::Duration;

use tidegate::{Cost, Decision, Key, MemoryStore, Mode, Op, Policy, Reason, Spend, Timestamp};

pub use self::input::Case;
use self::{input::Step, reservations::Reservations};

/// The largest number of keys of the store.
const MAX_KEYS: usize = 4;

const START_US: u64 = 1_745_000_000_000_000;

/// The state of a run.
struct Run {
    store: MemoryStore,
    /// Both have one name, so each finds the state of the other and converts its layout.
    policies: [Policy; 2],
    now_us: u64,
    /// The latest of all times so far.
    latest_us: u64,
    reservations: Reservations,
}

impl Case {
    /// Runs all steps.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn run(&self) {
        let mut run = Run {
            store: MemoryStore::builder().max_keys(MAX_KEYS).build().expect("a store"),
            policies: self.policies.each_ref().map(input::PolicyInput::policy),
            now_us: START_US,
            latest_us: START_US,
            reservations: Reservations::default(),
        };
        for step in &self.steps {
            run.step(step);
            assert!(run.store.stats().keys <= MAX_KEYS);
        }
        run.everything_ends();
    }
}

impl Run {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Decide { policy, key, op, cost, shift } => self.decide(policy, key, op, units(cost), shift),
            Step::DecideAll { op, cost, shift } => self.decide_all(op, units(cost), shift),
            Step::Refund { policy, key, cost, ago, shift } => {
                let at = self.advance(shift);
                let charged_at = Timestamp::from_micros(at.as_micros().saturating_sub(ago.into()));
                let _ = self.store.refund(self.policy(policy), &name(key), units(cost), charged_at, at);
            }
            Step::Reset { policy, key } => {
                let _ = self.store.reset(self.policy(policy), &name(key));
            }
            Step::Inspect { policy, key, shift } => {
                let at = self.advance(shift);
                let _ = self.store.inspect(self.policy(policy), &name(key), at);
            }
            // Far below the maximum time, so that retry times stay in range.
            Step::Jump { to } => self.now_us = to % 8_000_000_000_000_000,
            Step::Reserve(ref reserve) => self.reserve(reserve),
            Step::ReserveAll { cost, ttl_ms, shift } => self.reserve_all(units(cost), ttl_ms, shift),
            Step::Commit { which, actual, policy, shift } => self.commit(which, actual, policy, shift),
            Step::Renew { which, ttl_ms, policy, shift } => self.renew(which, ttl_ms, policy, shift),
            Step::Lease(ref lease) => self.lease(lease),
            Step::Settle { which, spent, policy, shift } => self.settle(which, spent, policy, shift),
        }
    }

    fn policy(&self, second: bool) -> &Policy {
        &self.policies[usize::from(second)]
    }

    fn advance(&mut self, shift: i32) -> Timestamp {
        // Most steps are short, so that there is something in use.
        let shift = shift >> [0, 8, 16, 24][usize::from(shift.to_le_bytes()[0] % 4)];
        self.now_us = self.now_us.saturating_add_signed(shift.into());
        self.latest_us = self.latest_us.max(self.now_us);
        Timestamp::from_micros(self.now_us)
    }

    fn decide(&mut self, policy: bool, key: u8, number: u8, cost: Cost, shift: i32) {
        let at = self.advance(shift);
        let (policy, key) = (self.policy(policy), name(key));
        let op = if policy.has_in_flight_limit() { Op::Peek } else { op(number) };
        let decision = self.store.decide(op, policy, &key, cost, at);
        assert_consistent(policy, &decision);
        assert!(op != Op::Peek || decision.charged_at().is_none());
        assert!(op != Op::Charge || decision.reason() == Reason::Allowed);
        if op == Op::Check {
            self.assert_exact_wait(policy, &key, cost, at, &decision);
        }
    }

    /// After the retry time the request is admitted, and not a microsecond earlier. (A peek does not change the state, even
    /// if the clock went far back. So both peeks find the same state.)
    fn assert_exact_wait(&self, policy: &Policy, key: &Key<'_>, cost: Cost, at: Timestamp, decision: &Decision) {
        if let (false, Reason::Limited, Some(wait)) =
            (decision.is_degraded(), decision.reason(), decision.retry_after())
        {
            let reason_after = |wait| self.store.decide(Op::Peek, policy, key, cost, at.after(wait)).reason();
            assert_eq!(reason_after(wait), Reason::Allowed);
            assert_eq!(reason_after(wait - Duration::from_micros(1)), Reason::Limited);
        }
    }

    fn decide_all(&mut self, number: u8, cost: Cost, shift: i32) {
        let at = self.advance(shift);
        let policy = &self.policies[0];
        let op = if policy.has_in_flight_limit() { Op::Peek } else { op(number) };
        let keys = [Key::new("a").expect("a key"), Key::new("b").expect("a key")];
        let spends = keys.each_ref().map(|key| Spend { policy, key, cost });
        let decisions = self.store.decide_all(op, &spends, at).expect("well-formed");
        let charged = decisions.parts.iter().filter(|part| part.charged_at().is_some()).count();
        let all_or_none = charged == 0 || charged == 2 || policy.mode() == Mode::Shadow;
        assert!(
            all_or_none || decisions.parts.iter().any(Decision::is_degraded),
            "only one of two requests was charged"
        );
    }
}

/// Most costs are small, so that several fit.
fn units(cost: u16) -> Cost {
    Cost::new(u64::from(cost >> (4 * (cost % 4))) + 1).expect("in range")
}

/// One of eight keys, which are more than the store has room for.
fn name(key: u8) -> Key<'static> {
    Key::new(&[key % 8]).expect("a key").into_owned()
}

fn op(number: u8) -> Op {
    [Op::Check, Op::Peek, Op::Charge][usize::from(number % 3)]
}

fn assert_consistent(policy: &Policy, decision: &Decision) {
    assert!(decision.remaining() <= policy.capacity(decision.limit()));
    assert_eq!(decision.is_allowed(), matches!(decision.reason(), Reason::Allowed | Reason::Shadow));
    if decision.reason() == Reason::Limited {
        let wait = decision.retry_after().expect("a limited request can wait");
        assert!(!wait.is_zero() && wait <= decision.reset_after());
    }
}
