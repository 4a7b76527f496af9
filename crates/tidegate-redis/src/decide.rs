//! One request: its decision by Redis or, if Redis gives none, by the failure choice.

use tidegate::{Cost, Decision, Key, Op, Policy, StoreError, external_store};

use crate::{
    decide_all,
    error::Error,
    reply::Reader,
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys},
};

impl RedisStore {
    /// Decides one request. At a given time there is no failure choice.
    pub(crate) async fn decide_one(
        &self,
        op: Op,
        policy: &Policy,
        key: &Key<'_>,
        cost: Cost,
    ) -> Result<Decision, StoreError> {
        match self.decide_in_redis(op, policy, key, cost).await {
            Ok(decision) => Ok(self.counted(op, decision)),
            Err(error) if self.time().is_some() => Err(error.into()),
            Err(error) => Ok(match self.known_denial(op, policy, key, cost) {
                Some(denial) => self.fallback().remembered(&error, denial),
                None => self.fallback().decide(&error, op, policy, key, cost),
            }),
        }
    }

    /// Asks Redis for the decision on one request.
    async fn decide_in_redis(&self, op: Op, policy: &Policy, key: &Key<'_>, cost: Cost) -> Result<Decision, Error> {
        // If there is only one server and its breaker is open, there is nothing else to find out.
        if let Some(node) = self.only_node().filter(|node| !node.state.breaker.is_closed()) {
            return Err(node.state.refusal());
        }
        let is_live = self.time().is_none();
        let name = self.name(policy, key);
        let part = KeyRequest::new(name.bytes, policy, cost, None);
        let (limits, asked) = (part.limits, stopwatch::micros());
        let subject = self.subject(&part);
        if is_live && self.is_under_pressure(name.slot, op, || subject, cost) {
            return Err(Error::Overloaded);
        }
        let new_keys = match policy.is_supplied_by_caller() {
            _ if !is_live => NewKeys::Always,
            true => NewKeys::OfCallers,
            false => NewKeys::OfPolicies,
        };
        let (action, deadline) = (Action::Decide(op), self.deadline());
        let mut answer = match self.ask_until(action, vec![part], name.slot, new_keys, deadline).await {
            // Nothing was done. A second request finds out whether the key exists.
            Err(Error::OutOfMemory) if is_live => {
                let part = KeyRequest::new(self.name(policy, key).bytes, policy, cost, None);
                self.ask_until(action, vec![part], name.slot, NewKeys::Never, deadline).await?
            }
            answer => answer?,
        };
        let (overflows, mut slot) = (answer.no_room, name.slot);
        if overflows {
            let name = self.overflow_name(policy, key).ok_or(Error::NoRoom)?;
            slot = name.slot;
            let part = KeyRequest::new(name.bytes, policy, cost, None);
            answer = match self.ask_until(action, vec![part], slot, NewKeys::Always, deadline).await {
                Err(Error::OutOfMemory) => return Err(Error::NoRoom),
                answer => answer?,
            };
            self.count_no_room();
        }
        let mut decision = decide_all::read_decision(&mut Reader::new(answer.bytes()), limits, policy, op, cost)?;
        if overflows {
            decision = external_store::degraded(decision);
        }
        if is_live {
            self.note_answer(slot, subject, op, cost, &decision, asked);
        }
        Ok(decision)
    }
}
