//! Several requests as one decision, wherever their keys are.
//!
//! One call decides the keys that it can reach, all or nothing. In a cluster, one call for each slot charges the keys of
//! that slot, and all calls run at once. If one slot denies, what the others charged is given back to the moment it was
//! charged; for the time of one round trip, other clients see those units in use. A lost reply counts as charged.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Decisions, Mode, Op, Policy, Spend, StoreError, Timestamp, external_store};

use crate::{
    error::Error,
    key_name::KeyName,
    reply::{AppliedOverride, KeyReply, Reader},
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys},
};

/// Decides several requests as one. A request that Redis does not decide is decided by its failure choice. At a given
/// time there is no failure choice, and an error is returned.
pub(crate) async fn decide(store: &RedisStore, op: Op, spends: &[Spend<'_>]) -> Result<Decisions, StoreError> {
    let (distinct, part_of) = external_store::distinct(spends)?;
    let decided = decide_distinct(store, op, &distinct).await?;
    Ok(external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect()))
}

async fn decide_distinct(store: &RedisStore, op: Op, spends: &[Spend<'_>]) -> Result<Vec<Decision>, Error> {
    let denial = |spend: &Spend<'_>| store.known_denial(op, spend.policy, spend.key, spend.cost);
    let admits = |error: &Error, spend: &Spend<'_>| {
        store.time().is_none() && denial(spend).is_none() && store.fallback().admits(error, spend)
    };
    let decided = decide_in_redis(store, op, spends, admits).await;
    if store.time().is_some() {
        return decided?.parts.into_iter().collect();
    }
    let DecidedParts { parts, denied } = match decided {
        Ok(decided) => decided,
        Err(error) => return Ok(store.fallback().decide_all(&error, op, spends, denial)),
    };
    // A denied decision charges nothing, neither in Redis nor in this process.
    let local_op = if denied { Op::Peek } else { op };
    let decide_part = |(part, spend): (Result<Decision, Error>, &Spend<'_>)| match part {
        Ok(decision) => store.counted(op, decision),
        Err(error) => match denial(spend) {
            Some(denial) => store.fallback().remembered(&error, denial),
            None => store.fallback().decide(&error, local_op, spend.policy, spend.key, spend.cost),
        },
    };
    Ok(parts.into_iter().zip(spends).map(decide_part).collect())
}

/// Reads the decision on one part from the reply of the script.
pub(crate) fn read_decision(
    reader: &mut Reader<'_>,
    limits: usize,
    policy: &Policy,
    op: Op,
    cost: Cost,
) -> Result<Decision, Error> {
    let reply = reader.key_reply(limits)?;
    let decision = decision_of(&reply, policy, op, cost, reply.charged.then_some(reply.at))?;
    Ok(if reply.joined { external_store::degraded(decision) } else { decision })
}

fn decision_of(
    reply: &KeyReply<'_>,
    policy: &Policy,
    op: Op,
    cost: Cost,
    charged_at: Option<Timestamp>,
) -> Result<Decision, Error> {
    let limit_statuses = &reply.limits();
    let decision = match &reply.applied {
        None => external_store::decision(policy, op, cost, limit_statuses, charged_at),
        Some(AppliedOverride::Limits(limits)) => external_store::decision_under(
            policy,
            &limits.decode()?,
            op,
            cost,
            limit_statuses,
            charged_at,
            reply.whole_wait_us,
        ),
        Some(AppliedOverride::Ban) => external_store::decision_banned(policy, op, limit_statuses, charged_at),
        Some(AppliedOverride::Exempt) => Ok(external_store::decision_exempt(policy)),
    };
    decision.map_err(|_| Error::Garbled)
}

/// Requests that one call decides, by their positions among all requests.
struct SlotRequests {
    slot: u16,
    positions: Vec<usize>,
}

/// The answers of all slots.
struct DecidedParts {
    /// One for each request, in order.
    parts: Vec<Result<Decision, Error>>,
    /// Whether the decision is a denial, so that nothing may be charged.
    denied: bool,
}

/// One decision over distinct requests.
struct JointDecision<'a, F> {
    store: &'a RedisStore,
    op: Op,
    spends: &'a [Spend<'a>],
    /// When the caller gives up, by the stopwatch.
    deadline: u64,
    /// Whether a request that Redis did not decide is admitted.
    admits: F,
}

/// The parts of a call, and the index of the part that decides each request; `None` for a request that is left out.
#[derive(Default)]
struct CallParts {
    parts: Vec<KeyRequest>,
    /// For each part, the position of its first request, and whether the key is an overflow key.
    firsts: Vec<(usize, bool)>,
    part_of: Vec<Option<usize>>,
}

/// The key that decides a request.
#[derive(Clone)]
enum DecidingKey {
    Own(Vec<u8>),
    Overflow(Vec<u8>),
    /// There is no room for the key, and the request is admitted uncounted.
    None,
}

impl<F: Fn(&Error, &Spend<'_>) -> bool> JointDecision<'_, F> {
    /// Whether a request that Redis did not decide makes the decision a denial.
    fn vetoes(&self, error: &Error, spend: &Spend<'_>) -> bool {
        self.op == Op::Check && spend.policy.mode() == Mode::Enforce && !(self.admits)(error, spend)
    }

    /// Calls the script for the requests of one slot. If there is no room for some keys, the call is repeated with
    /// overflow keys for them, or without them if they are admitted uncounted.
    async fn ask(&self, call: &SlotRequests, names: &[KeyName]) -> Result<Vec<Result<Decision, Error>>, Error> {
        let is_caller = |position: &usize| self.spends[*position].policy.is_supplied_by_caller();
        let mut new_keys = match self.store.time() {
            Some(_) => NewKeys::Always,
            None if call.positions.iter().any(is_caller) => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        };
        let own_key = |position: &usize| DecidingKey::Own(names[*position].bytes.clone());
        let mut keys: Vec<_> = call.positions.iter().map(own_key).collect();
        loop {
            let call_parts = self.merge(call, &keys)?;
            if call_parts.parts.is_empty() {
                return Ok(call.positions.iter().map(|_| Err(Error::NoRoom)).collect());
            }
            let (action, parts, asked) = (Action::Decide(self.op), call_parts.parts.clone(), stopwatch::micros());
            let answer = self.store.ask_until(action, parts, call.slot, new_keys, self.deadline).await?;
            if !answer.no_room {
                return self.read(call.slot, &call_parts, answer.bytes(), asked);
            }
            let has_key = |part: usize| answer.bytes().get(part).is_some_and(|has_key| *has_key != 0);
            for (i, position) in call.positions.iter().enumerate() {
                let spend = &self.spends[*position];
                // There may be room for a policy's key while there is none for a caller's.
                let may_have_room = new_keys == NewKeys::OfCallers && !spend.policy.is_supplied_by_caller();
                if may_have_room || call_parts.part_of[i].is_none_or(has_key) {
                    continue;
                }
                // In a cluster the overflow key is in another slot.
                let overflow = self.store.overflow_name(spend.policy, spend.key);
                keys[i] = match overflow.filter(|_| !self.store.is_cluster()) {
                    Some(name) => {
                        self.store.count_no_room();
                        DecidingKey::Overflow(name.bytes)
                    }
                    None if self.vetoes(&Error::NoRoom, spend) => return Err(Error::NoRoom),
                    None => DecidingKey::None,
                };
            }
            new_keys = if new_keys == NewKeys::OfCallers { NewKeys::OfPolicies } else { NewKeys::Always };
        }
    }

    /// The parts of a call. Requests that share an overflow key are one part of the summed cost, because the script
    /// reads each part of a decision before it writes any.
    fn merge(&self, call: &SlotRequests, keys: &[DecidingKey]) -> Result<CallParts, Error> {
        let mut merged = CallParts::default();
        for (position, key) in call.positions.iter().zip(keys) {
            let Spend { policy, cost, .. } = self.spends[*position];
            let (key, overflows) = match key {
                DecidingKey::Own(key) => (key, false),
                DecidingKey::Overflow(key) => (key, true),
                DecidingKey::None => {
                    merged.part_of.push(None);
                    continue;
                }
            };
            let shared = overflows.then(|| merged.parts.iter().position(|part| part.key == *key)).flatten();
            let part = shared.unwrap_or(merged.parts.len());
            match merged.parts.get_mut(part) {
                // A sum beyond the range of costs can't be decided on one key.
                Some(part) => part.cost = Cost::new(part.cost + cost.get()).map_err(|_| Error::NoRoom)?.get(),
                None => {
                    merged.parts.push(KeyRequest::new(key.clone(), policy, cost, None));
                    merged.firsts.push((*position, overflows));
                }
            }
            merged.part_of.push(Some(part));
        }
        Ok(merged)
    }

    /// The decision on each request of a call that was sent at `asked`, by the reply to its parts.
    fn read(
        &self,
        slot: u16,
        call: &CallParts,
        reply: &[u8],
        asked: u64,
    ) -> Result<Vec<Result<Decision, Error>>, Error> {
        let mut reader = Reader::new(reply);
        let decision = |(part, (position, overflows)): (&KeyRequest, &(usize, bool))| {
            let cost = Cost::new(part.cost).unwrap_or(self.spends[*position].cost);
            let decision = read_decision(&mut reader, part.limits, self.spends[*position].policy, self.op, cost)?;
            let decision = if *overflows { external_store::degraded(decision) } else { decision };
            if self.store.time().is_none() {
                self.store.note_answer(slot, self.store.subject(part), self.op, cost, &decision, asked);
            }
            Ok(decision)
        };
        let decisions = call.parts.iter().zip(&call.firsts).map(decision).collect::<Result<Vec<_>, Error>>()?;
        let each = call.part_of.iter().map(|part| part.map(|part| decisions[part]).ok_or(Error::NoRoom));
        Ok(each.collect())
    }
}

/// Asks Redis to decide distinct requests as one. The outer error concerns all of them, an inner one the requests of one
/// slot or a request without a key: `admits` says whether such a request is admitted.
async fn decide_in_redis(
    store: &RedisStore,
    op: Op,
    spends: &[Spend<'_>],
    admits: impl Fn(&Error, &Spend<'_>) -> bool,
) -> Result<DecidedParts, Error> {
    let names: Vec<_> = spends.iter().map(|spend| store.name(spend.policy, spend.key)).collect();
    let mut calls: Vec<SlotRequests> = Vec::new();
    for (position, name) in names.iter().enumerate() {
        match calls.iter_mut().find(|call| !store.is_cluster() || call.slot == name.slot) {
            Some(call) => call.positions.push(position),
            None => calls.push(SlotRequests { slot: name.slot, positions: vec![position] }),
        }
    }
    let is_known_denial = |(spend, name): (&Spend<'_>, &KeyName)| {
        let subject = || store.subject(&KeyRequest::new(name.bytes.clone(), spend.policy, spend.cost, None));
        store.is_under_pressure(name.slot, op, subject, spend.cost)
    };
    // One part that is known to be limited denies the decision.
    if store.time().is_none() && op == Op::Check && spends.iter().zip(&names).any(is_known_denial) {
        return Err(Error::Overloaded);
    }
    let joint = JointDecision { store, op, spends, deadline: store.deadline(), admits };
    let vetoes = |(spend, decision): (&Spend<'_>, &Result<Decision, Error>)| match decision {
        Ok(decision) => op == Op::Check && !decision.is_allowed(),
        Err(error) => joint.vetoes(error, spend),
    };
    if let [only] = calls.as_slice() {
        let parts = joint.ask(only, &names).await?;
        let denied = spends.iter().zip(&parts).any(vetoes);
        return Ok(DecidedParts { parts, denied });
    }
    let answers = join_all(calls.iter().map(|call| joint.ask(call, &names))).await;
    let mut parts: Vec<Result<Decision, Error>> = spends.iter().map(|_| Err(Error::Garbled)).collect();
    for (call, answer) in calls.iter().zip(answers) {
        match answer {
            Ok(decisions) => {
                for (position, decision) in call.positions.iter().zip(decisions) {
                    parts[*position] = decision;
                }
            }
            Err(error) => call.positions.iter().for_each(|position| parts[*position] = Err(error.clone())),
        }
    }
    let denied = spends.iter().zip(&parts).any(vetoes);
    if denied {
        give_back(store, spends, &mut parts).await;
    }
    Ok(DecidedParts { parts, denied })
}

/// Gives back what was charged, so that the decision has charged nothing.
async fn give_back(store: &RedisStore, spends: &[Spend<'_>], parts: &mut [Result<Decision, Error>]) {
    let undo = spends.iter().zip(parts).filter_map(|(spend, decision)| {
        let charged_at = decision.as_ref().ok()?.charged_at()?;
        Some((spend, decision, charged_at))
    });
    join_all(undo.map(async |(spend, decision, charged_at)| {
        let Spend { policy, key, cost } = *spend;
        let name = store.name(policy, key);
        let part = KeyRequest::new(name.bytes, policy, cost, Some(charged_at));
        let limits = part.limits;
        let answer = store.ask(Action::Refund, part, name.slot).await;
        let reply = answer.as_ref().map_err(Clone::clone);
        let reply = reply.and_then(|answer| Reader::new(answer.bytes()).key_reply(limits));
        // What can't be given back stays charged: too strict by one cost for one window, never too loose. The request
        // fitted when it was decided, whatever others have spent since.
        if let Ok(refunded) = reply.and_then(|reply| decision_of(&reply, policy, Op::Charge, cost, None)) {
            *decision = Ok(refunded);
        }
    }))
    .await;
}
