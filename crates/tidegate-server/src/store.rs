//! [`Store`]: where the state lives, in this process or in Redis.

use tidegate::{
    ActiveOverride, Clock, Cost, Decision, Decisions, Inspection, Key, Limiter, MemoryStore, OnStoreFailure, Op,
    Override, Policy, Refund, Spend, SpendError, Timestamp,
};
use tidegate_redis::{BreakerState, Degradation, Error, OverrideTrouble, RedisStore};

use crate::{config::StoreSettings, service::StateReport};

/// Where the state lives.
#[derive(Debug)]
pub(crate) enum Store {
    Memory(Limiter),
    Redis(RedisStore),
}

impl Store {
    /// Opens what the settings name. A Redis that is not there yet is no error: it is tried again and again.
    pub(crate) fn open(settings: &StoreSettings) -> Result<Self, String> {
        if settings.url == "memory" {
            let store = MemoryStore::builder()
                .max_keys(settings.max_keys)
                .max_bytes(settings.max_bytes)
                .at_capacity(settings.at_capacity)
                .caller_share(settings.caller_share)
                .build()
                .map_err(|error| error.to_string())?;
            return Ok(Self::Memory(Limiter::new(store)));
        }
        let mut builder = RedisStore::builder(&settings.url).timeout(settings.timeout).prefix(&settings.prefix);
        builder = builder.at_capacity(settings.at_capacity);
        if let Some(keys) = settings.redis_max_keys {
            builder = builder.max_keys(keys as u64);
        }
        if let Some(path) = &settings.tls_ca {
            let pem = std::fs::read(path).map_err(|error| format!("{}: can't be read: {error}", path.display()))?;
            builder = builder.tls_ca(pem);
        }
        builder.connect().map(Self::Redis).map_err(|error| error.to_string())
    }

    /// `memory` or `redis`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// The clock that decisions are made by or, where that is a server's, this machine's.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Memory(limiter) => limiter.clock().clone(),
            Self::Redis(_) => Clock::system(),
        }
    }

    /// Whether a decision never waits for anything.
    pub(crate) fn is_immediate(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// The degraded states that the store itself reports.
    pub(crate) fn degradations(&self) -> Vec<StateReport> {
        let Self::Redis(redis) = self else { return Vec::new() };
        let found = |state: Degradation| StateReport {
            cause: state.cause,
            node: Some(state.node),
            detail: state.detail,
            cure: state.cure.to_owned(),
            lasted: state.lasted,
        };
        redis.degradations().into_iter().map(found).collect()
    }

    /// Whether the store answers, so that no request is answered without it.
    pub(crate) fn answers(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Redis(redis) => {
                let breakers = redis.breakers();
                !breakers.is_empty()
                    && breakers.iter().all(|(_, state)| *state == BreakerState::Closed)
                    && !self.degradations().iter().any(StateReport::is_without_store)
            }
        }
    }

    #[inline]
    pub(crate) async fn decide(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        on_failure: OnStoreFailure,
    ) -> Decision {
        match self {
            Self::Memory(limiter) => limiter.store().decide(op, policy, key, cost, limiter.clock().now()),
            Self::Redis(redis) => redis.decide(op, policy, key, cost, on_failure).await,
        }
    }

    pub(crate) async fn decide_all(
        &self,
        op: Op,
        spends: &[Spend<'_>],
        on_failure: Option<OnStoreFailure>,
    ) -> Result<Decisions, SpendError> {
        match self {
            Self::Memory(limiter) => limiter.store().decide_all(op, spends, limiter.clock().now()),
            Self::Redis(redis) => redis.decide_all(op, spends, on_failure).await,
        }
    }

    pub(crate) async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.refund(policy, key, cost, charged_at)),
            Self::Redis(redis) => redis.refund(policy, key, cost, charged_at).await,
        }
    }

    pub(crate) async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.reset(policy, key)),
            Self::Redis(redis) => redis.reset(policy, key).await,
        }
    }

    pub(crate) async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.inspect(policy, key)),
            Self::Redis(redis) => redis.inspect(policy, key).await,
        }
    }

    /// Puts an override in force; whether another one was before.
    pub(crate) async fn set_override(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        by: Override,
    ) -> Result<bool, OverrideTrouble> {
        let before = match self {
            Self::Memory(limiter) => limiter.set_override(policy, key, by)?,
            Self::Redis(redis) => redis.set_override(policy, key, &by).await?,
        };
        Ok(before.is_some())
    }

    /// Lifts an override; whether there was one.
    pub(crate) async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, OverrideTrouble> {
        let lifted = match self {
            Self::Memory(limiter) => limiter.remove_override(policy, key),
            Self::Redis(redis) => redis.remove_override(policy, key).await?,
        };
        Ok(lifted.is_some())
    }

    pub(crate) async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.override_of(policy, key)),
            Self::Redis(redis) => redis.override_of(policy, key).await,
        }
    }

    pub(crate) async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.overrides(policy)),
            Self::Redis(redis) => redis.overrides(policy).await,
        }
    }
}
