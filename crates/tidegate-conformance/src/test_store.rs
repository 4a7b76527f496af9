//! [`TestStore`]: a store under test that takes and returns the numbers of the model.

use std::future::Future;

use tidegate::{Key, Op, Policy, Spend, Store, StoreError};

use crate::StoreUnderTest;
use crate::convert::{self, cost, policy, timestamp};
use crate::model::{
    Micros, ModelDecision, ModelDecisions, ModelInspection, ModelOverride, ModelRefund, ModelRequest, OverrideSummary,
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
        let spend = |i: usize| Spend { policy: &policies[i], key: &keys[i], cost: cost(&requests[i]) };
        let spends: Vec<Spend<'_>> = (0..requests.len()).map(spend).collect();
        let store = self.0.at(timestamp(now));
        let decisions = self.run(store.decide_all(op, &spends), || describe_all(op, requests, now));
        assert_eq!(decisions.parts.len(), requests.len(), "there is one decision for each request");
        let part = decisions.overall.part();
        assert!(part < requests.len(), "the overall decision names request {part} of {}", requests.len());
        ModelDecisions {
            overall: convert::decision(&decisions.overall, part, &requests[part]),
            parts: (0..requests.len()).map(|i| convert::decision(&decisions.parts[i], i, &requests[i])).collect(),
        }
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

pub(crate) fn describe_refund(request: &ModelRequest, charged_at: Micros, now: Micros) -> String {
    let ModelRequest { id: (_, key), policy, cost } = request;
    format!("refund of {cost} units charged at {charged_at} us by key {key} at {now} us under {policy:?}")
}
