//! The operations of [`RedisStore`]: what the trait [`Store`] asks for.

use std::time::Duration;

use tidegate::{
    ActiveOverride, AnyStore, Cost, Decision, Decisions, Hold, Inspection, Key, Lease, Leased, Op, Override,
    OverrideError, Policy, PolicySource, Refund, ReservationId, Reserved, ReservedAll, Settled, Spend, Store,
    StoreError, StoreReport, Timestamp, external_store,
};

use crate::{
    decide::{decide_all, decide_one},
    override_record,
    overrides::{OverrideList, ask_override, unlisted},
    reply::{AppliedOverride, Reader},
    reservations,
    store::RedisStore,
    wire::{Action, OverrideStep},
};

impl Store for RedisStore {
    #[inline]
    async fn decide(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, StoreError> {
        if op != Op::Peek {
            external_store::refuse_policy_in_flight(policy)?;
        }
        Ok(decide_one(self, op, &Spend { policy, key, cost }).await?)
    }

    /// Decides several requests as one. If their keys are in different slots of a cluster, what was charged in one slot
    /// is given back if another slot denies.
    async fn decide_all(&self, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
        if op != Op::Peek {
            external_store::refuse_in_flight(spends)?;
        }
        decide_all(self, op, spends).await
    }

    /// Reserves one request. A reserve is never sent again after a lost reply: if it was granted, the hold ends by itself.
    async fn reserve(&self, policy: &Policy, key: &Key<'_>, cost: Cost, hold: Hold) -> Result<Reserved, StoreError> {
        reservations::reserve_one(self, &Spend { policy, key, cost }, hold).await
    }

    /// Reserves several requests as one. If their keys are in different slots of a cluster, the holds of one slot are
    /// released if another slot denies.
    async fn reserve_all(&self, spends: &[Spend<'_>], hold: Hold) -> Result<ReservedAll, StoreError> {
        reservations::reserve_all(self, spends, hold).await
    }

    /// Closes a hold. A commit is never sent again after a lost reply: the error says that it may have run. A caller can repeat it,
    /// but must not charge the cost by itself if the repeated commit is not known.
    async fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        reservations::commit(self, id, actual, policies).await
    }

    /// Sends a release in a task of the runtime that the store was made in, also for a caller outside a runtime.
    ///
    /// At most [`queue`](crate::RedisStoreBuilder::queue) of these releases are under way. One more is dropped, and so is one
    /// that Redis does not answer. Both are counted in [`releases_dropped`](crate::Stats::releases_dropped), and the hold ends
    /// by itself.
    fn release_detached(&self, id: &ReservationId, policies: &[Policy]) {
        reservations::release_detached(self, id, policies);
    }

    async fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, StoreError> {
        reservations::renew(self, id, ttl, policies).await
    }

    /// Sets units aside for a node. There is no failure choice: a node without a lease decides by its own.
    async fn lease(&self, policy: &Policy, key: &Key<'_>, lease: &Lease) -> Result<Leased, StoreError> {
        reservations::lease_units(self, policy, key, lease).await
    }

    async fn settle(&self, id: &ReservationId, spent: u64, policies: &dyn PolicySource) -> Result<Settled, StoreError> {
        reservations::settle(self, id, spent, policies).await
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
        let request = self.request(policy, key, cost, Some(charged_at));
        let answer = self.ask_and_forget_denial(Action::Refund, request, self.deadline()).await?;
        let reply = Reader::new(answer.bytes()).key_reply(policy.limits().len())?;
        let (returned, limits) = (reply.returned, &reply.limits());
        Ok(match &reply.applied {
            None => external_store::refund(policy, returned, limits),
            Some(AppliedOverride::Limits(other)) => external_store::refund(&other.decode()?, returned, limits),
            Some(AppliedOverride::Ban) => external_store::refund_banned(policy, returned, limits),
            Some(AppliedOverride::Exempt) => external_store::refund_exempt(policy, returned),
        })
    }

    async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, StoreError> {
        let request = self.request(policy, key, Cost::ONE, None);
        let answer = self.ask_and_forget_denial(Action::Reset, request, self.deadline()).await?;
        Ok(Reader::new(answer.bytes()).number(1)? != 0)
    }

    async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, StoreError> {
        let answer = self.ask(Action::Inspect, self.request(policy, key, Cost::ONE, None)).await?;
        let found = Reader::new(answer.bytes()).inspection(policy.limits().len())?;
        let Some(found) = found else { return Ok(None) };
        let mut inspection = match &found.applied {
            Some(AppliedOverride::Limits(other)) => {
                external_store::inspection(&other.decode()?, found.newest, found.limits)
            }
            _ => external_store::inspection(policy, found.newest, found.limits),
        };
        inspection.reservations = found.reservations;
        if let Some(AppliedOverride::Ban) = found.applied {
            inspection.limits.iter_mut().for_each(|limit| limit.remaining = 0);
        }
        Ok(Some(inspection))
    }

    /// Overrides the limits of a key under a policy, for every program that shares this Redis.
    async fn set_override(&self, policy: &Policy, key: &Key<'_>, by: Override) -> Result<Option<Override>, StoreError> {
        let list = OverrideList::new(self, policy)?;
        by.check_for(policy)?;
        // The script reads an end of 0 as no end.
        if by.end().is_some_and(|end| end <= self.time.unwrap_or(Timestamp::from_micros(0))) {
            return Err(OverrideError::Over.into());
        }
        let field = self.names().name(policy, key).bytes;
        if !list.has_room(&field).await? {
            return Err(OverrideError::TooMany { max: self.context().settings.max_overrides }.into());
        }
        let encoded = override_record::encode(key, &by);
        let answer = ask_override(self, OverrideStep::Set, policy, key, &encoded).await?;
        if !answer.done {
            return Err(OverrideError::Over.into());
        }
        let record = override_record::record(&encoded, answer.now);
        list.put(&field, &record).await.map_err(|error| unlisted(&error))?;
        Ok(answer.before.map(|before| before.r#override))
    }

    async fn remove_override(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Override>, StoreError> {
        let list = OverrideList::new(self, policy)?;
        let answer = ask_override(self, OverrideStep::Remove, policy, key, &[]).await?;
        // Also if there was no override: an earlier attempt may have removed it without the list.
        list.remove(&self.names().name(policy, key).bytes).await.map_err(|error| unlisted(&error))?;
        Ok(answer.before.map(|before| before.r#override))
    }

    async fn override_of(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<ActiveOverride>, StoreError> {
        Ok(ask_override(self, OverrideStep::Show, policy, key, &[]).await?.before)
    }

    /// Lists the overrides of a policy in the order of their keys. They are read page by page: an override that is set or
    /// removed meanwhile may be listed or not.
    async fn overrides(&self, policy: &Policy) -> Result<Vec<ActiveOverride>, StoreError> {
        let Ok(list) = OverrideList::new(self, policy) else { return Ok(Vec::new()) };
        let mut found = list.entries().await?;
        found.sort_by_cached_key(|active| (active.key.as_bytes().to_vec(), active.key.is_joined()));
        // While the list grows, two pages may contain the same override.
        found.dedup_by(|one, other| one.key == other.key);
        Ok(found)
    }

    fn has_leases(&self) -> bool {
        true
    }

    fn at_time(&self, time: Timestamp) -> Option<AnyStore> {
        Some(AnyStore::new(self.at(time)))
    }

    fn report(&self) -> StoreReport {
        self.make_report()
    }
}
