//! Several requests as one decision, wherever their keys are.
//!
//! Keys that one call can reach are decided in it, all or nothing. In a cluster, those of each slot are: every slot is asked at
//! once to charge its part. If one denies, what the others charged is given back, to the moment it was charged; until then,
//! for the time of one round trip, others see it as spent. A reply that is lost counts as charged.

use futures_util::future::join_all;
use tidegate::{Cost, Decision, Mode, Op, Policy, Spend, Timestamp, remote};

use crate::{
    reply::{By, PartReply, Reader},
    store::RedisStore,
    trouble::Trouble,
    wire::{Action, NewKeys, Part},
};

/// The decision that the script's words on one part amount to.
pub(crate) fn read_decision(
    reader: &mut Reader<'_>,
    limits: usize,
    policy: &Policy,
    op: Op,
    cost: Cost,
) -> Result<Decision, Trouble> {
    let reply = reader.part(limits)?;
    let decision = decision_of(&reply, policy, op, cost, reply.charged.then_some(reply.at));
    Ok(if reply.joined { remote::degraded(decision) } else { decision })
}

fn decision_of(reply: &PartReply, policy: &Policy, op: Op, cost: Cost, charged_at: Option<Timestamp>) -> Decision {
    let told = &reply.told;
    match &reply.by {
        None => remote::decision(policy, op, cost, told, charged_at),
        Some(By::Limits(limits, retry)) => remote::decision_under(policy, limits, op, cost, told, charged_at, *retry),
        Some(By::Ban) => remote::decision_banned(policy, op, told, charged_at),
        Some(By::Exempt) => remote::decision_exempt(policy),
    }
}

/// Requests that are decided in one call, by their places among all.
struct Together {
    slot: u16,
    places: Vec<usize>,
}

/// What several slots said.
pub(crate) struct Decided {
    /// Of each request, in order.
    pub(crate) parts: Vec<Result<Decision, Trouble>>,
    /// Whether the decision is a denial, so that nothing of it may be charged.
    pub(crate) denied: bool,
}

/// Decides distinct requests as one. The outer error is for all of them, an inner one for those of a slot: `admits` says what
/// the choice for that case makes of such a request.
pub(crate) async fn decide(
    store: &RedisStore,
    op: Op,
    spends: &[Spend<'_>],
    given: Option<Timestamp>,
    admits: impl Fn(&Trouble, &Spend<'_>) -> bool,
) -> Result<Decided, Trouble> {
    let names: Vec<_> = spends.iter().map(|spend| store.name(spend.policy, spend.key, given)).collect();
    let new_keys = match given {
        Some(_) => NewKeys::Always,
        None if spends.iter().any(|spend| spend.policy.name().is_none()) => NewKeys::OfCallers,
        None => NewKeys::OfPolicies,
    };
    let mut calls: Vec<Together> = Vec::new();
    for (place, name) in names.iter().enumerate() {
        match calls.iter_mut().find(|call| !store.is_cluster() || call.slot == name.slot) {
            Some(call) => call.places.push(place),
            None => calls.push(Together { slot: name.slot, places: vec![place] }),
        }
    }
    let ask = async |call: &Together| {
        let part =
            |place: &usize| Part::new(names[*place].bytes.clone(), spends[*place].policy, spends[*place].cost, None);
        let mut parts: Vec<Part> = call.places.iter().map(part).collect();
        let limits: Vec<usize> = parts.iter().map(|part| part.limits).collect();
        let mut answer = store.ask(Action::Decide(op), parts.clone(), call.slot, new_keys, given).await?;
        let mut overflows = vec![false; parts.len()];
        if answer.no_room {
            for (i, has_key) in answer.bytes().iter().enumerate() {
                overflows[i] = *has_key == 0;
                if overflows[i] {
                    let Spend { policy, key, .. } = spends[call.places[i]];
                    // In a cluster the overflow key is in another slot.
                    let name = store.overflow_name(policy, key).filter(|_| !store.is_cluster());
                    parts[i].key = name.ok_or(Trouble::NoRoom)?.bytes;
                    store.count_no_room();
                }
            }
            answer = store.ask(Action::Decide(op), parts, call.slot, NewKeys::Always, given).await?;
        }
        let mut reader = Reader::new(answer.bytes());
        let each = call.places.iter().zip(limits).zip(overflows);
        each.map(|((place, limits), overflows)| {
            let Spend { policy, cost, .. } = spends[*place];
            let decision = read_decision(&mut reader, limits, policy, op, cost)?;
            Ok(if overflows { remote::degraded(decision) } else { decision })
        })
        .collect::<Result<Vec<_>, Trouble>>()
    };
    if let [only] = calls.as_slice() {
        let parts = ask(only).await?.into_iter().map(Ok).collect();
        return Ok(Decided { parts, denied: false });
    }
    let answers = join_all(calls.iter().map(&ask)).await;
    let mut decided: Vec<Result<Decision, Trouble>> = spends.iter().map(|_| Err(Trouble::Garbled)).collect();
    for (call, answer) in calls.iter().zip(answers) {
        match answer {
            Ok(decisions) => {
                for (place, decision) in call.places.iter().zip(decisions) {
                    decided[*place] = Ok(decision);
                }
            }
            Err(trouble) => call.places.iter().for_each(|place| decided[*place] = Err(trouble.clone())),
        }
    }
    let vetoes = |(spend, decision): (&Spend<'_>, &Result<Decision, Trouble>)| match decision {
        Ok(decision) => !decision.is_allowed(),
        Err(trouble) => spend.policy.mode() == Mode::Enforce && !admits(trouble, spend),
    };
    let denied = op == Op::Check && spends.iter().zip(&decided).any(vetoes);
    if denied {
        give_back(store, spends, &mut decided, given).await;
    }
    Ok(Decided { parts: decided, denied })
}

/// Gives back what was charged, so that the decision has charged nothing.
async fn give_back(
    store: &RedisStore,
    spends: &[Spend<'_>],
    decided: &mut [Result<Decision, Trouble>],
    given: Option<Timestamp>,
) {
    let undo = spends.iter().zip(decided).filter_map(|(spend, decision)| {
        let charged_at = decision.as_ref().ok()?.charged_at()?;
        Some((spend, decision, charged_at))
    });
    join_all(undo.map(async |(spend, decision, charged_at)| {
        let Spend { policy, key, cost } = *spend;
        let name = store.name(policy, key, given);
        let part = Part::new(name.bytes, policy, cost, Some(charged_at));
        let limits = part.limits;
        let told = match store.ask(Action::Refund, vec![part], name.slot, NewKeys::Always, given).await {
            Ok(answer) => Reader::new(answer.bytes()).part(limits),
            Err(trouble) => Err(trouble),
        };
        // What can't be given back stays charged: too strict by one cost for one window, never too loose.
        if let Ok(reply) = told {
            // It fitted when it was asked, whatever others have spent since.
            *decision = Ok(decision_of(&reply, policy, Op::Charge, cost, None));
        }
    }))
    .await;
}
