//! A store of your own: a map behind a lock.
//!
//! [`KeyState`] makes the decisions. The store finds the state of a key, changes it in one atomic step, and deletes states
//! that have expired.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tidegate::{
    Clock, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Policy, PolicySource, Refund,
    ReservationError, ReservationId, Reserved, ReservedAll, Settled, Spend, Store, StoreError, StoreReport, Timestamp,
    external_store::{self, KeyState, policy_identity},
};

/// Keeps states in a map behind one lock.
#[derive(Debug, Default)]
pub struct MapStore {
    clock: Clock,
    /// Two secrets, for a fingerprint of 128 bits.
    secrets: [RandomState; 2],
    map: Mutex<Map>,
}

#[derive(Debug, Default)]
struct Map {
    states: HashMap<StateName, KeyState>,
    /// The number of states at which expired ones are deleted.
    evict_at: usize,
}

/// The fingerprint of a policy and a key. An id of a reservation contains it, so it must say nothing about the key.
type StateName = [u64; 2];

impl MapStore {
    /// An empty store with a clock of its own.
    pub fn new(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// The states, and the time. The time is read under the lock, so that it never goes back.
    fn lock(&self) -> Result<(MutexGuard<'_, Map>, Timestamp), StoreError> {
        let message = "a thread panicked while it changed the states".to_owned();
        let map = self.map.lock().map_err(|_| StoreError::Unavailable { cause: "poisoned", message })?;
        Ok((map, self.clock.now()))
    }

    fn name(&self, policy: &Policy, key: &Key<'_>) -> StateName {
        let identity = policy_identity(policy);
        self.secrets.each_ref().map(|secret| secret.hash_one((&identity, key)))
    }

    /// The id of a reservation: a random number, and the name of the state. The name is combined with a secret hash of the
    /// number, so that two ids of a key have nothing in common.
    fn id(&self, policy: &Policy, name: StateName, nonce: [u8; 16]) -> Result<ReservationId, ReservationError> {
        let place = self.masked(name, nonce).map(u64::to_be_bytes).concat();
        ReservationId::new(policy, nonce, &place)
    }

    /// The name of the state that an id refers to.
    fn name_in(&self, id: &ReservationId) -> Result<StateName, ReservationError> {
        let place = u128::from_be_bytes((*id.place()).try_into().map_err(|_| ReservationError::Foreign)?);
        let halves = [place >> 64, place & u128::from(u64::MAX)].map(|half| u64::try_from(half).unwrap_or(0));
        Ok(self.masked(halves, id.nonce()))
    }

    fn masked(&self, [one, other]: StateName, nonce: [u8; 16]) -> StateName {
        [one ^ self.secrets[0].hash_one(nonce), other ^ self.secrets[1].hash_one(nonce)]
    }

    /// Changes all parts of a hold.
    fn change_hold(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
        change: impl Fn(&mut KeyState, &Policy, u64, Timestamp) -> Result<Settled, ReservationError>,
    ) -> Result<Settled, StoreError> {
        if id.is_never_granted() {
            return Ok(external_store::unknown_reservation(&*id.policy(policies)?));
        }
        let (mut map, now) = self.lock()?;
        let parts = map.states.get(&self.name_in(id)?).map_or_else(|| vec![id.clone()], |state| state.parts_of(id));
        // The number of parts of a hold that is not open is not known.
        let actual = if parts.len() == 1 { &actual[..actual.len().min(1)] } else { actual };
        let settled = external_store::change_parts(&parts, actual, policies, |part, policy, units| {
            let name = self.name_in(part)?;
            map.change(name, now, |state| change(state, policy, units, now))
        })?;
        Ok(settled)
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

    /// Changes a state. An unknown one is empty.
    fn change<T>(&mut self, name: StateName, now: Timestamp, change: impl FnOnce(&mut KeyState) -> T) -> T {
        let mut state = self.states.remove(&name).unwrap_or_default();
        let changed = change(&mut state);
        self.put([(name, state)], now);
        changed
    }
}

impl Store for MapStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        let (mut map, now) = self.lock()?;
        Ok(map.change(self.name(policy, key), now, |state| state.decide(op, policy, cost, now)))
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        let (distinct, _) = external_store::distinct(spends)?;
        let names: Vec<_> = distinct.iter().map(|spend| self.name(spend.policy, spend.key)).collect();
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
        Ok(map.change(self.name(policy, key), now, |state| state.refund(policy, cost, charged_at, now)))
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let (mut map, _) = self.lock()?;
        Ok(map.states.remove(&self.name(policy, key)).is_some())
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        let (map, now) = self.lock()?;
        Ok(map.states.get(&self.name(policy, key)).and_then(|state| state.inspect(policy, now)))
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        let ReservedAll { decisions, id, .. } = self.reserve_all(&[Spend { policy, key, cost }], hold).await?;
        Ok(Reserved::new(decisions.overall, id))
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        let (distinct, _) = external_store::distinct(spends)?;
        let names: Vec<_> = distinct.iter().map(|spend| self.name(spend.policy, spend.key)).collect();
        let nonce = rand::random();
        let ids = spends.iter().map(|spend| self.id(spend.policy, self.name(spend.policy, spend.key), nonce));
        let ids: Vec<_> = ids.collect::<Result<_, _>>()?;
        let (mut map, now) = self.lock()?;
        let mut states: Vec<_> = names.iter().map(|name| map.states.remove(name).unwrap_or_default()).collect();
        let reserved = external_store::reserve_all(&mut states, spends, hold, &ids, now);
        map.put(names.into_iter().zip(states), now);
        Ok(reserved?)
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.change_hold(id, actual, policies, |state, policy, units, now| {
            state.commit_hold(policy, id.nonce(), units, now)
        })
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        self.change_hold(id, &[0], policies, |state, policy, _, now| state.renew(policy, id.nonce(), ttl, now))
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        let (name, nonce) = (self.name(policy, key), rand::random());
        let settle = lease.settle.as_ref().filter(|(earlier, _)| !earlier.is_never_granted());
        if let Some((earlier, _)) = settle
            && self.name_in(earlier)? != name
        {
            return Err(ReservationError::OtherKey.into());
        }
        let settle = settle.map(|(earlier, spent)| (earlier.nonce(), *spent));
        let (mut map, now) = self.lock()?;
        let (decision, granted, settled) =
            map.change(name, now, |state| state.lease(policy, lease, settle, nonce, now))?;
        let id = (granted > 0).then(|| self.id(policy, name, nonce)).transpose()?;
        Ok(Leased::new(decision, id, granted, settled.or(lease.settle.as_ref().map(|_| false))))
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        self.change_hold(id, &[spent], policies, |state, policy, units, now| {
            state.settle(policy, id.nonce(), units, now)
        })
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
