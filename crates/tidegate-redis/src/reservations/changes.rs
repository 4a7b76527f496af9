//! Commit, renew and settle.

use std::time::Duration;

use tidegate::{
    Cost, Decision, Policy, PolicySource, ReservationError, ReservationId, Settled, StoreError, external_store,
};

use super::{
    calls_by_slot,
    requests::{Scope, change, decision_after},
};
use crate::{
    error::Error,
    key_name::Subject,
    reply::{ChangeReply, Reader},
    stats::count,
    stopwatch::to_micros,
    store::RedisStore,
    wire::{Action, KeyRequest, NewKeys, ReservationStep},
};

/// An operation on the requests of a reservation.
#[derive(Debug, Clone, Copy)]
enum Change {
    Commit,
    Renew,
    Settle,
}

/// A request of a reservation, found by its id.
struct Part<'a> {
    policy: &'a Policy,
    request: KeyRequest,
    /// Whether its units are held in this process, because Redis did not answer for it. Redis need not answer now, either.
    is_held_here: bool,
}

impl Change {
    fn step(self) -> ReservationStep {
        match self {
            Self::Commit => ReservationStep::Commit,
            Self::Renew => ReservationStep::Renew,
            Self::Settle => ReservationStep::Settle,
        }
    }
}

/// Closes a hold: see [`Store::commit`](tidegate::Store::commit).
pub(crate) async fn commit(
    store: &RedisStore,
    id: &ReservationId,
    actual: &[u64],
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    for units in actual {
        external_store::check_amount(*units)?;
    }
    if is_local(id) {
        return Ok(store.inner.fallback.commit(id, actual, policies)?);
    }
    let settled = change_reservation(store, Change::Commit, id, actual, policies).await;
    let fallback = &store.inner.fallback;
    store.inner.local_parts.change(id, settled, actual, None, |id, actual| fallback.commit(id, actual, policies))
}

/// Sets the end of a hold: see [`Store::renew`](tidegate::Store::renew).
pub(crate) async fn renew(
    store: &RedisStore,
    id: &ReservationId,
    ttl: Duration,
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    let ttl_us = match id.policy(policies) {
        // The policies of the other requests bound the ttl.
        Err(ReservationError::PolicyGone { .. }) => to_micros(ttl),
        policy => external_store::hold_ttl_us(&*policy?, ttl)?,
    };
    if is_local(id) {
        return Ok(store.inner.fallback.renew(id, ttl, policies)?);
    }
    let settled = change_reservation(store, Change::Renew, id, &[ttl_us], policies).await;
    let fallback = &store.inner.fallback;
    store.inner.local_parts.change(id, settled, &[ttl_us], Some(ttl), |id, _| fallback.renew(id, ttl, policies))
}

/// Closes a lease: see [`Store::settle`](tidegate::Store::settle).
pub(crate) async fn settle(
    store: &RedisStore,
    id: &ReservationId,
    spent: u64,
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    external_store::check_amount(spent)?;
    change_reservation(store, Change::Settle, id, &[spent], policies).await
}

/// Whether the hold was granted in this process, while Redis did not answer.
fn is_local(id: &ReservationId) -> bool {
    id.place().len() == LOCAL_PLACE
}

/// The number of bytes of a place in the ids of the store in memory.
const LOCAL_PLACE: usize = 16;

/// Changes a reservation. `numbers` are the units or the ttl: one number for all requests, or one for each.
async fn change_reservation(
    store: &RedisStore,
    kind: Change,
    id: &ReservationId,
    numbers: &[u64],
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    if numbers.is_empty() {
        return Err(ReservationError::Amounts { given: 0, parts: 1 }.into());
    }
    let policy = match id.policy(policies) {
        Err(gone @ ReservationError::PolicyGone { .. }) => {
            return change_other_parts(store, kind, id, numbers, policies, gone).await;
        }
        policy => policy?,
    };
    // The number of requests of a reservation that is not open is not known, so any number of amounts is well-formed.
    if id.is_never_granted() {
        return Ok(external_store::unknown_reservation(&policy));
    }
    let deadline = store.deadline();
    let settled = match store.open(id, &policy, deadline).await? {
        Some(subject) => change_at(store, kind, id, &subject, numbers, policies, deadline).await?,
        None => external_store::unknown_reservation(&policy),
    };
    if !settled.known {
        count(&store.context().counters.unknown_commits);
    }
    Ok(settled)
}

/// Changes the other requests of a reservation, the policy of whose id is `gone`.
async fn change_other_parts(
    store: &RedisStore,
    kind: Change,
    id: &ReservationId,
    numbers: &[u64],
    policies: &dyn PolicySource,
    gone: ReservationError,
) -> Result<Settled, StoreError> {
    if id.is_never_granted() || matches!(kind, Change::Settle) {
        return Err(gone.into());
    }
    let (policy, deadline) = (id.stand_in_policy(), store.deadline());
    let Some(subject) = store.open(id, &policy, deadline).await? else { return Err(gone.into()) };
    let payload = change(Scope::Show, id.nonce(), 0);
    let request = store.request_of(&subject, &policy, Cost::ONE, &payload);
    let answer = store.ask_by(Action::Reservation(ReservationStep::Commit), request, deadline).await?;
    match Reader::new(answer.bytes()).change(policy.limits().len())? {
        ChangeReply::Parts(others) if !others.is_empty() => {
            change_parts(store, kind, id, others, numbers, policies).await
        }
        _ => Err(gone.into()),
    }
}

/// Changes a reservation whose first request is of `subject`.
async fn change_at(
    store: &RedisStore,
    kind: Change,
    id: &ReservationId,
    subject: &Subject,
    numbers: &[u64],
    policies: &dyn PolicySource,
    deadline: u64,
) -> Result<Settled, StoreError> {
    let policy = id.policy(policies)?;
    let (scope, number) = match numbers {
        [number] => (Scope::Whole, *number),
        _ => (Scope::Show, 0),
    };
    let request = store.request_of(subject, &policy, Cost::ONE, &change(scope, id.nonce(), number));
    let answer = store.ask_and_forget_denial(Action::Reservation(kind.step()), request, deadline).await?;
    match Reader::new(answer.bytes()).change(policy.limits().len())? {
        ChangeReply::Done { known, key } => Ok(Settled::new(decision_after(&key, &policy)?, known)),
        ChangeReply::SpentTooMuch { units } => Err(ReservationError::SpentTooMuch { spent: number, units }.into()),
        ChangeReply::Parts([]) => Err(ReservationError::Amounts { given: numbers.len(), parts: 1 }.into()),
        ChangeReply::Parts(others) => change_parts(store, kind, id, others, numbers, policies).await,
    }
}

/// Changes all requests of a reservation, whose ids are `others`. A request whose policy is gone ends by itself.
async fn change_parts(
    store: &RedisStore,
    kind: Change,
    head: &ReservationId,
    others: &[u8],
    numbers: &[u64],
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    let ids = ReservationId::split(others)?;
    if numbers.len() != 1 && numbers.len() != ids.len() {
        return Err(ReservationError::Amounts { given: numbers.len(), parts: ids.len() }.into());
    }
    let policies: Vec<_> = ids.iter().map(|id| id.policy(policies).ok()).collect();
    // The same policy and key twice is one request of the summed cost.
    let mut distinct: Vec<(&ReservationId, &Policy, u64, bool)> = Vec::new();
    let here = store.inner.local_parts.positions(head);
    for (i, (id, policy)) in ids.iter().zip(&policies).enumerate() {
        let Some(policy) = policy else { continue };
        let number = if numbers.len() == 1 { numbers[0] } else { numbers[i] };
        if matches!(kind, Change::Renew) {
            external_store::hold_ttl_us(policy, Duration::from_micros(number))?;
        }
        match distinct.iter_mut().find(|(other, ..)| *other == id) {
            Some((_, _, sum, _)) if matches!(kind, Change::Commit) => *sum += number,
            Some(_) => {}
            None => distinct.push((id, policy, number, here.contains(&i))),
        }
    }
    if distinct.is_empty() {
        let name = head.policy_name().unwrap_or_default().to_owned();
        return Err(ReservationError::PolicyGone { name }.into());
    }
    let (deadline, mut parts, mut head_part) = (store.deadline(), Vec::new(), 0);
    for (id, policy, number, is_held_here) in distinct {
        let subject = store.open(id, policy, deadline).await?.ok_or(Error::Garbled)?;
        if id == head {
            head_part = parts.len();
        }
        let payload = change(Scope::Part, id.nonce(), number);
        let request = store.request_of(&subject, policy, Cost::ONE, &payload);
        parts.push(Part { policy, request, is_held_here });
    }
    ask_parts(store, kind, &parts, head_part).await
}

/// Changes the requests of a reservation, one slot after the other. The request of the id, whose record has the ids of the
/// others, is in the last call, so that the operation can be repeated if a slot does not answer.
async fn ask_parts(store: &RedisStore, kind: Change, parts: &[Part<'_>], head: usize) -> Result<Settled, StoreError> {
    let mut calls = calls_by_slot(parts.iter().map(|part| &part.request), store.context().is_cluster);
    calls.sort_by_key(|call| call.contains(&head));
    let (mut decisions, mut known) = (vec![None; parts.len()], false);
    for call in calls {
        let requests: Vec<KeyRequest> = call.iter().map(|position| parts[*position].request.clone()).collect();
        for request in &requests {
            store.forget_denial(&request.name.bytes);
        }
        let action = Action::Reservation(kind.step());
        let answer = match store.ask_group(action, requests, NewKeys::Always, store.deadline()).await {
            Ok(answer) => answer,
            Err(_) if call.iter().all(|position| parts[*position].is_held_here) => continue,
            Err(error) => return Err(error.into()),
        };
        let mut reader = Reader::new(answer.bytes());
        for position in call {
            let policy = parts[position].policy;
            let ChangeReply::Done { known: was_known, key } = reader.change(policy.limits().len())? else {
                return Err(Error::Garbled.into());
            };
            known |= was_known;
            decisions[position] = Some(decision_after(&key, policy)?);
        }
    }
    let (policies, decisions): (Vec<&Policy>, Vec<Decision>) =
        parts.iter().zip(decisions).filter_map(|(part, decision)| Some((part.policy, decision?))).unzip();
    Ok(Settled::new(external_store::overall(&policies, &decisions), known))
}
