//! What is tested here: the Redis store, at given times, on a server of its own.

use std::{
    cell::Cell,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tidegate::{Key, Policy, Spend, Store as _};
use tidegate_redis::RedisStore;
use tidegate_testbed::Server;
use tokio::runtime::Runtime;

use crate::gate::{
    Gate, Held, Overrides, Refunded, Shown, cost, held, library, overriding, policy, refunded, shown, timestamp, told,
};
use crate::model::{Answer, Answers, Micros, Op, Overruling, Part};

pub(crate) type Tested = Shared;

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
/// Stores whose logs have 2, 3 and as many entries to a page as in use: short logs have many pages, too.
static STORES: LazyLock<[RedisStore; 3]> = LazyLock::new(|| {
    let _inside = RUNTIME.enter();
    let url = SERVER.url();
    // A busy machine is not an outage.
    let builder = || RedisStore::builder(&url).max_overrides(1_000_000).timeout(Duration::from_secs(60));
    let small = |entries| builder().page(entries).connect().expect("a store");
    [small(2), small(3), builder().connect().expect("a store")]
});

/// A part of a store's keys that nobody else asks for.
pub(crate) struct Shared {
    number: u64,
    store: &'static RedisStore,
}

impl Default for Shared {
    fn default() -> Self {
        // Each test has a thread of its own: so the same seed meets the same stores.
        thread_local!(static COUNT: Cell<Micros> = const { Cell::new(0) });
        Self::chosen_by(COUNT.replace(COUNT.get() + 1))
    }
}

impl Shared {
    /// The store that a scene meets which begins at `start`: the same one whenever it is played.
    pub(crate) fn chosen_by(start: Micros) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let store = &STORES[usize::try_from(start.rem_euclid(3)).expect("below 3")];
        RUNTIME.block_on(store.ready());
        Self { number: NEXT.fetch_add(1, Relaxed), store }
    }

    fn key(&self, part: &Part) -> Key<'static> {
        Key::join([&self.number.to_be_bytes()[..], &[part.name.1]]).expect("a short key")
    }
}

impl Gate for Shared {
    fn decide(&mut self, op: Op, part: &Part, now: Micros) -> Answer {
        let (policy, key) = (policy(part), self.key(part));
        let store = self.store.at(timestamp(now));
        let decision = store.decide(library(op), &policy, &key, cost(part));
        told(&RUNTIME.block_on(decision).expect("redis answers"), 0, part)
    }

    fn decide_all(&mut self, op: Op, parts: &[Part], now: Micros) -> Answers {
        let policies: Vec<Policy> = parts.iter().map(policy).collect();
        let keys: Vec<Key<'static>> = parts.iter().map(|part| self.key(part)).collect();
        let spend = |i: usize| Spend { policy: &policies[i], key: &keys[i], cost: cost(&parts[i]) };
        let spends: Vec<Spend<'_>> = (0..parts.len()).map(spend).collect();
        let decisions = RUNTIME.block_on(self.store.at(timestamp(now)).decide_all(library(op), &spends));
        let decisions = decisions.expect("redis answers");
        Answers {
            overall: told(&decisions.overall, decisions.overall.part(), &parts[decisions.overall.part()]),
            parts: (0..parts.len()).map(|i| told(&decisions.parts[i], i, &parts[i])).collect(),
        }
    }

    fn refund(&mut self, part: &Part, charged_at: Micros, now: Micros) -> Refunded {
        let (policy, key) = (policy(part), self.key(part));
        let store = self.store.at(timestamp(now));
        let refund = store.refund(&policy, &key, cost(part), timestamp(charged_at));
        refunded(&RUNTIME.block_on(refund).expect("redis answers"))
    }

    fn reset(&mut self, part: &Part) -> bool {
        let reset = async { self.store.at(timestamp(0)).reset(&policy(part), &self.key(part)).await };
        RUNTIME.block_on(reset).expect("redis answers")
    }

    fn inspect(&mut self, part: &Part, now: Micros) -> Option<Shown> {
        let inspect = async { self.store.at(timestamp(now)).inspect(&policy(part), &self.key(part)).await };
        let inspection = RUNTIME.block_on(inspect).expect("redis answers")?;
        Some(shown(&inspection))
    }
}

impl Overrides for Shared {
    fn set_override(&mut self, part: &Part, by: &Overruling, now: Micros) -> Option<Held> {
        let (policy, key, by) = (policy(part), self.key(part), overriding(by));
        let set = RUNTIME.block_on(self.store.at(timestamp(now)).set_override(&policy, &key, by));
        set.expect("there is room for it").map(|old| held(&old))
    }

    fn remove_override(&mut self, part: &Part, now: Micros) -> Option<Held> {
        let lift = async { self.store.at(timestamp(now)).remove_override(&policy(part), &self.key(part)).await };
        RUNTIME.block_on(lift).expect("redis answers").map(|old| held(&old))
    }

    fn override_of(&mut self, part: &Part, now: Micros) -> Option<Held> {
        let shown = async { self.store.at(timestamp(now)).override_of(&policy(part), &self.key(part)).await };
        RUNTIME.block_on(shown).expect("redis answers").map(|shown| held(&shown.by))
    }
}
