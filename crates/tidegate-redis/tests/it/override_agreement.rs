//! Under overrides Redis gives the same answers as the in-memory store, in every field, whatever is set, removed
//! and requested, at any time.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use proptest::prelude::*;
use tidegate::{
    ActiveOverride, Cost, Decision, Key, MemoryStore, Op, Override, OverrideRule, Policy, Reason, Spend, Store as _,
    StoreError, Timestamp, external_store,
};
use tidegate_conformance::convert::{named_policy, timestamp};
use tidegate_conformance::generators::{self, CostChoice, TimeStep, Timeline};
use tidegate_conformance::model::{Micros, ModelDecision, ModelPolicy};
use tidegate_conformance::settings;
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tokio::runtime::Runtime;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// Stores with pages of 2, 3 and the default number of entries.
static STORES: LazyLock<[RedisStore; 3]> = LazyLock::new(|| {
    let _inside = RUNTIME.enter();
    let url = SERVER.url();
    // A busy machine is not an outage.
    let builder = || RedisStore::builder(&url).timeout(std::time::Duration::from_secs(60));
    let small = |entries| builder().page(entries).connect().expect("a store");
    [small(2), small(3), builder().connect().expect("a store")]
});

/// The time of a request: any time, or near the end of the override that was set last.
#[derive(Clone, Copy, Debug)]
enum When {
    Step(TimeStep),
    End { offset: Micros },
}

#[derive(Clone, Copy, Debug)]
enum OverrideKind {
    Limits,
    Ban,
    Exempt,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Decide {
        op: Op,
        key: u8,
        when: When,
        cost: CostChoice,
    },
    /// Charges in quick succession, so that there are many pages.
    Run {
        count: usize,
        gap: Micros,
    },
    DecideAll {
        op: Op,
        when: When,
        cost: CostChoice,
    },
    Refund {
        key: u8,
        when: When,
        charge: usize,
        cost: CostChoice,
    },
    Reset {
        key: u8,
    },
    Set {
        key: u8,
        when: When,
        kind: OverrideKind,
        until: Option<TimeStep>,
    },
    Remove {
        key: u8,
        when: When,
    },
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        4 => generators::any_time_step().prop_map(When::Step),
        1 => (-1..=1i128).prop_map(|offset| When::End { offset }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly one key, so that it has many events.
    let key = || prop_oneof![4 => Just(0u8), 1 => Just(1u8)];
    let kind =
        prop_oneof![3 => Just(OverrideKind::Limits), 1 => Just(OverrideKind::Ban), 1 => Just(OverrideKind::Exempt)];
    let until = prop_oneof![1 => Just(None), 3 => generators::time_step().prop_map(Some)];
    prop_oneof![
        10 => (generators::op(), key(), when(), generators::cost())
            .prop_map(|(op, key, when, cost)| Step::Decide { op, key, when, cost }),
        1 => (3..40usize, prop_oneof![1..=3i128, 1..=2_000i128]).prop_map(|(count, gap)| Step::Run { count, gap }),
        3 => (generators::op(), when(), generators::cost()).prop_map(|(op, when, cost)| Step::DecideAll { op, when, cost }),
        3 => (key(), when(), 0..6usize, generators::cost())
            .prop_map(|(key, when, charge, cost)| Step::Refund { key, when, charge, cost }),
        1 => key().prop_map(|key| Step::Reset { key }),
        5 => (key(), when(), kind, until).prop_map(|(key, when, kind, until)| Step::Set { key, when, kind, until }),
        2 => (key(), when()).prop_map(|(key, when)| Step::Remove { key, when }),
    ]
}

/// A text that is equal for equal overrides.
fn text(by: &Override) -> String {
    let rule = match by.rule() {
        OverrideRule::Limits(limits) => {
            let terms: Vec<_> = external_store::limit_numbers(limits).collect();
            format!("{:?} {terms:?}", external_store::algorithm_kind(limits))
        }
        OverrideRule::Ban => "ban".to_owned(),
        OverrideRule::Exempt => "exempt".to_owned(),
    };
    format!("{rule} until {:?}, {}", by.end(), by.note())
}

fn describe(one: &ActiveOverride) -> String {
    format!("{:?} since {:?}: {}", one.key, one.since, text(&one.r#override))
}

struct Pair {
    memory: MemoryStore,
    redis: &'static RedisStore,
    number: u64,
    models: [ModelPolicy; 2],
    policies: [Policy; 2],
    other: Policy,
    timeline: Timeline,
    end: Option<Micros>,
    /// The ends of all overrides, and the latest time of a request.
    ends: Vec<Micros>,
    reached: Micros,
    /// Number of steps between two comparisons of inspections.
    inspected_every: usize,
    steps: usize,
}

impl Pair {
    fn new(models: [ModelPolicy; 2], other: &ModelPolicy, start: Micros) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let redis = &STORES[usize::try_from(start.rem_euclid(3)).expect("below 3")];
        RUNTIME.block_on(redis.ready());
        let named = |i: usize| named_policy(&format!("policy-{number}-{i}"), &models[i]);
        Self {
            memory: MemoryStore::builder().keep_expired().build().expect("a store"),
            redis,
            number,
            policies: [named(0), named(1)],
            other: named_policy("other", other),
            models,
            timeline: Timeline::new(start),
            end: None,
            ends: Vec::new(),
            reached: start,
            inspected_every: 1,
            steps: 0,
        }
    }

    fn key(&self, key: u8) -> Key<'static> {
        Key::join([&self.number.to_be_bytes()[..], &[key]]).expect("a short key")
    }

    /// The time of a request. Once the end of an override is reached, the time stays after it: an ended override is removed.
    fn at(&mut self, when: When) -> Timestamp {
        let meant = match when {
            When::Step(step) => self.timeline.time(step, &self.models[0]),
            When::End { offset } => self.end.map_or(self.timeline.now, |end| (end + offset).max(0)),
        };
        let passed = self.ends.iter().filter(|end| **end <= self.reached).max();
        let now = passed.map_or(meant, |passed| meant.max(*passed));
        self.reached = self.reached.max(now);
        self.timeline.now = now;
        timestamp(now)
    }

    fn note(&mut self, decision: &Decision) {
        let charged_at = decision.charged_at().map(|at| at.as_micros().into());
        self.reached = self.reached.max(charged_at.unwrap_or(0));
        let span = |span: std::time::Duration| i128::try_from(span.as_micros()).expect("short");
        let decision = ModelDecision {
            reason: Reason::Allowed,
            part: 0,
            limit: self.models[0].limits[0],
            used: decision.used().into(),
            remaining: decision.remaining().into(),
            retry_after: decision.retry_after().map(span),
            reset_after: span(decision.reset_after()),
            charged_at,
            overridden: decision.is_overridden(),
        };
        self.timeline.record(self.timeline.now, decision);
    }

    fn cost(&self, cost: CostChoice) -> Cost {
        let cost = cost.units(&self.models[0], self.timeline.last.as_ref());
        Cost::new(cost.try_into().expect("a cost fits")).expect("in range")
    }

    fn apply(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Decide { op, key, when, cost } => {
                let (key, cost, now) = (self.key(key), self.cost(cost), self.at(when));
                let policy = &self.policies[0];
                let own = self.memory.decide(op, policy, &key, cost, now);
                let shared = RUNTIME.block_on(self.redis.at(now).decide(op, policy, &key, cost)).expect("it answers");
                prop_assert_eq!(own, shared, "{:?} of {:?} at {:?}: memory left, redis right", op, cost, now);
                self.note(&own);
                self.same_state(now)
            }
            Step::Run { count, gap } => {
                for _ in 0..count {
                    let charge = Step::Decide {
                        op: Op::Charge,
                        key: 0,
                        when: When::Step(TimeStep::Later(gap)),
                        cost: CostChoice::Units(1),
                    };
                    self.apply(charge)?;
                }
                Ok(())
            }
            Step::DecideAll { op, when, cost } => {
                let (keys, cost, now) = ([self.key(0), self.key(1)], self.cost(cost), self.at(when));
                let spend = |key: usize, policy: usize| Spend { policy: &self.policies[policy], key: &keys[key], cost };
                let spends = [spend(0, 0), spend(1, 0), spend(0, 1)];
                let own = self.memory.decide_all(op, &spends, now).expect("well-formed");
                let shared = RUNTIME.block_on(self.redis.at(now).decide_all(op, &spends));
                let shared = shared.expect("it answers");
                prop_assert_eq!(&own, &shared, "{:?} of {:?} at {:?}: memory left, redis right", op, cost, now);
                self.note(&own.parts[0]);
                self.same_state(now)
            }
            Step::Refund { key, when, charge, cost } => {
                let charged_at = timestamp(self.timeline.charge_time(charge).max(0));
                let (key, cost, now) = (self.key(key), self.cost(cost), self.at(when));
                let own = self.memory.refund(&self.policies[0], &key, cost, charged_at, now);
                let redis = self.redis.at(now);
                let shared =
                    RUNTIME.block_on(redis.refund(&self.policies[0], &key, cost, charged_at)).expect("it answers");
                prop_assert_eq!(own, shared, "refund of {:?} charged at {:?} at {:?}", cost, charged_at, now);
                self.same_state(now)
            }
            Step::Reset { key } => {
                let (key, now) = (self.key(key), timestamp(self.timeline.now));
                let own = self.memory.reset(&self.policies[0], &key);
                let shared = RUNTIME.block_on(self.redis.at(now).reset(&self.policies[0], &key)).expect("it answers");
                prop_assert_eq!(own, shared, "reset");
                self.same_state(now)
            }
            Step::Set { key, when, kind, until } => {
                let (key, now) = (self.key(key), self.at(when));
                let by = match kind {
                    OverrideKind::Limits => Override::limits(self.other.clone()),
                    OverrideKind::Ban => Override::ban(),
                    OverrideKind::Exempt => Override::exempt(),
                };
                // An override that ends before a later charge may or may not be noticed, so none is set.
                let since = self.timeline.now;
                let later = |end: Micros| if end > since { end.max(self.reached + 1) } else { end };
                let end = until.map(|step| later(self.timeline.time(step, &self.models[0])));
                let by = end.map_or(by.clone(), |end| by.until(timestamp(end)));
                let by = by.with_note("why").expect("short");
                let own = self.memory.set_override(&self.policies[0], &key, by.clone(), now);
                let shared = RUNTIME.block_on(self.redis.at(now).set_override(&self.policies[0], &key, by.clone()));
                if own.is_ok() {
                    self.end = end.or(self.end);
                    self.ends.extend(end);
                }
                let own = own.map(|by| by.as_ref().map(text)).map_err(StoreError::from);
                prop_assert_eq!(own, shared.map(|by| by.as_ref().map(text)), "set {:?} at {:?}", by, now);
                self.same_state(now)
            }
            Step::Remove { key, when } => {
                let (key, now) = (self.key(key), self.at(when));
                let own = self.memory.remove_override(&self.policies[0], &key, now);
                let shared = RUNTIME.block_on(self.redis.at(now).remove_override(&self.policies[0], &key));
                let shared = shared.expect("it answers");
                prop_assert_eq!(own.as_ref().map(text), shared.as_ref().map(text), "remove at {:?}", now);
                self.same_state(now)
            }
        }
    }

    /// Both stores return the same inspection and override of every key.
    fn same_state(&mut self, now: Timestamp) -> Result<(), TestCaseError> {
        self.steps += 1;
        if !self.steps.is_multiple_of(self.inspected_every) {
            return Ok(());
        }
        let policy = &self.policies[0];
        for key in [self.key(0), self.key(1)] {
            let own = self.memory.inspect(policy, &key, now);
            let shared = RUNTIME.block_on(self.redis.at(now).inspect(policy, &key)).expect("it answers");
            prop_assert_eq!(own, shared, "inspected at {:?}: memory left, redis right", now);
            let own = self.memory.override_of(policy, &key, now);
            let shared = RUNTIME.block_on(self.redis.at(now).override_of(policy, &key)).expect("it answers");
            prop_assert_eq!(own.as_ref().map(describe), shared.as_ref().map(describe), "the override at {:?}", now);
        }
        Ok(())
    }

    /// Both stores list the same overrides, once no charge is ahead of the time.
    fn same_list(&mut self) -> Result<(), TestCaseError> {
        let now = timestamp(self.reached);
        let own: Vec<_> = self.memory.overrides(&self.policies[0], now).iter().map(describe).collect();
        let shared = RUNTIME.block_on(self.redis.at(now).overrides(&self.policies[0])).expect("it answers");
        prop_assert_eq!(own, shared.iter().map(describe).collect::<Vec<_>>(), "listed at {:?}", now);
        Ok(())
    }
}

fn models() -> impl Strategy<Value = ([ModelPolicy; 2], ModelPolicy)> {
    let far = ([generators::policy(), generators::policy()], generators::policy());
    // The windows are similar, so that units of one matter to the other.
    let near = generators::single_limit_policies(generators::algorithm(), 3)
        .prop_map(|models| ([models[0].clone(), models[1].clone()], models[2].clone()));
    (prop_oneof![far, near], any::<[bool; 2]>()).prop_map(|((mut models, other), shadow)| {
        models[0].shadow = shadow[0] && shadow[1];
        models[1].shadow = shadow[0];
        (models, other)
    })
}

proptest! {
    #![proptest_config(settings::config(500))]

    #[test]
    fn redis_equals_memory_under_overrides(
        models in models(),
        start in generators::start_time(),
        steps in prop::collection::vec(step(), settings::steps(30)),
    ) {
        let (models, other) = models;
        let mut pair = Pair::new(models, &other, start);
        for step in steps {
            pair.apply(step)?;
        }
        pair.same_list()?;
    }
}

proptest! {
    #![proptest_config(settings::long_config(8))]

    #[test]
    fn redis_equals_memory_under_overrides_in_a_long_history(
        models in models(),
        start in generators::start_time(),
        steps in prop::collection::vec(step(), settings::long_steps()),
    ) {
        let (models, other) = models;
        let mut pair = Pair::new(models, &other, start);
        pair.inspected_every = 7;
        for step in steps {
            pair.apply(step)?;
        }
        pair.same_list()?;
    }
}
