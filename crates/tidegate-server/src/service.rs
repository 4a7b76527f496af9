//! [`Service`]: what all ways in have in common. Policies are found, prices looked up, failures of the store decided and
//! everything counted here, once; a transport turns bytes into an [`Ask`] and an answer into bytes.

use std::{borrow::Cow, net::IpAddr, sync::Arc, time::Duration};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tidegate::{
    Algorithm, Burst, Clock, Cost, Decision, Inspection, Key, Limit, OnStoreFailure, Op, Overridden, Override,
    OverrideRule, Policy, Refund, Spend, SpendError, Timestamp,
};
use tidegate_redis::{OverrideTrouble, Trouble};
use tidegate_tower::Labels;

use crate::{
    config::{CallerLimits, Config, ConfigError, Configured, Overrides, Policies, RESERVED_NAME},
    insight::{Deed, Event, Eyes, Hits, Insight},
    metrics::{Metrics, Tally, Transport},
    stopwatch::Stopwatch,
    store::Store,
};

/// A service, without its transports.
#[derive(Debug)]
pub struct Service {
    live: ArcSwap<Live>,
    store: Arc<Store>,
    clock: Clock,
    metrics: Metrics,
    caller_limits: CallerLimits,
    /// What was wrong with the file at the last reload.
    refused_file: Mutex<Option<String>>,
    reloading: Mutex<()>,
    insight: Insight,
    /// How the store was when it was looked at last.
    store_seen: Mutex<StoreSeen>,
    up: Stopwatch,
}

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

/// How the store was when it was looked at.
#[derive(Debug, Default)]
struct StoreSeen {
    lost: Vec<String>,
    no_room: u64,
    no_room_told: Option<u64>,
}

/// What is asked of one policy about one key.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// By which limits.
    pub by: By<'a>,
    /// Who.
    pub key: Key<'a>,
    /// How much.
    pub price: Price<'a>,
    /// What to do if the store fails, where the call says it.
    pub on_failure: Option<OnStoreFailure>,
}

/// Who does something to a key, for the journal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who {
    /// From where; nothing if from this process.
    pub address: Option<IpAddr>,
}

/// By which limits to decide.
#[derive(Debug, Clone)]
pub enum By<'a> {
    /// A policy of the configuration.
    Policy(&'a str),
    /// Limits that the caller brings.
    Limits(Vec<Limit>, Algorithm),
    /// Envoy's own limit for one descriptor, in place of those of the policy that the descriptor matches, if any. It is written
    /// in the proxy's configuration, so whether callers may bring limits is no matter.
    Override(Limit, Option<&'a str>),
    /// `CL.THROTTLE`'s: so many at once, and the limit in the long run.
    Throttle(Burst, Limit),
}

/// How much is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Price<'a> {
    /// So many units.
    Cost(Cost),
    /// What the policy says an operation costs.
    Operation(&'a str),
}

/// A policy of the configuration, or one made of what the caller brought.
#[derive(Debug)]
pub enum Ruling<'l> {
    /// Of the configuration, with what headers say of it.
    Known(&'l Policy, &'l Labels),
    /// Made for this request.
    Made(Box<Policy>),
}

impl Ruling<'_> {
    /// The policy itself.
    #[inline]
    pub fn policy(&self) -> &Policy {
        match self {
            Self::Known(policy, _) => policy,
            Self::Made(policy) => policy,
        }
    }

    /// What headers say of it.
    pub(crate) fn labels(&self) -> Cow<'_, Labels> {
        match self {
            Self::Known(_, labels) => Cow::Borrowed(labels),
            Self::Made(policy) => Cow::Owned(Labels::new(policy)),
        }
    }
}

/// A decision, and by which policy.
#[derive(Debug)]
#[must_use]
pub struct Answer<'l> {
    /// What was decided.
    pub decision: Decision,
    /// By what.
    pub ruling: Ruling<'l>,
}

/// A decision over several, all or nothing.
#[derive(Debug)]
#[must_use]
pub struct Answers<'l> {
    /// Of the whole. Its `part()` is the place of the one that bound.
    pub overall: Decision,
    /// Of each, in order.
    pub parts: Vec<Answer<'l>>,
}

/// Why a request got no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Something in it is wrong; the field that is.
    #[error("{message}")]
    Malformed {
        /// Which field of the request.
        field: &'static str,
        /// What is wrong and what would be right.
        message: String,
    },
    /// No policy has this name.
    #[error("there is no policy `{name}`{}", hint(nearest.as_deref()))]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// One that is near.
        nearest: Option<String>,
    },
    /// The store did not do what only it can do (refund, reset, inspect).
    #[error("{0}")]
    Store(#[from] Trouble),
    /// An override can't be, or the store did not put it in force or lift it.
    #[error("{0}")]
    Override(#[from] OverrideTrouble),
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(": did you mean `{name}`?"))
}

impl Refusal {
    /// Something wrong with a field of the request.
    pub(crate) fn malformed(field: &'static str, message: impl std::fmt::Display) -> Self {
        Self::Malformed { field, message: format!("{message}") }
    }
}

impl From<SpendError> for Refusal {
    fn from(error: SpendError) -> Self {
        Self::malformed("checks", error)
    }
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
    /// A service by this configuration. Must be called inside a tokio runtime if the store is a Redis.
    ///
    /// # Errors
    /// If the store's settings are wrong. A Redis that does not answer yet is no error.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let store = Store::open(&config.store).map_err(|message| ConfigError {
            origin: "store".to_owned(),
            line: None,
            message,
        })?;
        let store = Arc::new(store);
        let metrics = Metrics::new(Arc::clone(&store));
        let clock = store.clock();
        let insight = Insight::new(clock.now().as_micros() / 1_000_000);
        let live = Live::new(config.policies, &metrics, &insight);
        let caller_limits = config.server.caller_limits;
        Ok(Self {
            live: ArcSwap::from_pointee(live),
            clock,
            insight,
            store_seen: Mutex::default(),
            store,
            metrics,
            caller_limits,
            refused_file: Mutex::new(None),
            reloading: Mutex::new(()),
            up: Stopwatch::start(),
        })
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
    /// # Errors
    /// What is wrong with the file.
    pub fn reload(&self, path: &std::path::Path, overrides: &Overrides) -> Result<Config, ConfigError> {
        // One at a time, so that the file that was read last is the one in force.
        let _alone = self.reloading.lock();
        let mut config = match Config::load(Some(path), overrides) {
            Ok(config) => config,
            Err(error) => {
                self.metrics.reloaded(false);
                let text = format!("the file was refused, the policies from before stay in force: {error}");
                self.insight.journal.happened(Event::ReloadRefused, self.now_ms(), text);
                *self.refused_file.lock() = Some(error.to_string());
                return Err(error);
            }
        };
        self.replace(std::mem::take(&mut config.policies));
        self.metrics.reloaded(true);
        let policies = self.live().policies.len();
        self.insight.journal.happened(Event::Reload, self.now_ms(), format!("policies reloaded: {policies} in force"));
        *self.refused_file.lock() = None;
        Ok(config)
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

    /// Ends a second for those who look on, and writes down what has become of the store.
    pub(crate) fn tick(&self) {
        let live = self.live();
        let of_policies = live.names.iter().cloned().zip(live.tallies.iter().map(Tally::counts));
        let others = self.metrics.unconfigured().map(|(name, counts)| (Arc::from(name), counts));
        let counted = of_policies.chain(others);
        // Ticks come at any fraction of a second, a little early or late: each is taken for the second that it has seen most of.
        let second = self.clock.now().as_micros().saturating_sub(500_000) / 1_000_000;
        self.insight.tick(second, counted, &self.metrics.durations());
        self.look_at_store();
    }

    fn look_at_store(&self) {
        let health = self.store.health();
        let mut seen = self.store_seen.lock();
        let at = self.now_ms();
        let journal = &self.insight.journal;
        let lost: Vec<_> = health.lost.iter().filter(|node| !seen.lost.contains(node)).cloned().collect();
        let back: Vec<_> = seen.lost.iter().filter(|node| !health.lost.contains(node)).cloned().collect();
        if !lost.is_empty() {
            let text =
                format!("Redis does not answer at {}: policies decide by what they say for that", lost.join(", "));
            tracing::warn!(nodes = lost.join(", "), "Redis does not answer");
            journal.happened(Event::StoreLost, at, text);
        }
        if !back.is_empty() {
            tracing::info!(nodes = back.join(", "), "Redis answers again");
            journal.happened(Event::StoreBack, at, format!("Redis answers again at {}", back.join(", ")));
        }
        if health.no_room > seen.no_room && seen.no_room_told.is_none_or(|told| at >= told + 60_000) {
            let text =
                "there is no room for new keys: raise max_keys or max_bytes of [store], or see who makes so many";
            journal.happened(Event::NoRoom, at, text);
            seen.no_room_told = Some(at);
        }
        seen.lost = health.lost;
        seen.no_room = health.no_room;
    }

    /// What was wrong with the file at the last reload, if it was refused.
    pub fn refused_file(&self) -> Option<String> {
        self.refused_file.lock().clone()
    }

    /// Whether decisions never wait for anything, so that asking for several at once gains nothing.
    pub fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
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
        let on_failure = ask.on_failure.unwrap_or(policy.on_store_failure());
        let decision = self.store.decide(op, policy, &ask.key, cost, on_failure).await;
        if op != Op::Peek {
            let notable = tally.count(&decision);
            if let Some(hits) = hits {
                self.insight.note(hits, notable, &ask.key);
            }
        }
        self.metrics.took(from, watch.nanos());
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
        let answers = self.decide_resolved(live, op, asks).await.inspect_err(|_| self.metrics.refused(from))?;
        self.metrics.took(from, watch.nanos());
        Ok(answers)
    }

    async fn decide_resolved<'l>(&self, live: &'l Live, op: Op, asks: &[Ask<'_>]) -> Result<Answers<'l>, Refusal> {
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
        let decisions = self.store.decide_all(op, &spends, None).await?;
        let denied = !decisions.overall.is_allowed();
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
        Ok(Answers { overall: decisions.overall, parts })
    }

    /// Looks whether everything that a request names is known.
    ///
    /// # Errors
    /// If it is not.
    pub fn knows(&self, live: &Live, ask: &Ask<'_>) -> Result<(), Refusal> {
        self.resolve(live, ask).map(|_| ())
    }

    /// Gives units back to the moment they were charged at.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn refund(&self, live: &Live, ask: &Ask<'_>, charged_at: Timestamp) -> Result<Refund, Refusal> {
        let resolved = self.resolve(live, ask)?;
        Ok(self.store.refund(resolved.ruling.policy(), &ask.key, resolved.cost, charged_at).await?)
    }

    /// Forgets a key; whether there was anything to forget.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn reset(&self, live: &Live, ask: &Ask<'_>, who: Who) -> Result<bool, Refusal> {
        let reset = self.store.reset(self.resolve(live, ask)?.ruling.policy(), &ask.key).await?;
        if let By::Policy(name) = ask.by {
            let outcome = if reset { "" } else { ": there was nothing to forget" };
            let (key, after) = (ask.key.as_borrowed(), outcome.to_owned());
            self.audit(Event::Reset, who, live, name, Deed { before: "reset", key, after, note: String::new() });
        }
        Ok(reset)
    }

    /// Puts an override in force; and whether another one was before.
    ///
    /// # Errors
    /// If the policy is unknown, the override can't be, or the store does not answer.
    pub async fn set_override(
        &self,
        live: &Live,
        policy: &str,
        key: &Key<'_>,
        by: Override,
        who: Who,
    ) -> Result<(Overridden, bool), Refusal> {
        let configured = live.find(policy)?;
        let what = match by.rule() {
            OverrideRule::Limits(limits) => {
                let limits: Vec<String> = limits.limits().iter().map(ToString::to_string).collect();
                format!(": {}", limits.join(", "))
            }
            OverrideRule::Ban => ": banned".to_owned(),
            OverrideRule::Exempt => ": exempt".to_owned(),
        };
        let length = match by.end() {
            None => " for good".to_owned(),
            Some(end) => {
                let left = end.as_micros().saturating_sub(self.clock.now().as_micros()).div_ceil(1_000_000);
                format!(" for {}", lasting(Duration::from_secs(left)))
            }
        };
        let (note, since) = (by.note().to_owned(), self.clock.now());
        let put = Overridden { key: key.clone().into_owned(), by: by.clone(), since };
        let replaced = self.store.set_override(&configured.policy, key, by).await?;
        let deed = Deed { before: "override of", key: key.as_borrowed(), after: format!("{what}{length}"), note };
        self.audit(Event::Override, who, live, policy, deed);
        // As the store tells it; it may have been lifted again.
        let overridden = self.store.override_of(&configured.policy, key).await.ok().flatten();
        Ok((overridden.unwrap_or(put), replaced))
    }

    /// Lifts an override; whether there was one.
    ///
    /// # Errors
    /// If the policy is unknown, or the store does not answer.
    pub async fn lift_override(&self, live: &Live, policy: &str, key: &Key<'_>, who: Who) -> Result<bool, Refusal> {
        let lifted = self.store.lift_override(&live.find(policy)?.policy, key).await?;
        let outcome = if lifted { "" } else { ": there was none" };
        let (key, after) = (key.as_borrowed(), outcome.to_owned());
        let deed = Deed { before: "override lifted of", key, after, note: String::new() };
        self.audit(Event::Lift, who, live, policy, deed);
        Ok(lifted)
    }

    /// The overrides of a policy that are in force.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn overrides(&self, policy: &Policy) -> Result<Vec<Overridden>, Refusal> {
        Ok(self.store.overrides(policy).await?)
    }

    /// Writes down what somebody did to a key, here and in the log.
    fn audit(&self, event: Event, who: Who, live: &Live, policy: &str, deed: Deed<'_>) {
        let hide = live.policies.get(policy).is_some_and(|configured| configured.hide_keys);
        let key = self.insight.labeller.label(&deed.key, hide, Eyes::Open).label;
        let by = who.address.map_or_else(|| "this process".to_owned(), |address| address.to_string());
        tracing::info!(policy, key, by, note = deed.note, "{} a key{}", deed.before, deed.after);
        self.insight.journal.done(event, self.now_ms(), who.address, policy, deed);
    }

    /// Shows the state of a key, if it has one.
    ///
    /// # Errors
    /// If the request names something unknown, or the store does not answer.
    pub async fn inspect(&self, live: &Live, ask: &Ask<'_>) -> Result<Option<Inspection>, Refusal> {
        Ok(self.store.inspect(self.resolve(live, ask)?.ruling.policy(), &ask.key).await?)
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
                let policy = policy.with_algorithm(Algorithm::Gcra(Some(*burst)));
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

/// A length of time in the two largest units that it has.
fn lasting(length: Duration) -> String {
    let seconds = length.as_secs();
    let units = [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let said: Vec<String> = units
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if said.is_empty() { "0s".to_owned() } else { said.join("") }
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
