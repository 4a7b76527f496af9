//! [`RedisStore`]: state in Redis, shared by all programs that use it.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use tidegate::{AtCapacity, Cost, Decision, Key, Op, Policy, Spend, Timestamp};

use tokio::{runtime::Handle, sync::Semaphore};

use crate::{
    breaker::BreakerState,
    builder::RedisStoreBuilder,
    denials::{Denials, Subject},
    error::{Cause, Error},
    fallback::Fallback,
    key_name::{self as name, KeyName, KeyNames},
    node::{Node, NodeContext},
    pending_request::{GroupReply, PendingRequest},
    reply::is_in_reserved_form,
    reservations::{id::Secrets, local_parts::LocalParts},
    reserved_keys::ReservedKeys,
    router::Router,
    script::Source,
    settings::Settings,
    stats::{Counters, Stats, count},
    stopwatch::{self, to_micros},
    target::{Login, Target, UrlError},
    wire::{Action, Group, KeyRequest, NewKeys, ReservationStep},
};

/// Limits shared by many nodes, jobs and languages: the answers of the in-memory store, from Redis, on the server's clock.
///
/// It is cheap to clone, and any task of the tokio runtime that it was made in can use it. A decision never fails: if
/// Redis does not answer in time, the policy's [`OnStoreFailure`](tidegate::OnStoreFailure) decides, and the decision is
/// marked [degraded](Decision::is_degraded). All operations are those of the trait [`Store`](tidegate::Store).
///
/// ```no_run
/// use tidegate::{Cost, Key, OnStoreFailure, Policy, Store as _};
/// use tidegate_redis::RedisStore;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379")?;
/// let login = Policy::new("login", ["5/1m".parse()?, "50/1d".parse()?])?.with_on_store_failure(OnStoreFailure::Closed);
/// let decision = store.check(&login, &Key::new("alice")?, Cost::ONE).await?;
/// if !decision.is_allowed() {
///     println!("come back in {:?}", decision.retry_after());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
    /// The time of decisions, in place of the server's clock.
    pub(crate) time: Option<Timestamp>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) router: Arc<Router>,
    names: KeyNames,
    /// Names of states at given times, so that a replay does not touch the states of live requests.
    given_names: KeyNames,
    pub(crate) fallback: Fallback,
    denials: Denials,
    reserved_keys: ReservedKeys,
    /// What seals the places of reservations.
    pub(crate) secrets: Secrets,
    /// The requests of reservations that are held in this process.
    pub(crate) local_parts: LocalParts,
    /// A permit for each release that no caller waits for.
    pub(crate) releases: Arc<Semaphore>,
    pub(crate) runtime: Handle,
}

impl Inner {
    /// The name of the key with the secret. States at given times use the same one.
    pub(crate) fn secret_name(&self) -> KeyName {
        self.names.secret()
    }
}

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
        let names = KeyNames::new(&settings.prefix);
        let given_names = KeyNames::new(&format!("{}-given", settings.prefix));
        let fallback = Fallback::new(Arc::clone(&counters), settings.at_capacity);
        let releases = Arc::new(Semaphore::new(settings.queue.min(Semaphore::MAX_PERMITS)));
        let (source, is_cluster) = (Source::new(settings.page), matches!(target, Target::Cluster(_)));
        let router = Router::start(NodeContext { settings, login, source, counters, is_cluster }, target);
        let (denials, secrets, runtime) = (Denials::new(), Secrets::default(), Handle::current());
        let local_parts = LocalParts::default();
        let reserved_keys = ReservedKeys::new();
        let inner = Inner {
            router,
            names,
            given_names,
            fallback,
            denials,
            reserved_keys,
            secrets,
            local_parts,
            releases,
            runtime,
        };
        Self { inner: Arc::new(inner), time: None }
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

    /// The same store, which decides at `time` and not by the server's clock: for replays and tests. It has states of
    /// its own, under another prefix. It applies no failure choice: if Redis does not answer, an operation returns an
    /// error.
    #[must_use]
    pub fn at(&self, time: Timestamp) -> Self {
        Self { inner: Arc::clone(&self.inner), time: Some(time) }
    }

    /// What has been counted so far.
    pub fn stats(&self) -> Stats {
        let may_evict = self.inner.router.nodes().iter().any(|node| node.state.may_evict.load(Relaxed));
        self.context().counters.snapshot(may_evict)
    }

    /// Each server that is asked and where its breaker stands.
    pub fn breakers(&self) -> Vec<(String, BreakerState)> {
        let state = |node: &Arc<Node>| (node.state.name.clone(), node.state.breaker.state());
        self.inner.router.nodes().iter().map(state).collect()
    }

    /// The name of the Redis key that holds a state: for looking at it by other means.
    pub fn key_name(&self, policy: &Policy, key: &Key<'_>) -> Vec<u8> {
        self.inner.names.name(policy, key).bytes
    }

    pub(crate) fn names(&self) -> &KeyNames {
        if self.time.is_some() { &self.inner.given_names } else { &self.inner.names }
    }

    /// A request for one key.
    pub(crate) fn request(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Option<Timestamp>,
    ) -> KeyRequest {
        KeyRequest::new(self.names().name(policy, key), policy, cost, charged_at)
    }

    pub(crate) fn context(&self) -> &NodeContext {
        &self.inner.router.context
    }

    /// The subject of a request, for remembered denials.
    fn subject(&self, request: &KeyRequest) -> Subject {
        self.inner.denials.subject(&request.name.bytes, &request.policy)
    }

    /// Records the decision of Redis on a request that was sent at `asked`.
    #[inline]
    pub(crate) fn note_answer(&self, request: &KeyRequest, op: Op, decision: &Decision, asked: u64) {
        self.inner.denials.record(self.subject(request), op, request.cost, decision, asked);
        let may_be_new = decision.charged_at().is_some() && decision.used() <= request.cost.get();
        if let Some(node) = self.inner.router.node(request.name.slot).filter(|_| may_be_new) {
            node.state.keyspace.count_created();
        }
    }

    /// Whether so many requests wait that this one is not sent, because it is known to be limited.
    #[inline]
    pub(crate) fn is_known_under_pressure(&self, op: Op, request: &KeyRequest) -> bool {
        let node = self.inner.router.node(request.name.slot);
        let Some(node) = node.filter(|node| node.state.is_under_pressure()) else { return false };
        let known = op != Op::Charge && self.inner.denials.find(self.subject(request), request.cost).is_some();
        if known {
            node.state.record_error(&Error::Overloaded);
        }
        known
    }

    /// The denial of such a request that is remembered. A charge is never denied.
    pub(crate) fn known_denial(&self, op: Op, spend: &Spend<'_>) -> Option<Decision> {
        if op == Op::Charge || !self.inner.denials.may_have_any() {
            return None;
        }
        let request = self.request(spend.policy, spend.key, spend.cost, None);
        self.inner.denials.find(self.subject(&request), spend.cost)
    }

    /// What stands for the subject of a new key without room in the name of its overflow key. Limits supplied by callers have no
    /// overflow keys: callers could create any number of them.
    pub(crate) fn overflow_subject(&self, policy: &Policy, key: &Key<'_>) -> Option<name::Subject> {
        let shares = self.context().settings.at_capacity == AtCapacity::Shared && policy.name().is_some();
        (shares && !policy.is_supplied_by_caller()).then(|| KeyNames::overflow_subject(key))
    }

    /// The name of that overflow key.
    pub(crate) fn overflow_name(&self, policy: &Policy, key: &Key<'_>) -> Option<KeyName> {
        Some(self.inner.names.name_of(policy, &self.overflow_subject(policy, key)?))
    }

    /// When the caller of a decision that begins now gives up, by the stopwatch.
    pub(crate) fn deadline(&self) -> u64 {
        let timeout = self.context().settings.timeout;
        // A replay can wait.
        let timeout = if self.time.is_some() { timeout.max(Duration::from_secs(10)) } else { timeout };
        stopwatch::micros().saturating_add(to_micros(timeout))
    }

    /// Asks for something other than a decision.
    pub(crate) async fn ask(&self, action: Action, request: KeyRequest) -> Result<GroupReply, Error> {
        self.ask_by(action, request, self.deadline()).await
    }

    /// The same for an operation that has begun before.
    pub(crate) async fn ask_by(&self, action: Action, request: KeyRequest, deadline: u64) -> Result<GroupReply, Error> {
        self.ask_group(action, vec![request], NewKeys::Always, deadline).await
    }

    /// Asks for an operation that may end a denial. The remembered denial is removed before and after it: a request that
    /// Redis denied meanwhile may have been decided before the operation.
    pub(crate) async fn ask_and_forget_denial(
        &self,
        action: Action,
        request: KeyRequest,
        deadline: u64,
    ) -> Result<GroupReply, Error> {
        let key = request.name.bytes.clone();
        self.inner.denials.remove(&key);
        let answer = self.ask_by(action, request, deadline).await;
        self.inner.denials.remove(&key);
        answer
    }

    pub(crate) fn forget_denial(&self, key: &[u8]) {
        self.inner.denials.remove(key);
    }

    /// Asks the node of the first key and waits until `deadline`, by the stopwatch.
    pub(crate) async fn ask_group(
        &self,
        action: Action,
        parts: Vec<KeyRequest>,
        new_keys: NewKeys,
        deadline: u64,
    ) -> Result<GroupReply, Error> {
        let began = stopwatch::micros();
        let left = || Duration::from_micros(deadline.saturating_sub(stopwatch::micros()));
        let (router, slot) = (&self.inner.router, parts[0].name.slot);
        if router.node(slot).is_none() && tokio::time::timeout(left(), router.layout_known()).await.is_err() {
            return Err(router.record_unserved(slot));
        }
        let Some(node) = router.node(slot) else { return Err(router.record_unserved(slot)) };
        let reserved_keys = &self.inner.reserved_keys;
        let reads_form =
            parts.len() == 1 && matches!(action, Action::Decide(_) | Action::Reservation(ReservationStep::Reserve));
        let key = reads_form.then(|| reserved_keys.hash(&parts[0].name.bytes));
        let expects_reservations = key.is_some_and(|key| reserved_keys.has(key));
        let group = Group { action, parts, deadline: 0, new_keys, expects_reservations };
        let (request, answered) = PendingRequest::new(group, self.time, deadline);
        node.submit(request);
        let asked = match tokio::time::timeout(left(), answered).await {
            Ok(Ok(answer)) => answer,
            // The task let go of it: the connection, or the node, is gone.
            Ok(Err(_)) => Err(Error::Lost),
            Err(_) => Err(node.state.timed_out(began)),
        };
        match &asked {
            Ok(answer) if answer.no_room => {
                count(&self.context().counters.no_room);
                node.state.degraded_states.record(Cause::NoRoom, || node.state.keyspace.describe());
            }
            Ok(answer) => {
                if let Some(key) = key {
                    reserved_keys.note(key, is_in_reserved_form(answer.bytes()));
                }
            }
            Err(error) => node.state.record_error(error),
        }
        asked
    }
}
