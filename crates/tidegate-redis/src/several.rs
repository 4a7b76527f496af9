//! Several requests as one decision, wherever their keys are.
//!
//! Keys that one call can reach are decided in it, all or nothing. In a cluster, those of each slot are: every slot is asked at
//! once to charge its part. If one denies, what the others charged is given back, to the moment it was charged; until then,
//! for the time of one round trip, others see it as spent. A reply that is lost counts as charged.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Mode, Op, Policy, Spend, Timestamp, external_store};

use crate::{
    error::Error,
    key_name::KeyName,
    reply::{AppliedOverride, KeyReply, Reader},
    stopwatch,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys},
};

/// The decision that the script's words on one part amount to.
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
    let told = &reply.limits();
    Ok(match &reply.applied {
        None => external_store::decision(policy, op, cost, told, charged_at),
        Some(AppliedOverride::Limits(limits)) => {
            external_store::decision_under(policy, &limits.decode()?, op, cost, told, charged_at, reply.whole_wait_us)
        }
        Some(AppliedOverride::Ban) => external_store::decision_banned(policy, op, told, charged_at),
        Some(AppliedOverride::Exempt) => external_store::decision_exempt(policy),
    })
}

/// Requests that are decided in one call, by their places among all.
struct Together {
    slot: u16,
    places: Vec<usize>,
}

/// What several slots said.
pub(crate) struct Decided {
    /// Of each request, in order.
    pub(crate) parts: Vec<Result<Decision, Error>>,
    /// Whether the decision is a denial, so that nothing of it may be charged.
    pub(crate) denied: bool,
}

/// One decision over distinct requests.
struct Several<'a, F> {
    store: &'a RedisStore,
    op: Op,
    spends: &'a [Spend<'a>],
    given: Option<Timestamp>,
    /// When the caller gives up, by the stopwatch.
    deadline: u64,
    /// Whether a request is admitted that Redis did not decide.
    admits: F,
}

/// The parts of a call, and the index of the part that decides each request; `None` for a request that is left out.
#[derive(Default)]
struct Merged {
    parts: Vec<KeyRequest>,
    /// For each part, the place of its first request, and whether the key is an overflow key.
    firsts: Vec<(usize, bool)>,
    part_of: Vec<Option<usize>>,
}

/// The key that decides a request.
#[derive(Clone)]
enum Decider {
    Own(Vec<u8>),
    Overflow(Vec<u8>),
    /// No key has room for it, and it is admitted without one.
    Uncounted,
}

impl<F: Fn(&Error, &Spend<'_>) -> bool> Several<'_, F> {
    /// Whether a request that Redis did not decide makes the decision a denial.
    fn vetoes(&self, trouble: &Error, spend: &Spend<'_>) -> bool {
        self.op == Op::Check && spend.policy.mode() == Mode::Enforce && !(self.admits)(trouble, spend)
    }

    /// Asks for the requests of one call. If some of them get no key of their own, the call is made again: with overflow keys
    /// for them, or without them if they are admitted uncounted.
    async fn ask(&self, call: &Together, names: &[KeyName]) -> Result<Vec<Result<Decision, Error>>, Error> {
        let is_caller = |place: &usize| self.spends[*place].policy.is_brought_by_caller();
        let mut new_keys = match self.given {
            Some(_) => NewKeys::Always,
            None if call.places.iter().any(is_caller) => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        };
        let mut deciders: Vec<_> = call.places.iter().map(|place| Decider::Own(names[*place].bytes.clone())).collect();
        loop {
            let merged = self.merge(call, &deciders)?;
            if merged.parts.is_empty() {
                return Ok(call.places.iter().map(|_| Err(Error::NoRoom)).collect());
            }
            let (action, parts, asked) = (Action::Decide(self.op), merged.parts.clone(), stopwatch::micros());
            let answer = self.store.ask_until(action, parts, call.slot, new_keys, self.given, self.deadline).await?;
            if !answer.no_room {
                return self.read(call.slot, &merged, answer.bytes(), asked);
            }
            let has_key = |part: usize| answer.bytes().get(part).is_some_and(|has_key| *has_key != 0);
            for (i, place) in call.places.iter().enumerate() {
                let spend = &self.spends[*place];
                // There may be room for a policy's key where there is none for a caller's.
                let may_have_room = new_keys == NewKeys::OfCallers && !spend.policy.is_brought_by_caller();
                if may_have_room || merged.part_of[i].is_none_or(has_key) {
                    continue;
                }
                // In a cluster the overflow key is in another slot.
                let overflow = self.store.overflow_name(spend.policy, spend.key);
                deciders[i] = match overflow.filter(|_| !self.store.is_cluster()) {
                    Some(name) => {
                        self.store.count_no_room();
                        Decider::Overflow(name.bytes)
                    }
                    None if self.vetoes(&Error::NoRoom, spend) => return Err(Error::NoRoom),
                    None => Decider::Uncounted,
                };
            }
            new_keys = if new_keys == NewKeys::OfCallers { NewKeys::OfPolicies } else { NewKeys::Always };
        }
    }

    /// The parts of a call. Requests that share an overflow key are one part of the summed cost, because the script reads each
    /// part of a decision before it writes any.
    fn merge(&self, call: &Together, deciders: &[Decider]) -> Result<Merged, Error> {
        let mut merged = Merged::default();
        for (place, decider) in call.places.iter().zip(deciders) {
            let Spend { policy, cost, .. } = self.spends[*place];
            let (key, overflows) = match decider {
                Decider::Own(key) => (key, false),
                Decider::Overflow(key) => (key, true),
                Decider::Uncounted => {
                    merged.part_of.push(None);
                    continue;
                }
            };
            let shared = overflows.then(|| merged.parts.iter().position(|part| part.key == *key)).flatten();
            let part = shared.unwrap_or(merged.parts.len());
            match merged.parts.get_mut(part) {
                // A sum that is no cost can't be decided on one key.
                Some(part) => part.cost = Cost::new(part.cost + cost.get()).map_err(|_| Error::NoRoom)?.get(),
                None => {
                    merged.parts.push(KeyRequest::new(key.clone(), policy, cost, None));
                    merged.firsts.push((*place, overflows));
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
        merged: &Merged,
        reply: &[u8],
        asked: u64,
    ) -> Result<Vec<Result<Decision, Error>>, Error> {
        let mut reader = Reader::new(reply);
        let decision = |(part, (place, overflows)): (&KeyRequest, &(usize, bool))| {
            let cost = Cost::new(part.cost).unwrap_or(self.spends[*place].cost);
            let decision = read_decision(&mut reader, part.limits, self.spends[*place].policy, self.op, cost)?;
            let decision = if *overflows { external_store::degraded(decision) } else { decision };
            if self.given.is_none() {
                self.store.note_answer(slot, self.store.subject(part), self.op, cost, &decision, asked);
            }
            Ok(decision)
        };
        let decisions = merged.parts.iter().zip(&merged.firsts).map(decision).collect::<Result<Vec<_>, Error>>()?;
        let each = merged.part_of.iter().map(|part| part.map(|part| decisions[part]).ok_or(Error::NoRoom));
        Ok(each.collect())
    }
}

/// Decides distinct requests as one. The outer error is for all of them, an inner one for those of a slot or for those without
/// a key: `admits` says whether such a request is admitted.
pub(crate) async fn decide(
    store: &RedisStore,
    op: Op,
    spends: &[Spend<'_>],
    given: Option<Timestamp>,
    admits: impl Fn(&Error, &Spend<'_>) -> bool,
) -> Result<Decided, Error> {
    let names: Vec<_> = spends.iter().map(|spend| store.name(spend.policy, spend.key, given)).collect();
    let mut calls: Vec<Together> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        match calls.iter_mut().find(|call| !store.is_cluster() || call.slot == name.slot) {
            Some(call) => call.places.push(place),
            None => calls.push(Together { slot: name.slot, places: vec![place] }),
        }
    }
    let is_known = |(spend, name): (&Spend<'_>, &KeyName)| {
        let subject = || store.subject(&KeyRequest::new(name.bytes.clone(), spend.policy, spend.cost, None));
        store.is_under_pressure(name.slot, op, subject, spend.cost)
    };
    // One part that is known to be limited denies the decision.
    if given.is_none() && op == Op::Check && spends.iter().zip(&names).any(is_known) {
        return Err(Error::Overloaded);
    }
    let several = Several { store, op, spends, given, deadline: store.deadline(given), admits };
    let vetoes = |(spend, decision): (&Spend<'_>, &Result<Decision, Error>)| match decision {
        Ok(decision) => op == Op::Check && !decision.is_allowed(),
        Err(trouble) => several.vetoes(trouble, spend),
    };
    if let [only] = calls.as_slice() {
        let parts = several.ask(only, &names).await?;
        let denied = spends.iter().zip(&parts).any(vetoes);
        return Ok(Decided { parts, denied });
    }
    let answers = join_all(calls.iter().map(|call| several.ask(call, &names))).await;
    let mut decided: Vec<Result<Decision, Error>> = spends.iter().map(|_| Err(Error::Garbled)).collect();
    for (call, answer) in calls.iter().zip(answers) {
        match answer {
            Ok(decisions) => {
                for (place, decision) in call.places.iter().zip(decisions) {
                    decided[*place] = decision;
                }
            }
            Err(trouble) => call.places.iter().for_each(|place| decided[*place] = Err(trouble.clone())),
        }
    }
    let denied = spends.iter().zip(&decided).any(vetoes);
    if denied {
        give_back(store, spends, &mut decided, given).await;
    }
    Ok(Decided { parts: decided, denied })
}

/// Gives back what was charged, so that the decision has charged nothing.
async fn give_back(
    store: &RedisStore,
    spends: &[Spend<'_>],
    decided: &mut [Result<Decision, Error>],
    given: Option<Timestamp>,
) {
    let undo = spends.iter().zip(decided).filter_map(|(spend, decision)| {
        let charged_at = decision.as_ref().ok()?.charged_at()?;
        Some((spend, decision, charged_at))
    });
    join_all(undo.map(async |(spend, decision, charged_at)| {
        let Spend { policy, key, cost } = *spend;
        let name = store.name(policy, key, given);
        let part = KeyRequest::new(name.bytes, policy, cost, Some(charged_at));
        let limits = part.limits;
        // What can't be given back stays charged: too strict by one cost for one window, never too loose.
        if let Ok(answer) = store.ask(Action::Refund, part, name.slot, given).await
            && let Ok(reply) = Reader::new(answer.bytes()).key_reply(limits)
            // It fitted when it was asked, whatever others have spent since.
            && let Ok(refunded) = decision_of(&reply, policy, Op::Charge, cost, None)
        {
            *decision = Ok(refunded);
        }
    }))
    .await;
}
