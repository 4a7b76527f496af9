//! [`RedisStore`]: state in Redis or Valkey, shared by whoever asks it.

use std::{sync::Arc, time::Duration};

use tidegate::{
    AtCapacity, Cost, Decision, Decisions, Key, OnStoreFailure, Op, Policy, Spend, SpendError, Timestamp,
    external_store,
};
use tokio::sync::oneshot;

use crate::{
    breaker::BreakerState,
    builder::RedisStoreBuilder,
    cause::Cause,
    degradation::Degradation,
    denials::{Denials, Subject},
    error::Error,
    fallback::Fallback,
    key_name::{KeyName, KeyNames},
    node::{Node, NodeContext},
    pending_request::{GroupReply, PendingRequest},
    reply::Reader,
    router::{CLUSTER, Router},
    script::Source,
    settings::Settings,
    several,
    stats::{Counters, Stats, count},
    stopwatch,
    target::{Login, Target, UrlError},
    wire::{Action, Group, KeyRequest, NewKeys, encode_policy},
};

/// Limits shared by many nodes, jobs and languages: the answers of the in-memory store, from Redis, on the server's clock.
///
/// It is cheap to clone, and is asked from any task of the tokio runtime that it was made in. A decision never fails: where
/// Redis can't answer in time, the policy's [`OnStoreFailure`] does, and the decision is marked
/// [degraded](Decision::is_degraded).
///
/// ```no_run
/// use tidegate::{Cost, Key, OnStoreFailure, Policy};
/// use tidegate_redis::RedisStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379")?;
/// let login = Policy::new("login", ["5/1m".parse()?, "50/1d".parse()?])?.with_on_store_failure(OnStoreFailure::Closed);
/// let decision = store.check(&login, &Key::new("alice")?, Cost::ONE).await;
/// if !decision.is_allowed() {
///     println!("come back in {:?}", decision.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    router: Arc<Router>,
    names: KeyNames,
    /// Names of states at given times, so that a replay touches nothing that counts.
    given_names: KeyNames,
    timeout: Duration,
    max_overrides: usize,
    counters: Arc<Counters>,
    fallback: Fallback,
    denials: Denials,
    at_capacity: AtCapacity,
}

/// A request's answer, or why there is none, and the choice for that case.
pub(crate) type Asked = Result<GroupReply, Error>;

impl RedisStore {
    /// Makes a store with the usual settings; see [`builder`](Self::builder) for others.
    ///
    /// # Errors
    /// If the URL can't be read.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(url: &str) -> Result<Self, UrlError> {
        Self::builder(url).connect()
    }

    /// Connects to `target`, by itself and again and again.
    pub(crate) fn start(target: Target, login: Login, settings: Settings) -> Self {
        let counters = Arc::new(Counters::default());
        let (names, given) = (KeyNames::new(&settings.prefix), format!("{}-given", settings.prefix));
        let (timeout, max_overrides, at_capacity) = (settings.timeout, settings.max_overrides, settings.at_capacity);
        let context = NodeContext {
            is_cluster: matches!(target, Target::Cluster(_)),
            source: Source::new(settings.page),
            settings,
            login,
            counters: Arc::clone(&counters),
        };
        let inner = Inner {
            router: Router::start(context, target),
            names,
            given_names: KeyNames::new(&given),
            timeout,
            max_overrides,
            fallback: Fallback::new(Arc::clone(&counters), at_capacity),
            counters,
            denials: Denials::new(),
            at_capacity,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Says whether a URL can be read, without connecting to anything.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_url(url: &str) -> Result<(), UrlError> {
        Target::parse(url, None).map(|_| ())
    }

    /// Sets up a store. The URL is `redis://…`, `rediss://…` (TLS), `redis-cluster://a:6379,b:6379` or
    /// `redis-sentinel://a:26379,b:26379/mymaster`, with `user:password@` before the first address where one is needed.
    pub fn builder(url: &str) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url)
    }

    /// Waits until every server is connected.
    pub async fn ready(&self) {
        self.inner.router.connected().await;
    }

    /// Spends `cost` if it fits.
    pub async fn check(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.decide(Op::Check, policy, key, cost, policy.on_store_failure()).await
    }

    /// Answers as [`check`](Self::check) would and spends nothing; what remains is told as it is before the spend.
    pub async fn peek(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.decide(Op::Peek, policy, key, cost, policy.on_store_failure()).await
    }

    /// Spends `cost` even past the limit: for a cost that is known only afterwards.
    pub async fn charge(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        self.decide(Op::Charge, policy, key, cost, policy.on_store_failure()).await
    }

    /// Decides one request; `on_failure` wins over the policy's own choice.
    pub async fn decide(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        on_failure: OnStoreFailure,
    ) -> Decision {
        match self.ask_one(op, policy, key, cost, None).await {
            Ok(decision) => self.counted(op, decision),
            Err(trouble) => match self.known_denial(op, policy, key, cost) {
                Some(denial) => self.inner.fallback.remembered(&trouble, denial),
                None => self.inner.fallback.decide(&trouble, op, policy, key, cost, on_failure),
            },
        }
    }

    /// Decides one request at a given time, for replays and tests: under a prefix of its own, on no clock.
    ///
    /// # Errors
    /// If Redis does not answer; there is no failure choice here.
    pub async fn decide_at(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        now: Timestamp,
    ) -> Result<Decision, Error> {
        self.ask_one(op, policy, key, cost, Some(now)).await
    }

    /// Spends all of `spends` if all fit, else none.
    ///
    /// # Errors
    /// If there are none or more than 64, if costs add up to more than 10^12, or if two policies of one name differ.
    pub async fn check_all(&self, spends: &[Spend<'_>]) -> Result<Decisions, SpendError> {
        self.decide_all(Op::Check, spends, None).await
    }

    /// Decides several requests as one; `on_failure`, where given, wins over the policies' own choices. Where their keys
    /// lie in different slots of a cluster, what was charged in one is given back if another denies.
    ///
    /// # Errors
    /// If there are none or more than 64, if costs add up to more than 10^12, or if two policies of one name differ.
    pub async fn decide_all(
        &self,
        op: Op,
        spends: &[Spend<'_>],
        on_failure: Option<OnStoreFailure>,
    ) -> Result<Decisions, SpendError> {
        let (distinct, part_of) = external_store::distinct(spends)?;
        let choice = |spend: &Spend<'_>| on_failure.unwrap_or(spend.policy.on_store_failure());
        let denial = |spend: &Spend<'_>| self.known_denial(op, spend.policy, spend.key, spend.cost);
        let admits = |trouble: &Error, spend: &Spend<'_>| {
            denial(spend).is_none() && self.inner.fallback.admits(trouble, spend, choice(spend))
        };
        let asked = several::decide(self, op, &distinct, None, admits).await;
        let asked = asked.map(|decided| {
            // What the decision denies is charged nowhere, here neither.
            let op_here = if decided.denied { Op::Peek } else { op };
            let part = |(part, spend): (Result<Decision, Error>, &Spend<'_>)| match part {
                Ok(decision) => self.counted(op, decision),
                Err(trouble) => match denial(spend) {
                    Some(denial) => self.inner.fallback.remembered(&trouble, denial),
                    None => {
                        let Spend { policy, key, cost } = *spend;
                        self.inner.fallback.decide(&trouble, op_here, policy, key, cost, choice(spend))
                    }
                },
            };
            decided.parts.into_iter().zip(&distinct).map(part).collect::<Vec<_>>()
        });
        let decided = match asked {
            Ok(decided) => decided,
            Err(trouble) => self.inner.fallback.decide_all(&trouble, op, &distinct, on_failure, denial),
        };
        Ok(external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect()))
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// If the requests can't be one decision ([`SpendError`]), or if Redis does not answer.
    pub async fn decide_all_at(
        &self,
        op: Op,
        spends: &[Spend<'_>],
        now: Timestamp,
    ) -> Result<Result<Decisions, Error>, SpendError> {
        let (distinct, part_of) = external_store::distinct(spends)?;
        // There is no other choice here than to say that Redis did not answer.
        let decided = several::decide(self, op, &distinct, Some(now), |_, _| false).await;
        let decided = decided.and_then(|decided| decided.parts.into_iter().collect::<Result<Vec<_>, _>>());
        let all = |decided: Vec<Decision>| {
            external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect())
        };
        Ok(decided.map(all))
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        let may_evict = self.inner.router.nodes().iter().any(|node| node.state.may_evict());
        self.inner.counters.snapshot(may_evict)
    }

    /// Each server that is asked and where its breaker stands.
    pub fn breakers(&self) -> Vec<(String, BreakerState)> {
        let told = |node: &Arc<Node>| (node.state.name.clone(), node.state.breaker.state());
        self.inner.router.nodes().iter().map(told).collect()
    }

    /// The degraded states that the store is in now; none while everything is as it should be. A state begins with the first
    /// request that is affected and ends two seconds after the last one, once others have succeeded.
    pub fn degradations(&self) -> Vec<Degradation> {
        let router = &self.inner.router;
        let mut all = router.degraded_states.list(CLUSTER);
        for node in router.nodes() {
            all.extend(node.state.degraded_states.list(&node.state.name));
        }
        all
    }

    /// The name of the Redis key that holds a state: for looking at it by other means.
    pub fn key_name(&self, policy: &Policy, key: &Key<'_>) -> Vec<u8> {
        self.inner.names.name(policy, key).bytes
    }

    pub(crate) fn name(&self, policy: &Policy, key: &Key<'_>, given: Option<Timestamp>) -> KeyName {
        let names = if given.is_some() { &self.inner.given_names } else { &self.inner.names };
        names.name(policy, key)
    }

    pub(crate) fn list_name(&self, policy: &str, given: Option<Timestamp>) -> KeyName {
        let names = if given.is_some() { &self.inner.given_names } else { &self.inner.names };
        names.list(policy)
    }

    pub(crate) fn max_overrides(&self) -> usize {
        self.inner.max_overrides
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.inner.router.is_cluster()
    }

    async fn ask_one(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        given: Option<Timestamp>,
    ) -> Result<Decision, Error> {
        // Where there is one server only and it is known not to answer, nothing else needs to be found out.
        if !self.is_cluster()
            && let Some(node) = self.inner.router.node(0).filter(|node| !node.state.breaker.is_closed())
        {
            return Err(node.state.refusal());
        }
        let name = self.name(policy, key, given);
        let part = KeyRequest::new(name.bytes, policy, cost, None);
        let (limits, asked) = (part.limits, stopwatch::micros());
        let subject = self.inner.denials.subject(&part.key, &part.policy);
        if given.is_none() && self.is_under_pressure(name.slot, op, || subject, cost) {
            return Err(Error::Overloaded);
        }
        let new_keys = match given {
            Some(_) => NewKeys::Always,
            None if policy.is_brought_by_caller() => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        };
        let (action, deadline) = (Action::Decide(op), self.deadline(given));
        let mut answer = match self.ask_until(action, vec![part], name.slot, new_keys, given, deadline).await {
            // Nothing was done. Whether a known key could not be charged or a new one not be made is found out by asking again.
            Err(Error::OutOfMemory) if given.is_none() => {
                let part = KeyRequest::new(self.name(policy, key, given).bytes, policy, cost, None);
                self.ask_until(action, vec![part], name.slot, NewKeys::Never, given, deadline).await?
            }
            answer => answer?,
        };
        let (overflows, mut slot) = (answer.no_room, name.slot);
        if overflows {
            let name = self.overflow_name(policy, key).ok_or(Error::NoRoom)?;
            slot = name.slot;
            let part = KeyRequest::new(name.bytes, policy, cost, None);
            answer = match self.ask_until(action, vec![part], slot, NewKeys::Always, given, deadline).await {
                Err(Error::OutOfMemory) => return Err(Error::NoRoom),
                answer => answer?,
            };
            self.count_no_room();
        }
        let mut decision = several::read_decision(&mut Reader::new(answer.bytes()), limits, policy, op, cost)?;
        if overflows {
            decision = external_store::degraded(decision);
        }
        if given.is_none() {
            self.note_answer(slot, subject, op, cost, &decision, asked);
        }
        Ok(decision)
    }

    /// The subject of a part, for remembered denials.
    pub(crate) fn subject(&self, part: &KeyRequest) -> Subject {
        self.inner.denials.subject(&part.key, &part.policy)
    }

    /// Records the decision of Redis on a request that was sent at `asked`.
    #[inline]
    pub(crate) fn note_answer(&self, slot: u16, subject: Subject, op: Op, cost: Cost, decision: &Decision, asked: u64) {
        self.inner.denials.record(subject, op, cost, decision, asked);
        if decision.charged_at().is_some() && decision.used() <= cost.get() {
            self.note_new_key(slot);
        }
    }

    /// Whether so many requests wait that one which is known to be limited is not asked about.
    #[inline]
    pub(crate) fn is_under_pressure(&self, slot: u16, op: Op, subject: impl FnOnce() -> Subject, cost: Cost) -> bool {
        let Some(node) = self.inner.router.node(slot).filter(|node| node.state.is_under_pressure()) else {
            return false;
        };
        let known = op != Op::Charge && self.inner.denials.find(subject(), cost).is_some();
        if known {
            node.state.record_error(&Error::Overloaded);
        }
        known
    }

    /// The denial of such a request that is remembered. A charge is never denied.
    fn known_denial(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        let denials = &self.inner.denials;
        if op == Op::Charge || !denials.may_have_any() {
            return None;
        }
        let (policy_bytes, _) = encode_policy(policy);
        denials.find(denials.subject(&self.name(policy, key, None).bytes, &policy_bytes), cost)
    }

    pub(crate) fn forget_denial(&self, key: &[u8]) {
        self.inner.denials.remove(key);
    }

    /// The name of the overflow key for a new key without room. Limits that callers bring have no overflow keys: callers could
    /// create any number of them.
    pub(crate) fn overflow_name(&self, policy: &Policy, key: &Key<'_>) -> Option<KeyName> {
        let shares = self.inner.at_capacity == AtCapacity::Shared && !policy.is_brought_by_caller();
        let name = policy.name().filter(|_| shares)?;
        Some(self.inner.names.overflow(name, key))
    }

    /// Counts a request that was decided on an overflow key.
    pub(crate) fn count_no_room(&self) {
        self.inner.counters.trouble(&Error::NoRoom);
    }

    fn note_new_key(&self, slot: u16) {
        if let Some(node) = self.inner.router.node(slot) {
            node.state.keyspace.count_created();
        }
    }

    /// When the caller of a decision that begins now gives up, by the stopwatch.
    pub(crate) fn deadline(&self, given: Option<Timestamp>) -> u64 {
        // A replay has time.
        let patience = if given.is_some() { Duration::from_secs(10) } else { self.inner.timeout };
        stopwatch::micros().saturating_add(u64::try_from(patience.as_micros()).unwrap_or(u64::MAX))
    }

    /// Asks the node of a slot for something other than a decision.
    pub(crate) async fn ask(&self, action: Action, part: KeyRequest, slot: u16, given: Option<Timestamp>) -> Asked {
        self.ask_until(action, vec![part], slot, NewKeys::Always, given, self.deadline(given)).await
    }

    /// Asks the node of a slot and waits until `deadline`, by the stopwatch.
    pub(crate) async fn ask_until(
        &self,
        action: Action,
        parts: Vec<KeyRequest>,
        slot: u16,
        new_keys: NewKeys,
        given: Option<Timestamp>,
        deadline: u64,
    ) -> Asked {
        let began = stopwatch::micros();
        let left = || Duration::from_micros(deadline.saturating_sub(stopwatch::micros()));
        let router = &self.inner.router;
        if router.node(slot).is_none() && tokio::time::timeout(left(), router.layout_known()).await.is_err() {
            return Err(router.record_unserved(slot));
        }
        let Some(node) = router.node(slot) else { return Err(router.record_unserved(slot)) };
        if !node.state.breaker.is_closed() {
            return Err(node.state.refusal());
        }
        let (answer, answered) = oneshot::channel();
        let group = Group { action, parts, deadline: 0, new_keys };
        node.submit(PendingRequest {
            group,
            slot,
            given,
            deadline,
            asking: false,
            alone: false,
            reply_to: answer,
            outstanding: None,
        });
        let asked = match tokio::time::timeout(left(), answered).await {
            Ok(Ok(answer)) => answer,
            // The task let go of it: the connection, or the node, is gone.
            Ok(Err(_)) => Err(Error::Lost),
            Err(_) => Err(node.state.timed_out(began)),
        };
        match &asked {
            Ok(answer) if answer.no_room => {
                count(&self.inner.counters.no_room);
                node.state.degraded_states.record(Cause::NoRoom, || node.state.keyspace.describe());
            }
            Ok(_) => {}
            Err(trouble) => node.state.record_error(trouble),
        }
        asked
    }

    #[inline]
    fn counted(&self, op: Op, decision: Decision) -> Decision {
        if op != Op::Peek {
            count(if decision.is_allowed() { &self.inner.counters.allowed } else { &self.inner.counters.denied });
        }
        decision
    }
}
