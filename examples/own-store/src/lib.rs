//! A store of your own: a map behind a lock.
//!
//! [`KeyState`] makes the decisions. The store finds the state of a key, changes it in one atomic step, and deletes states
//! that have expired.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
};

use tidegate::{
    Clock, Cost, Decision, Decisions, Inspection, Key, Op, Policy, Refund, Spend, Store, StoreError, StoreReport,
    Timestamp,
    external_store::{self, KeyState, policy_identity},
};

/// Keeps states in a map behind one lock.
#[derive(Debug, Default)]
pub struct MapStore {
    clock: Clock,
    map: Mutex<Map>,
}

#[derive(Debug, Default)]
struct Map {
    states: HashMap<StateName, KeyState>,
    /// The number of states at which expired ones are deleted.
    evict_at: usize,
}

/// A policy and a key.
type StateName = (String, Key<'static>);

fn name(policy: &Policy, key: &Key<'_>) -> StateName {
    (policy_identity(policy), key.clone().into_owned())
}

impl MapStore {
    /// An empty store with a clock of its own.
    pub fn new(clock: Clock) -> Self {
        Self { clock, map: Mutex::default() }
    }

    /// The states, and the time. The time is read under the lock, so that it never goes back.
    fn lock(&self) -> Result<(MutexGuard<'_, Map>, Timestamp), StoreError> {
        let message = "a thread panicked while it changed the states".to_owned();
        let map = self.map.lock().map_err(|_| StoreError::Unavailable { cause: "poisoned", message })?;
        Ok((map, self.clock.now()))
    }
}

impl Map {
    /// Writes states back, and deletes expired ones when the map has doubled.
    fn put(&mut self, states: impl IntoIterator<Item = (StateName, KeyState)>, now: Timestamp) {
        self.states.extend(states.into_iter().filter(|(_, state)| !state.is_empty()));
        if self.states.len() >= self.evict_at {
            self.states.retain(|_, state| !state.is_expired(now));
            self.evict_at = (2 * self.states.len()).max(1024);
        }
    }
}

impl Store for MapStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        let (mut map, now) = self.lock()?;
        let name = name(policy, key);
        let mut state = map.states.remove(&name).unwrap_or_default();
        let decision = state.decide(op, policy, cost, now);
        map.put([(name, state)], now);
        Ok(decision)
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        let (distinct, _) = external_store::distinct(spends)?;
        let names: Vec<_> = distinct.iter().map(|spend| name(spend.policy, spend.key)).collect();
        let (mut map, now) = self.lock()?;
        let mut states: Vec<_> = names.iter().map(|name| map.states.remove(name).unwrap_or_default()).collect();
        let decisions = external_store::decide_all(op, &mut states, spends, now);
        map.put(names.into_iter().zip(states), now);
        Ok(decisions?)
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        let (mut map, now) = self.lock()?;
        let name = name(policy, key);
        let mut state = map.states.remove(&name).unwrap_or_default();
        let refund = state.refund(policy, cost, charged_at, now);
        map.put([(name, state)], now);
        Ok(refund)
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let (mut map, _) = self.lock()?;
        Ok(map.states.remove(&name(policy, key)).is_some())
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        let (map, now) = self.lock()?;
        Ok(map.states.get(&name(policy, key)).and_then(|state| state.inspect(policy, now)))
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn report(&self) -> StoreReport {
        StoreReport::new("map")
    }
}
