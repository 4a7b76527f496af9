//! A store of one's own behind the middleware and the caller's budget.

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use own_store::MapStore;
use tidegate::{
    Cost, Decision, Decisions, Inspection, Key, OnStoreFailure, Op, Policy, Refund, Spend, Store, StoreError, Timestamp,
};
use tidegate_tower::{RateLimitLayer, Rule, caller::Budget, key::Global};
use tower::{Layer as _, Service, ServiceExt as _};

/// A store whose answers take time: every operation yields once.
#[derive(Clone, Default)]
struct SlowStore(Arc<MapStore>);

impl Store for SlowStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        tokio::task::yield_now().await;
        self.0.decide(op, policy, key, cost).await
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        tokio::task::yield_now().await;
        self.0.decide_all(op, spends).await
    }

    async fn refund(&self, policy: &Policy, key: &Key<'_>, cost: Cost, at: Timestamp) -> Result<Refund, StoreError> {
        tokio::task::yield_now().await;
        self.0.refund(policy, key, cost, at).await
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        self.0.reset(policy, key).await
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        self.0.inspect(policy, key).await
    }
}

/// A store that never answers.
#[derive(Clone)]
struct BrokenStore;

impl Store for BrokenStore {
    async fn decide(&self, _: Op, _: &Policy, _: &Key<'_>, _: Cost) -> Result<Decision, StoreError> {
        Err(error())
    }

    async fn decide_all(&self, _: Op, _: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        Err(error())
    }

    async fn refund(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Timestamp) -> Result<Refund, StoreError> {
        Err(error())
    }

    async fn reset(&self, _: &Policy, _: &Key<'_>) -> Result<bool, StoreError> {
        Err(error())
    }

    async fn inspect(&self, _: &Policy, _: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Err(error())
    }
}

fn error() -> StoreError {
    StoreError::Unavailable { cause: "broken", message: "the store is broken".to_owned() }
}

fn policy(limit: &str) -> Policy {
    Policy::new("api", [limit.parse().expect("a limit")]).expect("a policy")
}

/// The statuses of requests through a layer.
async fn statuses<S: Store + Clone + 'static>(layer: RateLimitLayer<S>, requests: usize) -> Vec<StatusCode> {
    let mut service = layer.layer(tower::service_fn(async |_: Request<Body>| {
        Ok::<_, Infallible>(Response::new(Body::from("a response of twenty-six bytes")))
    }));
    let mut statuses = Vec::new();
    for _ in 0..requests {
        let response = service.ready().await.expect("ready").call(Request::new(Body::empty())).await;
        statuses.push(response.expect("a response").status());
    }
    statuses
}

fn rule(policy: Policy) -> Rule {
    Rule::new(policy).key(Global)
}

const OK: StatusCode = StatusCode::OK;
const DENIED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

#[tokio::test]
async fn the_middleware_limits_by_an_immediate_store() {
    let layer = RateLimitLayer::new(rule(policy("2/1h"))).in_store(Arc::new(MapStore::default()));
    assert_eq!(statuses(layer, 3).await, [OK, OK, DENIED]);
}

#[tokio::test]
async fn the_middleware_waits_for_a_slow_store_and_settles_its_charges() {
    let layer = RateLimitLayer::new(rule(policy("2/1h"))).in_store(SlowStore::default());
    assert_eq!(statuses(layer, 3).await, [OK, OK, DENIED]);
    let store = SlowStore::default();
    let layer = RateLimitLayer::new(rule(policy("5/1h")).settle(|_| Some(3))).in_store(store.clone());
    assert_eq!(statuses(layer, 3).await, [OK, OK, DENIED], "each request costs 3 in the end");
    let layer = RateLimitLayer::new(rule(policy("2/1h"))).in_store(SlowStore::default()).refund_if(|_| true);
    assert_eq!(statuses(layer, 3).await, [OK, OK, OK], "each request is refunded");
}

#[tokio::test]
async fn several_rules_are_one_decision_of_the_store() {
    let tight = Policy::new("tight", ["1/1h".parse().expect("a limit")]).expect("a policy");
    let store = SlowStore::default();
    let layer = RateLimitLayer::all([rule(policy("5/1h")), rule(tight)]).in_store(store.clone());
    assert_eq!(statuses(layer, 2).await, [OK, DENIED]);
    let layer = RateLimitLayer::new(rule(policy("5/1h"))).in_store(store);
    assert_eq!(statuses(layer, 5).await, [OK, OK, OK, OK, DENIED], "a denied request charges no policy");
}

#[tokio::test]
async fn the_failure_choice_decides_for_a_broken_store() {
    let closed = policy("9/1h").with_on_store_failure(OnStoreFailure::Closed);
    let layer = RateLimitLayer::new(rule(closed)).in_store(BrokenStore);
    assert_eq!(statuses(layer, 2).await, [StatusCode::SERVICE_UNAVAILABLE; 2]);
    let open = policy("1/1h").with_on_store_failure(OnStoreFailure::Open);
    let layer = RateLimitLayer::new(rule(open)).in_store(BrokenStore);
    assert_eq!(statuses(layer, 3).await, [OK; 3]);
    let local = policy("2/1h").with_on_store_failure("local".parse().expect("a choice"));
    let layer = RateLimitLayer::new(rule(local)).in_store(BrokenStore);
    assert_eq!(statuses(layer, 3).await, [OK, OK, DENIED]);
}

#[tokio::test]
async fn a_budget_spends_from_the_store() {
    let budget = Budget::new(policy("3/1h")).in_store(SlowStore::default()).with_max_wait(std::time::Duration::ZERO);
    let key = Key::new("upstream").expect("a key");
    let permit = budget.acquire(&key, Cost::new(3).expect("a cost")).await.expect("it fits");
    assert!(budget.acquire(&key, Cost::ONE).await.is_err());
    permit.settle(1).await.expect("two units are given back");
    assert!(budget.acquire(&key, Cost::new(2).expect("a cost")).await.is_ok());
}

#[tokio::test]
async fn a_layer_and_a_budget_share_one_store() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new("api", ["60/1m".parse()?])?;
    let store = Arc::new(MapStore::default());
    let layer = RateLimitLayer::new(policy.clone()).in_store(Arc::clone(&store));
    let budget = Budget::new(policy).in_store(store);
    let key = Key::new("upstream")?;
    assert!(budget.acquire(&key, Cost::new(60)?).await.is_ok());
    assert_eq!(statuses(layer, 1).await.len(), 1);
    Ok(())
}
