//! [`Service`]: the part that all transports share. It finds policies, looks up costs, handles failures of the store and counts
//! decisions. A transport turns bytes into a [`KeyRequest`] and an answer into bytes.
//!
//! `request` has the types of requests and answers, `keys` the operations on single keys other than decisions, `key_labels` how
//! keys are shown, `hashed_keys` how a hash is looked up, `reload` the replacement of policies, `degraded` and `degraded_states` the degraded states, and `observer` the
//! interface for the dashboard. `reservations` has the operations on holds and leases, and `open_holds` counts the holds of this process.

mod degraded;
mod degraded_states;
mod hashed_keys;
mod key_labels;
mod keys;
mod observer;
mod open_holds;
mod reload;
mod request;
mod reservations;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tidegate::{
    Algorithm, AnyStore, Clock, Cost, Decision, Decisions, Degradation, FailSafe, Limit, Op, Policy, ReservationError,
    Spend, Store, StoreError, StoreReport, format_duration,
};
use tidegate_remote::RemoteStore;

pub(crate) use self::{
    degraded::Degraded,
    hashed_keys::InspectedKeys,
    key_labels::{KeyLabeller, KeyVisibility},
    observer::{Event, KeyChange, Observer, PolicyObserver},
    reload::{CERTIFICATE_REFUSED, CONFIGURATION_REFUSED},
    request::field_of,
};
pub use self::{
    degraded::DegradedState,
    key_labels::{KeyLabel, KeyText},
    request::{
        Actor, ChangedReservation, KeyRequest, LeaseDecision, LimitSource, PolicyDecision, PolicyDecisions, Price,
        Refusal, ReservationChange, ReservedDecision, ResolvedPolicy,
    },
};
use crate::{
    auth::WrongTokens,
    config::{CallerLimits, Config, ConfigError, ConfiguredPolicy, Policies, RESERVED_NAME, ServerSettings},
    guarded_store::GuardedStore,
    metrics::{DecisionClass, Metrics, PolicyCounters, Stopwatch, Transport},
    store::{self, Opened},
};

/// Maximum number of policies in the error for an unknown one.
const MAX_LISTED: usize = 5;

/// A service without its transports.
#[derive(Debug)]
pub struct Service {
    active: ArcSwap<ActivePolicies>,
    store: FailSafe<AnyStore>,
    /// The store of another service, which verifies the active policies.
    remote: Option<RemoteStore>,
    clock: Clock,
    metrics: Metrics,
    holds: open_holds::OpenHolds,
    caller_limits: CallerLimits,
    /// Files that were refused at the last read, by the reported cause.
    refused_files: Mutex<BTreeMap<&'static str, Degradation>>,
    /// Wrong tokens over all transports.
    wrong_tokens: WrongTokens,
    reloading: Mutex<()>,
    pub(crate) observer: Arc<dyn Observer>,
    key_labeller: KeyLabeller,
    inspected: InspectedKeys,
    degraded: Arc<Degraded>,
    started: Stopwatch,
    /// The start in milliseconds since the epoch.
    pub(crate) started_ms: u64,
}

/// The policies of one configuration. A request uses the same ones from its beginning to its end.
#[derive(Debug)]
pub struct ActivePolicies {
    /// The policies.
    pub policies: Policies,
    // The lists below have the order of `ConfiguredPolicy::index`.
    pub(crate) names: Vec<Arc<str>>,
    counters: Vec<PolicyCounters>,
    observers: Vec<Arc<dyn PolicyObserver>>,
}

/// A request whose names have been looked up.
struct ResolvedRequest<'p, 's> {
    policy: ResolvedPolicy<'p>,
    cost: Cost,
    counters: &'s PolicyCounters,
    /// `None` if the policy is not configured.
    observer: Option<&'s dyn PolicyObserver>,
}

impl Service {
    /// Creates a service with this configuration and the store that it names. Must be called inside a tokio runtime if the
    /// store is a Redis.
    ///
    /// # Errors
    /// If the settings of the store are wrong. A Redis that does not answer yet is no error.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let Opened { store, remote } = store::open_for(&config.store, &config.policies)?;
        Ok(Self::observed(config.policies, &config.server, store, Arc::new(())).with_remote(remote))
    }

    /// Creates a service with a store of your own. Of the store settings of the configuration, only the timeout is used.
    pub fn with_store(config: Config, store: impl Store + 'static) -> Self {
        let store = AnyStore::new(GuardedStore::new(store, config.store.timeout));
        Self::observed(config.policies, &config.server, store, Arc::new(()))
    }

    /// Creates a service that reports its events to an observer.
    pub(crate) fn observed(
        policies: Policies,
        settings: &ServerSettings,
        store: AnyStore,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let clock = store.clock().clone();
        let log_error =
            |error: &StoreError| tracing::debug!(cause = error.cause(), "a decision got no answer: {error}");
        let store = FailSafe::new(store).on_error(log_error);
        let degraded = Arc::<Degraded>::default();
        let metrics = Metrics::new(store.clone(), Arc::clone(&degraded));
        let active = ActivePolicies::new(policies, &metrics, &*observer);
        Self {
            active: ArcSwap::from_pointee(active),
            started_ms: clock.now().as_micros() / 1_000,
            wrong_tokens: WrongTokens::new(clock.clone(), settings.bounds.wrong_token_delay),
            clock,
            observer,
            key_labeller: KeyLabeller::default(),
            inspected: InspectedKeys::default(),
            degraded,
            store,
            remote: None,
            holds: open_holds::OpenHolds::default(),
            metrics,
            caller_limits: settings.caller_limits,
            refused_files: Mutex::default(),
            reloading: Mutex::new(()),
            started: Stopwatch::start(),
        }
    }

    /// The service that tells this store which policies are active.
    pub(crate) fn with_remote(self, remote: Option<RemoteStore>) -> Self {
        Self { remote, ..self }
    }

    /// Returns the time since the service was created.
    pub(crate) fn uptime(&self) -> Duration {
        Duration::from_nanos(self.started.nanos())
    }

    /// Returns the clock for displayed timestamps.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the active policies. A request calls this once.
    #[inline]
    pub fn active_policies(&self) -> Guard<Arc<ActivePolicies>> {
        self.active.load()
    }

    pub(crate) fn key_labeller(&self) -> &KeyLabeller {
        &self.key_labeller
    }

    /// Returns the time in milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().as_micros() / 1_000
    }

    /// Returns the time in seconds since the epoch.
    pub(crate) fn now_s(&self) -> u64 {
        self.clock.now().as_micros() / 1_000_000
    }

    /// Returns whether decisions never wait, so that concurrent requests gain nothing.
    pub fn is_immediate(&self) -> bool {
        self.store.store().is_immediate()
    }

    pub(crate) fn store(&self) -> &FailSafe<AnyStore> {
        &self.store
    }

    /// Returns what the store reports about itself.
    pub(crate) fn store_report(&self) -> StoreReport {
        self.store.report()
    }

    pub(crate) fn wrong_tokens(&self) -> &WrongTokens {
        &self.wrong_tokens
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Decides one request.
    ///
    /// # Errors
    /// If the request contains an unknown name or limits that callers may not supply.
    #[inline]
    pub async fn decide<'p>(
        &self,
        from: Transport,
        active: &'p ActivePolicies,
        op: Op,
        request: &KeyRequest<'_>,
    ) -> Result<PolicyDecision<'p>, Refusal> {
        let watch = Stopwatch::start();
        let ResolvedRequest { policy, cost, counters, observer } = self.resolve(active, request)?;
        if op != Op::Peek {
            let supplied = !matches!(request.source, LimitSource::Policy(_));
            let in_field = |refusal: Refusal| refusal.in_field(|field| if supplied { "limits" } else { field });
            refuse_in_flight(&policy).map_err(in_field)?;
        }
        let decision = match request.on_failure {
            // An immediate store decides without a future.
            None => match self.store.decide_now(op, &policy, &request.key, cost) {
                Some(decision) => decision,
                None => self.store.decide(op, &policy, &request.key, cost).await,
            },
            Some(choice) => {
                let policy = Policy::clone(&policy).with_on_store_failure(choice);
                self.store.decide(op, &policy, &request.key, cost).await
            }
        };
        if op != Op::Peek {
            count(counters, observer, &decision, request);
        }
        counters.took(from, watch.nanos());
        Ok(PolicyDecision { decision, policy })
    }

    /// Decides several requests as one, all or nothing.
    ///
    /// # Errors
    /// If there are too many, or one of them contains an unknown name or limits that callers may not supply.
    pub async fn decide_all<'p>(
        &self,
        from: Transport,
        active: &'p ActivePolicies,
        op: Op,
        requests: &[KeyRequest<'_>],
    ) -> Result<PolicyDecisions<'p>, Refusal> {
        let watch = Stopwatch::start();
        let resolved = self.resolve_all(active, requests)?;
        let decisions = self.store.decide_all(op, &spends(requests, &resolved)).await?;
        Ok(self.counted(from, op, requests, resolved, decisions, &watch))
    }

    /// Resolves several requests. The failure choice of each request is stored in its policy.
    fn resolve_all<'p, 's>(
        &'s self,
        active: &'p ActivePolicies,
        requests: &[KeyRequest<'_>],
    ) -> Result<Vec<ResolvedRequest<'p, 's>>, Refusal>
    where
        'p: 's,
    {
        requests.iter().map(|request| Ok(self.resolve(active, request)?.with_choice_of(request))).collect()
    }

    /// Counts a decision over several requests and how long it took.
    fn counted<'p>(
        &self,
        from: Transport,
        op: Op,
        requests: &[KeyRequest<'_>],
        resolved: Vec<ResolvedRequest<'p, '_>>,
        decisions: Decisions,
        watch: &Stopwatch,
    ) -> PolicyDecisions<'p> {
        let denied = !decisions.overall.is_allowed();
        let timed = if let [only] = &*resolved { only.counters } else { &self.metrics.several };
        let part = |((resolved, decision), request): ((ResolvedRequest<'p, '_>, Decision), &KeyRequest<'_>)| {
            // A part that fits in a denied decision was neither spent nor denied.
            if op != Op::Peek && !(denied && decision.is_allowed()) {
                count(resolved.counters, resolved.observer, &decision, request);
            }
            PolicyDecision { decision, policy: resolved.policy }
        };
        let parts = resolved.into_iter().zip(decisions.parts).zip(requests).map(part).collect();
        timed.took(from, watch.nanos());
        PolicyDecisions { overall: decisions.overall, parts }
    }

    /// Reports the second that ends now to the observer.
    pub(crate) fn tick(&self) {
        self.holds.end_until(self.clock.now());
        let active = self.active_policies();
        let policies = active.names.iter().cloned().zip(active.counters.iter().map(PolicyCounters::counts));
        let others = self.metrics.unconfigured().map(|(name, counts)| (Arc::from(name), counts));
        // A tick may come a little early or late. It belongs to the second that it covers for the most part.
        let second = self.clock.now().as_micros().saturating_sub(500_000) / 1_000_000;
        self.observer.second_ended(second, policies.chain(others).collect(), &self.metrics.policies.durations());
    }

    /// Checks that all names in a request are known.
    ///
    /// # Errors
    /// If one is not.
    pub fn validate(&self, active: &ActivePolicies, request: &KeyRequest<'_>) -> Result<(), Refusal> {
        self.resolve(active, request).map(|_| ())
    }

    fn resolve<'p, 's>(
        &'s self,
        active: &'p ActivePolicies,
        request: &KeyRequest<'_>,
    ) -> Result<ResolvedRequest<'p, 's>, Refusal>
    where
        'p: 's,
    {
        let (policy, counters) = match &request.source {
            LimitSource::Policy(name) => {
                let configured = active.find(name)?;
                let (policy, cost) = price(configured, request.price)?;
                return Ok(ResolvedRequest {
                    policy: ResolvedPolicy::Configured(policy, &configured.labels),
                    cost,
                    counters: &active.counters[configured.index],
                    observer: Some(&*active.observers[configured.index]),
                });
            }
            LimitSource::Limits(limits, algorithm) => {
                self.may_supply(limits)?;
                let policy =
                    Policy::unnamed(limits.iter().copied()).map_err(|error| Refusal::malformed("limits", error))?;
                (policy.with_algorithm(*algorithm), &self.metrics.supplied)
            }
            LimitSource::EnvoyOverride(limit, name) => {
                let policy = Policy::unnamed([*limit]).map_err(|error| Refusal::malformed("limit", error))?;
                match name.and_then(|name| active.policies.get(name)) {
                    Some(replaced) => (in_place_of(&replaced.policy, policy), &active.counters[replaced.index]),
                    None => (policy, &self.metrics.supplied),
                }
            }
            LimitSource::Throttle(burst, limit) => {
                self.may_supply(&[*limit])?;
                let policy = Policy::new(RESERVED_NAME, [*limit]).map_err(|e| Refusal::malformed("limits", e))?;
                let policy = policy.with_algorithm(Algorithm::Gcra(Some(*burst))).supplied_by_caller();
                (policy, &self.metrics.throttle)
            }
        };
        let Price::Cost(cost) = request.price else {
            return Err(Refusal::malformed("operation", "`operation` needs a policy that configures it"));
        };
        Ok(ResolvedRequest { policy: ResolvedPolicy::Supplied(Box::new(policy)), cost, counters, observer: None })
    }

    /// Refuses limits that callers may not supply.
    fn may_supply(&self, limits: &[Limit]) -> Result<(), Refusal> {
        let CallerLimits { allowed, max_window } = self.caller_limits;
        if !allowed {
            return Err(Refusal::malformed("limits", "limits supplied by callers are disabled here: name a policy"));
        }
        if let Some(limit) = limits.iter().find(|limit| limit.window() > max_window) {
            let longest =
                Limit::new(limit.max(), max_window).map_or(String::new(), |longest| format!(": use at most {longest}"));
            let message = format!("the window of `{limit}` is longer than callers may supply{longest}");
            return Err(Refusal::malformed("limits", message));
        }
        Ok(())
    }
}

impl ResolvedRequest<'_, '_> {
    /// Stores the failure choice of the request in the policy, if it has one.
    fn with_choice_of(mut self, request: &KeyRequest<'_>) -> Self {
        if let Some(choice) = request.on_failure {
            let chosen = self.policy.clone().with_on_store_failure(choice);
            self.policy = ResolvedPolicy::Supplied(Box::new(chosen));
        }
        self
    }
}

fn spends<'a>(requests: &'a [KeyRequest<'_>], resolved: &'a [ResolvedRequest<'_, '_>]) -> Vec<Spend<'a>> {
    let spend = |(request, resolved): (&'a KeyRequest<'_>, &'a ResolvedRequest<'_, '_>)| Spend {
        policy: &resolved.policy,
        key: &request.key,
        cost: resolved.cost,
    };
    requests.iter().zip(resolved).map(spend).collect()
}

/// Refuses a check or a charge under a limit on the units in open holds.
#[inline]
fn refuse_in_flight(policy: &Policy) -> Result<(), Refusal> {
    match policy.limits().iter().find(|limit| limit.is_in_flight()) {
        Some(limit) => Err(ReservationError::InFlight { max: limit.max() }.into()),
        None => Ok(()),
    }
}

/// Counts a decision that spent or was denied.
#[inline]
fn count(
    counters: &PolicyCounters,
    observer: Option<&dyn PolicyObserver>,
    decision: &Decision,
    request: &KeyRequest<'_>,
) {
    let class = counters.count(decision);
    if let Some(observer) = observer
        && class != DecisionClass::Ordinary
    {
        observer.decided(class, &request.key, decision);
    }
}

/// Warns of leases that hold a noticeable part of a window.
fn warn_of_long_lease(name: &str, policy: &Policy) {
    let shortest = policy.limits().iter().map(Limit::window).min().unwrap_or_default();
    if let Some(term) = policy.lease().filter(|term| *term > shortest / 10) {
        tracing::warn!(
            policy = name,
            "the `lease` of {} is longer than a tenth of the shortest window, {}: units count up to that much longer, so \
             fewer requests are admitted than the limit allows",
            format_duration(term),
            format_duration(shortest),
        );
    }
}

impl ActivePolicies {
    fn new(policies: Policies, metrics: &Metrics, observer: &dyn Observer) -> Self {
        let names: Vec<Arc<str>> = policies.iter().map(|(name, _)| name.into()).collect();
        let counters = names.iter().map(|name| metrics.policies.of(name)).collect();
        let observers = names.iter().map(|name| observer.policy(name)).collect();
        for (name, configured) in policies.iter() {
            warn_of_long_lease(name, &configured.policy);
        }
        Self { policies, names, counters, observers }
    }

    /// Returns the policy with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<&ConfiguredPolicy, Refusal> {
        self.policies.get(name).ok_or_else(|| {
            let nearest = self.policies.nearest(name).map(str::to_owned);
            let first = || self.names.iter().take(MAX_LISTED).map(ToString::to_string).collect();
            let known = nearest.is_none().then(|| (first(), self.names.len()));
            Refusal::UnknownPolicy { name: name.chars().take(128).collect(), nearest, known }
        })
    }
}

/// Returns a policy with another limit that counts like the policy that it replaces. A configured burst belongs to the replaced
/// limit, so it is dropped. The limit is enforced even if the replaced policy is in shadow mode, as in Envoy's own service.
fn in_place_of(replaced: &Policy, policy: Policy) -> Policy {
    let algorithm = match replaced.algorithm() {
        Algorithm::Gcra(Some(_)) => Algorithm::Gcra(None),
        other => other,
    };
    policy.with_algorithm(algorithm).with_on_store_failure(replaced.on_store_failure())
}

/// Returns the policy and the cost: those of the policy itself, or those of one of its operations.
#[inline]
fn price<'p>(configured: &'p ConfiguredPolicy, price: Price<'_>) -> Result<(&'p Policy, Cost), Refusal> {
    match price {
        Price::Cost(cost) => Ok((&configured.policy, cost)),
        Price::Operation(name) => match configured.operation(name) {
            Some(operation) => Ok((&operation.policy, operation.cost)),
            None => {
                let known: Vec<&str> = configured.operations().map(|(name, _)| name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let shown: String = name.chars().take(128).collect();
                let message = format!("the policy has no operation `{shown}`; it has: {known}");
                Err(Refusal::malformed("operation", message))
            }
        },
    }
}
