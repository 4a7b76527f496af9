//! [`Fallback`]: the answers while Redis gives none.
//!
//! `open` admits everything only while the server does not answer at all. It denies a request that was shed because the
//! server does not keep up. If the server answers too late or refuses a request (it has no memory left, for example),
//! `open` decides locally by the whole limits, so that a client that makes the server slow or full gets no more than its
//! limit. [`AtCapacity`] decides on a request for a key without room.

use std::{sync::Arc, time::Duration};

use tidegate::{
    AtCapacity, Decision, Hold, OnStoreFailure, Op, Policy, PolicySource, ReservationError, ReservationId, Reserved,
    ReservedAll, Settled, Share, Spend,
};

use crate::{
    error::Error,
    stats::{Counters, count},
};

#[derive(Debug)]
pub(crate) struct Fallback {
    answers: tidegate::Fallback,
    counters: Arc<Counters>,
    at_capacity: AtCapacity,
}

impl Fallback {
    pub(crate) fn new(counters: Arc<Counters>, at_capacity: AtCapacity) -> Self {
        Self { answers: tidegate::Fallback::default(), counters, at_capacity }
    }

    /// The choice that applies to this error under a policy.
    fn choice(&self, error: &Error, policy: &Policy) -> OnStoreFailure {
        match (error, policy.on_store_failure(), self.at_capacity) {
            (Error::NoRoom, _, AtCapacity::Admit) => OnStoreFailure::Open,
            (Error::NoRoom, ..) | (Error::Overloaded, OnStoreFailure::Open, _) => OnStoreFailure::Closed,
            (error, OnStoreFailure::Open, _) if !error.is_outage() => OnStoreFailure::Local(Share::ALL),
            (_, choice, _) => choice,
        }
    }

    #[inline]
    pub(crate) fn decide(&self, error: &Error, op: Op, spend: &Spend<'_>) -> Decision {
        let choice = self.count(error, spend.policy);
        self.answers.decide(op, spend.policy, spend.key, spend.cost, choice)
    }

    /// Reserves one request by the failure choice. The id is never known, except for a local hold.
    pub(crate) fn reserve(&self, error: &Error, spend: &Spend<'_>, hold: Hold) -> Result<Reserved, ReservationError> {
        let choice = self.count(error, spend.policy);
        self.answers.reserve(spend.policy, spend.key, spend.cost, hold, choice)
    }

    /// Reserves requests of a reservation of several as one, each by the failure choice for its error. If one is denied, none
    /// is reserved.
    pub(crate) fn reserve_all(
        &self,
        spends: &[Spend<'_>],
        errors: &[&Error],
        hold: Hold,
    ) -> Result<ReservedAll, ReservationError> {
        for (spend, error) in spends.iter().zip(errors) {
            self.count(error, spend.policy);
        }
        self.answers.reserve_all_by(spends, hold, |spend| {
            let is_this = |other: &&Spend<'_>| std::ptr::eq(other.policy, spend.policy) && other.key == spend.key;
            let error = spends.iter().position(|other| is_this(&other)).map_or(&Error::Garbled, |i| errors[i]);
            self.choice(error, spend.policy)
        })
    }

    /// Commits a hold that was granted locally.
    pub(crate) fn commit(
        &self,
        id: &ReservationId,
        actual: &[u64],
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.answers.commit(id, actual, policies)
    }

    /// Renews a hold that was granted locally.
    pub(crate) fn renew(
        &self,
        id: &ReservationId,
        ttl: Duration,
        policies: &dyn PolicySource,
    ) -> Result<Settled, ReservationError> {
        self.answers.renew(id, ttl, policies)
    }

    /// Counts an answer without Redis. Returns the choice that applies.
    #[inline]
    fn count(&self, error: &Error, policy: &Policy) -> OnStoreFailure {
        let choice = self.choice(error, policy);
        self.counters.error(error);
        count(match choice {
            OnStoreFailure::Open => &self.counters.degraded_open,
            OnStoreFailure::Closed => &self.counters.degraded_closed,
            OnStoreFailure::Local(_) => &self.counters.degraded_local,
        });
        choice
    }

    /// Whether the failure choice admits a request that Redis does not answer. Nothing is charged or counted.
    pub(crate) fn admits(&self, error: &Error, spend: &Spend<'_>) -> bool {
        let choice = self.choice(error, spend.policy);
        self.answers.decide(Op::Peek, spend.policy, spend.key, spend.cost, choice).is_allowed()
    }

    /// Denies a request by a remembered denial.
    pub(crate) fn remembered(&self, error: &Error, denial: Decision) -> Decision {
        self.counters.error(error);
        count(&self.counters.remembered);
        denial
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate::{AtCapacity, Cost, Key, Op, Policy, Reason, Spend};

    use super::Fallback;
    use crate::{error::Error, stats::Counters};

    #[test]
    fn open_admits_no_more_than_the_limit_while_redis_answers_and_everything_in_an_outage() {
        let fallback = Fallback::new(Arc::new(Counters::default()), AtCapacity::Shared);
        let policy = Policy::new("p", ["5/1h".parse().expect("a limit")]).expect("a policy");
        let key = Key::new("k").expect("a key");
        let spend = Spend { policy: &policy, key: &key, cost: Cost::ONE };
        let decide = |error| fallback.decide(&error, Op::Check, &spend);
        let answered = [Error::Timeout, Error::Late, Error::TooSlow, Error::OutOfMemory, Error::NoReplicas];
        let late: Vec<_> = (0..10).flat_map(|_| answered.clone().map(decide)).collect();
        assert!(late.iter().all(tidegate::Decision::is_degraded));
        assert!(late[..5].iter().all(|decision| decision.reason() == Reason::Allowed), "{late:?}");
        assert!(late[5..].iter().all(|decision| decision.reason() == Reason::Limited), "{late:?}");
        assert!((0..10).all(|_| decide(Error::Unreachable).is_allowed()), "an outage is known");
        assert!((0..10).all(|_| !decide(Error::Overloaded).is_allowed()), "overload is not an outage");
    }
}
