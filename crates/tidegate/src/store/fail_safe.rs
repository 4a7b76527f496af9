//! [`FailSafe`]: a store whose decisions never fail.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{EventCount, Fallback, Metric, Store, StoreError, StoreReport, answer_now, report::DEGRADED_ANSWERS};
use crate::{
    Cost, Decision, Decisions, Hold, Key, Lease, Leased, Op, Policy, PolicySource, Reason, ReservationError,
    ReservationId, Reserved, ReservedAll, Settled, Spend, SpendError, external_store,
};

/// A store whose decisions never fail.
///
/// If the store returns an error, or an answer that contradicts the request, the policy's
/// [`OnStoreFailure`](crate::OnStoreFailure) decides, and the decision is marked [degraded](Decision::is_degraded).
/// Such errors are counted in the [report](Self::report).
///
/// ```
/// use tidegate::{Cost, FailSafe, Key, Limiter, Op, Policy};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = FailSafe::new(Limiter::default());
/// let api = Policy::new("api", ["100/1m".parse()?])?;
/// assert!(store.decide(Op::Check, &api, &Key::new("alice")?, Cost::ONE).await.is_allowed());
/// # Ok(())
/// # }
/// ```
///
/// Clones of it share its counts and the state of the fallback.
#[derive(Clone)]
pub struct FailSafe<S> {
    store: S,
    failures: Arc<Failures>,
    on_error: Option<Arc<OnError>>,
}

/// What is needed only once the store has failed.
#[derive(Default)]
struct Failures {
    fallback: OnceLock<Fallback>,
    unanswered: AtomicU64,
    invalid_answers: AtomicU64,
    last_error: Mutex<Option<StoreError>>,
}

type OnError = dyn Fn(&StoreError) + Send + Sync;

impl<S: Store> FailSafe<S> {
    /// Makes the decisions of `store` never fail.
    pub fn new(store: S) -> Self {
        Self { store, failures: Arc::default(), on_error: None }
    }

    /// Calls `on_error` with each error that a decision met, for logs.
    #[must_use]
    pub fn on_error(mut self, on_error: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Arc::new(on_error));
        self
    }

    /// The store.
    #[inline]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Decides one request.
    #[inline]
    pub async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        let answer = self.store.decide(op, policy, key, cost).await;
        self.accept(answer, op, policy, key, cost)
    }

    /// Decides one request at once if the store is [immediate](Store::is_immediate), or can decide it
    /// [locally](Store::decide_locally); `None` if it can't.
    #[inline]
    pub fn decide_now(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        let answer = if self.store.is_immediate() {
            self.store.decide_now(op, policy, key, cost)
        } else {
            Ok(self.store.decide_locally(op, policy, key, cost)?)
        };
        Some(self.accept(answer, op, policy, key, cost))
    }

    /// Decides several requests as one: all are charged or, if one is denied, none.
    ///
    /// # Errors
    /// If there are no requests or more than 64, if costs add up to more than 10^12, or if two policies of one name
    /// differ.
    pub async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, SpendError> {
        let answer = self.store.decide_all(op, spends).await;
        self.accept_all(answer, op, spends)
    }

    /// Decides several requests at once if the store is [immediate](Store::is_immediate); `None` if it is not.
    ///
    /// # Errors
    /// As [`decide_all`](Self::decide_all).
    pub fn decide_all_now(&self, op: Op, spends: &[Spend<'_>]) -> Option<Result<Decisions, SpendError>> {
        if !self.store.is_immediate() {
            return None;
        }
        Some(self.accept_all(answer_now(self.store.decide_all(op, spends)), op, spends))
    }

    /// Reserves one request. If the store returns an error, or an answer that contradicts the request, the policy's failure
    /// choice decides: `open` admits the request with an id that is never known.
    ///
    /// # Errors
    /// If the hold is malformed, or the store has no reservations.
    pub async fn reserve(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        hold: Hold,
    ) -> Result<Reserved, ReservationError> {
        let error = match self.store.reserve(policy, key, cost, hold).await {
            Ok(reserved) => match problem_of_reserved(&reserved, policy) {
                None => return Ok(reserved),
                Some(problem) => StoreError::InvalidAnswer { problem },
            },
            Err(error) => failure(error)?,
        };
        self.note(&error);
        self.fallback().reserve(policy, key, cost, hold, policy.on_store_failure())
    }

    /// Reserves several requests as one. If the store returns an error, the failure choices of the policies decide.
    ///
    /// # Errors
    /// If the hold is malformed, the requests can't be decided as one, or the store has no reservations.
    pub async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, ReservationError> {
        let error = match self.store.reserve_all(spends, hold).await {
            Ok(reserved) => match problem_of_reserved_all(&reserved, spends) {
                None => return Ok(reserved),
                Some(problem) => StoreError::InvalidAnswer { problem },
            },
            Err(error) => failure(error)?,
        };
        self.note(&error);
        self.fallback().reserve_all(spends, hold)
    }

    /// Commits a hold: see [`Store::commit`]. A hold that the failure choice `local` granted is committed in this process.
    ///
    /// # Errors
    /// If the request is malformed or the store can't answer. A repeated commit is harmless.
    pub async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        if id.is_never_granted() {
            return Ok(self.fallback().commit(id, actual, policies)?);
        }
        let answer = self.store.commit(id, actual, policies).await;
        self.or_local(answer, || self.fallback().commit(id, actual, policies))
    }

    /// Releases a hold: see [`Store::release`].
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn release(&self, id: &ReservationId, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        self.commit(id, &[0], policies).await
    }

    /// Sends a release and does not wait for the answer: see [`Store::release_detached`].
    pub fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        if let Some(fallback) = self.failures.fallback.get() {
            let released = fallback.commit(id, &[0], &policies);
            if released.is_ok_and(|settled| settled.known) {
                return;
            }
        }
        self.store.release_detached(id, policies);
    }

    /// Renews a hold: see [`Store::renew`].
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        if id.is_never_granted() {
            return Ok(self.fallback().renew(id, ttl, policies)?);
        }
        let answer = self.store.renew(id, ttl, policies).await;
        self.or_local(answer, || self.fallback().renew(id, ttl, policies))
    }

    /// Grants a lease. If the store returns an error, the policy's failure choice decides: `open` grants all that is asked,
    /// with an id that is never known.
    ///
    /// # Errors
    /// If the lease is malformed, or the store has no reservations.
    pub async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, ReservationError> {
        let error = match self.store.lease(policy, key, lease).await {
            Ok(leased) => match problem_of_leased(&leased, policy, lease) {
                None => return Ok(leased),
                Some(problem) => StoreError::InvalidAnswer { problem },
            },
            Err(error) => failure(error)?,
        };
        self.note(&error);
        self.fallback().lease(policy, key, lease, policy.on_store_failure())
    }

    /// Settles a lease: see [`Store::settle`]. A lease that the failure choice `local` granted is settled in this process.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn settle(
        &self,
        id: &ReservationId,
        spent: u64,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        if id.is_never_granted() {
            return Ok(self.fallback().settle(id, spent, policies)?);
        }
        let answer = self.store.settle(id, spent, policies).await;
        self.or_local(answer, || self.fallback().settle(id, spent, policies))
    }

    /// The answer of the store or, if it does not know a hold, of the fallback that may have granted it.
    fn or_local(
        &self,
        answer: Result<Settled, StoreError>,
        local: impl FnOnce() -> Result<Settled, ReservationError>,
    ) -> Result<Settled, StoreError> {
        let is_unknown = match &answer {
            Ok(settled) => !settled.known,
            Err(error) => !error.is_caused_by_request() || *error == StoreError::Reservation(ReservationError::Foreign),
        };
        if is_unknown && self.failures.fallback.get().is_some() {
            match local() {
                Ok(settled) if settled.known => return Ok(settled),
                _ => {}
            }
        }
        if let Err(error) = &answer
            && !error.is_caused_by_request()
        {
            self.note(error);
        }
        answer
    }

    /// The store's own report, with the errors that decisions met.
    pub fn report(&self) -> StoreReport {
        let mut report = self.store.report();
        let failures = &*self.failures;
        let (unanswered, invalid) = (failures.unanswered.load(Relaxed), failures.invalid_answers.load(Relaxed));
        let last_error = failures.last_error.lock().as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        report.event_counts.push(EventCount {
            cause: "store_failed",
            count: unanswered,
            what: format!("decisions were made without the store{last_error}").into(),
            cure: "repair the store; until then the policies' on_store_failure decides",
        });
        report.event_counts.push(EventCount {
            cause: "invalid_answer",
            count: invalid,
            what: format!("answers of the store contradicted the request and were not used{last_error}").into(),
            cure: "report this to the author of the store: the tests of tidegate-conformance find such defects",
        });
        let counts = [("store_failed", unanswered), ("invalid_answer", invalid)].into_iter().filter(|(_, n)| *n > 0);
        let answers = counts.clone().map(|(cause, count)| (cause.to_owned(), count));
        match report.metrics.iter_mut().find(|metric| metric.name == DEGRADED_ANSWERS) {
            Some(metric) => metric.values.extend(answers),
            None => report.metrics.push(Metric::degraded_answers(answers)),
        }
        report.errors.extend(counts);
        report
    }

    #[inline]
    fn accept(
        &self,
        answer: Result<Decision, StoreError>,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> Decision {
        let error = match answer {
            Ok(decision) => match problem(&decision, policy, op) {
                None => return decision,
                Some(problem) => StoreError::InvalidAnswer { problem },
            },
            // A failure choice must not admit what no store can decide.
            Err(StoreError::Reservation(_)) => return external_store::impossible(policy),
            Err(error) => error,
        };
        self.decide_without_store(&error, op, policy, key, cost)
    }

    #[cold]
    fn decide_without_store(&self, error: &StoreError, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        if op != Op::Peek && policy.has_in_flight_limit() {
            return external_store::impossible(policy);
        }
        self.note(error);
        self.fallback().decide(op, policy, key, cost, policy.on_store_failure())
    }

    fn accept_all(
        &self,
        answer: Result<Decisions, StoreError>,
        op: Op,
        spends: &[Spend<'_>],
    ) -> Result<Decisions, SpendError> {
        let error = match answer {
            Ok(decisions) => match problem_of_all(&decisions, spends, op) {
                None => return Ok(decisions),
                Some(problem) => StoreError::InvalidAnswer { problem },
            },
            Err(StoreError::Spend(error)) => return Err(error),
            Err(error) => error,
        };
        let (distinct, part_of) = external_store::distinct(spends)?;
        if op != Op::Peek {
            external_store::refuse_in_flight(spends)?;
        }
        self.note(&error);
        let decided = self.fallback().decide_all(op, &distinct);
        Ok(external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect()))
    }

    fn fallback(&self) -> &Fallback {
        self.failures.fallback.get_or_init(Fallback::default)
    }

    fn note(&self, error: &StoreError) {
        let is_invalid = matches!(error, StoreError::InvalidAnswer { .. });
        let failures = &*self.failures;
        if is_invalid { &failures.invalid_answers } else { &failures.unanswered }.fetch_add(1, Relaxed);
        *failures.last_error.lock() = Some(error.clone());
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for FailSafe<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailSafe").field("store", &self.store).finish_non_exhaustive()
    }
}

/// The error of a store that did not answer a request for a reservation. An error in the request is returned as such, and
/// so is a store without reservations: a failure choice must not pretend that it has them.
fn failure(error: StoreError) -> Result<StoreError, ReservationError> {
    match error {
        StoreError::Reservation(error) => Err(error),
        StoreError::Spend(error) => Err(error.into()),
        StoreError::Unsupported { operation } => Err(ReservationError::Unsupported { operation }),
        error => Ok(error),
    }
}

/// Why a decision can't be the answer to a request under `policy`; `None` if it can.
#[inline]
fn problem(decision: &Decision, policy: &Policy, op: Op) -> Option<&'static str> {
    if decision.remaining() > decision.capacity() {
        return Some("more units remain than the limit allows");
    }
    // An override has other limits, and so has the share of a limit that decides while the store is not available.
    if !decision.is_overridden() && !decision.is_degraded() {
        let mut limits = policy.limits().iter().zip(policy.specs());
        if !limits.any(|(limit, rule)| *limit == decision.limit() && rule.capacity == decision.capacity()) {
            return Some("the limit that decided is not a limit of the policy");
        }
    }
    match decision.reason() {
        Reason::Allowed if decision.retry_after().is_some() => Some("an allowed request has a retry time"),
        Reason::Limited if decision.retry_after().is_none() => Some("a limited request has no retry time"),
        Reason::Limited | Reason::Impossible | Reason::Banned if decision.charged_at().is_some() => {
            Some("a denied request was charged")
        }
        _ if op == Op::Peek && decision.charged_at().is_some() => Some("a peek was charged"),
        _ => None,
    }
}

/// Why several decisions can't be the answer to `spends`; `None` if they can.
fn problem_of_all(decisions: &Decisions, spends: &[Spend<'_>], op: Op) -> Option<&'static str> {
    let Decisions { overall, parts } = decisions;
    if parts.len() != spends.len() {
        return Some("the number of decisions is not the number of requests");
    }
    let Some(decided) = spends.get(overall.part()) else {
        return Some("the request that decided does not exist");
    };
    let of_part = |(spend, part): (&Spend<'_>, &Decision)| problem(part, spend.policy, op);
    problem(overall, decided.policy, op).or_else(|| spends.iter().zip(parts).find_map(of_part))
}

/// Why the answer to a reserve can't be one; `None` if it can.
fn problem_of_reserved(reserved: &Reserved, policy: &Policy) -> Option<&'static str> {
    problem(&reserved.decision, policy, Op::Check)
        .or_else(|| problem_of_id(reserved.id.is_some(), reserved.decision.is_allowed()))
}

/// Why the answer to a reserve of several requests can't be one; `None` if it can.
fn problem_of_reserved_all(reserved: &ReservedAll, spends: &[Spend<'_>]) -> Option<&'static str> {
    problem_of_all(&reserved.decisions, spends, Op::Check)
        .or_else(|| problem_of_id(reserved.id.is_some(), reserved.decisions.overall.is_allowed()))
}

/// Why the answer to a lease can't be one; `None` if it can.
fn problem_of_leased(leased: &Leased, policy: &Policy, lease: &Lease) -> Option<&'static str> {
    let Leased { decision, id, granted, .. } = leased;
    if let Some(problem) = problem(decision, policy, Op::Check) {
        return Some(problem);
    }
    let is_between = (lease.least.get()..=lease.asked.get()).contains(granted);
    match decision.reason() {
        Reason::Allowed if !is_between => Some("the granted units are not between the least and the asked units"),
        // A shadow policy may admit a lease that is not granted.
        Reason::Shadow if *granted > 0 && !is_between => {
            Some("the granted units are not between the least and the asked units")
        }
        Reason::Allowed | Reason::Shadow => problem_of_id(id.is_some(), *granted > 0),
        _ if *granted > 0 => Some("a denied lease was granted units"),
        _ => problem_of_id(id.is_some(), false),
    }
}

fn problem_of_id(has_id: bool, is_granted: bool) -> Option<&'static str> {
    match (has_id, is_granted) {
        (true, false) => Some("a denied reservation has an id"),
        (false, true) => Some("an admitted reservation has no id"),
        _ => None,
    }
}
