//! A store that fails, or that answers nonsense, costs one decision its store and never a panic.

use std::{
    future::{Future, pending, ready},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tidegate::{
    Algorithm, AnyStore, Burst, Cost, Decision, Decisions, FailSafe, Hold, Inspection, Key, Lease, Leased, Limiter,
    Mode, OnStoreFailure, Op, Policy, Reason, Refund, ReservationId, Reserved, ReservedAll, Spend, SpendError, Store,
    StoreError, Timestamp,
    external_store::{self, LimitStatus},
    now_or_never,
};

/// What a [`Nonsense`] store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// It returns an error.
    Fails,
    /// It names a limit that it was not asked about.
    OtherLimit,
    /// More units remain than the limit allows.
    TooMuchRemaining,
    /// An allowed request has a retry time.
    RetryTimeForAllowed,
    /// The status of a limit is missing.
    MissingLimit,
    /// A peek is charged.
    ChargesPeek,
    /// It decides fewer requests than it was asked about.
    MissingPart,
    /// It says that it is immediate, and never answers.
    NeverReady,
    /// The request that decided does not exist.
    OtherPart,
    /// An admitted reservation has no id.
    NoId,
    /// A denied reservation has an id.
    IdOfDenial,
    /// A lease has more units than it asked for.
    GrantsTooMuch,
    /// A lease has fewer units than it needs.
    GrantsTooLittle,
    /// A denied lease has units.
    GrantsForDenial,
}

struct Nonsense(Defect, Limiter);

impl Nonsense {
    fn answer(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        let other = |limit: &str| Policy::new("other", [limit.parse().expect("a limit")]).expect("a policy");
        let status = LimitStatus { used: 0, retry_after_us: Some(5), reset_after_us: 0 };
        match self.0 {
            Defect::Fails => Err(StoreError::Unavailable { cause: "timeout", message: "no answer".to_owned() }),
            Defect::OtherLimit => Ok(self.1.check(&other("7/1h"), key, cost)),
            Defect::TooMuchRemaining => {
                let burst = Algorithm::Gcra(Some(Burst::new(1_000).expect("a burst")));
                Ok(self.1.check(&policy.clone().with_algorithm(burst), key, cost))
            }
            Defect::RetryTimeForAllowed => external_store::decision(policy, op, cost, &[status], None),
            Defect::MissingLimit => external_store::decision(policy, op, cost, &[], None),
            Defect::ChargesPeek => Ok(self.1.check(policy, key, cost)),
            // The limits allow 3 units.
            Defect::IdOfDenial | Defect::GrantsForDenial => Ok(self.1.peek(policy, key, Cost::new(4).expect("a cost"))),
            _ => Ok(self.1.peek(policy, key, cost)),
        }
    }

    fn id(&self, policy: &Policy, decision: &Decision) -> Option<ReservationId> {
        let has_id = match self.0 {
            Defect::NoId => false,
            Defect::IdOfDenial => true,
            _ => decision.is_allowed(),
        };
        has_id.then(|| ReservationId::new(policy, [1; 16], &[1; 16]).expect("a short place"))
    }
}

impl Store for Nonsense {
    fn decide(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        let answer: Pin<Box<dyn Future<Output = _> + Send>> = match self.0 {
            Defect::NeverReady => Box::pin(pending()),
            _ => Box::pin(ready(self.answer(op, policy, key, cost))),
        };
        answer
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        if self.0 == Defect::NeverReady {
            return pending().await;
        }
        let part = |spend: &Spend<'_>| self.answer(op, spend.policy, spend.key, spend.cost);
        let parts = spends.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let mut decisions = external_store::combine(spends, parts);
        if self.0 == Defect::MissingPart {
            decisions.parts.pop();
        }
        Ok(decisions)
    }

    async fn refund(&self, _: &Policy, _: &Key<'_>, _: Cost, _: Timestamp) -> Result<Refund, StoreError> {
        Err(StoreError::Unsupported { operation: "refund" })
    }

    async fn reset(&self, _: &Policy, _: &Key<'_>) -> Result<bool, StoreError> {
        Err(StoreError::Unsupported { operation: "reset" })
    }

    async fn inspect(&self, _: &Policy, _: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        Ok(None)
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, _: Hold) -> Result<Reserved, StoreError> {
        let decision = self.answer(Op::Check, policy, key, cost)?;
        Ok(Reserved::new(decision, self.id(policy, &decision)))
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], _: Hold) -> Result<ReservedAll, StoreError> {
        let mut decisions = self.decide_all(Op::Check, spends).await?;
        if self.0 == Defect::OtherPart {
            let denied = self.1.peek(spends[0].policy, spends[0].key, Cost::new(4).expect("a cost"));
            let more: Vec<_> = spends.iter().chain(&spends[..1]).copied().collect();
            let parts = decisions.parts.iter().copied().chain([denied]).collect();
            decisions.overall = external_store::combine(&more, parts).overall;
        }
        let id = self.id(spends[0].policy, &decisions.overall);
        Ok(ReservedAll::new(decisions, id))
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        let decision = self.answer(Op::Check, policy, key, lease.least)?;
        let granted = match self.0 {
            Defect::GrantsTooMuch => lease.asked.get() + 1,
            Defect::GrantsTooLittle => lease.least.get() - 1,
            Defect::GrantsForDenial => lease.least.get(),
            _ if decision.is_allowed() => lease.least.get(),
            _ => 0,
        };
        Ok(Leased::new(decision, self.id(policy, &decision), granted, None))
    }

    fn is_immediate(&self) -> bool {
        true
    }
}

fn policy(choice: OnStoreFailure) -> Policy {
    Policy::new("api", ["3/1h".parse().expect("a limit")]).expect("a policy").with_on_store_failure(choice)
}

fn decide<S: Store>(store: &FailSafe<S>, op: Op, policy: &Policy) -> Decision {
    let key = Key::new("alice").expect("a key");
    let decision = store.decide_now(op, policy, &key, Cost::ONE).expect("an immediate store");
    let [one, other] = ["alice", "bob"].map(|key| Key::new(key).expect("a key"));
    let spend = |key| Spend { policy, key, cost: Cost::ONE };
    let all =
        store.decide_all_now(op, &[spend(&one), spend(&other)]).expect("an immediate store").expect("two requests");
    assert_eq!(all.parts.len(), 2);
    decision
}

/// Defects that a single decision shows.
const DEFECTS: [Defect; 7] = [
    Defect::Fails,
    Defect::OtherLimit,
    Defect::TooMuchRemaining,
    Defect::RetryTimeForAllowed,
    Defect::MissingLimit,
    Defect::ChargesPeek,
    Defect::NeverReady,
];

#[test]
fn a_store_that_answers_nonsense_is_replaced_by_the_failure_choice() {
    for defect in DEFECTS {
        let store = || FailSafe::new(Nonsense(defect, Limiter::default()));
        let op = if defect == Defect::ChargesPeek { Op::Peek } else { Op::Check };
        let open = decide(&store(), op, &policy(OnStoreFailure::Open));
        assert_eq!((open.reason(), open.is_degraded()), (Reason::Allowed, true), "{defect:?}");
        let closed = decide(&store(), op, &policy(OnStoreFailure::Closed));
        assert_eq!((closed.reason(), closed.is_degraded()), (Reason::StoreUnavailable, true), "{defect:?}");
        let (local, choice) = (store(), policy("local".parse().expect("a choice")));
        let decisions: Vec<_> = (0..4).map(|_| decide(&local, Op::Charge, &choice)).collect();
        assert!(decisions.iter().all(|decision| decision.is_degraded() || defect == Defect::ChargesPeek), "{defect:?}");
    }
}

#[test]
fn a_store_without_an_answer_for_each_request_is_replaced_by_the_failure_choice() {
    let store = FailSafe::new(Nonsense(Defect::MissingPart, Limiter::default()));
    let policy = policy(OnStoreFailure::Closed);
    let keys = ["alice", "bob"].map(|key| Key::new(key).expect("a key"));
    let spends = [0, 1].map(|i| Spend { policy: &policy, key: &keys[i], cost: Cost::ONE });
    let decisions = now_or_never(store.decide_all(Op::Check, &spends)).expect("immediate").expect("two requests");
    assert_eq!(decisions.overall.reason(), Reason::StoreUnavailable);
    assert_eq!(decisions.parts.len(), 2);
}

#[test]
fn the_local_share_of_a_failing_store_is_limited() {
    let store = FailSafe::new(Nonsense(Defect::Fails, Limiter::default()));
    let policy = policy("local".parse().expect("a choice"));
    let key = Key::new("alice").expect("a key");
    let check = || now_or_never(store.decide(Op::Check, &policy, &key, Cost::ONE)).expect("immediate");
    let allowed = (0..10).filter(|_| check().is_allowed()).count();
    assert_eq!(allowed, 3);
    let report = store.report();
    assert_eq!(report.errors, [("store_failed", 10)]);
    let metric = report.metrics.iter().find(|metric| metric.name == "degraded_answers").expect("a metric");
    assert_eq!(metric.values, [("store_failed".to_owned(), 10)]);
}

#[test]
fn every_failure_is_counted_and_reported() {
    static HEARD: AtomicU64 = AtomicU64::new(0);
    let store = FailSafe::new(Nonsense(Defect::OtherLimit, Limiter::default())).on_error(|error| {
        assert_eq!(error.cause(), "invalid_answer");
        HEARD.fetch_add(1, Relaxed);
    });
    let decision = decide(&store, Op::Check, &policy(OnStoreFailure::Open));
    assert!(decision.is_allowed());
    assert_eq!(HEARD.load(Relaxed), 2, "one decision, and one over two requests");
    let report = store.report();
    let counted = report.event_counts.iter().find(|count| count.cause == "invalid_answer").expect("a count");
    assert_eq!(counted.count, 2);
    assert!(counted.what.contains("not a limit of the policy"), "{}", counted.what);
}

#[test]
fn a_store_that_answers_nonsense_about_a_reservation_is_replaced_by_the_failure_choice() {
    let (closed, key) = (policy(OnStoreFailure::Closed), Key::new("alice").expect("a key"));
    let hold = Hold::new(Duration::from_secs(60));
    let lease = Lease::new(Cost::new(3).expect("a cost"), Duration::from_secs(1)).least(Cost::new(2).expect("a cost"));
    let keys = ["alice", "bob"].map(|key| Key::new(key).expect("a key"));
    let spends = keys.each_ref().map(|key| Spend { policy: &closed, key, cost: Cost::ONE });
    let all = [Defect::OtherLimit, Defect::RetryTimeForAllowed, Defect::MissingLimit, Defect::NoId, Defect::IdOfDenial];
    let of_lease = [Defect::GrantsTooMuch, Defect::GrantsTooLittle, Defect::GrantsForDenial];
    for defect in all.into_iter().chain(of_lease) {
        let store = FailSafe::new(Nonsense(defect, Limiter::default()));
        let leased = now_or_never(store.lease(&closed, &key, &lease)).expect("immediate").expect("well-formed");
        assert_eq!((leased.decision.reason(), leased.granted), (Reason::StoreUnavailable, 0), "{defect:?}");
        assert_eq!(leased.id, None, "{defect:?}");
        assert_eq!(store.report().errors.len(), 1, "{defect:?}");
    }
    for defect in all {
        let store = FailSafe::new(Nonsense(defect, Limiter::default()));
        let reserved = now_or_never(store.reserve(&closed, &key, Cost::ONE, hold)).expect("immediate");
        let reserved = reserved.expect("well-formed");
        assert_eq!((reserved.decision.reason(), reserved.id), (Reason::StoreUnavailable, None), "{defect:?}");
    }
    for defect in all.into_iter().chain([Defect::MissingPart, Defect::OtherPart]) {
        let store = FailSafe::new(Nonsense(defect, Limiter::default()));
        let reserved = now_or_never(store.reserve_all(&spends, hold)).expect("immediate").expect("well-formed");
        let ReservedAll { decisions, id, .. } = reserved;
        assert_eq!((decisions.overall.reason(), id), (Reason::StoreUnavailable, None), "{defect:?}");
        assert_eq!(decisions.parts.len(), 2, "{defect:?}");
    }
}

#[test]
fn the_failure_choice_decides_about_holds_of_a_failing_store() {
    let store = FailSafe::new(Nonsense(Defect::Fails, Limiter::default()));
    let key = Key::new("alice").expect("a key");
    let hold = Hold::new(Duration::from_secs(60));
    let reserve = |policy: &Policy| {
        let reserved = now_or_never(store.reserve(policy, &key, Cost::ONE, hold)).expect("immediate");
        let reserved = reserved.expect("well-formed");
        assert!(reserved.decision.is_degraded());
        assert_eq!(reserved.id.is_some(), reserved.decision.is_allowed());
        reserved
    };
    let known = |id: &ReservationId, policy: &Policy| {
        now_or_never(store.commit(id, &[0], policy)).expect("immediate").is_ok_and(|settled| settled.known)
    };
    let (open, closed) = (policy(OnStoreFailure::Open), policy(OnStoreFailure::Closed));
    assert_eq!(reserve(&closed).decision.reason(), Reason::StoreUnavailable);
    for _ in 0..10 {
        let id = reserve(&open).id.expect("everything is admitted");
        assert!(id.is_never_granted() && !known(&id, &open));
    }
    let local = policy("local".parse().expect("a choice"));
    let ids = [(); 3].map(|()| reserve(&local).id.expect("the limit of this process"));
    assert_eq!(reserve(&local).id, None);
    assert!(known(&ids[0], &local) && !known(&ids[0], &local));
    assert!(reserve(&local).id.is_some());
}

#[test]
fn several_requests_that_are_held_locally_are_released() {
    let store = FailSafe::new(Nonsense(Defect::Fails, Limiter::default()));
    let named = |name, limit: &str, choice: &str| {
        let policy = Policy::new(name, [limit.parse().expect("a limit")]).expect("a policy");
        policy.with_on_store_failure(choice.parse().expect("a choice"))
    };
    let (jobs, tokens) = (named("jobs", "4/inflight", "local"), named("tokens", "100/1h", "local:0.5"));
    let (open, closed) = (named("open", "1/1h", "open"), named("closed", "1/1h", "closed"));
    let policies = vec![jobs.clone(), tokens.clone(), open.clone(), closed.clone()];
    let [alice, bob] = ["alice", "bob"].map(|key| Key::new(key).expect("a key"));
    let spend = |policy, key, units| Spend { policy, key, cost: Cost::new(units).expect("a cost") };
    let hold = Hold::new(Duration::from_secs(60));
    let reserve =
        |spends: &[Spend<'_>]| now_or_never(store.reserve_all(spends, hold)).expect("immediate").expect("well-formed");
    let commit = |id: &ReservationId, actual: &[u64]| {
        now_or_never(store.commit(id, actual, &policies)).expect("immediate").is_ok_and(|settled| settled.known)
    };
    let used =
        |policy: &Policy, key| now_or_never(store.decide(Op::Peek, policy, key, Cost::ONE)).expect("immediate").used();
    // A request that is not counted is a part of the hold, too.
    let spends = [spend(&open, &bob, 1), spend(&jobs, &alice, 1), spend(&tokens, &bob, 5), spend(&jobs, &alice, 1)];
    let first = reserve(&spends);
    let id = first.id.expect("it fits");
    assert!(first.decisions.parts.iter().all(Decision::is_degraded));
    assert_eq!((used(&jobs, &alice), used(&tokens, &bob)), (2, 5));
    let renewed = now_or_never(store.renew(&id, Duration::from_secs(90), &policies)).expect("immediate");
    assert!(renewed.expect("well-formed").known);
    assert!(!commit(&id, &[1, 2]), "there are four requests");
    assert!(commit(&id, &[9, 0, 3, 0]) && !commit(&id, &[0]));
    assert_eq!((used(&jobs, &alice), used(&tokens, &bob)), (0, 3));
    for _ in 0..10 {
        let id = reserve(&spends).id.expect("the earlier holds were released");
        store.release_detached(&id, &policies);
    }
    assert_eq!((used(&jobs, &alice), used(&tokens, &bob)), (0, 3));
    // All or none.
    let denied =
        [[spend(&jobs, &alice, 1), spend(&tokens, &bob, 48)], [spend(&jobs, &alice, 1), spend(&closed, &bob, 1)]];
    for spends in denied {
        let reserved = reserve(&spends);
        assert!(!reserved.decisions.overall.is_allowed() && reserved.id.is_none(), "{reserved:?}");
        assert_eq!((used(&jobs, &alice), used(&tokens, &bob)), (0, 3));
    }
}

#[test]
fn a_check_under_an_in_flight_limit_is_impossible_without_the_store_too() {
    for choice in ["open", "closed", "local"] {
        let store = FailSafe::new(Nonsense(Defect::Fails, Limiter::default()));
        let jobs = Policy::new("jobs", ["3/inflight".parse().expect("a limit")]).expect("a policy");
        let jobs = jobs.with_on_store_failure(choice.parse().expect("a choice"));
        let key = Key::new("alice").expect("a key");
        let decided = store.decide_now(Op::Check, &jobs, &key, Cost::ONE).expect("an immediate store");
        assert_eq!(decided.reason(), Reason::Impossible, "{choice}");
        let spend = Spend { policy: &jobs, key: &key, cost: Cost::ONE };
        let all = store.decide_all_now(Op::Check, &[spend]).expect("an immediate store");
        assert_eq!(all.expect_err("it is malformed"), SpendError::InFlight { part: 0, max: 3 }, "{choice}");
    }
}

#[test]
fn a_shadow_policy_never_denies_without_its_store() {
    let store = FailSafe::new(Nonsense(Defect::Fails, Limiter::default()));
    let policy = policy(OnStoreFailure::Closed).with_mode(Mode::Shadow);
    assert_eq!(decide(&store, Op::Check, &policy).reason(), Reason::Shadow);
}

#[test]
fn requests_that_are_not_one_decision_are_the_callers_error() {
    let store = FailSafe::new(AnyStore::new(Limiter::default()));
    assert!(store.decide_all_now(Op::Check, &[]).expect("immediate").is_err());
    assert!(store.report().errors.is_empty());
}

#[test]
fn the_type_of_a_store_can_be_hidden() {
    let (hidden, limiter) = (AnyStore::new(Limiter::default()), Limiter::default());
    assert!(hidden.is_immediate() && !hidden.is_shared());
    assert_eq!(hidden.report().kind, "memory");
    let (policy, key) = (policy(OnStoreFailure::Open), Key::new("alice").expect("a key"));
    for _ in 0..5 {
        let decision = now_or_never(hidden.check(&policy, &key, Cost::ONE)).expect("immediate").expect("an answer");
        assert_eq!(decision.reason(), limiter.check(&policy, &key, Cost::ONE).reason());
    }
    assert_eq!(now_or_never(hidden.reset(&policy, &key)), Some(Ok(true)));
    assert_eq!(now_or_never(hidden.overrides(&policy)).expect("immediate").expect("an answer").len(), 0);
    assert!(hidden.at_time(Timestamp::from_micros(0)).is_none());
}
