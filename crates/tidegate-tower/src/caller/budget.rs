//! [`Budget`]: a quota for calls, and the queue of callers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use tidegate::{
    Cost, Decision, Decisions, FailSafe, Hold, HoldGuard, Key, Limit, Limiter, Mode, Policy, Reason, Store,
    external_store,
};
use tokio::time::{self, Instant};

use crate::service::log_error;

use super::{
    acquire_error::AcquireError,
    call::{Call, CallCost, Operation},
    fair_queue::FairQueue,
    held_call::{HeldCall, release_without_waiting},
    pauses::{self, Pauses},
    permit::{Permit, PolicyCharge},
    reservation::{OwnedSpend, charge, hold},
    server_wait::wait_from_headers,
    wait::{Wait, WaitReason, sleep},
};

/// A quota for calls, by key, under one policy or several at once.
///
/// Clones share one state. Callers that wait for the same key are served in the order of their arrival, whatever their
/// costs.
#[derive(Debug, Clone)]
pub struct Budget<S = Arc<Limiter>> {
    settings: Arc<Settings>,
    pub(super) waiting: Arc<WaitState>,
    store: FailSafe<S>,
    max_wait: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Settings {
    policies: Vec<Policy>,
    operations: BTreeMap<Box<str>, Operation>,
    max_waiting: usize,
    default_pause: Duration,
    /// Shares pauses with other processes.
    pause_policy: Policy,
}

#[derive(Debug, Default)]
pub(super) struct WaitState {
    pub(super) queue: FairQueue,
    pauses: Pauses,
}

/// What a call has taken from the budget.
enum Taken<S: Store> {
    /// Charges.
    Charges(Vec<PolicyCharge>),
    /// A hold.
    Hold(Box<HoldGuard<FailSafe<S>>>),
}

impl Budget {
    /// A budget by one policy. The state is in the memory of this process.
    pub fn new(policy: Policy) -> Self {
        Self::all([policy])
    }

    /// A budget by several policies, such as requests per minute and tokens per minute. A call is charged under all of
    /// them or under none.
    ///
    /// # Panics
    /// If there are no policies or more than 63.
    pub fn all(policies: impl IntoIterator<Item = Policy>) -> Self {
        let policies: Vec<Policy> = policies.into_iter().collect();
        assert!((1..=63).contains(&policies.len()), "a budget has 1 to 63 policies, not {}", policies.len());
        let settings = Settings {
            pause_policy: pauses::policy(&policies[0]),
            policies,
            operations: BTreeMap::new(),
            max_waiting: 100_000,
            default_pause: Duration::from_secs(1),
        };
        let store = FailSafe::new(Arc::default()).on_error(log_error);
        Self { settings: Arc::new(settings), waiting: Arc::default(), store, max_wait: None }
    }
}

impl<S: Store + Clone + 'static> Budget<S> {
    /// Keeps the budget in `store`: an `Arc<Limiter>` that other parts of the program share, a `RedisStore` of
    /// tidegate-redis, or any other [`Store`]. Processes that share a store share the budget, and a pause in one of them
    /// is a pause in all.
    pub fn in_store<T: Store + Clone + 'static>(self, store: T) -> Budget<T> {
        let store = FailSafe::new(store).on_error(log_error);
        Budget { settings: self.settings, waiting: self.waiting, store, max_wait: self.max_wait }
    }

    /// The same budget with a maximum wait for each call. By default there is none. With a maximum of zero, a call that
    /// does not fit at once fails with the time to wait, unless other callers are first in the queue.
    #[must_use]
    pub fn with_max_wait(&self, max_wait: Duration) -> Self {
        Self { max_wait: Some(max_wait), ..self.clone() }
    }

    /// Adds a named operation, for [`acquire_operation`](Self::acquire_operation).
    #[must_use]
    pub fn operation(mut self, name: &str, operation: Operation) -> Self {
        Arc::make_mut(&mut self.settings).operations.insert(name.into(), operation);
        self
    }

    /// Sets the maximum number of waiting callers, over all keys; 100,000 by default.
    #[must_use]
    pub fn max_waiting(mut self, max: usize) -> Self {
        Arc::make_mut(&mut self.settings).max_waiting = max.max(1);
        self
    }

    /// Sets the pause after a 429 or 503 without a wait; one second by default.
    #[must_use]
    pub fn default_pause(mut self, pause: Duration) -> Self {
        Arc::make_mut(&mut self.settings).default_pause = pause;
        self
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.store.store()
    }

    pub(super) fn policies(&self) -> &[Policy] {
        &self.settings.policies
    }

    /// The number of waiting callers.
    pub fn waiting(&self) -> usize {
        self.waiting.queue.waiting()
    }

    /// Queues until `cost` units of every policy fit, and spends them. If the future is dropped, the caller leaves the
    /// queue and nothing is spent.
    ///
    /// # Errors
    /// If the call does not fit, or not in time.
    pub async fn acquire(&self, key: &Key<'_>, cost: Cost) -> Result<Permit<S>, AcquireError> {
        self.acquire_call(Call::new(key).cost(cost)).await
    }

    /// Like [`acquire`](Self::acquire), with a cost for each policy, in order.
    ///
    /// # Errors
    /// If the call does not fit, or not in time, or if the number of costs is wrong.
    pub async fn acquire_each(&self, key: &Key<'_>, costs: &[Cost]) -> Result<Permit<S>, AcquireError> {
        self.acquire_call(Call::new(key).costs(costs)).await
    }

    /// Like [`acquire`](Self::acquire), at the cost of a named [operation](Self::operation).
    ///
    /// # Errors
    /// If the call does not fit, or not in time, or if there is no such operation.
    pub async fn acquire_operation(&self, key: &Key<'_>, operation: &str) -> Result<Permit<S>, AcquireError> {
        self.acquire_call(Call::new(key).operation(operation)).await
    }

    /// Like [`acquire`](Self::acquire), with the key and the cost of a [`Call`].
    ///
    /// # Errors
    /// If the call does not fit, or not in time.
    pub async fn acquire_call(&self, call: Call) -> Result<Permit<S>, AcquireError> {
        match self.take(&call, None).await? {
            (decision, Taken::Charges(charges)) => {
                Ok(Permit { budget: self.clone(), key: call.key, charges, decision })
            }
            (_, Taken::Hold(_)) => unreachable!("no hold was requested"),
        }
    }

    /// Queues until `cost` units of every policy fit, and reserves them until the cost of the call is known. If the future
    /// is dropped, the caller leaves the queue and nothing is reserved.
    ///
    /// [Commit](HeldCall::commit) what the call has spent. If the call is dropped, all of its units are given back. If the
    /// process dies, the hold ends by itself. A limit such as `4/inflight` bounds the number of calls at once: it needs
    /// holds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Cost, Hold, Key, Policy};
    /// use tidegate_tower::caller::Budget;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # async fn complete(_prompt: &str) -> Result<u64, std::io::Error> { Ok(321) }
    /// let budget = Budget::all([
    ///     Policy::new("calls", ["4/inflight".parse()?])?,
    ///     Policy::new("tokens", ["30000/1m".parse()?])?,
    /// ]);
    /// let model = Key::new("some-model")?;
    /// let hold = Hold::new(Duration::from_secs(120)).spent_at_end();
    /// let call = budget.reserve_each(&model, &[Cost::ONE, Cost::new(1500)?], hold).await?;
    /// // If this fails, or if this future is dropped meanwhile, all of the units are given back.
    /// let tokens = complete("…").await?;
    /// call.commit_each(&[1, tokens]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the call does not fit, or not in time, or if the ttl of the hold is out of range.
    pub async fn reserve(&self, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<HeldCall<S>, AcquireError> {
        self.reserve_call(Call::new(key).cost(cost), hold).await
    }

    /// Like [`reserve`](Self::reserve), with a cost for each policy, in order.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), or if the number of costs is wrong.
    pub async fn reserve_each(&self, key: &Key<'_>, costs: &[Cost], hold: Hold) -> Result<HeldCall<S>, AcquireError> {
        self.reserve_call(Call::new(key).costs(costs), hold).await
    }

    /// Like [`reserve`](Self::reserve), with the key and the cost of a [`Call`].
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub async fn reserve_call(&self, call: Call, hold: Hold) -> Result<HeldCall<S>, AcquireError> {
        match self.take(&call, Some(hold)).await? {
            (decision, Taken::Hold(guard)) => {
                Ok(HeldCall::new(self.clone(), call.key, *guard, decision, self.settings.policies.len()))
            }
            (_, Taken::Charges(_)) => unreachable!("a hold was requested"),
        }
    }

    /// Queues until a call fits, and charges it or, if there is a hold, reserves it.
    async fn take(&self, call: &Call, hold: Option<Hold>) -> Result<(Decision, Taken<S>), AcquireError> {
        let spends = self.spends(call)?;
        // A maximum wait beyond the range of the clock is no maximum.
        let deadline = self.max_wait.and_then(|max_wait| Instant::now().checked_add(max_wait));
        let max = self.settings.max_waiting;
        let member = self.waiting.queue.join(&call.key, max).ok_or(AcquireError::QueueFull { max })?;
        let lock = &member.lock;
        let _first = match deadline {
            None => lock.first.lock().await,
            Some(deadline) => {
                time::timeout_at(deadline, lock.first.lock()).await.map_err(|_| AcquireError::TimedOut)?
            }
        };
        loop {
            // Registered before the store decides, so that no refund in the meantime is missed.
            let refunded = lock.refunded.notified();
            let taken = match self.waiting.pauses.remaining(&call.key) {
                Some(time) => Err(Wait { time, reason: WaitReason::Pause }),
                None => self.try_take(&spends, hold).await?,
            };
            match taken {
                Ok((decision, taken)) => match self.waiting.pauses.remaining(&call.key) {
                    None => return Ok((decision, taken)),
                    // The key was paused while the store decided.
                    Some(_) => self.give_back(&call.key, decision, taken).await,
                },
                Err(wait) => sleep(refunded, wait, deadline, self.store.store().is_shared()).await?,
            }
        }
    }

    /// Gives back what a call has taken.
    async fn give_back(&self, key: &Key<'static>, decision: Decision, taken: Taken<S>) {
        match taken {
            Taken::Charges(charges) => {
                refund(Permit { budget: self.clone(), key: key.clone(), charges, decision }).await;
            }
            Taken::Hold(guard) => release_without_waiting(*guard, self.store().is_immediate(), || {}),
        }
    }

    /// What a call spends under each policy.
    fn spends(&self, call: &Call) -> Result<Vec<OwnedSpend>, AcquireError> {
        let policies = &self.settings.policies;
        let (costs, on_store_failure) = match &call.cost {
            CallCost::Uniform(cost) => (vec![*cost; policies.len()], None),
            CallCost::PerPolicy(costs) if costs.len() == policies.len() => (costs.to_vec(), None),
            CallCost::PerPolicy(costs) => {
                return Err(AcquireError::CostCount { given: costs.len(), policies: policies.len() });
            }
            CallCost::Operation(name) => {
                let operations = &self.settings.operations;
                let Some(operation) = operations.get(name) else {
                    let known: Vec<&str> = operations.keys().map(AsRef::as_ref).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    return Err(AcquireError::UnknownOperation { name: name.to_string(), known });
                };
                (vec![operation.cost; policies.len()], operation.on_store_failure)
            }
        };
        let spend = |(policy, cost): (&Policy, Cost)| {
            let policy = match on_store_failure {
                Some(choice) => policy.clone().with_on_store_failure(choice),
                None => policy.clone(),
            };
            OwnedSpend { policy, key: call.key.clone(), cost }
        };
        let spends: Vec<OwnedSpend> = policies.iter().zip(costs).map(spend).collect();
        // A call that can never fit fails before it joins the queue.
        for OwnedSpend { policy, cost, .. } in spends.iter().filter(|spend| spend.policy.mode() == Mode::Enforce) {
            let too_small = |limit: &&Limit| policy.capacity(**limit) < cost.get();
            if let Some(limit) = policy.limits().iter().find(too_small) {
                return Err(AcquireError::Impossible { cost: cost.get(), limit: *limit });
            }
        }
        Ok(spends)
    }

    /// Takes all of `spends` if they fit. Returns why the call has to wait if they don't.
    async fn try_take(
        &self,
        spends: &[OwnedSpend],
        with_hold: Option<Hold>,
    ) -> Result<Result<(Decision, Taken<S>), Wait>, AcquireError> {
        let is_shared = self.store.store().is_shared();
        let mut all = spends.to_vec();
        if is_shared {
            let key = spends[0].key.clone();
            all.push(OwnedSpend { policy: self.settings.pause_policy.clone(), key, cost: Cost::ONE });
        }
        let (decisions, guard) = match with_hold {
            None => (charge(&self.store, all).await?, None),
            Some(with) => hold(&self.store, all, with).await?,
        };
        let overall = decisions.overall;
        match overall.reason() {
            Reason::Allowed | Reason::Shadow => {
                // The caller learns of the budget's own policies, without the policy of the pause.
                let mut own = decisions.parts;
                own.truncate(spends.len());
                let decisions = external_store::combine(&OwnedSpend::borrow_all(spends), own);
                let taken = match (with_hold, guard) {
                    (None, _) => Taken::Charges(charges(spends, &decisions, is_shared)),
                    (Some(_), Some(guard)) => Taken::Hold(Box::new(guard)),
                    (Some(_), None) => return Err(AcquireError::StoreUnavailable),
                };
                Ok(Ok((decisions.overall, taken)))
            }
            Reason::Limited => {
                let reason = match overall.limit() {
                    _ if overall.part() >= spends.len() => WaitReason::Pause,
                    limit if limit.is_in_flight() => WaitReason::OpenHolds,
                    _ => WaitReason::Window,
                };
                Ok(Err(Wait { time: overall.retry_after().unwrap_or_default(), reason }))
            }
            Reason::Banned => Err(AcquireError::Banned { retry_after: overall.retry_after() }),
            Reason::Impossible => {
                let spend = &spends[overall.part().min(spends.len() - 1)];
                Err(AcquireError::Impossible { cost: spend.cost.get(), limit: overall.limit() })
            }
            _ => Err(AcquireError::StoreUnavailable),
        }
    }

    /// Pauses a key, for all callers that share the budget, if the server's response requests a wait. Returns the wait.
    ///
    /// [`wait_from_headers`] reads the wait. A 429 or 503 without a wait pauses for
    /// [`default_pause`](Self::default_pause).
    pub async fn apply_response(&self, key: &Key<'_>, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        let wait = self.server_wait(status, headers)?;
        self.pause(key, wait).await;
        Some(wait)
    }

    /// The wait that a response requests, or the default pause if the server rejected the call without a wait.
    pub(super) fn server_wait(&self, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        // 8 is `RESOURCE_EXHAUSTED` of a gRPC call that failed before it sent a message.
        let is_rejected = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            || headers.get("grpc-status").is_some_and(|code| code == "8");
        wait_from_headers(status, headers, self.store.store().clock().now())
            .or(is_rejected.then_some(self.settings.default_pause))
    }

    /// Pauses a key for at least `wait`, for all callers that share the budget. A pause is never shortened.
    pub async fn pause(&self, key: &Key<'_>, wait: Duration) {
        self.waiting.pauses.pause(key, wait);
        if self.store.store().is_shared() {
            pauses::share(&self.store, &self.settings.pause_policy, key, wait).await;
        }
    }
}

/// Refunds a permit that was not returned, even if the caller stops waiting.
async fn refund<S: Store + Clone + 'static>(permit: Permit<S>) {
    let is_immediate = permit.budget.store().is_immediate();
    let refunded =
        if is_immediate { permit.refund().await } else { tokio::spawn(permit.refund()).await.unwrap_or(Ok(())) };
    if let Err(error) = refunded {
        tracing::warn!("the store did not refund a call that has to wait: {error}");
    }
}

/// The charges of a call.
fn charges(spends: &[OwnedSpend], decisions: &Decisions, is_shared: bool) -> Vec<PolicyCharge> {
    let charge = |(spend, decision): (&OwnedSpend, &Decision)| PolicyCharge {
        policy: spend.policy.clone(),
        cost: spend.cost,
        at: decision.charged_at(),
        is_degraded: is_shared && decision.is_degraded(),
    };
    spends.iter().zip(&decisions.parts).map(charge).collect()
}
