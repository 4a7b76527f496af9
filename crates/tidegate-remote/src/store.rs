//! [`RemoteStore`]: the operations of [`Store`] as requests to the root.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use redis::{Cmd, Value};
use tidegate::{
    Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, OnStoreFailure, Op, Policy, PolicySource, Refund,
    ReservationError, ReservationId, Reserved, ReservedAll, Settled, Spend, Store, StoreError, StoreReport, Timestamp,
    external_store,
};

use crate::{
    builder::RemoteStoreBuilder,
    command,
    error::{ConnectError, Error},
    link::Link,
    reply::Fields,
    url::{RootUrl, UrlError},
};

/// The key with which policies are verified. Nothing is charged to it.
const PROBE: &str = "tidegate:verify";
/// Policies that are verified at once.
const VERIFIED_AT_ONCE: usize = 64;

/// A store that asks another Tidegate service, the root. It is cheap to clone.
///
/// A request that the root can't decide, for example because it does not have the policy, is denied as
/// [`StoreUnavailable`](tidegate::Reason::StoreUnavailable). That is an error of the configuration and not an outage, so
/// `on_store_failure` does not apply. A policy in shadow mode admits it.
///
/// No request is sent twice: a check without an answer may have been charged, and a lease may have been granted.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    link: Arc<Link>,
}

impl RemoteStore {
    /// The time after which an operation fails by default.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// The settings of a store for `tidegate://[:token@]host[:port]`, or for `tidegates://…` over TLS.
    pub fn builder(url: &str) -> RemoteStoreBuilder {
        RemoteStoreBuilder::new(url)
    }

    /// A store with the default settings, which connects in the background.
    ///
    /// # Errors
    /// If the URL is wrong.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect()
    }

    /// Checks a URL.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn check_url(url: &str) -> Result<(), UrlError> {
        RootUrl::parse(url).map(drop)
    }

    /// Waits until the root is connected.
    pub async fn ready(&self) {
        self.link.ready().await;
    }

    /// Replaces the policies of [`RemoteStoreBuilder::policies`], after a change of the configuration. They are verified soon.
    /// The store no longer reports the others, unless they are requested.
    pub fn set_policies(&self, policies: impl IntoIterator<Item = Policy>) {
        self.link.set_policies(policies.into_iter().collect());
    }

    async fn call(&self, command: Cmd, policy: Option<&str>) -> Result<Value, Error> {
        self.link.call(command).await.inspect_err(|error| self.link.health.record(error, policy))
    }

    /// Sends a request and reads the decision in the answer.
    async fn decision(&self, command: Cmd, policy: &Policy) -> Result<(Decision, Value), Error> {
        let reply = self.call(command, policy.name()).await?;
        let decision = self.read(Fields::of(&reply), policy)?;
        Ok((decision, reply))
    }

    fn read(&self, fields: Result<Fields<'_>, Error>, policy: &Policy) -> Result<Decision, Error> {
        let health = &self.link.health;
        let read = fields.and_then(|fields| fields.decision(policy));
        let (decision, is_different) = read.inspect_err(|error| health.record(error, policy.name()))?;
        health.record_decision(policy.name(), is_different, decision.is_degraded());
        Ok(decision)
    }

    /// Sends a request about a reservation, whose policy may not exist any more.
    async fn change(
        &self,
        id: &ReservationId,
        command: Cmd,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        let policy = match id.policy(policies) {
            Err(ReservationError::PolicyGone { .. }) => std::borrow::Cow::Owned(id.stand_in_policy()),
            policy => policy?,
        };
        let (decision, reply) = self.decision(command, &policy).await.map_err(|error| error.of_reservation(id))?;
        Ok(Settled::new(decision, Fields::of(&reply)?.flag("known")?))
    }
}

/// The name of a policy, for an operation that limits without a name don't have at the root.
fn named<'a>(policy: &'a Policy, operation: &'static str) -> Result<&'a str, StoreError> {
    policy.name().filter(|_| !is_foreign(policy)).ok_or(StoreError::Unsupported { operation })
}

/// Whether the policy has a name that only this process knows, such as that of CL.THROTTLE.
fn is_foreign(policy: &Policy) -> bool {
    policy.is_supplied_by_caller() && policy.name().is_some()
}

/// The denial of a request that no failure choice may admit; `None` if the choice decides. Overload is not an outage, so
/// `open` does not admit a request that was not sent.
fn denied(error: &Error, policy: &Policy) -> Option<Decision> {
    let is_shed = *error == Error::Overloaded && policy.on_store_failure() == OnStoreFailure::Open;
    (error.is_final() || is_shed).then(|| external_store::without_store(policy, false))
}

/// The id for a request that a policy in shadow mode admits without a hold at the root.
fn id_without_hold(decision: &Decision, policy: &Policy) -> Option<ReservationId> {
    decision.is_allowed().then(|| ReservationId::never_granted(policy, external_store::nonce()))
}

/// Asks the root about the policies. Those that it does not have, and those for which another limit decides there, are
/// reported.
pub(crate) async fn verify_policies(link: &Arc<Link>) {
    let store = RemoteStore::new(Arc::clone(link));
    let store = &store;
    let Ok(probe) = Key::new(PROBE) else { return };
    let probe = &probe;
    let verify = |policy: Policy| async move {
        let _ = store.decision(command::decide(Op::Peek, &policy, probe, Cost::ONE), &policy).await;
    };
    let policies = link.policies();
    stream::iter(policies).map(verify).buffer_unordered(VERIFIED_AT_ONCE).collect::<()>().await;
}

impl Store for RemoteStore {
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        if op != Op::Peek {
            external_store::refuse_policy_in_flight(policy)?;
        }
        if is_foreign(policy) {
            let error = Error::Refused("CL.THROTTLE is not available through another service".to_owned());
            self.link.health.record(&error, None);
            return Ok(external_store::without_store(policy, false));
        }
        match self.decision(command::decide(op, policy, key, cost), policy).await {
            Ok((decision, _)) => Ok(decision),
            Err(error) => denied(&error, policy).ok_or_else(|| error.into()),
        }
    }

    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        external_store::distinct(spends)?;
        if op != Op::Peek {
            external_store::refuse_in_flight(spends)?;
        }
        if let [only] = spends {
            let decision = self.decide(op, only.policy, only.key, only.cost).await?;
            return Ok(external_store::combine(spends, vec![decision]));
        }
        let decided = async {
            let reply = self.call(command::decide_all(op, spends)?, None).await?;
            let parts = Fields::of(&reply)?.parts()?;
            if parts.len() != spends.len() {
                return Err(Attempt::Failed(Error::Garbled("checks")));
            }
            let part = |(spend, fields): (&Spend<'_>, Fields<'_>)| self.read(Ok(fields), spend.policy);
            Ok(spends.iter().zip(parts).map(part).collect::<Result<Vec<_>, _>>()?)
        };
        match decided.await {
            Ok(parts) => Ok(external_store::combine(spends, parts)),
            Err(Attempt::Failed(error)) => {
                let all: Option<Vec<_>> = spends.iter().map(|spend| denied(&error, spend.policy)).collect();
                all.map(|parts| external_store::combine(spends, parts)).ok_or_else(|| error.into())
            }
            // No store can decide them, so no failure choice may admit them.
            Err(Attempt::Unsupported) => {
                let error = Error::Refused("one decision over several keys needs policies with names".to_owned());
                self.link.health.record(&error, None);
                let deny = |spend: &Spend<'_>| external_store::without_store(spend.policy, false);
                Ok(external_store::combine(spends, spends.iter().map(deny).collect()))
            }
        }
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        let name = named(policy, "refund of limits that a caller supplies")?;
        let reply = self.call(command::refund(name, key, cost, charged_at), Some(name)).await?;
        Ok(Fields::of(&reply)?.refund()?)
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let name = named(policy, "reset of limits that a caller supplies")?;
        match self.call(command::reset(name, key), Some(name)).await? {
            Value::Int(existed) => Ok(existed == 1),
            _ => Err(Error::Garbled("reset").into()),
        }
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        let name = named(policy, "inspection of limits that a caller supplies")?;
        match self.call(command::inspect(name, key), Some(name)).await? {
            Value::Nil => Ok(None),
            reply => Ok(Some(Fields::of(&reply)?.inspection(policy)?)),
        }
    }

    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        external_store::hold_ttl_us(policy, hold.ttl())?;
        let name = named(policy, "reserve under limits that a caller supplies")?;
        match self.decision(command::reserve(name, key, cost, hold), policy).await {
            Ok((decision, reply)) => {
                let id = Fields::of(&reply)?.reservation()?;
                Ok(Reserved::new(decision, id.or_else(|| id_without_hold(&decision, policy))))
            }
            Err(error) => {
                let decision = denied(&error, policy).ok_or(error)?;
                Ok(Reserved::new(decision, id_without_hold(&decision, policy)))
            }
        }
    }

    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        let [only] = spends else { return Err(StoreError::Unsupported { operation: "hold over several keys" }) };
        let Reserved { decision, id, .. } = self.reserve(only.policy, only.key, only.cost, hold).await?;
        Ok(ReservedAll::new(external_store::combine(spends, vec![decision]), id))
    }

    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        actual.iter().try_for_each(|units| external_store::check_amount(*units))?;
        self.change(id, command::commit(id, actual), policies).await
    }

    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        let (store, id, policies) = (self.clone(), id.clone(), policies.to_vec());
        // Without an answer, the hold ends by itself.
        self.link.release(async move { store.release(&id, &policies).await.is_ok() });
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        if let Ok(policy) = id.policy(policies) {
            external_store::hold_ttl_us(&policy, ttl)?;
        }
        self.change(id, command::renew(id, ttl), policies).await
    }

    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        external_store::lease_ttl_us(policy, lease)?;
        let name = named(policy, "lease under limits that a caller supplies")?;
        match self.decision(command::lease(name, key, lease), policy).await {
            Ok((decision, reply)) => Ok(Fields::of(&reply)?.leased(decision, lease)?),
            Err(error) => {
                let foreign = lease.settle.as_ref().map(|(id, _)| error.clone().of_reservation(id));
                match foreign {
                    Some(wrong @ StoreError::Reservation(_)) => Err(wrong),
                    _ => Ok(Leased::new(denied(&error, policy).ok_or(error)?, None, 0, None)),
                }
            }
        }
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        external_store::check_amount(spent)?;
        self.change(id, command::settle(id, spent), policies).await
    }

    fn has_leases(&self) -> bool {
        true
    }

    fn report(&self) -> StoreReport {
        self.link.health.report()
    }
}

/// Why several requests were not decided.
enum Attempt {
    Failed(Error),
    Unsupported,
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Attempt {
    fn from(_: StoreError) -> Self {
        Self::Unsupported
    }
}
