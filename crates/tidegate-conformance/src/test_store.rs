//! [`TestStore`]: a store under test that takes and returns the numbers of the model.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use tidegate::{Cost, Decisions, Hold, Key, Lease, Op, Policy, ReservationId, Spend, Store, StoreError};

use crate::StoreUnderTest;
use crate::convert::{self, cost, policy, timestamp};
use crate::model::{
    Micros, ModelDecision, ModelDecisions, ModelGrant, ModelHold, ModelInspection, ModelLease, ModelOverride,
    ModelRefund, ModelRequest, ModelReservationKind, OverrideSummary, Units,
};
use crate::property::{describe, describe_all};

pub(crate) struct TestStore<S>(S);

impl<S: StoreUnderTest> TestStore<S> {
    pub(crate) fn new(seed: Micros) -> Self {
        Self(S::empty(u64::try_from(seed).expect("a seed is a positive number of 64 bits")))
    }

    fn key(&self, request: &ModelRequest) -> Key<'static> {
        self.0.key(&[request.id.1])
    }

    /// Runs a future of the store. Panics if the store returns an error.
    fn run<T>(&self, future: impl Future<Output = Result<T, StoreError>>, operation: impl FnOnce() -> String) -> T {
        self.0.run(future).unwrap_or_else(|error| panic!("{}\n  the store returned an error: {error}", operation()))
    }

    pub(crate) fn decide(&self, op: Op, request: &ModelRequest, now: Micros) -> ModelDecision {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let decision = self.run(store.decide(op, &policy, &key, cost(request)), || describe(op, request, now));
        convert::decision(&decision, 0, request)
    }

    pub(crate) fn check(&self, request: &ModelRequest, now: Micros) -> ModelDecision {
        self.decide(Op::Check, request, now)
    }

    pub(crate) fn peek(&self, request: &ModelRequest, now: Micros) -> ModelDecision {
        self.decide(Op::Peek, request, now)
    }

    pub(crate) fn charge(&self, request: &ModelRequest, now: Micros) -> ModelDecision {
        self.decide(Op::Charge, request, now)
    }

    pub(crate) fn decide_all(&self, op: Op, requests: &[ModelRequest], now: Micros) -> ModelDecisions {
        let policies: Vec<Policy> = requests.iter().map(policy).collect();
        let keys: Vec<Key<'static>> = requests.iter().map(|request| self.key(request)).collect();
        let store = self.0.at(timestamp(now));
        let spends = spends(requests, &policies, &keys);
        model_decisions(&self.run(store.decide_all(op, &spends), || describe_all(op, requests, now)), requests)
    }

    pub(crate) fn refund(&self, request: &ModelRequest, charged_at: Micros, now: Micros) -> ModelRefund {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let future = store.refund(&policy, &key, cost(request), timestamp(charged_at));
        convert::refund(&self.run(future, || describe_refund(request, charged_at, now)))
    }

    pub(crate) fn reset(&self, request: &ModelRequest, now: Micros) -> bool {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        self.run(store.reset(&policy, &key), || format!("reset at {now} us"))
    }

    pub(crate) fn inspect(&self, request: &ModelRequest, now: Micros) -> Option<ModelInspection> {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let inspection = self.run(store.inspect(&policy, &key), || format!("inspect at {now} us"));
        inspection.as_ref().map(convert::inspection)
    }

    pub(crate) fn set_override(
        &self,
        request: &ModelRequest,
        new: &ModelOverride,
        now: Micros,
    ) -> Option<OverrideSummary> {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let future = store.set_override(&policy, &key, convert::to_override(new));
        let old = self.run(future, || format!("set the override {new:?} at {now} us"));
        old.as_ref().map(convert::override_summary)
    }

    pub(crate) fn remove_override(&self, request: &ModelRequest, now: Micros) -> Option<OverrideSummary> {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let old = self.run(store.remove_override(&policy, &key), || format!("remove the override at {now} us"));
        old.as_ref().map(convert::override_summary)
    }

    pub(crate) fn override_of(&self, request: &ModelRequest, now: Micros) -> Option<OverrideSummary> {
        let (store, policy, key) = (self.0.at(timestamp(now)), policy(request), self.key(request));
        let found = self.run(store.override_of(&policy, &key), || format!("show the override at {now} us"));
        found.map(|found| convert::override_summary(&found.r#override))
    }
}

fn spends<'a>(requests: &[ModelRequest], policies: &'a [Policy], keys: &'a [Key<'static>]) -> Vec<Spend<'a>> {
    let each = requests.iter().zip(policies).zip(keys);
    each.map(|((request, policy), key)| Spend { policy, key, cost: cost(request) }).collect()
}

fn model_decisions(decisions: &Decisions, requests: &[ModelRequest]) -> ModelDecisions {
    assert_eq!(decisions.parts.len(), requests.len(), "there is one decision for each request");
    let part = decisions.overall.part();
    assert!(part < requests.len(), "the overall decision names request {part} of {}", requests.len());
    ModelDecisions {
        overall: convert::decision(&decisions.overall, part, &requests[part]),
        parts: (0..requests.len()).map(|i| convert::decision(&decisions.parts[i], i, &requests[i])).collect(),
    }
}

/// A store under test whose reservations have the numbers of the model as ids.
pub(crate) struct ReservationStore<S> {
    store: TestStore<S>,
    /// The key and the id of each reservation.
    ids: BTreeMap<u64, ((u8, u8), ReservationId)>,
    /// The id of each reservation of several requests.
    several: BTreeMap<u64, ReservationId>,
    /// For each key an id that is not open.
    unknown: BTreeMap<(u8, u8), ReservationId>,
}

impl<S> Deref for ReservationStore<S> {
    type Target = TestStore<S>;

    fn deref(&self) -> &TestStore<S> {
        &self.store
    }
}

impl<S: StoreUnderTest> ReservationStore<S> {
    pub(crate) fn new(seed: Micros) -> Self {
        Self { store: TestStore::new(seed), ids: BTreeMap::new(), several: BTreeMap::new(), unknown: BTreeMap::new() }
    }

    /// Makes an id of the request's key that is not open. It must be called before any other operation on the key.
    pub(crate) fn make_unknown_id(&mut self, request: &ModelRequest, now: Micros) {
        let (policy, key, store) = (policy(request), self.store.key(request), self.store.0.at(timestamp(now)));
        let operation = || "reserve and reset".to_owned();
        let hold = Hold::new(Duration::from_secs(1));
        let reserved = self.store.run(store.reserve(&policy, &key, Cost::ONE, hold), operation);
        self.store.run(store.reset(&policy, &key), operation);
        self.unknown.insert(request.id, reserved.id.expect("an unused key has a unit"));
    }

    /// The id that the store gave the reservation with this number, or one that is not open.
    fn id(&self, number: u64, request: &ModelRequest) -> ReservationId {
        let granted = self.ids.get(&number).filter(|(key, _)| *key == request.id).map(|(_, id)| id);
        granted.or_else(|| self.unknown.get(&request.id)).expect("an unknown id was made").clone()
    }

    pub(crate) fn reserve(&mut self, request: &ModelRequest, hold: ModelHold, now: Micros) -> ModelDecision {
        let (store, policy, key) = (self.store.0.at(timestamp(now)), policy(request), self.store.key(request));
        let future = store.reserve(&policy, &key, cost(request), to_hold(hold));
        let reserved = self.store.run(future, || format!("{hold:?} of {request:?} at {now} us"));
        assert_eq!(reserved.id.is_some(), reserved.decision.is_allowed(), "an admitted request has an id");
        if let (Some(id), Some(_)) = (reserved.id, reserved.decision.charged_at()) {
            self.ids.insert(hold.id, (request.id, id));
        }
        convert::decision(&reserved.decision, 0, request)
    }

    pub(crate) fn commit(
        &mut self,
        request: &ModelRequest,
        id: u64,
        actual: Units,
        now: Micros,
    ) -> (ModelDecision, bool) {
        let (id, policy) = (self.id(id, request), policy(request));
        let store = self.store.0.at(timestamp(now));
        let actual = [number(actual)];
        let settled = self.store.run(store.commit(&id, &actual, &policy), || format!("commit {actual:?} at {now} us"));
        (convert::decision(&settled.decision, 0, request), settled.known)
    }

    pub(crate) fn renew(&mut self, request: &ModelRequest, id: u64, ttl: Micros, now: Micros) -> (ModelDecision, bool) {
        let (id, policy) = (self.id(id, request), policy(request));
        let store = self.store.0.at(timestamp(now));
        let settled =
            self.store.run(store.renew(&id, duration(ttl), &policy), || format!("renew by {ttl} us at {now} us"));
        (convert::decision(&settled.decision, 0, request), settled.known)
    }

    pub(crate) fn reserve_all(&mut self, requests: &[ModelRequest], hold: ModelHold, now: Micros) -> ModelDecisions {
        let policies: Vec<Policy> = requests.iter().map(policy).collect();
        let keys: Vec<Key<'static>> = requests.iter().map(|request| self.store.key(request)).collect();
        let (store, spends) = (self.store.0.at(timestamp(now)), spends(requests, &policies, &keys));
        let future = store.reserve_all(&spends, to_hold(hold));
        let reserved = self.store.run(future, || format!("{hold:?} of {requests:?} at {now} us"));
        let is_admitted = reserved.decisions.overall.is_allowed();
        assert_eq!(reserved.id.is_some(), is_admitted, "admitted requests have an id");
        if let Some(id) = reserved.id {
            self.several.insert(hold.id, id);
        }
        model_decisions(&reserved.decisions, requests)
    }

    /// Commits a reservation of several requests. Returns whether it was open.
    pub(crate) fn commit_all(&mut self, requests: &[ModelRequest], id: u64, actual: &[Units], now: Micros) -> bool {
        let policies: Vec<Policy> = requests.iter().map(policy).collect();
        let (store, id) = (self.store.0.at(timestamp(now)), &self.several[&id]);
        let actual: Vec<u64> = actual.iter().copied().map(number).collect();
        let future = store.commit(id, &actual, &policies);
        self.store.run(future, || format!("commit {actual:?} of {requests:?} at {now} us")).known
    }

    /// Renews a reservation of several requests. Returns whether it was open.
    pub(crate) fn renew_all(&mut self, requests: &[ModelRequest], id: u64, ttl: Micros, now: Micros) -> bool {
        let policies: Vec<Policy> = requests.iter().map(policy).collect();
        let (store, id) = (self.store.0.at(timestamp(now)), &self.several[&id]);
        let future = store.renew(id, duration(ttl), &policies);
        self.store.run(future, || format!("renew {requests:?} by {ttl} us at {now} us")).known
    }

    pub(crate) fn settle(
        &mut self,
        request: &ModelRequest,
        id: u64,
        spent: Units,
        now: Micros,
    ) -> (ModelDecision, bool) {
        let (id, policy) = (self.id(id, request), policy(request));
        let store = self.store.0.at(timestamp(now));
        let future = store.settle(&id, number(spent), &policy);
        let settled = self.store.run(future, || format!("settle {spent} at {now} us"));
        (convert::decision(&settled.decision, 0, request), settled.known)
    }

    pub(crate) fn lease(&mut self, request: &ModelRequest, lease: ModelLease, now: Micros) -> ModelGrant {
        let settle = lease.settle.map(|(id, spent)| (self.id(id, request), number(spent)));
        let (store, policy, key) = (self.store.0.at(timestamp(now)), policy(request), self.store.key(request));
        let units = |units: Units| Cost::from_vector(number(units));
        let mut asked = Lease::new(units(lease.asked), duration(lease.ttl)).least(units(lease.least));
        if let Some((id, spent)) = settle {
            asked = asked.settling(id, spent);
        }
        let future = store.lease(&policy, &key, &asked);
        let leased = self.store.run(future, || format!("{lease:?} at {now} us"));
        assert_eq!(leased.id.is_some(), leased.granted > 0, "a grant has an id");
        if let Some(id) = leased.id {
            self.ids.insert(lease.id, (request.id, id));
        }
        ModelGrant {
            decision: convert::decision(&leased.decision, 0, request),
            granted: leased.granted.into(),
            settled: leased.settled,
        }
    }
}

fn to_hold(hold: ModelHold) -> Hold {
    let asked = Hold::new(duration(hold.ttl));
    if hold.kind == ModelReservationKind::SpentHold { asked.spent_at_end() } else { asked }
}

fn number(units: Units) -> u64 {
    units.try_into().expect("the number fits 64 bits")
}

fn duration(micros: Micros) -> Duration {
    Duration::from_micros(number(micros))
}

pub(crate) fn describe_refund(request: &ModelRequest, charged_at: Micros, now: Micros) -> String {
    let ModelRequest { id: (_, key), policy, cost } = request;
    format!("refund of {cost} units charged at {charged_at} us by key {key} at {now} us under {policy:?}")
}
