//! What is tested here: the in-memory store.

use tidegate::{Key, MemoryStore, Policy, Spend};

use crate::gate::{
    Gate, Held, Overrides, Refunded, Shown, cost, held, library, overriding, policy, refunded, shown, timestamp, told,
};
use crate::model::{Answer, Answers, Micros, Op, Overruling, Part};

pub(crate) type Tested = Memory;

/// The library's in-memory store.
#[derive(Default)]
pub(crate) struct Memory {
    store: MemoryStore,
}

impl Memory {
    /// The store that a scene meets which begins at `start`: here there is one kind.
    pub(crate) fn chosen_by(_start: Micros) -> Self {
        Self::default()
    }
}

fn key(part: &Part) -> Key<'static> {
    Key::new(&[part.name.1]).expect("one byte is a key").into_owned()
}

impl Gate for Memory {
    fn decide(&mut self, op: Op, part: &Part, now: Micros) -> Answer {
        let decision = self.store.decide(library(op), &policy(part), &key(part), cost(part), timestamp(now));
        told(&decision, 0, part)
    }

    fn decide_all(&mut self, op: Op, parts: &[Part], now: Micros) -> Answers {
        let policies: Vec<Policy> = parts.iter().map(policy).collect();
        let keys: Vec<Key<'static>> = parts.iter().map(key).collect();
        let spend = |i: usize| Spend { policy: &policies[i], key: &keys[i], cost: cost(&parts[i]) };
        let spends: Vec<Spend<'_>> = (0..parts.len()).map(spend).collect();
        let decisions = self.store.decide_all(library(op), &spends, timestamp(now)).expect("well-formed spends");
        Answers {
            overall: told(&decisions.overall, decisions.overall.part(), &parts[decisions.overall.part()]),
            parts: (0..parts.len()).map(|i| told(&decisions.parts[i], i, &parts[i])).collect(),
        }
    }

    fn refund(&mut self, part: &Part, charged_at: Micros, now: Micros) -> Refunded {
        let (charged_at, now) = (timestamp(charged_at), timestamp(now));
        refunded(&self.store.refund(&policy(part), &key(part), cost(part), charged_at, now))
    }

    fn reset(&mut self, part: &Part) -> bool {
        self.store.reset(&policy(part), &key(part))
    }

    fn inspect(&mut self, part: &Part, now: Micros) -> Option<Shown> {
        let inspection = self.store.inspect(&policy(part), &key(part), timestamp(now))?;
        Some(shown(&inspection))
    }
}

impl Overrides for Memory {
    fn set_override(&mut self, part: &Part, by: &Overruling, now: Micros) -> Option<Held> {
        let set = self.store.set_override(&policy(part), &key(part), overriding(by), timestamp(now));
        set.expect("there is room for it").map(|old| held(&old))
    }

    fn remove_override(&mut self, part: &Part, now: Micros) -> Option<Held> {
        self.store.remove_override(&policy(part), &key(part), timestamp(now)).map(|old| held(&old))
    }

    fn override_of(&mut self, part: &Part, now: Micros) -> Option<Held> {
        self.store.override_of(&policy(part), &key(part), timestamp(now)).map(|shown| held(&shown.by))
    }
}
