//! [`Store`]: where the state lives.

use std::{convert::Infallible, future::Future, sync::Arc};

use tidegate::{Clock, Cost, Decision, Decisions, Key, Limiter, Policy, Spend, SpendError, Timestamp};

/// A part of what a call wants.
#[derive(Debug, Clone)]
pub struct Part {
    pub(crate) policy: Policy,
    pub(crate) key: Key<'static>,
    pub(crate) cost: Cost,
}

impl Part {
    pub(crate) fn spends(parts: &[Self]) -> Vec<Spend<'_>> {
        parts.iter().map(|Self { policy, key, cost }| Spend { policy, key, cost: *cost }).collect()
    }
}

/// Why nothing was reserved, nor denied.
#[derive(Debug)]
pub enum NotAsked {
    /// The parts can't be one decision.
    Malformed(SpendError),
    /// The runtime is shutting down.
    Gone,
}

/// Where the state lives: an `Arc<Limiter>`, or, with the feature `redis`, a `RedisStore`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no store that a layer or a budget can be kept in",
    note = "use an `Arc<Limiter>` or, with the feature `redis` of tidegate-tower, a `RedisStore`"
)]
pub trait Store: sealed::Asked {}

impl<S: sealed::Asked> Store for S {}

pub(crate) mod sealed {
    use super::{Clock, Cost, Decision, Decisions, Future, Key, NotAsked, Part, Policy, Timestamp};

    /// What a budget asks of it. Whatever is dropped while it waits leaves nothing charged.
    pub trait Asked: Clone + Send + Sync + 'static {
        /// Why units were not given back.
        type Error: std::error::Error + Send + Sync + 'static;

        /// Whether others spend from it, too.
        const IS_SHARED: bool;

        /// By which dates are read and told. Where decisions are made by a server's clock, this machine's.
        fn clock(&self) -> &Clock;

        /// Charges all parts if all fit.
        fn reserve(&self, parts: Vec<Part>) -> impl Future<Output = Result<Decisions, NotAsked>> + Send;

        /// Looks.
        fn peek(&self, policy: &Policy, key: &Key<'_>) -> impl Future<Output = Decision> + Send;

        /// Charges, whether it fits or not.
        fn charge(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> impl Future<Output = Decision> + Send;

        /// Gives back.
        fn refund(
            &self,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            charged_at: Timestamp,
        ) -> impl Future<Output = Result<(), Self::Error>> + Send;
    }
}

impl sealed::Asked for Arc<Limiter> {
    type Error = Infallible;

    const IS_SHARED: bool = false;

    fn clock(&self) -> &Clock {
        Limiter::clock(self)
    }

    async fn reserve(&self, parts: Vec<Part>) -> Result<Decisions, NotAsked> {
        self.check_all(&Part::spends(&parts)).map_err(NotAsked::Malformed)
    }

    async fn peek(&self, policy: &Policy, key: &Key<'_>) -> Decision {
        Limiter::peek(self, policy, key, Cost::ONE)
    }

    async fn charge(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
        Limiter::charge(self, policy, key, cost)
    }

    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<(), Infallible> {
        Limiter::refund(self, policy, key, cost, charged_at);
        Ok(())
    }
}

#[cfg(feature = "redis")]
mod redis {
    use std::sync::LazyLock;

    use tidegate::{Clock, Cost, Decision, Decisions, Key, Policy, Timestamp};
    use tidegate_redis::{Error as RedisError, RedisStore};
    use tokio::runtime::Handle;

    use super::{NotAsked, Part, sealed};

    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::system);

    impl sealed::Asked for RedisStore {
        type Error = RedisError;

        const IS_SHARED: bool = true;

        fn clock(&self) -> &Clock {
            &CLOCK
        }

        async fn reserve(&self, parts: Vec<Part>) -> Result<Decisions, NotAsked> {
            // By a task of its own: it ends whether or not the one who asked still waits, and what was charged for nobody is given back.
            let store = self.clone();
            let asked = tokio::spawn(async move {
                let decisions = store.check_all(&Part::spends(&parts)).await?;
                Ok(Unclaimed { store, parts, decisions: Some(decisions), runtime: Handle::current() })
            });
            match asked.await {
                Ok(Ok(mut unclaimed)) => unclaimed.decisions.take().ok_or(NotAsked::Gone),
                Ok(Err(malformed)) => Err(NotAsked::Malformed(malformed)),
                Err(_) => Err(NotAsked::Gone),
            }
        }

        async fn peek(&self, policy: &Policy, key: &Key<'_>) -> Decision {
            Self::peek(self, policy, key, Cost::ONE).await
        }

        async fn charge(&self, policy: &Policy, key: &Key<'_>, cost: Cost) -> Decision {
            Self::charge(self, policy, key, cost).await
        }

        async fn refund(
            &self,
            policy: &Policy,
            key: &Key<'_>,
            cost: Cost,
            charged_at: Timestamp,
        ) -> Result<(), RedisError> {
            Self::refund(self, policy, key, cost, charged_at).await.map(|_| ())
        }
    }

    /// Decisions that nobody has taken yet.
    struct Unclaimed {
        store: RedisStore,
        parts: Vec<Part>,
        decisions: Option<Decisions>,
        runtime: Handle,
    }

    impl Drop for Unclaimed {
        fn drop(&mut self) {
            let Some(decisions) = self.decisions.take() else { return };
            let (store, parts) = (self.store.clone(), std::mem::take(&mut self.parts));
            self.runtime.spawn(async move {
                // What was charged in this process, while Redis was away, is not to be given back there.
                let charged = parts.iter().zip(&decisions.parts).filter(|(_, decision)| !decision.is_degraded());
                for (part, decision) in charged {
                    if let Some(at) = decision.charged_at()
                        && let Err(trouble) = store.refund(&part.policy, &part.key, part.cost, at).await
                    {
                        tracing::warn!(
                            "{} units that nobody waited for were not given back: {trouble}",
                            part.cost.get()
                        );
                    }
                }
            });
        }
    }
}
