//! [`Budget`]: what may be spent, and waiting for it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use tidegate::{
    Cost, Decision, FailSafe, Key, Limit, Limiter, Mode, Policy, Reason, SpendError, Store, external_store,
};
use tokio::{
    sync::futures::Notified,
    time::{self, Instant},
};

use crate::service::log_error;

use super::{
    call::{Call, Operation, Price},
    pauses::{self, Pauses},
    permit::{Held, Permit},
    reservation::{Charge, ReserveError, reserve},
    turns::Turns,
    word,
};

/// What may be spent on calls: by one policy or by several at once, by key.
///
/// Its clones share everything. Those who wait for one key wait in turn: who came first is served first, however much it asks for.
#[derive(Debug, Clone)]
pub struct Budget<S = Arc<Limiter>> {
    settings: Arc<Settings>,
    waiting: Arc<Waiting>,
    store: FailSafe<S>,
    patience: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Settings {
    policies: Vec<Policy>,
    operations: BTreeMap<Box<str>, Operation>,
    most_waiting: usize,
    unsaid_pause: Duration,
    /// By which others are told of a pause.
    pause: Policy,
}

#[derive(Debug, Default)]
struct Waiting {
    turns: Turns,
    pauses: Pauses,
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// It costs more than a limit ever allows.
    #[error("the call costs {cost}, more than {limit} ever allows: waiting does not help")]
    Impossible {
        /// What it costs.
        cost: u64,
        /// The limit.
        limit: Limit,
    },
    /// An operator has banned the key. The error is returned at once, even if the ban has an end.
    #[error("the key is banned from this budget{}", ends(*.retry_after))]
    Banned {
        /// How long until the ban ends; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// It would fit, but not in time: known at once, and not waited for.
    #[error("the budget allows the call in {retry_after:?}, later than it may wait")]
    TooLate {
        /// When it would fit if nobody else spends.
        retry_after: Duration,
    },
    /// Its turn did not come in time.
    #[error("others were before it for as long as it might wait")]
    TimedOut,
    /// As many as may wait already do.
    #[error("{most} calls wait already, as many as may")]
    Crowded {
        /// How many may.
        most: usize,
    },
    /// The store failed, and the choice for that case is not to go ahead.
    #[error("what is left of the budget can't be found out, and the call must not be made without knowing")]
    StoreUnavailable,
    /// The budget knows no such operation.
    #[error("the budget has no operation `{name}`; it has: {known}")]
    UnknownOperation {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// There is not one cost for each policy.
    #[error("{given} costs for {policies} policies: give one for each, in order")]
    Costs {
        /// How many costs there are.
        given: usize,
        /// How many policies.
        policies: usize,
    },
    /// The policies can't be one decision.
    #[error(transparent)]
    Malformed(#[from] SpendError),
}

impl Budget {
    /// What `policy` allows, counted in this process's memory.
    pub fn new(policy: Policy) -> Self {
        Self::all([policy])
    }

    /// What all of `policies` allow: a call is paid for under each of them or under none. Requests per minute and tokens
    /// per minute, for example.
    ///
    /// # Panics
    /// If there are none or more than 63.
    pub fn all(policies: impl IntoIterator<Item = Policy>) -> Self {
        let policies: Vec<Policy> = policies.into_iter().collect();
        assert!((1..=63).contains(&policies.len()), "{} policies can't be one budget: use 1 to 63", policies.len());
        let settings = Settings {
            pause: pauses::policy(&policies[0]),
            policies,
            operations: BTreeMap::new(),
            most_waiting: 100_000,
            unsaid_pause: Duration::from_secs(1),
        };
        let store = FailSafe::new(Arc::default()).on_error(log_error);
        Self { settings: Arc::new(settings), waiting: Arc::default(), store, patience: None }
    }
}

impl<S: Store + Clone + 'static> Budget<S> {
    /// Keeps the budget in `store`: an `Arc<Limiter>` that other parts of the program share, or a store that processes
    /// share, such as `RedisStore`. Processes that share a store spend from one budget, and all of them wait when the
    /// server tells one of them to wait.
    pub fn in_store<T: Store + Clone + 'static>(self, store: T) -> Budget<T> {
        let store = FailSafe::new(store).on_error(log_error);
        Budget { settings: self.settings, waiting: self.waiting, store, patience: self.patience }
    }

    /// The same budget for those who wait no longer than this; without, as long as it takes. With no time at all, whoever can't go
    /// ahead at once is told when it could, unless others are before it.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self.clone() }
    }

    /// Names a kind of call and what it costs, for [`acquire_for`](Self::acquire_for).
    #[must_use]
    pub fn operation(mut self, name: &str, operation: Operation) -> Self {
        Arc::make_mut(&mut self.settings).operations.insert(name.into(), operation);
        self
    }

    /// How many may wait at once, over all keys; 100,000 if unsaid.
    #[must_use]
    pub fn most_waiting(mut self, most: usize) -> Self {
        Arc::make_mut(&mut self.settings).most_waiting = most.max(1);
        self
    }

    /// How long to wait after a 429 or 503 that does not say how long; a second if unsaid.
    #[must_use]
    pub fn unsaid_pause(mut self, pause: Duration) -> Self {
        Arc::make_mut(&mut self.settings).unsaid_pause = pause;
        self
    }

    /// Where it is kept.
    pub fn store(&self) -> &S {
        self.store.store()
    }

    /// How many wait at this moment.
    pub fn waiting(&self) -> usize {
        self.waiting.turns.waiting()
    }

    /// Waits in turn until `cost` units of every policy may be spent, and spends them. To drop the future is to leave the line: nothing is
    /// spent then.
    ///
    /// # Errors
    /// If the call can't be made, or not in time.
    pub async fn acquire(&self, key: &Key<'_>, cost: Cost) -> Result<Permit<S>, AcquireError> {
        self.fill(Call::new(key).cost(cost)).await
    }

    /// The same with so much of each policy, in order.
    ///
    /// # Errors
    /// If the call can't be made, or not in time; or if there is not one cost for each policy.
    pub async fn acquire_each(&self, key: &Key<'_>, costs: &[Cost]) -> Result<Permit<S>, AcquireError> {
        self.fill(Call::new(key).costs(costs)).await
    }

    /// The same at the price of a named [operation](Self::operation).
    ///
    /// # Errors
    /// If the call can't be made, or not in time; or if there is no such operation.
    pub async fn acquire_for(&self, key: &Key<'_>, operation: &str) -> Result<Permit<S>, AcquireError> {
        self.fill(Call::new(key).operation(operation)).await
    }

    /// The same for an [`Call`].
    ///
    /// # Errors
    /// If the call can't be made, or not in time.
    pub async fn fill(&self, order: Call) -> Result<Permit<S>, AcquireError> {
        let charges = self.charges(&order)?;
        // Who waits longer than there is time waits as long as it takes.
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        let most = self.settings.most_waiting;
        let in_line = self.waiting.turns.enter(&order.key, most).ok_or(AcquireError::Crowded { most })?;
        let turn = in_line.turn();
        let _first = match deadline {
            None => turn.first.lock().await,
            Some(deadline) => {
                time::timeout_at(deadline, turn.first.lock()).await.map_err(|_| AcquireError::TimedOut)?
            }
        };
        loop {
            // From before the store is asked, so that nothing is overlooked that is given back meanwhile.
            let freed = turn.freed.notified();
            let asked = match self.waiting.pauses.left(&order.key) {
                Some(left) => Err(left),
                None => self.ask(&charges).await?,
            };
            match asked {
                Ok((decision, held)) => {
                    let permit = Permit { budget: self.clone(), key: order.key.clone(), held, decision };
                    match self.waiting.pauses.left(&order.key) {
                        None => return Ok(permit),
                        // The server has spoken while the store was asked.
                        Some(_) => refund(permit).await,
                    }
                }
                Err(wait) => sleep(freed, wait, deadline).await?,
            }
        }
    }

    /// What is asked of the store for an order.
    fn charges(&self, order: &Call) -> Result<Vec<Charge>, AcquireError> {
        let policies = &self.settings.policies;
        let charge = |policy: Policy, cost| Charge { policy, key: order.key.clone(), cost };
        let charges: Vec<Charge> = match &order.price {
            Price::Same(cost) => policies.iter().map(|policy| charge(policy.clone(), *cost)).collect(),
            Price::Each(costs) if costs.len() == policies.len() => {
                policies.iter().zip(costs).map(|(policy, cost)| charge(policy.clone(), *cost)).collect()
            }
            Price::Each(costs) => {
                return Err(AcquireError::Costs { given: costs.len(), policies: policies.len() });
            }
            Price::Operation(name) => {
                let operations = &self.settings.operations;
                let Some(operation) = operations.get(name) else {
                    let known: Vec<&str> = operations.keys().map(AsRef::as_ref).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    return Err(AcquireError::UnknownOperation { name: name.to_string(), known });
                };
                let chosen = |policy: &Policy| match operation.on_store_failure {
                    Some(choice) => policy.clone().with_on_store_failure(choice),
                    None => policy.clone(),
                };
                policies.iter().map(|policy| charge(chosen(policy), operation.cost)).collect()
            }
        };
        // Nobody has to wait to be told that waiting does not help.
        for Charge { policy, cost, .. } in charges.iter().filter(|charge| charge.policy.mode() == Mode::Enforce) {
            let too_small = |limit: &&Limit| policy.capacity(**limit) < cost.get();
            if let Some(limit) = policy.limits().iter().find(too_small) {
                return Err(AcquireError::Impossible { cost: cost.get(), limit: *limit });
            }
        }
        Ok(charges)
    }

    /// Asks the store. Returns what it charged, or how long to wait.
    async fn ask(&self, charges: &[Charge]) -> Result<Result<(Decision, Vec<Held>), Duration>, AcquireError> {
        let is_shared = self.store.store().is_shared();
        let mut all = charges.to_vec();
        if is_shared {
            let key = charges[0].key.clone();
            all.push(Charge { policy: self.settings.pause.clone(), key, cost: Cost::ONE });
        }
        let decisions = reserve(&self.store, all).await.map_err(|error| match error {
            ReserveError::Malformed(error) => AcquireError::Malformed(error),
            ReserveError::Shutdown => AcquireError::StoreUnavailable,
        })?;
        let overall = decisions.overall;
        match overall.reason() {
            Reason::Allowed | Reason::Shadow => {
                // Of the budget alone: that nobody has paused it is nothing to tell of.
                let mut own = decisions.parts;
                own.truncate(charges.len());
                let decisions = external_store::combine(&Charge::spends(charges), own);
                let held = |(charge, decision): (&Charge, &Decision)| Held {
                    policy: charge.policy.clone(),
                    cost: charge.cost,
                    at: decision.charged_at(),
                    is_degraded: is_shared && decision.is_degraded(),
                };
                Ok(Ok((decisions.overall, charges.iter().zip(&decisions.parts).map(held).collect())))
            }
            Reason::Limited => Ok(Err(overall.retry_after().unwrap_or_default())),
            Reason::Banned => Err(AcquireError::Banned { retry_after: overall.retry_after() }),
            Reason::Impossible => {
                let charge = &charges[overall.part().min(charges.len() - 1)];
                Err(AcquireError::Impossible { cost: charge.cost.get(), limit: overall.limit() })
            }
            _ => Err(AcquireError::StoreUnavailable),
        }
    }

    /// Minds what a server says of its own limits: if it asks to wait, the key is paused, for everyone who shares the budget.
    /// Returns how long. [`wait_asked`](super::wait_asked) tells what is minded; a 429 or 503 that does not say how long pauses for
    /// [`unsaid_pause`](Self::unsaid_pause).
    pub async fn obey(&self, key: &Key<'_>, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        let wait = self.wait_told(status, headers)?;
        self.pause(key, wait).await;
        Some(wait)
    }

    /// How long a response pauses its key.
    pub(super) fn wait_told(&self, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        // 8 is `RESOURCE_EXHAUSTED`, of a gRPC call that failed at once.
        let refused = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            || headers.get("grpc-status").is_some_and(|code| code == "8");
        word::wait_asked(status, headers, self.store.store().clock().now())
            .or(refused.then_some(self.settings.unsaid_pause))
    }

    /// Lets nobody who shares the budget call for a key before `wait` has passed. It is never made shorter.
    pub async fn pause(&self, key: &Key<'_>, wait: Duration) {
        self.waiting.pauses.pause(key, wait);
        if self.store.store().is_shared() {
            pauses::tell(&self.store, &self.settings.pause, key, wait).await;
        }
    }

    /// Something was given back: whoever waits may ask again.
    pub(crate) fn freed(&self, key: &Key<'_>) {
        self.waiting.turns.freed(key);
    }
}

fn ends(after: Option<Duration>) -> String {
    after.map_or_else(|| ", and the ban has no end".to_owned(), |after| format!(": the ban ends in {after:?}"))
}

/// Gives a permit back that nobody is to have, whether or not somebody still waits.
async fn refund<S: Store + Clone + 'static>(permit: Permit<S>) {
    let is_immediate = permit.budget.store().is_immediate();
    let refunded =
        if is_immediate { permit.refund().await } else { tokio::spawn(permit.refund()).await.unwrap_or(Ok(())) };
    if let Err(error) = refunded {
        tracing::warn!("units of a call that has to wait were not given back: {error}");
    }
}

/// Sleeps until it makes sense to ask again, unless that is too late.
async fn sleep(freed: Notified<'_>, wait: Duration, deadline: Option<Instant>) -> Result<(), AcquireError> {
    let until = Instant::now() + wait;
    if deadline.is_some_and(|deadline| until > deadline) {
        return Err(AcquireError::TooLate { retry_after: wait });
    }
    tokio::select! {
        () = time::sleep_until(until) => {}
        () = freed => {}
    }
    Ok(())
}
