//! A guard commits its hold, or releases it when it is dropped, over any store.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tidegate::{
    AnyStore, Cost, Decision, Decisions, FailSafe, Guarded, Hold, HoldGuard, HoldStore, Inspection, Key, Limiter,
    ManualClock, OnStoreFailure, Op, Policy, PolicySource, Reason, Refund, ReservationId, Reserved, Settled, Spend,
    Store, StoreError, Timestamp, now_or_never,
};

const MINUTE: Duration = Duration::from_secs(60);

fn policy(name: &str, limits: &[&str]) -> Policy {
    Policy::new(name, limits.iter().map(|limit| limit.parse().expect("a limit"))).expect("a policy")
}

fn alice() -> Key<'static> {
    Key::new("alice").expect("a key")
}

fn reserve<S: HoldStore>(store: S, policy: &Policy, units: u64) -> Guarded<S> {
    let (key, cost) = (alice(), Cost::new(units).expect("a cost"));
    let reserved = HoldGuard::reserve(store, policy, &key, cost, Hold::new(MINUTE));
    now_or_never(reserved).expect("an immediate store").expect("an answer")
}

/// Units in use under the limit of a policy with one limit.
fn used(limiter: &Limiter, policy: &Policy) -> u64 {
    limiter.peek(policy, &alice(), Cost::ONE).used()
}

#[test]
fn a_dropped_guard_releases_its_hold() {
    let limiter = Arc::new(Limiter::default());
    let jobs = policy("jobs", &["4/inflight"]);
    let guard = reserve(Arc::clone(&limiter), &jobs, 3).guard.expect("it fits");
    assert!(guard.decision().is_allowed());
    assert_eq!(used(&limiter, &jobs), 3);
    drop(guard);
    assert_eq!(used(&limiter, &jobs), 0);
}

#[test]
fn a_committed_guard_releases_nothing() {
    let limiter = Limiter::default();
    let tokens = policy("tokens", &["100/1h"]);
    let guard = reserve(&limiter, &tokens, 30).guard.expect("it fits");
    let settled = now_or_never(guard.commit(20)).expect("immediate").expect("an answer");
    assert!(settled.known);
    assert_eq!(used(&limiter, &tokens), 20);
}

#[test]
fn a_guard_that_is_left_open_is_committed_by_its_id() {
    let limiter = Limiter::default();
    let tokens = policy("tokens", &["100/1h"]);
    let id = reserve(&limiter, &tokens, 30).guard.expect("it fits").leave_open();
    assert_eq!(used(&limiter, &tokens), 30);
    assert!(limiter.commit(&id, &[10], &tokens).expect("an answer").known);
    assert_eq!(used(&limiter, &tokens), 10);
}

#[test]
fn a_denied_request_has_no_guard() {
    let limiter = Limiter::default();
    let jobs = policy("jobs", &["4/inflight"]);
    let first = reserve(&limiter, &jobs, 4);
    let second = reserve(&limiter, &jobs, 1);
    assert_eq!((second.decision.reason(), second.guard.is_some()), (Reason::Limited, false));
    drop(first);
    assert!(reserve(&limiter, &jobs, 1).guard.is_some());
}

#[test]
fn a_guard_renews_its_hold_and_learns_that_it_has_ended() {
    let time = ManualClock::at(Timestamp::from_micros(0));
    let limiter = Limiter::default().with_clock(time.clock());
    let jobs = policy("jobs", &["1/inflight"]);
    let guard = reserve(&limiter, &jobs, 1).guard.expect("it fits");
    let renew = || now_or_never(guard.renew(MINUTE)).expect("immediate").expect("an answer").known;
    time.advance(MINUTE - Duration::from_micros(1));
    assert!(renew());
    time.advance(MINUTE - Duration::from_micros(1));
    assert_eq!(used(&limiter, &jobs), 1);
    time.advance(Duration::from_micros(1));
    assert!(!renew());
    assert_eq!(used(&limiter, &jobs), 0);
    // Another hold is open when the guard is dropped. It stays open.
    let other = reserve(&limiter, &jobs, 1);
    drop(guard);
    assert_eq!(used(&limiter, &jobs), 1);
    drop(other);
}

#[test]
fn one_guard_holds_the_units_of_several_policies() {
    let limiter = Limiter::default();
    let (tokens, jobs) = (policy("tokens", &["100/1h"]), policy("jobs", &["4/inflight"]));
    let key = alice();
    let spend = |policy, units| Spend { policy, key: &key, cost: Cost::new(units).expect("a cost") };
    let spends = [spend(&tokens, 50), spend(&jobs, 1)];
    let reserve = || {
        let reserved = HoldGuard::reserve_all(&limiter, &spends, Hold::new(MINUTE));
        let reserved = now_or_never(reserved).expect("immediate").expect("an answer");
        assert_eq!(reserved.decisions.parts.len(), 2);
        reserved.guard.expect("it fits")
    };
    let in_use = || (used(&limiter, &tokens), used(&limiter, &jobs));
    let guard = reserve();
    assert_eq!(in_use(), (50, 1));
    drop(guard);
    assert_eq!(in_use(), (0, 0));
    now_or_never(reserve().commit_each(&[70, 0])).expect("immediate").expect("an answer");
    assert_eq!(in_use(), (70, 0));
}

#[test]
fn a_guard_of_limits_without_a_name_releases_its_hold() {
    let limiter = AnyStore::new(Limiter::default());
    let jobs = Policy::unnamed(["1/inflight".parse().expect("a limit")]).expect("a policy");
    for _ in 0..3 {
        assert!(reserve(limiter.clone(), &jobs, 1).guard.is_some());
    }
}

/// A store that is not available, or whose commits get no answer.
struct Broken {
    limiter: Limiter,
    reserves: bool,
}

impl Store for Broken {
    async fn decide(&self, _: Op, _: &Policy, _: &Key<'_>, _: Cost) -> Result<Decision, StoreError> {
        Err(unavailable())
    }

    async fn decide_all(&self, _: Op, _: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        Err(unavailable())
    }

    async fn refund(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Timestamp) -> Result<Refund, StoreError> {
        Err(unavailable())
    }

    async fn reset(&self, _: &Policy, _: &Key<'_>) -> Result<bool, StoreError> {
        Err(unavailable())
    }

    async fn inspect(&self, _: &Policy, _: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Err(unavailable())
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        if self.reserves { Store::reserve(&self.limiter, policy, key, cost, hold).await } else { Err(unavailable()) }
    }

    async fn commit(&self, _: &ReservationId, _: &[u64], _: &dyn PolicySource) -> Result<Settled, StoreError> {
        std::future::pending().await
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        Store::release_detached(&self.limiter, id, policies);
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable { cause: "timeout", message: "no answer".to_owned() }
}

#[test]
fn a_commit_that_is_cancelled_is_not_followed_by_a_release() {
    let store = Broken { limiter: Limiter::default(), reserves: true };
    let tokens = policy("tokens", &["100/1h"]);
    let guard = reserve(&store, &tokens, 30).guard.expect("it fits");
    {
        let mut commit = pin!(guard.commit(20));
        assert!(matches!(commit.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
    }
    // The commit may have arrived, so a release could give back units that were used.
    assert_eq!(used(&store.limiter, &tokens), 30);
    drop(reserve(&store, &tokens, 30));
    assert_eq!(used(&store.limiter, &tokens), 30, "a guard that was not committed releases its hold");
}

#[test]
fn a_guard_that_the_failure_choice_granted_is_released_in_this_process() {
    let store = FailSafe::new(Arc::new(Broken { limiter: Limiter::default(), reserves: false }));
    let jobs = policy("jobs", &["1/inflight"]).with_on_store_failure("local".parse().expect("a choice"));
    let first = reserve(store.clone(), &jobs, 1);
    assert!(first.guard.is_some() && first.decision.is_degraded());
    assert!(reserve(store.clone(), &jobs, 1).guard.is_none());
    drop(first);
    assert!(reserve(store.clone(), &jobs, 1).guard.is_some());
    let open = policy("open", &["1/inflight"]).with_on_store_failure(OnStoreFailure::Open);
    let admitted = [(); 3].map(|()| reserve(store.clone(), &open, 1));
    assert!(admitted.iter().all(|reserved| reserved.guard.is_some()));
}

#[test]
fn the_futures_of_a_guard_can_move_between_threads() {
    fn assert_send<T: Send>(_: &T) {}
    let limiter = Arc::new(Limiter::default());
    let tokens = policy("tokens", &["100/1h"]);
    let key = alice();
    let reserving = HoldGuard::reserve(Arc::clone(&limiter), &tokens, &key, Cost::ONE, Hold::new(MINUTE));
    assert_send(&reserving);
    let guard = now_or_never(reserving).expect("immediate").expect("an answer").guard.expect("it fits");
    assert_send(&guard.renew(MINUTE));
    let committing = guard.commit(1);
    assert_send(&committing);
    assert!(now_or_never(committing).expect("immediate").expect("an answer").known);
}
