//! Decisions on one request, or on several as one, wherever their keys are.
//!
//! One call decides the keys that it can reach, all or nothing. In a cluster, one call for each slot charges the keys of
//! that slot, and all calls run at once. If one slot denies, what the others charged is given back to the moment it was
//! charged; for the time of one round trip, other clients see those units in use. A lost reply counts as charged.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Decisions, Mode, Op, Policy, Spend, StoreError, Timestamp, external_store};

use crate::{
    error::Error,
    pending_request::GroupReply,
    reply::{AppliedOverride, KeyReply, Reader, garbled},
    stats::count,
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys},
};

/// Decides several requests as one.
pub(crate) async fn decide_all(store: &RedisStore, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
    let (distinct, part_of) = external_store::distinct(spends)?;
    let decided = decide_distinct(store, op, &distinct).await?;
    Ok(external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect()))
}

/// Decides one request, as most decisions do: without the lists that several requests need.
pub(crate) async fn decide_one(store: &RedisStore, op: Op, spend: &Spend<'_>) -> Result<Decision, Error> {
    let decision = JointDecision { store, op, spends: std::slice::from_ref(spend), deadline: store.deadline() };
    match decision.ask_one(spend).await {
        Err(error) if store.time.is_some() => Err(error),
        part => Ok(finish(store, op, op, spend, part)),
    }
}

/// Decides distinct requests as one. A request that Redis does not decide is decided by its failure choice. At a given
/// time there is no failure choice, and an error is returned.
async fn decide_distinct(store: &RedisStore, op: Op, spends: &[Spend<'_>]) -> Result<Vec<Decision>, Error> {
    let joint = JointDecision { store, op, spends, deadline: store.deadline() };
    let mut parts = joint.ask().await;
    // Whether the decision is a denial, so that nothing may be charged. A single request that is denied is not charged.
    let denied = spends.len() > 1 && spends.iter().zip(&parts).any(|(spend, part)| joint.vetoes(spend, part));
    if denied {
        joint.give_back(&mut parts).await;
    }
    if store.time.is_some() {
        return parts.into_iter().collect();
    }
    let local_op = if denied { Op::Peek } else { op };
    Ok(parts.into_iter().zip(spends).map(|(part, spend)| finish(store, op, local_op, spend, part)).collect())
}

/// Counts a decision of Redis. If there is none, the failure choice decides with `local_op`.
fn finish(store: &RedisStore, op: Op, local_op: Op, spend: &Spend<'_>, part: Result<Decision, Error>) -> Decision {
    let counters = &store.context().counters;
    match part {
        Ok(decision) => {
            if op != Op::Peek {
                count(if decision.is_allowed() { &counters.allowed } else { &counters.denied });
            }
            decision
        }
        Err(error) => match store.known_denial(op, spend) {
            Some(denial) => store.inner.fallback.remembered(&error, denial),
            None => store.inner.fallback.decide(&error, local_op, spend),
        },
    }
}

/// One decision over distinct requests.
struct JointDecision<'a> {
    store: &'a RedisStore,
    op: Op,
    spends: &'a [Spend<'a>],
    /// When the caller gives up, by the stopwatch.
    deadline: u64,
}

impl JointDecision<'_> {
    fn is_live(&self) -> bool {
        self.store.time.is_none()
    }

    /// Whether an answer of Redis makes the decision a denial.
    fn vetoes(&self, spend: &Spend<'_>, part: &Result<Decision, Error>) -> bool {
        let denies = match part {
            Ok(decision) => !decision.is_allowed(),
            Err(error) => spend.policy.mode() == Mode::Enforce && !self.admits(error, spend),
        };
        self.op == Op::Check && denies
    }

    /// Whether a request that Redis did not decide is admitted.
    fn admits(&self, error: &Error, spend: &Spend<'_>) -> bool {
        self.is_live()
            && self.store.known_denial(self.op, spend).is_none()
            && self.store.inner.fallback.admits(error, spend)
    }

    /// The refusal of the only server, if its breaker is open: there is nothing else to find out.
    fn refusal(&self) -> Option<Error> {
        let only_node = if self.store.context().is_cluster { None } else { self.store.inner.router.node(0) };
        only_node.filter(|node| !node.state.breaker.is_closed()).map(|node| node.state.refusal())
    }

    /// Asks Redis to decide the only request.
    async fn ask_one(&self, spend: &Spend<'_>) -> Result<Decision, Error> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let request = self.store.request(spend.policy, spend.key, spend.cost, None);
        if self.is_live() && self.store.is_known_under_pressure(self.op, &request) {
            return Err(Error::Overloaded);
        }
        let (asked, new_keys) = (stopwatch::micros(), self.new_keys(&[0]));
        let parts = vec![request.clone()];
        let answer = self.store.ask_group(Action::Decide(self.op), parts, new_keys, self.deadline).await;
        match answer {
            Ok(answer) if !answer.no_room => {
                self.read_part(spend.policy, &request, false, &mut Reader::new(answer.bytes()), asked)
            }
            Ok(_) | Err(Error::OutOfMemory) => self.ask_slot(&[0], &[request], Some(answer)).await?.remove(0),
            Err(error) => Err(error),
        }
    }

    /// Asks Redis to decide. Returns the answer to each request, in order.
    async fn ask(&self) -> Vec<Result<Decision, Error>> {
        let (store, is_cluster) = (self.store, self.store.context().is_cluster);
        let fail = |error: Error| self.spends.iter().map(|_| Err(error.clone())).collect();
        if let Some(refusal) = self.refusal() {
            return fail(refusal);
        }
        let requests: Vec<_> =
            self.spends.iter().map(|spend| store.request(spend.policy, spend.key, spend.cost, None)).collect();
        // One request that is known to be limited denies the decision.
        let is_known_denial = |request: &KeyRequest| store.is_known_under_pressure(self.op, request);
        if self.is_live() && (self.spends.len() == 1 || self.op == Op::Check) && requests.iter().any(is_known_denial) {
            return fail(Error::Overloaded);
        }
        // One call for each slot, with the positions of its requests.
        let mut calls: Vec<Vec<usize>> = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            let fits = |call: &&mut Vec<usize>| !is_cluster || requests[call[0]].name.slot == request.name.slot;
            match calls.iter_mut().find(fits) {
                Some(call) => call.push(position),
                None => calls.push(vec![position]),
            }
        }
        let answers = join_all(calls.iter().map(|call| self.ask_slot(call, &requests, None))).await;
        let mut parts: Vec<_> = fail(Error::Garbled);
        for (call, answer) in calls.iter().zip(answers) {
            for (i, position) in call.iter().enumerate() {
                parts[*position] = answer.as_ref().map_err(Clone::clone).and_then(|decisions| decisions[i].clone());
            }
        }
        parts
    }

    /// The new keys that the first call for these requests may create.
    fn new_keys(&self, call: &[usize]) -> NewKeys {
        let is_caller = |position: &usize| self.spends[*position].policy.is_supplied_by_caller();
        match self.store.time {
            Some(_) => NewKeys::Always,
            None if call.iter().any(is_caller) => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        }
    }

    /// Calls the script for the requests of one slot, given by their positions, unless the answer to that call is given. If
    /// there is no room for some keys, the call is repeated with overflow keys for them, or without them if they are
    /// admitted uncounted.
    async fn ask_slot(
        &self,
        call: &[usize],
        own: &[KeyRequest],
        mut first: Option<Result<GroupReply, Error>>,
    ) -> Result<Vec<Result<Decision, Error>>, Error> {
        let mut new_keys = self.new_keys(call);
        // `None` if there is no room for the key, and the request is admitted uncounted.
        let mut requests: Vec<_> = call.iter().map(|position| Some(own[*position].clone())).collect();
        loop {
            let (parts, part_of) = merge(&requests)?;
            if parts.is_empty() {
                return Ok(call.iter().map(|_| Err(Error::NoRoom)).collect());
            }
            let asked = stopwatch::micros();
            let answer = match first.take() {
                Some(answer) => answer,
                None => self.store.ask_group(Action::Decide(self.op), parts.clone(), new_keys, self.deadline).await,
            };
            let answer = match answer {
                // Nothing was done. A second call finds out whether the key of the only request exists.
                Err(Error::OutOfMemory) if self.is_live() && self.spends.len() == 1 => match new_keys {
                    NewKeys::OfCallers | NewKeys::OfPolicies => {
                        new_keys = NewKeys::Never;
                        continue;
                    }
                    NewKeys::Always => return Err(Error::NoRoom),
                    NewKeys::Never => return Err(Error::OutOfMemory),
                },
                answer => answer?,
            };
            if !answer.no_room {
                return self.read(call, own, (&parts, &part_of), answer.bytes(), asked);
            }
            let has_key = |part: usize| answer.bytes().get(part).is_some_and(|has_key| *has_key != 0);
            for ((position, request), part) in call.iter().zip(&mut requests).zip(part_of) {
                let spend = &self.spends[*position];
                // There may be room for a policy's key while there is none for a caller's.
                let may_have_room = new_keys == NewKeys::OfCallers && !spend.policy.is_supplied_by_caller();
                if may_have_room || part.is_none_or(has_key) {
                    continue;
                }
                // In a cluster the overflow key is in another slot.
                let is_reachable = self.spends.len() == 1 || !self.store.context().is_cluster;
                *request = match self.store.overflow_name(spend.policy, spend.key).filter(|_| is_reachable) {
                    Some(name) => Some(KeyRequest::new(name, spend.policy, spend.cost, None)),
                    None if self.vetoes(spend, &Err(Error::NoRoom)) => return Err(Error::NoRoom),
                    None => None,
                };
            }
            new_keys = if new_keys == NewKeys::OfCallers { NewKeys::OfPolicies } else { NewKeys::Always };
        }
    }

    /// The decision on each request of a call that was sent at `asked`, by the reply to its parts.
    fn read(
        &self,
        call: &[usize],
        own: &[KeyRequest],
        (parts, part_of): (&[KeyRequest], &[Option<usize>]),
        reply: &[u8],
        asked: u64,
    ) -> Result<Vec<Result<Decision, Error>>, Error> {
        let (mut reader, mut decided) = (Reader::new(reply), Vec::new());
        let decision = |(position, part): (&usize, &Option<usize>)| {
            let Some(index) = *part else { return Ok(Err(Error::NoRoom)) };
            let part = &parts[index];
            let overflows = part.name != own[*position].name;
            if overflows {
                self.store.context().counters.error(&Error::NoRoom);
            }
            // The parts have the order of their first requests.
            if index == decided.len() {
                decided.push(self.read_part(self.spends[*position].policy, part, overflows, &mut reader, asked)?);
            }
            Ok(Ok(decided[index]))
        };
        call.iter().zip(part_of).map(decision).collect()
    }

    /// The decision on one part of a call that was sent at `asked`.
    fn read_part(
        &self,
        policy: &Policy,
        part: &KeyRequest,
        overflows: bool,
        reader: &mut Reader<'_>,
        asked: u64,
    ) -> Result<Decision, Error> {
        let reply = reader.key_reply(part.limits())?;
        let charged_at = reply.charged.then_some(reply.at);
        let mut decision = decision_of(&reply, policy, self.op, part.cost, charged_at)?;
        if overflows || reply.joined {
            decision = external_store::degraded(decision);
        }
        if self.is_live() {
            self.store.note_answer(part, self.op, &decision, asked);
        }
        Ok(decision)
    }

    /// Gives back what was charged, so that the decision has charged nothing.
    async fn give_back(&self, parts: &mut [Result<Decision, Error>]) {
        let charged = self.spends.iter().zip(parts).filter_map(|(spend, part)| {
            let charged_at = part.as_ref().ok()?.charged_at()?;
            Some((spend, part, charged_at))
        });
        join_all(charged.map(async |(Spend { policy, key, cost }, part, charged_at)| {
            let request = self.store.request(policy, key, *cost, Some(charged_at));
            let refunded = self.store.ask(Action::Refund, request).await.and_then(|answer| {
                let reply = Reader::new(answer.bytes()).key_reply(policy.limits().len())?;
                decision_of(&reply, policy, Op::Charge, *cost, None)
            });
            // What can't be given back stays charged: too strict by one cost for one window, never too loose. The request
            // fitted when it was decided, whatever others have spent since.
            if refunded.is_ok() {
                *part = refunded;
            }
        }))
        .await;
    }
}

/// The parts of a call, and the index of the part that decides each request. Requests that share an overflow key are one
/// part of the summed cost, because the script reads each part of a decision before it writes any.
fn merge(requests: &[Option<KeyRequest>]) -> Result<(Vec<KeyRequest>, Vec<Option<usize>>), Error> {
    let (mut parts, mut part_of) = (Vec::<KeyRequest>::new(), Vec::new());
    for request in requests {
        part_of.push(match request {
            None => None,
            Some(request) => match parts.iter_mut().position(|part| part.name == request.name) {
                Some(shared) => {
                    // A sum beyond the range of costs can't be decided on one key.
                    let sum = Cost::new(parts[shared].cost.get() + request.cost.get());
                    parts[shared].cost = sum.map_err(|_| Error::NoRoom)?;
                    Some(shared)
                }
                None => {
                    parts.push(request.clone());
                    Some(parts.len() - 1)
                }
            },
        });
    }
    Ok((parts, part_of))
}

/// The decision that a reply of the script describes.
pub(crate) fn decision_of(
    reply: &KeyReply<'_>,
    policy: &Policy,
    op: Op,
    cost: Cost,
    charged_at: Option<Timestamp>,
) -> Result<Decision, Error> {
    let limits = &reply.limits();
    let decision = match &reply.applied {
        None => external_store::decision(policy, op, cost, limits, charged_at),
        Some(AppliedOverride::Limits(other)) => {
            let other = other.decode()?;
            external_store::decision_under(policy, &other, op, cost, limits, charged_at, reply.whole_wait_us)
        }
        Some(AppliedOverride::Ban) => external_store::decision_banned(policy, op, limits, charged_at),
        Some(AppliedOverride::Exempt) => Ok(external_store::decision_exempt(policy)),
    };
    decision.map_err(garbled)
}
