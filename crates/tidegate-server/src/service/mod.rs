//! [`Service`]: what all ways in have in common. Policies are found, prices looked up, failures of the store decided and
//! everything counted here, once; a transport turns bytes into an [`Ask`] and an answer into bytes. `ask` has the words for both, `keys` what
//! is done to single keys beside deciding, `seconds` what is done once a second, `states` checks for degraded states.

mod ask;
mod keys;
mod seconds;
mod states;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tidegate::{
    Algorithm, AnyStore, Clock, Cost, Decision, FailSafe, Limit, Op, Policy, Spend, Store, StoreError, StoreReport,
};

pub use self::ask::{Answer, Answers, Ask, By, Price, Refusal, Ruling, Who};
use crate::{
    config::{CallerLimits, Config, ConfigError, Configured, Overrides, Policies, RESERVED_NAME},
    degraded::Degraded,
    guesses::Guesses,
    insight::{Event, Hits, Insight},
    metrics::{Metrics, Tally, Transport},
    stopwatch::Stopwatch,
    store,
};

/// A service, without its transports.
#[derive(Debug)]
pub struct Service {
    live: ArcSwap<Live>,
    store: FailSafe<AnyStore>,
    clock: Clock,
    metrics: Metrics,
    caller_limits: CallerLimits,
    /// Files that were refused at the last read, by the cause that is reported.
    refused_files: Mutex<BTreeMap<&'static str, RefusedFile>>,
    /// Wrong tokens over all transports.
    guesses: Guesses,
    reloading: Mutex<()>,
    insight: Insight,
    degraded: Arc<Degraded>,
    up: Stopwatch,
}

/// Why a file was refused, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusedFile {
    pub(crate) error: String,
    pub(crate) cure: &'static str,
}

/// Cause that is reported while the configuration file is refused.
pub(crate) const CONFIGURATION_REFUSED: &str = "configuration_refused";

/// Cause that is reported while a certificate file is refused.
pub(crate) const CERTIFICATE_REFUSED: &str = "certificate_refused";

/// One configuration of policies, used by a request from its beginning to its end.
#[derive(Debug)]
pub struct Live {
    /// The policies.
    pub policies: Policies,
    /// By place, as all that follows.
    names: Vec<Arc<str>>,
    tallies: Vec<Tally>,
    hits: Vec<Arc<Hits>>,
}

/// What a request comes to once its names are looked up.
struct Resolved<'l, 's> {
    ruling: Ruling<'l>,
    cost: Cost,
    tally: &'s Tally,
    /// Of policies of the configuration.
    hits: Option<&'s Hits>,
}

impl Service {
    /// A service by this configuration, with the store that it names. Must be called inside a tokio runtime if the store
    /// is a Redis.
    ///
    /// # Errors
    /// If the store's settings are wrong. A Redis that does not answer yet is not an error.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let store = store::open(&config.store).map_err(|message| ConfigError {
            origin: "store".to_owned(),
            line: None,
            message,
            unreadable: false,
        })?;
        Ok(Self::with_store(config, store))
    }

    /// A service by this configuration, with a store of your own. The store settings of the configuration are not used.
    pub fn with_store(config: Config, store: impl Store + 'static) -> Self {
        let clock = store.clock().clone();
        let log_error =
            |error: &StoreError| tracing::debug!(cause = error.cause(), "a decision got no answer: {error}");
        let store = FailSafe::new(AnyStore::new(store)).on_error(log_error);
        let degraded = Arc::<Degraded>::default();
        let metrics = Metrics::new(store.clone(), Arc::clone(&degraded));
        let insight = Insight::new(clock.now().as_micros() / 1_000_000);
        let live = Live::new(config.policies, &metrics, &insight);
        let caller_limits = config.server.caller_limits;
        let guesses = Guesses::new(clock.clone(), config.server.bounds.wrong_token_delay);
        Self {
            live: ArcSwap::from_pointee(live),
            clock,
            insight,
            degraded,
            store,
            metrics,
            caller_limits,
            refused_files: Mutex::default(),
            guesses,
            reloading: Mutex::new(()),
            up: Stopwatch::start(),
        }
    }

    /// How long it has been there.
    pub(crate) fn uptime(&self) -> Duration {
        Duration::from_nanos(self.up.nanos())
    }

    /// By which those are told who want to be told a time.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The policies in force now. A request looks them up once.
    #[inline]
    pub fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// Puts the policies of a file in force, all at once, or none of them if something is wrong with it.
    ///
    /// A file that removes all policies, or more than it keeps, is refused unless it sets `allow_removal = true` in
    /// `[server]`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn reload(&self, path: &std::path::Path, overrides: &Overrides) -> Result<Config, ConfigError> {
        self.put_in_force(Config::load(Some(path), overrides))
    }

    /// Puts the policies of a configuration in force, all at once, or records why it is refused.
    pub(crate) fn put_in_force(&self, read: Result<Config, ConfigError>) -> Result<Config, ConfigError> {
        let _alone = self.reloading.lock();
        let cure = "correct the file: `tidegate config check FILE` shows what is wrong with it";
        let mut config = read.inspect_err(|error| self.refuse(error, cure))?;
        if let Some(message) = self.removal(&config) {
            let origin = config.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
            let error = ConfigError { origin, line: None, message, unreadable: false };
            self.refuse(
                &error,
                "complete the file, or set `allow_removal = true` in its [server] to remove them on purpose",
            );
            return Err(error);
        }
        self.warn_of_removals(&config);
        self.replace(std::mem::take(&mut config.policies));
        self.metrics.reloaded(true);
        let policies = self.live().policies.len();
        self.insight.journal.happened(Event::Reload, self.now_ms(), format!("policies reloaded: {policies} in force"));
        self.file_refused(CONFIGURATION_REFUSED, None);
        Ok(config)
    }

    /// Logs the names of policies that are in force and not in the new configuration.
    fn warn_of_removals(&self, config: &Config) {
        let live = self.live();
        let gone = live.policies.iter().map(|(name, _)| name).filter(|name| config.policies.get(name).is_none());
        let gone: Vec<&str> = gone.collect();
        if !gone.is_empty() {
            let (removed, names) = (gone.len(), gone.into_iter().take(20).collect::<Vec<_>>().join(", "));
            tracing::warn!(removed, names, "the new configuration removes policies");
        }
    }

    fn refuse(&self, error: &ConfigError, cure: &'static str) {
        self.metrics.reloaded(false);
        let text = format!("the file was refused, the policies from before stay in force: {error}");
        self.insight.journal.happened(Event::ReloadRefused, self.now_ms(), text);
        self.file_refused(CONFIGURATION_REFUSED, Some(RefusedFile { error: error.to_string(), cure }));
    }

    /// Describes what a configuration would remove, if that is too much.
    fn removal(&self, config: &Config) -> Option<String> {
        if config.server.allow_removal {
            return None;
        }
        let live = self.live();
        let is_kept = |(name, _): &(&str, &Configured)| config.policies.get(name).is_some();
        let (before, kept) = (live.policies.len(), live.policies.iter().filter(is_kept).count());
        if before - kept > kept {
            let gone = live.policies.iter().filter(|policy| !is_kept(policy)).map(|(name, _)| name);
            let gone = gone.take(5).collect::<Vec<_>>().join(", ");
            let removed = before - kept;
            return Some(format!(
                "it would remove {removed} of {before} policies ({gone}{})",
                if removed > 5 { ", …" } else { "" }
            ));
        }
        let (before, after) = (live.policies.envoy().len(), config.policies.envoy().len());
        (before > after && before - after > after)
            .then(|| format!("it would remove {} of {before} [[envoy]] rules", before - after))
    }

    /// Records that a file was refused, or that it is in force. Returns whether that has changed.
    pub(crate) fn file_refused(&self, cause: &'static str, refused: Option<RefusedFile>) -> bool {
        let mut files = self.refused_files.lock();
        match refused {
            Some(refused) => files.insert(cause, refused.clone()) != Some(refused),
            None => files.remove(cause).is_some(),
        }
    }

    /// What can be done about a refused file.
    pub(crate) fn cure(&self, cause: &str) -> Option<&'static str> {
        self.refused_files.lock().get(cause).map(|refused| refused.cure)
    }

    /// Puts policies in force, all at once. The state of keys carries over.
    pub fn replace(&self, policies: Policies) {
        let live = Arc::new(Live::new(policies, &self.metrics, &self.insight));
        let before = self.live.swap(Arc::clone(&live));
        for (name, _) in before.policies.iter().filter(|(name, _)| live.policies.get(name).is_none()) {
            self.metrics.forget(name);
            self.insight.forget(name);
        }
    }

    /// What those are shown who look at the service.
    pub(crate) fn insight(&self) -> &Insight {
        &self.insight
    }

    /// The time, in milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().as_micros() / 1_000
    }

    /// The time, in seconds since the epoch.
    pub(crate) fn now_s(&self) -> u64 {
        self.clock.now().as_micros() / 1_000_000
    }

    /// What was wrong with the file at the last reload, if it was refused.
    pub fn refused_file(&self) -> Option<String> {
        self.refused_files.lock().get(CONFIGURATION_REFUSED).map(|refused| refused.error.clone())
    }

    /// Whether decisions never wait for anything, so that asking for several at once gains nothing.
    pub fn is_immediate(&self) -> bool {
        self.store.store().is_immediate()
    }

    pub(crate) fn store(&self) -> &FailSafe<AnyStore> {
        &self.store
    }

    /// What the store reports about itself.
    pub(crate) fn store_report(&self) -> StoreReport {
        self.store.report()
    }

    pub(crate) fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Decides one request.
    ///
    /// # Errors
    /// If the request names something unknown or brings limits that it may not.
    #[inline]
    pub async fn decide<'l>(
        &self,
        from: Transport,
        live: &'l Live,
        op: Op,
        ask: &Ask<'_>,
    ) -> Result<Answer<'l>, Refusal> {
        let watch = Stopwatch::start();
        let Resolved { ruling, cost, tally, hits } =
            self.resolve(live, ask).inspect_err(|_| self.metrics.refused(from))?;
        let policy = ruling.policy();
        let decision = match ask.on_failure {
            None => self.store.decide(op, policy, &ask.key, cost).await,
            Some(choice) => {
                let policy = policy.clone().with_on_store_failure(choice);
                self.store.decide(op, &policy, &ask.key, cost).await
            }
        };
        if op != Op::Peek {
            let notable = tally.count(&decision);
            if let Some(hits) = hits {
                self.insight.note(hits, notable, &ask.key);
            }
        }
        tally.took(from, watch.nanos());
        Ok(Answer { decision, ruling })
    }

    /// Decides several requests as one, all or nothing.
    ///
    /// # Errors
    /// If there are too many, or one of them names something unknown or brings limits that it may not.
    pub async fn decide_all<'l>(
        &self,
        from: Transport,
        live: &'l Live,
        op: Op,
        asks: &[Ask<'_>],
    ) -> Result<Answers<'l>, Refusal> {
        let watch = Stopwatch::start();
        let (answers, tally) =
            self.decide_resolved(live, op, asks).await.inspect_err(|_| self.metrics.refused(from))?;
        tally.took(from, watch.nanos());
        Ok(answers)
    }

    /// Returns the answers, and the tally that counts the duration of the decision.
    async fn decide_resolved<'l, 's>(
        &'s self,
        live: &'l Live,
        op: Op,
        asks: &[Ask<'_>],
    ) -> Result<(Answers<'l>, &'s Tally), Refusal>
    where
        'l: 's,
    {
        let mut resolved = asks.iter().map(|ask| self.resolve(live, ask)).collect::<Result<Vec<_>, _>>()?;
        for (ask, resolved) in asks.iter().zip(&mut resolved) {
            // Each part's own choice travels with its policy.
            if let Some(choice) = ask.on_failure {
                let chosen = resolved.ruling.policy().clone().with_on_store_failure(choice);
                resolved.ruling = Ruling::Made(Box::new(chosen));
            }
        }
        let each = asks.iter().zip(&resolved);
        let spends: Vec<Spend<'_>> = each
            .map(|(ask, resolved)| Spend { policy: resolved.ruling.policy(), key: &ask.key, cost: resolved.cost })
            .collect();
        let decisions = self.store.decide_all(op, &spends).await?;
        let denied = !decisions.overall.is_allowed();
        let tally = if let [only] = &*resolved { only.tally } else { &self.metrics.several };
        let answer = |((resolved, decision), ask): ((Resolved<'l, '_>, Decision), &Ask<'_>)| {
            // What would have fitted into a decision that was denied was neither spent nor denied.
            if op != Op::Peek && !(denied && decision.is_allowed()) {
                let notable = resolved.tally.count(&decision);
                if let Some(hits) = resolved.hits {
                    self.insight.note(hits, notable, &ask.key);
                }
            }
            Answer { decision, ruling: resolved.ruling }
        };
        let parts = resolved.into_iter().zip(decisions.parts).zip(asks).map(answer).collect();
        Ok((Answers { overall: decisions.overall, parts }, tally))
    }

    /// Looks whether everything that a request names is known.
    ///
    /// # Errors
    /// If it is not.
    pub fn knows(&self, live: &Live, ask: &Ask<'_>) -> Result<(), Refusal> {
        self.resolve(live, ask).map(|_| ())
    }

    fn resolve<'l, 's>(&'s self, live: &'l Live, ask: &Ask<'_>) -> Result<Resolved<'l, 's>, Refusal>
    where
        'l: 's,
    {
        match &ask.by {
            By::Policy(name) => {
                let configured = live.find(name)?;
                let (policy, cost) = price(configured, ask.price)?;
                let ruling = Ruling::Known(policy, &configured.labels);
                let (tally, hits) = (&live.tallies[configured.place], Some(&*live.hits[configured.place]));
                Ok(Resolved { ruling, cost, tally, hits })
            }
            By::Limits(limits, algorithm) => {
                let policy = self.brought(limits, *algorithm)?;
                let cost = plain(ask.price)?;
                Ok(Resolved { ruling: Ruling::Made(Box::new(policy)), cost, tally: &self.metrics.brought, hits: None })
            }
            By::Override(limit, name) => {
                let replaced = name.and_then(|name| live.policies.get(name));
                let policy = Policy::unnamed([*limit]).map_err(|error| Refusal::malformed("limit", error))?;
                let policy = match replaced {
                    Some(replaced) => in_place_of(&replaced.policy, policy),
                    None => policy,
                };
                let tally = replaced.map_or(&self.metrics.brought, |replaced| &live.tallies[replaced.place]);
                Ok(Resolved { ruling: Ruling::Made(Box::new(policy)), cost: plain(ask.price)?, tally, hits: None })
            }
            By::Throttle(burst, limit) => {
                self.may_bring(&[*limit])?;
                let policy = Policy::new(RESERVED_NAME, [*limit]).map_err(|e| Refusal::malformed("limits", e))?;
                let policy = policy.with_algorithm(Algorithm::Gcra(Some(*burst))).supplied_by_caller();
                let cost = plain(ask.price)?;
                Ok(Resolved { ruling: Ruling::Made(Box::new(policy)), cost, tally: &self.metrics.throttle, hits: None })
            }
        }
    }

    /// The policy made of limits that a caller brought, if it may bring them.
    fn brought(&self, limits: &[Limit], algorithm: Algorithm) -> Result<Policy, Refusal> {
        self.may_bring(limits)?;
        let policy = Policy::unnamed(limits.iter().copied()).map_err(|error| Refusal::malformed("limits", error))?;
        Ok(policy.with_algorithm(algorithm))
    }

    /// Refuses limits that callers may not bring.
    fn may_bring(&self, limits: &[Limit]) -> Result<(), Refusal> {
        let CallerLimits { allowed, max_window } = self.caller_limits;
        if !allowed {
            return Err(Refusal::malformed("limits", "limits brought by callers are turned off here: name a policy"));
        }
        if let Some(limit) = limits.iter().find(|limit| limit.window() > max_window) {
            let most =
                Limit::new(limit.max(), max_window).map_or(String::new(), |most| format!(": use {most} at most"));
            return Err(Refusal::malformed(
                "limits",
                format!("the window of `{limit}` is longer than callers may bring{most}"),
            ));
        }
        Ok(())
    }
}

impl Live {
    fn new(policies: Policies, metrics: &Metrics, insight: &Insight) -> Self {
        let names: Vec<Arc<str>> = policies.iter().map(|(name, _)| name.into()).collect();
        let tallies = names.iter().map(|name| metrics.tally(name)).collect();
        let hits = names.iter().map(|name| insight.hits(name)).collect();
        Self { policies, names, tallies, hits }
    }

    /// The policy of a name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, name: &str) -> Result<&Configured, Refusal> {
        self.policies.get(name).ok_or_else(|| Refusal::UnknownPolicy {
            name: name.chars().take(128).collect(),
            nearest: self.policies.nearest(name).map(str::to_owned),
        })
    }

    /// The names of all policies, in order.
    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// What is counted of the keys of a policy that is there.
    pub(crate) fn hits(&self, configured: &Configured) -> &Hits {
        &self.hits[configured.place]
    }
}

/// A policy of one other limit that is counted as the one it stands for is. A burst was meant for the limit that is replaced;
/// and who writes a limit for one descriptor wants it enforced, as Envoy's own service has it, also where the policy watches only.
fn in_place_of(replaced: &Policy, policy: Policy) -> Policy {
    let algorithm = match replaced.algorithm() {
        Algorithm::Gcra(Some(_)) => Algorithm::Gcra(None),
        other => other,
    };
    policy.with_algorithm(algorithm).with_on_store_failure(replaced.on_store_failure())
}

/// The policy and the cost: the policy's own, or those of one of its operations.
#[inline]
fn price<'l>(configured: &'l Configured, price: Price<'_>) -> Result<(&'l Policy, Cost), Refusal> {
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

/// The cost, where no policy could know of operations.
fn plain(price: Price<'_>) -> Result<Cost, Refusal> {
    match price {
        Price::Cost(cost) => Ok(cost),
        Price::Operation(_) => Err(Refusal::malformed("operation", "an operation needs a policy that knows it")),
    }
}
