//! A [`LeasedStore`] over a store in memory, in a tokio runtime.

use std::{sync::Arc, time::Duration};

use tidegate::{Clock, Cost, Key, Limiter, Policy, Store, Timestamp};
use tidegate_leases::{LeasedStore, Node, TermClock};

/// The clock of tokio, which the tests pause.
fn paused_micros() -> u64 {
    use std::sync::OnceLock;
    thread_local! {
        static START: OnceLock<tokio::time::Instant> = const { OnceLock::new() };
    }
    let elapsed = START.with(|start| start.get_or_init(tokio::time::Instant::now).elapsed());
    u64::try_from(elapsed.as_micros()).expect("a short test")
}

fn policy() -> Policy {
    let policy = Policy::new("hot", ["1000/1m".parse().expect("a limit")]).expect("a policy");
    policy.with_lease(Duration::from_millis(200)).expect("a term")
}

fn store() -> (Arc<Limiter>, LeasedStore<Arc<Limiter>>) {
    let clock = Clock::from_fn(|| Timestamp::from_micros(1_000_000 + paused_micros()));
    let shared = Arc::new(Limiter::default().with_clock(clock));
    let store = LeasedStore::with_clock(Arc::clone(&shared), Node::default(), TermClock::from_fn(paused_micros));
    (shared, store.expect("it has leases"))
}

/// Units in use in the shared store.
fn used(shared: &Limiter, key: &Key<'_>) -> u64 {
    shared.peek(&policy(), key, Cost::ONE).used()
}

async fn heat_up(store: &LeasedStore<Arc<Limiter>>, key: &Key<'_>) {
    for _ in 0..30 {
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(store.check(&policy(), key, Cost::ONE).await.expect("an answer").is_allowed());
        tokio::task::yield_now().await;
    }
    assert!(store.stats().admitted > 0);
}

#[tokio::test(start_paused = true)]
async fn a_hot_key_is_decided_locally_and_closing_returns_what_is_left() {
    let (shared, store) = store();
    let key = Key::from(1_u8);
    heat_up(&store, &key).await;
    let decision = store.decide_locally(tidegate::Op::Check, &policy(), &key, Cost::ONE).expect("a local decision");
    assert!(decision.is_leased());
    assert!(used(&shared, &key) > 31);
    store.close().await;
    assert_eq!(used(&shared, &key), 31);
}

#[tokio::test(start_paused = true)]
async fn an_idle_lease_is_settled_by_the_background_task() {
    let (shared, store) = store();
    let key = Key::from(1_u8);
    heat_up(&store, &key).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(used(&shared, &key), 30);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(store.stats().keys, 0, "a key that is not requested any more is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_the_lease() {
    let (shared, store) = store();
    let key = Key::from(1_u8);
    heat_up(&store, &key).await;
    assert!(store.reset(&policy(), &key).await.expect("an answer"));
    assert_eq!(used(&shared, &key), 0);
    assert!(store.decide_locally(tidegate::Op::Check, &policy(), &key, Cost::ONE).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_without_leases_is_refused() {
    struct Plain(Limiter);
    impl Store for Plain {
        async fn decide(
            &self,
            op: tidegate::Op,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
        ) -> Result<tidegate::Decision, tidegate::StoreError> {
            Store::decide(&self.0, op, policy, key, cost).await
        }
        async fn decide_all(
            &self,
            op: tidegate::Op,
            spends: &[tidegate::Spend<'_>],
        ) -> Result<tidegate::Decisions, tidegate::StoreError> {
            Store::decide_all(&self.0, op, spends).await
        }
        async fn refund(
            &self,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            charged_at: Timestamp,
        ) -> Result<tidegate::Refund, tidegate::StoreError> {
            Store::refund(&self.0, policy, key, cost, charged_at).await
        }
        async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, tidegate::StoreError> {
            Store::reset(&self.0, policy, key).await
        }
        async fn inspect(
            &self,
            policy: &Policy,
            key: &Key<'_>,
        ) -> Result<Option<tidegate::Inspection>, tidegate::StoreError> {
            Store::inspect(&self.0, policy, key).await
        }
    }
    let error = LeasedStore::new(Plain(Limiter::default())).err().expect("it has no leases");
    assert!(error.to_string().starts_with("the store `custom` has no leases"), "{error}");
}
