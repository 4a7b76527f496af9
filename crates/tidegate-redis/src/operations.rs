//! The operations of [`RedisStore`]: what the trait [`Store`] asks for.

use tidegate::{
    ActiveOverride, AnyStore, Cost, Decision, Decisions, Inspection, Key, Op, Override, Policy, Refund, Spend, Store,
    StoreError, StoreReport, Timestamp, external_store,
};

use crate::{
    decide_all, overrides,
    reply::{AppliedOverride, Reader},
    store::RedisStore,
    wire::{Action, KeyRequest},
};

impl Store for RedisStore {
    #[inline]
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        self.decide_one(op, policy, key, cost).await
    }

    /// Decides several requests as one. If their keys are in different slots of a cluster, what was charged in one slot
    /// is given back if another slot denies.
    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        decide_all::decide(self, op, spends).await
    }

    /// Gives units back. A failed refund is not repeated. If Redis does not answer, it is not known whether units were
    /// given back.
    async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, StoreError> {
        let name = self.name(policy, key);
        let part = KeyRequest::new(name.bytes, policy, cost, Some(charged_at));
        let limits = part.limits;
        let answer = self.ask_and_forget_denial(Action::Refund, part, name.slot).await?;
        let reply = Reader::new(answer.bytes()).key_reply(limits)?;
        let (returned, limit_statuses) = (reply.returned, &reply.limits());
        Ok(match &reply.applied {
            None => external_store::refund(policy, returned, limit_statuses),
            Some(AppliedOverride::Limits(limits)) => {
                external_store::refund(&limits.decode()?, returned, limit_statuses)
            }
            Some(AppliedOverride::Ban) => external_store::refund_banned(policy, returned, limit_statuses),
            Some(AppliedOverride::Exempt) => external_store::refund_exempt(policy, returned),
        })
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let name = self.name(policy, key);
        let part = KeyRequest::new(name.bytes, policy, Cost::ONE, None);
        let answer = self.ask_and_forget_denial(Action::Reset, part, name.slot).await?;
        Ok(Reader::new(answer.bytes()).state_existed()?)
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        let name = self.name(policy, key);
        let part = KeyRequest::new(name.bytes, policy, Cost::ONE, None);
        let limits = part.limits;
        let answer = self.ask(Action::Inspect, part, name.slot).await?;
        let Some(found) = Reader::new(answer.bytes()).inspection(limits)? else { return Ok(None) };
        let mut inspection = match &found.applied {
            Some(AppliedOverride::Limits(limits)) => {
                external_store::inspection(&limits.decode()?, found.newest, found.limits)
            }
            _ => external_store::inspection(policy, found.newest, found.limits),
        };
        if let Some(AppliedOverride::Ban) = found.applied {
            inspection.limits.iter_mut().for_each(|limit| limit.remaining = 0);
        }
        Ok(Some(inspection))
    }

    /// Overrides the limits of a key under a policy, for every program that shares this Redis.
    async fn set_override(&self, policy: &Policy, key: &Key<'_>, by: Override) -> Result<Option<Override>, StoreError> {
        overrides::set(self, policy, key, &by).await
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        overrides::remove(self, policy, key).await
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        overrides::show(self, policy, key).await
    }

    /// Lists the overrides of a policy page by page: an override that is set or removed meanwhile may be listed or not.
    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        overrides::list(self, policy).await
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        Some(AnyStore::new(self.at(time)))
    }

    fn report(&self) -> StoreReport {
        self.make_report()
    }
}
