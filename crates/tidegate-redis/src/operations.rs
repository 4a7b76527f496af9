//! Operations on one key that are not decisions: refund, reset and inspection.

use tidegate::{Cost, Inspection, Key, Policy, Refund, Timestamp, external_store};

use crate::{
    error::Error,
    reply::{AppliedOverride, Reader},
    store::{Asked, RedisStore},
    wire::{Action, KeyRequest},
};

impl RedisStore {
    /// Gives units back to the moment they were charged at
    /// ([`Decision::charged_at`](tidegate::Decision::charged_at)), not to now. It is not repeated if it fails.
    ///
    /// # Errors
    /// If Redis does not answer; whether units were given back is not known then.
    pub async fn refund(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
    ) -> Result<Refund, Error> {
        self.refund_when(policy, key, cost, charged_at, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn refund_at(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
        now: Timestamp,
    ) -> Result<Refund, Error> {
        self.refund_when(policy, key, cost, charged_at, Some(now)).await
    }

    async fn refund_when(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
        charged_at: Timestamp,
        given: Option<Timestamp>,
    ) -> Result<Refund, Error> {
        let name = self.name(policy, key, given);
        let part = KeyRequest::new(name.bytes, policy, cost, Some(charged_at));
        let limits = part.limits;
        let answer = self.ask_and_forget(Action::Refund, part, name.slot, given).await?;
        let reply = Reader::new(answer.bytes()).key_reply(limits)?;
        let (returned, told) = (reply.returned, &reply.limits());
        Ok(match &reply.applied {
            None => external_store::refund(policy, returned, told),
            Some(AppliedOverride::Limits(limits)) => external_store::refund(&limits.decode()?, returned, told),
            Some(AppliedOverride::Ban) => external_store::refund_banned(policy, returned, told),
            Some(AppliedOverride::Exempt) => external_store::refund_exempt(policy, returned),
        })
    }

    /// Asks for an operation that may end a denial. The remembered denial is removed before and after it: a request that Redis
    /// denied meanwhile may have been decided before the operation.
    pub(crate) async fn ask_and_forget(
        &self,
        action: Action,
        part: KeyRequest,
        slot: u16,
        given: Option<Timestamp>,
    ) -> Asked {
        let key = part.key.clone();
        self.forget_denial(&key);
        let answer = self.ask(action, part, slot, given).await;
        self.forget_denial(&key);
        answer
    }

    /// Forgets a key's state under a policy, not its override; whether there was anything to forget.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn reset(&self, policy: &Policy, key: &Key<'_>) -> Result<bool, Error> {
        self.reset_when(policy, key, None).await
    }

    /// Forgets what was decided at given times.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn reset_at(&self, policy: &Policy, key: &Key<'_>, now: Timestamp) -> Result<bool, Error> {
        self.reset_when(policy, key, Some(now)).await
    }

    async fn reset_when(&self, policy: &Policy, key: &Key<'_>, given: Option<Timestamp>) -> Result<bool, Error> {
        let name = self.name(policy, key, given);
        let part = KeyRequest::new(name.bytes, policy, Cost::ONE, None);
        let answer = self.ask_and_forget(Action::Reset, part, name.slot, given).await?;
        Reader::new(answer.bytes()).state_existed()
    }

    /// Shows the state of a key under a policy, if it has one.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn inspect(&self, policy: &Policy, key: &Key<'_>) -> Result<Option<Inspection>, Error> {
        self.inspect_when(policy, key, None).await
    }

    /// The same at a given time, for replays and tests.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn inspect_at(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        now: Timestamp,
    ) -> Result<Option<Inspection>, Error> {
        self.inspect_when(policy, key, Some(now)).await
    }

    async fn inspect_when(
        &self,
        policy: &Policy,
        key: &Key<'_>,
        given: Option<Timestamp>,
    ) -> Result<Option<Inspection>, Error> {
        let name = self.name(policy, key, given);
        let part = KeyRequest::new(name.bytes, policy, Cost::ONE, None);
        let limits = part.limits;
        let answer = self.ask(Action::Inspect, part, name.slot, given).await?;
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
}
