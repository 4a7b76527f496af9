//! Reservations: holds, leases and limits on the units in open holds.
//!
//! The reservations of a key are stored with its state, so each operation on one key is one atomic step. A reservation of
//! several requests in different slots of a cluster is made in each slot at once, and given back if one slot denies.
//! A reserve or a lease is never sent again after a lost reply. It may have been granted; then it ends by itself.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tidegate::{
    Cost, Decision, Hold, Key, Lease, Leased, Mode, Op, Policy, PolicySource, ReservationError, ReservationId,
    Reserved, ReservedAll, Settled, Spend, StoreError, external_store,
};

use crate::{
    error::Error,
    key_name::{KeyNames, Subject},
    pending_request::GroupReply,
    reply::{ChangeReply, LeaseReply, Reader},
    reservation_id::{nonce, open, seal},
    reservation_requests::{Scope, change, decision_after, decision_of_reserve, lease, reserve},
    stats::count,
    stopwatch,
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

impl RedisStore {
    /// Sends the release of a hold without waiting for its answer, for a guard that is dropped.
    ///
    /// At most [`queue`](crate::RedisStoreBuilder::queue) of these releases are under way. One more is dropped, and so is one
    /// that Redis does not answer; both are counted in [`releases_dropped`](crate::Stats::releases_dropped). The hold then
    /// ends by itself.
    pub fn release_detached(&self, id: &ReservationId, policy: &Policy) {
        let counters = Arc::clone(&self.context().counters);
        let Ok(permit) = Arc::clone(&self.inner.releases).try_acquire_owned() else {
            return count(&counters.releases_dropped);
        };
        let (store, id, policy) = (self.clone(), id.clone(), policy.clone());
        self.inner.runtime.spawn(async move {
            if commit(&store, &id, &[0], &policy).await.is_err() {
                count(&counters.releases_dropped);
            }
            drop(permit);
        });
    }

    fn request_of(&self, subject: &Subject, policy: &Policy, cost: Cost, payload: &[u8]) -> KeyRequest {
        KeyRequest::new(self.names().name_of(policy, subject), policy, cost, None).with_payload(payload)
    }

    /// The new keys that a reservation may create.
    fn new_keys_for(&self, policy: &Policy) -> NewKeys {
        match self.time {
            Some(_) => NewKeys::Always,
            None if policy.is_supplied_by_caller() => NewKeys::OfCallers,
            None => NewKeys::OfPolicies,
        }
    }

    /// Asks for a hold or a lease, which creates no key if there is no room.
    async fn ask_for_grant(
        &self,
        step: ReservationStep,
        parts: Vec<KeyRequest>,
        new_keys: NewKeys,
        deadline: u64,
    ) -> Result<GroupReply, Error> {
        let answer = self.ask_group(Action::Reservation(step), parts, new_keys, deadline).await?;
        if answer.no_room { Err(Error::NoRoom) } else { Ok(answer) }
    }

    /// The units of a request are known to be limited, and many requests wait for Redis.
    fn is_known_to_be_limited(&self, spend: &Spend<'_>) -> bool {
        let request = self.request(spend.policy, spend.key, spend.cost, None);
        self.time.is_none() && self.is_known_under_pressure(Op::Check, &request)
    }

    /// Counts a decision of Redis, and remembers a denial.
    fn note_grant(&self, spend: &Spend<'_>, decision: &Decision, is_full: bool, asked: u64) {
        let counters = &self.context().counters;
        count(if decision.is_allowed() { &counters.allowed } else { &counters.denied });
        if decision.charged_at().is_some() {
            count(&counters.grants);
        }
        if self.time.is_none() && !is_full {
            let request = self.request(spend.policy, spend.key, spend.cost, None);
            self.note_answer(&request, Op::Check, decision, asked);
        }
    }
}

/// Reserves one request.
pub(crate) async fn reserve_one(store: &RedisStore, spend: &Spend<'_>, hold: Hold) -> Result<Reserved, StoreError> {
    let ttl = external_store::hold_ttl_us(spend.policy, hold.ttl())?;
    match ask_reserve(store, spend, hold, ttl).await {
        Ok(reserved) => Ok(reserved?),
        Err(error) if store.time.is_some() => Err(error.into()),
        Err(error) => match store.known_denial(Op::Check, spend) {
            Some(denial) => Ok(Reserved::new(store.inner.fallback.remembered(&error, denial), None)),
            None => Ok(store.inner.fallback.reserve(&error, spend, hold)?),
        },
    }
}

async fn ask_reserve(
    store: &RedisStore,
    spend: &Spend<'_>,
    hold: Hold,
    ttl: u64,
) -> Result<Result<Reserved, ReservationError>, Error> {
    let Spend { policy, key, cost } = *spend;
    if store.is_known_to_be_limited(spend) {
        return Err(Error::Overloaded);
    }
    let (secret, nonce, subject) = (store.secret(policy).await?, nonce(), KeyNames::subject(key));
    let request = store.request_of(&subject, policy, cost, &reserve(policy, hold, ttl, nonce, &[]));
    let (asked, new_keys) = (stopwatch::micros(), store.new_keys_for(policy));
    let answer = store.ask_for_grant(ReservationStep::Reserve, vec![request], new_keys, store.deadline()).await?;
    let reply = Reader::new(answer.bytes()).grant(policy.limits().len())?;
    let mut decision = decision_of_reserve(&reply, policy, cost)?;
    store.note_grant(spend, &decision, reply.full_for_us.is_some(), asked);
    if reply.key.joined {
        decision = external_store::degraded(decision);
    }
    let id = decision.is_allowed().then(|| seal(&secret, &subject, policy, nonce)).transpose();
    Ok(id.map(|id| Reserved::new(decision, id)))
}

/// Reserves several requests as one.
pub(crate) async fn reserve_all(
    store: &RedisStore,
    spends: &[Spend<'_>],
    hold: Hold,
) -> Result<ReservedAll, StoreError> {
    let (distinct, part_of) = external_store::distinct(spends)?;
    let ttls: Vec<u64> =
        distinct.iter().map(|spend| external_store::hold_ttl_us(spend.policy, hold.ttl())).collect::<Result<_, _>>()?;
    let nonce = nonce();
    let subjects: Vec<Subject> = distinct.iter().map(|spend| KeyNames::subject(spend.key)).collect();
    let secret = store.secret(distinct[0].policy).await;
    let id = |part: &usize| match &secret {
        Ok(secret) => seal(secret, &subjects[*part], distinct[*part].policy, nonce),
        Err(_) => Ok(ReservationId::never_granted(distinct[*part].policy, nonce)),
    };
    let ids: Vec<ReservationId> = part_of.iter().map(id).collect::<Result<_, _>>()?;
    let others = if spends.len() > 1 { ReservationId::join(&ids) } else { Vec::new() };
    let request = |(i, spend): (usize, &Spend<'_>)| {
        let others = if i == 0 { others.as_slice() } else { &[] };
        store.request_of(&subjects[i], spend.policy, spend.cost, &reserve(spend.policy, hold, ttls[i], nonce, others))
    };
    let requests: Vec<KeyRequest> = distinct.iter().enumerate().map(request).collect();
    let joint = JointReserve { store, spends: &distinct, requests: &requests, nonce, hold };
    let decided = joint.decide(secret.err()).await?;
    let decisions = external_store::combine(spends, part_of.into_iter().map(|part| decided[part]).collect());
    let id = decisions.overall.is_allowed().then(|| ids[0].clone());
    Ok(ReservedAll::new(decisions, id))
}

/// One reservation of distinct requests.
struct JointReserve<'a> {
    store: &'a RedisStore,
    spends: &'a [Spend<'a>],
    requests: &'a [KeyRequest],
    nonce: [u8; 16],
    hold: Hold,
}

impl JointReserve<'_> {
    /// Reserves in each slot at once, unless a reason prevents that. If one slot denies, the holds of the others are
    /// released.
    async fn decide(&self, prevented: Option<Error>) -> Result<Vec<Decision>, StoreError> {
        let store = self.store;
        // One request that is known to be limited denies the reservation.
        let is_limited = || self.spends.iter().any(|spend| store.is_known_to_be_limited(spend));
        let prevented = prevented.or_else(|| is_limited().then_some(Error::Overloaded));
        let error = prevented.clone().unwrap_or(Error::Garbled);
        let mut parts: Vec<Result<Decision, Error>> = self.spends.iter().map(|_| Err(error.clone())).collect();
        if prevented.is_none() {
            let calls = calls_by_slot(self.requests.iter(), store.context().is_cluster);
            let answers = join_all(calls.iter().map(|call| self.ask_slot(call))).await;
            for (call, answer) in calls.iter().zip(answers) {
                for (i, position) in call.iter().enumerate() {
                    parts[*position] = answer.as_ref().map_err(Clone::clone).map(|decisions| decisions[i]);
                }
            }
        }
        let denied = self.spends.iter().zip(&parts).any(|(spend, part)| self.vetoes(spend, part));
        if denied {
            self.give_back(&mut parts).await;
        }
        if store.time.is_some() {
            return Ok(parts.into_iter().collect::<Result<_, Error>>()?);
        }
        let finish = |(part, spend): (Result<Decision, Error>, &Spend<'_>)| match part {
            Ok(decision) => Ok(decision),
            Err(error) => match store.known_denial(Op::Check, spend) {
                Some(denial) => Ok(store.inner.fallback.remembered(&error, denial)),
                None => store.inner.fallback.decide_part(&error, spend, self.hold, denied),
            },
        };
        Ok(parts.into_iter().zip(self.spends).map(finish).collect::<Result<_, _>>()?)
    }

    async fn ask_slot(&self, call: &[usize]) -> Result<Vec<Decision>, Error> {
        let parts = call.iter().map(|position| self.requests[*position].clone()).collect();
        let caller = call.iter().find(|position| self.spends[**position].policy.is_supplied_by_caller());
        let new_keys = self.store.new_keys_for(self.spends[*caller.unwrap_or(&call[0])].policy);
        let asked = stopwatch::micros();
        let deadline = self.store.deadline();
        let answer = self.store.ask_for_grant(ReservationStep::Reserve, parts, new_keys, deadline).await?;
        let mut reader = Reader::new(answer.bytes());
        let decision = |position: &usize| {
            let spend = &self.spends[*position];
            let reply = reader.grant(spend.policy.limits().len())?;
            let decision = decision_of_reserve(&reply, spend.policy, spend.cost)?;
            self.store.note_grant(spend, &decision, reply.full_for_us.is_some(), asked);
            Ok(if reply.key.joined { external_store::degraded(decision) } else { decision })
        };
        call.iter().map(decision).collect()
    }

    fn vetoes(&self, spend: &Spend<'_>, part: &Result<Decision, Error>) -> bool {
        match part {
            Ok(decision) => !decision.is_allowed(),
            Err(error) => {
                spend.policy.mode() == Mode::Enforce
                    && !(self.store.time.is_none()
                        && self.store.known_denial(Op::Check, spend).is_none()
                        && self.store.inner.fallback.admits(error, spend))
            }
        }
    }

    /// Releases what was reserved, so that nothing is. What can't be released ends by itself.
    async fn give_back(&self, parts: &mut [Result<Decision, Error>]) {
        let held = self.spends.iter().zip(self.requests).zip(parts).filter_map(|((spend, request), part)| {
            part.as_ref().ok()?.charged_at()?;
            Some((spend, request, part))
        });
        join_all(held.map(async |(spend, request, part)| {
            let payload = change(Scope::Part, self.nonce, 0);
            let release = KeyRequest::new(request.name.clone(), spend.policy, Cost::ONE, None).with_payload(&payload);
            let action = Action::Reservation(ReservationStep::Commit);
            let released = self.store.ask(action, release).await.and_then(|answer| {
                match Reader::new(answer.bytes()).change(spend.policy.limits().len())? {
                    ChangeReply::Done { key, .. } => decision_after(&key, spend.policy),
                    _ => Err(Error::Garbled),
                }
            });
            if released.is_ok() {
                *part = released;
            }
        }))
        .await;
    }
}

/// One call for each slot, with the positions of its requests.
fn calls_by_slot<'a>(requests: impl Iterator<Item = &'a KeyRequest>, is_cluster: bool) -> Vec<Vec<usize>> {
    let mut calls: Vec<(u16, Vec<usize>)> = Vec::new();
    for (position, request) in requests.enumerate() {
        let slot = if is_cluster { request.name.slot } else { 0 };
        match calls.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, call)) => call.push(position),
            None => calls.push((slot, vec![position])),
        }
    }
    calls.into_iter().map(|(_, call)| call).collect()
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
    change_reservation(store, Change::Commit, id, actual, policies).await
}

/// Sets the end of a hold: see [`Store::renew`](tidegate::Store::renew).
pub(crate) async fn renew(
    store: &RedisStore,
    id: &ReservationId,
    ttl: Duration,
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    let ttl_us = external_store::hold_ttl_us(&*id.policy(policies)?, ttl)?;
    if is_local(id) {
        return Ok(store.inner.fallback.renew(id, ttl, policies)?);
    }
    change_reservation(store, Change::Renew, id, &[ttl_us], policies).await
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

/// Sets units aside for a node: see [`Store::lease`](tidegate::Store::lease).
pub(crate) async fn lease_units(
    store: &RedisStore,
    policy: &Policy,
    key: &Key<'_>,
    asked: &Lease,
) -> Result<Leased, StoreError> {
    let ttl = external_store::lease_ttl_us(policy, asked)?;
    let (secret, nonce, subject) = (store.secret(policy).await?, nonce(), KeyNames::subject(key));
    let earlier = match &asked.settle {
        None => None,
        Some((earlier, spent)) => {
            external_store::check_amount(*spent)?;
            let mut is_of_key = false;
            for secret in store.secrets(policy).await? {
                is_of_key |= open(&secret, earlier, policy)? == subject;
            }
            if !is_of_key {
                return Err(ReservationError::OtherKey.into());
            }
            Some((earlier.nonce(), *spent))
        }
    };
    let request = store.request_of(&subject, policy, asked.least, &lease(policy, asked, ttl, nonce, earlier));
    let new_keys = store.new_keys_for(policy);
    let answer = store.ask_for_grant(ReservationStep::Lease, vec![request], new_keys, store.deadline()).await?;
    match Reader::new(answer.bytes()).lease(policy.limits().len())? {
        LeaseReply::SpentTooMuch { units } => {
            let spent = earlier.map_or(0, |(_, spent)| spent);
            Err(ReservationError::SpentTooMuch { spent, units }.into())
        }
        LeaseReply::Decided { settled, granted: 0, grant } => {
            Ok(Leased::new(decision_of_reserve(&grant, policy, asked.least)?, None, 0, settled))
        }
        LeaseReply::Decided { settled, granted, grant } => {
            count(&store.context().counters.grants);
            let id = seal(&secret, &subject, policy, nonce)?;
            Ok(Leased::new(decision_after(&grant.key, policy)?, Some(id), granted, settled))
        }
    }
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
    let policy = id.policy(policies)?;
    let amounts = |parts| Err(ReservationError::Amounts { given: numbers.len(), parts }.into());
    if id.is_never_granted() {
        return if numbers.len() == 1 { Ok(external_store::unknown_reservation(&policy)) } else { amounts(1) };
    }
    let mut settled = None;
    for secret in store.secrets(&policy).await? {
        let found = change_at(store, kind, id, &open(&secret, id, &policy)?, numbers, policies).await?;
        let Some(found) = found else { return amounts(1) };
        let is_known = found.known;
        settled.get_or_insert(found);
        if is_known {
            return Ok(found);
        }
    }
    if let Some(secret) = store.other_secret(&policy).await
        && let Some(found) = change_at(store, kind, id, &open(&secret, id, &policy)?, numbers, policies).await?
        && found.known
    {
        return Ok(found);
    }
    count(&store.context().counters.unknown_commits);
    Ok(settled.unwrap_or_else(|| external_store::unknown_reservation(&policy)))
}

/// Changes a reservation whose first request is of `subject`. `None` if there are several numbers but one request.
async fn change_at(
    store: &RedisStore,
    kind: Change,
    id: &ReservationId,
    subject: &Subject,
    numbers: &[u64],
    policies: &dyn PolicySource,
) -> Result<Option<Settled>, StoreError> {
    let policy = id.policy(policies)?;
    let (scope, number) = match numbers {
        [number] => (Scope::Whole, *number),
        _ => (Scope::Show, 0),
    };
    let request = store.request_of(subject, &policy, Cost::ONE, &change(scope, id.nonce(), number));
    let answer = store.ask_and_forget_denial(Action::Reservation(kind.step()), request).await?;
    match Reader::new(answer.bytes()).change(policy.limits().len())? {
        ChangeReply::Done { known, key } => Ok(Some(Settled::new(decision_after(&key, &policy)?, known))),
        ChangeReply::SpentTooMuch { units } => Err(ReservationError::SpentTooMuch { spent: number, units }.into()),
        ChangeReply::Parts([]) => Ok(None),
        ChangeReply::Parts(others) => change_parts(store, kind, others, numbers, policies).await.map(Some),
    }
}

/// Changes all requests of a reservation, whose ids are `others`.
async fn change_parts(
    store: &RedisStore,
    kind: Change,
    others: &[u8],
    numbers: &[u64],
    policies: &dyn PolicySource,
) -> Result<Settled, StoreError> {
    let ids = ReservationId::split(others)?;
    if numbers.len() != 1 && numbers.len() != ids.len() {
        return Err(ReservationError::Amounts { given: numbers.len(), parts: ids.len() }.into());
    }
    let policies: Vec<_> = ids.iter().map(|id| id.policy(policies)).collect::<Result<_, _>>()?;
    let secrets = store.secrets(&policies[0]).await?;
    // The same policy and key twice is one request of the summed cost.
    let mut distinct: Vec<(&ReservationId, &Policy, u64)> = Vec::new();
    for (i, (id, policy)) in ids.iter().zip(&policies).enumerate() {
        let number = if numbers.len() == 1 { numbers[0] } else { numbers[i] };
        match distinct.iter_mut().find(|(other, ..)| *other == id) {
            Some((.., sum)) if matches!(kind, Change::Commit) => *sum += number,
            Some(_) => {}
            None => distinct.push((id, policy, number)),
        }
    }
    let mut settled = None;
    for secret in secrets {
        let mut parts = Vec::new();
        for (id, policy, number) in &distinct {
            let payload = change(Scope::Part, id.nonce(), *number);
            parts.push(Part {
                policy,
                request: store.request_of(&open(&secret, id, policy)?, policy, Cost::ONE, &payload),
            });
        }
        let found = ask_parts(store, kind, &parts).await?;
        settled = Some(found);
        if found.known {
            break;
        }
    }
    settled.ok_or_else(|| Error::Garbled.into())
}

/// Changes the requests of a reservation, one slot after the other. The first request, which has the ids of the others, is
/// the last, so that the operation can be repeated if a slot does not answer.
async fn ask_parts(store: &RedisStore, kind: Change, parts: &[Part<'_>]) -> Result<Settled, StoreError> {
    let mut calls = calls_by_slot(parts.iter().map(|part| &part.request), store.context().is_cluster);
    calls.reverse();
    let (mut decisions, mut known) = (vec![None; parts.len()], false);
    for call in calls {
        let requests: Vec<KeyRequest> = call.iter().map(|position| parts[*position].request.clone()).collect();
        for request in &requests {
            store.forget_denial(&request.name.bytes);
        }
        let action = Action::Reservation(kind.step());
        let answer = store.ask_group(action, requests, NewKeys::Always, store.deadline()).await?;
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
    let decisions: Vec<Decision> = decisions.into_iter().flatten().collect();
    let policies: Vec<&Policy> = parts.iter().map(|part| part.policy).collect();
    Ok(Settled::new(external_store::overall(&policies, &decisions), known))
}
